"""From files, `-params` and flags to one configuration: later layers win, key by key."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sna_rl.config.importables import check_trusted, modules_named
from sna_rl.config.keys import RUN_RULES
from sna_rl.config.layers import check_algorithm, check_layer, is_own_policy
from sna_rl.config.plain import MAX_PATH, Data, label, located, merge, shown
from sna_rl.config.run import RunConfig
from sna_rl.config.yaml import read_yaml
from sna_rl.errors import UsageError, suggestion


def resolve(
    algo: str | None,
    env: str | None,
    overrides: Mapping[str, object] | None = None,
    hyperparams: Mapping[str, object] | None = None,
    conf_file: str | Path | None = None,
    *,
    defaults: Callable[[str], Path],
) -> RunConfig:
    """Lay a file's entry, `-params` and flags over each other and make the configuration.

    Args:
        algo: algorithm; None takes that of a run's config.yml.
        env: environment's id; None takes that of a run's config.yml.
        overrides: RunConfig's fields that the user gave as flags; None counts as not given. Without a seed,
            or with a negative one, a seed is drawn.
        hyperparams: what `-params` gave.
        conf_file: RL Zoo's YAML (one entry an environment, else `default`) or a run's own config.yml. It
            stands in place of the packaged file, as in RL Zoo.
        defaults: gives the packaged YAML file of an algorithm.

    Returns:
        The configuration. Keys that end in `_kwargs` merge, all others replace.

    Raises:
        UsageError: one sentence with the file, the key and what would do.
    """
    flags = {key: value for key, value in (overrides or {}).items() if value is not None}
    trusted = _packages(flags)
    if conf_file is None:
        algo, env = check_algorithm(_given(algo, "--algo")), _given(env, "--env")
        path = str(defaults(algo))
        layers = [_entry(read_yaml(path), env, path)]
    else:
        algo, env, layer, modules = _read_conf(conf_file, algo, env)
        check_trusted(modules, trusted, label(conf_file, MAX_PATH))
        layers = [layer]
    layers += [("-params", dict(hyperparams or {})), ("", flags)]
    return _combine(algo, env, layers)


Layer = tuple[str, Data]
"""Where a layer comes from, for messages, and its keys."""


def _read_conf(conf_file: str | Path, algo: str | None, env: str | None) -> tuple[str, str, Layer, set[str]]:
    """Algorithm, environment and layer that a file gives, and the modules it wants imported."""
    path = label(conf_file, MAX_PATH)
    if path.endswith(".py"):
        raise UsageError(f"{path} is Python, which would have to be executed; give the same keys as YAML")
    data = read_yaml(conf_file)
    if not isinstance(data.get("algo"), str) or not isinstance(data.get("env"), str):
        algo, env = check_algorithm(_given(algo, "--algo")), _given(env, "--env")
        where, entry = _entry(data, env, path)
        with located(where):
            return algo, env, (where, entry), modules_named("", _packages(entry))
    entry = {key: value for key, value in data.items() if key not in ("algo", "env")}
    with located(path):
        own = check_algorithm(data["algo"])
        modules = modules_named("" if env else str(data["env"]), _packages(entry))
    if algo is not None and check_algorithm(algo) != own:
        raise UsageError(
            f"{path} is a configuration for {own}, not {algo}; give --algo {own} or another file"
        )
    return own, env or str(data["env"]), (path, entry), modules


def _entry(data: Data, env: str, path: str) -> Layer:
    """What RL Zoo's YAML says for an environment, and where."""
    is_atari = env.startswith("ALE/") or "NoFrameskip" in env
    for key in (env, env.rpartition(":")[2], *(["atari"] if is_atari else []), "default"):
        if key in data:
            entry = data[key]
            if not isinstance(entry, dict):
                raise UsageError(f"{path}, {label(key)}: must be a mapping of keys, not {shown(entry)}")
            return f"{path}, {label(key)}", entry
    known = [key for key in data if key.isprintable()][:20]
    raise UsageError(
        f"{path} has neither an entry for {shown(env)} nor one named 'default'{suggestion(env, known)}"
    )


def _combine(algo: str, env: str, layers: list[Layer]) -> RunConfig:
    policies = [layer["policy"] for _, layer in layers if layer.get("policy") is not None]
    own_policy = is_own_policy(policies[-1] if policies else None)
    merged: Data = {}
    for where, layer in layers:
        with located(where):
            merged = merge(merged, check_layer(algo, _without_flags(layer), own_policy=own_policy))
    merged.setdefault("seed", secrets.randbelow(2**31))
    return RunConfig.from_dict({"algo": algo, "env": env, **merged})


def _without_flags(layer: Data) -> Data:
    """The layer without a negative seed, which asks for one to be drawn."""
    for key in ("algo", "env"):
        if key in layer:
            raise UsageError(f"{key} is given by the flag --{key}, not here")
    seed = layer.get("seed")
    if isinstance(seed, int) and seed < 0:
        return {key: value for key, value in layer.items() if key != "seed"}
    return layer


def _given(value: str | None, flag: str) -> str:
    if value is None:
        raise UsageError(f"{flag} is missing; give it, or a run's config.yml with -conf")
    return value


def _packages(layer: Mapping[str, object]) -> list[str]:
    packages: Any = RUN_RULES["gym_packages"].check("gym_packages", layer.get("gym_packages", []))
    return list(packages)
