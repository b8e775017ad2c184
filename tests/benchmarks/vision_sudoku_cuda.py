"""Sudoku at the published setting on a card: 5.2 M parameters, 24 iterations, boards of 17 to 34 givens.

    python -m tests.benchmarks.vision_sudoku_cuda --steps 8000

The published run has 112,500 steps; this one fits the learning rate's decay to the steps that are asked for,
then reads the test boards at 24 to 48 iterations. It goes on from its checkpoint in --logs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from sna_rl.runs import versions, write_json
from sna_rl.runs.rows import Rows
from sna_rl.vision.counts import n_parameters
from sna_rl.vision.model import sudoku_model
from sna_rl.vision.settings import VisionConfig
from sna_rl.vision.study import cpu_seconds, run_folder, trained
from sna_rl.vision.sudoku import right_cells
from sna_rl.vision.sudoku_data import Splits

FOLDER = Path(__file__).parents[2] / "results" / "vision" / "sudoku_cuda"
N_PARAMETERS = 5_195_584
PUBLISHED: dict[str, Any] = {
    "task": "sudoku", "model": "hyper-set", "width": 768, "n_heads": 12, "hidden": 3072, "n_iterations": 24,
    "loss_on": "last", "batch_size": 16, "learning_rate": 1e-4, "weight_decay": 0.1, "beta2": 0.95,
    "n_warmup": 0, "lr_floor": 0.001, "n_train": 9_000, "n_test": 1_000, "min_givens": 17, "max_givens": 34,
    "places": "cells", "eval_freq": 1_000, "save_freq": 500, "seed": 0,
}  # fmt: skip


def main() -> None:
    """Train, then read."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=8_000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--logs", type=Path, default=Path("logs/vision_sudoku_cuda"))
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    given = parser.parse_args()
    config = VisionConfig().changed(PUBLISHED | {"n_steps": given.steps})
    size = n_parameters(sudoku_model(config.model))
    assert size == N_PARAMETERS, f"{size:,} parameters, not the published {N_PARAMETERS:,}"
    run = trained(config, given.logs, "", device=given.device, progress=True)
    assert isinstance(run.data, Splits)
    table = Rows(given.output / "table.csv", ["steps", "iterations"])
    empty = run.data.test.puzzles == 0
    for n, right in right_cells(run.model, run.data.test, range(24, 49, 4)).items():
        if table.find(steps=given.steps, iterations=n) is None:
            row = {"steps": given.steps, "iterations": n, "boards": f"{right.all(1).float().mean():.4f}"}
            row |= {"cells": f"{right[empty].float().mean():.4f}"}
            table.add(row | {"cpu_seconds": round(cpu_seconds(run_folder(config, given.logs)), 1)})
        print(table.find(steps=given.steps, iterations=n))
    card = torch.cuda.get_device_name() if given.device == "cuda" else given.device
    write_json(given.output / "versions.json", versions() | {"device": card})


if __name__ == "__main__":
    main()
