"""Does decoupling state and constraint help on word problems? Paired arms: same data, same seed, same steps.

Run it as `python tests/benchmarks/language_arcade.py`. Rows that stand in table.csv are not computed again.
"""

from __future__ import annotations

import argparse
import csv
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from sna_rl.language.losses import model_loss
from sna_rl.language.running import begin, make_model, make_optimizer, read_data
from sna_rl.language.settings import LMSettings
from sna_rl.language.tasks import ProblemTask
from sna_rl.language.tokens import ByteTokens
from sna_rl.runs import write_json
from sna_rl.runs.versions import versions

FOLDER = Path(__file__).parents[2] / "results" / "language" / "arcade"
COMMON: dict[str, Any] = {
    "model": "arcade", "problems": "conditional", "n_problems": 20_000, "n_test": 400, "largest": 9,
    "width": 64, "n_layers": 2, "rank": 16, "n_positions": 80, "embedding": "table", "batch_size": 32,
    "learning_rate": 3e-3, "n_steps": 500, "eval_freq": 0, "save_freq": 0,
}  # fmt: skip
ARMS: dict[str, dict[str, Any]] = {
    "no penalty": {"strength": 0.0},
    "cross-moment": {"strength": 0.3},
    "shuffled split": {"strength": 0.3, "shuffled": True},
    "no routing": {"strength": 0.3, "routed": False},
    "per-token": {"strength": 0.3, "penalty": "per-token"},
    "ratio 3:1": {"strength": 0.3, "ratio": "3:1"},
}
TURNS = 40


def cost() -> dict[str, float]:
    """Processor milliseconds of a training step without and with the penalty, in turns."""
    steps = {}
    for strength in (0.0, 0.3):
        settings = LMSettings().changed(COMMON | {"strength": strength, "n_problems": 500, "n_test": 1})
        data, model = read_data(settings.task, 0), make_model(settings)
        task = ProblemTask(model, data.train, data.test or {}, ByteTokens(), settings.fit, 32)
        steps[strength] = (task, model, make_optimizer(model, settings.learn))
    taken: dict[float, list[float]] = {strength: [] for strength in steps}
    for turn in range(TURNS):
        for strength, (task, model, optimizer) in steps.items():
            batch = task.batch(turn % 10)
            began = time.process_time()
            loss, _ = model_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            taken[strength].append(1e3 * (time.process_time() - began))
    ratios = [b / a for a, b in zip(taken[0.0], taken[0.3], strict=True)]
    return {
        "ms_without": statistics.median(taken[0.0]),
        "ms_with": statistics.median(taken[0.3]),
        "ratio": statistics.median(ratios),
    }


def main() -> None:
    """Fill the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "command").write_text(shlex.join(["python", *sys.argv]) + "\n")
    write_json(given.output / "versions.json", versions())
    write_json(given.output / "cost.json", cost())
    table = given.output / "table.csv"
    for seed in range(given.seeds):
        for arm, changes in ARMS.items():
            rows = list(csv.DictReader(table.open())) if table.exists() else []
            if (arm, str(seed)) in {(row["arm"], row["seed"]) for row in rows}:
                continue
            settings = LMSettings().changed(COMMON | changes | {"seed": seed})
            with tempfile.TemporaryDirectory() as logs:
                final = begin(settings, Path(logs), "", progress=False).final
            numbers = {name: round(value, 4) for name, value in final.items() if name != "score"}
            with table.open("a", newline="") as file:
                writer = csv.DictWriter(file, ["arm", "seed", *numbers])
                if not rows:
                    writer.writeheader()
                writer.writerow({"arm": arm, "seed": seed, **numbers})


if __name__ == "__main__":
    main()
