"""The same training loops on one CUDA card: sna_rl with its update as a CUDA graph beside Stable-Baselines3.

Run it as `python -m tests.benchmarks.throughput_cuda`; it is made for under 8 minutes. First the fused
updates must equal Stable-Baselines3's on the card, and compiled ones must be replayed from recordings. Then
every arm is a process that waits while others train, and they take turns; ratios of steps a second are
taken within a round, of wall time, since the card works beside the processor. Figures go to
results/throughput/cuda/.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sna_rl.agents import ALGORITHMS
from sna_rl.runs.versions import versions
from tests.benchmarks.throughput import ARMS, ROOT, Worker, ratio, speeds, take_turns

TESTS = ["tests/agents/fused/test_capture.py", "tests/agents/fused/test_equality.py"]
REFERENCES = {"sac": "Stable-Baselines3 SAC", "td3": "Stable-Baselines3 TD3", "dqn": "Stable-Baselines3 DQN"}
CHOSEN = (
    *REFERENCES.values(),
    "SAC mlp",
    "SAC cp, basic form",
    "SAC cp, two layers",
    "SAC cp, two layers, bf16",
    "SAC cp, 8 target actions",
    "TD3 cp, two layers",
    "DQN mlp",
)


def check() -> str:
    """Run the equality tests on the card and see that a compiled update is replayed; the tests' last line."""
    command = [sys.executable, "-m", "pytest", "-q", *TESTS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    last = done.stdout.strip().splitlines()[-1]
    if done.returncode:
        sys.exit(f"the fused updates do not equal Stable-Baselines3's on this card: {last}")
    agent: Any = ALGORITHMS["sac"]("SNAPolicy", "Pendulum-v1", update="compiled", learning_starts=100)
    agent.learn(110)
    if not agent._fused.captures:
        sys.exit("the compiled update was not recorded as a CUDA graph")
    return last


def measure(n_rounds: int, n_steps: int, errors: Path) -> dict[str, Any]:
    """Starts and rounds of every arm."""
    workers = {name: Worker(ARMS[name], Path(sys.executable), None, errors) for name in CHOSEN}
    figures: dict[str, Any] = {
        name: {"start": worker.read(), "rounds": []} for name, worker in workers.items()
    }
    take_turns(workers, figures, n_rounds, n_steps)
    for worker in workers.values():
        worker.close()
    return figures


def tabulate(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """One line an arm: steps/s and the ratio to Stable-Baselines3 on the same card."""
    rows = []
    for name, found in figures.items():
        reference = figures[REFERENCES[ARMS[name]["algo"]]]
        rows.append(
            {
                "arm": name,
                "steps_per_second": round(float(np.median(speeds(found))), 1),
                "ratio": ratio(found, reference, "seconds"),
                "critic_parameters": found["start"]["parameters"],
            }
        )
    return rows


def main() -> None:
    """Check, measure, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "results" / "throughput" / "cuda")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA card here, so nothing is measured")
    tests = check()
    arguments.out.mkdir(parents=True, exist_ok=True)
    figures = measure(arguments.rounds, arguments.steps, arguments.out / "errors.txt")
    rows = tabulate(figures)
    with (arguments.out / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    told = {"card": torch.cuda.get_device_name(), "tests": tests, "versions": versions(), "arms": figures}
    (arguments.out / "cuda.json").write_text(json.dumps(told, indent=1))
    for row in rows:
        print(*row.values(), sep="\t")


if __name__ == "__main__":
    main()
