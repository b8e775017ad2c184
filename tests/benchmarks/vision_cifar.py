"""Hyper-SET and its four baselines on CIFAR-10 in small: about as many parameters, equal steps, equal tuning.

    python -m tests.benchmarks.vision_cifar DATA --select   # learning rates: seed 100, validation images
    python -m tests.benchmarks.vision_cifar DATA            # seeds 0 to 2, test images

DATA is a folder of CIFAR-10 as `sna-rl vision` reads it. Both go on where they were stopped: runs from their
checkpoints in --logs, finished rows from the tables in --output.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from sna_rl.runs import versions, write_json
from sna_rl.runs.rows import Rows
from sna_rl.vision.counts import n_parameters
from sna_rl.vision.run import Run, load_data
from sna_rl.vision.scores import interval, scores
from sna_rl.vision.settings import VisionConfig
from sna_rl.vision.study import cpu_seconds, keep_settings, run_folder, trained
from tests.benchmarks.vision_sudoku import best, packed, unpacked

FOLDER = Path(__file__).parents[2] / "results" / "vision" / "cifar"
WIDTHS = {"hyper-set": 64, "transformer": 52, "crate-t": 68, "crate": 64, "energy-transformer": 64}
"""In the published order: 90.1, 89.9, 87.5, 84.8 and 76.4 % (2.4 to 3.0 M parameters, all of CIFAR-10)."""
TARGET, TOLERANCE = 61_000, 0.05
SELECTING_SEED, RATES = 100, (1e-3, 2e-3, 4e-3)
COMMON: dict[str, Any] = {
    "task": "classify", "n_side": 8, "n_heads": 4, "n_iterations": 4, "step_time": "normed",
    "loss_on": "last", "batch_size": 64, "n_steps": 2_000, "n_train": 0, "n_valid": 1_000, "augment": "flip",
    "n_warmup": 50, "lr_floor": 0.05, "weight_decay": 0.05, "eval_freq": 0, "save_freq": 250,
}  # fmt: skip
SELECTING_STEPS = 400


def config_of(model: str, rate: float, seed: int, data: str, **changes: Any) -> VisionConfig:
    """Settings of one run; the hidden size is twice the width."""
    own = {"model": model, "width": WIDTHS[model], "hidden": 2 * WIDTHS[model], "learning_rate": rate}
    return VisionConfig().changed(COMMON | own | {"seed": seed, "data": data} | changes)


def run_of(config: VisionConfig, folder: Path, data: Any) -> Run:
    """The trained run, of as many parameters as the others."""
    size = n_parameters(Run.new(config, data=data).model)
    assert abs(size - TARGET) <= TOLERANCE * TARGET, f"{config.model.model} has {size} parameters"
    return trained(config, folder, "", data=data)


def select(data: str, logs: Path, output: Path) -> None:
    """Validation accuracy of each model at each learning rate."""
    table = Rows(output / "selection.csv", ["model", "learning_rate"])
    images = load_data(config_of("crate", RATES[0], SELECTING_SEED, data))
    for model in WIDTHS:
        for rate in RATES:
            if table.find(model=model, learning_rate=rate) is None:
                config = config_of(model, rate, SELECTING_SEED, data, n_steps=SELECTING_STEPS)
                run = run_of(config, logs / f"rate-{rate:g}", images)
                accuracy = f"{run.task().evaluate()['accuracy']:.4f}"
                table.add({"model": model, "learning_rate": rate, "accuracy": accuracy})
                print(table.rows[-1], flush=True)


def compare(data: str, logs: Path, output: Path, seeds: Sequence[int]) -> None:
    """Train and read what is missing, all models of a seed before the next seed."""
    trials = Rows(output / "selection.csv", ["model", "learning_rate"]).rows
    table = Rows(output / "table.csv", ["model", "seed"])
    for seed in seeds:
        images = load_data(config_of("crate", RATES[0], seed, data))
        for model in WIDTHS:
            if table.find(model=model, seed=seed) is None:
                tried = [row for row in trials if row["model"] == model]
                rate = float(best(tried, "accuracy", len(RATES))["learning_rate"])
                config = config_of(model, rate, seed, data)
                run = run_of(config, logs, images)
                right = scores(run)["accuracy"]
                row = {"model": model, "seed": seed, "learning_rate": config.learn.learning_rate}
                row |= {"parameters": n_parameters(run.model), "accuracy": f"{right.mean():.4f}"}
                row |= {"cpu_seconds": round(cpu_seconds(run_folder(config, logs)), 1)}
                table.add(row | {"right": packed(right > 0.5)})
                print(model, seed, row["accuracy"], flush=True)
    report = "\n".join(verdict(table.rows, len(images[-1]))) + "\n"
    (output / "order.txt").write_text(report)
    print(report)


def verdict(rows: Sequence[dict[str, str]], n_images: int) -> list[str]:
    """Mean accuracies, and for each published neighbour pair the paired difference and what it says.

    Args:
        rows: of table.csv; only seeds that every model has finished count.
        n_images: of the test set.
    """
    seeds = {model: {row["seed"] for row in rows if row["model"] == model} for model in WIDTHS}
    common = sorted(set.intersection(*seeds.values()))
    if not common:
        return ["no seed is finished by all models"]
    marks = {
        (row["model"], row["seed"]): unpacked(row["right"], n_images) for row in rows if row["seed"] in common
    }
    own = {model: [marks[model, seed] for seed in common] for model in WIDTHS}
    lines = []
    for model, each in own.items():
        shares = ", ".join(f"{100 * mark.mean():.1f}" for mark in each)
        lines.append(f"{model}: {100 * fmean(mark.mean() for mark in each):.1f} % (seeds: {shares})")
    for better, worse in pairwise(WIDTHS):
        differences = [a - b for a, b in zip(own[better], own[worse], strict=True)]
        found = interval(100 * np.mean(differences, axis=0))
        held = "confirmed" if found.low > 0 else "refuted" if found.high < 0 else "not decided"
        lines.append(
            f"{better} over {worse}: {found.mean:+.1f} points [{found.low:+.1f}, {found.high:+.1f}] over the "
            f"test images, by seed {', '.join(f'{100 * each.mean():+.1f}' for each in differences)}: {held}"
        )
    return lines


def main() -> None:
    """Select, or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument("--select", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--logs", type=Path, default=Path("logs/vision_cifar"))
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_settings(given.output / "settings.yml", COMMON)
    write_json(given.output / "versions.json", versions())
    if given.select:
        select(given.data, given.logs, given.output)
    else:
        compare(given.data, given.logs, given.output, given.seeds)


if __name__ == "__main__":
    main()
