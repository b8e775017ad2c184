from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sna_rl.errors import UsageError
from sna_rl.separable import FactorConfig, SeparableNetwork
from sna_rl.separable.compress import compress
from sna_rl.separable.forms import ProductInteraction
from sna_rl.separable.growing import make_growing

MLP = FactorConfig(width=12, depth=1)


def sample(n: int, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, 3, generator=generator).double(), torch.randn(n, 2, generator=generator).double()]


def interaction(network: SeparableNetwork, inputs: list[Tensor]) -> Tensor:
    form = network.bilinear(network.encode(inputs[:1], [0]), network.encode(inputs[1:], [1]))
    return form.left @ form.right.mT


@given(st.integers(1, 6), st.integers(0, 20), st.booleans())
def test_full_rank_leaves_every_value(rank: int, seed: int, branched: bool) -> None:
    torch.manual_seed(seed)
    network = SeparableNetwork(
        [3, 2], rank, factor=MLP, branch_width=4 if branched else None, n_members=2
    ).double()
    left, right = sample(40, seed)
    small = compress(network, rank, [left], [right])
    elsewhere = sample(30, seed + 100)
    torch.testing.assert_close(small.network(elsewhere), network(elsewhere), rtol=0.0, atol=1e-6)
    assert (small.expected < 1e-6).all()


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_two_linear_modes_lose_the_least_possible(rank: int) -> None:
    torch.manual_seed(0)
    network = SeparableNetwork([3, 2], 8, factor=MLP, n_members=2).double()
    left, right = sample(50, 1)
    small = compress(network, rank, [left], [right])
    tail = torch.linalg.svdvals(interaction(network, [left, right]))[:, rank:].square().sum(1)
    torch.testing.assert_close(small.expected, (tail / 50 / 50).sqrt())
    difference = small.network([left, right]) - network([left, right])
    main = interaction(network, [left, right]) - interaction(small.network, [left, right])
    torch.testing.assert_close(difference, -main.diagonal(dim1=1, dim2=2))
    assert small.network.layout.ranks == (rank, rank)
    assert small.rotated == {
        "interaction.weights",
        *(f"factors.{mode}.layer.{name}" for mode in (0, 1) for name in ("weight", "bias")),
    }


def test_rectified_factors_keep_the_most_used_and_refit() -> None:
    torch.manual_seed(0)
    network = SeparableNetwork([3, 2], 6, factor=FactorConfig("linear"), branch_width=4).double()
    left, right = sample(60, 2)
    small = compress(network, 3, [left], [right])
    whole = interaction(network, [left, right])[0]
    form = network.bilinear(network.encode([left], [0]), network.encode([right], [1]))
    use = form.left[0].std(0) * form.right[0].std(0)
    chosen = use.topk(3).indices.sort().values
    columns = torch.einsum("nr,mr->nmr", form.left[0][:, chosen], form.right[0][:, chosen]).reshape(-1, 3)
    best = torch.linalg.lstsq(columns, whole.reshape(-1, 1)).solution
    torch.testing.assert_close(
        interaction(small.network, [left, right])[0].reshape(-1, 1), columns @ best, rtol=1e-8, atol=1e-8
    )
    torch.testing.assert_close(
        small.expected[0], (columns @ best - whole.reshape(-1, 1)).square().mean().sqrt()
    )


def test_three_modes() -> None:
    torch.manual_seed(0)
    network = SeparableNetwork([3, 1, 1], 5, factor=MLP, n_members=2).double()
    left, right = sample(40, 3)
    actions = [right[:, :1], right[:, 1:]]
    full = compress(network, 5, [left], actions)
    torch.testing.assert_close(full.network([left, *actions]), network([left, *actions]), rtol=0.0, atol=1e-6)
    assert (compress(network, 2, [left], actions).expected > full.expected).all()


def test_a_growing_network_becomes_a_fixed_one_of_its_active_components() -> None:
    torch.manual_seed(0)
    network = SeparableNetwork([3, 2], 8, factor=MLP).double()
    make_growing(network, 3)
    left, right = sample(40, 4)
    small = compress(network, 5, [left], [right])
    torch.testing.assert_close(small.network([left, right]), network([left, right]), rtol=0.0, atol=1e-6)
    small.network([left, right]).sum().backward()
    assert isinstance(small.network.interaction, ProductInteraction)
    weights = small.network.interaction.weights
    assert not weights[..., 3:].any()
    assert weights.grad is not None
    assert weights.grad.all()  # even those of weight 0 can learn


def test_what_cannot_be_compressed_is_refused() -> None:
    left, right = (part.float() for part in sample(10, 0))
    for network, message in (
        (SeparableNetwork([3, 2], 4, form="tucker"), "only a cp network"),
        (SeparableNetwork([3, 2], 4, factor=FactorConfig("spline")), "a main effect reads the components"),
        (SeparableNetwork([3, 2], 4), "rank must be at most the network's, 4, not 5"),
    ):
        with pytest.raises(UsageError, match=message):
            compress(network, 5, [left], [right])
