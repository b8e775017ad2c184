"""Does the energy fall over the iterations? Small Hyper-SETs, trained and read without and with backtracking.

Run it as `python tests/benchmarks/vision_energy.py --data FOLDER`, the folder that of Fashion-MNIST. Runs go
on where they were stopped, and rows that stand in table.csv are not computed again.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from sna_rl.runs import versions, write_json
from sna_rl.runs.rows import Rows
from sna_rl.vision.classify import centred, right_images, scaled
from sna_rl.vision.descent import descent
from sna_rl.vision.images import Images
from sna_rl.vision.run import Run, load_data
from sna_rl.vision.scores import interval
from sna_rl.vision.settings import VisionConfig
from sna_rl.vision.study import cpu_seconds, keep_settings, run_folder, trained

FOLDER = Path(__file__).parents[2] / "results" / "vision" / "energy"
COMMON: dict[str, Any] = {
    "task": "classify", "model": "hyper-set", "width": 32, "hidden": 32, "n_iterations": 6, "n_side": 7,
    "n_train": 0, "n_valid": 100, "batch_size": 32, "learning_rate": 4e-3, "n_warmup": 15, "lr_floor": 0.05,
    "n_steps": 300, "eval_freq": 0, "save_freq": 100,
}  # fmt: skip
STEPS: dict[str, dict[str, Any]] = {
    "fixed": {"steps": "fixed"},
    "learned": {"steps": "start"},
    "learned, positive": {"steps": "start", "positive_steps": True},
}
HALVINGS = 6
N_READ = 2_000
"""First test images, on which accuracy and energy are read."""


def arms() -> Iterator[dict[str, Any]]:
    """All that is trained: without backtracking first."""
    for trained_with in (0, HALVINGS):
        for jacobian in ("none", "exact"):
            for steps in STEPS:
                yield {"steps": steps, "jacobian": jacobian, "trained_with": trained_with}


def main() -> None:
    """Fill the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--logs", type=Path, default=Path("logs/vision_energy"))
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_settings(given.output / "settings.yml", COMMON)
    command = [
        "python",
        "tests/benchmarks/vision_energy.py",
        "--data",
        given.data,
        "--seeds",
        str(given.seeds),
    ]
    (given.output / "command").write_text(shlex.join(command) + "\n")
    write_json(given.output / "versions.json", versions())
    table = Rows(given.output / "table.csv", ["steps", "jacobian", "trained_with", "seed"])
    for seed in range(given.seeds):
        data = None
        for arm in arms():
            if table.find(**arm, seed=seed) is not None:
                continue
            own = {**STEPS[arm["steps"]], "jacobian": arm["jacobian"], "n_halvings": arm["trained_with"]}
            config = VisionConfig().changed(COMMON | own | {"seed": seed, "data": given.data})
            data = data or load_data(config)
            folder = given.logs / "-".join(str(value).replace(", ", "-") for value in arm.values())
            run = trained(config, folder, "", data=data)
            seconds = cpu_seconds(run_folder(config, folder))
            table.add({**arm, "seed": seed, **readings(run), "cpu_seconds": f"{seconds:.1f}"})
            print(table.rows[-1], flush=True)


def readings(run: Run) -> dict[str, str]:
    """Accuracy and descent of one model on the same images, read without and with backtracking."""
    images = run.data[-1]
    assert isinstance(images, Images)
    images = images[torch.arange(N_READ)]
    n = run.config.model.n_iterations
    row: dict[str, str] = {}
    right = {}
    for name, n_halvings in (("without", 0), ("with", HALVINGS)):
        run.model.body.config = replace(run.config.model, n_halvings=n_halvings)
        right[name] = right_images(run.model, images, [n])[n].double().numpy()
        falls = [descent(run.model, centred(scaled(part))) for part in torch.split(images.pixels, 250)]
        row |= {
            f"accuracy_{name}": f"{right[name].mean():.4f}",
            f"monotone_{name}": f"{fmean(fall.monotone.double().mean().item() for fall in falls):.4f}",
            f"fallen_{name}": f"{fmean(fall.fell[1:].double().mean().item() for fall in falls):.4f}",
        }
    moved = torch.cat([fall.accepted[1:] for fall in falls], 1)
    gained = interval(right["with"] - right["without"])
    return row | {
        "accepted": f"{moved.mean().item():.4f}",
        "not_moved": f"{(moved == 0).double().mean().item():.4f}",
        "accuracy_gained": f"{gained.mean:.4f}",
        "gained_low": f"{gained.low:.4f}",
        "gained_high": f"{gained.high:.4f}",
    }


if __name__ == "__main__":
    main()
