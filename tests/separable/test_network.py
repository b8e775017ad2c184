"""Whole networks: the published formula, members, parts, tables, gradients."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from sna_rl.separable import FactorConfig, SeparableNetwork
from sna_rl.separable.spectrum import interaction

LINEAR = FactorConfig("linear")
SMALL = FactorConfig("mlp", width=5, depth=2)
FACTORS = {
    "linear": LINEAR,
    "linear signed": FactorConfig("linear", signed=True),
    "mlp": SMALL,
    "mlp unsigned": FactorConfig("mlp", width=5, layer_norm=False, signed=False),
    "mlp without depth": FactorConfig("mlp", depth=0),
    "spline": FactorConfig("spline", width=5, depth=1, n_knots=4, n_coordinates=3),
    "spline unsigned": FactorConfig("spline", depth=0, n_knots=4, n_coordinates=3, signed=False),
}
FORMS: list[dict[str, object]] = [
    {"form": "additive"},
    {"form": "cp"},
    {"form": "cp", "orders": 1},
    {"form": "cp", "orders": 2},
    {"form": "cp", "orders": 3},
    {"form": "tucker"},
]
MODES = [3, 2, 1, 2]


def build(factor: str, form: dict[str, object], branch_width: int | None, seed: int = 0) -> SeparableNetwork:
    torch.manual_seed(seed)
    network = SeparableNetwork(
        MODES,
        3,
        factor=FACTORS[factor],
        branch_width=branch_width,
        n_members=2,
        **form,  # type: ignore[arg-type]
    ).double()
    with torch.no_grad():
        for parameter in network.parameters():  # zero biases and coefficients near 1 would hide mistakes
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network


def batch(n: int = 5, seed: int = 1) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, size, generator=generator, dtype=torch.float64) for size in MODES]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("branch_width", [None, 4])
@pytest.mark.parametrize("factor", FACTORS)
def test_value_is_the_formula_and_parts_agree(
    factor: str, branch_width: int | None, form: dict[str, object]
) -> None:
    network, inputs = build(factor, form, branch_width), batch()
    outputs = [mode(x) for mode, x in zip(network.factors, inputs, strict=True)]
    expected = network.bias + sum(output.effect for output in outputs)
    components = [output.components for output in outputs]
    if form["form"] == "tucker":
        core = dict(network.named_parameters())["interaction.core"]
        term = torch.einsum("kpqrs,kbp,kbq,kbr,kbs->kb", core, *components)
        expected = expected + term / math.sqrt(3**4)
    elif network.layout.interacts:
        weights = dict(network.named_parameters())["interaction.weights"]
        orders = range(2, network.layout.order + 1) if network.layout.orders else [4]
        for row, order in enumerate(orders):
            for subset in combinations(components, order):
                product = torch.stack(subset).prod(0) * weights[:, row].unsqueeze(1)
                expected = expected + product.sum(-1) / math.sqrt(3)
    torch.testing.assert_close(network(inputs), expected)
    state, rest = network.encode(inputs[:1], [0]), network.encode(inputs[:0:-1], [3, 2, 1])
    torch.testing.assert_close(network.combine(state, rest), expected)
    torch.testing.assert_close(network.table(state, rest).diagonal(dim1=1, dim2=2), expected)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("split", [[0], [1, 3], [0, 1, 2], [0, 1, 2, 3], []], ids=str)
def test_table_equals_every_pair(form: dict[str, object], split: list[int]) -> None:
    network = build("mlp", form, None)
    rest = [mode for mode in range(4) if mode not in split]
    rows, columns = batch(4, seed=1), batch(3, seed=2)
    table = network.table(
        network.encode([rows[mode] for mode in split], split),
        network.encode([columns[mode] for mode in rest], rest),
    )
    for i in range(4 if split else 1):
        for j in range(3 if rest else 1):
            point = [(rows[n][i] if n in split else columns[n][j]).unsqueeze(0) for n in range(4)]
            torch.testing.assert_close(table[:, i, j], network(point)[:, 0])


@settings(max_examples=30)
@given(
    factor=st.sampled_from(sorted(FACTORS)),
    form=st.sampled_from(FORMS),
    branch_width=st.sampled_from([None, 4]),
    shared=st.booleans(),
    seed=st.integers(0, 99),
)
def test_members_equal_single_networks(
    factor: str, form: dict[str, object], branch_width: int | None, shared: bool, seed: int
) -> None:
    ensemble, inputs = build(factor, form, branch_width, seed), batch()
    if not shared:
        inputs = [torch.stack([x, x.flip(0)]) for x in inputs]
    values = ensemble(inputs)
    torch.autograd.backward(values.square().sum())
    for k in range(2):
        single = SeparableNetwork(
            MODES,
            3,
            factor=FACTORS[factor],
            branch_width=branch_width,
            **form,  # type: ignore[arg-type]
        ).double()
        single.load_state_dict(ensemble.member_state(k))
        value = single([x if shared else x[k] for x in inputs])
        torch.testing.assert_close(value[0], values[k])
        torch.autograd.backward(value.square().sum())
        for name, parameter in single.named_parameters():
            whole = ensemble.get_parameter(name).grad
            assert parameter.grad is not None
            assert whole is not None
            torch.testing.assert_close(parameter.grad[0], whole[k])


@pytest.mark.parametrize("factor", FACTORS)
def test_members_start_apart(factor: str) -> None:
    network = SeparableNetwork([3, 2], 4, factor=FACTORS[factor], n_members=2)
    for name, parameter in network.named_parameters():
        drawn = name.endswith(("weight", "weights", "coefficients")) and "norms" not in name
        assert not (drawn and torch.equal(parameter[0], parameter[1])), name
    values = network([torch.randn(5, 3), torch.randn(5, 2)])
    assert not torch.allclose(values[0], values[1])


def test_basic_form_equals_the_published_formula() -> None:
    network = SeparableNetwork([17, 6], 32, factor=LINEAR, branch_width=128).double()
    state, action = torch.randn(9, 17, dtype=torch.float64), torch.rand(9, 6, dtype=torch.float64) * 2 - 1

    def layer(name: str, x: Tensor) -> Tensor:
        weight = network.get_parameter(f"{name}.weight")[0]
        return x @ (weight if weight.shape[0] > 1 else weight.mT) + network.get_parameter(f"{name}.bias")[0]

    def branch(n: int, x: Tensor) -> Tensor:
        return layer(
            f"factors.{n}.branch.head", F.relu(layer(f"factors.{n}.branch.tower.layers.0", x))
        ).squeeze(-1)

    product = F.relu(layer("factors.0.factor.layer", state)) * F.relu(layer("factors.1.factor.layer", action))
    w = network.get_parameter("interaction.weights")[0, 0]
    expected = branch(0, state) + branch(1, action) + product @ w / math.sqrt(32) + network.bias[0]
    torch.testing.assert_close(network([state, action])[0], expected)
    assert sum(parameter.numel() for parameter in network.parameters()) == 4291


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("rank", [1, 3])
def test_table_has_at_most_rank_many_components(factor: str, rank: int) -> None:
    network = SeparableNetwork([3, 2], rank, factor=FACTORS[factor]).double()
    states, actions = torch.randn(12, 3, dtype=torch.float64), torch.randn(11, 2, dtype=torch.float64)
    table = network.table(network.encode([states], [0]), network.encode([actions], [1]))[0]
    values = torch.linalg.svdvals(interaction(table))
    if factor in ("linear", "mlp"):  # two signed affine maps meet in no more components than inputs
        assert values[rank - 1] > 1e-8
    assert (values[rank:] < 1e-12 * table.abs().max()).all()


def test_additive_greedy_action_ignores_the_state() -> None:
    network = SeparableNetwork([3, 2], 4, form="additive", n_members=2)
    table = network.table(
        network.encode([torch.randn(20, 3)], [0]), network.encode([torch.randn(15, 2)], [1])
    )
    best = table.argmax(-1)
    assert torch.equal(best, best[:, :1].expand(2, 20))


def test_components_permute_and_scale_moves_between_factors() -> None:
    network = build("linear", {"form": "cp"}, 4)
    before = network(batch())
    order = torch.tensor([2, 0, 1])
    with torch.no_grad():
        for n, scale in enumerate([2.0, 0.5, 4.0, 0.25]):
            layer = network.get_submodule(f"factors.{n}.factor.layer")
            for parameter in layer.parameters():
                parameter.copy_(parameter[..., order] * scale)
        weights = network.get_parameter("interaction.weights")
        weights.copy_(weights[..., order])
    torch.testing.assert_close(network(batch()), before)


def test_tucker_with_identity_tables_is_the_dense_tensor() -> None:
    sizes = [2, 3, 4]
    network = SeparableNetwork(sizes, sizes, form="tucker", factor=FactorConfig("table"), n_members=2)
    with torch.no_grad():
        for n, size in enumerate(sizes):
            network.get_parameter(f"factors.{n}.table.weight").copy_(torch.eye(size).expand(2, -1, -1))
            network.get_parameter(f"factors.{n}.column.weight").zero_()
    index = torch.cartesian_prod(*map(torch.arange, sizes))
    dense = network(list(index.unbind(1))).reshape(2, *sizes)
    torch.testing.assert_close(dense, network.get_parameter("interaction.core") / math.sqrt(24))


def test_table_factor_reads_rows_by_index() -> None:
    network = SeparableNetwork([3, 7], 4, factor=[SMALL, FactorConfig("table")], n_members=2)
    states, actions = torch.randn(5, 3), torch.tensor([6, 0, 3, 3, 1])
    picked = network([states, actions])
    torch.testing.assert_close(picked, network([states, actions.unsqueeze(1)]))
    table = network.table(network.encode([states], [0]), network.encode([torch.arange(7)], [1]))
    torch.testing.assert_close(table[:, torch.arange(5), actions], picked)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("factor", ["linear", "mlp", "spline"])
def test_functional_gradient_equals_autograd(factor: str, form: dict[str, object]) -> None:
    network, inputs = build(factor, form, None), batch()
    parameters: dict[str, Tensor] = dict(network.named_parameters())

    def loss(parameters: dict[str, Tensor], inputs: list[Tensor]) -> Tensor:
        values: Tensor = torch.func.functional_call(network, parameters, (inputs,))
        return values.square().mean()

    gradients = torch.func.grad(loss)(parameters, inputs)
    expected = torch.autograd.grad(
        network(inputs).square().mean(), list(parameters.values()), allow_unused=True
    )
    for (name, gradient), reference in zip(gradients.items(), expected, strict=True):
        assert reference is not None, name
        torch.testing.assert_close(gradient, reference)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("branch_width", [None, 4])
@pytest.mark.parametrize("factor", FACTORS)
def test_owned_parameters_act_where_they_say(
    factor: str, branch_width: int | None, form: dict[str, object]
) -> None:
    network, inputs = build(factor, form, branch_width), batch()
    with torch.no_grad():
        parts = [network.encode(inputs[:2], [0, 1]), network.encode(inputs[2:], [2, 3])]
        for parameter in network.interaction_parameters():
            parameter.add_(1.0)
        moved = [network.encode(inputs[:2], [0, 1]), network.encode(inputs[2:], [2, 3])]
        for old, new in zip(parts, moved, strict=True):
            assert torch.equal(old.effect, new.effect)
        for parameter in network.branch_parameters():
            parameter.add_(1.0)
        again = [network.encode(inputs[:2], [0, 1]), network.encode(inputs[2:], [2, 3])]
        for old, new in zip(moved, again, strict=True):
            assert torch.equal(old.terms, new.terms)
            assert not torch.equal(old.effect, new.effect)
    names = {parameter: name for name, parameter in network.named_parameters()}
    owned = [names[p] for p in (*network.interaction_parameters(), *network.branch_parameters())]
    assert len(owned) == len(set(owned))
    if branch_width or not network.layout.interacts:
        assert set(names.values()) - set(owned) == {"bias"}


def test_one_mode_alone_is_a_network_of_splines() -> None:
    network = SeparableNetwork([3], 4, factor=FACTORS["spline"]).double()
    x = torch.randn(5, 3, dtype=torch.float64)
    components, effect = network.factors[0](x)
    weights = network.get_parameter("interaction.weights")
    expected = network.bias + effect + (components * weights).sum(-1) / 2.0
    torch.testing.assert_close(network([x]), expected)


def test_unsigned_components_are_never_negative() -> None:
    for factor in ("linear", "mlp unsigned", "spline unsigned"):
        network, inputs = build(factor, {"form": "cp"}, None), batch(50)
        assert all((mode(x).components >= 0).all() for mode, x in zip(network.factors, inputs, strict=True))
    signed = build("mlp", {"form": "cp"}, None)
    assert (signed.factors[0](batch(50)[0]).components < 0).any()


def test_values_are_float32_and_the_state_loads_bit_for_bit() -> None:
    network = SeparableNetwork([3, 2], 4, n_members=2)
    assert network([torch.zeros(5, 3), torch.zeros(5, 2)]).dtype == torch.float32
    copy = SeparableNetwork([3, 2], 4, n_members=2)
    copy.load_state_dict(network.state_dict())
    inputs = [torch.randn(5, 3), torch.randn(5, 2)]
    assert torch.equal(copy(inputs), network(inputs))
