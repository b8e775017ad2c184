"""(A + Aᵀ) z without the table A: two fused attentions forward, memory linear in the number of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

aten: Any = torch.ops.aten


def memory_linear(
    z: Float[Tensor, "batch heads tokens size"], scale: float
) -> Float[Tensor, "batch heads tokens size"]:
    """(A + Aᵀ) z, A the softmax of the rows of S = β z zᵀ, with no table between tokens.

    With l_i = ln Σ_j exp S_ij and m = max_i l_i, and SDPA(v) = A v the fused attention of z to itself,

        A z = SDPA(z),   Aᵀ z = e^{l − m} · SDPA(z e^{m − l}),

    and backward, G the gradient that arrives: both SDPA's own backward passes, and through l, which is
    differentiated by hand, w_i = G_i·(Aᵀ z)_i − z_i·(A G)_i, β (w · A z + Aᵀ (w · z)).

    Args:
        z: components of the tokens in each head.
        scale: β.

    Cost:
        Forward two, backward five fused attentions; memory linear in the tokens.

    Example:
        >>> memory_linear(torch.ones(1, 1, 3, 2), 1.0)[0, 0, 0]
        tensor([2., 2.])
    """
    if torch.is_autocast_enabled(z.device.type):
        z = z.to(torch.get_autocast_dtype(z.device.type))
    attend: Callable[..., Tensor] = _MemoryLinear.apply
    return attend(z.contiguous(), scale)


class _MemoryLinear(torch.autograd.Function):
    """See `memory_linear`; keeps z, A z, Aᵀ z and l."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, scale: float) -> Tensor:
        rows, lse, rows_state = _attend(z, z, scale)
        weight = (lse - lse.amax(-1, keepdim=True)).exp().unsqueeze(-1).to(z.dtype)
        inner, _, inner_state = _attend(z, z / weight, scale)
        ctx.save_for_backward(z, rows, inner, lse, weight, *rows_state, *inner_state)
        ctx.scale = scale
        return rows + weight * inner

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        z, rows, inner, lse, weight, *states = ctx.saved_tensors
        scale, half = ctx.scale, len(states) // 2
        grad = grad.contiguous()
        by_rows = _attend_backward(grad, z, z, (rows, lse, *states[:half]), scale)
        *by_inner, by_values = _attend_backward(
            weight * grad, z, z / weight, (inner, lse, *states[half:]), scale
        )
        by_values = by_values / weight  # = A G
        by_lse = (grad * weight * inner - z * by_values).sum(-1, keepdim=True)
        columns = weight * _attend(z, by_lse * z / weight, scale)[0]
        total = sum([*by_rows, *by_inner, by_values]) + scale * (by_lse * rows + columns)
        return total, None


def _attend(z: Tensor, values: Tensor, scale: float) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """SDPA(values), the rows' logsumexp, and what the backward pass of a GPU's kernel asks for besides."""
    if z.device.type == "cpu":
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(z, z, values, scale=scale)
        return out, lse, ()
    out, lse, *random = aten._scaled_dot_product_efficient_attention(z, z, values, None, True, scale=scale)
    return out, lse[..., : z.shape[-2]], tuple(random)


def _attend_backward(
    grad: Tensor, z: Tensor, values: Tensor, saved: tuple[Tensor, ...], scale: float
) -> tuple[Tensor, ...]:
    """Gradients in queries, keys and values."""
    out, lse, *random = saved
    if z.device.type == "cpu":
        backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
        return tuple(backward(grad, z, z, values, out, lse, 0.0, False, scale=scale))
    backward = aten._scaled_dot_product_efficient_attention_backward
    wanted = (True, True, True, False)
    padded = torch.nn.functional.pad(lse, (0, -lse.shape[-1] % 32), value=torch.inf)
    return tuple(backward(grad, z, z, values, None, out, padded, *random, 0.0, wanted, scale=scale)[:3])
