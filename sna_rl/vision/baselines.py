"""Layers of other transformers, to be iterated, conditioned and stepped exactly as Hyper-SET's is."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sna_rl.separable.scores import HeadFactor, bilinear_scores
from sna_rl.vision.config import ModelConfig
from sna_rl.vision.layers import Energies, EnergyLayer, HyperSetLayer, Layer
from sna_rl.vision.normaliser import Normaliser

ET_STD = 0.002
ISTA_STEP = ISTA_SPARSITY = 0.1


class TransformerLayer(Layer):
    """Pre-norm transformer layer without biases: attention, then a ReLU network; published with steps of 1.

    It has no energy, so nothing ever asks for its scores: torch's fused attention makes and forgets them.

    Args:
        config: width, heads, hidden units, norm (rms or layer).

    Cost:
        4 d² + 2 N d + 2 d M products a token.

    Source:
        Vaswani et al. 2017; Xiong et al. 2020 (pre-norm).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width, self.n_heads = config.width, config.n_heads
        norm = Normaliser if config.norm == "rms" else nn.LayerNorm
        self.norms = nn.ModuleList(norm(width, eps=config.eps) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, width, bias=False)

    def update(
        self, x: Float[Tensor, "batch tokens width"], which: int, t: int
    ) -> Float[Tensor, "batch tokens width"]:
        """Attention (0) or network (1) of the normalised tokens."""
        y = self.norms[which](x)
        if which == 1:
            hidden: Tensor = self.down(self.up(y).relu())
            return hidden
        heads = self.qkv(y).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        attended: Tensor = self.out(F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
        return attended


class CrateLayer(Layer):
    """Subspace attention with one matrix for queries, keys and values, then a step towards a sparse code.

    x ← x + W_out SSA(W LN x), then x ← relu(y + η (Dᵀ y − Dᵀ D y) − η λ), y = LN x, η = λ = 0.1; published
    with steps of 1. The transposed form (CRATE-T) has Wᵀ for W_out. SSA is torch's fused attention: without
    an energy, nothing ever asks for the scores.

    Args:
        config: width, heads; model crate or crate-t.

    Source:
        Yu et al. 2023, arXiv 2306.01129.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.width
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.heads = HeadFactor(width, config.n_heads)
        self.out = nn.Linear(width, width) if config.model == "crate" else None
        self.dictionary = nn.Parameter(torch.empty(width, width))
        nn.init.kaiming_uniform_(self.dictionary)

    def update(
        self, x: Float[Tensor, "batch tokens width"], which: int, t: int
    ) -> Float[Tensor, "batch tokens width"]:
        """Attention (0), or from x to the sparse code (1)."""
        y = self.norms[which](x)
        if which == 0:
            z = self.heads.split(y)
            attended = F.scaled_dot_product_attention(z, z, z)
            if self.out is None:
                return self.heads.join(attended)
            mapped: Tensor = self.out(attended.transpose(1, 2).flatten(2))
            return mapped
        rest = F.linear(y - F.linear(y, self.dictionary), self.dictionary.mT)
        code: Tensor = (y + ISTA_STEP * rest - ISTA_STEP * ISTA_SPARSITY).relu()
        return code - x


class EnergyTransformerLayer(EnergyLayer):
    """One step down E(g) = −(1/β) Σ_hi ln Σ_j exp β⟨q_hi, k_hj⟩ − ½ Σ_im relu(ξ_m · g_i)²: tokens attract.

    g = gain · LN(x) + bias with one gain for all channels; the update is −∂E/∂g, published with twelve steps
    of 0.1.

    Args:
        config: width, heads, hidden units.

    Source:
        Hoover et al. 2023, arXiv 2302.07253.
    """

    n_updates = 1

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(config.width))
        self.queries = HeadFactor(config.width, config.n_heads)
        self.keys = HeadFactor(config.width, config.n_heads)
        self.memories = nn.Parameter(torch.empty(config.hidden, config.width))
        self.scale = (config.width // config.n_heads) ** -0.5
        for weight in (self.queries.weight, self.keys.weight):
            nn.init.normal_(weight, std=ET_STD)
        nn.init.normal_(self.memories, std=config.width**-0.5)

    def normalise(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """g."""
        return F.layer_norm(x, x.shape[-1:]) * self.gain + self.bias

    def update(
        self, x: Float[Tensor, "batch tokens width"], which: int, t: int
    ) -> Float[Tensor, "batch tokens width"]:
        """−∂E/∂g."""
        g = self.normalise(x)
        q, k = self.queries.split(g), self.keys.split(g)
        shares = bilinear_scores(q, k, self.scale).softmax(-1)
        attention = self.queries.join(shares @ k) + self.keys.join(shares.mT @ q)
        return attention + F.linear(g, self.memories).relu() @ self.memories

    def energy(self, x: Float[Tensor, "batch tokens width"], t: int) -> Energies:
        """Both energies."""
        g = self.normalise(x)
        scores = bilinear_scores(self.queries.split(g), self.keys.split(g), self.scale)
        memories = F.linear(g, self.memories).relu().square().sum((-2, -1))
        return Energies(scores.logsumexp(-1).sum((-2, -1)) / -self.scale, memories * -0.5)


LAYERS: dict[str, type[HyperSetLayer | TransformerLayer | CrateLayer | EnergyTransformerLayer]] = {
    "hyper-set": HyperSetLayer,
    "transformer": TransformerLayer,
    "crate": CrateLayer,
    "crate-t": CrateLayer,
    "energy-transformer": EnergyTransformerLayer,
}


def make_layer(config: ModelConfig) -> Layer:
    """Layer by the configuration's model.

    Args:
        config: the model.

    Example:
        >>> type(make_layer(ModelConfig(model="crate-t"))).__name__
        'CrateLayer'
    """
    return LAYERS[config.model](config)
