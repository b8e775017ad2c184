from __future__ import annotations

import pytest
import torch

from sna_rl.errors import UsageError
from sna_rl.separable import FactorConfig, SeparableNetwork
from sna_rl.separable.growing import GrowingInteraction, component_parameters, drop, grow, make_growing

GENERATOR = torch.Generator().manual_seed(0)
INPUTS = [torch.randn(64, 3, generator=GENERATOR), 2.0 * torch.rand(64, 2, generator=GENERATOR) - 1.0]
FACTORS = [
    FactorConfig(width=8),
    FactorConfig("linear"),
    FactorConfig("spline", width=8, n_coordinates=4, n_knots=4),
]


def growing(factor: FactorConfig, n_active: int = 2, modes: int = 2) -> SeparableNetwork:
    torch.manual_seed(0)
    sizes = [3, 2] if modes == 2 else [3, 1, 1]
    network = SeparableNetwork(sizes, rank=6, factor=factor, branch_width=8, n_members=2)
    make_growing(network, n_active)
    return network


def weights_of(network: SeparableNetwork) -> torch.Tensor:
    assert isinstance(network.interaction, GrowingInteraction)
    return network.interaction.weights


@pytest.mark.parametrize("factor", FACTORS, ids=lambda factor: factor.kind)
@pytest.mark.parametrize("modes", [2, 3])
def test_growth_leaves_every_value_and_its_new_weights_learn(factor: FactorConfig, modes: int) -> None:
    network = growing(factor, modes=modes)
    inputs = INPUTS if modes == 2 else [INPUTS[0], INPUTS[1][:, :1], INPUTS[1][:, 1:]]
    before = network(inputs)
    grow(network, 4)
    torch.testing.assert_close(network(inputs), before, rtol=0.0, atol=1e-6)
    network(inputs).square().sum().backward()
    gradient = weights_of(network).grad
    assert gradient is not None
    gradient = gradient[:, 0].abs()
    assert (gradient[:, :4] > 0).all()
    assert (gradient[:, 4:] == 0).all()


def test_components_that_are_off_get_no_gradient_and_stay() -> None:
    network = growing(FactorConfig(width=8))
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    layers = [parameter for factor in network.factors for parameter in component_parameters(factor)]
    assert len(layers) == 4
    before = [layer[..., 2:].clone() for layer in layers]
    for _ in range(5):
        optimizer.zero_grad()
        network(INPUTS).square().sum().backward()
        optimizer.step()
    for layer, waiting in zip(layers, before, strict=True):
        assert torch.equal(layer[..., 2:], waiting)
        assert not optimizer.state[layer]["exp_avg"][..., 2:].any()
    assert not weights_of(network)[..., 2:].any()


def test_the_initial_spread_does_not_depend_on_the_active_components() -> None:
    spreads = []
    for n_active in (2, 32):
        torch.manual_seed(1)
        network = SeparableNetwork([3, 2], rank=64, factor=FactorConfig(width=32), n_members=64)
        make_growing(network, n_active)
        states, actions = torch.randn(64, 3), 2 * torch.rand(64, 2) - 1
        form = network.bilinear(network.encode([states], [0]), network.encode([actions], [1]))
        spreads.append(float((form.left * form.right).sum(-1).detach().square().mean().sqrt()))
    assert spreads[0] == pytest.approx(spreads[1], rel=0.2)


def test_dropping_takes_away_one_component_and_draws_it_anew() -> None:
    network = growing(FactorConfig(width=8), n_active=4)
    form = network.bilinear(network.encode(INPUTS[:1], [0]), network.encode(INPUTS[1:], [1]))
    contribution = form.left[..., 1] * form.right[..., 1]
    before, old = network(INPUTS), [p.clone() for f in network.factors for p in component_parameters(f)]
    changed = drop(network, [1])
    torch.testing.assert_close(network(INPUTS), before - contribution)
    assert network.interaction.n_active == 3
    assert changed[0] is weights_of(network)
    for parameter, was in zip(changed[1:], old, strict=True):
        assert parameter.dim() == 2 or not torch.equal(parameter[..., 1], was[..., 1])
        assert torch.equal(parameter[..., [0, 2, 3]], was[..., [0, 2, 3]])
    after = network(INPUTS)
    grow(network, 4)
    torch.testing.assert_close(network(INPUTS), after)
    network(INPUTS).sum().backward()
    gradient = weights_of(network).grad
    assert gradient is not None
    assert (gradient[..., 1] != 0).all()


def test_growing_further_than_the_size_or_back_changes_nothing() -> None:
    network = growing(FactorConfig(width=8), n_active=4)
    grow(network, 2)
    assert network.interaction.n_active == 4
    grow(network, 100)
    assert network.interaction.n_active == 6


def test_the_mask_is_saved_with_the_network() -> None:
    network, other = growing(FactorConfig(width=8)), growing(FactorConfig(width=8))
    grow(network, 5)
    other.load_state_dict(network.state_dict())
    assert other.interaction.n_active == 5


def test_other_forms_do_not_grow() -> None:
    for network in (SeparableNetwork([3, 2], 4, form="tucker"), SeparableNetwork([3, 2], 4, form="additive")):
        with pytest.raises(UsageError, match="only a cp network with one product over all modes can grow"):
            make_growing(network, 2)
    with pytest.raises(UsageError, match="make_growing lets it grow"):
        grow(SeparableNetwork([3, 2], 4), 2)
