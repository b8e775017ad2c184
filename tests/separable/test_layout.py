"""Arguments are checked at construction, by one sentence that names the remedy."""

from __future__ import annotations

import math
import re
from typing import Any

import jaxtyping
import pytest
import torch

from sna_rl.errors import UsageError
from sna_rl.separable import (
    FactorConfig,
    InitConfig,
    SeparableNetwork,
    rank_for_parameters,
    spectrum,
    width_for_parameters,
)


@pytest.fixture(autouse=True)
def messages_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let wrong types reach the project's own checks, where the shape hook would speak first."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"rank": 0}, "rank must be an int of at least 1, not 0 (int)"),
    ({"rank": 1.5}, "rank must be an int of at least 1, not 1.5 (float)"),
    ({"rank": 1.0}, "rank must be an int of at least 1, not 1.0 (float)"),
    ({"rank": "big"}, "rank must be an int of at least 1, not 'big' (str)"),
    ({"rank": True}, "rank must be an int of at least 1, not True (bool)"),
    ({"rank": None}, "rank must be an int of at least 1, not None (NoneType)"),
    ({"rank": [2, 2]}, "form 'cp' has one rank, an int, not [2, 2]; form 'tucker' takes several"),
    ({"rank": [2], "form": "tucker"}, "rank must have one entry for each of 2 modes, not 1"),
    ({"rank": [2, 0], "form": "tucker"}, "each of rank must be an int of at least 1, not 0 (int)"),
    ({"modes": []}, "modes must name at least one mode's size, not none"),
    ({"modes": [3, 0]}, "each of modes must be an int of at least 1, not 0 (int)"),
    ({"form": "tuker"}, "unknown form 'tuker'; did you mean 'tucker'?"),
    ({"orders": 3}, "orders must be at most the number of modes, 2, not 3"),
    ({"orders": 0}, "orders must be an int of at least 1, not 0 (int)"),
    ({"orders": 2, "form": "tucker"}, "orders belongs to form 'cp'; form 'tucker' takes orders=None, not 2"),
    ({"branch_width": 0}, "branch_width must be an int of at least 1, not 0 (int)"),
    ({"n_members": 0}, "n_members must be an int of at least 1, not 0 (int)"),
    ({"factor": [FactorConfig()]}, "factor must have one entry for each of 2 modes, not 1"),
    ({"init": "scalled"}, "unknown init 'scalled'; did you mean 'scaled'?"),
    ({"init": "paper"}, "init 'paper' is for form 'cp' with linear factors alone; init 'scaled' suits all"),
    (
        {"init": InitConfig(input_stds=(1.0,))},
        "input_stds must name one number for each of 2 modes, not (1.0,)",
    ),
]


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=lambda given: str(given)[:40])
def test_networks_refuse(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        SeparableNetwork(**{"modes": [3, 2], "rank": 4, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "splines"}, "unknown factor 'splines'; did you mean 'spline'?"),
        ({"width": 0}, "width must be an int of at least 1, not 0 (int)"),
        ({"depth": -1}, "depth must be an int of at least 0, not -1 (int)"),
        ({"n_knots": 1}, "n_knots must be an int of at least 2, not 1 (int)"),
        ({"n_coordinates": 2.0}, "n_coordinates must be an int of at least 1, not 2.0 (float)"),
        ({"kind": "table", "signed": False}, "signed must be True or None for factor 'table'"),
    ],
)
def test_factors_refuse(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        FactorConfig(**change)


@pytest.mark.parametrize("std", [0.0, -1.0, float("nan"), float("inf"), "0.2"])
def test_inits_refuse_scales_that_are_not_positive(std: Any) -> None:
    with pytest.raises(UsageError, match="std must be a positive number, not"):
        InitConfig(std=std)
    with pytest.raises(UsageError, match="each of input_stds must be a positive number, not"):
        InitConfig(input_stds=(1.0, std))


@pytest.mark.parametrize(
    ("kind", "signed", "is_signed"),
    [("linear", None, False), ("mlp", None, True), ("spline", None, True), ("mlp", False, False)],
)
def test_the_basic_form_alone_is_unsigned_by_default(kind: str, signed: bool | None, is_signed: bool) -> None:
    assert FactorConfig(kind, signed=signed).is_signed is is_signed


def test_budgets_and_diagnostics_refuse() -> None:
    with pytest.raises(UsageError, match=r"budget must be at least 56 \(rank 1 needs that many\), not 55"):
        rank_for_parameters(55, [17, 6], factor=FactorConfig("linear"), branch_width=1)
    with pytest.raises(UsageError, match=r"budget must be an int of at least 1, not 2.5 \(float\)"):
        rank_for_parameters(2.5, [17, 6])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="use rank_for_parameters"):
        width_for_parameters(1_000, [17, 6], 8, factor=FactorConfig("linear"))
    for k in (-1, 1.0, True, "two"):
        with pytest.raises(UsageError, match="k must be an int of at least 0"):
            spectrum.regret(torch.eye(3), k)  # type: ignore[arg-type]
    for q in (0.0, -0.1, 1.1, math.nan):
        with pytest.raises(UsageError, match="q must be over 0 and at most 1"):
            spectrum.energy_rank(torch.eye(3), q)


def test_parts_that_lack_or_repeat_a_mode_are_refused() -> None:
    network = SeparableNetwork([3, 2], 4)
    state = network.encode([torch.zeros(5, 3)], [0])
    with pytest.raises(
        UsageError, match=r"two parts must hold each of the 2 modes once, not \(0,\) and \(0,\)"
    ):
        network.table(state, state)
