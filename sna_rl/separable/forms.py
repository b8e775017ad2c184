"""How the modes' components meet: not at all, in one product, up to an order, or through a core tensor."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sna_rl.separable.initial import Moments, symmetric_square
from sna_rl.separable.layout import Layout


class Part(NamedTuple):
    """A network evaluated over some of its modes: all that the other modes need to know of them."""

    effect: Tensor  # "K batch": sum of the modes' main effects
    terms: Tensor  # "K batch terms": products of their components
    modes: tuple[int, ...]


class Bilinear(NamedTuple):
    """What two parts make together: f[i, j] = rows_i + columns_j + Σ_p left_ip right_jp."""

    rows: Tensor  # "K n"
    columns: Tensor  # "K m"
    left: Tensor  # "K n p"
    right: Tensor  # "K m p"


class Interaction(nn.Module, ABC):
    """The part of a separable function in which modes meet."""

    @abstractmethod
    def terms(self, components: Sequence[Float[Tensor, "K batch _"]]) -> Tensor:
        """Products of the components of some modes, "K batch terms"."""

    @abstractmethod
    def bilinear(self, left: Part, right: Part) -> Bilinear:
        """Both parts with the weights absorbed: f is affine in each of them."""

    @abstractmethod
    def empty(self, like: Tensor) -> Tensor:
        """Terms of no mode at all, of batch 1, with `like`'s kind of numbers."""

    @abstractmethod
    def initialise(self, moments: Sequence[Moments], std: float) -> None:
        """Draw weights that give the interaction the root mean square `std`."""


class NoInteraction(Interaction):
    """Additive: no mode meets another."""

    def __init__(self, n_members: int) -> None:
        super().__init__()
        self.n_members = n_members

    def terms(self, components: Sequence[Float[Tensor, "K batch _"]]) -> Tensor:
        """No products."""
        return components[0][..., :0]

    def bilinear(self, left: Part, right: Part) -> Bilinear:
        """Main effects alone."""
        return Bilinear(left.effect, right.effect, left.terms, right.terms)

    def empty(self, like: Tensor) -> Tensor:
        """No terms."""
        return like.new_empty(self.n_members, 1, 0)

    def initialise(self, moments: Sequence[Moments], std: float) -> None:
        """Nothing to draw."""


class ProductInteraction(Interaction):
    """CP: Σ_r λ_r Π_n φ_r^(n) / √R, one product over all modes for each component.

    Source:
        Harshman 1970; Carroll and Chang 1970.
    """

    def __init__(self, n_members: int, rank: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(n_members, 1, rank))
        self.scale = 1.0 / math.sqrt(rank)

    def terms(self, components: Sequence[Float[Tensor, "K batch _"]]) -> Tensor:
        """One product for each component."""
        product = components[0]
        for factor in components[1:]:
            product = product * factor
        return product

    def bilinear(self, left: Part, right: Part) -> Bilinear:
        """Weights absorbed into the left part."""
        return Bilinear(left.effect, right.effect, left.terms * (self.weights * self.scale), right.terms)

    def empty(self, like: Tensor) -> Tensor:
        """The empty product, 1."""
        n_members, _, rank = self.weights.shape
        return like.new_ones(n_members, 1, rank)

    def initialise(self, moments: Sequence[Moments], std: float) -> None:
        """Normal weights; their spread makes up for the components'."""
        nn.init.normal_(self.weights, 0.0, std / math.sqrt(symmetric_square(moments, len(moments))))


