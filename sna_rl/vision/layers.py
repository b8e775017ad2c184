"""One iteration as a sequence of updates, and the layer whose updates descend an energy on spheres."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sna_rl.separable.checks import check_int
from sna_rl.separable.delta import LowRankDelta
from sna_rl.separable.scores import HeadFactor
from sna_rl.vision.config import ModelConfig
from sna_rl.vision.energies import make_attention
from sna_rl.vision.feed_energies import make_feed
from sna_rl.vision.normaliser import Normaliser


class Energies(NamedTuple):
    """Energy of every sequence, its two parts apart."""

    attention: Float[Tensor, " batch"]
    feed_forward: Float[Tensor, " batch"]

    @property
    def total(self) -> Float[Tensor, " batch"]:
        """Their sum, which the updates are to lower."""
        return self.attention + self.feed_forward


class Layer(nn.Module, ABC):
    """What one iteration adds to its tokens: x ← x + s_k · update_k(x), k = 0, 1 … in turn, s_k the steps.

    A class says with `n_updates` how many there are.
    """

    n_updates = 2

    @abstractmethod
    def update(
        self, x: Float[Tensor, "batch tokens width"], which: int, t: int
    ) -> Float[Tensor, "batch tokens width"]:
        """Direction of one update.

        Args:
            x: tokens.
            which: k.
            t: number of the iteration, from 0.
        """


class EnergyLayer(Layer):
    """A layer that has an energy."""

    @abstractmethod
    def energy(self, x: Float[Tensor, "batch tokens width"], t: int) -> Energies:
        """Energy of every sequence of tokens.

        Args:
            x: tokens.
            t: number of the iteration, from 0.
        """


class HyperSetLayer(EnergyLayer):
    """x ← x − α · Wᵀ ∂E_attention/∂z, then x ← x − γ · Dᵀ ∂E_feed-forward/∂h.

    z = RMSNorm(W_h x) in each head and h = RMSNorm(D x): one matrix W maps to all heads' components and, its
    transpose, back; one matrix D to the hidden units and back. Tokens spread over the spheres of the heads
    and align to the rows of D. With the exact Jacobian of the norm the updates are −∂E/∂x.

    Args:
        config: width, heads, hidden units, energies, normaliser, rank of the deltas per iteration.

    Cost:
        2 d² + 2 N d + 2 d M products a token, for width d, N tokens, M hidden units.

    Source:
        Hyper-SET (huyunzhe/hyper-set).

    Example:
        >>> layer = HyperSetLayer(ModelConfig(width=8, n_heads=2, hidden=16))
        >>> layer.update(torch.randn(1, 5, 8), 0, 0).shape, layer.energy(torch.randn(3, 5, 8), 0).total.shape
        (torch.Size([1, 5, 8]), torch.Size([3]))
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width, hidden = config.width, check_int("hidden", config.hidden, 1)
        self.heads = HeadFactor(width, config.n_heads)
        self.attention = make_attention(config.attention, width // config.n_heads, config.kernel)
        self.feed = make_feed(config.feed)
        how = (config.gain, config.jacobian, config.eps)
        self.head_norm = Normaliser(width // config.n_heads, *how)
        self.feed_norm = Normaliser(hidden, *how)
        self.directions = nn.Parameter(torch.empty(hidden, width))
        nn.init.normal_(self.directions, std=width**-0.5)
        self.head_delta = self.feed_delta = None
        if config.lora_rank:
            n, rank, scale = config.n_iterations, config.lora_rank, config.lora_scale
            self.head_delta = LowRankDelta(n, width, width, rank, scale)
            self.feed_delta = LowRankDelta(n, hidden, width, rank, scale)

    def update(
        self, x: Float[Tensor, "batch tokens width"], which: int, t: int
    ) -> Float[Tensor, "batch tokens width"]:
        """Downhill in the attention's energy (0), or in the feed-forward's (1)."""
        if which == 0:
            delta = None if self.head_delta is None else self.head_delta(t)
            v = self.heads.split(x, delta)
            u = self.head_norm.pull_back(v, self.attention.grad(self.head_norm(v)))
            return -self.heads.join(u, delta)
        directions = self._directions(t)
        v = F.linear(x, directions)
        return self.feed_norm.pull_back(v, self.feed.grad(self.feed_norm(v))) @ -directions

    def energy(self, x: Float[Tensor, "batch tokens width"], t: int) -> Energies:
        """Both energies with the gains and the activation in use."""
        h = self.feed_norm(F.linear(x, self._directions(t)))
        return Energies(self.attention.energy(self.components(x, t)).sum(-1), self.feed.energy(h))

    def components(
        self, x: Float[Tensor, "batch tokens width"], t: int
    ) -> Float[Tensor, "batch heads tokens size"]:
        """z: every token's point on the sphere of each head.

        Args:
            x: tokens.
            t: number of the iteration, from 0.
        """
        z: Tensor = self.head_norm(
            self.heads.split(x, None if self.head_delta is None else self.head_delta(t))
        )
        return z

    def _directions(self, t: int) -> Tensor:
        return self.directions if self.feed_delta is None else self.directions + self.feed_delta(t)
