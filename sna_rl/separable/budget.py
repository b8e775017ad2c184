"""Parameter counts of separable networks, and the rank or width that a budget of parameters buys."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int
from sna_rl.separable.factors import FactorConfig
from sna_rl.separable.layout import Layout

Factors = FactorConfig | Sequence[FactorConfig] | None


def n_parameters(
    modes: Sequence[int],
    rank: int | Sequence[int],
    form: str = "cp",
    factor: Factors = None,
    orders: int | None = None,
    branch_width: int | None = None,
) -> int:
    """Parameters of one member of the `SeparableNetwork` built from the same arguments.

    Σ_n (factor_n + main effect_n) + weights + 1

    The last is the output bias b. Every main effect but a table's has a bias of its own beside b.
    The basic form (linear factors, rank 32, branches of 128, 17 + 6 inputs) has 4,291:
    2,433 + 1,025 in the branches, 576 + 224 in the factors, 32 weights, 1 output bias.

    Args:
        modes: size of each mode's input.
        rank: R, or Tucker's ranks.
        form: additive, cp or tucker.
        factor: one FactorConfig, or one for each mode; None: the default.
        orders: highest interaction order (cp), or None.
        branch_width: hidden size of separate main effect networks, or None.

    Returns:
        The count, exactly.

    Raises:
        UsageError: if no network can be built from the arguments.

    Example:
        >>> n_parameters([17, 6], 32, factor=FactorConfig("linear"), branch_width=128)
        4291
    """
    layout = Layout.of(modes, rank, form, factor, orders, branch_width)
    parts = zip(layout.modes, layout.ranks, layout.factors, strict=True)
    return sum(_mode(layout, *part) for part in parts) + _weights(layout) + 1


def rank_for_parameters(
    budget: int,
    modes: Sequence[int],
    form: str = "cp",
    factor: Factors = None,
    orders: int | None = None,
    branch_width: int | None = None,
) -> int:
    """Largest rank whose network has at most `budget` parameters a member: the inverse of `n_parameters`.

    Args:
        budget: parameters that one member may have.
        modes: size of each mode's input.
        form: additive, cp or tucker (the same rank for every mode).
        factor: one FactorConfig, or one for each mode; None: the default.
        orders: highest interaction order (cp), or None.
        branch_width: hidden size of separate main effect networks, or None.

    Returns:
        The rank, at least 1.

    Raises:
        UsageError: if rank 1 is over the budget already, or the count does not depend on the rank
            (a network without interaction; `width_for_parameters` suits it).

    Example:
        >>> rank_for_parameters(4_300, [17, 6], factor=FactorConfig("linear"), branch_width=128)
        32
    """

    def count(rank: int) -> int:
        return n_parameters(modes, rank, form, factor, orders, branch_width)

    if count(1) == count(2):
        raise UsageError("rank changes nothing in a network without interaction; use width_for_parameters")
    return _largest("rank", count, budget)


def width_for_parameters(
    budget: int,
    modes: Sequence[int],
    rank: int | Sequence[int],
    form: str = "cp",
    factor: Factors = None,
    orders: int | None = None,
) -> int:
    """Largest width of the factors' hidden layers whose network has at most `budget` parameters a member.

    Args:
        budget: parameters that one member may have.
        modes: size of each mode's input.
        rank: R, or Tucker's ranks.
        form: additive, cp or tucker.
        factor: one FactorConfig, or one for each mode, its width to be replaced; None: the default.
        orders: highest interaction order (cp), or None.

    Returns:
        The width, at least 1.

    Raises:
        UsageError: if width 1 is over the budget already, or no factor has hidden layers.

    Example:
        >>> width_for_parameters(20_000, [17, 6], rank=32)
        77
    """
    factors = Layout.of(modes, rank, form, factor, orders).factors

    def count(width: int) -> int:
        return n_parameters(modes, rank, form, [replace(each, width=width) for each in factors], orders)

    if count(1) == count(2):
        raise UsageError("width changes nothing in factors without hidden layers; use rank_for_parameters")
    return _largest("width", count, budget)


def _mode(layout: Layout, size: int, rank: int, factor: FactorConfig) -> int:
    """Parameters of one mode's factor and main effect."""
    components = rank if layout.interacts else 0
    if factor.kind == "table":
        return size * (components + 1)
    branch = 0
    if layout.branch_width is not None:
        branch = _affine(size, layout.branch_width) + _affine(layout.branch_width, 1)
        if not layout.interacts:
            return branch
    has_head = layout.branch_width is None
    if factor.kind == "linear":
        return branch + _affine(size, rank) + has_head * _affine(rank, 1)
    features = factor.width if factor.depth else size
    tower = sum(
        _affine(factor.width if layer else size, factor.width) + 2 * factor.width * factor.layer_norm
        for layer in range(factor.depth)
    )
    if factor.kind == "mlp":
        return branch + tower + _affine(features, components + has_head)
    coordinates = factor.n_coordinates
    atoms = coordinates * factor.n_knots * rank + coordinates
    return branch + tower + _affine(features, coordinates) + atoms + has_head * _affine(rank, 1)


def _weights(layout: Layout) -> int:
    """Parameters of the interaction itself."""
    if not layout.interacts:
        return 0
    if layout.form == "tucker":
        return math.prod(layout.ranks)
    return layout.ranks[0] * (1 if layout.orders is None else layout.orders - 1)


def _affine(size_in: int, size_out: int) -> int:
    return size_in * size_out + size_out


def _largest(name: str, count: Callable[[int], int], budget: int) -> int:
    """Largest value ≥ 1 whose count is within the budget; counts rise with it."""
    if (smallest := count(1)) > check_int("budget", budget, 1):
        raise UsageError(f"budget must be at least {smallest} ({name} 1 needs that many), not {budget}")
    low, high = 1, 2
    while count(high) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) <= budget else (low, middle)
    return low
