"""The formula counts what is there; rank and width invert it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sna_rl.errors import UsageError
from sna_rl.separable import (
    FactorConfig,
    SeparableNetwork,
    n_parameters,
    rank_for_parameters,
    width_for_parameters,
)

FACTORS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["linear", "mlp", "spline", "table"]),
        "width": st.integers(1, 5),
        "depth": st.integers(0, 2),
        "layer_norm": st.booleans(),
        "n_knots": st.integers(2, 4),
        "n_coordinates": st.integers(1, 3),
    }
)


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a network of any form, except its rank."""
    modes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    form = draw(st.sampled_from(["additive", "cp", "tucker"]))
    return {
        "modes": modes,
        "form": form,
        "factor": draw(st.lists(FACTORS, min_size=len(modes), max_size=len(modes))),
        "orders": draw(st.none() | st.integers(1, len(modes))) if form == "cp" else None,
        "branch_width": draw(st.none() | st.integers(1, 4)),
    }


def with_factors(drawn: dict[str, Any]) -> dict[str, Any]:
    return {**drawn, "factor": [FactorConfig(**each) for each in drawn["factor"]]}


@given(drawn=arguments(), rank=st.integers(1, 4), n_members=st.integers(1, 3))
def test_formula_equals_count(drawn: dict[str, Any], rank: int, n_members: int) -> None:
    network = SeparableNetwork(**with_factors(drawn), rank=rank, n_members=n_members)
    count = sum(parameter.numel() for parameter in network.parameters())
    assert count == n_members * n_parameters(**with_factors(drawn), rank=rank)


def test_formula_counts_tucker_ranks_of_their_own() -> None:
    network = SeparableNetwork([3, 2, 2], [4, 1, 2], form="tucker", factor=FactorConfig("linear"))
    count = sum(parameter.numel() for parameter in network.parameters())
    assert count == n_parameters([3, 2, 2], [4, 1, 2], form="tucker", factor=FactorConfig("linear")) == 44


def test_basic_form_has_4291_parameters() -> None:
    branches = (17 * 128 + 128 + 128 + 1) + (6 * 128 + 128 + 128 + 1)
    factors = (17 * 32 + 32) + (6 * 32 + 32)
    output = 32 + 1  # the weights and the output bias, beside one bias in each branch
    assert branches + factors + output == 4291
    assert n_parameters([17, 6], 32, factor=FactorConfig("linear"), branch_width=128) == 4291


@given(drawn=arguments(), rank=st.integers(1, 6), spare=st.integers(0, 3))
def test_rank_inverts_the_count(drawn: dict[str, Any], rank: int, spare: int) -> None:
    def count(rank: int) -> int:
        return n_parameters(**with_factors(drawn), rank=rank)

    budget = count(rank) + spare
    if count(1) == count(2):
        with pytest.raises(UsageError, match="use width_for_parameters"):
            rank_for_parameters(budget, **with_factors(drawn))
        return
    found = rank_for_parameters(budget, **with_factors(drawn))
    assert count(found) <= budget < count(found + 1)


@pytest.mark.parametrize("form", ["additive", "cp", "tucker"])
@pytest.mark.parametrize("budget", [5_000, 72_193])
def test_width_inverts_the_count(form: str, budget: int) -> None:
    width = width_for_parameters(budget, [17, 6], 8, form)
    sizes = [n_parameters([17, 6], 8, form, FactorConfig(width=w)) for w in (width, width + 1)]
    assert sizes[0] <= budget < sizes[1]
