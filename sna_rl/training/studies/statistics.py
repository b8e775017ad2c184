"""Statistics of few runs: interquartile mean, stratified bootstrap intervals, profiles, costs of failure.

Scores come in *strata*: one array for each environment, runs on its last axis. Every statistic maps the last
axis away and keeps those before it, so one call serves a single study, all its bootstrap samples, or a whole
learning curve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import trim_mean

from sna_rl.errors import UsageError

Array = NDArray[np.float64]
Strata = Sequence[Array]


@dataclass(frozen=True)
class Interval:
    """A statistic and the bounds of its bootstrap interval.

    Args:
        value: the statistic of the runs as they are.
        low: lower bound; NaN where a stratum has a single run, which says nothing of the spread.
        high: upper bound, likewise.
    """

    value: Array
    low: Array
    high: Array

    @property
    def width(self) -> float:
        """Length of a scalar interval."""
        return float(self.high - self.low)

    def text(self, digits: int = 2) -> str:
        """Scalar interval as a table's cell.

        Example:
            >>> Interval(np.array(0.5), np.array(0.25), np.array(0.75)).text()
            '0.50 [0.25, 0.75]'
        """
        value, low, high = float(self.value), float(self.low), float(self.high)
        bounds = "no interval" if np.isnan(low) else f"{low:,.{digits}f}, {high:,.{digits}f}"
        return f"{value:,.{digits}f} [{bounds}]"


def iqm(strata: Strata) -> Array:
    """Interquartile mean: mean of the middle half of all runs of all environments.

    With n runs, ⌊n/4⌋ are dropped at each end.

    Args:
        strata: scores, one array "... runs" for each environment.

    Returns:
        Array "...".

    Source:
        Agarwal et al. 2021 (arXiv 2108.13264), section 4.3.

    Example:
        >>> float(iqm([np.array([0.0, 1.0, 2.0, 3.0, 100.0])]))
        2.0
    """
    return np.asarray(trim_mean(np.concatenate(strata, axis=-1), 0.25, axis=-1), dtype=np.float64)


def mean(strata: Strata) -> Array:
    """Mean over environments of each one's mean over runs.

    Args:
        strata: scores, one array "... runs" for each environment.

    Returns:
        Array "...".
    """
    return np.asarray(np.mean([scores.mean(axis=-1) for scores in strata], axis=0))


def median(strata: Strata) -> Array:
    """Median over environments of each one's mean over runs; with one environment, that mean.

    Args:
        strata: scores, one array "... runs" for each environment.

    Returns:
        Array "...".

    Source:
        Agarwal et al. 2021 (arXiv 2108.13264), section 4.3.
    """
    return np.asarray(np.median([scores.mean(axis=-1) for scores in strata], axis=0))


def optimality_gap(strata: Strata, target: float = 1.0) -> Array:
    """How far runs stay below a target on average; runs above it count as reaching it.

        gap = mean over runs of max(target − score, 0)

    Args:
        strata: scores, one array "... runs" for each environment.
        target: score that counts as solved.

    Returns:
        Array "..."; smaller is better.

    Source:
        Agarwal et al. 2021 (arXiv 2108.13264), section 4.3.
    """
    scores = np.concatenate(strata, axis=-1)
    return np.asarray(target - np.minimum(scores, target).mean(axis=-1))


def probability_of_improvement(strata: Strata, others: Strata) -> Array:
    """Chance that a run of the first arm beats a run of the second, averaged over environments.

        P = mean over environments of mean over pairs of [x > y] + ½ [x = y]

    Args:
        strata: scores of the first arm, one array "... runs" for each environment.
        others: scores of the second arm, in the same order of environments.

    Returns:
        Array "..."; 0.5 where neither is better.

    Cost:
        Product of the two numbers of runs.

    Source:
        Agarwal et al. 2021 (arXiv 2108.13264), section 4.3: the Mann-Whitney U statistic over the pairs.

    Example:
        >>> float(probability_of_improvement([np.array([1.0, 3.0])], [np.array([2.0, 3.0])]))
        0.375
    """
    chances = [
        np.mean((np.sign(x[..., :, None] - y[..., None, :]) + 1) / 2, axis=(-2, -1))
        for x, y in zip(strata, others, strict=True)
    ]
    return np.asarray(np.mean(chances, axis=0))


def performance_profile(strata: Strata, thresholds: Array) -> Array:
    """Share of runs that score above each threshold.

    Args:
        strata: scores, one array "... runs" for each environment.
        thresholds: scores asked for, "thresholds".

    Returns:
        Array "thresholds ...".

    Source:
        Agarwal et al. 2021 (arXiv 2108.13264), section 4.2: run-score distribution.
    """
    scores = np.concatenate(strata, axis=-1)
    return np.stack([(scores > threshold).mean(axis=-1) for threshold in thresholds])


def bootstrap(
    statistic: Callable[..., Array],
    *arms: Strata,
    repetitions: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Percentile interval of a statistic; runs are drawn with replacement inside each environment.

    Several arms are drawn independently of each other, so that `statistic` may be a difference.

    Args:
        statistic: function of as many strata as there are arms.
        arms: strata of each arm, arrays "... runs".
        repetitions: number of bootstrap samples.
        confidence: share of the samples inside the interval.
        seed: of the random draws; equal seeds give equal intervals.

    Returns:
        The statistic with its interval, arrays of the statistic's own shape.

    Raises:
        UsageError: if an environment has no run or a score is not finite.

    Cost:
        `repetitions` times the statistic, at once in memory.

    Source:
        Agarwal et al. 2021 (arXiv 2108.13264), section 4.1. With few runs such intervals are too narrow:
        they cover less than they claim.

    Example:
        >>> bootstrap(iqm, [np.array([1.0, 1.0, 1.0])]).text()
        '1.00 [1.00, 1.00]'
    """
    for scores in (scores for strata in arms for scores in strata):
        if scores.shape[-1] == 0 or not np.isfinite(scores).all():
            raise UsageError(f"scores must be finite and at least one for each environment, not {scores}")
    value = np.asarray(statistic(*arms))
    if any(scores.shape[-1] == 1 for strata in arms for scores in strata):
        return Interval(value, np.full_like(value, np.nan), np.full_like(value, np.nan))
    generator = np.random.default_rng(seed)
    drawn = [[_resample(scores, repetitions, generator) for scores in strata] for strata in arms]
    tail = 50 * (1 - confidence)
    low, high = np.percentile(statistic(*drawn), [tail, 100 - tail], axis=-1)
    return Interval(value, np.asarray(low), np.asarray(high))


