"""From files, `-params` and flags to one configuration: later layers win, key by key."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from sna_rl.config.importables import check_trusted, modules_named
from sna_rl.config.keys import RUN_RULES
from sna_rl.config.layers import check_algorithm, check_layer, is_own_policy, located
from sna_rl.config.plain import Data, merge
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
    trusted = _trusted(flags)
    if conf_file is None:
        algo, env = check_algorithm(_given(algo, "--algo")), _given(env, "--env")
        path = str(defaults(algo))
        layers = [_entry(read_yaml(path), env, path)]
    else:
        path = str(conf_file)
        if path.endswith(".py"):
            raise UsageError(f"{path} is Python, which would have to be executed; give the same keys as YAML")
        data = read_yaml(path)
        if isinstance(data.get("algo"), str) and isinstance(data.get("env"), str):
            algo, env, entry = _flat(data, algo, env, path)
            check_trusted(modules_named("" if env != data["env"] else env, []), trusted, path)
            layers = [(path, entry)]
        else:
            algo, env = check_algorithm(_given(algo, "--algo")), _given(env, "--env")
            layers = [_entry(data, env, path)]
        check_trusted(_trusted(layers[0][1]), trusted, path)
    layers += [("-params", dict(hyperparams or {})), ("", flags)]
    return _combine(algo, env, layers)


def _combine(algo: str, env: str, layers: list[tuple[str, Data]]) -> RunConfig:
    policies = [layer["policy"] for _, layer in layers if layer.get("policy") is not None]
    own_policy = is_own_policy(policies[-1] if policies else None)
    merged: Data = {}
    for where, layer in layers:
        with located(where):
            for key in ("algo", "env"):
                if key in layer:
                    raise UsageError(f"{key} is given by the flag --{key}, not here")
            seed = layer.get("seed")
            if isinstance(seed, int) and seed < 0:
                layer = {key: value for key, value in layer.items() if key != "seed"}
            merged = merge(merged, check_layer(algo, layer, own_policy=own_policy))
    merged.setdefault("seed", secrets.randbelow(2**31))
    return RunConfig.from_dict({"algo": algo, "env": env, **merged})


def _given(value: str | None, flag: str) -> str:
    if value is None:
        raise UsageError(f"{flag} is missing; give it, or a run's config.yml with -conf")
    return value


def _trusted(layer: Mapping[str, object]) -> list[str]:
    packages = RUN_RULES["gym_packages"].check("gym_packages", layer.get("gym_packages", []))
    assert isinstance(packages, list)
    return packages


def _flat(data: Data, algo: str | None, env: str | None, path: str) -> tuple[str, str, Data]:
    """Algorithm, environment and remaining keys of a run's config.yml."""
    with located(path):
        own = check_algorithm(data["algo"])
    if algo is not None and check_algorithm(algo) != own:
        raise UsageError(
            f"{path} is a configuration for {own}, not {algo}; give --algo {own} or another file"
        )
    entry = {key: value for key, value in data.items() if key not in ("algo", "env")}
    return own, env or str(data["env"]), entry


def _entry(data: Data, env: str, path: str) -> tuple[str, Data]:
    """What RL Zoo's YAML says for an environment, and where."""
    is_atari = env.startswith("ALE/") or "NoFrameskip" in env
    for key in (env, env.rpartition(":")[2], *(["atari"] if is_atari else []), "default"):
        if key in data:
            entry = data[key]
            if not isinstance(entry, dict):
                raise UsageError(f"{path}, {key}: must be a mapping of hyperparameters, not {entry!r}")
            return f"{path}, {key}", entry
    raise UsageError(
        f"{path} has neither an entry for {env!r} nor one named 'default'{suggestion(env, data)}"
    )
