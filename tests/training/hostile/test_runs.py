"""Files that a stranger may have written: none runs code, each gets one sentence."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sna_rl.cli import main
from sna_rl.runs import RunFolder
from sna_rl.runs.ring import digest

Plant = Callable[[str, Path], None]
Refused = Callable[[list[str]], str]

TENSORS = ["pickled", "torch_pickled", "npy_pickled", "truncated", "huge_header", "sparse", "garbage"]
STREAMS = ["link_to_zeros", "pipe"]
YAMLS = ["pickled", "yaml_object", "yaml_import", "yaml_eval", "yaml_module", "yaml_wrapper", "yaml_callback"]
YAMLS += ["yaml_laughs", "yaml_loop", "deep", "sparse", "link_outside"]


@pytest.mark.parametrize("kind", TENSORS + STREAMS)
@pytest.mark.parametrize("best", [False, True], ids=["last", "best"])
def test_saved_agents(
    kind: str, plant: Plant, best: bool, run: RunFolder, tmp_path: Path, refused: Refused
) -> None:
    plant(kind, run.best_model_tensors if best else run.model_tensors)
    flags = ["--load-best"] if best else []
    refused(["evaluate", str(run.path), "-n", "1", *flags])


@pytest.mark.parametrize("verb", [["evaluate", "-n", "1"], ["train", "-n", "90", "-i"]])
@pytest.mark.parametrize("kind", YAMLS + STREAMS)
def test_configurations(
    kind: str, plant: Plant, verb: list[str], run: RunFolder, tmp_path: Path, refused: Refused
) -> None:
    plant(kind, run.config_yml)
    refused([*verb, str(run.path)])


@pytest.mark.parametrize("kind", YAMLS + STREAMS)
def test_configuration_files_by_flag(kind: str, plant: Plant, tmp_path: Path, refused: Refused) -> None:
    plant(kind, tmp_path / "mine.yml")
    words = ["train", "-conf", str(tmp_path / "mine.yml"), "-n", "10", "-f", str(tmp_path / "logs")]
    refused(words)
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("kind", TENSORS + STREAMS + ["deep"])
@pytest.mark.parametrize("name", ["state.json", "state.safetensors", "checksums.json"])
def test_checkpoints(
    kind: str, plant: Plant, name: str, run: RunFolder, tmp_path: Path, refused: Refused
) -> None:
    for checkpoint in run.checkpoints.glob("step-*"):
        plant(kind, checkpoint / name)
    refused(["evaluate", str(run.path), "-n", "1", "--load-last-checkpoint"])


@pytest.mark.parametrize("kind", TENSORS)
@pytest.mark.parametrize("name", ["state.json", "state.safetensors"])
def test_checkpoints_whose_checksums_were_forged(
    kind: str, plant: Plant, name: str, run: RunFolder, tmp_path: Path, refused: Refused
) -> None:
    if kind == "sparse":
        pytest.skip("its checksum would take an hour")
    for checkpoint in run.checkpoints.glob("step-*"):
        plant(kind, checkpoint / name)
        sums = {each: digest(checkpoint / each) for each in ("state.json", "state.safetensors")}
        (checkpoint / "checksums.json").write_text(json.dumps(sums))
    (run.path / "summary.json").unlink()
    refused(["evaluate", str(run.path), "-n", "1", "--load-last-checkpoint"])


@pytest.mark.parametrize("kind", TENSORS + STREAMS)
def test_replay_buffers(
    kind: str, plant: Plant, run: RunFolder, mark: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (run.checkpoints / "replay").iterdir():
        plant(kind, file)
    assert main(["train", "-i", str(run.path), "-n", "90", "--no-progress"]) == 1
    err = capsys.readouterr().err
    assert not mark.exists()
    assert "is missing or altered" in err
    assert "Traceback" not in err


def forge(run: RunFolder, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what every checkpoint holds, checksums and all."""
    for checkpoint in run.checkpoints.glob("step-*"):
        state = json.loads((checkpoint / "state.json").read_text())
        change(state)
        (checkpoint / "state.json").write_text(json.dumps(state))
        sums = {each: digest(checkpoint / each) for each in ("state.json", "state.safetensors")}
        (checkpoint / "checksums.json").write_text(json.dumps(sums))


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": [1]},
        {"extra": {"wall_seconds": "soon"}},
        {"extra": {"logs": [1]}},
        {"rows": []},
        {"rows": {"capacity": "many", "segments": []}},
        {"rows": {"capacity": 10**15, "segments": []}},
        {"model": {}},
        {"model": []},
        {"buffer": [1]},
        {"callbacks": 5},
    ],
    ids=str,
)
def test_checkpoints_that_hold_something_else(
    changes: dict[str, Any], run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    forge(run, lambda state: state.update(changes))
    assert main(["train", "-i", str(run.path), "-n", "90", "--no-progress"]) in (1, 2)
    err = capsys.readouterr().err.splitlines()
    assert err[-1].startswith("sna-rl: ")
    assert "unexpected" not in err[-1]


def test_a_checkpoint_names_no_file_outside(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    outside = "../../../config.safetensors"
    forge(run, lambda state: state["rows"]["segments"][0].update(file=outside))
    assert main(["train", "-i", str(run.path), "-n", "90", "--no-progress"]) == 1
    assert "which is no file of its rows" in capsys.readouterr().err


def test_a_configuration_is_no_python(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "mine.py").write_text(
        f"import os\nos.mkdir({str(tmp_path / 'mark')!r})\nhyperparams = {{}}\n"
    )
    refused(["train", "-conf", str(tmp_path / "mine.py")])


@pytest.mark.parametrize(
    "kind", ["pickled", "torch_pickled", "npz_pickled", "truncated", "garbage", *STREAMS]
)
def test_zips_from_elsewhere(kind: str, plant: Plant, tmp_path: Path, refused: Refused) -> None:
    plant(kind, tmp_path / "model.zip")
    words = ["evaluate", str(tmp_path / "model.zip"), "--env", "Pendulum-v1", "-n", "1"]
    refused(words)


def test_a_zip_is_opened_with_trust_alone_and_tells_what_it_holds(
    run: RunFolder, tmp_path: Path, refused: Refused
) -> None:
    shutil.copy(run.model_zip, tmp_path / "model.zip")
    words = ["evaluate", str(tmp_path / "model.zip"), "--env", "Pendulum-v1", "-n", "1"]
    assert "policy_class" in refused(words)
    assert main([*words, "--trust", "-o", str(tmp_path / "out.json")]) == 0


def zip_with(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "files",
    [
        {"../../escaped": b"x", "data": b"{}"},
        {"/tmp/escaped": b"x", "data": b"{}"},
        {"data": b"[" * 100_000},
        {"data": b"\x80\x04."},
        {"data": b"{}", "policy.pth": bytes(2**28)},
        {"other": b""},
    ],
    ids=["slip", "absolute", "deep", "pickle", "bomb", "foreign"],
)
def test_zips_that_try_more(files: dict[str, bytes], tmp_path: Path, refused: Refused) -> None:
    path = zip_with(tmp_path / "model.zip", files)
    refused(["evaluate", str(path), "--env", "Pendulum-v1", "-n", "1", "--trust"])
    assert not (tmp_path.parent.parent / "escaped").exists()
    assert not Path("/tmp/escaped").exists()


@pytest.mark.parametrize("name", ["vecnormalize.pkl", "best_vecnormalize.pkl", "Pendulum-v1.zip"])
def test_what_is_written_for_others_is_never_read(
    name: str, run: RunFolder, plant: Plant, mark: Path
) -> None:
    plant("pickled", run.path / name)
    assert main(["evaluate", str(run.path), "-n", "1"]) == 0
    assert main(["train", "-i", str(run.path), "-n", "90", "--no-progress"]) == 0
    assert not mark.exists()
