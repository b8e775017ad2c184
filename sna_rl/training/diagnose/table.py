"""One value table read: shares, ranks with intervals, noise floor, regret, and what its components do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from sna_rl.separable.components import IDLE_BELOW, component_use, congruence
from sna_rl.separable.decomposition import Decomposition
from sna_rl.separable.forms import Bilinear
from sna_rl.separable.ranks import effective_rank_of, energy_rank_of, stable_rank_of

N_RESAMPLES = 100
"""Bootstrap samples of the states."""
MOST_REGRETS = 64
"""Highest rank whose regret is looked at."""
LEVEL = 0.95
"""Level of the intervals."""
DEAD_BELOW = 1e-6
"""Use, in units of the largest, under which a component does nothing at all."""
SAME_ABOVE = 0.99
"""Congruence, without its sign, above which two components are one."""


class Estimate(NamedTuple):
    """A number read off the table, with a bootstrap interval over states where one was asked for."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Components:
    """What a separable critic's components do on a table.

    Args:
        n_components: how many the critic has.
        dead: those that do nothing.
        idle: those that do less than 1 % of the largest, the dead ones included.
        same: pairs that are one component twice.
        use: root mean square of each one's double-centred contribution, largest first.
    """

    n_components: int
    dead: int
    idle: int
    same: int
    use: list[float]


@dataclass(frozen=True)
class TableReport:
    """What one head's value table says.

    Args:
        states: number of rows.
        actions: number of columns.
        std: standard deviation of all values.
        shares: share of the variance of "state", "action" and "interaction".
        effective_rank: exp of the singular values' entropy.
        stable_rank: energy in units of the largest singular value's.
        energy_rank_90: components that hold 90 % of the interaction's energy.
        energy_rank_99: components that hold 99 % of it.
        singular_values: of the interaction, round-off left out.
        noise_floor: largest singular value of half the difference to the next head; None for one head.
        above_floor: number of singular values above it.
        agreement: cosine between this head's interaction and the next head's.
        regret: loss of acting on rank 0, 1, 2 … up to 64, in units of the mean row range.
        components: of a separable critic.
    """

    states: int
    actions: int
    std: float
    shares: dict[str, Estimate]
    effective_rank: Estimate
    stable_rank: Estimate
    energy_rank_90: Estimate
    energy_rank_99: Estimate
    singular_values: list[float]
    noise_floor: float | None
    above_floor: int | None
    agreement: float | None
    regret: list[float]
    components: Components | None

    def counted_rank(self, q: float) -> int:
        """Least rank that holds the share q of the energy of the singular values above the noise floor.

        Args:
            q: share, over 0 and at most 1.
        """
        counted = torch.tensor(self.singular_values[: self.above_floor], dtype=torch.float64)
        return int(energy_rank_of(counted, q))

    def regret_rank(self, most: float) -> int:
        """Least rank whose regret, and that of every higher one, is at most `most`.

        Args:
            most: tolerated loss in units of the mean row range.
        """
        too_much = [rank for rank, loss in enumerate(self.regret) if loss > most]
        return too_much[-1] + 1 if too_much else 0


