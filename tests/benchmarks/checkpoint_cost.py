"""What saving costs: its share of a run's time, and seconds and bytes of a save as the replay buffer grows.

    python tests/benchmarks/checkpoint_cost.py

The share is that of all saves but the first, in the time between the ends of the first and the last, so
that compiling and warm-up do not flatter it. For growth, a million transitions are filled with invented
episodes of 1,000 steps, and each measured save comes 10,000 transitions after the one before. Bytes are those
that the process handed to the system (`wchar` of /proc/self/io). The figures go to
results/reliability/checkpoints/.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sna_rl.agents.state import buffer_rows
from sna_rl.config import RunConfig
from sna_rl.runs import versions, write_json
from sna_rl.runs.checkpoints import Checkpoints
from sna_rl.training.build import build
from sna_rl.training.checkpoint import BufferLog, save_checkpoint
from sna_rl.training.environments import make_vec_env
from sna_rl.training.saving import SaveCheckpoints
from sna_rl.training.train import train
from sna_rl.zoo_configs import resolve

ENV = "HalfCheetah-v5"
SAVE_FREQ, EPISODE, CAPACITY = 10_000, 1_000, 1_000_000
SIZES = (10_000, 100_000, 300_000, CAPACITY, CAPACITY + CAPACITY // 2)
ARMS: dict[str, dict[str, Any]] = {
    "SAC cp, two layers": {"critic": "cp", "rank": 32},
    "SAC cp, basic form": {"critic": "cp", "rank": 32, "policy_kwargs": {"factor": "linear"}},
}
FIELDS = (
    "measurement",
    "transitions",
    "saves",
    "seconds",
    "megabytes_written",
    "megabytes_of_buffer",
    "share_of_time",
)


def written() -> int:
    """Bytes that this process has written so far."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["wchar"])


def share_of_time(config: RunConfig) -> dict[str, Any]:
    """Train with saves every 10,000 steps; what they took."""
    moments: list[tuple[float, float]] = []
    n_bytes: list[int] = []
    save = SaveCheckpoints.save

    def timed(self: SaveCheckpoints) -> bool:
        start, before = time.perf_counter(), written()
        saved = save(self)
        moments.append((start, time.perf_counter()))
        n_bytes.append(written() - before)
        assert saved
        return saved

    SaveCheckpoints.save = timed  # type: ignore[method-assign]
    try:
        train(config, progress=False)
    finally:
        SaveCheckpoints.save = save  # type: ignore[method-assign]
    seconds = sum(end - start for start, end in moments[1:])
    return {
        "transitions": config.n_timesteps,
        "saves": len(moments) - 1,
        "seconds": seconds / (len(moments) - 1),
        "megabytes_written": np.mean(n_bytes[1:]) / 1e6,
        "share_of_time": seconds / (moments[-1][1] - moments[0][1]),
    }


def growth(config: RunConfig, folder: Path) -> Iterator[dict[str, Any]]:
    """Saves at growing sizes of the replay buffer, each 10,000 transitions after the one before."""
    env = make_vec_env(config)
    model = build(config, env)
    model._setup_learn(1)
    checkpoints = Checkpoints(folder)
    log = BufferLog(checkpoints, model)
    buffer: Any = model.replay_buffer
    generator = np.random.default_rng(0)
    pool = generator.normal(size=(EPISODE + 1, 1, *buffer.obs_shape)).astype(np.float32)
    actions = generator.uniform(-1, 1, (EPISODE, 1, buffer.action_dim)).astype(np.float32)
    for size in SIZES:
        for wanted in (size - SAVE_FREQ, size):
            for count in range(model.num_timesteps, wanted):
                step = count % EPISODE
                end = step == EPISODE - 1
                infos = [{"TimeLimit.truncated": end}]
                buffer.add(pool[step], pool[step + 1], actions[step], np.ones(1), np.array([end]), infos)
            model.num_timesteps = wanted
            start, before = time.perf_counter(), written()
            save_checkpoint(model, log, checkpoints)
            seconds, n_bytes = time.perf_counter() - start, written() - before
        yield {
            "transitions": size,
            "saves": 1,
            "seconds": seconds,
            "megabytes_written": n_bytes / 1e6,
            "megabytes_of_buffer": sum(rows.nbytes for rows in buffer_rows(buffer).values()) / 1e6,
        }
    env.close()


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("results/reliability/checkpoints"))
    parser.add_argument("-n", "--n-timesteps", type=int, default=4 * SAVE_FREQ)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        flags = {"n_timesteps": arguments.n_timesteps, "save_freq": SAVE_FREQ, "eval_freq": -1, "seed": 0}
        for name, changes in ARMS.items():
            config = resolve("sac", ENV, flags | {"folder": folder}).replace(**changes)
            rows.append({"measurement": f"{name}: share of training", **share_of_time(config)})
            print(json.dumps(rows[-1]), flush=True)
        config = resolve("sac", ENV, {"seed": 0, "folder": folder}).replace(buffer_size=CAPACITY)
        for row in growth(config, Path(folder, "growth")):
            rows.append({"measurement": "growth of the buffer", **row})
            print(json.dumps(rows[-1]), flush=True)
    print(f"resident memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    arguments.output.mkdir(parents=True, exist_ok=True)
    with (arguments.output / "table.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
            )
    (arguments.output / "command").write_text(shlex.join(["python", *sys.argv]) + "\n")
    write_json(arguments.output / "versions.json", versions())


if __name__ == "__main__":
    main()
