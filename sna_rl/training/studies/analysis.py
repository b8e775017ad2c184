"""From learning curves to what a report says: scores, intervals, costs, a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from sna_rl.errors import UsageError
from sna_rl.training.studies.arms import Arm, Run
from sna_rl.training.studies.axis import Axis
from sna_rl.training.studies.scores import Scale, scales
from sna_rl.training.studies.statistics import (
    Array,
    Interval,
    Strata,
    bootstrap,
    curve,
    failure_adjusted_cost,
    first_reach,
    iqm,
    performance_profile,
    probability_of_improvement,
    success_rate,
)

MLPS: Final = ("mlp", "mlp-matched")
ENOUGH_SEEDS: Final = 5
MAX_POINTS: Final = 200


@dataclass(frozen=True)
class Costs:
    """What it takes an arm to reach the baseline's final return in one environment.

    Args:
        success_rate: share of its runs that reach it, crashed runs counted as not reaching it.
        steps: expected environment steps until a run reaches it, failed runs started anew.
        seconds: the same in seconds of one core, NaN where the runs don't tell their time.
    """

    success_rate: float
    steps: float
    seconds: float


@dataclass(frozen=True)
class Analysis:
    """Arms cut to equal budgets, with every statistic of a report computed on demand.

    Args:
        arms: arms with at least one run, cut at `horizons`.
        failed: arms without a single finished run.
        envs: environments that all arms share.
        horizons: steps or CPU seconds in each environment up to which arms are compared, the shortest run's.
        scales: what turns returns into scores; empty where one environment alone is compared by its returns.
        baseline: name of the arm that the others are measured against.
        left_out: environments that not all arms have.
        axis: what budgets, horizons and curves are measured in.
    """

    arms: tuple[Arm, ...]
    failed: tuple[Arm, ...]
    envs: tuple[str, ...]
    horizons: Mapping[str, float]
    scales: Mapping[str, Scale]
    baseline: str
    left_out: tuple[str, ...] = field(default=())
    axis: Axis = Axis.STEPS

    @property
    def unit(self) -> str:
        """What aggregates are measured in: "score", or "return" where an environment has no scale."""
        return "score" if self.scales else "return"

    @property
    def digits(self) -> int:
        """Decimals at which an aggregate is shown."""
        return 2 if self.scales else 1

    @cached_property
    def strata(self) -> dict[str, Strata]:
        """Final scores by arm, one array "runs" an environment; final: mean of the last three points."""
        return {arm.name: [self.scored(env, self.finals(arm, env)) for env in self.envs] for arm in self.arms}

    @cached_property
    def aggregate(self) -> dict[str, Interval]:
        """Interquartile mean by arm."""
        return {name: bootstrap(iqm, strata) for name, strata in self.strata.items()}

    @cached_property
    def difference(self) -> dict[str, Interval]:
        """Interquartile mean less the baseline's, by arm."""
        return {
            name: self.difference_from(name, self.baseline) for name in self.strata if name != self.baseline
        }

    @cached_property
    def improvement(self) -> dict[str, Interval]:
        """Probability that a run beats one of the baseline, by arm."""
        base = self.strata[self.baseline]
        return {
            name: bootstrap(probability_of_improvement, strata, base)
            for name, strata in self.strata.items()
            if name != self.baseline
        }

    def difference_from(self, name: str, other: str) -> Interval:
        """Interquartile mean of one arm less another's."""
        return bootstrap(lambda a, b: iqm(a) - iqm(b), self.strata[name], self.strata[other])

    @cached_property
    def profiles(self) -> tuple[Array, dict[str, Interval]]:
        """Thresholds, and the share of runs above each by arm."""
        finals = np.concatenate([scores for strata in self.strata.values() for scores in strata])
        thresholds = np.linspace(finals.min() - 1e-9, finals.max(), 101)
        return thresholds, {
            name: bootstrap(lambda each: performance_profile(each, thresholds), strata, repetitions=500)
            for name, strata in self.strata.items()
        }

    @cached_property
    def curves(self) -> dict[str, tuple[Array, dict[str, Interval]]]:
        """By environment: steps (or CPU seconds), and the interquartile mean of the return there by arm."""
        found = {}
        for env in self.envs:
            steps = self._grid(env)
            found[env] = (steps, {arm.name: curve([_on(steps, arm.of(env))]) for arm in self.arms})
        return found

    @cached_property
    def efficiency(self) -> tuple[Array, dict[str, Interval]]:
        """Shares of the budget, and the interquartile mean over all environments there by arm."""
        start = max(self._grid(env)[0] / self.horizons[env] for env in self.envs)
        shares = np.linspace(start, 1.0, min(50, *(len(self._grid(env)) for env in self.envs)))
        return shares, {
            arm.name: curve(
                [self.scored(env, _on(shares * self.horizons[env], arm.of(env))) for env in self.envs]
            )
            for arm in self.arms
        }

    def costs(self, arm: Arm, env: str) -> Costs:
        """What it takes an arm to reach the baseline's interquartile mean return in an environment."""
        base = next(each for each in self.arms if each.name == self.baseline)
        threshold = float(iqm([self.finals(base, env)]))
        runs = arm.of(env)
        n_crashed = sum(failure.env == env for failure in arm.failed)
        reached = np.array(
            [first_reach(run.steps, run.returns, threshold) for run in runs] + [np.inf] * n_crashed
        )
        budgets = np.full(len(reached), self.horizons[env])
        per_step = np.array([run.seconds_per_step for run in runs])
        per_step = np.append(per_step, np.full(n_crashed, per_step.mean()))
        if self.axis is Axis.TIME:
            reached, budgets = reached / per_step, budgets / per_step
        return Costs(
            success_rate(reached),
            failure_adjusted_cost(reached, budgets),
            failure_adjusted_cost(reached * per_step, budgets * per_step)
            if np.isfinite(per_step).all()
            else float("nan"),
        )

    def finals(self, arm: Arm, env: str) -> Array:
        """Final return of each run of an arm in an environment."""
        return np.array([run.final for run in arm.of(env)])

    def scored(self, env: str, returns: Array) -> Array:
        """Returns in the unit of the aggregates."""
        return self.scales[env].score(returns) if self.scales else returns

    def warnings(self) -> Iterator[str]:
        """What a reader must know before believing a number, one sentence each."""
        few = [arm for arm in self.arms if min(len(arm.of(env)) for env in self.envs) < ENOUGH_SEEDS]
        if few:
            widths = [self.aggregate[arm.name].width for arm in few]
            count = min(len(arm.of(env)) for arm in few for env in self.envs)
            known = [width for width in widths if np.isfinite(width)]
            width = f"up to {max(known):.{self.digits}f} {self.unit} wide" if known else "unknown"
            yield (
                f"fewer than {ENOUGH_SEEDS} seeds (as few as {count}): the 95 % intervals of "
                f"{', '.join(arm.name for arm in few)} are {width}, and still too narrow"
            )
        for arm in (*self.arms, *self.failed):
            for failure in arm.failed:
                yield f"failed: {arm.name} on {failure.env}, seed {failure.seed}: {failure.reason}"
        for env in self.left_out:
            yield f"{env} is left out: not every arm has runs there"
        for arm in self.arms:
            if any(run.measure == "training" for run in arm.runs):
                yield f"{arm.name} is measured by training episodes, exploration included, not by evaluations"

    def verdict(self) -> str:
        """The answer in one sentence: the best separable arm against the best MLP, else the two best arms."""
        ranked = sorted(self.strata, key=lambda name: float(self.aggregate[name].value), reverse=True)
        critics = {arm.name: arm.settings.get("critic") for arm in self.arms}
        separable = [name for name in ranked if critics[name] not in (None, *MLPS)]
        mlps = [name for name in ranked if critics[name] in MLPS]
        if separable and mlps:
            ours, theirs = separable[0], mlps[0]
            who = f"{ours}, best of {_count(len(separable), 'separable arm')}"
            whom = f"{theirs}, best of {_count(len(mlps), 'MLP arm')}"
        elif len(ranked) > 1:
            ours, theirs = ranked[:2]
            who, whom = f"{ours}, best of {_count(len(ranked), 'arm')}", f"{theirs}, the second"
        else:
            value = self.aggregate[ranked[0]].text(self.digits)
            return f"{ranked[0]} alone: interquartile mean {value} {self.unit}."
        gap = self.difference_from(ours, theirs)
        chance = bootstrap(probability_of_improvement, self.strata[ours], self.strata[theirs])
        n_seeds = sorted({len(arm.of(env)) for arm in self.arms for env in self.envs})
        doubt = (
            f"No verdict with fewer than {ENOUGH_SEEDS} seeds. So far " if n_seeds[0] < ENOUGH_SEEDS else ""
        )
        if float(gap.low) > 0:
            relation = "beats"
        elif float(gap.high) < 0:
            relation = "loses to"
        else:
            relation = "can't be told from"
        seeds = f"{n_seeds[0]} seeds" if len(n_seeds) == 1 else f"{n_seeds[0]} to {n_seeds[-1]} seeds"
        values = [self.aggregate[name].text(self.digits) for name in (ours, theirs)]
        return (
            f"{doubt}{who}, {relation} {whom}: interquartile mean {values[0]} against {values[1]} "
            f"{self.unit}, difference {gap.text(self.digits)}, chance to do better {chance.text()}; "
            f"{_count(len(self.envs), 'environment')}, {seeds}."
        )

    def _grid(self, env: str) -> Array:
        """Steps at which the curves of an environment are drawn."""
        runs = [run for arm in self.arms for run in arm.of(env)]
        if all(np.array_equal(run.steps, runs[0].steps) for run in runs) and len(runs[0].steps) <= MAX_POINTS:
            return runs[0].steps
        n_points = min(MAX_POINTS, *(len(run.steps) for run in runs))
        return np.linspace(max(run.steps[0] for run in runs), self.horizons[env], n_points)


