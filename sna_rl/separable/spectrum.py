"""Diagnostics of a value table T[i, j] = Q(s_i, a_j), of any critic's.

Every function takes the table itself and double-centres it: singular values are always those of
the interaction part (centring twice changes nothing, so `interaction(table)` may be given too).
All is computed in float64. An entry that is NaN or infinite makes the answer NaN; a table without
interaction has rank 0. Singular values under the round-off of the table's own number format count
as zero, so an additive critic's float32 table has rank 0 as well.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int
from sna_rl.separable.components import (
    component_use,
    congruence,
    gradient_ratio,
    idle_components,
    svdvals,
    weight_spectrum,
)
from sna_rl.separable.ranks import effective_rank_of, energy_rank_of, stable_rank_of

__all__ = [
    "Shares",
    "component_use",
    "congruence",
    "effective_rank",
    "energy_rank",
    "gradient_ratio",
    "idle_components",
    "interaction",
    "noise_floor",
    "regret",
    "shares",
    "singular_values",
    "stable_rank",
    "weight_spectrum",
]


class Shares(NamedTuple):
    """Parts of a table's variance; they sum to 1, or are all 0 for a constant table."""

    state: float
    action: float
    interaction: float


def interaction(table: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
    """What is left of a table without its row means and column means.

    T_int[i, j] = T[i, j] − mean_j T[i, ·] − mean_i T[·, j] + mean T

    Args:
        table: values of n states (rows) and m actions (columns).

    Returns:
        The double-centred table, float64; 0 for an additive one up to round-off.

    Example:
        >>> interaction(torch.tensor([[1.0, 2.0], [3.0, 8.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]], dtype=torch.float64)
    """
    return _parts(table)[3]


def shares(table: Float[Tensor, "n m"]) -> Shares:
    """Shares of the table's variance that states, actions and their interaction have.

    interaction share = ‖T_int‖_F² / ‖T − mean‖_F²; likewise the row means' and column means'.

    Args:
        table: values of n states and m actions.

    Returns:
        Three numbers in [0, 1].

    Example:
        >>> shares(torch.tensor([[0.0, 1.0], [2.0, 3.0]]))
        Shares(state=0.8, action=0.2, interaction=0.0)
    """
    _, rows, columns, rest = _parts(table)
    n, m = table.shape
    squares = (m * rows.square().sum(), n * columns.square().sum(), rest.square().sum())
    total = sum(squares)
    if total == 0:
        return Shares(0.0, 0.0, 0.0)
    return Shares(*(float(square / total) for square in squares))


def singular_values(table: Float[Tensor, "n m"]) -> Float[Tensor, values]:
    """Singular values of the interaction part, largest first, round-off set to 0.

    Args:
        table: values of n states and m actions.

    Returns:
        min(n, m) values in the units of the table times √(n · m), float64.

    Cost:
        One singular value decomposition, O(n · m · min(n, m)).

    Example:
        >>> singular_values(torch.tensor([[1.0, 2.0], [3.0, 8.0]]))
        tensor([2., 0.], dtype=torch.float64)
    """
    values = svdvals(interaction(table))
    return torch.where(values <= _round_off(table), 0.0, values)


def effective_rank(table: Float[Tensor, "n m"]) -> float:
    """Exponential of the entropy of the normalised singular values.

    exp(−Σ p ln p), p = σ / Σ σ

    Args:
        table: values of n states and m actions.

    Returns:
        A number between 1 and min(n, m); 0 without interaction.

    Source:
        Roy and Vetterli 2007.

    Example:
        >>> round(effective_rank(torch.eye(5)), 6)
        4.0
    """
    return float(effective_rank_of(singular_values(table)))


def energy_rank(table: Float[Tensor, "n m"], q: float = 0.99) -> float:
    """Least k whose leading singular values hold the share q of the energy.

    least k with Σ_{i ≤ k} σ_i² ≥ q Σ σ²

    Args:
        table: values of n states and m actions.
        q: share of the energy (squares, not values), over 0 and at most 1.

    Returns:
        A whole number as a float, for NaN's sake; 0 without interaction.

    Raises:
        UsageError: if q is not a share.

    Example:
        >>> energy_rank(torch.diag(torch.tensor([8.0, 1.0, 0.0, 0.0, 0.0])), 0.9)
        1.0
    """
    if not 0 < q <= 1:
        raise UsageError(f"q must be over 0 and at most 1, not {q!r}")
    return float(energy_rank_of(singular_values(table), q))


def stable_rank(table: Float[Tensor, "n m"]) -> float:
    """Energy of the interaction in units of its largest singular value's.

    ‖T_int‖_F² / σ_1²

    Args:
        table: values of n states and m actions.

    Returns:
        A number between 1 and min(n, m); 0 without interaction.

    Source:
        Rudelson and Vershynin 2007.

    Example:
        >>> round(stable_rank(torch.eye(5)), 6)
        4.0
    """
    return float(stable_rank_of(singular_values(table)))


def noise_floor(table: Float[Tensor, "n m"], other: Float[Tensor, "n m"]) -> float:
    """Largest singular value that two critics don't agree on; smaller ones do not count.

    σ_1(½ (T_int − T'_int))

    Args:
        table: values of one critic.
        other: values of the other on the same states and actions.

    Returns:
        The floor, in the units of `singular_values`.

    Example:
        >>> noise_floor(torch.eye(3), torch.zeros(3, 3))
        0.5
    """
    return float(singular_values((table.detach().double() - other.detach().double()) / 2)[0])


def regret(table: Float[Tensor, "n m"], k: int) -> float:
    """What acting on the rank-k approximation loses, in units of the mean row range.

    mean_i (max_j T[i, j] − T[i, j_k(i)]) / mean_i (max_j T[i, j] − min_j T[i, j]), j_k(i) the best
    action of row i once T_int is truncated to rank k and the additive parts are put back.

    Args:
        table: values of n states and m actions.
        k: rank kept, at least 0 (additive).

    Returns:
        A number in [0, 1]; 0 where all actions are alike.

    Raises:
        UsageError: if k is not an int of at least 0.

    Cost:
        One singular value decomposition.

    Example:
        >>> table = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> regret(table, 0), regret(table, 1)
        (0.5, 0.0)
    """
    check_int("k", k, 0)
    if not table.isfinite().all():
        return math.nan
    mean, rows, columns, rest = _parts(table)
    u, s, v = torch.linalg.svd(rest, full_matrices=False)
    kept = mean + rows + columns + (u[:, :k] * s[:k]) @ v[:k]
    full = mean + rows + columns + rest
    best = full.amax(1)
    chosen = full.gather(1, kept.argmax(1, keepdim=True)).squeeze(1)
    spread = (best - full.amin(1)).mean()
    return float((best - chosen).mean() / spread) if spread > 0 else 0.0


def _parts(table: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean (), rows (n, 1), columns (1, m) and interaction (n, m), which sum to the table."""
    table = table.detach().double()
    mean = table.mean()
    rows = table.mean(1, keepdim=True) - mean
    columns = table.mean(0, keepdim=True) - mean
    return mean, rows, columns, table - mean - rows - columns


def _round_off(table: Tensor) -> Tensor:
    """Size that a singular value of round-off in the table's entries can have."""
    eps = torch.finfo(table.dtype).eps if table.is_floating_point() else torch.finfo(torch.float64).eps
    return max(table.shape) * eps * table.detach().double().abs().amax()
