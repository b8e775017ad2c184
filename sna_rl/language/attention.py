"""Attention layers of one interface: separable (constant state) and softmax (PyTorch's fused form)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from sna_rl.separable.attention import (
    AttentionState,
    attention_state,
    attention_step,
    causal_attention,
    look_ahead_attention,
    positive_features,
)


class Prompt(NamedTuple):
    """Where a layer may look ahead.

    Args:
        inside: True at the prompt's positions, which come first.
        window: positions seen ahead, inside the prompt alone.
    """

    inside: Bool[Tensor, "batch time"]
    window: int


class KeyValues(NamedTuple):
    """What softmax attention remembers: all keys and values so far."""

    keys: Float[Tensor, "batch heads time features"]
    values: Float[Tensor, "batch heads time size"]


class _Heads(nn.Module):
    """Projections to queries, keys and values of several heads, and from their outputs."""

    def __init__(self, size_in: int, size_out: int, n_heads: int, features: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(size_in, n_heads * features, bias=False)
        self.key = nn.Linear(size_in, n_heads * features, bias=False)
        self.value = nn.Linear(size_in, size_out, bias=False)
        self.mix = nn.Linear(size_out, size_out, bias=False)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, (batch, heads, time, size) each."""
        q, k, v = (
            y.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for y in (self.query(x), self.key(x), self.value(x))
        )
        return q, k, v

    def joined(self, heads: Tensor) -> Tensor:
        """Outputs of the heads, mixed."""
        mixed: Tensor = self.mix(heads.transpose(1, 2).flatten(2))
        return mixed


class SeparableAttention(_Heads):
    """Causal attention of rank-R features: linear in time, and a state of constant size when generating.

    Args:
        size_in: size of its input.
        size_out: size of its output, a multiple of `n_heads`.
        n_heads: heads.
        rank: R, features of a head.

    Example:
        >>> layer = SeparableAttention(8, 8, n_heads=2, rank=4)
        >>> layer(torch.zeros(1, 5, 8)).shape
        torch.Size([1, 5, 8])
    """

    def __init__(self, size_in: int, size_out: int, n_heads: int, rank: int) -> None:
        super().__init__(size_in, size_out, n_heads, rank)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Positive features of queries and keys, and values."""
        q, k, v = super().project(x)
        return positive_features(q), positive_features(k), v

    def forward(
        self, x: Float[Tensor, "batch time size_in"], prompt: Prompt | None = None
    ) -> Float[Tensor, "batch time size_out"]:
        """All positions at once, each from those up to its own (and ahead inside the prompt)."""
        return self.joined(_attend(*self.project(x), prompt))

    def start(
        self, x: Float[Tensor, "batch time size_in"], prompt: Prompt | None = None
    ) -> tuple[Float[Tensor, "batch time size_out"], AttentionState]:
        """As `forward`, with the state to go on from."""
        q, k, v = self.project(x)
        return self.joined(_attend(q, k, v, prompt)), attention_state(k, v)

    def step(
        self, x: Float[Tensor, "batch 1 size_in"], state: AttentionState
    ) -> tuple[Float[Tensor, "batch 1 size_out"], AttentionState]:
        """One position more."""
        q, k, v = (y.squeeze(2) for y in self.project(x))
        heads, state = attention_step(state, q, k, v)
        return self.joined(heads.unsqueeze(2)), state


class SoftmaxAttention(_Heads):
    """Causal softmax attention, PyTorch's fused form; it remembers every position when generating.

    Args:
        size_in: size of its input.
        size_out: size of its output, a multiple of `n_heads`.
        n_heads: heads.
    """

    def __init__(self, size_in: int, size_out: int, n_heads: int) -> None:
        super().__init__(size_in, size_out, n_heads, size_out // n_heads)

    def forward(
        self, x: Float[Tensor, "batch time size_in"], prompt: Prompt | None = None
    ) -> Float[Tensor, "batch time size_out"]:
        """All positions at once, each from those up to its own (and ahead inside the prompt)."""
        return self.start(x, prompt)[0]

    def start(
        self, x: Float[Tensor, "batch time size_in"], prompt: Prompt | None = None
    ) -> tuple[Float[Tensor, "batch time size_out"], KeyValues]:
        """As `forward`, with the keys and values to go on from."""
        q, k, v = self.project(x)
        mask = None if prompt is None else allowed(prompt)
        heads = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.joined(heads), KeyValues(k, v)

    def step(
        self, x: Float[Tensor, "batch 1 size_in"], state: KeyValues
    ) -> tuple[Float[Tensor, "batch 1 size_out"], KeyValues]:
        """One position more."""
        q, k, v = self.project(x)
        state = KeyValues(torch.cat([state.keys, k], 2), torch.cat([state.values, v], 2))
        return self.joined(scaled_dot_product_attention(q, *state)), state


def allowed(prompt: Prompt) -> Bool[Tensor, "batch 1 time time"]:
    """Which position (row) may read which (column): j ≤ i, or j ≤ i + window where both are in the prompt.

    Example:
        >>> allowed(Prompt(torch.tensor([[True, True, False]]), 1))[0, 0].int()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    inside = prompt.inside
    index = torch.arange(inside.shape[1], device=inside.device)
    ahead = index - index[:, None]
    seen = (ahead <= prompt.window) & inside[:, :, None] & inside[:, None, :]
    return ((ahead <= 0) | seen).unsqueeze(1)


def make_attention(
    attention: str, size_in: int, size_out: int, n_heads: int, rank: int
) -> SeparableAttention | SoftmaxAttention:
    """The attention layer of a name in `ATTENTIONS`.

    Args:
        attention: its name.
        size_in: size of its input.
        size_out: size of its output.
        n_heads: heads.
        rank: features of a head, separable attention's alone.
    """
    if attention == "separable":
        return SeparableAttention(size_in, size_out, n_heads, rank)
    return SoftmaxAttention(size_in, size_out, n_heads)


def _attend(q: Tensor, k: Tensor, v: Tensor, prompt: Prompt | None) -> Tensor:
    """Separable attention, with or without a window into the prompt."""
    if prompt is None:
        return causal_attention(q, k, v)
    return look_ahead_attention(q, k, v, prompt.inside, prompt.window)
