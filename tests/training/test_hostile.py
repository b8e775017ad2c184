"""Files that a stranger may have written: none runs code, each gets one sentence."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sna_rl.cli import main
from sna_rl.config import RunConfig
from sna_rl.runs import RunFolder
from sna_rl.runs.ring import digest
from sna_rl.training.train import train

Write = Callable[[Path, Path], None]


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def pickled(path: Path, mark: Path) -> None:
    path.write_bytes(pickle.dumps(Trap(mark)))


def torch_pickled(path: Path, mark: Path) -> None:
    torch.save(Trap(mark), path)


def npy_pickled(path: Path, mark: Path) -> None:
    with open(path, "wb") as file:
        np.save(file, np.array([Trap(mark)], dtype=object), allow_pickle=True)


def npz_pickled(path: Path, mark: Path) -> None:
    trap = np.array([Trap(mark)], dtype=object)
    with open(path, "wb") as file:
        np.savez(file, timesteps=trap, results=trap, ep_lengths=trap)


def npz_bomb(path: Path, mark: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (2**36, 5)}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("timesteps", "results", "ep_lengths"):
            archive.writestr(f"{name}.npy", header.getvalue() + bytes(2**22))


def yaml_object(path: Path, mark: Path) -> None:
    path.write_text(f'algo: sac\nenv: !!python/object/apply:os.mkdir ["{mark}"]\n')


def yaml_import(path: Path, mark: Path) -> None:
    path.write_text(f"algo: sac\nenv: Pendulum-v1\nlearning_rate: __import__('os').mkdir('{mark}')\n")


def yaml_eval(path: Path, mark: Path) -> None:
    path.write_text(
        f"algo: sac\nenv: Pendulum-v1\npolicy_kwargs: \"dict(net_arch=[__import__('os').mkdir('{mark}')])\"\n"
    )


def yaml_module(path: Path, mark: Path) -> None:
    path.write_text("algo: sac\nenv: antigravity:Pendulum-v1\ngym_packages: [antigravity]\n")


def yaml_wrapper(path: Path, mark: Path) -> None:
    path.write_text("algo: sac\nenv: Pendulum-v1\nenv_wrapper: subprocess.Popen\n")


def yaml_callback(path: Path, mark: Path) -> None:
    path.write_text(f"algo: sac\nenv: Pendulum-v1\ncallback: [{{os.mkdir: {{path: '{mark}'}}}}]\n")


def yaml_laughs(path: Path, mark: Path) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    path.write_text("\n".join([*lines, "algo: sac", "env: Pendulum-v1"]))


def yaml_loop(path: Path, mark: Path) -> None:
    path.write_text("algo: sac\nenv: Pendulum-v1\nenv_kwargs: &a {b: *a}\n")


def deep(path: Path, mark: Path) -> None:
    path.write_text("[" * 100_000)


def link_to_zeros(path: Path, mark: Path) -> None:
    path.symlink_to("/dev/zero")


def link_outside(path: Path, mark: Path) -> None:
    path.symlink_to("/etc/passwd")


def pipe(path: Path, mark: Path) -> None:
    os.mkfifo(path)


def truncated(path: Path, mark: Path) -> None:
    path.write_bytes(b"PK\x03\x04half")


def huge_header(path: Path, mark: Path) -> None:
    path.write_bytes((2**62).to_bytes(8, "little") + b'{"a":1}')


def sparse(path: Path, mark: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(2**40)


def garbage(path: Path, mark: Path) -> None:
    path.write_bytes(bytes(range(256)) * 16)


TENSORS: list[Write] = [pickled, torch_pickled, npy_pickled, truncated, huge_header, sparse, garbage]
STREAMS: list[Write] = [link_to_zeros, pipe]
YAMLS: list[Write] = [
    pickled,
    yaml_object,
    yaml_import,
    yaml_eval,
    yaml_module,
    yaml_wrapper,
    yaml_callback,
    yaml_laughs,
    yaml_loop,
    deep,
    sparse,
    link_outside,
]
ARRAYS: list[Write] = [pickled, npz_pickled, npz_bomb, truncated, garbage]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with checkpoints; its folder has the depth of a real one."""
    small = {"policy_kwargs": {"net_arch": [8], "width": 8}, "learning_starts": 20, "batch_size": 8}
    given = {"folder": str(tmp_path_factory.mktemp("logs")), "rank": 2, "n_timesteps": 60, "save_freq": 30}
    config = RunConfig("sac", "Pendulum-v1", hyperparams=small)
    result = train(
        config.replace(**given, eval_freq=30, eval_episodes=1, normalize=True, train_freq=4), progress=False
    )
    return Path(result.folder)


