"""Widths of an MLP that has the parameter count of another model."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

from sna_rl.errors import UsageError

TOLERANCE = 0.02
"""Largest relative difference in parameters at which two models count as matched."""


def mlp_parameters(n_inputs: int, n_outputs: int, widths: list[int], layer_norm: bool) -> int:
    """Parameters of an MLP with biases.

    Σ_l (d_{l-1} + 1) d_l over all layers, and 2 d_l more for the LayerNorm of each hidden layer.

    Args:
        n_inputs: size of the input.
        n_outputs: size of the output.
        widths: sizes of the hidden layers.
        layer_norm: whether each hidden layer has LayerNorm.

    Returns:
        Number of parameters.

    Example:
        >>> mlp_parameters(23, 1, [256, 256], layer_norm=False)
        72193
    """
    sizes = [n_inputs, *widths, n_outputs]
    linear = sum((size + 1) * following for size, following in pairwise(sizes))
    return linear + (2 * sum(widths) if layer_norm else 0)


def matched_widths(
    budget: int, n_inputs: int, n_outputs: int, n_layers: int, layer_norm: bool = False
) -> list[int]:
    """Hidden widths, as equal as possible, of an MLP with `budget` parameters.

    All hidden layers but the last have one width h; the last is solved for. Among all h whose count lies
    within half the tolerance, the one with the most nearly equal widths is taken, else the closest count.

    Args:
        budget: parameters wanted.
        n_inputs: size of the input.
        n_outputs: size of the output.
        n_layers: number of hidden layers, at least 1.
        layer_norm: whether each hidden layer has LayerNorm.

    Returns:
        `n_layers` widths whose count is within 2 % of `budget`.

    Raises:
        UsageError: if no such widths exist.

    Cost: O(√budget) integer operations.

    Example:
        >>> matched_widths(4291, 23, 1, 2)
        [54, 53]
    """
    if n_layers < 1:
        raise UsageError("an MLP is matched by its hidden widths: net_arch must have at least one layer")

    def count(*widths: int) -> int:
        return mlp_parameters(n_inputs, n_outputs, list(widths), layer_norm)

    equal = bisect_left(range(budget), budget, key=lambda width: count(*[width] * n_layers))
    best: tuple[bool, float, list[int]] | None = None
    for width in [0] if n_layers == 1 else range(max(1, equal // 2), 2 * equal + 1):
        front = [width] * (n_layers - 1)
        one, two = count(*front, 1), count(*front, 2)
        last = max(1, round(1 + (budget - one) / (two - one)))
        error = abs(count(*front, last) / budget - 1)
        far = error > TOLERANCE / 2
        candidate = (far, error if far else abs(last - width), [*front, last])
        best = min(best, candidate) if best else candidate
    if best is None or (best[0] and best[1] > TOLERANCE):
        raise UsageError(
            f"no MLP of {n_layers} hidden layers from {n_inputs} to {n_outputs} has within "
            f"{TOLERANCE:.0%} of {budget} parameters; give net_arch fewer layers or the critic a higher rank"
        )
    return best[2]
