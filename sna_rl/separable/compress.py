"""A separable network with fewer components, close to the one it was made from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int
from sna_rl.separable.components import component_use
from sna_rl.separable.families import Factor, LinearFactor, MLPFactor, TableFactor
from sna_rl.separable.forms import Bilinear, ProductInteraction
from sna_rl.separable.growing import component_parameters
from sna_rl.separable.network import SeparableNetwork


class Compressed(NamedTuple):
    """A compressed network.

    Args:
        network: the smaller one.
        rotated: names of its parameters that are not those of the old one.
        expected: RMS of the values lost on the sample, one a member.
    """

    network: SeparableNetwork
    rotated: frozenset[str]
    expected: Float[Tensor, " K"]


@torch.no_grad()
def compress(
    network: SeparableNetwork,
    rank: int,
    left: Sequence[Shaped[Tensor, ...]],
    right: Sequence[Shaped[Tensor, ...]],
) -> Compressed:
    """Keep `rank` components' worth of a CP network's interaction.

    Two modes whose factors end in a linear layer: the interaction's table on the sample, T = L Rᵀ = U S Vᵀ,
    is cut to its leading singular values, and the last layers are mixed so that the new factors are U √S and
    V √S. The RMS lost on the sample is √(Σ_{i > rank} σ_i² / nm), the least possible. Any other CP network
    keeps the components of largest use, and their weights λ are refitted to the whole interaction by least
    squares. Nothing is claimed off the sample.

    Args:
        network: form cp with one product over all modes.
        rank: components to keep, at most the network's.
        left: inputs of the first modes, n rows each.
        right: inputs of the other modes, m rows each.

    Returns:
        A new network and what it loses; the old one is not changed.

    Raises:
        UsageError: if the form is another, the rank too large, or a main effect reads the components.

    Cost:
        Two singular value decompositions of an n × R and an R × m matrix a member.

    Example:
        >>> network = SeparableNetwork([3, 2], rank=8)
        >>> small = compress(network, 8, [torch.randn(32, 3)], [torch.randn(16, 2)])
        >>> bool(small.expected < 1e-6)
        True
    """
    layout = network.layout
    if not isinstance(network.interaction, ProductInteraction):
        raise UsageError("only a cp network with one product over all modes can be compressed")
    if not all(list(component_parameters(factor)) for factor in network.factors):
        raise UsageError(
            "a main effect reads the components of this network; compress one with factor 'mlp' or with "
            "branch_width"
        )
    if check_int("rank", rank, 1) > layout.ranks[0]:
        raise UsageError(f"rank must be at most the network's, {layout.ranks[0]}, not {rank}")
    modes = range(len(network.factors))
    form = network.bilinear(
        network.encode(left, modes[: len(left)]), network.encode(right, modes[len(left) :])
    )
    small = SeparableNetwork(
        layout.modes, rank, layout.form, layout.factors, layout.orders, layout.branch_width,
        n_members=network.n_members,
    ).to(form.left)  # fmt: skip
    linear = len(modes) == 2 and all(map(_ends_linear, network.factors))
    mixing = _mix(network, form, rank) if linear else _choose(network, form, rank)
    rotated = _fill(small, network, *mixing)
    new = small.bilinear(small.encode(left, modes[: len(left)]), small.encode(right, modes[len(left) :]))
    lost = form.left @ form.right.mT - new.left @ new.right.mT
    return Compressed(small, rotated, lost.square().mean((1, 2)).sqrt())


Mixing = tuple[list[Tensor], Tensor]
"""For each mode a matrix (K, R, rank) that multiplies its components; the new weights, (K, 1, rank)."""


def _mix(network: SeparableNetwork, form: Bilinear, rank: int) -> Mixing:
    """Rotate two modes' components onto the leading singular vectors of their product."""
    product = network.interaction
    assert isinstance(product, ProductInteraction)
    left, right = form.left.double(), form.right.double()
    q_left, r_left = torch.linalg.qr(left)
    q_right, r_right = torch.linalg.qr(right)
    u, s, v = torch.linalg.svd(r_left @ r_right.mT)
    u, s, v = u[..., :rank], s[..., :rank], v[..., :rank, :].mT
    kept = s > s[..., :1] * torch.finfo(form.left.dtype).eps * max(left.shape[1], right.shape[1])
    root = torch.where(kept, s, 1.0).rsqrt().unsqueeze(-2)
    # L M = T V S^{-1/2} = U S^{1/2}, where L has the weights absorbed and the factor's components have not
    to_left = _weights(product).double().mT * (right.mT @ (q_right @ v)) * root
    to_right = left.mT @ (q_left @ u) * root
    # a component that is round-off keeps live factors and the weight 0, so that it can still learn
    kept, same = kept.unsqueeze(-2), torch.eye(left.shape[-1], rank).to(left)
    mixing = [torch.where(kept, each, same).to(form.left) for each in (to_left, to_right)]
    return mixing, (kept * math.sqrt(rank)).to(form.left)


