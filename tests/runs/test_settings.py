"""Settings in parts: flat names there and back, kinds, unknown names."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from sna_rl.errors import UsageError
from sna_rl.runs.settings import Settings


@dataclass(frozen=True)
class First:
    size: int = 3
    name: str = "a"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UsageError("size must be over 0")


@dataclass(frozen=True)
class Second:
    rate: float = 0.5
    other: float | None = None
    on: bool = False


@dataclass(frozen=True)
class Both(Settings):
    first: First = field(default_factory=First)
    second: Second = field(default_factory=Second)


def test_flat_names_there_and_back() -> None:
    both = Both(First(7, "b"), Second(0.1, 2.0, True))
    assert both.plain() == {"size": 7, "name": "b", "rate": 0.1, "other": 2.0, "on": True}
    assert Both.of(both.plain()) == both
    assert Both.of({}) == Both()


def test_changes_keep_the_rest_and_make_floats_of_whole_numbers() -> None:
    changed = Both(First(7)).changed({"rate": 2, "other": 1, "name": "c"})
    assert changed == Both(First(7, "c"), Second(2.0, 1.0))
    assert isinstance(changed.second.rate, float)
    assert changed.changed({"other": None}).second.other is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sise": 1}, "unknown key 'sise'; did you mean 'size'"),
        ({"size": 1.0}, "size must be of kind int, not 1.0"),
        ({"size": True}, "size must be of kind int, not True"),
        ({"on": 1}, "on must be of kind bool"),
        ({"name": None}, "name must be of kind str"),
        ({"other": "x"}, "other must be of kind float or none, not 'x'"),
        ({"size": 0}, "size must be over 0"),
    ],
)
def test_wrong_changes_are_one_sentence(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Both().changed(changes)
