"""Flags of their own and -params name the same settings, for every supervised trainer."""

from __future__ import annotations

from pathlib import Path

import pytest

from sna_rl.cli import main
from sna_rl.cli.flags import changed_settings


def test_flags_left_away_change_nothing() -> None:
    assert changed_settings({"width": 64}, {"width": None, "seed": 3}) == {"width": 64, "seed": 3}
    assert changed_settings({"seed": 3}, {"seed": 3}) == {"seed": 3}


@pytest.mark.parametrize("words", [["lm", "train"], ["lm", "dynamics"], ["vision", "train"]])
def test_a_setting_given_two_ways_is_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--seed", "1", "-f", str(tmp_path / "logs"), "-params", "seed:2"]) == 2
    assert "--seed 1 and -params seed:2 contradict each other; give one of them" in capsys.readouterr().err
    assert not (tmp_path / "logs").exists()


def test_the_flag_is_called_by_its_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lm", "dynamics", "--model", "mlp", "-params", "trunk:separable"]) == 2
    assert "--model mlp and -params trunk:separable contradict each other" in capsys.readouterr().err
