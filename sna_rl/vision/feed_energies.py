"""Energies of tokens against directions, each with its gradient; tokens that minimise them align."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from sna_rl.separable.checks import check_name
from sna_rl.vision.kernels import KERNELS


@dataclass(frozen=True)
class FeedEnergy(ABC):
    """An energy of every token's products h with the M directions."""

    @abstractmethod
    def energy(self, h: Float[Tensor, "*batch tokens hidden"]) -> Float[Tensor, "*batch"]:
        """Energy of each sequence."""

    @abstractmethod
    def grad(self, h: Float[Tensor, "*batch tokens hidden"]) -> Float[Tensor, "*batch tokens hidden"]:
        """Its gradient in h."""


@dataclass(frozen=True)
class ReluFeed(FeedEnergy):
    """E = −½ Σ_im relu(h_im)²; gradient −relu(h). Between −N M / 2 and 0 for tokens of length √M.

    Example:
        >>> import torch
        >>> ReluFeed().energy(torch.tensor([[1.0, -2.0], [3.0, 0.0]]))
        tensor(-5.)
    """

    def energy(self, h: Float[Tensor, "*batch tokens hidden"]) -> Float[Tensor, "*batch"]:
        """Energy of each sequence."""
        return h.relu().square().sum((-2, -1)) * -0.5

    def grad(self, h: Float[Tensor, "*batch tokens hidden"]) -> Float[Tensor, "*batch tokens hidden"]:
        """−relu(h)."""
        return -h.relu()


@dataclass(frozen=True)
class SoftmaxFeed(FeedEnergy):
    """E = −Σ_i ln Σ_m exp h_im; gradient −softmax(h)."""

    def energy(self, h: Float[Tensor, "*batch tokens hidden"]) -> Float[Tensor, "*batch"]:
        """Energy of each sequence."""
        return -h.logsumexp(-1).sum(-1)

    def grad(self, h: Float[Tensor, "*batch tokens hidden"]) -> Float[Tensor, "*batch tokens hidden"]:
        """−softmax(h)."""
        return -h.softmax(-1)


@dataclass(frozen=True)
class GatedFeed(FeedEnergy):
    """E = −½ Σ_i (Σ_m φ(h_im))²; gradient −(Σ_m φ(h_im)) φ'(h).

    Args:
        kernel: φ, a name of `KERNELS`.
    """

    kernel: str = "gelu"

    def __post_init__(self) -> None:
        check_name("kernel", self.kernel, KERNELS)

    def energy(self, h: Float[Tensor, "*batch tokens hidden"]) -> Float[Tensor, "*batch"]:
        """Energy of each sequence."""
        return KERNELS[self.kernel].value(h).sum(-1).square().sum(-1) * -0.5

    def grad(self, h: Float[Tensor, "*batch tokens hidden"]) -> Float[Tensor, "*batch tokens hidden"]:
        """−(Σ_m φ(h_im)) φ'(h)."""
        kernel = KERNELS[self.kernel]
        return -kernel.value(h).sum(-1, keepdim=True) * kernel.slope(h)


FEEDS: dict[str, type[FeedEnergy]] = {"relu": ReluFeed, "softmax": SoftmaxFeed, "gated": GatedFeed}


def make_feed(name: str) -> FeedEnergy:
    """Feed-forward energy by name.

    Args:
        name: relu, softmax or gated.

    Raises:
        UsageError: if the name is unknown.

    Example:
        >>> make_feed("gated")
        GatedFeed(kernel='gelu')
    """
    check_name("feed-forward", name, FEEDS)
    return FEEDS[name]()
