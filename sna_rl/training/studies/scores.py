"""Returns as scores: 0 is a random policy, 1 a published reference; both fixed in zoo_configs/scores.yml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from sna_rl.config import read_yaml
from sna_rl.config.rules import number
from sna_rl.errors import UsageError
from sna_rl.training.studies.statistics import Array


@dataclass(frozen=True)
class Scale:
    """The two returns that fix an environment's score.

        score = (return − random) / (reference − random)

    Args:
        random: mean return of uniformly drawn actions.
        reference: return that counts as 1.

    Raises:
        UsageError: if they are equal.

    Example:
        >>> float(Scale(-1200.0, -200.0).score(np.array(-700.0)))
        0.5
    """

    random: float
    reference: float

    def __post_init__(self) -> None:
        if self.random == self.reference:
            raise UsageError(f"reference must differ from random, not {self.reference} for both")

    def score(self, returns: Array) -> Array:
        """Scores of returns, same shape."""
        return np.asarray((returns - self.random) / (self.reference - self.random))


def scales(envs: Iterable[str], further: Mapping[str, Mapping[str, float]] | None = None) -> dict[str, Scale]:
    """Scales of environments.

    Args:
        envs: ids, module prefixes allowed.
        further: `{random, reference}` by environment, before those of the package.

    Returns:
        Their scales; those that have none are left out.

    Raises:
        UsageError: if an entry lacks a number or holds something else.

    Example:
        >>> scales(["CartPole-v1", "Unknown-v0"])["CartPole-v1"].reference
        500.0
    """
    known = {**_packaged(), **{env: _scale(env, entry) for env, entry in (further or {}).items()}}
    found = {env: known.get(env) or known.get(env.rpartition(":")[2]) for env in envs}
    return {env: scale for env, scale in found.items() if scale is not None}


@cache
def _packaged() -> dict[str, Scale]:
    path = Path(str(files("sna_rl.zoo_configs") / "scores.yml"))
    return {env: _scale(env, entry) for env, entry in read_yaml(path).items()}


def _scale(env: str, entry: object) -> Scale:
    """A scale from its entry in YAML."""
    if not isinstance(entry, Mapping) or set(entry) != {"random", "reference"}:
        raise UsageError(f"scores, {env}: must be a mapping of 'random' and 'reference', not {entry!r}")
    rule = number()
    values = {key: rule.check(f"scores, {env}, {key}", value) for key, value in entry.items()}
    return Scale(float(str(values["random"])), float(str(values["reference"])))
