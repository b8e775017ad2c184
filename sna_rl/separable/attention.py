"""Causal attention as a separable form: rank-R features and prefix sums in place of a softmax's table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

CHUNK = 64  # positions whose products are taken directly; the states between chunks carry the rest
SMALLEST_SUM = 1e-6  # added to every denominator: where all features vanish the output is 0


class AttentionState(NamedTuple):
    """All that attention remembers of the past, of a size that does not depend on its length.

    numerator = Σ_j φ(k_j) v_jᵀ, denominator = Σ_j φ(k_j)
    """

    numerator: Float[Tensor, "batch heads rank values"]
    denominator: Float[Tensor, "batch heads rank"]


def positive_features(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Features φ(x) = elu(x) + 1 of linear attention, none of them negative.

    Args:
        x: projected queries or keys, the last axis of size R.

    Returns:
        1 + x where x is over 0, exp(x) elsewhere.

    Source:
        Katharopoulos et al. 2020.

    Example:
        >>> positive_features(torch.tensor([-1000.0, 0.0, 2.0]))
        tensor([0., 1., 3.])
    """
    return nn.functional.elu(x) + 1.0


def causal_attention(
    q: Float[Tensor, "batch heads time rank"],
    k: Float[Tensor, "batch heads time rank"],
    v: Float[Tensor, "batch heads time values"],
) -> Float[Tensor, "batch heads time values"]:
    """Normalised rank-R attention to the positions up to one's own.

    o_i = Σ_{j≤i} (φ(q_i)·φ(k_j)) v_j / (ε + Σ_{j≤i} φ(q_i)·φ(k_j))

    Args:
        q: features φ(q) of the queries, not negative.
        k: features φ(k) of the keys, not negative.
        v: values.

    Returns:
        Weighted means of the values; 0 where every product of features is 0.

    Cost:
        O(time · rank · values) operations and memory linear in time, forward and backward.

    Source:
        Katharopoulos et al. 2020, in chunks of positions.

    Example:
        >>> ones, v = torch.ones(1, 1, 3, 2), torch.tensor([[[[1.0], [3.0], [5.0]]]])
        >>> causal_attention(ones, ones, v).flatten()
        tensor([1.0000, 2.0000, 3.0000])
    """
    with torch.autocast(q.device.type, enabled=False):  # sums over thousands of positions need float32
        exact = torch.promote_types(q.dtype, torch.float32)
        attend: Callable[..., Tensor] = _CausalAttention.apply
        output = attend(q.to(exact), k.to(exact), v.to(exact))
    return output.to(v.dtype)


def look_ahead_attention(
    q: Float[Tensor, "batch heads time rank"],
    k: Float[Tensor, "batch heads time rank"],
    v: Float[Tensor, "batch heads time values"],
    inside: Bool[Tensor, "batch time"],
    window: int,
) -> Float[Tensor, "batch heads time values"]:
    """`causal_attention`, but inside the prompt a position also sees the next `window` ones of the prompt.

    A sum over j ≤ i + w is a causal sum whose keys come w positions early; keys past the prompt are left out.

    Args:
        q: features of the queries.
        k: features of the keys.
        v: values.
        inside: True at the prompt's positions, which come first.
        window: w, positions that a prompt's position sees ahead.

    Returns:
        Weighted means of the values.

    Cost:
        Twice `causal_attention`.

    Example:
        >>> ones, v = torch.ones(1, 1, 3, 1), torch.tensor([[[[1.0], [3.0], [5.0]]]])
        >>> inside = torch.tensor([[True, True, False]])
        >>> look_ahead_attention(ones, ones, v, inside, 20).flatten()
        tensor([2.0000, 2.0000, 3.0000])
    """
    seen = k * inside[:, None, :, None]
    late = nn.functional.pad(q, (0, 0, window, 0))
    early, values = (nn.functional.pad(x, (0, 0, 0, window)) for x in (seen, v))
    ahead = causal_attention(late, early, values)[:, :, window:]
    return torch.where(inside[:, None, :, None], ahead, causal_attention(q, k, v))


