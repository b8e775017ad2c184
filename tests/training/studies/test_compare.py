"""Studies run to the end: nothing twice, nothing lost, failures listed, the report written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sna_rl.cli import main
from sna_rl.config import RunConfig
from sna_rl.errors import SnaError, UsageError
from sna_rl.runs.lock import locked
from sna_rl.training.studies.axis import Axis
from sna_rl.training.studies.cell import measure, run_cell
from sna_rl.training.studies.compare import compare
from sna_rl.training.studies.results import report_study
from sna_rl.training.studies.study import Cell, Study
from sna_rl.training.studies.study_folder import StudyFolder, is_finished, read_spectrum
from sna_rl.training.studies.workers import Outcome, Unit

TINY: dict[str, Any] = {
    "name": "tiny",
    "algo": "dqn",
    "env": "CartPole-v1",
    "rank": 2,
    "seeds": 2,
    "n_timesteps": 60,
    "eval_freq": 20,
    "eval_episodes": 1,
    "update": "reference",
    "hyperparams": {
        "learning_starts": 10,
        "batch_size": 8,
        "train_freq": 1,
        "gradient_steps": 1,
        "policy_kwargs": {"net_arch": [8], "width": 8},
    },
}


def fake_cell(config: dict[str, Any], arm: str, root: str, command: str) -> None:
    """What `run_cell` leaves, without training."""
    path = Cell(arm, RunConfig.from_dict(config)).path(Path(root))
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    (path / "config.yml").write_text(RunConfig.from_dict(config).to_yaml())
    steps = np.arange(20, int(config["n_timesteps"]) + 1, 20)
    returns = [[float(step + config["seed"])] for step in steps]
    np.savez(path / "evaluations.npz", timesteps=steps, results=returns, ep_lengths=returns)
    (path / "summary.json").write_text('{"steps_per_second": 50.0, "cpu_seconds": 2.0, "n_timesteps": 100}')


def fake_measure(configs: list[dict[str, Any]]) -> list[dict[str, float]]:
    return [{"seconds": 1800.0, "steps_per_second": 100.0, "flops_per_update": 2e6} for _ in configs]


FAKES: dict[str, Callable[..., Any]] = {"run_cell": fake_cell, "measure": fake_measure}


@dataclass
class InlinePool:
    """Runs units in this process, faked or `real`; `fails` and `stop_after` stand for crashes and kills."""

    slots: int = 1
    real: bool = False
    fails: tuple[str, ...] = ()
    stop_after: int | None = None
    ran: list[str] = field(default_factory=list)

    def run(self, units: Iterator[Unit]) -> Iterator[Outcome]:
        for unit in units:
            if self.stop_after is not None and len(self.ran) == self.stop_after:
                raise KeyboardInterrupt
            self.ran.append(unit.name)
            module, _, function = unit.call.partition(":")
            if unit.name in self.fails:
                yield Outcome(unit, None, "process was ended by SIGKILL", 0.1, died=True)
                continue
            try:
                call = getattr(import_module(module), function) if self.real else FAKES[function]
                value = call(**json.loads(json.dumps(unit.arguments)))
            except SnaError as error:
                yield Outcome(unit, None, str(error), 0.1)
            else:
                yield Outcome(unit, value, None, 0.1)

    def close(self) -> None:
        return


def study(**changes: Any) -> Study:
    return Study.from_dict({**TINY, **changes})


def test_trained_study_ends_in_a_report(tmp_path: Path) -> None:
    lines: list[str] = []
    small = study(seeds=1, matched=False)
    place, n_failed = compare(
        small, tmp_path, InlinePool(real=True), command="the command", say=lines.append, progress=False
    )
    assert n_failed == 0
    assert lines[0].startswith("budget: 2 of 2 cells to run, ")
    for cell in small.cells():
        path = cell.path(place.runs)
        assert (path / "CartPole-v1.zip").is_file()
        assert (path / "command.txt").read_text() == "the command\n"
        assert 0 < len(read_spectrum(path)) <= 2
    page = report_study(place, lines.append).read_text()
    assert "the command" in page
    assert "Rank spectra of the trained critics" in page
    assert "No verdict with fewer than 5 seeds." in page


def test_finished_cells_are_not_run_again(tmp_path: Path) -> None:
    lines: list[str] = []
    pool = InlinePool(slots=2)
    place, n_failed = compare(study(), tmp_path, pool, say=lines.append, progress=False)
    assert (n_failed, len(pool.ran)) == (0, 7)
    assert lines == [
        "budget: 6 of 6 cells to run, 3.00 core-hours, about 1.50 h with 2 jobs "
        "(steps/s: dqn-cp-r2 100, dqn-mlp 100, dqn-mlp-matched-r2 100)"
    ]
    again = InlinePool()
    compare(study(), tmp_path, again, say=lines.append, progress=False)
    assert again.ran == []
    assert len(lines) == 1
    (arm, *_) = place.arms(place.study())
    assert [(run.seed, run.final) for run in arm.runs] == [(0, 40.0), (1, 41.0)]
    assert arm.settings["differs in"] == "baseline"


def test_more_seeds_only_add_cells(tmp_path: Path) -> None:
    compare(study(), tmp_path, InlinePool(), say=lambda line: None, progress=False)
    pool = InlinePool()
    compare(study(seeds=3), tmp_path, pool, say=lambda line: None, progress=False)
    assert sorted(pool.ran) == [
        f"dqn-{arm} on CartPole-v1, seed 2" for arm in ("cp-r2", "mlp", "mlp-matched-r2")
    ]


def test_killed_study_goes_on_and_a_broken_run_begins_anew(tmp_path: Path) -> None:
    with pytest.raises(SnaError, match="the same command goes on"):
        compare(study(), tmp_path, InlinePool(stop_after=3), say=lambda line: None, progress=False)
    place = StudyFolder(tmp_path / "tiny")
    done = [cell for cell in study().cells() if is_finished(cell.path(place.runs))]
    assert len(done) == 2
    broken = study().cells()[2].path(place.runs)
    broken.mkdir(parents=True)
    (broken / "evaluations.npz").write_bytes(b"half")
    pool = InlinePool()
    compare(study(), tmp_path, pool, say=lambda line: None, progress=False)
    assert len(pool.ran) == 4
    assert all(is_finished(cell.path(place.runs)) for cell in study().cells())
    assert sorted(path.name for path in broken.parent.iterdir()) == ["seed-0", "seed-1"]


def test_failed_cell_is_listed_and_stops_no_other(tmp_path: Path) -> None:
    name = "dqn-cp-r2 on CartPole-v1, seed 0"
    place, n_failed = compare(
        study(), tmp_path, InlinePool(fails=(name,)), say=lambda line: None, progress=False
    )
    assert n_failed == 1
    lines: list[str] = []
    report_study(place, lines.append)
    assert len((place.report() / "table.csv").read_text().splitlines()) == 1 + 3 * 2
    told = "failed: dqn-cp-r2 on CartPole-v1, seed 0: process was ended by SIGKILL"
    assert f"note: {told}" in lines
    assert told in (place.report() / "index.html").read_text()
    by_time = report_study(place, lines.append, axis=Axis.TIME)
    assert by_time == place.path / "report-time" / "index.html"
    assert re.search(r"at \d+ CPU seconds", by_time.with_name("report.md").read_text())
    assert "cpu_seconds" in by_time.with_name("curves.csv").read_text().splitlines()[0]
    pool = InlinePool()
    _, n_failed = compare(study(), tmp_path, pool, say=lambda line: None, progress=False)
    assert (n_failed, pool.ran) == (0, [name])
    assert not place.failure(study().cells()[2]).exists()


def test_full_disk_fails_the_cell_and_keeps_earlier_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(study(seeds=1), tmp_path, InlinePool(), say=lambda line: None, progress=False)
    place = StudyFolder(tmp_path / "tiny")
    earlier = {path: path.read_bytes() for path in place.runs.rglob("*.npz")}

    def full(*arguments: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sna_rl.training.train.write_json", full)
    with pytest.raises(OSError, match="No space left"):
        run_cell(study().cells()[-1].config.to_dict(), "dqn-cp-r2", str(place.runs), "")
    assert not is_finished(study().cells()[-1].path(place.runs))
    assert {path: path.read_bytes() for path in earlier} == earlier


def test_finished_runs_of_another_study_are_refused_before_training(tmp_path: Path) -> None:
    compare(study(seeds=1), tmp_path, InlinePool(), say=lambda line: None, progress=False)
    pool = InlinePool()
    with pytest.raises(UsageError, match="was run with n_timesteps 60, and the study now wants 90"):
        compare(study(n_timesteps=90), tmp_path, pool, progress=False)
    assert pool.ran == []


def test_unknown_environment_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'CartPole-v1'"):
        compare(study(env="CartPol-v1"), tmp_path / "logs", InlinePool())
    with pytest.raises(UsageError, match="does not exist"):
        compare(study(existing={"old": str(tmp_path / "absent")}), tmp_path / "logs", InlinePool())
    assert not (tmp_path / "logs").exists()


def test_a_study_runs_in_one_process_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    with (
        locked(tmp_path / "tiny" / "lock", "study 'tiny'"),
        pytest.raises(UsageError, match=f"study 'tiny' is in use by process {os.getpid()}"),
    ):
        compare(study(), tmp_path, InlinePool(), progress=False)


def test_lock_ends_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    program = (
        "import time; from pathlib import Path; from sna_rl.runs.lock import locked\n"
        f"with locked(Path({str(path)!r}), 'study'): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UsageError, match=f"in use by process {holder.pid} on "), locked(path, "study"):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with locked(path, "study"):
        assert path.read_text().startswith(f"process {os.getpid()} on ")


def test_existing_runs_enter_the_report_as_an_arm(tmp_path: Path) -> None:
    old = tmp_path / "zoo" / "dqn" / "CartPole-v1_1"
    old.mkdir(parents=True)
    np.savez(
        old / "evaluations.npz", timesteps=[20, 40, 60], results=[[9.0], [10.0], [11.0]], ep_lengths=[[9]] * 3
    )
    place, _ = compare(
        study(existing={"zoo": str(tmp_path / "zoo")}, seeds=1),
        tmp_path,
        InlinePool(),
        say=print,
        progress=False,
    )
    arm = place.arms(place.study())[-1]
    assert (arm.name, arm.runs[0].final) == ("zoo", 10.0)
    assert str(arm.settings["differs in"]) == f"read from {tmp_path / 'zoo'}"


def test_measured_costs_scale_with_the_budget() -> None:
    cells = study(seeds=1).cells()
    short, long = (cells[0].config.replace(n_timesteps=n, eval_freq=n).to_dict() for n in (1000, 4000))
    wrong = {**short, "env": "Absent-v0"}
    costs = measure([short, long, wrong])
    assert float(costs[0]["seconds"]) < float(costs[1]["seconds"])
    assert float(costs[0]["steps_per_second"]) > 10
    assert "unknown environment 'Absent-v0'" in str(costs[2]["reason"])


def test_flops_of_an_update_are_those_of_its_matrix_products() -> None:
    (cell,) = [each for each in study(seeds=1).cells() if each.arm == "dqn-mlp"]
    (cost,) = measure([cell.config.to_dict()])
    forward = 2 * 8 * (4 * 8 + 8 * 2)
    backward_of_weights, backward_of_inputs = forward, 2 * 8 * (8 * 2)
    assert cost["flops_per_update"] == 2 * forward + backward_of_weights + backward_of_inputs


def test_command_line_takes_axes_as_repeated_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sna_rl.training.studies.pools.make_pool", lambda jobs, ray: InlinePool(jobs))
    flags = "--algo dqn --env CartPole-v1 --rank 2 --rank 3 --no-matched --seeds 1 -n 6e1 --eval-freq 20"
    params = ["-params", "learning_starts:10", "batch_size:8", "policy_kwargs:dict(net_arch=[8], width=8)"]
    words = ["compare", *flags.split(), "--eval-episodes", "1", "-f", str(tmp_path), "--name", "by-flags"]
    assert main([*words, "--no-progress", *params]) == 0
    out = capsys.readouterr().out
    assert "budget: 3 of 3 cells" in out
    assert "No verdict with fewer than 5 seeds. So far dqn-cp-r" in out
    assert (tmp_path / "by-flags" / "report" / "index.html").is_file()
    assert main(["report", "by-flags", "-f", str(tmp_path), "-o", str(tmp_path / "page")]) == 0
    assert (tmp_path / "page" / "report.md").read_text().startswith("# by-flags\n")
    assert main(["report", str(tmp_path / "by-flags" / "runs"), "-o", str(tmp_path / "plain")]) == 0
    capsys.readouterr()
    assert main(["report", "by-flags", "-f", str(tmp_path), "-x", "time"]) == 0
    assert f"report: {tmp_path / 'by-flags' / 'report-time' / 'index.html'}" in capsys.readouterr().out
    assert main(["compare", "--algo", "dqn", "--env", "CartPole-v1", "--seeds", "0"]) == 2
    assert "seeds must be a number of seeds of at least 1" in capsys.readouterr().err
