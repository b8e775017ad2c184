"""Runs killed with SIGKILL and continued end exactly as a run that never was interrupted."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from sna_rl.cli import main
from sna_rl.runs import RunFolder
from sna_rl.runs.checkpoints import Checkpoints

Equal = Callable[[RunFolder, RunFolder], None]

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


SMALL = ["policy_kwargs:dict(net_arch=[16], width=16, rank=2)", "batch_size:16", "learning_starts:60"]
SMALL = [*SMALL, "buffer_size:300"]
HOPPER = ["--algo", "sac", "--env", "Hopper-v5", "-params", *SMALL, "n_steps:3", "normalize:True"]
PENDULUM = ["--algo", "td3", "--env", "Pendulum-v1", "-params", *SMALL]
CARTPOLE = ["--algo", "dqn", "--env", "CartPole-v1", "-params", *SMALL, "train_freq:1", "gradient_steps:1"]
SAVING = ["--save-freq", "40", "--eval-freq", "150", "--eval-episodes", "1", "--seed", "1", "--no-progress"]


@dataclass(frozen=True)
class Task:
    """A run to kill: its flags, environments, steps and form of update."""

    flags: list[str]
    n_envs: int
    n_timesteps: int
    update: str

    def words(self, folder: Path) -> list[str]:
        """A command line that trains it."""
        sizes = ["--n-envs", str(self.n_envs), "-n", str(self.n_timesteps), "--update", self.update]
        return ["train", *self.flags, *SAVING, *sizes, "-f", str(folder)]


def begin(line: list[str], folder: Path) -> tuple[ForkServerProcess, Path]:
    """Run a command line and wait until its run folder is there."""
    process = start(*line)
    while process.is_alive() and not list(folder.glob("*/*/*/config.yml")):
        time.sleep(0.01)
    return process, run_of(folder).path


def finish(run: Path) -> None:
    """Go on with a run to its end."""
    process = start("train", "-i", str(run), "--no-progress")
    process.join()
    assert process.exitcode == 0


def test_four_kills_change_nothing(tmp_path: Path, assert_equal_runs: Equal) -> None:
    task = Task(HOPPER, 4, 600, "eager")
    assert main(task.words(tmp_path / "whole")) == 0
    chance = random.Random(0)
    line = task.words(tmp_path / "killed")
    kills = []
    for seconds, in_save in ((0.3, False), (0.0, True), (0.6, False), (0.4, False)):
        process, run = begin(line, tmp_path / "killed")
        kills.append(kill(process, run, seconds, chance if in_save else None))
        line = ["train", "-i", str(run), "--no-progress"]
    assert all(kills)
    assert kills[1] is not None
    assert kills[1].in_save
    finish(run)
    assert_equal_runs(run_of(tmp_path / "whole"), run_of(tmp_path / "killed"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "n_kills", "n_in_save"),
    [
        (Task(HOPPER, 1, 1500, "compiled"), 8, 3),
        (Task(HOPPER, 4, 2000, "compiled"), 8, 3),
        (Task(PENDULUM, 1, 1500, "eager"), 7, 2),
        (Task(CARTPOLE, 1, 1500, "eager"), 7, 2),
    ],
    ids=["hopper", "four-hoppers", "pendulum", "cartpole"],
)
def test_random_kills_change_nothing(
    task: Task, n_kills: int, n_in_save: int, tmp_path: Path, assert_equal_runs: Equal
) -> None:
    """Thirty in all; SNA_RL_KILLS names a CSV file that gets a line for each."""
    process, run = begin(task.words(tmp_path / "whole"), tmp_path / "whole")
    began = time.monotonic()
    process.join()
    duration = time.monotonic() - began
    chance = random.Random(task.n_envs + len(task.flags))
    for number in range(n_kills):
        in_save = number < n_in_save
        killed: Kill | None = None
        for attempt in range(10):  # a moment may lie past the end
            folder = tmp_path / f"{number}-{attempt}"
            process, run = begin(task.words(folder), folder)
            seconds = chance.uniform(0.0, duration)
            killed = kill(process, run, 0.7 * seconds if in_save else seconds, chance if in_save else None)
            is_finished = (run / "summary.json").exists()
            if killed is not None and not is_finished and (killed.in_save or not in_save):
                break
        assert killed is not None
        checkpoints = Checkpoints(run / "checkpoints").all()
        finish(run)
        assert_equal_runs(run_of(tmp_path / "whole"), run_of(folder))
        record(task, killed, checkpoints[-1].step if checkpoints else 0)
        shutil.rmtree(folder)


def record(task: Task, killed: Kill, step: int) -> None:
    """Add a line to the CSV file of kills survived, where one is asked for."""
    name = os.environ.get("SNA_RL_KILLS")
    if name:
        is_new = not Path(name).exists()
        with open(name, "a", encoding="utf-8") as file:
            if is_new:
                file.write(
                    "environment,algorithm,environments,update,killed_after_s,inside_a_save,resumed_from\n"
                )
            env, algo = task.flags[3], task.flags[1]
            in_save = "yes" if killed.in_save else "no"
            file.write(f"{env},{algo},{task.n_envs},{task.update},{killed.seconds:.2f},{in_save},{step}\n")


def test_runs_started_together_never_collide(tmp_path: Path) -> None:
    line = Task(CARTPOLE, 1, 150, "eager").words(tmp_path)
    processes = [start(*line) for _ in range(8)]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 8
    folders = sorted(path.name for path in tmp_path.glob("*/*/*"))
    assert folders == ["seed-1", *(f"seed-1-{number}" for number in range(2, 9))]
    contents = [
        {file.name for file in path.iterdir() if "tfevents" not in file.name}
        for path in tmp_path.glob("*/*/*")
    ]
    assert all(content == contents[0] for content in contents)
