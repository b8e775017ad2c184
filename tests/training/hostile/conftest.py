"""Files that a stranger may have written, by kind: none may run code, each gets one sentence."""

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
from sna_rl.training.train import train


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


def npz_backwards(path: Path, mark: Path) -> None:
    with open(path, "wb") as file:
        np.savez(
            file, timesteps=np.array([30.0, np.nan, 10.0]), results=np.zeros((3, 1)), ep_lengths=np.zeros(3)
        )


def deep_object(path: Path, mark: Path) -> None:
    path.write_text('{"a":' * 100_000)


def json_list(path: Path, mark: Path) -> None:
    path.write_text('[1, {"singular_values": "x"}]')


def json_texts(path: Path, mark: Path) -> None:
    keys = ("n_timesteps", "cpu_seconds", "singular_values", "reason", "sac-cp-r2", "extra")
    path.write_text(json.dumps(dict.fromkeys(keys, f"__import__('os').mkdir('{mark}')")))


WRITERS: dict[str, Callable[[Path, Path], None]] = {
    write.__name__: write
    for write in (
        pickled,
        torch_pickled,
        npy_pickled,
        npz_pickled,
        npz_bomb,
        npz_backwards,
        yaml_object,
        yaml_import,
        yaml_eval,
        yaml_module,
        yaml_wrapper,
        yaml_callback,
        yaml_laughs,
        yaml_loop,
        deep,
        deep_object,
        json_list,
        json_texts,
        link_to_zeros,
        link_outside,
        pipe,
        truncated,
        huge_header,
        sparse,
        garbage,
    )
}


@pytest.fixture(scope="session")
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


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Stands if a planted file ran code."""
    return tmp_path / "mark"


@pytest.fixture
def plant(mark: Path) -> Callable[[str, Path], None]:
    """Writes a hostile file of a kind in place of what stands there."""

    def write(kind: str, path: Path) -> None:
        path.unlink(missing_ok=True)
        WRITERS[kind](path, mark)

    return write


@pytest.fixture
def refused(mark: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[list[str]], str]:
    """Runs a command line that must fail with one sentence and run nothing; gives the sentence."""

    def run(words: list[str]) -> str:
        code = main(words)
        err = capsys.readouterr().err
        assert not mark.exists(), "the file ran code"
        assert code in (1, 2), err
        assert err.startswith("sna-rl: ")
        assert err.count("\n") == 1, err
        assert "sna-rl: unexpected" not in err, err
        return err

    return run
