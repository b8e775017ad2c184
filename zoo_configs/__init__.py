"""Hyperparameters that come with the package: one YAML file an algorithm, one entry an environment."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from sna_rl import config
from sna_rl.config import ALGORITHMS, RunConfig
from sna_rl.errors import UsageError, suggestion

__all__ = ["path", "resolve"]


def path(algo: str) -> Path:
    """The packaged YAML file of an algorithm.

    Args:
        algo: "sac", "td3" or "dqn".

    Returns:
        Its path; it opens in `sna_rl.config.read_yaml` and in RL Zoo alike.

    Raises:
        UsageError: if there is none.

    Example:
        >>> path("sac").name
        'sac.yml'
    """
    if algo not in ALGORITHMS:
        raise UsageError(f"unknown algorithm {algo!r}{suggestion(algo, ALGORITHMS)}")
    return Path(str(files(__name__) / f"{algo}.yml"))


def resolve(
    algo: str | None,
    env: str | None,
    overrides: Mapping[str, object] | None = None,
    hyperparams: Mapping[str, object] | None = None,
    conf_file: str | Path | None = None,
) -> RunConfig:
    """`sna_rl.config.resolve` with the packaged files beneath.

    Args:
        algo: algorithm; None takes that of a run's config.yml.
        env: environment's id; None takes that of a run's config.yml.
        overrides: fields given as flags.
        hyperparams: what `-params` gave.
        conf_file: YAML file in place of the packaged one.

    Returns:
        The configuration.

    Raises:
        UsageError: one sentence with the file, the key and what would do.

    Example:
        >>> resolve("sac", "Swimmer-v5", {"seed": 1}).hyperparams["gamma"]
        0.9999
    """
    return config.resolve(algo, env, overrides, hyperparams, conf_file, defaults=path)
