"""A run's whole configuration: one frozen record, checked when made, exact in YAML."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, no_type_check

from sna_rl.config.importables import check_importable, check_trusted, modules_named
from sna_rl.config.keys import CRITICS, RUN_RULES
from sna_rl.config.layers import check_algorithm, check_layer, is_own_policy
from sna_rl.config.plain import MAX_PATH, Data, differences, label, located, merge, plain, shown
from sna_rl.config.rules import DOTTED, integer, named_items
from sna_rl.config.yaml import dump_yaml, read_yaml
from sna_rl.errors import UsageError, suggestion


@no_type_check  # a test-time type checker would speak before __post_init__ does
@dataclass(frozen=True)
class RunConfig:
    """What a run is made of; two equal configurations give the same run.

    All containers are copied when the record is made: what a caller passes is never changed and never shared.

    Args:
        algo: "sac", "td3" or "dqn".
        env: id of the environment; `package:Name-v0` imports the package first.
        critic: name of the critic.
        rank: number of components, an int of at least 1; for "tucker" also one int a mode; "auto" chooses
            itself.
        n_timesteps: environment steps to train for.
        seed: seed of every random generator, 0 to 2³¹ − 1.
        folder: where run folders are made.
        tensorboard_log: where TensorBoard events go instead of into the run folder; "" is the run folder.
        eval_freq: environment steps between evaluations; −1 is never.
        eval_episodes: episodes an evaluation.
        n_eval_envs: environments evaluated side by side.
        save_freq: environment steps between checkpoints; −1 is never.
        n_envs: environments trained in side by side.
        vec_env: "dummy" (one process) or "subproc" (one process an environment).
        env_kwargs: arguments of the environment.
        eval_env_kwargs: arguments of the environment in evaluation; None takes `env_kwargs`.
        gym_packages: modules imported before environments are made.
        num_threads: torch's threads.
        device: "auto", "cpu", "mps", "cuda" or "cuda:N".
        update: form of the gradient step: "auto", "compiled", "eager" or "reference".
        hyperparams: every other key of RL Zoo's YAML: the constructor's arguments, `policy`,
            `policy_kwargs`, `normalize`, `frame_stack`, `env_wrapper`, `noise_type` and so on. Schedules and
            names of classes stay text.

    Raises:
        UsageError: if a key is unknown or a value does not fit; one sentence with what would do.

    Example:
        >>> config = RunConfig("sac", "Pendulum-v1", hyperparams={"learning_rate": "lin_3e-4"})
        >>> config.rank, config.hyperparams["learning_rate"]
        (32, 'lin_3e-4')
        >>> RunConfig("sac", "Pendulum-v1", rank=0)
        Traceback (most recent call last):
        ...
        sna_rl.errors.UsageError: rank must be an int of at least 1 or 'auto', not 0 (int)
    """

    algo: str
    env: str
    critic: str = "cp"
    rank: int | tuple[int, ...] | str = 32
    n_timesteps: int = 1_000_000
    seed: int = 0
    folder: str = "logs"
    tensorboard_log: str = ""
    eval_freq: int = 25_000
    eval_episodes: int = 5
    n_eval_envs: int = 1
    save_freq: int = -1
    n_envs: int = 1
    vec_env: str = "dummy"
    env_kwargs: Data = field(default_factory=dict)
    eval_env_kwargs: Data | None = None
    gym_packages: tuple[str, ...] = ()
    num_threads: int = 1
    device: str = "auto"
    update: str = "auto"
    hyperparams: Data = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_algorithm(self.algo)
        for name, rule in RUN_RULES.items():
            value = rule.check(name, plain(getattr(self, name), name))
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)
        if self.critic not in CRITICS[self.algo]:
            raise UsageError(
                f"unknown critic {shown(self.critic)} for {self.algo}"
                f"{suggestion(self.critic, CRITICS[self.algo])}"
            )
        if self.critic != "tucker" and self.rank != "auto":
            integer(1, exact=True).check("rank", self.rank)
        object.__setattr__(self, "hyperparams", self._checked_hyperparams())
        self._check_classes()

    def _checked_hyperparams(self) -> Data:
        if not isinstance(self.hyperparams, Mapping):
            raise UsageError(f"hyperparams must be a mapping, not {shown(self.hyperparams)}")
        own_policy = is_own_policy(self.hyperparams.get("policy"))
        layer = check_layer(self.algo, self.hyperparams, own_policy=own_policy)
        for key in layer:
            if key in RUN_RULES:
                raise UsageError(f"{key} is a field of RunConfig; take it out of hyperparams")
        return {key: value for key, value in layer.items() if value is not None}

    def _check_classes(self) -> None:
        """Every class that is named must come from a known module or one of `gym_packages`."""
        named = [(key, self.hyperparams.get(key)) for key in ("policy", "replay_buffer_class")]
        for key in ("env_wrapper", "vec_env_wrapper", "callback"):
            named += [(key, name) for name, _ in named_items(self.hyperparams.get(key))]
        extractor = self.policy_kwargs.get("features_extractor_class")
        named.append(("features_extractor_class", extractor))
        for key, name in named:
            if name is not None and "." in str(name):
                check_importable(DOTTED.check(key, name), self.gym_packages, key)  # type: ignore[arg-type]

    @property
    def policy(self) -> str:
        """Alias or dotted name of the policy."""
        return str(self.hyperparams.get("policy", "SNAPolicy"))

    @property
    def policy_kwargs(self) -> dict[str, Any]:
        """A fresh copy of the policy's arguments, `critic` and `rank` among them."""
        kwargs: Any = deepcopy(self.hyperparams.get("policy_kwargs", {}))
        return {**kwargs, "critic": self.critic, "rank": self.rank}

    def replace(self, **changes: object) -> RunConfig:
        """A copy with some keys changed.

        Args:
            **changes: fields or hyperparameters; what ends in `_kwargs` merges key by key, null takes a
                hyperparameter away.

        Returns:
            The changed configuration, checked anew.

        Raises:
            UsageError: if a change does not fit.

        Example:
            >>> config = RunConfig("sac", "Pendulum-v1", hyperparams={"policy_kwargs": {"width": 64}})
            >>> config.replace(gamma=0.98, policy_kwargs={"depth": 1, "rank": 8}).policy_kwargs
            {'width': 64, 'depth': 1, 'critic': 'cp', 'rank': 8}
        """
        policy = changes.get("policy", self.hyperparams.get("policy"))
        algo = check_algorithm(changes.get("algo", self.algo))
        return self.from_dict(
            merge(self.to_dict(), check_layer(algo, changes, own_policy=is_own_policy(policy)))
        )

    def to_dict(self) -> Data:
        """Fields, then hyperparameters, side by side as plain data that shares nothing with this record."""
        data = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        hyperparams = data.pop("hyperparams")
        return plain({**data, **hyperparams}, "configuration")  # type: ignore[return-value]

    @classmethod
    def from_dict(cls, data: Mapping[str, object], where: str = "") -> RunConfig:
        """The configuration that `to_dict` describes.

        Args:
            data: keys side by side; not changed.
            where: what messages call it.

        Returns:
            The configuration.

        Raises:
            UsageError: if `algo` or `env` is missing, a key is unknown, or a value does not fit.
        """
        with located(where):
            for key in ("algo", "env"):
                if key not in data:
                    raise UsageError(f"a run's configuration needs the key {key!r}")
            algo = check_algorithm(data["algo"])
            layer = check_layer(algo, data, own_policy=is_own_policy(data.get("policy")))
            fields: dict[str, Any] = {key: layer.pop(key) for key in RUN_RULES if key in layer}
            return cls(**fields, hyperparams=layer)

    def to_yaml(self) -> str:
        """The configuration as text; `from_yaml` on a file of it gives an equal record."""
        return dump_yaml(self.to_dict())

    @classmethod
    def from_yaml(cls, path: str | Path, gym_packages: Iterable[str] = ()) -> RunConfig:
        """Read a run's config.yml.

        Args:
            path: the file.
            gym_packages: modules the user trusts; the file may name no others, since importing runs code.

        Returns:
            The configuration.

        Raises:
            UsageError: if the file is not such a configuration, or wants other modules imported.
        """
        where = label(path, MAX_PATH)
        config = cls.from_dict(read_yaml(path), where)
        check_trusted(modules_named(config.env, config.gym_packages), gym_packages, where)
        return config


def diff(a: RunConfig, b: RunConfig) -> dict[str, tuple[object, object]]:
    """What differs between two configurations.

    Args:
        a: before.
        b: after.

    Returns:
        `(value in a, value in b)` under each differing key, dotted inside mappings; "absent" stands for none.

    Example:
        >>> config = RunConfig("sac", "Pendulum-v1")
        >>> diff(config, config.replace(rank=8, gamma=0.98))
        {'rank': (32, 8), 'gamma': ('absent', 0.98)}
    """
    return differences(a.to_dict(), b.to_dict())
