"""Penalties on what two halves of a hidden state have in common, and measures of it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from sna_rl.errors import UsageError
from sna_rl.separable.components import svdvals
from sna_rl.separable.ranks import effective_rank_of

SMALLEST_LENGTH = 1e-6  # a vector shorter than this is not made longer by the scale-free forms
SMALLEST_SHARE = 1e-6  # of the largest singular value; smaller ones span no direction


def cross_moment(
    left: Float[Tensor, "*tokens left"],
    right: Float[Tensor, "*tokens right"],
    *,
    scale_free: bool = False,
    centred: bool = False,
) -> Float[Tensor, ""]:
    """Squared size of the halves' second moment, which is 0 where no coordinates go together.

    ‖G‖_F², G = (1/n) Σ_t left_t right_tᵀ

    For independent zero-mean halves of unit variance its expectation is not 0 but left · right / n: compare
    values of the same n alone.

    Args:
        left: one half, a vector for each of n tokens.
        right: the other half, of the same tokens; the sizes may differ.
        scale_free: make every vector one of length 1 first; the value is then in [0, 1], and shrinking gains
            nothing.
        centred: subtract the mean over the tokens first: G is the covariance.

    Returns:
        A number, not negative.

    Cost:
        2 · n · left · right operations.

    Source:
        State–Constraint orthogonality (Arcade), cross-moment form.

    Example:
        >>> cross_moment(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[2.0], [1.0]]))
        tensor(2.)
    """
    left, right = _prepared(left, right, scale_free, centred)
    return (left.mT @ right / len(left)).square().sum()


def per_token(
    left: Float[Tensor, "*tokens left"],
    right: Float[Tensor, "*tokens right"],
    *,
    scale_free: bool = False,
    centred: bool = False,
) -> Float[Tensor, ""]:
    """Mean squared inner product of the halves of each token; it depends on how coordinates are paired.

    (1/n) Σ_t (left_t · right_t)²

    Args:
        left: one half, a vector for each of n tokens.
        right: the other half, of the same size.
        scale_free: make every vector one of length 1 first: the mean squared cosine, in [0, 1].
        centred: subtract the mean over the tokens first.

    Returns:
        A number, not negative.

    Raises:
        UsageError: if the halves differ in size.

    Source:
        Arcade-3B's model card.

    Example:
        >>> per_token(torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
        tensor(5.)
    """
    if left.shape[-1] != right.shape[-1]:
        raise UsageError(
            f"the per-token penalty pairs coordinates and needs halves of one size, not {left.shape[-1]} and "
            f"{right.shape[-1]}; take cross-moment"
        )
    left, right = _prepared(left, right, scale_free, centred)
    products = (left * right).sum(-1)
    return products.square().mean()


@torch.no_grad()
def subspace_similarity(left: Float[Tensor, "n left"], right: Float[Tensor, "n right"]) -> float:
    """Mean squared cosine between the subspaces that two groups of units span over the same n tokens.

    ‖U_leftᵀ U_right‖_F² / min(rank left, rank right), U orthonormal bases of the centred columns: the mean
    squared canonical correlation.

    Args:
        left: activations of one group.
        right: of the other.

    Returns:
        A number in [0, 1]: 1 where one group is a linear function of the other, about
        max(left, right) / n for unrelated ones; 0 where a group is constant.

    Cost:
        Two singular value decompositions.

    Example:
        >>> units = torch.tensor([[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]])
        >>> round(subspace_similarity(units, 3 * units), 6)
        1.0
    """
    bases = [_basis(units) for units in (left, right)]
    fewest = min(basis.shape[1] for basis in bases)
    return float((bases[0].mT @ bases[1]).square().sum() / fewest) if fewest else 0.0


@torch.no_grad()
def unit_rank(units: Float[Tensor, "n units"]) -> float:
    """Effective rank of units' centred activations, exp(−Σ p ln p), p = σ / Σσ.

    Args:
        units: activations over n tokens.

    Returns:
        A number from 1 to the number of units; 0 for constant ones.

    Cost:
        One singular value decomposition.

    Example:
        >>> round(unit_rank(torch.tensor([[1.0, 2.0], [-1.0, -2.0]])), 6)
        1.0
    """
    units = units.double()
    return float(effective_rank_of(svdvals(units - units.mean(0))))


def _prepared(left: Tensor, right: Tensor, scale_free: bool, centred: bool) -> tuple[Tensor, Tensor]:
    """Halves as matrices of tokens × coordinates, centred and normalised where asked."""
    halves = [half.flatten(0, -2) for half in (left, right)]
    if centred:
        halves = [half - half.mean(0) for half in halves]
    if scale_free:
        halves = [half / half.norm(dim=-1, keepdim=True).clamp_min(SMALLEST_LENGTH) for half in halves]
    return halves[0], halves[1]


def _basis(units: Tensor) -> Tensor:
    """Orthonormal basis of the centred columns."""
    units = units.double()
    u, values, _ = torch.linalg.svd(units - units.mean(0), full_matrices=False)
    spanned = int((values > SMALLEST_SHARE * values[0]).sum()) if values[0] > 0 else 0
    basis: Tensor = u[:, :spanned]
    return basis
