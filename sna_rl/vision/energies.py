"""Energies of tokens that attend to each other, each with its gradient; tokens that minimise them spread."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sna_rl.separable.checks import check_name
from sna_rl.separable.scores import bilinear_scores
from sna_rl.vision.bisoftmax import memory_linear
from sna_rl.vision.kernels import KERNELS

BLOCK = 512  # rows of scores that are held at once where only their sums are wanted
LINEAR_FROM = 512  # tokens from which on the memory-linear form is the faster one


@dataclass(frozen=True)
class AttentionEnergy(ABC):
    """An energy of one head's components z of all tokens, S = β z zᵀ.

    Args:
        scale: β.
    """

    scale: float

    @abstractmethod
    def energy(self, z: Float[Tensor, "*batch tokens size"]) -> Float[Tensor, "*batch"]:
        """Energy of each head."""

    @abstractmethod
    def grad(self, z: Float[Tensor, "*batch tokens size"]) -> Float[Tensor, "*batch tokens size"]:
        """Its gradient in z."""


@dataclass(frozen=True)
class Bisoftmax(AttentionEnergy):
    """E = (1/β) Σ_i ln Σ_j exp S_ij; gradient (A + Aᵀ) z, A the softmax of the rows of S.

    Aᵀ is the softmax of the columns, since S is symmetric. From 512 tokens on, no table between tokens is
    held, neither forward nor backward.

    Source:
        Hyper-SET's attention; between N p √p (orthogonal tokens, without the logarithm) and
        N (p + √p ln N) (equal tokens) for tokens of length √p and β = 1/√p.

    Example:
        >>> round(Bisoftmax(0.5).energy(torch.ones(1, 3, 4)).item(), 4)  # 3 · (4 + 2 ln 3)
        18.5917
    """

    def energy(self, z: Float[Tensor, "*batch tokens size"]) -> Float[Tensor, "*batch"]:
        """Energy of each head, by blocks of rows."""
        blocks = torch.split(z, BLOCK, -2)
        sums = [bilinear_scores(block, z, self.scale).logsumexp(-1).sum(-1) for block in blocks]
        return torch.stack(sums).sum(0) / self.scale

    def grad(self, z: Float[Tensor, "*batch tokens size"]) -> Float[Tensor, "*batch tokens size"]:
        """(A + Aᵀ) z."""
        if z.shape[-2] >= LINEAR_FROM:
            return memory_linear(z, self.scale)
        return plain_bisoftmax(z, self.scale)


def plain_bisoftmax(
    z: Float[Tensor, "*batch tokens size"], scale: float
) -> Float[Tensor, "*batch tokens size"]:
    """(A + Aᵀ) z by the whole table A = softmax(β z zᵀ).

    Args:
        z: components of the tokens in each head.
        scale: β.

    Cost:
        tokens² numbers a head, forward and backward.
    """
    table = bilinear_scores(z, z, scale).softmax(-1)
    return (table + table.mT) @ z


@dataclass(frozen=True)
class Sigmoid(AttentionEnergy):
    """E = (1/2β) Σ_ij σ(S_ij); gradient Σ_j σ(1 − σ)(S_ij) z_j."""

    def energy(self, z: Float[Tensor, "*batch tokens size"]) -> Float[Tensor, "*batch"]:
        """Energy of each head."""
        return bilinear_scores(z, z, self.scale).sigmoid().sum((-2, -1)) / (2.0 * self.scale)

    def grad(self, z: Float[Tensor, "*batch tokens size"]) -> Float[Tensor, "*batch tokens size"]:
        """Σ_j σ(1 − σ)(S_ij) z_j."""
        share = bilinear_scores(z, z, self.scale).sigmoid()
        return (share * (1.0 - share)) @ z


@dataclass(frozen=True)
class Relu(AttentionEnergy):
    """E = (1/4β) Σ_ij relu(S_ij)²; gradient Σ_j relu(S_ij) z_j."""

    def energy(self, z: Float[Tensor, "*batch tokens size"]) -> Float[Tensor, "*batch"]:
        """Energy of each head."""
        return bilinear_scores(z, z, self.scale).relu().square().sum((-2, -1)) / (4.0 * self.scale)

    def grad(self, z: Float[Tensor, "*batch tokens size"]) -> Float[Tensor, "*batch tokens size"]:
        """Σ_j relu(S_ij) z_j."""
        return bilinear_scores(z, z, self.scale).relu() @ z


@dataclass(frozen=True)
class Linear(AttentionEnergy):
    """E = (1/4β) Σ_ij (β φ(z_i)·φ(z_j))²; gradient φ'(z_i) · β φ(z_i) ΦᵀΦ.

    Args:
        scale: β.
        kernel: φ, a name of `KERNELS`.

    Cost:
        tokens · size² operations: no table between tokens.
    """

    kernel: str = "elu+1"

    def __post_init__(self) -> None:
        check_name("kernel", self.kernel, KERNELS)

    def energy(self, z: Float[Tensor, "*batch tokens size"]) -> Float[Tensor, "*batch"]:
        """Energy of each head: Σ_ij (φ_i·φ_j)² is the squared size of ΦᵀΦ."""
        features = KERNELS[self.kernel].value(z)
        return (features.mT @ features).square().sum((-2, -1)) * (self.scale / 4.0)

    def grad(self, z: Float[Tensor, "*batch tokens size"]) -> Float[Tensor, "*batch tokens size"]:
        """φ'(z_i) · β φ(z_i) ΦᵀΦ."""
        kernel = KERNELS[self.kernel]
        features = kernel.value(z)
        return kernel.slope(z) * (features @ (features.mT @ features)) * self.scale


ATTENTIONS: dict[str, type[AttentionEnergy]] = {
    "bisoftmax": Bisoftmax,
    "sigmoid": Sigmoid,
    "linear": Linear,
    "relu": Relu,
}


def make_attention(name: str, head_size: int, kernel: str = "elu+1") -> AttentionEnergy:
    """Attention energy by name, β = head_size^(−1/2).

    Args:
        name: bisoftmax, sigmoid, linear or relu.
        head_size: p.
        kernel: φ of the linear one.

    Raises:
        UsageError: if a name is unknown.

    Example:
        >>> make_attention("relu", 16)
        Relu(scale=0.25)
    """
    check_name("attention", name, ATTENTIONS)
    scale = 1.0 / math.sqrt(head_size)
    return Linear(scale, kernel) if name == "linear" else ATTENTIONS[name](scale)
