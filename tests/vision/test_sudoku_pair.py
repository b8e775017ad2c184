"""The verdict of the paired Sudoku comparison, from rows with known numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sna_rl.runs.rows import Rows
from tests.benchmarks import vision_sudoku
from tests.benchmarks.vision_sudoku import compare, packed, select, unpacked, verdict


def row(arm: str, seed: int, iteration: int, n_solved: int) -> dict[str, str]:
    solved = np.arange(20) < n_solved
    boards = f"{n_solved / 20:.4f}"
    return {
        "arm": arm,
        "seed": str(seed),
        "iteration": str(iteration),
        "boards": boards,
        "solved": packed(solved),
    }


def test_bits_there_and_back() -> None:
    solved = np.arange(13) % 3 == 0
    assert unpacked(packed(solved), 13).tolist() == solved.tolist()


def test_curves_are_means_over_seeds() -> None:
    rows = [row("transformer", 0, 4, 10), row("transformer", 0, 8, 12), row("transformer", 1, 4, 14)]
    (line, published, end, _) = verdict(rows, 4, 20)
    assert line == (
        "transformer: 60.0 at 4, 60.0 at 8 iterations, % of boards; at most 0.0 points from 4 to 8"
    )
    assert "54.7 %" in published
    assert "79.0 %" in published
    assert end == "hyper-set: no comparison, no seed is finished by both"


@pytest.mark.parametrize(("n_solved", "counts"), [(4, False), (5, True)])
def test_a_comparison_needs_a_transformer_that_solves_boards(n_solved: int, counts: bool) -> None:
    rows = [row("transformer", 0, 4, n_solved), row("hyper-set", 0, 4, 9), row("hyper-set", 1, 4, 20)]
    end = verdict(rows, 4, 20)[-2]
    assert end.startswith("hyper-set − transformer") if counts else end.endswith("solves no more than 20%")


def test_the_difference_is_paired() -> None:
    """Nested sets of boards: 2 of 20 differ, so the standard deviation of the mean is √(0.1 · 0.9 / 20)."""
    rows = [row("transformer", 0, 4, 10), row("hyper-set", 0, 4, 12)]
    end = verdict(rows, 4, 20)[-2]
    assert "seeds 0, the same 20 boards: +10.0 points [+0.0, +25.0]" in end


TINY: dict[str, Any] = {
    "task": "sudoku", "width": 8, "hidden": 16, "n_iterations": 4, "batch_size": 4,
    "n_steps": 2, "n_bases": 3, "n_train": 12, "n_valid": 4, "n_test": 6, "min_givens": 60, "max_givens": 60,
}  # fmt: skip


def test_all_arms_are_read_on_the_same_boards_and_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vision_sudoku, "COMMON", TINY)
    monkeypatch.setattr(vision_sudoku, "SELECTING_STEPS", 1)
    monkeypatch.setattr(vision_sudoku, "TRIALS", ((2, 1e-3),))
    select(tmp_path / "logs", tmp_path)
    assert [row["arm"] for row in Rows(tmp_path / "selection.csv", ["arm"]).rows] == [*vision_sudoku.ARMS]
    compare(tmp_path / "logs", tmp_path, [0])
    rows = Rows(tmp_path / "readings.csv", ["arm", "seed", "iteration"]).rows
    assert [row["iteration"] for row in rows] == ["4", "6", "8"] * 3
    for each in rows:
        assert unpacked(each["solved"], 6).mean() == pytest.approx(float(each["boards"]), abs=1e-4)
    boards = sorted((tmp_path / "logs").glob("*/sudoku/*/seed-0/boards/test.csv"))
    assert len(boards) == 3
    assert len({path.read_text() for path in boards}) == 1
    assert "no comparison" in capsys.readouterr().out
    monkeypatch.setattr(vision_sudoku, "trained", None)
    compare(tmp_path / "logs", tmp_path, [0])
