"""Runs killed with SIGKILL and continued end exactly as a run that never was interrupted."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from sna_rl.cli import main
from sna_rl.runs import RunFolder

pytestmark = pytest.mark.unhooked

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["sna_rl.training.resume"])


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
def test_four_kills_change_nothing(
    task: list[str], tmp_path: Path, assert_equal_runs: Callable[[RunFolder, RunFolder], None]
) -> None:
    assert main(words(task, 4, 600, tmp_path / "whole")) == 0
    line = words(task, 4, 600, tmp_path / "killed")
    kills = kill_and_finish(line, tmp_path / "killed", [0.3, None, 0.6, 0.4], random.Random(0))
    assert len(kills) == 4
    assert kills[1].in_save
    assert_equal_runs(run_of(tmp_path / "whole"), run_of(tmp_path / "killed"))
