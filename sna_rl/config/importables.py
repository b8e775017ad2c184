"""Which classes a configuration may name: importing runs code, so a file alone never chooses what is run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sna_rl.config.plain import shown
from sna_rl.errors import UsageError

MODULES: Final = (
    "gymnasium.wrappers",
    "sb3_contrib.common.wrappers",
    "sna_rl.agents",
    "sna_rl.envs",
    "stable_baselines3",
    "stable_baselines3.common.atari_wrappers",
    "stable_baselines3.common.buffers",
    "stable_baselines3.common.callbacks",
    "stable_baselines3.common.monitor",
    "stable_baselines3.common.torch_layers",
    "stable_baselines3.common.vec_env",
    "stable_baselines3.her",
)
"""Modules whose classes any configuration may name."""

_CLASS: Final = re.compile(r"[A-Z]\w*", re.ASCII)


def check_importable(name: str, packages: Iterable[str], key: str) -> None:
    """Refuse a dotted name unless it is a class of `MODULES` or of a module the user listed.

    Args:
        name: dotted name of a class.
        packages: modules the user listed with `--gym-packages`.
        key: key it stands under, for the message.

    Raises:
        UsageError: if it is in neither.

    Example:
        >>> check_importable("gymnasium.wrappers.TimeLimit", [], "env_wrapper")
        >>> check_importable("os.system", [], "callback")
        Traceback (most recent call last):
        ...
        sna_rl.errors.UsageError: callback names 'os.system', which is not registered; \
list its module with --gym-packages os if you trust it
    """
    module, _, last = name.rpartition(".")
    if module in MODULES and _CLASS.fullmatch(last):
        return
    if any(name.startswith(f"{package}.") for package in packages):
        return
    raise UsageError(
        f"{key} names {shown(name)}, which is not registered; "
        f"list its module with --gym-packages {module.split('.')[0]} if you trust it"
    )


def modules_named(env: str, packages: Iterable[str]) -> set[str]:
    """Modules that making the environment imports: `packages`, and what stands before the colon of its id.

    Example:
        >>> sorted(modules_named("mine:Maze-v0", ["yours"])), modules_named("sna_rl.envs:SNA/LQR-v0", [])
        (['mine', 'yours'], set())
    """
    prefix = env.rpartition(":")[0]
    return {name for name in (*packages, prefix) if name and name != "sna_rl.envs"}


def check_trusted(modules: Iterable[str], trusted: Iterable[str], where: str) -> None:
    """Refuse modules that a file wants imported and the user did not list.

    Args:
        modules: what the file asks for.
        trusted: what the user listed with `--gym-packages`.
        where: the file, for the message.

    Raises:
        UsageError: naming the first such module.

    Example:
        >>> check_trusted(["mine"], ["mine"], "config.yml")
        >>> check_trusted(["evil"], [], "config.yml")
        Traceback (most recent call last):
        ...
        sna_rl.errors.UsageError: config.yml asks to import 'evil'; add --gym-packages evil if you trust it
    """
    for module in sorted(set(modules) - set(trusted)):
        raise UsageError(f"{where} asks to import {module!r}; add --gym-packages {module} if you trust it")
