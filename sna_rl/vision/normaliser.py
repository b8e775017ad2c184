"""Tokens' projections brought to length √n: root-mean-square normalisation and its gradient's way back."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int, check_name

GAINS = ("none", "shared")
JACOBIANS = ("none", "exact")


class Normaliser(nn.Module):
    """z = g · v / r, r = √(mean v² + ε), over the last axis.

    Args:
        size: n, length of that axis.
        gain: "none" (g = 1) or "shared" (one learned g of `size` numbers for all that is normalised).
        jacobian: what maps a gradient in z back to v: "none", left out as in the published model, or "exact".
        eps: ε.

    Raises:
        UsageError: if a name is unknown or ε is not over 0.

    Example:
        >>> Normaliser(2, gain="none")(torch.tensor([[3.0, 3.0]])).round(decimals=3)
        tensor([[1., 1.]])
    """

    def __init__(self, size: int, gain: str = "shared", jacobian: str = "none", eps: float = 1e-6) -> None:
        super().__init__()
        check_int("size", size, 1)
        check_name("gain", gain, GAINS)
        check_name("jacobian", jacobian, JACOBIANS)
        if not 0.0 < eps < 1.0:
            raise UsageError(f"eps must be over 0 and under 1, not {eps!r}")
        self.size = size
        self.eps = eps
        self.jacobian = jacobian
        self.weight = nn.Parameter(torch.ones(size)) if gain == "shared" else None

    def forward(self, v: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """Normalise."""
        if self.weight is not None:
            v = v.to(self.weight.dtype)  # in full precision under autocast
        return F.rms_norm(v, (self.size,), self.weight, self.eps)

    def pull_back(
        self, v: Float[Tensor, "*batch size"], u: Float[Tensor, "*batch size"]
    ) -> Float[Tensor, "*batch size"]:
        """Gradient in v of what has the gradient u in z.

        exact: (1/r) (I − n nᵀ / size) (g · u), n = v / r; none: u itself.

        Args:
            v: what was normalised.
            u: gradient in z.
        """
        if self.jacobian == "none":
            return u
        inverse = torch.rsqrt(v.square().mean(-1, keepdim=True) + self.eps)
        direction = v * inverse
        scaled = u if self.weight is None else u * self.weight
        return inverse * (scaled - direction * (scaled * direction).mean(-1, keepdim=True))