def _choose(network: SeparableNetwork, form: Bilinear, rank: int) -> Mixing:
    """Keep the components of largest use and refit their weights to the whole interaction."""
    product = network.interaction
    assert isinstance(product, ProductInteraction)
    left, right = form.left.double(), form.right.double()
    chosen = component_use(left, right).topk(rank, dim=-1).indices.sort(-1).values  # "K rank"
    pick = torch.nn.functional.one_hot(chosen, left.shape[-1]).mT.to(left)  # "K R rank"
    kept_left, kept_right = left @ pick, right @ pick
    # minimise ‖Σ_r a_r l_r r_rᵀ − L Rᵀ‖: (LᵀL ∘ RᵀR) a = diag(L_keptᵀ L Rᵀ R_kept)
    gram = (kept_left.mT @ kept_left) * (kept_right.mT @ kept_right)
    goal = ((kept_left.mT @ left) * (kept_right.mT @ right)).sum(-1, keepdim=True)
    factors = (torch.linalg.pinv(gram, hermitian=True) @ goal).mT  # "K 1 rank"
    new = _weights(product).double() @ pick * factors * math.sqrt(rank)
    return [pick.to(form.left)] * len(network.factors), new.to(form.left)


def _weights(product: ProductInteraction) -> Tensor:
    """What multiplies each component, (K, 1, R)."""
    mask = getattr(product, "running_mask", None)
    return product.weights * product.scale if mask is None else product.weights * product.scale * mask


def _fill(
    small: SeparableNetwork, network: SeparableNetwork, mixing: list[Tensor], weights: Tensor
) -> frozenset[str]:
    """Copy what is untouched, mix what counts components; names of the latter."""
    names = {id(parameter): name for name, parameter in small.named_parameters()}
    pairs: list[tuple[nn.Parameter, Tensor]] = []
    for factor, old, matrix in zip(small.factors, network.factors, mixing, strict=True):
        for parameter, before in zip(component_parameters(factor), component_parameters(old), strict=True):
            flat = before.reshape(before.shape[0], -1, before.shape[-1])
            pairs.append((parameter, (flat @ matrix).reshape(parameter.shape)))
    assert isinstance(small.interaction, ProductInteraction)
    pairs.append((small.interaction.weights, weights))
    rotated = frozenset(names[id(parameter)] for parameter, _ in pairs)
    state = network.state_dict()
    for name, parameter in small.named_parameters():
        if name not in rotated:
            parameter.copy_(state[name])
    for parameter, values in pairs:
        parameter.copy_(values)
    return rotated


def _ends_linear(factor: nn.Module) -> bool:
    """Whether a factor's components are a linear map of what comes before them."""
    assert isinstance(factor, Factor)
    inner = factor.components_from
    return isinstance(inner, TableFactor) or (isinstance(inner, MLPFactor | LinearFactor) and inner.is_signed)
