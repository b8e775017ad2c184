"""Search spaces: which parameters are tuned, over what, and in which order; read from YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)

from sna_rl.config import RunConfig, read_yaml
from sna_rl.config.plain import Data
from sna_rl.errors import UsageError, suggestion
from sna_rl.runs.folder import RANKLESS

GROUPS: Final = ("first", "then")
FORMS: Final = ("int", "float", "choices")
OPTIONS: Final = ("log", "complement", "critics")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a search space.

    Args:
        name: field of a run, hyperparameter, or `policy_kwargs.<field>`.
        distribution: what is drawn.
        complement: the parameter is 1 less what is drawn, as for gamma near 1.
    """

    name: str
    distribution: BaseDistribution
    complement: bool = False

    def value(self, drawn: Any) -> Any:
        """Value of the parameter from what was drawn."""
        return 1.0 - drawn if self.complement else drawn

    def extremes(self) -> Sequence[Any]:
        """Values that a configuration must be able to take."""
        distribution = self.distribution
        if isinstance(distribution, CategoricalDistribution):
            return list(distribution.choices)
        assert isinstance(distribution, IntDistribution | FloatDistribution)
        return [self.value(distribution.low), self.value(distribution.high)]


@dataclass(frozen=True)
class Space:
    """Parameters tuned first (rank, learning rates), and those tuned then, the first ones held at their best.

    Args:
        first: parameters of the first half of the trials.
        then: further parameters of the second half; may be empty.
    """

    first: tuple[Parameter, ...]
    then: tuple[Parameter, ...] = ()

    @classmethod
    def read(cls, path: Path, critic: str) -> Space:
        """Read a space; parameters that the critic has no use for are left out.

        Args:
            path: YAML file with groups `first` and `then` of named entries. An entry is `{int: [low, high]}`,
                `{float: [low, high]}` or `{choices: [...]}`, where wanted with `log: true`, with
                `complement: true` (one less the drawn number) and with `critics: [...]` (for those alone).
            critic: name of the critic that is tuned.

        Raises:
            UsageError: if the file is not a search space; with file, parameter and what would do.
        """
        data = read_yaml(path)
        for group in data:
            if group not in GROUPS:
                raise UsageError(f"{path}: unknown key {group!r}{suggestion(group, GROUPS)}")
        found = {group: _group(data.get(group) or {}, critic, f"{path}, {group}") for group in GROUPS}
        if not found["first"]:
            raise UsageError(f"{path}: 'first' must hold at least one parameter that critic {critic!r} has")
        return cls(found["first"], found["then"])

    def described(self) -> dict[str, str]:
        """The space as plain text, the same for equal spaces: kept in the study to notice changes."""
        return {
            f"{group} {each.name}": distribution_to_json(each.distribution)
            + (" complement" if each.complement else "")
            for group in GROUPS
            for each in getattr(self, group)
        }

    def check(self, config: RunConfig) -> None:
        """Refuse a space whose values a run can't take, before anything is trained.

        Args:
            config: the configuration that is tuned.

        Raises:
            UsageError: with the parameter and the value.
        """
        for each in self.parameters(True):
            for value in each.extremes():
                try:
                    applied(config, {each.name: value})
                except UsageError as error:
                    raise UsageError(f"search space, {each.name} {value}: {error}") from None

    def parameters(self, further: bool) -> tuple[Parameter, ...]:
        """Parameters that a trial draws: the first group, and the second where wanted."""
        return (*self.first, *(self.then if further else ()))

    def values(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """A trial's parameters as a configuration takes them, by name."""
        return {
            each.name: each.value(drawn[each.name]) for each in self.parameters(True) if each.name in drawn
        }


def applied(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """A configuration with values of a search space; everything else in `policy_kwargs` stays.

    Args:
        config: where they go.
        values: by name; `policy_kwargs.width` goes into `policy_kwargs`.

    Raises:
        UsageError: if a value does not fit.

    Example:
        >>> config = RunConfig("sac", "Pendulum-v1", rank=4, hyperparams={"policy_kwargs": {"depth": 1}})
        >>> applied(config, {"policy_kwargs.width": 64, "tau": 0.01}).policy_kwargs
        {'depth': 1, 'width': 64, 'critic': 'cp', 'rank': 4}
    """
    changes: dict[str, Any] = {}
    for name, value in values.items():
        outer, _, inner = name.partition(".")
        if inner:
            changes.setdefault(outer, {})[inner] = value
        else:
            changes[name] = value
    return config.replace(**changes)


def packaged_space(algo: str) -> Path:
    """Path of the search space that comes with the package.

    Args:
        algo: "sac", "td3" or "dqn".
    """
    return Path(str(files("sna_rl.zoo_configs") / "search" / f"{algo}.yml"))


def _group(data: object, critic: str, where: str) -> tuple[Parameter, ...]:
    """Parameters of one group that a critic has."""
    if not isinstance(data, dict):
        raise UsageError(f"{where}: must be a mapping of parameters, not {data!r}")
    found = []
    for name, entry in data.items():
        if not isinstance(entry, dict):
            raise UsageError(f"{where}, {name}: must be a mapping such as {{float: [0.001, 0.1], log: true}}")
        for key in entry:
            if key not in (*FORMS, *OPTIONS):
                raise UsageError(f"{where}, {name}: unknown key {key!r}{suggestion(key, [*FORMS, *OPTIONS])}")
        critics = entry.get("critics")
        if not isinstance(critics, list | None):
            raise UsageError(f"{where}, {name}: critics must be a list of names, not {critics!r}")
        if (critics is None or critic in critics) and not (name == "rank" and critic in RANKLESS):
            found.append(
                Parameter(name, _distribution(entry, f"{where}, {name}"), entry.get("complement") is True)
            )
    return tuple(found)


def _distribution(entry: Data, where: str) -> BaseDistribution:
    """What an entry draws from."""
    forms = [form for form in FORMS if form in entry]
    bounds = entry.get(forms[0]) if len(forms) == 1 else None
    if not isinstance(bounds, list) or not bounds:
        raise UsageError(f"{where}: needs one of int: [low, high], float: [low, high] or choices: [...]")
    if forms == ["choices"] and not all(isinstance(each, str | int | float | None) for each in bounds):
        raise UsageError(f"{where}: choices are numbers, texts, true, false or null, not {bounds!r}")
    try:
        if forms == ["choices"]:
            return CategoricalDistribution(bounds)
        low, high = bounds
        log = entry.get("log") is True
        return IntDistribution(low, high, log) if forms == ["int"] else FloatDistribution(low, high, log)
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"{where}: {bounds!r} with log {entry.get('log', False)} can't be drawn from: {error}"
        ) from None