@pytest.fixture
def run(template: Path, tmp_path: Path) -> RunFolder:
    """A copy to spoil."""
    path = tmp_path / "logs" / "Pendulum-v1" / "sac-cp-r2" / "seed-0"
    shutil.copytree(template, path)
    return RunFolder(path, "Pendulum-v1")


def plant(write: Write, path: Path, mark: Path) -> None:
    path.unlink(missing_ok=True)
    write(path, mark)


def refused(words: list[str], mark: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command line that must fail with one sentence and run nothing."""
    code = main(words)
    err = capsys.readouterr().err
    assert not mark.exists(), "the file ran code"
    assert code in (1, 2), err
    assert err.startswith("sna-rl: ")
    assert err.count("\n") == 1, err
    assert "unexpected" not in err, err
    return err


@pytest.mark.parametrize("write", TENSORS + STREAMS)
@pytest.mark.parametrize("best", [False, True], ids=["last", "best"])
def test_saved_agents(
    write: Write, best: bool, run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(write, run.best_model_tensors if best else run.model_tensors, tmp_path / "mark")
    flags = ["--load-best"] if best else []
    refused(["evaluate", str(run.path), "-n", "1", *flags], tmp_path / "mark", capsys)


@pytest.mark.parametrize("verb", [["evaluate", "-n", "1"], ["train", "-n", "90", "-i"]])
@pytest.mark.parametrize("write", YAMLS + STREAMS)
def test_configurations(
    write: Write, verb: list[str], run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(write, run.config_yml, tmp_path / "mark")
    refused([*verb, str(run.path)], tmp_path / "mark", capsys)


@pytest.mark.parametrize("write", YAMLS + STREAMS)
def test_configuration_files_by_flag(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(write, tmp_path / "mine.yml", tmp_path / "mark")
    words = ["train", "-conf", str(tmp_path / "mine.yml"), "-n", "10", "-f", str(tmp_path / "logs")]
    refused(words, tmp_path / "mark", capsys)
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("write", TENSORS + STREAMS + [deep])
@pytest.mark.parametrize("name", ["state.json", "state.safetensors", "checksums.json"])
def test_checkpoints(
    write: Write, name: str, run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for checkpoint in run.checkpoints.glob("step-*"):
        plant(write, checkpoint / name, tmp_path / "mark")
    refused(["evaluate", str(run.path), "-n", "1", "--load-last-checkpoint"], tmp_path / "mark", capsys)


@pytest.mark.parametrize("write", TENSORS)
@pytest.mark.parametrize("name", ["state.json", "state.safetensors"])
def test_checkpoints_whose_checksums_were_forged(
    write: Write, name: str, run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if write is sparse:
        pytest.skip("its checksum would take an hour")
    for checkpoint in run.checkpoints.glob("step-*"):
        plant(write, checkpoint / name, tmp_path / "mark")
        sums = {each: digest(checkpoint / each) for each in ("state.json", "state.safetensors")}
        (checkpoint / "checksums.json").write_text(json.dumps(sums))
    (run.path / "summary.json").unlink()
    refused(["evaluate", str(run.path), "-n", "1", "--load-last-checkpoint"], tmp_path / "mark", capsys)


@pytest.mark.parametrize("write", TENSORS + STREAMS)
def test_replay_buffers(
    write: Write, run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (run.checkpoints / "replay").iterdir():
        plant(write, file, tmp_path / "mark")
    assert main(["train", "-i", str(run.path), "-n", "90", "--no-progress"]) == 1
    err = capsys.readouterr().err
    assert not (tmp_path / "mark").exists()
    assert "is missing or altered" in err
    assert "Traceback" not in err


def test_a_checkpoint_names_no_file_outside(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for checkpoint in run.checkpoints.glob("step-*"):
        state = json.loads((checkpoint / "state.json").read_text())
        state["rows"]["segments"][0]["file"] = "../../../config.safetensors"
        (checkpoint / "state.json").write_text(json.dumps(state))
        sums = {each: digest(checkpoint / each) for each in ("state.json", "state.safetensors")}
        (checkpoint / "checksums.json").write_text(json.dumps(sums))
    assert main(["train", "-i", str(run.path), "-n", "90", "--no-progress"]) == 1
    assert "which is no file of its rows" in capsys.readouterr().err


@pytest.mark.parametrize("write", ARRAYS + STREAMS)
def test_evaluations(
    write: Write, run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(write, run.evaluations_npz, tmp_path / "mark")
    refused(["report", str(tmp_path / "logs"), "-o", str(tmp_path / "report")], tmp_path / "mark", capsys)


@pytest.mark.parametrize("write", [pickled, garbage, sparse, *STREAMS])
@pytest.mark.parametrize("name", ["0.monitor.csv", "args.yml"])
def test_runs_of_other_tools(
    write: Write, name: str, run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "zoo" / "sac" / "Pendulum-v1_1"
    (folder / "Pendulum-v1").mkdir(parents=True)
    if name == "args.yml":
        shutil.copy(run.evaluations_npz, folder)
        plant(write, folder / "Pendulum-v1" / name, tmp_path / "mark")
    else:
        plant(write, folder / name, tmp_path / "mark")
    words = ["report", str(tmp_path / "zoo"), "-o", str(tmp_path / "report")]
    if name == "args.yml" and write in (pickled, garbage):  # a seed is looked for in it as text
        assert main(words) == 0
        assert not (tmp_path / "mark").exists()
    else:
        refused(words, tmp_path / "mark", capsys)


@pytest.mark.parametrize("write", [*YAMLS, *STREAMS])
def test_studies(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(write, tmp_path / "study.yml", tmp_path / "mark")
    refused(["compare", str(tmp_path / "study.yml"), "-f", str(tmp_path)], tmp_path / "mark", capsys)


@pytest.mark.parametrize("write", [pickled, garbage, deep, sparse, *STREAMS])
def test_tuning_journals(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(write, tmp_path / "study.log", tmp_path / "mark")
    words = ["tune", "--algo", "sac", "--env", "Pendulum-v1", "--n-trials", "1", "-n", "10"]
    words += ["--storage", str(tmp_path / "study.log"), "-f", str(tmp_path / "logs")]
    refused(words, tmp_path / "mark", capsys)


@pytest.mark.parametrize("write", [pickled, garbage])
def test_tuning_databases(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(write, tmp_path / "study.db", tmp_path / "mark")
    words = ["tune", "--algo", "sac", "--env", "Pendulum-v1", "--n-trials", "1", "-n", "10"]
    words += ["--storage", f"sqlite:///{tmp_path / 'study.db'}", "-f", str(tmp_path / "logs")]
    refused(words, tmp_path / "mark", capsys)


def test_a_configuration_is_no_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(
        f"import os\nos.mkdir({str(tmp_path / 'mark')!r})\nhyperparams = {{}}\n"
    )
    refused(["train", "-conf", str(tmp_path / "mine.py")], tmp_path / "mark", capsys)


@pytest.mark.parametrize("write", [pickled, torch_pickled, npz_pickled, truncated, garbage, *STREAMS])
def test_zips_from_elsewhere(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(write, tmp_path / "model.zip", tmp_path / "mark")
    words = ["evaluate", str(tmp_path / "model.zip"), "--env", "Pendulum-v1", "-n", "1"]
    refused(words, tmp_path / "mark", capsys)


def test_a_zip_is_opened_with_trust_alone_and_tells_what_it_holds(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(run.model_zip, tmp_path / "model.zip")
    words = ["evaluate", str(tmp_path / "model.zip"), "--env", "Pendulum-v1", "-n", "1"]
    assert "policy_class" in refused(words, tmp_path / "mark", capsys)
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
def test_zips_that_try_more(
    files: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = zip_with(tmp_path / "model.zip", files)
    refused(["evaluate", str(path), "--env", "Pendulum-v1", "-n", "1", "--trust"], tmp_path / "mark", capsys)
    assert not (tmp_path.parent.parent / "escaped").exists()
    assert not Path("/tmp/escaped").exists()


@pytest.mark.parametrize("name", ["vecnormalize.pkl", "best_vecnormalize.pkl", "Pendulum-v1.zip"])
def test_what_is_written_for_others_is_never_read(name: str, run: RunFolder, tmp_path: Path) -> None:
    plant(pickled, run.path / name, tmp_path / "mark")
    assert main(["evaluate", str(run.path), "-n", "1"]) == 0
    assert main(["train", "-i", str(run.path), "-n", "90", "--no-progress"]) == 0
    assert not (tmp_path / "mark").exists()
