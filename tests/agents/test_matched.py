"""Matched widths hold their tolerance wherever an answer is given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.torch_layers import create_mlp
from torch import nn

from sna_rl.agents.matched import TOLERANCE, matched_widths, mlp_parameters
from sna_rl.agents.networks import add_layer_norm
from sna_rl.errors import UsageError


@given(
    n_inputs=st.integers(1, 60),
    n_outputs=st.integers(1, 20),
    widths=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    layer_norm=st.booleans(),
)
def test_the_formula_counts_what_is_built(
    n_inputs: int, n_outputs: int, widths: list[int], layer_norm: bool
) -> None:
    network = nn.Sequential(*create_mlp(n_inputs, n_outputs, widths))
    if layer_norm:
        add_layer_norm(network)
    count = sum(parameter.numel() for parameter in network.parameters())
    assert count == mlp_parameters(n_inputs, n_outputs, widths, layer_norm)


@given(
    budget=st.integers(2_000, 300_000),
    n_inputs=st.integers(2, 40),
    n_outputs=st.integers(1, 18),
    n_layers=st.integers(1, 3),
    layer_norm=st.booleans(),
)
def test_counts_lie_within_the_tolerance(
    budget: int, n_inputs: int, n_outputs: int, n_layers: int, layer_norm: bool
) -> None:
    widths = matched_widths(budget, n_inputs, n_outputs, n_layers, layer_norm)
    assert len(widths) == n_layers
    assert abs(mlp_parameters(n_inputs, n_outputs, widths, layer_norm) / budget - 1) <= TOLERANCE


def test_what_can_not_be_matched_is_refused() -> None:
    with pytest.raises(UsageError, match="no MLP of 2 hidden layers from 300 to 1"):
        matched_widths(200, 300, 1, 2)
    with pytest.raises(UsageError, match="at least one layer"):
        matched_widths(200, 3, 1, 0)
