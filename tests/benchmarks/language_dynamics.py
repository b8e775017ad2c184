"""A chaotic system: {separable, MLP} × heads at equal parameters, beside simple forecasts and the truth.

    python tests/benchmarks/language_dynamics.py
    python tests/benchmarks/language_dynamics.py --system kuramoto-sivashinsky --seeds 1

The folder is the system's, under results/language. Rows that stand in table.csv are not computed again, so
that a study which was stopped goes on.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from sna_rl.language.forecast import ForecastConfig, Forecaster, equal_parameters
from sna_rl.language.forecast_scores import Climate
from sna_rl.language.rollout import (
    Climatology,
    LinearGaussian,
    Predictor,
    TrueSystem,
    score_forecasts,
    score_long,
)
from sna_rl.language.systems import SYSTEMS, trajectories
from sna_rl.language.tasks import ForecastTask
from sna_rl.runs import write_json
from sna_rl.runs.fit_config import FitConfig
from sna_rl.runs.rows import Rows
from sna_rl.runs.versions import versions

FOLDER = Path(__file__).parents[2] / "results" / "language"
SEPARABLE = ForecastConfig(40, "separable", width=64, n_layers=1, n_context=2, rank=32)
BATCH, LEARNING_RATE, NOISE = 128, 3e-3, 0.05
STEPS = {"separable": 4000, "mlp": 4000, "convolution": 1000}
SIMPLE = ("linear-Gaussian", "climatology", "true system")
N_ROLLOUTS = 32


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
    crps_next: float | str = ""  # of trained models


@cache
def truth(system: str, long_steps: int, seed: int) -> torch.Tensor:
    """As many true states as a long roll-out has, from other starts than all else."""
    return trajectories(system, N_ROLLOUTS, long_steps, seed=20_000 + seed)


def trained(
    trunk: str, head: str, data: dict[str, torch.Tensor], seed: int, n_steps: int
) -> tuple[ForecastTask, float]:
    """A task with its model after its steps, and the processor seconds they took."""
    separable = replace(SEPARABLE, size=data["train"].shape[-1], head=head)
    config = replace(separable, trunk=trunk)
    if trunk != "separable":
        size = sum(p.numel() for p in Forecaster(separable).parameters())
        config = equal_parameters(replace(config, n_layers=3), size)
    torch.manual_seed(seed)
    model = Forecaster(config)
    fit = FitConfig(n_steps=n_steps, seed=seed)
    task = ForecastTask(model, data["train"], data["test"], fit, BATCH, NOISE)
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
    model.eval()
    return task, time.process_time() - began


def measured(system: str, name: str, head: str, seed: int, n_steps: int, long_steps: int) -> Row:
    """One row of the table; the data are of the seed too."""
    data = {
        "train": trajectories(system, 32, 1000, seed=seed),
        "test": trajectories(system, 8, 150, seed=10_000 + seed),
    }
    climate = Climate(data["train"])
    predictor: Predictor
    after: float | str = ""
    seconds, size = 0.0, 0
    if name in STEPS:
        task, seconds = trained(name, head, data, seed, n_steps)
        predictor, after = task.model, round(task.crps_next(), 5)
        size = sum(p.numel() for p in predictor.parameters())
    elif name == "true system":
        predictor = TrueSystem(system)
    else:
        predictor = (LinearGaussian if name == "linear-Gaussian" else Climatology)(data["train"])
    scores = score_forecasts(predictor, data["test"], climate, seed=seed)
    starts = trajectories(system, N_ROLLOUTS, SEPARABLE.n_context, seed=30_000 + seed)
    long = score_long(
        predictor, starts, climate, n_steps=long_steps, seed=seed, truth=truth(system, long_steps, seed)
    )
    numbers = {key: round(value, 5) for key, value in (scores | long).items()}
    return Row(name, head, seed, size, n_steps, round(seconds, 1), **numbers, crps_next=after)


def draw(rows: list[dict[str, str]], system: str, file: Path) -> None:
    """CRPS, spread over error and spectrum error of every seed."""
    names = list(dict.fromkeys((row["model"], row["head"]) for row in rows))
    labels = [f"{model}, {head}" for model, head in names]
    figure, axes = plt.subplots(1, 3, figsize=(15, 5.2), layout="constrained")
    wanted = {"crps": "CRPS, mean of 10 steps (deviations)", "spread_error": "spread / error at step 10",
              "spectrum_error": "spectrum error of long roll-outs (decades)"}  # fmt: skip
    for axis, (column, title) in zip(axes, wanted.items(), strict=True):
        for place, name in enumerate(names):
            values = [float(row[column]) for row in rows if (row["model"], row["head"]) == name]
            axis.plot([place] * len(values), values, "o", color="#2a6f97", alpha=0.7)
            if np.isfinite(values).any():
                axis.plot(place, np.nanmean(values), "_", color="#c1121f", markersize=22)
        slanted = {"rotation": 60, "ha": "right", "rotation_mode": "anchor", "fontsize": 8}
        axis.set_xticks(range(len(names)), labels, **slanted)
        axis.set_title(title, fontsize=10)
        axis.set_ylim(bottom=0.0)
        axis.grid(alpha=0.3)
    axes[1].axhspan(0.8, 1.2, color="#2a6f97", alpha=0.12)
    figure.suptitle(f"{system}, a dot a seed, the line their mean")
    figure.savefig(file, dpi=110)


def main() -> None:
    """Fill the table and draw it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--system", choices=SYSTEMS, default="lorenz96")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--steps", type=int, help="of every trained model; by default 4,000, convolution 1,000"
    )
    parser.add_argument("--long-steps", type=int, default=10_000)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    ran_on = versions()
    given.output = given.output or FOLDER / given.system
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "command").write_text(shlex.join(["python", *sys.argv]) + "\n")
    write_json(given.output / "versions.json", ran_on)
    table = Rows(given.output / "table.csv", ["model", "head", "seed"])
    heads = ("distributional", "deterministic", "categorical")
    cells = [(name, head) for head in heads for name in ("separable", "mlp")]
    simple = [(name, "distributional" if name != "true system" else "deterministic") for name in SIMPLE]
    slow = [("convolution", head) for head in heads]
    for part in (simple, cells, slow):
        for name, head, seed in [(*cell, seed) for seed in range(given.seeds) for cell in part]:
            if table.find(model=name, head=head, seed=seed) is None:
                n_steps = (given.steps or STEPS[name]) if name in STEPS else 0
                table.add(asdict(measured(given.system, name, head, seed, n_steps, given.long_steps)))
                draw(table.rows, given.system, given.output / "scores.png")


if __name__ == "__main__":
    main()
