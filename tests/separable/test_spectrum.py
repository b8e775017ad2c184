"""Diagnostics on tables whose answers are known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sna_rl.separable import FactorConfig, SeparableNetwork, spectrum


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def additive(n: int = 13, m: int = 7) -> Tensor:
    return 5.0 + random(n, 1) + 3.0 * random(1, m, seed=1)


def with_singular_values(values: list[float], n: int = 13, m: int = 9) -> Tensor:
    """A table with these singular values in its interaction, and main effects beside."""
    bases: list[Tensor] = []
    for size, seed in ((n, 2), (m, 3)):
        centred = random(size, len(values), seed=seed)
        bases.append(torch.linalg.qr(centred - centred.mean(0)).Q)
    left, right = bases
    return additive(n, m) + (left * torch.tensor(values)) @ right.mT


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_additive_table_has_no_interaction(dtype: torch.dtype) -> None:
    table = additive().to(dtype)
    shares = spectrum.shares(table)
    assert shares.interaction < 1e-12
    assert sum(shares) == pytest.approx(1.0)
    rows, columns = additive().var(0, correction=0).mean(), additive().var(1, correction=0).mean()
    assert shares.state == pytest.approx((rows / (rows + columns)).item())
    for rank in (spectrum.effective_rank, spectrum.energy_rank, spectrum.stable_rank):
        assert rank(table) == 0.0
    assert spectrum.regret(table, 0) == 0.0


@given(rank=st.integers(1, 6), seed=st.integers(0, 99))
def test_rank_r_table_has_energy_rank_r(rank: int, seed: int) -> None:
    left, right = random(20, rank, seed=seed), random(15, rank, seed=seed + 1000)
    assert spectrum.energy_rank(left @ right.mT, q=1.0) == rank
    assert int((spectrum.singular_values(left @ right.mT) > 0).sum()) == rank


def test_singular_values_are_those_of_the_interaction() -> None:
    values = spectrum.singular_values(with_singular_values([5.0, 2.0, 1.0]))
    torch.testing.assert_close(values, torch.tensor([5.0, 2.0, 1.0, *[0.0] * 6], dtype=torch.float64))


def test_ranks_by_hand() -> None:
    table = with_singular_values([5.0, 2.0, 1.0])
    p = [5 / 8, 2 / 8, 1 / 8]
    entropy = -sum(x * math.log(x) for x in p)
    assert spectrum.effective_rank(table) == pytest.approx(math.exp(entropy))
    assert spectrum.stable_rank(table) == pytest.approx(30 / 25)
    # Energies 25, 4, 1 of 30: 0.833, 0.967, 1. Of the sum 8, the values hold 0.625, 0.875, 1.
    assert [spectrum.energy_rank(table, q) for q in (0.8, 0.84, 0.96, 0.97, 1.0)] == [1, 2, 2, 3, 3]


def test_equal_singular_values_have_full_ranks() -> None:
    table = with_singular_values([3.0] * 4)
    assert spectrum.effective_rank(table) == pytest.approx(4.0)
    assert spectrum.stable_rank(table) == pytest.approx(4.0)
    assert spectrum.energy_rank(table, 0.99) == 4.0


@given(n=st.integers(2, 9), m=st.integers(2, 9), seed=st.integers(0, 99))
def test_interaction_is_centred_and_idempotent_and_shares_sum_to_one(n: int, m: int, seed: int) -> None:
    table = random(n, m, seed=seed)
    rest = spectrum.interaction(table)
    zeros = torch.zeros(n + m, dtype=torch.float64)
    torch.testing.assert_close(torch.cat([rest.mean(1), rest.mean(0)]), zeros)
    torch.testing.assert_close(spectrum.interaction(rest), rest)
    torch.testing.assert_close(spectrum.interaction(table + additive(n, m)), rest)
    shares = spectrum.shares(table)
    assert sum(shares) == pytest.approx(1.0)
    total = (table - table.mean()).square().sum()
    assert shares.interaction == pytest.approx((rest.square().sum() / total).item())


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_linear_quadratic_regulator_has_the_rank_of_its_cross_term(rank: int) -> None:
    """Q*(s, a) = −(sᵀ M_ss s + 2 sᵀ M_sa a + aᵀ M_aa a): the interaction's rank is M_sa's."""
    m_ss, m_aa = torch.eye(5).double(), 2.0 * torch.eye(3).double()
    m_sa = random(5, rank, seed=4) @ random(rank, 3, seed=5)
    s, a = random(40, 5, seed=6), random(30, 3, seed=7)
    own = [torch.einsum("ni,ij,nj->n", x, m, x) for x, m in ((s, m_ss), (a, m_aa))]
    table = -(own[0][:, None] + 2.0 * s @ m_sa @ a.mT + own[1])
    assert spectrum.energy_rank(table, 1.0) == rank
    assert spectrum.regret(table, rank) == pytest.approx(0.0, abs=1e-12)
    assert (spectrum.shares(table).interaction > 1e-3) == (rank > 0)


def test_noise_floor_is_half_the_largest_difference() -> None:
    one = with_singular_values([5.0, 2.0])
    assert spectrum.noise_floor(one, one) == 0.0
    assert spectrum.noise_floor(one, one + additive()[:, :1]) == 0.0
    assert spectrum.noise_floor(one, torch.zeros_like(one)) == pytest.approx(2.5)


def test_regret_by_hand() -> None:
    # Column means 2/3, 1, 1/6: without interaction every row takes the middle action. The first row
    # then loses 3, the others nothing; the rows' ranges are 3, 3 and 1.
    table = torch.tensor([[3.0, 0.0, 0.0], [-1.0, 2.0, 0.0], [0.0, 1.0, 0.5]])
    assert spectrum.regret(table, 0) == pytest.approx(3 / 7)
    assert spectrum.regret(table, 2) == pytest.approx(0.0, abs=1e-12)
    assert spectrum.regret(table, 9) == pytest.approx(0.0, abs=1e-12)


def test_regret_counts_what_decides_not_what_is_large() -> None:
    stretched = torch.outer(torch.tensor([1.0, 4.0, 9.0]), torch.tensor([0.0, 1.0, 2.0, -3.0]))
    assert spectrum.shares(stretched).interaction > 0.2
    assert spectrum.regret(stretched, 0) == 0.0  # every row likes the same action best
    assert spectrum.regret(torch.eye(4), 0) == pytest.approx(0.75)


SCALARS: list[Callable[[Tensor], float]] = [
    spectrum.effective_rank,
    spectrum.energy_rank,
    spectrum.stable_rank,
    lambda table: spectrum.regret(table, 1),
    lambda table: spectrum.noise_floor(table, torch.zeros_like(table)),
    lambda table: spectrum.shares(table).interaction,
    lambda table: spectrum.shares(table).state,
    lambda table: spectrum.shares(table).action,
]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("scalar", SCALARS)
def test_entries_that_are_not_finite_make_the_answer_nan(
    scalar: Callable[[Tensor], float], bad: float
) -> None:
    table = additive()
    table[3, 2] = bad
    assert math.isnan(scalar(table))
    assert spectrum.singular_values(table).isnan().all()


@pytest.mark.parametrize("table", [torch.zeros(5, 4), torch.full((5, 4), 3.0), torch.ones(1, 1)], ids=str)
@pytest.mark.parametrize("scalar", SCALARS)
def test_constant_tables_have_nothing(scalar: Callable[[Tensor], float], table: Tensor) -> None:
    assert scalar(table) == 0.0


def test_weight_spectrum_is_bounded_by_the_inputs() -> None:
    left, right = random(17, 32), random(6, 32, seed=1)
    values = spectrum.weight_spectrum(left, right)
    torch.testing.assert_close(values, torch.linalg.svdvals(left @ right.mT))
    assert len(values) == 6


def test_component_use_is_the_size_of_each_centred_contribution() -> None:
    left, right = random(11, 4), random(8, 4, seed=1)
    use = spectrum.component_use(left, right)
    for p in range(4):
        centred = spectrum.interaction(torch.outer(left[:, p], right[:, p]))
        assert use[p].item() == pytest.approx(centred.square().mean().sqrt().item())


def test_component_use_of_a_network_adds_up_to_its_table() -> None:
    network = SeparableNetwork([3, 2], 4, factor=FactorConfig("linear")).double()
    form = network.bilinear(network.encode([random(9, 3)], [0]), network.encode([random(7, 2)], [1]))
    table = network.table(network.encode([random(9, 3)], [0]), network.encode([random(7, 2)], [1]))[0]
    torch.testing.assert_close(
        spectrum.interaction(form.left[0] @ form.right[0].mT), spectrum.interaction(table)
    )
    with torch.no_grad():
        network.get_parameter("interaction.weights")[..., 1:3].zero_()
    form = network.bilinear(network.encode([random(9, 3)], [0]), network.encode([random(7, 2)], [1]))
    use = spectrum.component_use(form.left[0], form.right[0])
    assert use[1:3].tolist() == [0.0, 0.0]
    assert spectrum.idle_components(use) >= 2


def test_idle_components() -> None:
    assert spectrum.idle_components(torch.tensor([1.0, 0.0099, 0.0101, 0.0])) == 2.0
    assert spectrum.idle_components(torch.zeros(3)) == 3.0
    assert math.isnan(spectrum.idle_components(torch.tensor([1.0, math.nan])))


def test_congruence_is_one_only_where_all_modes_agree() -> None:
    first = torch.tensor([[1.0, 2.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    second = torch.tensor([[1.0, -1.0, 1.0], [0.0, 0.0, 1.0]])
    expected = torch.tensor([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]).double()
    torch.testing.assert_close(spectrum.congruence(first, second), expected)
    orthogonal = torch.eye(3)
    torch.testing.assert_close(
        spectrum.congruence(first, orthogonal), torch.diag(torch.tensor([1.0, 1.0, 0.0])).double()
    )
    assert spectrum.congruence(first * math.nan, second).isnan().all()


def test_gradient_ratio() -> None:
    three, four = torch.full((2, 3), 3.0), torch.full((5,), -6.0)
    assert spectrum.gradient_ratio([three, three], [four]) == pytest.approx(0.5)
    assert spectrum.gradient_ratio([], [four]) == 0.0
    assert math.isnan(spectrum.gradient_ratio([three], []))
    assert math.isnan(spectrum.gradient_ratio([three * math.nan], [four]))
