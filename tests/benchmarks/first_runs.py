"""Train every agent family once on real tasks and tabulate what each learned.

Run it as `python tests/benchmarks/first_runs.py`. One seed is an impression, not evidence.
Finished rows are never run again, so a killed study continues.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

SEED = 100
CHEETAH = "--env HalfCheetah-v5 -n 100000 --eval-freq 10000 --eval-episodes 5"
LANDER = "--env LunarLander-v3 -n 100000 --eval-freq 10000 --eval-episodes 20"
CARTPOLE = "--env CartPole-v1 -n 50000 --eval-freq 5000 --eval-episodes 20"
OPTIONS = "-params policy_kwargs:dict"
ROWS = {
    "sac cp linear, scaled": f"--algo sac --critic cp {CHEETAH} {OPTIONS}(factor='linear')",
    "sac cp linear, paper": f"--algo sac --critic cp {CHEETAH} {OPTIONS}(factor='linear',init='paper')",
    "sac cp mlp, LayerNorm": f"--algo sac --critic cp {CHEETAH} {OPTIONS}(factor='mlp',layer_norm=True)",
    "sac cp mlp": f"--algo sac --critic cp {CHEETAH} {OPTIONS}(factor='mlp',layer_norm=False)",
    "sac mlp": f"--algo sac --critic mlp {CHEETAH}",
    "sac mlp, LayerNorm": f"--algo sac --critic mlp {CHEETAH} {OPTIONS}(layer_norm=True)",
    "sac mlp-matched": f"--algo sac --critic mlp-matched {CHEETAH}",
    "td3 cp mlp, LayerNorm": f"--algo td3 --critic cp {CHEETAH}",
    "dqn cp, CartPole-v1": f"--algo dqn --critic cp {CARTPOLE}",
    "dqn cp, LunarLander-v3": f"--algo dqn --critic cp {LANDER}",
}


METRICS = (
    "separable/effective_rank",
    "separable/energy_rank_99",
    "separable/interaction_share",
    "time/metrics_share",
)


def folder_of(logs: Path, row: str) -> Path:
    """Folder of logs that belongs to one row alone."""
    return logs / row.replace(", ", "_").replace(" ", "-")


def command_of(logs: Path, row: str) -> list[str]:
    """The command line that trains one row."""
    return ["sna-rl", "train", *ROWS[row].split(), "--seed", str(SEED), "-f", str(folder_of(logs, row))]


def finished(logs: Path, row: str) -> Path | None:
    """The finished run of a row, if there is one."""
    return next((file.parent for file in folder_of(logs, row).rglob("summary.json")), None)


def train(logs: Path, row: str) -> None:
    """Train one row on one thread, unless it is finished."""
    if finished(logs, row):
        return
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    folder_of(logs, row).mkdir(parents=True, exist_ok=True)
    with (folder_of(logs, row) / "output.txt").open("w") as output:
        subprocess.run(
            command_of(logs, row), env=environment, stdout=output, stderr=subprocess.STDOUT, check=False
        )


def last_metrics(run: Path) -> dict[str, float | str]:
    """Last value of each of `METRICS` that a run logged, by the metric's own name."""
    (file,) = run.glob("events.out.tfevents.*")
    events = EventAccumulator(str(file))
    events.Reload()
    logged = events.Tags()["scalars"]
    return {
        tag.split("/")[1]: round(events.Scalars(tag)[-1].value, 4) if tag in logged else "" for tag in METRICS
    }


def tabulate(logs: Path, out: Path) -> None:
    """Write table.csv, versions.json and curves.png from the finished rows."""
    out.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    lines: list[dict[str, object]] = []
    for row in ROWS:
        run = finished(logs, row)
        if run is None:
            lines.append(
                {"row": row, "command": shlex.join(command_of(Path("logs"), row)), "state": "not run"}
            )
            continue
        summary = json.loads((run / "summary.json").read_text())
        with np.load(run / "evaluations.npz") as evaluations:
            steps, returns = evaluations["timesteps"], evaluations["results"].mean(axis=1)
        at = {f"{step // 1000}k": round(float(value), 1) for step, value in zip(steps, returns, strict=True)}
        lines.append(
            {
                "row": row,
                "critic_parameters": summary["critic_parameters"],
                **{point: at.get(point, "") for point in ("20k", "40k", "50k", "60k", "80k", "100k")},
                "steps_per_second": round(summary["steps_per_second"], 1),
                "cpu_seconds": round(summary["cpu_seconds"]),
                **last_metrics(run),
                "update": summary["update"],
                "commit": json.loads((run / "versions.json").read_text())["commit"],
                "command": shlex.join(command_of(Path("logs"), row)),
                "state": "finished",
            }
        )
        (out / "versions.json").write_text((run / "versions.json").read_text())
        if "HalfCheetah" in ROWS[row]:
            axes.plot(
                steps, returns, label=row, linestyle="--" if " mlp" in row.replace("cp mlp", "") else "-"
            )
    axes.set(
        xlabel="environment steps",
        ylabel="return, mean of 5 evaluation episodes",
        title=f"HalfCheetah-v5, seed {SEED}",
    )
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", fontsize="small")
    figure.savefig(out / "curves.png", dpi=120)
    with (out / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, max(lines, key=len).keys(), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def main() -> None:
    """Train what is missing, two runs at a time by default, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=Path, default=Path("logs/first_runs"))
    parser.add_argument("--out", type=Path, default=Path("results/first_runs"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    arguments = parser.parse_args()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(lambda row: train(arguments.logs, row), arguments.rows))
    tabulate(arguments.logs, arguments.out)


if __name__ == "__main__":
    main()
