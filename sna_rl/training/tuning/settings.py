"""What to tune and how: one checked record, and the samplers it can name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from sna_rl.config import RunConfig
from sna_rl.config.rules import number
from sna_rl.errors import UsageError, suggestion
from sna_rl.training.tuning.search import Space
from sna_rl.training.tuning.trial import OBJECTIVES, PRUNERS

SAMPLERS: Final = ("tpe", "gp", "cmaes", "random")

MAX_SECONDS: Final = 1e9
"""A time that no trial takes, and that every clock can hold."""


@dataclass(frozen=True)
class Tuning:
    """What to tune, and how.

    Args:
        name: name of the study.
        config: the configuration that trials start from; its evaluations are the intermediate values.
        space: what is searched.
        objective: "auc" (area under the evaluation curve), "last" or "best", averaged over seeds.
        seeds: seeds each trial is trained with.
        sampler: "tpe", "gp", "cmaes" or "random".
        pruner: "median", "hyperband", "halving" or "none".
        n_startup_trials: trials drawn at random before the sampler learns, and before the median prunes.
        n_trials: trials of this process.
        max_total_trials: trials of the whole study, all processes together; None: each runs its `n_trials`.
        timeout: seconds after which a trial fails; None waits.
        seed: of the sampler.

    Raises:
        UsageError: if a value does not fit, or the space does not fit the configuration.
    """

    name: str
    config: RunConfig
    space: Space
    objective: str = "auc"
    seeds: tuple[int, ...] = (0,)
    sampler: str = "tpe"
    pruner: str = "median"
    n_startup_trials: int = 10
    n_trials: int = 50
    max_total_trials: int | None = None
    timeout: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for field, known in (("objective", OBJECTIVES), ("sampler", SAMPLERS), ("pruner", PRUNERS)):
            if getattr(self, field) not in known:
                raise UsageError(
                    f"unknown {field} {getattr(self, field)!r}{suggestion(getattr(self, field), known)}"
                )
        for field in ("n_trials", "max_total_trials"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise UsageError(f"{field} must be at least 1, not {value}")
        if self.timeout is not None:
            number(above=0, most=MAX_SECONDS).check("timeout of a trial", self.timeout)
        if not self.seeds:
            raise UsageError("seeds per trial must be at least 1, not 0")
        if not 0 < self.config.eval_freq <= self.config.n_timesteps:
            raise UsageError("tuning needs evaluations; give --n-evaluations at least 1")
        self.space.check(self.config)

    @property
    def n_evaluations(self) -> int:
        """Evaluations of one run."""
        return self.config.n_timesteps // self.config.eval_freq

    @property
    def n_planned(self) -> int:
        """Trials of the whole study as far as this process knows."""
        return self.max_total_trials or self.n_trials

    def settings(self) -> dict[str, Any]:
        """What must not change while a study grows."""
        own = {"objective": self.objective, "seeds": list(self.seeds), "search space": self.space.described()}
        return own | {
            key: value for key, value in self.config.to_dict().items() if key not in ("folder", "seed")
        }


class HeldSampler(BaseSampler):
    """Gives some parameters fixed values, and leaves the others to another sampler.

    Args:
        base: the other sampler.
        held: values by name of parameter.
    """

    def __init__(self, base: BaseSampler, held: Mapping[str, Any]) -> None:
        self.base = base
        self.held = held

    def reseed_rng(self) -> None:
        """Reseed the other sampler."""
        self.base.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """What the other sampler draws jointly, held parameters left out."""
        space = self.base.infer_relative_search_space(study, trial)
        return {name: distribution for name, distribution in space.items() if name not in self.held}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Joint draw of the other sampler."""
        return self.base.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The held value, or a draw of the other sampler."""
        if param_name in self.held:
            return self.held[param_name]
        return self.base.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Prepare the other sampler."""
        self.base.before_trial(study, trial)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Tell the other sampler how the trial ended."""
        self.base.after_trial(study, trial, state, values)


def make_sampler(tuning: Tuning, n_trials: int, held: Mapping[str, Any]) -> BaseSampler:
    """A sampler that goes on where the study is: its draws follow from the seed and the number of trials.

    Args:
        tuning: names the sampler.
        n_trials: trials in the study.
        held: parameters that keep a value.
    """
    seed, n_startup_trials = tuning.seed + n_trials, tuning.n_startup_trials
    if tuning.sampler == "random":
        sampler: BaseSampler = RandomSampler(seed)
    elif tuning.sampler == "tpe":
        sampler = TPESampler(n_startup_trials=n_startup_trials, seed=seed, multivariate=True)
    else:
        kind = {"gp": GPSampler, "cmaes": CmaEsSampler}[tuning.sampler]
        sampler = kind(
            seed=seed,
            n_startup_trials=n_startup_trials,
            independent_sampler=TPESampler(n_startup_trials=n_startup_trials, seed=seed),
            warn_independent_sampling=False,
        )
    return HeldSampler(sampler, held) if held else sampler
