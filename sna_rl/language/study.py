"""What studies say: paired differences with their interval, and works timed in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from scipy.stats import ttest_rel

from sna_rl.errors import UsageError

UNTOLD = 3  # turns that are not timed, while caches fill


class Paired(NamedTuple):
    """Mean of paired differences with its interval.

    Args:
        mean: of arm − base.
        low: lower end.
        high: upper end.
        n: pairs.
    """

    mean: float
    low: float
    high: float
    n: int

    @property
    def half_width(self) -> float:
        """Half of the interval's length."""
        return (self.high - self.low) / 2.0


def paired(arm: Sequence[float], base: Sequence[float], confidence: float = 0.95) -> Paired:
    """Student's interval of the mean difference of pairs, such as runs of the same seed.

    d̄ ± t(n − 1) · s / √n, s the standard deviation of the differences

    Args:
        arm: a value for each pair.
        base: what it is compared with, in the same order.
        confidence: share of such intervals that hold the true mean difference, if differences are normal.

    Raises:
        UsageError: if there are not two pairs.

    Example:
        >>> found = paired([3.0, 5.0], [1.0, 1.0])
        >>> found.mean, round(found.low, 2), round(found.high, 2)
        (3.0, -9.71, 15.71)
    """
    if len(arm) != len(base) or len(arm) < 2:
        raise UsageError(f"an interval needs pairs, two or more, not {len(arm)} and {len(base)} values")
    differences = [a - b for a, b in zip(arm, base, strict=True)]
    mean = statistics.fmean(differences)
    if max(differences) == min(differences):
        return Paired(mean, mean, mean, len(differences))
    low, high = ttest_rel(arm, base).confidence_interval(confidence)
    return Paired(mean, float(low), float(high), len(differences))


def in_turns(works: Sequence[Callable[[], object]], n_turns: int) -> list[list[float]]:
    """Processor milliseconds of several works done in turn in one process.

    Args:
        works: what is timed.
        n_turns: turns that count, after three that don't.

    Returns:
        A list of times for each work.
    """
    taken: list[list[float]] = [[] for _ in works]
    for turn in range(UNTOLD + n_turns):
        for times, work in zip(taken, works, strict=True):
            began = time.process_time()
            work()
            if turn >= UNTOLD:
                times.append(1e3 * (time.process_time() - began))
    return taken
