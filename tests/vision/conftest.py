from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sna_rl.cli import main

TINY = ["width:8", "n_heads:2", "hidden:16", "batch_size:4", "eval_freq:0", "save_freq:0"]
BOARDS = ["n_train:12", "n_valid:4", "n_test:6", "n_bases:3", "min_givens:60", "max_givens:60"]


@pytest.fixture(scope="session")
def sudoku_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Hyper-SET after three steps."""
    logs = tmp_path_factory.mktemp("logs")
    words = ["vision", "train", "--task", "sudoku", "-n", "3", "--iterations", "3", "--seed", "1"]
    assert main([*words, "-f", str(logs), "--no-progress", "-params", *TINY, *BOARDS]) == 0
    return logs / "sudoku" / "hyper-set" / "seed-1"


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of 8 × 8 images, dark and light, 12 to learn from and 4 for the test of each."""
    folder = tmp_path_factory.mktemp("images")
    draw = np.random.default_rng(0)
    for part, count in (("train", 12), ("test", 4)):
        for name, level in (("dark", 40), ("light", 200)):
            (folder / part / name).mkdir(parents=True)
            for index in range(count):
                pixels = draw.integers(level - 30, level + 30, (8, 8, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(folder / part / name / f"{index}.png")
    return folder
