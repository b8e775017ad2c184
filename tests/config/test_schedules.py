"""Schedules as text: what they mean, and what is refused (case R2 of the zoo)."""

from __future__ import annotations

import pytest

from sna_rl.config import parse_schedule
from sna_rl.errors import UsageError


@pytest.mark.parametrize(
    ("value", "ends"),
    [
        (1e-3, (1e-3, 1e-3)),
        (1, (1.0, 1.0)),
        ("3e-4", (3e-4, 3e-4)),
        ("lin_3e-4", (3e-4, 0.0)),
        ("lin_7.3e-4", (7.3e-4, 0.0)),
        ("lin_3e-4_1e-5", (3e-4, 1e-5)),
        ("lin_1e-5_3e-4", (1e-5, 3e-4)),
    ],
)
def test_ends(value: object, ends: tuple[float, float]) -> None:
    assert parse_schedule(value) == ends


@pytest.mark.parametrize(
    "value",
    [
        *(
            "foo_3e-4",
            "lin",
            "lin_",
            "lin_x",
            "lin_1_2_3",
            "lin_-1",
            "lin_1_-1",
            "linear_1",
            "lin_nan",
            "lin_inf",
        ),
        *(0, -1.0, float("inf"), float("nan"), True, None, [1e-3], 10**400, "", "lin_٣", " 1", "1\n"),
    ],
)
def test_all_else_is_refused_with_the_key(value: object) -> None:
    with pytest.raises(UsageError, match=r"^qf_learning_rate must be a positive number, 'lin_START'"):
        parse_schedule(value, "qf_learning_rate")