def attention_state(
    k: Float[Tensor, "batch heads time rank"], v: Float[Tensor, "batch heads time values"]
) -> AttentionState:
    """State after positions whose keys' features and values are given.

    Args:
        k: features φ(k) of the keys.
        v: values.

    Example:
        >>> attention_state(torch.ones(1, 1, 3, 2), torch.ones(1, 1, 3, 1)).denominator
        tensor([[[3., 3.]]])
    """
    return AttentionState(k.mT @ v, k.sum(-2))


def attention_step(
    state: AttentionState,
    q: Float[Tensor, "batch heads rank"],
    k: Float[Tensor, "batch heads rank"],
    v: Float[Tensor, "batch heads values"],
) -> tuple[Float[Tensor, "batch heads values"], AttentionState]:
    """One position more: what `causal_attention` gives there, at constant cost.

    Args:
        state: of the positions before.
        q: features of its query.
        k: features of its key.
        v: its value.

    Returns:
        The output, and the state after it.

    Cost:
        O(rank · values) a head, whatever the number of positions before.
    """
    state = AttentionState(state.numerator + k.unsqueeze(-1) * v.unsqueeze(-2), state.denominator + k)
    weighted = (q.unsqueeze(-2) @ state.numerator).squeeze(-2)
    total = (q * state.denominator).sum(-1, keepdim=True)
    return weighted / (total + SMALLEST_SUM), state


def _chunks(x: Tensor) -> Tensor:
    """(batch, heads, time, n) as (batch · heads, chunks, positions, n), the end filled with zeros."""
    size = min(CHUNK, x.shape[2])
    x = nn.functional.pad(x.flatten(0, 1), (0, 0, 0, -x.shape[2] % size))
    return x.reshape(len(x), -1, size, x.shape[-1])


def _joined(x: Tensor, batch: int, time: int) -> Tensor:
    """Inverse of `_chunks`."""
    return x.flatten(1, 2)[:, :time].view(batch, -1, time, x.shape[-1])


def _before(sums: Tensor) -> Tensor:
    """Sum over the chunks before each; a loop, since `cumsum` over an axis that is not the last is slow."""
    total = torch.zeros_like(sums)
    for chunk in range(1, sums.shape[1]):
        torch.add(total[:, chunk - 1], sums[:, chunk - 1], out=total[:, chunk])
    return total


def _after(sums: Tensor) -> Tensor:
    """Sum over the chunks after each."""
    total = torch.zeros_like(sums)
    for chunk in range(sums.shape[1] - 1, 0, -1):
        torch.add(total[:, chunk], sums[:, chunk], out=total[:, chunk - 1])
    return total


class _CausalAttention(torch.autograd.Function):
    """Chunked sums with a backward of the same form; nothing of size time × chunk is kept between the two."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        batch, _, time, _ = q.shape
        qs, ks, vs = _chunks(q), _chunks(k), _chunks(v)
        scores = (qs @ ks.mT).tril_()
        totals = scores.sum(-1, keepdim=True) + SMALLEST_SUM
        values = scores @ vs
        if qs.shape[1] > 1:
            totals += qs @ _before(ks.sum(-2, keepdim=True)).mT
            values += qs @ _before(ks.mT @ vs)
        values /= totals
        ctx.save_for_backward(qs, ks, vs, values, totals)
        return _joined(values, batch, time)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        qs, ks, vs, values, totals = ctx.saved_tensors
        batch, _, time, _ = grad.shape
        by_value = _chunks(grad) / totals
        by_total = -(by_value * values).sum(-1, keepdim=True)
        scores = (qs @ ks.mT).tril_()
        by_score = ((by_value @ vs.mT) + by_total).tril_()
        grad_q = by_score @ ks
        grad_k = by_score.mT @ qs
        grad_v = scores.mT @ by_value
        if qs.shape[1] > 1:
            grad_q += by_value @ _before(ks.mT @ vs).mT
            grad_q += by_total * _before(ks.sum(-2, keepdim=True))
            later = _after(qs.mT @ by_value)
            grad_k += vs @ later.mT
            grad_k += _after((by_total * qs).sum(-2, keepdim=True))
            grad_v += ks @ later
        return _joined(grad_q, batch, time), _joined(grad_k, batch, time), _joined(grad_v, batch, time)
