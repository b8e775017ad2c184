"""Ensemble layers against PyTorch's own, one member at a time."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from sna_rl.separable.linear import EnsembleHead, EnsembleLayerNorm, EnsembleLinear, EnsembleTower

SIZES = st.integers(1, 5)


def assert_same(actual: Tensor, expected: Tensor, inputs: list[Tensor]) -> None:
    """Values and the gradients of a fixed weighted sum agree."""
    torch.testing.assert_close(actual, expected)
    weights = torch.linspace(-1.0, 2.0, actual.numel(), dtype=actual.dtype).reshape(actual.shape)
    gradients = [torch.autograd.grad((weights * out).sum(), inputs) for out in (actual, expected)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


@given(n_members=SIZES, batch=SIZES, size_in=SIZES, size_out=SIZES, shared=st.booleans())
def test_linear_equals_members_one_by_one(
    n_members: int, batch: int, size_in: int, size_out: int, shared: bool
) -> None:
    layer = EnsembleLinear(n_members, size_in, size_out).double()
    x = torch.randn((batch, size_in) if shared else (n_members, batch, size_in), dtype=torch.float64)
    x.requires_grad_()
    singles = [F.linear(x if shared else x[k], layer.weight[k].T, layer.bias[k]) for k in range(n_members)]
    assert_same(layer(x), torch.stack(singles), [x, layer.weight, layer.bias])


@given(n_members=SIZES, batch=SIZES, size_in=SIZES, shared=st.booleans())
def test_head_equals_a_linear_layer_of_one_output(
    n_members: int, batch: int, size_in: int, shared: bool
) -> None:
    head = EnsembleHead(n_members, size_in).double()
    x = torch.randn((batch, size_in) if shared else (n_members, batch, size_in), dtype=torch.float64)
    x.requires_grad_()
    singles = [
        F.linear(x if shared else x[k], head.weight[k], head.bias[k]).squeeze(-1) for k in range(n_members)
    ]
    assert_same(head(x), torch.stack(singles), [x, head.weight, head.bias])


def test_layer_norm_equals_torch() -> None:
    norm = EnsembleLayerNorm(3, 7).double()
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x = torch.randn(3, 5, 7, dtype=torch.float64, requires_grad=True)
    singles = [F.layer_norm(x[k], (7,), norm.weight[k, 0], norm.bias[k, 0]) for k in range(3)]
    assert_same(norm(x), torch.stack(singles), [x, norm.weight, norm.bias])


def test_tower_equals_a_plain_stack_of_layers() -> None:
    tower = EnsembleTower(2, 3, width=5, depth=2, layer_norm=True).double()
    x = torch.randn(4, 3, dtype=torch.float64)
    drawn = {name: torch.randn_like(value) for name, value in tower.state_dict().items()}
    tower.load_state_dict(drawn)
    for k in range(2):
        plain = nn.Sequential(
            nn.Linear(3, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 5), nn.LayerNorm(5), nn.ReLU()
        ).double()
        state = {}
        for depth in range(2):
            state[f"{3 * depth}.weight"] = drawn[f"layers.{depth}.weight"][k].T
            state[f"{3 * depth}.bias"] = drawn[f"layers.{depth}.bias"][k]
            state[f"{3 * depth + 1}.weight"] = drawn[f"norms.{depth}.weight"][k, 0]
            state[f"{3 * depth + 1}.bias"] = drawn[f"norms.{depth}.bias"][k, 0]
        plain.load_state_dict(state)
        torch.testing.assert_close(tower(x)[k], plain(x))


def test_tower_without_depth_hands_its_input_on() -> None:
    x = torch.randn(4, 3)
    tower = EnsembleTower(2, 3, width=5, depth=0, layer_norm=True)
    assert tower(x) is x
    assert tower.out_features == 3
    assert not list(tower.parameters())


def test_layers_start_like_torch_and_differ_between_members() -> None:
    layer = EnsembleLinear(2, 16, 500)
    for drawn in (layer.weight, layer.bias):
        assert drawn.abs().max() <= 0.25  # 1/√16
        assert abs(drawn.std().item() - 0.25 / 3**0.5) < 0.01
        assert not torch.equal(drawn[0], drawn[1])
