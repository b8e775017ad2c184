"""Runs killed with SIGKILL and continued end exactly as a run that never was interrupted."""

from __future__ import annotations

import csv
import multiprocessing
import random
import time
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sna_rl.cli import main
from sna_rl.runs import RunFolder
from sna_rl.runs.checkpoints import Checkpoints
from sna_rl.runs.tree import read_arrays

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["sna_rl.training.resume"])
WALL_CLOCK = ("time/", "wall_seconds", "cpu_seconds")


@dataclass(frozen=True)
class Kill:
    """One kill: seconds after the process began, and whether a write was under way."""

    seconds: float
    in_save: bool


def start(*words: str) -> ForkServerProcess:
    """Run a command line in a process of its own."""
    process = CONTEXT.Process(target=_run, args=(list(words),))
    process.start()
    return process


def _run(words: list[str]) -> None:
    raise SystemExit(main(words))


def run_of(folder: Path) -> RunFolder:
    """The only run in a log folder."""
    (config,) = folder.glob("*/*/*/config.yml")
    return RunFolder.open(config.parent)


def half_written(folder: Path) -> list[Path]:
    """What an interrupted write left in a run."""
    return [*folder.rglob(".*.tmp")]


def kill(process: ForkServerProcess, run: Path, seconds: float, chance: random.Random | None) -> Kill | None:
    """Kill a process after a time; with `chance`, at the next random moment of a save after that.

    Returns:
        The kill; None if the process ended before.
    """
    began = time.monotonic()
    while process.is_alive():
        late = time.monotonic() - began >= seconds
        if late and (chance is None or (half_written(run / "checkpoints") and chance.random() < 0.3)):
            process.kill()
            process.join()
            return Kill(time.monotonic() - began, bool(half_written(run / "checkpoints")))
        time.sleep(0.0005)
    process.join()
    return None


def curve(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Every scalar of a run's event files but those of the clock: tag → steps with values."""
    points: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(folder.glob("events.out.tfevents.*")):
        events = EventAccumulator(str(file), size_guidance={"scalars": 0})
        events.Reload()
        for tag in events.Tags()["scalars"]:
            if not tag.startswith(WALL_CLOCK):
                points.setdefault(tag, []).extend((event.step, event.value) for event in events.Scalars(tag))
    return points


def assert_equal_runs(left: RunFolder, right: RunFolder) -> None:
    """Hold every file of two finished runs against each other, the clock aside."""
    for name in (left.model_tensors.name, left.best_model_tensors.name):
        assert_same(read_arrays(left.path / name), read_arrays(right.path / name), name)
    with np.load(left.evaluations_npz) as one, np.load(right.evaluations_npz) as other:
        assert set(one) == set(other)
        for key in one:
            np.testing.assert_array_equal(one[key], other[key], err_msg=key)
    assert episodes(left) == episodes(right)
    curves = curve(left.path), curve(right.path)
    assert curves[0].keys() == curves[1].keys()
    for tag, points in curves[1].items():
        steps = [step for step, _ in points]
        assert len(set(steps)) == len(steps), f"{tag} has a step twice"
        assert points == curves[0][tag], tag
    assert not half_written(right.path)
    assert_equal_checkpoints(left, right)


def episodes(run: RunFolder) -> list[list[tuple[str, str]]]:
    """Return and length of every episode of every environment."""
    found = []
    for file in sorted(run.path.glob("*.monitor.csv")):
        lines = file.read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith("#")
        assert not any(line.startswith(("#", "r,")) for line in lines[2:]), "the header stands once"
        found.append([(row["r"], row["l"]) for row in csv.DictReader(lines[1:])])
    return found


def assert_equal_checkpoints(left: RunFolder, right: RunFolder) -> None:
    """Hold the newest checkpoints against each other: counters, generators, moments, every transition."""
    newest = []
    for run in (left, right):
        checkpoint = Checkpoints(run.checkpoints).newest(lambda line: None)
        assert checkpoint is not None
        state = checkpoint.read()
        ring = checkpoint.ring(state)
        first = read_arrays(ring.folder / ring.segments[0].file)
        rows = {key: np.zeros((ring.capacity, *value.shape[1:]), value.dtype) for key, value in first.items()}
        ring.load(rows)
        del state["extra"], state["rows"]
        newest.append((checkpoint.step, state, rows))
    assert newest[0][0] == newest[1][0]
    assert_same(newest[0][1], newest[1][1], "state")
    assert_same(newest[0][2], newest[1][2], "replay buffer")


def assert_same(left: Any, right: Any, path: str) -> None:
    """Equal to the last bit, times on the clock aside."""
    if isinstance(left, dict):
        assert left.keys() == right.keys(), path
        for key in left:
            if not (key == "t" and "ep_info" in path) and not key.startswith(WALL_CLOCK):
                assert_same(left[key], right[key], f"{path}/{key}")
    elif isinstance(left, list | tuple):
        assert len(left) == len(right), path
        for index, pair in enumerate(zip(left, right, strict=True)):
            assert_same(*pair, f"{path}/{index}")
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype, path
        assert left.tobytes() == right.tobytes(), path
    else:
        assert left == right, f"{path}: {left} != {right}"


SMALL = ["policy_kwargs:dict(net_arch=[16], width=16, rank=2)", "batch_size:16", "buffer_size:300"]
HOPPER = ["--algo", "sac", "--env", "Hopper-v5", "-params", *SMALL, "learning_starts:60", "n_steps:3"]
HOPPER = [*HOPPER, "normalize:True", "--update", "eager"]
PENDULUM = [
    "--algo",
    "td3",
    "--env",
    "Pendulum-v1",
    "-params",
    *SMALL,
    "learning_starts:60",
    "--update",
    "eager",
]
CARTPOLE = [
    "--algo",
    "dqn",
    "--env",
    "CartPole-v1",
    "-params",
    *SMALL,
    "learning_starts:60",
    "--update",
    "eager",
]
SAVING = ["--save-freq", "40", "--eval-freq", "150", "--eval-episodes", "1", "--seed", "1", "--no-progress"]


def words(task: list[str], n_envs: int, n_timesteps: int, folder: Path) -> list[str]:
    """A command line that trains."""
    return ["train", *task, *SAVING, "--n-envs", str(n_envs), "-n", str(n_timesteps), "-f", str(folder)]


def kill_and_finish(
    line: list[str], folder: Path, moments: list[float | None], chance: random.Random
) -> list[Kill]:
    """Train with a kill at each moment (None: inside a save), going on after each, to the end."""
    kills = []
    command = line
    for moment in moments:
        process = start(*command)
        while process.is_alive() and not list(folder.glob("*/*/*/config.yml")):
            time.sleep(0.01)
        run = run_of(folder)
        done = kill(process, run.path, 0.0 if moment is None else moment, chance if moment is None else None)
        if done is None:
            break
        kills.append(done)
        command = ["train", "-i", str(run.path), "--no-progress"]
    else:
        process = start(*command)
        process.join()
    assert process.exitcode == 0
    return kills


@pytest.mark.parametrize("task", [HOPPER], ids=["hopper"])
def test_four_kills_change_nothing(task: list[str], tmp_path: Path) -> None:
    assert main(words(task, 4, 600, tmp_path / "whole")) == 0
    line = words(task, 4, 600, tmp_path / "killed")
    kills = kill_and_finish(line, tmp_path / "killed", [0.3, None, 0.6, 0.4], random.Random(0))
    assert len(kills) == 4
    assert kills[1].in_save
    assert_equal_runs(run_of(tmp_path / "whole"), run_of(tmp_path / "killed"))
