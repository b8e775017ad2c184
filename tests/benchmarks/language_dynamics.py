"""Lorenz-96: {separable, MLP} × {deterministic, distributional} at equal parameters, beside simple forecasts.

Run it as `python tests/benchmarks/language_dynamics.py`. Rows that stand in table.csv are not computed again.
"""

from __future__ import annotations

import argparse
import csv
import shlex
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from sna_rl.language.forecast import HEADS, ForecastConfig, Forecaster, equal_parameters
from sna_rl.language.forecast_scores import Climate
from sna_rl.language.rollout import Climatology, LinearGaussian, Predictor, score_forecasts, score_long
from sna_rl.language.systems import trajectories
from sna_rl.language.tasks import ForecastTask
from sna_rl.runs import write_json
from sna_rl.runs.fit_config import FitConfig
from sna_rl.runs.versions import versions

FOLDER = Path(__file__).parents[2] / "results" / "language" / "dynamics"
SEPARABLE = ForecastConfig(40, "separable", width=64, n_layers=1, n_context=2, rank=32)
BATCH, LEARNING_RATE, NOISE = 128, 3e-3, 0.05
STEPS = {"separable": 4000, "mlp": 4000, "convolution": 1000}


@dataclass(frozen=True)
class Row:
    """One model of one seed; scores as in `sna_rl.language.rollout`."""

    model: str
    head: str
    seed: int
    n_parameters: int
    n_steps: int
    cpu_seconds: float
    crps: float
    crps_last: float
    rmse_last: float
    spread_error: float
    spectrum_error: float
    n_diverged: float
    n_rollouts: float


def trained(
    trunk: str, head: str, train: torch.Tensor, test: torch.Tensor, seed: int
) -> tuple[Forecaster, float]:
    """A model after its steps, and the processor seconds they took."""
    size = sum(p.numel() for p in Forecaster(replace(SEPARABLE, head=head)).parameters())
    config = replace(SEPARABLE, trunk=trunk, head=head)
    if trunk != "separable":
        config = equal_parameters(replace(config, n_layers=3), size)
    torch.manual_seed(seed)
    model = Forecaster(config)
    fit = FitConfig(n_steps=STEPS[trunk], seed=seed)
    task = ForecastTask(model, train, test, fit, BATCH, NOISE)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    began = time.process_time()
    for step in range(fit.n_steps):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * fit.lr_scale(step)
        loss, _ = task.loss(task.batch(step))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), fit.clip)
        optimizer.step()
    return model.eval(), time.process_time() - began


def measured(name: str, head: str, seed: int, long_steps: int) -> Row:
    """One row of the table; the data are of the seed too."""
    train = trajectories("lorenz96", 32, 1000, seed=seed)
    test = trajectories("lorenz96", 8, 150, seed=10_000 + seed)
    climate = Climate(train)
    predictor: Predictor
    seconds, n_steps, size = 0.0, 0, 0
    if name in STEPS:
        predictor, seconds = trained(name, head, train, test, seed)
        n_steps, size = STEPS[name], sum(p.numel() for p in predictor.parameters())
    else:
        predictor = LinearGaussian(train) if name == "linear-Gaussian" else Climatology(train)
    scores = score_forecasts(predictor, test, climate, seed=seed)
    long = score_long(predictor, trajectories("lorenz96", 4, 1000, seed=20_000 + seed), climate,
                      n_steps=long_steps, seed=seed)  # fmt: skip
    return Row(
        name,
        head,
        seed,
        size,
        n_steps,
        round(seconds, 1),
        **{k: round(v, 5) for k, v in (scores | long).items()},
    )


def draw(rows: list[dict[str, str]], file: Path) -> None:
    """CRPS, spread over error and spectrum error of every seed."""
    names = list(dict.fromkeys((row["model"], row["head"]) for row in rows))
    labels = [f"{model}\n{head}" for model, head in names]
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.5), layout="constrained")
    wanted = {"crps": "CRPS, mean of 10 steps (deviations)", "spread_error": "spread / error at step 10",
              "spectrum_error": "spectrum error of long roll-outs (decades)"}  # fmt: skip
    for axis, (column, title) in zip(axes, wanted.items(), strict=True):
        for place, name in enumerate(names):
            values = [float(row[column]) for row in rows if (row["model"], row["head"]) == name]
            axis.plot([place] * len(values), values, "o", color="#2a6f97", alpha=0.7)
            if np.isfinite(values).any():
                axis.plot(place, np.nanmean(values), "_", color="#c1121f", markersize=22)
        axis.set_xticks(range(len(names)), labels, rotation=60, fontsize=8)
        axis.set_title(title, fontsize=10)
        axis.set_ylim(bottom=0.0)
        axis.grid(alpha=0.3)
    axes[1].axhspan(0.8, 1.2, color="#2a6f97", alpha=0.12)
    figure.suptitle("Lorenz-96, a dot a seed, the line their mean")
    figure.savefig(file, dpi=110)


def main() -> None:
    """Fill the table and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--long-steps", type=int, default=10_000)
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "command").write_text(shlex.join(["python", *sys.argv]) + "\n")
    write_json(given.output / "versions.json", versions())
    table = given.output / "table.csv"
    columns = list(Row.__dataclass_fields__)
    if not table.exists():
        table.write_text(",".join(columns) + "\n")
    trained_cells = [(name, head) for head in reversed(HEADS) for name in ("separable", "mlp")]
    simple = [("linear-Gaussian", "distributional"), ("climatology", "distributional")]
    slow = [("convolution", head) for head in reversed(HEADS)]
    for cells in (trained_cells + simple, slow):
        for name, head, seed in [(*cell, seed) for seed in range(given.seeds) for cell in cells]:
            with table.open() as file:
                done = {(row["model"], row["head"], int(row["seed"])) for row in csv.DictReader(file)}
            if (name, head, seed) not in done:
                row = measured(name, head, seed, given.long_steps)
                with table.open("a", newline="") as file:
                    csv.DictWriter(file, columns).writerow(asdict(row))
    with table.open() as file:
        draw(list(csv.DictReader(file)), given.output / "scores.png")


if __name__ == "__main__":
    main()