class SymmetricInteraction(Interaction):
    """Every interaction up to order k: Σ_{j=2..k} Σ_r λ_jr e_j(φ_r^(1) … φ_r^(N)) / √R.

    e_j, the elementary symmetric polynomial, is the sum of the products over all subsets of j
    modes. Terms of a part are its e_1 … e_k side by side; e_j of two parts together is their
    convolution Σ_i e_i e_{j−i}.

    Cost:
        O(N · k · R) a row for e_1 … e_k, by e_j ← e_j + φ^(n) e_{j−1}.

    Source:
        Blondel et al. 2016, arXiv 1607.07195 (higher-order factorization machines).
    """

    def __init__(self, n_members: int, rank: int, order: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(n_members, order - 1, rank))
        self.order = order
        self.scale = 1.0 / math.sqrt(rank)

    def terms(self, components: Sequence[Float[Tensor, "K batch _"]]) -> Tensor:
        """e_1 … e_k side by side, k no more than the number of modes."""
        sums: list[Tensor] = []
        for factor in components:
            raised = [factor, *(factor * lower for lower in sums)][: self.order]
            sums = [*map(torch.add, sums, raised), *raised[len(sums) :]]
        return sums[0] if len(sums) == 1 else torch.cat(sums, -1)

    def bilinear(self, left: Part, right: Part) -> Bilinear:
        """Terms within a part join its main effects; across both parts stands the convolution."""
        weights = [weight.unsqueeze(1) * self.scale for weight in self.weights.unbind(1)]  # orders 2 … k
        lefts, rights = self._orders(left), self._orders(right)
        across = [
            [weights[i + j] * term for j, term in enumerate(rights) if i + j < len(weights)]
            for i in range(min(len(lefts), len(weights)))
        ]
        pairs = [(lefts[i], torch.stack(terms).sum(0)) for i, terms in enumerate(across) if terms]
        return Bilinear(
            left.effect + self._within(lefts, weights),
            right.effect + self._within(rights, weights),
            torch.cat([term for term, _ in pairs], -1) if pairs else left.terms[..., :0],
            torch.cat([term for _, term in pairs], -1) if pairs else right.terms[..., :0],
        )

    def empty(self, like: Tensor) -> Tensor:
        """No order at all."""
        return like.new_empty(self.weights.shape[0], 1, 0)

    def initialise(self, moments: Sequence[Moments], std: float) -> None:
        """Normal weights; every order has the same share of the mean square."""
        share = std / math.sqrt(self.order - 1)
        for j in range(2, self.order + 1):
            spread = share / math.sqrt(symmetric_square(moments, j))
            nn.init.normal_(self.weights[:, j - 2], 0.0, spread)

    def _orders(self, part: Part) -> list[Tensor]:
        """e_1, e_2 … of a part."""
        rank = self.weights.shape[-1]
        return list(torch.split(part.terms, rank, -1)) if part.terms.shape[-1] else []

    @staticmethod
    def _within(orders: list[Tensor], weights: list[Tensor]) -> Tensor | float:
        """Σ_{j ≥ 2} Σ_r λ_jr e_j of one part."""
        sums = [(weight * term).sum(-1) for weight, term in zip(weights, orders[1:], strict=False)]
        return sum(sums, start=0.0)


class TuckerInteraction(Interaction):
    """Tucker: Σ_{r_1 … r_N} G[r_1 … r_N] Π_n φ_{r_n}^(n) / √(Π_n R_n), G the core tensor.

    Terms of a part are all products of one component from each of its modes. Two parts meet in
    the core, unfolded with one part's modes as rows and the other's as columns.

    Cost:
        2 · Π_n R_n floating point operations a row, and as many numbers in the core.

    Source:
        Tucker 1966; Kolda and Bader 2009, section 4.
    """

    def __init__(self, n_members: int, ranks: Sequence[int]) -> None:
        super().__init__()
        self.core = nn.Parameter(torch.randn(n_members, *ranks))
        self.scale = 1.0 / math.sqrt(math.prod(ranks))

    def terms(self, components: Sequence[Float[Tensor, "K batch _"]]) -> Tensor:
        """All products of one component from each mode, the last mode's index running fastest."""
        products = components[0]
        for factor in components[1:]:
            products = (products.unsqueeze(-1) * factor.unsqueeze(-2)).flatten(-2)
        return products

    def bilinear(self, left: Part, right: Part) -> Bilinear:
        """Core absorbed into the part with more terms, so that the fewer products remain."""
        order = (*left.modes, *right.modes)
        core = self.core.permute(0, *(mode + 1 for mode in order))
        matrix = core.reshape(core.shape[0], left.terms.shape[-1], right.terms.shape[-1]) * self.scale
        if matrix.shape[1] < matrix.shape[2]:
            return Bilinear(left.effect, right.effect, left.terms, right.terms @ matrix.mT)
        return Bilinear(left.effect, right.effect, left.terms @ matrix, right.terms)

    def empty(self, like: Tensor) -> Tensor:
        """The empty product, 1."""
        return like.new_ones(self.core.shape[0], 1, 1)

    def initialise(self, moments: Sequence[Moments], std: float) -> None:
        """Normal core; its spread makes up for the components'."""
        nn.init.normal_(self.core, 0.0, std / math.sqrt(symmetric_square(moments, len(moments))))


def make_interaction(n_members: int, layout: Layout) -> Interaction:
    """Interaction of a network; for all modes at once in the order dial, two modes need no recursion.

    Args:
        n_members: K, number of independent members.
        layout: the network's checked arguments.

    Returns:
        A new interaction; `initialise` gives it its scale.

    Example:
        >>> type(make_interaction(1, Layout.of([3, 2], rank=4, orders=2))).__name__
        'ProductInteraction'
    """
    if not layout.interacts:
        return NoInteraction(n_members)
    if layout.form == "tucker":
        return TuckerInteraction(n_members, layout.ranks)
    if layout.orders is None or len(layout.modes) == 2:
        return ProductInteraction(n_members, layout.ranks[0])
    return SymmetricInteraction(n_members, layout.ranks[0], layout.orders)
