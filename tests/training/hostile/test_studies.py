"""Hostile files in studies, tuning studies and other tools' runs: `compare`, `report`, `tune`, `diagnose`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from sna_rl.cli import main
from sna_rl.runs import RunFolder
from sna_rl.training.tuning.storage import open_storage

Plant = Callable[[str, Path], None]
Refused = Callable[[list[str]], str]

STREAMS = ["link_to_zeros", "pipe"]
YAMLS = ["pickled", "yaml_object", "yaml_import", "yaml_eval", "yaml_module", "yaml_wrapper", "yaml_callback"]
YAMLS += ["yaml_laughs", "yaml_loop", "deep", "sparse", "link_outside"]
EVALUATIONS = ["pickled", "npz_pickled", "npz_bomb", "npz_backwards", "truncated", "garbage"]


FINISHED = "runs/Pendulum-v1/sac-cp-r2/seed-0"
FAILED = "logs/Pendulum-v1-sac-mlp-0.json"
MEASURED = "measured.json"


@pytest.fixture
def study(run: RunFolder, tmp_path: Path) -> Path:
    """A study's folder with one finished run and one that failed."""
    folder = tmp_path / "study"
    shutil.copytree(run.path, folder / "runs" / "Pendulum-v1" / "sac-cp-r2" / "seed-0")
    (folder / "logs").mkdir()
    (folder / "study.yml").write_text("name: study\nalgo: sac\nenv: Pendulum-v1\nrank: 2\nseeds: 1\n")
    (folder / "command.txt").write_text("sna-rl compare\n")
    (folder / "logs" / "Pendulum-v1-sac-mlp-0.json").write_text('{"reason": "ended by SIGKILL"}')
    return folder


@pytest.mark.parametrize("kind", [*YAMLS, *STREAMS])
def test_study_files(kind: str, plant: Plant, tmp_path: Path, refused: Refused) -> None:
    plant(kind, tmp_path / "study.yml")
    refused(["compare", str(tmp_path / "study.yml"), "-f", str(tmp_path)])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("study.yml", kind) for kind in YAMLS),
        *((f"{FINISHED}/config.yml", kind) for kind in ("pickled", "yaml_object", "yaml_laughs", "sparse")),
        *((FAILED, kind) for kind in ("pickled", "json_list", "sparse")),
        *((MEASURED, kind) for kind in ("json_list", "json_texts")),
        *(
            (f"{FINISHED}/summary.json", kind)
            for kind in ("pickled", "deep_object", "json_list", "json_texts")
        ),
        *((f"{FINISHED}/spectrum.json", kind) for kind in ("pickled", "json_texts")),
        *(("command.txt", kind) for kind in ("sparse", *STREAMS)),
    ],
)
def test_what_a_report_reads(name: str, kind: str, plant: Plant, study: Path, refused: Refused) -> None:
    plant(kind, study / name)
    refused(["report", str(study)])


@pytest.mark.parametrize("kind", [*EVALUATIONS, *STREAMS])
def test_evaluations(kind: str, plant: Plant, run: RunFolder, tmp_path: Path, refused: Refused) -> None:
    plant(kind, run.evaluations_npz)
    refused(["report", str(tmp_path / "logs"), "-o", str(tmp_path / "report")])


@pytest.mark.parametrize("kind", ["pickled", "garbage", "json_list", "deep_object", "sparse", *STREAMS])
@pytest.mark.parametrize("name", ["0.monitor.csv", "events.out.tfevents.1"])
def test_runs_of_other_tools(kind: str, name: str, plant: Plant, tmp_path: Path, refused: Refused) -> None:
    folder = tmp_path / "other" / "Pendulum-v1__sac__1__1"
    folder.mkdir(parents=True)
    plant(kind, folder / name)
    refused(["report", str(tmp_path / "other"), "-o", str(tmp_path / "report")])


@pytest.mark.parametrize("rows", ["1,-5,0", "1,1e999,0", "nan,1,0", "1,2", "\0,1,1", "x,1,1"])
def test_monitors_that_count_wrongly(rows: str, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "runs" / "a").mkdir(parents=True)
    (tmp_path / "runs" / "a" / "0.monitor.csv").write_text(f'#{{"env_id": "A-v0"}}\nt,l,r\n{rows}\n')
    refused(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "report")])


@pytest.mark.parametrize("kind", ["sparse", *STREAMS])
def test_arguments_of_the_zoo(
    kind: str, plant: Plant, run: RunFolder, tmp_path: Path, refused: Refused
) -> None:
    folder = tmp_path / "zoo" / "sac" / "Pendulum-v1_1"
    (folder / "Pendulum-v1").mkdir(parents=True)
    shutil.copy(run.evaluations_npz, folder)
    plant(kind, folder / "Pendulum-v1" / "args.yml")
    refused(["report", str(tmp_path / "zoo"), "-o", str(tmp_path / "report")])


