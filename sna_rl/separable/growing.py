"""Components that are switched on and off without changing the shape of any tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from sna_rl.errors import UsageError
from sna_rl.separable.families import Factor, LinearFactor, MLPFactor, SplineFactor, TableFactor
from sna_rl.separable.forms import Bilinear, Part, ProductInteraction
from sna_rl.separable.network import SeparableNetwork


class GrowingInteraction(ProductInteraction):
    """CP with places for R components, some of them at work: Σ_r mask_r λ_r Π_n φ_r^(n) / √R.

    A component that is off has λ_r = 0, and its factors get no gradient: they wait at random values.
    Switching it on changes no value, and λ_r then learns, since its factors are not 0. The mask is a buffer,
    changed in place, so that a compiled graph stays valid.

    Args:
        product: the interaction whose weights are taken over.
        n_active: components at work at the start; their weights are scaled up so that the interaction's
            spread is the one that all R would have.
    """

    running_mask: Tensor  # "K 1 R", 1 or 0; the name makes Stable-Baselines3 copy it to the target

    def __init__(self, product: ProductInteraction, n_active: int) -> None:
        nn.Module.__init__(self)
        self.weights = product.weights
        self.scale = product.scale
        size = self.weights.shape[-1]
        self.register_buffer("running_mask", torch.zeros_like(self.weights))
        self.running_mask[..., :n_active] = 1.0
        with torch.no_grad():
            self.weights.mul_(self.running_mask * math.sqrt(size / n_active))

    @property
    def n_active(self) -> int:
        """Components at work."""
        return int(self.running_mask[0].sum())

    def bilinear(self, left: Part, right: Part) -> Bilinear:
        """Masked weights absorbed into the left part."""
        weights = self.weights * self.running_mask * self.scale
        return Bilinear(left.effect, right.effect, left.terms * weights, right.terms)


def make_growing(network: SeparableNetwork, n_active: int) -> None:
    """Let a CP network start with some of its components and switch on others later.

    Args:
        network: form cp with one product over all modes; changed in place, before any optimizer is made.
        n_active: components at work at the start.

    Raises:
        UsageError: if the network is of another form.

    Example:
        >>> network = SeparableNetwork([3, 2], rank=8)
        >>> make_growing(network, 2)
        >>> grow(network, 4)
        >>> network.interaction.n_active
        4
    """
    if type(network.interaction) is not ProductInteraction:
        raise UsageError("only a cp network with one product over all modes can grow")
    network.interaction = GrowingInteraction(network.interaction, n_active)


@torch.no_grad()
def grow(network: SeparableNetwork, n_active: int) -> None:
    """Switch on components until `n_active` are at work; no value of the network changes.

    Args:
        network: one that `make_growing` prepared.
        n_active: components wanted, at most the network's rank; fewer than now changes nothing.
    """
    mask = _growing(network).running_mask
    missing = max(0, n_active - int(mask[0].sum()))
    off = (mask[0, 0] == 0).nonzero().flatten()[:missing]
    mask[..., off] = 1.0


@torch.no_grad()
def drop(network: SeparableNetwork, components: Sequence[int]) -> list[Tensor]:
    """Switch off components and draw their factors anew, so that they can come back alive.

    The network's values lose the components' contributions. Factors that a main effect reads, too, keep
    theirs.

    Args:
        network: one that `make_growing` prepared.
        components: their numbers.

    Returns:
        The parameters that changed, in their last dimension, at `components`.
    """
    interaction = _growing(network)
    index = torch.as_tensor(components, device=interaction.weights.device)
    interaction.running_mask[..., index] = 0.0
    interaction.weights[..., index] = 0.0
    changed: list[Tensor] = [interaction.weights]
    for factor in network.factors:
        for parameter in component_parameters(factor):
            spread = parameter.std(dim=-1, keepdim=True) if parameter.dim() > 2 else parameter.new_zeros(())
            parameter[..., index] = spread * torch.randn_like(parameter[..., index])
            changed.append(parameter)
    return changed


def component_parameters(factor: nn.Module) -> Iterator[nn.Parameter]:
    """Parameters of a factor whose last dimension counts components, where only the components read them.

    Args:
        factor: one of `SeparableNetwork.factors`.

    Yields:
        Weights, then biases; none where the main effect reads the components.
    """
    assert isinstance(factor, Factor)
    inner = factor.components_from
    if isinstance(inner, MLPFactor) or (isinstance(inner, LinearFactor) and inner.head is None):
        yield from inner.layer.parameters()
    elif isinstance(inner, SplineFactor) and inner.head is None:
        yield inner.atoms.coefficients
    elif isinstance(inner, TableFactor) and inner.table is not None:
        yield inner.table.weight


def _growing(network: SeparableNetwork) -> GrowingInteraction:
    if not isinstance(network.interaction, GrowingInteraction):
        raise UsageError("the network's rank is fixed; make_growing lets it grow")
    return network.interaction