def read_tables(
    tables: Float[Tensor, "heads n m"],
    form: Bilinear | None = None,
    *,
    n_reports: int | None = None,
    seed: int | None = 0,
) -> list[TableReport]:
    """Read the value tables of a critic's heads, each beside the next head's.

    Args:
        tables: values of all heads on the same states and actions.
        form: a separable critic's own factors on the tables.
        n_reports: number of heads that are reported on; None reports on all.
        seed: decides the bootstrap; None leaves the intervals out.

    Returns:
        One report a head.

    Cost:
        Two singular value decompositions a head, and 100 eigenvalue problems of the numerical rank's size.

    Example:
        >>> report = read_tables(torch.diag(torch.tensor([3.0, 0.0, 0.0])).unsqueeze(0))[0]
        >>> report.energy_rank_99.value, report.noise_floor
        (1.0, None)
    """
    parts = [Decomposition.of(table) for table in tables]
    reports = []
    for head in range(len(tables))[:n_reports]:
        own = parts[head]
        samples = None if seed is None else _bootstrap(own, seed)
        floor = agreement = None
        if len(tables) > 1:
            other = (head + 1) % len(tables)
            difference = Decomposition.of((tables[head].double() - tables[other].double()) / 2).values
            floor = float(difference[0]) if len(difference) else 0.0
            agreement = _cosine(own, parts[other])
        reports.append(
            TableReport(
                *own.shape,
                std=float(tables[head].double().std(correction=0)),
                shares=_shares(own, samples),
                effective_rank=_estimate(effective_rank_of, own, samples),
                stable_rank=_estimate(stable_rank_of, own, samples),
                energy_rank_90=_estimate(partial(energy_rank_of, q=0.9), own, samples),
                energy_rank_99=_estimate(partial(energy_rank_of, q=0.99), own, samples),
                singular_values=own.values.tolist(),
                noise_floor=floor,
                above_floor=None if floor is None else int((own.values > floor).sum()),
                agreement=agreement,
                regret=own.regrets(tables[head], MOST_REGRETS).tolist(),
                components=None if form is None else _components(form.left[head], form.right[head]),
            )
        )
    return reports


class _Samples(NamedTuple):
    values: Tensor  # "resamples p"
    shares: Tensor  # "resamples 3"


def _bootstrap(parts: Decomposition, seed: int) -> _Samples:
    """Singular values and shares of tables whose states are drawn anew with repeats."""
    generator = torch.Generator().manual_seed(seed)
    n = parts.shape[0]
    drawn = [
        parts.resampled(torch.randint(n, (n,), generator=generator).to(parts.left.device))
        for _ in range(N_RESAMPLES)
    ]
    return _Samples(
        torch.stack([values for values, _ in drawn]), torch.stack([shares for _, shares in drawn])
    )


def _estimate(
    measure: Callable[[Tensor], Tensor], parts: Decomposition, samples: _Samples | None
) -> Estimate:
    """A measure of the singular values with its interval."""
    return _with_interval(float(measure(parts.values)), measure(samples.values) if samples else None)


def _shares(parts: Decomposition, samples: _Samples | None) -> dict[str, Estimate]:
    """Shares by name with their intervals."""
    values = parts.shares().tolist()
    return {
        name: _with_interval(value, samples.shares[:, i] if samples else None)
        for i, (name, value) in enumerate(zip(("state", "action", "interaction"), values, strict=True))
    }


def _with_interval(value: float, samples: Tensor | None) -> Estimate:
    """Quantiles of the resampled values, moved so that their mean is the value itself.

    Resampling repeats states, and repeats lower every rank: the samples tell the interval's width alone.
    """
    if samples is None:
        return Estimate(value, None, None)
    tail = (1.0 - LEVEL) / 2.0
    low, high = torch.quantile(samples - samples.mean(), samples.new_tensor([tail, 1.0 - tail])).tolist()
    return Estimate(value, value + low, value + high)


def _cosine(one: Decomposition, other: Decomposition) -> float:
    """⟨T_int, T'_int⟩ / (‖T_int‖ ‖T'_int‖) from the components; 0 where one has no interaction."""
    inner = ((one.left.mT @ other.left) * (one.right @ other.right.mT)).sum()
    norms = one.values.norm() * other.values.norm()
    return float(inner / norms) if norms > 0 else 0.0


def _components(left: Float[Tensor, "n p"], right: Float[Tensor, "m p"]) -> Components | None:
    """Use of the components of one head; None where it has none."""
    if not left.shape[1]:
        return None
    use = component_use(left, right).sort(descending=True).values
    largest = float(use[0])
    pairs = congruence(left - left.mean(0), right - right.mean(0)).abs().triu(1) > SAME_ABOVE
    return Components(
        n_components=len(use),
        dead=int((use <= DEAD_BELOW * largest).sum()),
        idle=int((use <= IDLE_BELOW * largest).sum()),
        same=int(pairs.sum()),
        use=use.tolist(),
    )
