"""The algebra of the interactions, on components alone."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sna_rl.separable.forms import (
    Interaction,
    NoInteraction,
    Part,
    ProductInteraction,
    SymmetricInteraction,
    TuckerInteraction,
)

N_MEMBERS, BATCH = 2, 3
KINDS = ("product", "symmetric", "tucker")


def make(kind: str, n_modes: int, rank: int, seed: int) -> tuple[Interaction, list[Tensor]]:
    """An interaction and one batch of components for each mode."""
    torch.manual_seed(seed)
    ranks = [rank] * n_modes
    interaction: Interaction
    if kind == "product":
        interaction = ProductInteraction(N_MEMBERS, rank)
    elif kind == "symmetric":
        interaction = SymmetricInteraction(N_MEMBERS, rank, max(2, n_modes - 1))
    else:
        ranks = [1 + (rank + mode) % 3 for mode in range(n_modes)]
        interaction = TuckerInteraction(N_MEMBERS, ranks)
    components = [torch.randn(N_MEMBERS, BATCH, r, dtype=torch.float64, requires_grad=True) for r in ranks]
    return interaction.double(), components


def part(interaction: Interaction, components: list[Tensor], modes: list[int]) -> Part:
    terms = (
        interaction.terms([components[mode] for mode in modes]) if modes else interaction.empty(components[0])
    )
    return Part(torch.zeros(N_MEMBERS, 1, dtype=torch.float64), terms, tuple(modes))


def value(interaction: Interaction, components: list[Tensor], left_modes: list[int]) -> Tensor:
    right_modes = [mode for mode in range(len(components)) if mode not in left_modes]
    form = interaction.bilinear(
        part(interaction, components, left_modes), part(interaction, components, right_modes)
    )
    return form.rows + form.columns + (form.left * form.right).sum(-1)


def brute_force(interaction: Interaction, components: list[Tensor]) -> Tensor:
    """Every term written out."""
    if isinstance(interaction, ProductInteraction):
        product: Tensor = torch.stack(components).prod(0)
        return torch.einsum("kbr,kor->kb", product, interaction.weights) / math.sqrt(product.shape[-1])
    if isinstance(interaction, SymmetricInteraction):
        rank = components[0].shape[-1]
        total = torch.zeros(N_MEMBERS, BATCH, dtype=torch.float64)
        for order in range(2, interaction.order + 1):
            weights = interaction.weights[:, order - 2].unsqueeze(1)
            for subset in combinations(components, order):
                total = total + (weights * torch.stack(subset).prod(0)).sum(-1) / math.sqrt(rank)
        return total
    assert isinstance(interaction, TuckerInteraction)
    letters = "pqrstu"[: len(components)]
    equation = f"k{letters},{','.join('kb' + letter for letter in letters)}->kb"
    total = torch.einsum(equation, interaction.core, *components)
    return total / math.sqrt(interaction.core[0].numel())


@given(
    kind=st.sampled_from(KINDS),
    n_modes=st.integers(2, 5),
    rank=st.integers(1, 4),
    data=st.data(),
    seed=st.integers(0, 99),
)
def test_every_split_equals_brute_force(
    kind: str, n_modes: int, rank: int, data: st.DataObject, seed: int
) -> None:
    interaction, components = make(kind, n_modes, rank, seed)
    chosen = data.draw(st.sets(st.integers(0, n_modes - 1)))
    actual = value(interaction, components, data.draw(st.permutations(sorted(chosen))))
    expected = brute_force(interaction, components)
    torch.testing.assert_close(actual, expected)
    inputs = [*components, *interaction.parameters()]
    ours, theirs = (
        torch.autograd.grad(v.square().sum(), inputs, retain_graph=True) for v in (actual, expected)
    )
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left, right)


@given(n_modes=st.integers(4, 6), order=st.integers(2, 3), rank=st.integers(1, 3), seed=st.integers(0, 99))
def test_orders_equal_sums_over_subsets(n_modes: int, order: int, rank: int, seed: int) -> None:
    _, components = make("product", n_modes, rank, seed)
    interaction = SymmetricInteraction(N_MEMBERS, rank, order).double()
    half = list(range(n_modes // 2))
    torch.testing.assert_close(value(interaction, components, half), brute_force(interaction, components))


@given(
    kind=st.sampled_from(KINDS),
    n_modes=st.integers(2, 4),
    data=st.data(),
    share=st.floats(-2.0, 2.0),
    seed=st.integers(0, 99),
)
def test_affine_in_each_mode(kind: str, n_modes: int, data: st.DataObject, share: float, seed: int) -> None:
    interaction, components = make(kind, n_modes, 3, seed)
    mode = data.draw(st.integers(0, n_modes - 1))
    other = [*components]
    other[mode] = torch.randn_like(components[mode])
    mixed = [*components]
    mixed[mode] = share * components[mode] + (1 - share) * other[mode]
    ours = value(interaction, mixed, [0])
    theirs = share * value(interaction, components, [0]) + (1 - share) * value(interaction, other, [0])
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kind", ["product", "tucker"])
def test_one_product_over_all_modes_is_linear_in_each(kind: str) -> None:
    interaction, components = make(kind, 3, 4, 0)
    plain = value(interaction, components, [0])
    scaled = [components[0], -3.0 * components[1], components[2]]
    torch.testing.assert_close(value(interaction, scaled, [0]), -3.0 * plain)
    gone = [components[0], 0.0 * components[1], components[2]]
    torch.testing.assert_close(value(interaction, gone, [0]), torch.zeros_like(plain))


@given(scale=st.floats(0.1, 10.0), seed=st.integers(0, 99))
def test_scale_moves_between_factors(scale: float, seed: int) -> None:
    interaction, components = make("product", 3, 4, seed)
    moved = [components[0] * scale, components[1], components[2] / scale]
    torch.testing.assert_close(value(interaction, moved, [0]), value(interaction, components, [0]))


@given(kind=st.sampled_from(["product", "symmetric"]), order=st.permutations(range(4)))
def test_components_permute(kind: str, order: list[int]) -> None:
    interaction, components = make(kind, 3, 4, 7)
    before = value(interaction, components, [0])
    assert isinstance(interaction, (ProductInteraction, SymmetricInteraction))
    with torch.no_grad():
        interaction.weights.copy_(interaction.weights[..., order])
    after = value(interaction, [factor[..., order] for factor in components], [0])
    torch.testing.assert_close(after, before)


@given(n_modes=st.integers(2, 4), rank=st.integers(1, 4))
def test_cp_is_tucker_with_a_superdiagonal_core(n_modes: int, rank: int) -> None:
    cp, components = make("product", n_modes, rank, 3)
    assert isinstance(cp, ProductInteraction)
    tucker = TuckerInteraction(N_MEMBERS, [rank] * n_modes).double()
    with torch.no_grad():
        tucker.core.zero_()
        for r in range(rank):  # both are divided by the root of their number of terms
            entry = tucker.core[(slice(None), *[slice(r, r + 1)] * n_modes)]
            entry.copy_((cp.weights[:, 0, r] * rank ** ((n_modes - 1) / 2)).reshape(entry.shape))
    torch.testing.assert_close(value(tucker, components, [0]), value(cp, components, [0]))


def test_tucker_with_identity_factors_is_the_dense_tensor() -> None:
    sizes = (2, 3, 4)
    tucker = TuckerInteraction(1, sizes).double()
    index = torch.cartesian_prod(*map(torch.arange, sizes))
    components = [torch.eye(size, dtype=torch.float64)[index[:, n]][None] for n, size in enumerate(sizes)]
    parts = [
        Part(torch.zeros(1, 1, dtype=torch.float64), tucker.terms(components[:1]), (0,)),
        Part(torch.zeros(1, 1, dtype=torch.float64), tucker.terms(components[1:]), (1, 2)),
    ]
    form = tucker.bilinear(*parts)
    dense = (form.left * form.right).sum(-1).reshape(sizes)
    torch.testing.assert_close(dense, tucker.core[0] / 24**0.5)


def test_tucker_keeps_the_fewer_products() -> None:
    interaction = TuckerInteraction(1, [2, 5, 3])
    components = [torch.randn(1, 4, r) for r in (2, 5, 3)]
    left = Part(torch.zeros(1, 1), interaction.terms(components[:1]), (0,))
    right = Part(torch.zeros(1, 1), interaction.terms(components[1:]), (1, 2))
    assert interaction.bilinear(left, right).left.shape[-1] == 2
    assert interaction.bilinear(right, left).left.shape[-1] == 2


def test_no_interaction_has_main_effects_alone() -> None:
    form = NoInteraction(2).bilinear(
        Part(torch.ones(2, 3), torch.empty(2, 3, 0), (0,)), Part(torch.ones(2, 3), torch.empty(2, 3, 0), (1,))
    )
    assert torch.equal(form.rows + form.columns + (form.left * form.right).sum(-1), torch.full((2, 3), 2.0))
