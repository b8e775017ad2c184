"""Layers of K independent members, evaluated as one batched computation."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class EnsembleLinear(nn.Module):
    """K affine maps side by side, each with its own weights.

    y_k = x W_k + b_k

    Args:
        n_members: K, number of independent members.
        in_features: size of the input.
        out_features: size of the output.

    Cost:
        One `baddbmm`: 2 · K · batch · in · out floating point operations.

    Example:
        >>> layer = EnsembleLinear(2, 3, 5)
        >>> layer(torch.zeros(7, 3)).shape
        torch.Size([2, 7, 5])
    """

    def __init__(self, n_members: int, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_members, in_features, out_features))
        self.bias = nn.Parameter(torch.empty(n_members, out_features))
        bound = 1.0 / math.sqrt(in_features)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Float[Tensor, "*members batch in"]) -> Float[Tensor, "K batch out"]:
        """Map one input shared by all members (batch, in), or one input each (K, batch, in)."""
        if x.dim() == 2:
            x = x.expand(self.weight.shape[0], -1, -1)
        return torch.baddbmm(self.bias.unsqueeze(1), x, self.weight)


class EnsembleHead(nn.Module):
    """K affine functions of one output each.

    y_k = ⟨x, w_k⟩ + b_k, as a product and a sum: a batched matrix product with one column is slow.

    Args:
        n_members: K, number of independent members.
        in_features: size of the input.

    Example:
        >>> EnsembleHead(2, 3)(torch.zeros(7, 3)).shape
        torch.Size([2, 7])
    """

    def __init__(self, n_members: int, in_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_members, 1, in_features))
        self.bias = nn.Parameter(torch.empty(n_members, 1))
        bound = 1.0 / math.sqrt(in_features)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Float[Tensor, "*members batch in"]) -> Float[Tensor, "K batch"]:
        """Map one input shared by all members (batch, in), or one input each (K, batch, in)."""
        return (x * self.weight).sum(-1) + self.bias


class EnsembleLayerNorm(nn.Module):
    """K layer normalisations, each with its own gain and shift.

    y_k = g_k · (x_k − mean) / √(variance + 1e-5) + b_k, mean and variance over the features.

    Args:
        n_members: K, number of independent members.
        n_features: size of the last dimension.

    Source:
        Ba, Kiros, Hinton 2016, arXiv 1607.06450.

    Example:
        >>> EnsembleLayerNorm(2, 4)(torch.randn(2, 7, 4)).mean(-1).abs().max() < 1e-6
        tensor(True)
    """

    def __init__(self, n_members: int, n_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n_members, 1, n_features))
        self.bias = nn.Parameter(torch.zeros(n_members, 1, n_features))

    def forward(self, x: Float[Tensor, "K batch features"]) -> Float[Tensor, "K batch features"]:
        """Normalise each row of each member."""
        return F.layer_norm(x, x.shape[-1:]) * self.weight + self.bias


class EnsembleTower(nn.Module):
    """K stacks of hidden layers: linear, layer normalisation where asked for, ReLU.

    Args:
        n_members: K, number of independent members.
        in_features: size of the input.
        width: size of every hidden layer.
        depth: number of hidden layers; with 0 the tower hands its input on.
        layer_norm: whether each hidden layer is normalised before its ReLU.

    Example:
        >>> tower = EnsembleTower(2, 3, width=8, depth=2, layer_norm=True)
        >>> tower(torch.zeros(7, 3)).shape, tower.out_features
        (torch.Size([2, 7, 8]), 8)
    """

    def __init__(self, n_members: int, in_features: int, width: int, depth: int, layer_norm: bool) -> None:
        super().__init__()
        sizes = [in_features, *[width] * depth]
        self.out_features = sizes[-1]
        self.layers = nn.ModuleList(
            EnsembleLinear(n_members, size_in, size_out) for size_in, size_out in pairwise(sizes)
        )
        self.norms = nn.ModuleList(
            EnsembleLayerNorm(n_members, width) if layer_norm else nn.Identity() for _ in range(depth)
        )

    def forward(self, x: Float[Tensor, "*members batch in"]) -> Float[Tensor, "*K batch out"]:
        """Features of the last hidden layer."""
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = F.relu(norm(layer(x)))
        return x
