"""How tokens lie on their spheres: ranks and angles, never NaN."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from sna_rl.separable.components import svdvals
from sna_rl.separable.ranks import effective_rank_of

ROUND_OFF = 1e-6  # of the largest singular value; smaller ones span no direction


def effective_rank(z: Float[Tensor, "*batch tokens size"]) -> Float[Tensor, "*batch"]:
    """exp(−Σ p ln p), p = σ / Σ σ, σ the singular values of the tokens' matrix.

    Args:
        z: tokens.

    Returns:
        From 1 (all tokens on one line) to min(tokens, size); 0 where all tokens are zero.

    Example:
        >>> effective_rank(torch.eye(4)).item(), effective_rank(torch.zeros(4, 3)).item()
        (4.0, 0.0)
    """
    return effective_rank_of(svdvals(z.detach().double())).to(z.dtype)


def rank(z: Float[Tensor, "*batch tokens size"]) -> Float[Tensor, "*batch"]:
    """Number of directions that the tokens span.

    Args:
        z: tokens.

    Example:
        >>> rank(torch.ones(4, 3)).item()
        1.0
    """
    values = svdvals(z.detach().double())
    return (values > ROUND_OFF * values[..., :1]).sum(-1).to(z.dtype)


def average_angle(z: Float[Tensor, "*batch tokens size"]) -> Float[Tensor, "*batch"]:
    """Mean angle between two different tokens, degrees.

    Args:
        z: tokens; zero ones have no direction and are left out.

    Returns:
        From 0 to 180; 0 where no two tokens are left.

    Example:
        >>> average_angle(torch.eye(3)), average_angle(torch.ones(3, 2))
        (tensor(90.), tensor(0.))
    """
    points = z.detach().double()
    counted = points.square().sum(-1) > 0
    directions = F.normalize(points, dim=-1)
    # twice the arc sine of half the chord is exact for small angles, where the arc cosine is not
    angles = torch.rad2deg(2.0 * (torch.cdist(directions, directions) / 2.0).clamp(max=1.0).asin())
    pairs = counted.unsqueeze(-1) & counted.unsqueeze(-2)
    pairs = pairs & ~torch.eye(points.shape[-2], dtype=torch.bool, device=z.device)
    total = torch.where(pairs, angles, 0.0).sum((-2, -1))
    return (total / pairs.sum((-2, -1)).clamp_min(1)).to(z.dtype)
