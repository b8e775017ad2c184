"""Initial spreads: the same at every rank and order; the published init fades as it was measured to."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sna_rl.separable import FactorConfig, InitConfig, SeparableNetwork, n_parameters
from sna_rl.separable.initial import Moments, symmetric_square
from sna_rl.separable.spectrum import gradient_ratio

BASIC: dict[str, Any] = {"modes": [17, 6], "factor": FactorConfig("linear"), "branch_width": 128}
SPLINE = FactorConfig("spline", width=32, depth=1)


def inputs_of(modes: list[int], n: int = 256) -> list[Tensor]:
    """Normalised states, and actions spread evenly over [−1, 1] in the last mode."""
    return [*(torch.randn(n, size) for size in modes[:-1]), torch.rand(n, modes[-1]) * 2 - 1]


def parts(network: SeparableNetwork) -> tuple[Tensor, Tensor]:
    """Interaction and sum of main effects of every member on one batch."""
    modes = list(network.layout.modes)
    inputs, half = inputs_of(modes), (len(modes) + 1) // 2
    left = network.encode(inputs[:half], range(half))
    right = network.encode(inputs[half:], range(half, len(modes)))
    with torch.no_grad():
        whole, effects = network.combine(left, right), left.effect + right.effect + network.bias
    return whole - effects, effects


def rms(values: Tensor) -> float:
    return values.square().mean().sqrt().item()


def gradient_norm_ratio(network: SeparableNetwork, branches: int) -> float:
    values = network(inputs_of(list(network.layout.modes)))
    torch.autograd.backward((values - torch.randn_like(values)).square().mean())
    groups = (network.interaction_parameters(), network.branch_parameters())
    gradients = [[p.grad for p in group if p.grad is not None] for group in groups]
    n_interaction = sum(gradient.numel() for gradient in gradients[0])
    return gradient_ratio(*gradients) * math.sqrt(n_interaction / branches)


@pytest.mark.parametrize("factor", [FactorConfig("linear"), FactorConfig("mlp", width=32), SPLINE], ids=str)
@pytest.mark.parametrize("rank", [8, 32, 128])
def test_spread_is_independent_of_rank(factor: FactorConfig, rank: int) -> None:
    torch.manual_seed(rank)
    interaction, effects = parts(SeparableNetwork([17, 6], rank, factor=factor, n_members=48))
    assert rms(interaction) == pytest.approx(0.2, rel=0.2)
    assert rms(effects) == pytest.approx(0.2, rel=0.2)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(
    "form", [{"orders": 2}, {"orders": 3}, {"orders": 4}, {}, {"form": "tucker"}], ids=str
)
@pytest.mark.parametrize("rank", [2, 6])
def test_spread_is_independent_of_order_and_form(rank: int, form: dict[str, Any], signed: bool) -> None:
    torch.manual_seed(0)
    factor = FactorConfig("mlp", width=32, depth=1, signed=signed)
    interaction, effects = parts(SeparableNetwork([6, 5, 4, 3], rank, factor=factor, n_members=256, **form))
    assert rms(interaction) == pytest.approx(0.2, rel=0.35)  # products of four factors have heavy tails
    assert rms(effects) == pytest.approx(0.2, rel=0.2)


@pytest.mark.parametrize("name", ["scaled", "paper"])
def test_spread_of_the_basic_form_as_measured(name: str) -> None:
    torch.manual_seed(0)
    stds = []
    for rank in (8, 32, 128):
        network = SeparableNetwork(**BASIC, rank=rank, init=name, n_members=64)
        stds.append(parts(network)[0].std(1).square().mean().sqrt().item())
    measured = [0.19, 0.19, 0.19] if name == "scaled" else [0.048, 0.0115, 0.0021]
    assert stds == pytest.approx(measured, rel=0.15)


def test_gradient_of_the_interaction_keeps_its_size_beside_the_branches() -> None:
    torch.manual_seed(0)
    branches = n_parameters([17, 6], 1, "additive", branch_width=128) - 1
    ratios = {
        name: [
            gradient_norm_ratio(SeparableNetwork(**BASIC, rank=rank, init=name, n_members=16), branches * 16)
            for rank in (8, 32, 128, 512)
        ]
        for name in ("scaled", "paper")
    }
    assert all(0.045 < ratio < 0.11 for ratio in ratios["scaled"])
    assert ratios["paper"] == pytest.approx([0.037, 0.018, 0.0083, 0.005], rel=0.25)


def test_scaled_factors_have_orthogonal_rows_of_known_length_and_no_bias() -> None:
    network = SeparableNetwork(**BASIC, rank=4)
    for mode, length in ((0, 1.0), (1, math.sqrt(3.0))):
        weight = network.get_parameter(f"factors.{mode}.factor.layer.weight")[0]
        torch.testing.assert_close(weight.mT @ weight, length**2 * torch.eye(4))
        assert not network.get_parameter(f"factors.{mode}.factor.layer.bias").any()


def test_scaled_rows_beyond_the_inputs_keep_their_length() -> None:
    weight = SeparableNetwork(**BASIC, rank=50).get_parameter("factors.1.factor.layer.weight")[0]
    torch.testing.assert_close(weight.norm(dim=0), torch.full((50,), math.sqrt(3.0)))


def test_scaled_weights_are_normal_with_twice_the_spread() -> None:
    weights = SeparableNetwork(**BASIC, rank=20_000).get_parameter("interaction.weights")
    assert weights.std().item() == pytest.approx(0.4, rel=0.02)
    assert weights.mean().item() == pytest.approx(0.0, abs=0.01)


def test_paper_factors_are_orthogonal_and_the_rest_as_torch_draws_it() -> None:
    network = SeparableNetwork(**BASIC, rank=64, init="paper", n_members=2)
    for mode, size in ((0, 17), (1, 6)):
        weight = network.get_parameter(f"factors.{mode}.factor.layer.weight")
        torch.testing.assert_close(weight @ weight.mT, torch.eye(size).expand(2, -1, -1))
        bias = network.get_parameter(f"factors.{mode}.factor.layer.bias")
        assert 0.5 / math.sqrt(size) < bias.abs().max() <= 1 / math.sqrt(size)
    weights = network.get_parameter("interaction.weights")
    assert 0.1 < weights.abs().max() <= 1 / 8
    assert 0 < network.bias.abs().max() <= 1 / 8


def test_input_stds_rescale_the_first_layers() -> None:
    config = InitConfig(std=0.1, input_stds=(5.0, 2.0))
    network = SeparableNetwork([17, 6], 32, factor=FactorConfig("linear"), init=config, n_members=64)
    values = network([5.0 * torch.randn(256, 17), 2.0 * torch.randn(256, 6)])
    assert rms(values) == pytest.approx(0.1 * math.sqrt(2.0), rel=0.2)


def test_normalised_towers_see_the_size_of_a_single_input() -> None:
    network = SeparableNetwork([3, 1], 4, n_members=1)
    actions = torch.tensor([[0.2], [0.9]])
    components = network.factors[1](actions).components
    assert not torch.allclose(components[0, 0], components[0, 1], atol=1e-3)


@given(
    moments=st.lists(st.tuples(st.floats(-1, 1), st.floats(1, 2)), min_size=1, max_size=5),
    order=st.integers(1, 5),
)
def test_symmetric_square_equals_the_sum_over_pairs_of_subsets(
    moments: list[tuple[float, float]], order: int
) -> None:
    order = min(order, len(moments))
    subsets = [set(subset) for subset in combinations(range(len(moments)), order)]
    expected = math.fsum(
        math.prod(moments[n][1] for n in one & other) * math.prod(moments[n][0] for n in one ^ other)
        for one in subsets
        for other in subsets
    )
    actual = symmetric_square([Moments(*each) for each in moments], order)
    assert actual == pytest.approx(expected, abs=1e-9)
