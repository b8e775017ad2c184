"""Which components of a separable network are at work, and which are the same one twice."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn

IDLE_BELOW = 0.01  # of the largest component's use


def weight_spectrum(
    left: Float[Tensor, "in_left rank"], right: Float[Tensor, "in_right rank"]
) -> Float[Tensor, values]:
    """Singular values of W_leftᵀ W_right, the product of two linear factors' weights, largest first.

    One diagnostic among others: there are at most min(in_left, in_right) of them whatever the rank
    is, and they ignore the ReLUs and the component weights.

    Args:
        left: one mode's weights, inputs × rank as `EnsembleLinear` keeps them for one member.
        right: the other mode's.

    Returns:
        Singular values, float64; NaN where a weight is not finite.

    Example:
        >>> weight_spectrum(torch.eye(3, 2), 2 * torch.eye(4, 2))
        tensor([2., 2., 0.], dtype=torch.float64)
    """
    return svdvals(left.detach().double() @ right.detach().double().mT)


def component_use(
    left: Float[Tensor, "*members n components"], right: Float[Tensor, "*members m components"]
) -> Float[Tensor, "*members components"]:
    """Root mean square of each component's double-centred contribution to a value table.

    use_p = rms_i(left_ip − mean) · rms_j(right_jp − mean)

    Args:
        left: factor matrix over the table's rows, weights absorbed (`SeparableNetwork.bilinear`).
        right: factor matrix over its columns.

    Returns:
        One number for each component, and each member where there are some, in the units of the table,
        float64.

    Example:
        >>> component_use(torch.tensor([[1.0, 5.0], [-1.0, 5.0]]), torch.tensor([[2.0, 1.0], [-2.0, 0.0]]))
        tensor([2., 0.], dtype=torch.float64)
    """
    spreads = [factor.detach().double().std(-2, correction=0) for factor in (left, right)]
    return spreads[0] * spreads[1]


def idle_components(use: Float[Tensor, components]) -> float:
    """Number of components whose use is under 1 % of the largest; NaN where a use is NaN.

    Args:
        use: what `component_use` returned.

    Returns:
        A whole number; all of them where nothing is used.

    Example:
        >>> idle_components(torch.tensor([1.0, 0.5, 0.001]))
        1.0
    """
    if not use.isfinite().all():
        return math.nan
    if not use.any():
        return float(use.numel())
    return float((use < IDLE_BELOW * use.max()).sum())


def congruence(
    first: Float[Tensor, "_ components"], *others: Float[Tensor, "_ components"]
) -> Float[Tensor, "components components"]:
    """Product over the modes of the cosines between factor columns.

    c_pq = Π_n ⟨φ_p^(n), φ_q^(n)⟩ / (‖φ_p^(n)‖ ‖φ_q^(n)‖)

    Near ±1 only where the cosines are near ±1 in all modes: components p and q are then one.

    Args:
        first: factor matrix of one mode, rows × components.
        others: those of the other modes.

    Returns:
        Congruence of every pair, float64; 0 for a component that vanishes.

    Source:
        Tucker 1951; Lorenzo-Seva and ten Berge 2006.

    Example:
        >>> congruence(torch.tensor([[3.0, 6.0], [4.0, 8.0]]), torch.tensor([[1.0, -3.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]], dtype=torch.float64)
    """
    product = torch.ones((), dtype=torch.float64)
    for factor in (first, *others):
        columns = nn.functional.normalize(factor.detach().double(), dim=0)
        product = product.to(columns.device) * (columns.mT @ columns)
    return product


def gradient_ratio(interaction: Iterable[Tensor], branches: Iterable[Tensor]) -> float:
    """Root mean square of the interaction's gradients over that of the additive branches' gradients.

    Both are per parameter: a ratio of norms would grow with the number of components. Read it
    after the critic's backward pass, before clipping and never after the actor's. Under 0.01 for
    long, the interaction is dead.

    Args:
        interaction: gradients of `SeparableNetwork.interaction_parameters`.
        branches: gradients of `SeparableNetwork.branch_parameters`.

    Returns:
        The ratio; 0 without an interaction, NaN where the branches' gradients vanish.

    Example:
        >>> gradient_ratio([torch.full((4,), 1.0)], [torch.full((2,), 10.0)])
        0.1
    """
    below = _rms(branches)
    return _rms(interaction) / below if below else math.nan


def svdvals(matrix: Float[Tensor, "*batch n m"]) -> Float[Tensor, "*batch values"]:
    """Singular values of each matrix, largest first; NaN, not an exception, where an entry is not finite."""
    finite = matrix.isfinite().flatten(-2).all(-1, keepdim=True)
    values: Tensor = torch.linalg.svdvals(torch.where(finite.unsqueeze(-1), matrix, 0.0))
    return torch.where(finite, values, torch.nan)


def _rms(gradients: Iterable[Tensor]) -> float:
    squares, count = 0.0, 0
    for gradient in gradients:
        squares += float(gradient.detach().double().square().sum())
        count += gradient.numel()
    return math.sqrt(squares / count) if count else 0.0
