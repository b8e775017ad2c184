"""The verdict on five models' order, from rows with known marks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmarks.vision_cifar import RATES, WIDTHS, verdict
from tests.benchmarks.vision_sudoku import best, packed


def rows(n_right: dict[str, int], seed: int) -> list[dict[str, str]]:
    return [
        {"model": model, "seed": str(seed), "right": packed(np.arange(100) < n)}
        for model, n in n_right.items()
    ]


def test_neighbours_are_confirmed_refuted_or_left_open() -> None:
    right = dict(zip(WIDTHS, (90, 70, 70, 69, 90), strict=True))
    lines = verdict([*rows(right, 0), *rows({**right, "hyper-set": 80}, 1)], 100)
    assert lines[0] == "hyper-set: 85.0 % (seeds: 90.0, 80.0)"
    assert lines[5].startswith("hyper-set over transformer: +15.0 points [")
    assert lines[5].endswith("by seed +20.0, +10.0: confirmed")
    assert lines[6].endswith("+0.0 points [+0.0, +0.0] over the test images, by seed +0.0, +0.0: not decided")
    assert lines[8].endswith("by seed -21.0, -21.0: refuted")


def test_only_seeds_of_all_models_count() -> None:
    right = dict.fromkeys(WIDTHS, 50)
    assert verdict([*rows(right, 0), *rows({"crate": 90}, 1)], 100)[3] == "crate: 50.0 % (seeds: 50.0)"
    assert verdict(rows({"crate": 90}, 1), 100) == ["no seed is finished by all models"]


def test_the_best_rate_is_that_of_the_validation_images() -> None:
    tried = [
        {"model": "crate", "learning_rate": str(rate), "accuracy": str(accuracy)}
        for rate, accuracy in zip(RATES, (0.3, 0.5, 0.4), strict=True)
    ]
    assert best(tried, "accuracy", 3)["learning_rate"] == str(RATES[1])
    with pytest.raises(SystemExit, match="run --select first"):
        best(tried[:2], "accuracy", 3)
