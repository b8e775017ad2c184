"""Token embedding by spline factors: a token is its digits, and digits share what they know."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sna_rl.separable.checks import check_int
from sna_rl.separable.splines import SplineAtoms

COEFFICIENT_STD = 0.1  # of the spline coefficients around 1
MEAN_SQUARE_BASIS = 0.55  # Σ_g basis_g², averaged over a coordinate between two knots


def digit_base(n_tokens: int, n_digits: int) -> int:
    """Least base b in which `n_digits` digits tell `n_tokens` tokens apart.

    b = ⌈V^(1/k)⌉, found without round-off

    Args:
        n_tokens: V.
        n_digits: k.

    Example:
        >>> digit_base(8192, 3), digit_base(8000, 3)
        (21, 20)
    """
    base = max(2, math.floor(math.pow(n_tokens, 1.0 / n_digits)) - 1)
    while math.prod([base] * n_digits) < n_tokens:
        base += 1
    return base


class SeparableEmbedding(nn.Module):
    """Embedding of V tokens from k base-b digits and products of splines, h times.

    z_h = sigmoid(LayerNorm(Σ_i codebook_h,i[digit_i]) / 2),  e = W Σ_h (Π_d spline_h,d(z_h,d) − 1)

    The coefficients start at 1 + δ, so every product starts near 1; the 1 is taken off, else all tokens would
    start as the same one.

    Args:
        n_tokens: V.
        size: of an embedding.
        rank: R, products of each head.
        n_digits: k.
        n_heads: h.
        n_coordinates: spline coordinates of a head.
        n_knots: knots of a spline.
        std: standard deviation of an embedding's entries at the start.

    Raises:
        UsageError: if a count is not an int of at least 1 (2 for knots and tokens).

    Cost:
        2 · h · coordinates · knots · R operations a token; at most V tokens are computed, then looked up.

    Source:
        Leviathan, arXiv 2601.22040.

    Example:
        >>> embedding = SeparableEmbedding(8192, 64, rank=32)
        >>> embedding(torch.tensor([[0, 1, 8191]])).shape, embedding.table().shape
        (torch.Size([1, 3, 64]), torch.Size([8192, 64]))
    """

    digits: Tensor

    def __init__(
        self,
        n_tokens: int,
        size: int,
        rank: int = 64,
        *,
        n_digits: int = 3,
        n_heads: int = 4,
        n_coordinates: int = 8,
        n_knots: int = 8,
        std: float = 1.0,
    ) -> None:
        super().__init__()
        for name, count, least in [
            ("n_tokens", n_tokens, 2),
            ("size", size, 1),
            ("rank", rank, 1),
            ("n_digits", n_digits, 1),
            ("n_heads", n_heads, 1),
            ("n_coordinates", n_coordinates, 1),
            ("n_knots", n_knots, 2),
        ]:
            check_int(name, count, least)
        base = digit_base(n_tokens, n_digits)
        powers = base ** torch.arange(n_digits)
        numbers = torch.arange(n_tokens).unsqueeze(1) // powers % base
        self.register_buffer("digits", numbers + base * torch.arange(n_digits), persistent=False)
        self.codebooks = nn.Parameter(torch.randn(n_heads, n_digits * base, n_coordinates))
        self.norm = nn.LayerNorm(n_coordinates) if n_coordinates > 1 else nn.Identity()
        self.atoms = SplineAtoms(n_heads, n_coordinates, n_knots, rank)
        self.mix = nn.Linear(n_heads * rank, size, bias=False)
        spread = (1.0 + COEFFICIENT_STD**2 * MEAN_SQUARE_BASIS) ** n_coordinates - 1.0
        nn.init.normal_(self.mix.weight, std=std / math.sqrt(n_heads * rank * spread))

    def forward(self, tokens: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape size"]:
        """Embeddings of token numbers under V."""
        if tokens.numel() > len(self.digits):
            return nn.functional.embedding(tokens, self.table())
        return self._embed(self.digits[tokens.flatten()]).reshape(*tokens.shape, -1)

    def table(self) -> Float[Tensor, "tokens size"]:
        """Embeddings of all tokens: what a tied head multiplies with."""
        return self._embed(self.digits)

    def _embed(self, digits: Int[Tensor, "n digits"]) -> Float[Tensor, "n size"]:
        """Embeddings of tokens given by their rows in the codebooks."""
        seeds = self.codebooks[:, digits].sum(2)
        products = self.atoms((self.norm(seeds) / 2).sigmoid()) - 1.0
        embeddings: Tensor = self.mix(products.transpose(0, 1).flatten(1))
        return embeddings
