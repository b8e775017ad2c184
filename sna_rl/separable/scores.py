"""Attention scores as bilinear forms: a table between tokens whose rank is the size of a head."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int


class HeadFactor(nn.Module):
    """A linear factor of H heads: every token's p = width / H components in each of them.

    z_h = W_h x, W_h of shape (p, width). Both factors of a score may be one and the same (tied: the table is
    symmetric, and `join` maps its gradient back), or two of them (queries and keys). Weights begin normal, of
    variance 1 / width.

    Args:
        width: size of a token.
        n_heads: H, a divisor of the width.

    Raises:
        UsageError: if the heads don't divide the width.

    Example:
        >>> factor = HeadFactor(8, 2)
        >>> z = factor.split(torch.zeros(5, 7, 8))
        >>> z.shape, factor.join(z).shape
        (torch.Size([5, 2, 7, 4]), torch.Size([5, 7, 8]))
    """

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        check_int("width", width, 1)
        if width % check_int("n_heads", n_heads, 1):
            raise UsageError(f"n_heads must divide the width {width}, not {n_heads}")
        self.n_heads = n_heads
        self.weight = nn.Parameter(torch.empty(width, width))
        nn.init.normal_(self.weight, std=width**-0.5)

    def split(
        self, x: Float[Tensor, "batch tokens width"], delta: Float[Tensor, "width width"] | None = None
    ) -> Float[Tensor, "batch heads tokens size"]:
        """Components of every token, head by head.

        Args:
            x: tokens.
            delta: added to the weight.
        """
        flat = F.linear(x, self._weight(delta))
        return flat.view(*x.shape[:-1], self.n_heads, -1).transpose(1, 2)

    def join(
        self, u: Float[Tensor, "batch heads tokens size"], delta: Float[Tensor, "width width"] | None = None
    ) -> Float[Tensor, "batch tokens width"]:
        """The transposed map: Σ_h W_hᵀ u_h, the gradient in x of Σ_h ⟨u_h, W_h x⟩.

        Args:
            u: one vector a token and head.
            delta: added to the weight.
        """
        return u.transpose(1, 2).flatten(2) @ self._weight(delta)

    def _weight(self, delta: Tensor | None) -> Tensor:
        return self.weight if delta is None else self.weight + delta


def bilinear_scores(
    left: Float[Tensor, "*batch n size"], right: Float[Tensor, "*batch m size"], scale: float
) -> Float[Tensor, "*batch n m"]:
    """Scores between all pairs of tokens.

    S_ij = scale · ⟨left_i, right_j⟩: a table of rank at most `size`, and with left = right a symmetric one.

    Args:
        left: components of the tokens in the rows.
        right: components of the tokens in the columns.
        scale: β, usually size^(−1/2).

    Cost:
        2 · n · m · size floating point operations, n · m numbers.

    Example:
        >>> bilinear_scores(torch.eye(2), torch.tensor([[1.0, 2.0]]), 0.5)
        tensor([[0.5000],
                [1.0000]])
    """
    return (left * scale) @ right.mT