TUNE = ["tune", "--algo", "sac", "--env", "Pendulum-v1", "--n-trials", "1", "-n", "10", "-f"]


@pytest.mark.parametrize("kind", ["pickled", "garbage", "deep", "json_list", "sparse", *STREAMS])
def test_tuning_journals(kind: str, plant: Plant, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "tuned").mkdir()
    plant(kind, tmp_path / "tuned" / "journal.log")
    refused([*TUNE, str(tmp_path / "logs"), "--storage", str(tmp_path / "tuned" / "journal.log")])
    refused(
        ["train", "--study", str(tmp_path / "tuned"), "--storage", str(tmp_path / "tuned" / "journal.log")]
    )


@pytest.mark.parametrize("kind", ["pickled", "garbage"])
def test_tuning_databases(kind: str, plant: Plant, tmp_path: Path, refused: Refused) -> None:
    plant(kind, tmp_path / "study.db")
    refused([*TUNE, str(tmp_path / "logs"), "--storage", f"sqlite:///{tmp_path / 'study.db'}"])


@pytest.mark.parametrize("kind", [*YAMLS, *STREAMS])
def test_search_spaces(kind: str, plant: Plant, tmp_path: Path, refused: Refused) -> None:
    plant(kind, tmp_path / "space.yml")
    refused([*TUNE, str(tmp_path / "logs"), "--search", str(tmp_path / "space.yml")])


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (None, "holds no configuration"),
        ([1], "holds no configuration"),
        ({"algo": "sac"}, "needs the key 'env'"),
        ({"algo": "sac", "env": "antigravity:Pendulum-v1"}, "asks to import 'antigravity'"),
        ({"algo": "sac", "env": "Pendulum-v1", "env_wrapper": "os.system"}, "not registered"),
        ({"algo": "sac", "env": "Pendulum-v1", "gamma": "__import__('os').mkdir('x')"}, "gamma must be"),
    ],
)
def test_trials_of_strangers(config: Any, said: str, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "tuned").mkdir()
    backend = open_storage(None, tmp_path / "tuned").backend
    trial = optuna.create_study(study_name="tuned", storage=backend, direction="maximize").ask()
    trial.set_user_attr("config", config)
    trial.study.tell(trial, 1.0)
    trial.study.set_user_attr("settings", "all")
    assert said in refused(["train", "--study", str(tmp_path / "tuned"), "-f", str(tmp_path / "logs")])
    words = [*TUNE, str(tmp_path), "--study-name", "tuned"]
    assert "not made by sna-rl tune" in refused(words)


@pytest.mark.parametrize("kind", ["pickled", "huge_header", "garbage", *STREAMS])
def test_what_diagnose_reads(kind: str, plant: Plant, run: RunFolder, refused: Refused) -> None:
    plant(kind, run.best_model_tensors)
    refused(["diagnose", str(run.path), "--load-best"])
    refused(["diagnose", str(run.path), "--buffer", "--versus", str(run.best_model_zip)])
    for file in (run.checkpoints / "replay").iterdir():
        plant(kind, file)
    refused(["diagnose", str(run.path), "--buffer"])


@pytest.mark.parametrize("name", ["command.txt", "0.monitor.csv", ".lock", "checkpoints"])
def test_nothing_is_written_through_a_link(
    name: str, run: RunFolder, tmp_path: Path, refused: Refused
) -> None:
    mine, link = tmp_path / "mine", run.path / name
    if link.is_dir():
        shutil.copytree(link, mine)
        shutil.rmtree(link)
    else:
        mine.write_text("mine")
        link.unlink(missing_ok=True)
    link.symlink_to(mine)
    before = {path: path.read_bytes() for path in (mine, *mine.rglob("*")) if path.is_file()}
    assert "is a link" in refused(["train", "-i", str(run.path), "-n", "90", "--no-progress"])
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(("name", "kind"), [("versions.json", "json_list"), ("summary.json", "pickled")])
def test_notes_beside_a_run_are_left_out_where_they_are_none(
    kind: str, name: str, plant: Plant, run: RunFolder, mark: Path
) -> None:
    plant(kind, run.path / name)
    assert main(["train", "-i", str(run.path), "-n", "64", "--no-progress"]) == 0
    assert not mark.exists()
    assert json.loads((run.path / "summary.json").read_text())["n_timesteps"] == 64
