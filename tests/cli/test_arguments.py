"""The rewriting of the argument list before Typer reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sna_rl.cli.arguments import MULTIPLE, repeat_flags, without_debug


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("train -params a:1 b:2 --seed 3", "train -params a:1 -params b:2 --seed 3"),
        ("train -params a:1 -params b:2", "train -params a:1 -params b:2"),
        ("train --hyperparams a:-1 b:x:y", "train --hyperparams a:-1 --hyperparams b:x:y"),
        ("evaluate --env-kwargs a:1 b:2 logs/run", "evaluate --env-kwargs a:1 --env-kwargs b:2 logs/run"),
        ("evaluate --eval-env-kwargs a:1 b:2", "evaluate --eval-env-kwargs a:1 --eval-env-kwargs b:2"),
        ("train --gym-packages a.b c -n 5", "train --gym-packages a.b --gym-packages c -n 5"),
        ("evaluate --gym-packages a ./run", "evaluate --gym-packages a ./run"),
        ("train -params -n 5", "train -params -n 5"),
        ("train -params=a:1 b:2", "train -params=a:1 b:2"),
        ("train -- -params a:1 b:2", "train -- -params a:1 b:2"),
        ("", ""),
    ],
)
def test_several_values_become_repeated_flags(given: str, wanted: str) -> None:
    assert repeat_flags(given.split()) == wanted.split()


WORDS = st.lists(
    st.sampled_from([*MULTIPLE, "a:1", "b:dict(c=[1, 2])", "module", "-n", "--seed", "--", "x/y"])
)


@given(WORDS)
def test_rewriting_only_adds_flags_and_is_stable(words: list[str]) -> None:
    once = repeat_flags(words)
    assert repeat_flags(once) == once
    assert [word for word in once if word not in MULTIPLE] == [word for word in words if word not in MULTIPLE]


def test_debug_is_taken_out_wherever_it_stands() -> None:
    assert without_debug(["train", "-n", "5", "--debug"]) == (["train", "-n", "5"], True)
    assert without_debug(["train"]) == (["train"], False)
