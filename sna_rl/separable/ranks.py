"""Ranks read off singular values, for one spectrum or a batch of them."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def effective_rank_of(values: Float[Tensor, "*batch values"]) -> Float[Tensor, "*batch"]:
    """Exponential of the entropy of the normalised singular values, exp(−Σ p ln p), p = σ / Σ σ.

    Args:
        values: singular values in any order.

    Returns:
        Numbers from 1 to the number of values; 0 where all values are 0, NaN where one is NaN.

    Source:
        Roy and Vetterli 2007.

    Example:
        >>> effective_rank_of(torch.ones(2, 4))
        tensor([4., 4.])
    """
    total = values.sum(-1, keepdim=True)
    p = values / torch.where(total == 0, 1.0, total)
    entropy = -torch.special.xlogy(p, p).sum(-1)
    return torch.where(total.squeeze(-1) == 0, 0.0, entropy.exp())


def energy_rank_of(values: Float[Tensor, "*batch values"], q: float) -> Float[Tensor, "*batch"]:
    """Least k whose leading singular values hold the share q of the energy Σ σ².

    Args:
        values: singular values, largest first.
        q: share, over 0 and at most 1.

    Returns:
        Whole numbers as floats; 0 where all values are 0 or none is left, NaN where one is not finite.

    Example:
        >>> energy_rank_of(torch.tensor([3.0, 1.0, 0.0]), 0.9), energy_rank_of(torch.zeros(3), 0.9)
        (tensor(1.), tensor(0.))
    """
    if not values.shape[-1]:
        return values.sum(-1)
    energy = values.square()
    total = energy.sum(-1, keepdim=True)
    slack = 1.0 - torch.finfo(values.dtype).eps * values.shape[-1]
    reached = energy.cumsum(-1) >= q * total * slack
    rank = reached.to(torch.int8).argmax(-1).to(values.dtype) + 1.0
    total = total.squeeze(-1)
    return torch.where(total == 0, 0.0, torch.where(total.isfinite(), rank, torch.nan))


def stable_rank_of(values: Float[Tensor, "*batch values"]) -> Float[Tensor, "*batch"]:
    """Energy in units of the largest singular value's, Σ σ² / σ_1².

    Args:
        values: singular values, largest first.

    Returns:
        Numbers from 1 to the number of values; 0 where all values are 0.

    Source:
        Rudelson and Vershynin 2007.

    Example:
        >>> stable_rank_of(torch.tensor([2.0, 1.0]))
        tensor(1.2500)
    """
    largest = values[..., :1]
    return (values / torch.where(largest == 0, 1.0, largest)).square().sum(-1)