def analyse(
    arms: Sequence[Arm],
    scores: Mapping[str, Mapping[str, float]] | None = None,
    axis: Axis = Axis.STEPS,
) -> Analysis:
    """Bring arms to equal budgets and one unit.

    Args:
        arms: what to compare.
        scores: `{random, reference}` returns of environments that the package has no scale of.
        axis: equal steps, or equal CPU seconds.

    Returns:
        The analysis. Its baseline is the first arm whose critic is "mlp", else the first arm.

    Raises:
        UsageError: if no arm has a run, the arms share no environment, one of several has no scale, a run
            ends before another's first evaluation, or one compared by time doesn't tell its CPU seconds.
    """
    some = tuple(arm for arm in arms if arm.runs)
    if axis is Axis.TIME:
        some = tuple(replace(arm, runs=tuple(run.by_time() for run in arm.runs)) for arm in some)
    if not some:
        reasons = [failure.reason for arm in arms for failure in arm.failed]
        raise UsageError(
            f"no run has finished; {f'the first failed: {reasons[0]}' if reasons else 'run it first'}"
        )
    everywhere = dict.fromkeys(env for arm in some for env in arm.envs)
    envs = tuple(env for env in everywhere if all(arm.of(env) for arm in some))
    if not envs:
        listed = "; ".join(f"{arm.name} has {', '.join(arm.envs)}" for arm in some)
        raise UsageError(f"the arms share no environment: {listed}")
    horizons = {env: min(float(run.steps[-1]) for arm in some for run in arm.of(env)) for env in envs}
    found = scales(envs, scores)
    missing = [env for env in envs if env not in found]
    if missing and len(envs) > 1:
        raise UsageError(
            f"no score is fixed for {missing[0]!r}; give its random and reference return under 'scores'"
        )
    cut = tuple(_cut(arm, horizons, axis) for arm in some)
    baseline = next((arm.name for arm in cut if arm.settings.get("critic") == "mlp"), cut[0].name)
    return Analysis(
        cut,
        tuple(arm for arm in arms if not arm.runs),
        envs,
        horizons,
        {} if missing else found,
        baseline,
        tuple(env for env in everywhere if env not in envs),
        axis,
    )


def _cut(arm: Arm, horizons: Mapping[str, float], axis: Axis) -> Arm:
    """The arm's runs in the environments of the horizons, none longer than those."""
    runs = tuple(run.until(horizon) for env, horizon in horizons.items() for run in arm.of(env))
    for run in runs:
        if not len(run.steps):
            raise UsageError(
                f"{arm.name} has no evaluation in the first {horizons[run.env]:,.0f} {axis.unit} on "
                f"{run.env}, where the shortest run ends; evaluate it more often, or leave one of them out"
            )
    return replace(arm, runs=runs)


def _on(steps: Array, runs: Sequence[Run]) -> Array:
    """Returns of runs at given steps, "steps runs"."""
    return np.stack([np.interp(steps, run.steps, run.returns) for run in runs], axis=1)


def _count(number: int, noun: str) -> str:
    """Number and noun, in the plural where it is one.

    Example:
        >>> _count(1, "arm"), _count(3, "arm")
        ('1 arm', '3 arms')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
