"""(A + Aᵀ) z without the table A: by blocks of rows, memory linear in the number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sna_rl.separable.scores import bilinear_scores

ROWS = 128  # rows of A that are held at once
BLOCK = 2**17  # numbers of a block, so that it stays in a core's cache; fewer heads at once for more tokens


def memory_linear(
    z: Float[Tensor, "batch heads tokens size"], scale: float
) -> Float[Tensor, "batch heads tokens size"]:
    """(A + Aᵀ) z, A the softmax of the rows of S = β z zᵀ, with no table between tokens.

    Each block of rows of A is made, used for its rows of A z and for its part of Aᵀ z, and forgotten.
    Backward, G the gradient that arrives, it is made again:

        ∂z = (A + Aᵀ) G + β (B + Bᵀ) z,   B_ij = A_ij (Q_ij − Σ_k A_ik Q_ik),   Q = G zᵀ + z Gᵀ.

    Args:
        z: components of the tokens in each head.
        scale: β.

    Cost:
        6 · tokens² · size operations a head forward, 14 · tokens² · size backward, where z and A z are kept.

    Example:
        >>> memory_linear(torch.ones(1, 1, 3, 2), 1.0)[0, 0, 0]
        tensor([2., 2.])
    """
    if torch.is_autocast_enabled(z.device.type):
        z = z.to(torch.get_autocast_dtype(z.device.type))
    attend: Callable[..., Tensor] = _MemoryLinear.apply
    return attend(z.flatten(0, 1), scale).view(z.shape)


class _MemoryLinear(torch.autograd.Function):
    """See `memory_linear`; keeps z and A z.

    What Aᵀ and Bᵀ give is summed transposed, gᵀ A: a product whose long operand is read as it lies in memory
    takes half the time of Aᵀ g.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, scale: float) -> Tensor:
        averages, back = torch.empty_like(z), _zeros_transposed(z)
        for heads, rows, table in _blocks(z, scale):
            averages[heads, rows] = table @ z[heads]
            back[heads].baddbmm_(z[heads, rows].mT, table)
        ctx.save_for_backward(z, averages)
        ctx.scale = scale
        return averages + back.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        z, averages = ctx.saved_tensors
        out, back = torch.empty_like(z), _zeros_transposed(z)
        along_z = (grad * averages).sum(-1, keepdim=True)
        crossed = torch.cat([z, grad, torch.ones_like(along_z)], -1)
        scaled = z * ctx.scale
        for heads, rows, table in _blocks(z, ctx.scale):
            x, g = z[heads, rows], grad[heads, rows]
            along_g = table @ grad[heads]
            mean = along_z[heads, rows] + (x * along_g).sum(-1, keepdim=True)  # Σ_k A_ik Q_ik
            inner = (torch.cat([g, x, -mean], -1) @ crossed[heads].mT).mul_(table)
            out[heads, rows] = along_g.baddbmm_(inner, z[heads], alpha=ctx.scale)
            back[heads].baddbmm_(g.mT, table)
            back[heads].baddbmm_(scaled[heads, rows].mT, inner)
        return out + back.mT, None


def _zeros_transposed(z: Tensor) -> Tensor:
    """Zeros of the shape of zᵀ, contiguous."""
    return z.new_zeros(len(z), z.shape[-1], z.shape[-2])


def _blocks(z: Tensor, scale: float) -> Iterator[tuple[slice, slice, Tensor]]:
    """Some heads, some rows, and those rows of A, of z's dtype: CUDA's autocast would make them float32."""
    n_heads, tokens, _ = z.shape
    at_once = max(1, BLOCK // (ROWS * tokens))
    for head in range(0, n_heads, at_once):
        heads = slice(head, head + at_once)
        for row in range(0, tokens, ROWS):
            rows = slice(row, row + ROWS)
            yield heads, rows, bilinear_scores(z[heads, rows], z[heads], scale).softmax(-1).to(z.dtype)
