"""Command lines and files of every kind: each is taken, or refused in one sentence with exit code 1 or 2."""

from __future__ import annotations

import csv
import importlib
import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from sna_rl.cli import main
from sna_rl.config import RunConfig, dump_yaml
from sna_rl.training.train import train

COMMAND = str(Path(sys.executable).with_name("sna-rl"))
RUN = "logs/Pendulum-v1/sac-cp-r2/seed-0"
SECONDS = 30
SPARE_BYTES = 3 * 2**30
Lines = SearchStrategy[tuple[str, list[str], str]]


class Reached(BaseException):
    """The command line was taken: what comes next is the work itself."""


class TooLong(BaseException):
    """Reading a command line took more processor time than that of a short run."""


def stop(*args: Any, **kwargs: Any) -> Any:
    """Stands in for the work."""
    raise Reached


def first_unit(pool: Any, units: Iterator[Any]) -> Any:
    """Stands in for a pool: the first unit is made, none is run."""
    next(units, None)
    raise Reached


WORK = {
    "sna_rl.agents.fused.algorithm.FusedAlgorithm.choose_update": lambda agent, n_timesteps: "eager",
    "sna_rl.training.train.Training.learn": stop,
    "sna_rl.training.evaluate.run_episodes": stop,
    "sna_rl.training.video.record": stop,
    "sna_rl.training.export.export_onnx": stop,
    "sna_rl.training.diagnose.source.roll_out": stop,
    "sna_rl.training.diagnose.source.diagnose": stop,
    "sna_rl.training.studies.workers.LocalPool.run": first_unit,
    "sna_rl.training.studies.ray_pool.RayPool.__init__": stop,
    "sna_rl.training.studies.results.analyse": stop,
    "sna_rl.training.demo.demo": stop,
    "tensorboard.program.TensorBoard.launch": stop,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, documents: dict[str, Any]) -> Path:
    """A folder with what command lines name: a run, its copy to spoil, a zip, a study, a tuning study."""
    folder = tmp_path_factory.mktemp("world")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module("tensorboard.program")
    config = RunConfig.from_dict(documents["run"]).replace(
        folder=str(folder / "logs"),
        n_timesteps=60,
        eval_freq=30,
        eval_episodes=1,
        learning_starts=20,
        buffer_size=100,
    )
    train(config.replace(update="reference", batch_size=8), progress=False)
    shutil.copytree(folder / RUN, folder / "mutated-run")
    shutil.copy(folder / RUN / "Pendulum-v1.zip", folder / "model.zip")
    study = {"name": "study", "algo": "sac", "env": "Pendulum-v1", "rank": 2, "seeds": [0], "n_timesteps": 60}
    for name in ("study", "mutated-study"):
        shutil.copytree(folder / RUN, folder / name / "runs" / "Pendulum-v1" / "sac-cp-r2" / "seed-0")
        (folder / name / "study.yml").write_text(dump_yaml(study))
        (folder / name / "command.txt").write_text("sna-rl compare\n")
    (folder / "study.yml").write_text(dump_yaml(study))
    (folder / "good.yml").write_text(dump_yaml(documents["entry"]))
    (folder / "space.yml").write_text(dump_yaml(documents["space"]))
    return folder


def plant(world: Path, text: str) -> None:
    """Write the mutated file wherever a command line may meet it."""
    for name in ("mutated.yml", "mutated-run/config.yml", "mutated-study/study.yml"):
        (world / name).write_bytes(text.encode("utf-8", "surrogatepass"))


@contextmanager
def bounded() -> Iterator[None]:
    """Limit memory and processor time, so that a value that asks for too much fails here alone."""
    unlimited = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + SPARE_BYTES, unlimited[1]))

    def late(number: int, frame: FrameType | None) -> None:
        raise TooLong

    former = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)
        resource.setrlimit(resource.RLIMIT_AS, unlimited)


def assert_sentence(code: int, err: str) -> None:
    """The exit code is one of three, and a failure ends in one sentence."""
    assert code in (0, 1, 2), err
    assert "Traceback" not in err
    assert "sna-rl: unexpected" not in err
    last = err.rstrip("\n").rpartition("\n")[2]
    assert code == 0 or last.startswith("sna-rl: "), err


def read_only(world: Path, words: list[str], text: str) -> str:
    """Run a command line up to the work; what came of it."""
    plant(world, text)
    err = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        chdir(world),
        redirect_stdout(io.StringIO()),
        redirect_stderr(err),
    ):
        for name, stand_in in WORK.items():
            patch.setattr(name, stand_in)
        try:
            with bounded():
                code = main(words)
        except Reached:
            return "taken"
    assert_sentence(code, err.getvalue())
    return f"exit code {code}"


def record(kind: str, seen: Counter[tuple[str, str]]) -> None:
    """Add what came of the command lines to the CSV file that SNA_RL_FUZZ names."""
    if name := os.environ.get("SNA_RL_FUZZ"):
        is_new = not Path(name).exists()
        with open(name, "a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow(["kind", "verb", "outcome", "command_lines"])
            writer.writerows([kind, *key, count] for key, count in sorted(seen.items()))


def fuzz(lines: Lines, world: Path, n_examples: int, part: int = 0) -> None:
    """Try so many command lines in this process; each part draws others."""
    seen: Counter[tuple[str, str]] = Counter()

    @seed(part)
    @settings(max_examples=n_examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(lines)
    def try_one(line: tuple[str, list[str], str]) -> None:
        verb, words, text = line
        seen[verb, read_only(world, words, text)] += 1

    try_one()
    record("in one process", seen)


def test_two_hundred_command_lines_are_taken_or_refused_in_one_sentence(lines: Lines, world: Path) -> None:
    fuzz(lines, world, 200)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 11))
def test_five_thousand_command_lines_are_taken_or_refused_in_one_sentence(
    part: int, lines: Lines, world: Path
) -> None:
    fuzz(lines, world, 500, part)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 6))
def test_fifty_real_commands_end_in_one_sentence(part: int, lines: Lines, world: Path) -> None:
    seen: Counter[tuple[str, str]] = Counter()

    @seed(part)
    @settings(
        max_examples=10, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(lines)
    def try_one(line: tuple[str, list[str], str]) -> None:
        verb, words, text = line
        plant(world, text)
        words += ["-n", "20"] if verb in ("train", "tune", "compare") else []
        process = subprocess.Popen(
            [COMMAND, *words],
            cwd=world,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        resource.prlimit(process.pid, resource.RLIMIT_AS, (8 * SPARE_BYTES, 8 * SPARE_BYTES))
        outcome = ""
        try:
            _, err = process.communicate(timeout=2 * SECONDS)
        except subprocess.TimeoutExpired:  # it was taken, and works
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=2 * SECONDS)
            outcome = "taken, then ended by Ctrl-C with "
        code = process.returncode
        assert_sentence(0 if outcome and code in (130, -signal.SIGINT) else code, err)
        seen[verb, f"{outcome}exit code {code}"] += 1

    try_one()
    record("real commands", seen)
