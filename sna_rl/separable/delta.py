"""Low-rank changes of a matrix, one for each of several uses; none at the start."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int

INITIAL_STD = 0.02


class LowRankDelta(nn.Module):
    """K matrices of rank r that are added to one shared weight.

    Δ_t = (scale / r) B_t A_t, A normal, B zero: every Δ is zero at the start, and B's gradient is not.

    Args:
        n_deltas: K, such as the number of iterations that share the weight.
        out_features: rows of the weight.
        in_features: columns of the weight.
        rank: r.
        scale: factor a over the rank; twice the rank by default.

    Raises:
        UsageError: if the rank is larger than the smaller side.

    Source:
        Hu et al. 2021, arXiv 2106.09685.

    Example:
        >>> delta = LowRankDelta(3, 5, 4, rank=2)
        >>> delta(1).shape, bool(delta(1).any())
        (torch.Size([5, 4]), False)
    """

    def __init__(
        self, n_deltas: int, out_features: int, in_features: int, rank: int, scale: float | None = None
    ) -> None:
        super().__init__()
        check_int("n_deltas", n_deltas, 1)
        smaller = min(out_features, in_features)
        if check_int("rank", rank, 1) > smaller:
            raise UsageError(f"rank must be at most {smaller}, the weight's smaller side, not {rank}")
        self.scale = 2.0 if scale is None else scale / rank
        self.left = nn.Parameter(torch.zeros(n_deltas, out_features, rank))
        self.right = nn.Parameter(torch.randn(n_deltas, rank, in_features) * INITIAL_STD)

    def forward(self, index: int) -> Float[Tensor, "out in"]:
        """The change for one use.

        Args:
            index: its number, from 0.

        Raises:
            UsageError: if there is none of that number.
        """
        if not 0 <= index < len(self.left):
            raise UsageError(
                f"there are low-rank deltas for {len(self.left)} iterations, none for iteration {index + 1}"
            )
        return self.left[index] @ self.right[index] * self.scale