def curve(
    strata: Strata, statistic: Callable[[Strata], Array] = iqm, repetitions: int = 500, seed: int = 0
) -> Interval:
    """Sample-efficiency curve: a statistic over the runs at each evaluation, with its interval.

    Args:
        strata: scores, one array "evaluations runs" for each environment, evaluated at the same steps.
        statistic: what to draw; the interquartile mean by default.
        repetitions: number of bootstrap samples.
        seed: of the random draws.

    Returns:
        Arrays "evaluations".

    Cost:
        evaluations · repetitions · runs, in blocks of a few megabytes.
    """
    n_runs = sum(scores.shape[-1] for scores in strata)
    block = max(1, 1_000_000 // (repetitions * n_runs))
    parts = [
        bootstrap(
            statistic, [scores[at : at + block] for scores in strata], repetitions=repetitions, seed=seed
        )
        for at in range(0, strata[0].shape[0], block)
    ]
    return Interval(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("value", "low", "high"))
    )


def first_reach(steps: Array, values: Array, threshold: float, window: int = 3) -> float:
    """First step at which the mean of the last `window` evaluations is at least the threshold.

    Args:
        steps: step of each evaluation, "evaluations".
        values: return or score there, "evaluations".
        threshold: what to reach, in the unit of `values`.
        window: evaluations averaged, so that one lucky evaluation doesn't count.

    Returns:
        The step; infinity where it is never reached.

    Example:
        >>> first_reach(np.array([1.0, 2.0, 3.0, 4.0]), np.array([9.0, 0.0, 0.0, 9.0]), 3.0)
        3.0
    """
    if len(values) < window:
        return float("inf")
    reached = steps[window - 1 :][
        np.convolve(values, np.full(window, 1 / window), "valid") >= threshold - 1e-12
    ]
    return float(reached[0]) if len(reached) else float("inf")


def success_rate(reached: Array) -> float:
    """Share of runs that reach the threshold.

    Args:
        reached: what `first_reach` gave for each run.
    """
    return float(np.isfinite(reached).mean())


def failure_adjusted_cost(reached: Array, budgets: Array) -> float:
    """Expected cost until one run reaches the threshold, if failed runs are started anew.

        cost = Σ min(reached, budget) / number of runs that reached it

    Args:
        reached: cost at which each run reached the threshold, infinity where it did not.
        budgets: whole cost of each run.

    Returns:
        Cost in the unit given (steps, seconds); infinity where no run succeeds.

    Source:
        Hansen et al. 2021 (COCO, arXiv 1603.08785), expected running time.

    Example:
        >>> failure_adjusted_cost(np.array([10.0, np.inf]), np.array([50.0, 50.0]))
        60.0
    """
    n_reached = int(np.isfinite(reached).sum())
    return float(np.minimum(reached, budgets).sum() / n_reached) if n_reached else float("inf")


def _resample(scores: Array, repetitions: int, generator: np.random.Generator) -> Array:
    """Draw runs with replacement: "... runs" to "... repetitions runs"."""
    n_runs = scores.shape[-1]
    return scores[..., generator.integers(n_runs, size=(repetitions, n_runs))]
