from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sna_rl.runs.checkpoints import Checkpoint, Checkpoints
from sna_rl.runs.ring import RingLog

Save = Callable[..., Checkpoint]


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints", keep=2)


@pytest.fixture
def save(checkpoints: Checkpoints) -> Save:
    ring = RingLog(checkpoints.folder / "replay", 100)

    def at(step: int, **kwargs: Any) -> Checkpoint:
        ring.append(step, {"a": np.full(100, step)}, step % 100, 10)
        return checkpoints.save(step, {"value": np.array([step])}, ring, **kwargs)

    return at


def steps(checkpoints: Checkpoints) -> list[int]:
    return [checkpoint.step for checkpoint in checkpoints.all()]


def test_the_newest_and_the_best_are_kept(checkpoints: Checkpoints, save: Save) -> None:
    for step in range(10, 60, 10):
        save(step, best=step == 20)
    assert steps(checkpoints) == [20, 40, 50]
    newest = checkpoints.newest(pytest.fail)
    assert newest is not None
    assert newest.read()["value"].tolist() == [50]
    save(60, best=True)
    assert steps(checkpoints) == [50, 60]


def test_rows_are_kept_as_long_as_a_checkpoint_needs_them(checkpoints: Checkpoints, save: Save) -> None:
    for step in range(0, 300, 10):
        save(step)
    names = sorted(path.name[:9] for path in (checkpoints.folder / "replay").iterdir())
    assert names == [f"{step:09d}" for step in range(190, 300, 10)]


@pytest.mark.parametrize("name", ["state.json", "state.safetensors", "checksums.json"])
@pytest.mark.parametrize("harm", ["cut", "flip", "remove", "link"])
def test_a_damaged_newest_is_passed_over_with_a_line(
    name: str, harm: str, checkpoints: Checkpoints, save: Save, tmp_path: Path
) -> None:
    save(10)
    file = save(20).path / name
    content = file.read_bytes()
    file.unlink()
    if harm == "cut":
        file.write_bytes(content[:-7])
    elif harm == "flip":
        file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    elif harm == "link":
        (tmp_path / "elsewhere").write_bytes(content[:-7])
        file.symlink_to(tmp_path / "elsewhere")
    lines: list[str] = []
    found = checkpoints.newest(lines.append)
    assert found is not None
    assert found.step == 10
    assert len(lines) == 1
    assert lines[0].startswith("checkpoint step-000000020 is damaged (")


def test_damaged_rows_damage_the_checkpoints_that_need_them(checkpoints: Checkpoints, save: Save) -> None:
    save(10)
    save(20)
    (checkpoints.folder / "replay" / "000000020-000000020.safetensors").write_bytes(b"")
    lines: list[str] = []
    found = checkpoints.newest(lines.append)
    assert found is not None
    assert found.step == 10
    assert "000000020-000000020.safetensors is missing or altered" in lines[0]


def test_a_save_that_is_interrupted_leaves_nothing(
    checkpoints: Checkpoints, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(10)

    def killed(source: str, target: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        save(20)
    assert steps(checkpoints) == [10]
    assert checkpoints.newest(pytest.fail) == Checkpoint(checkpoints.folder / "step-000000010")


def test_going_back_forgets_what_came_after(checkpoints: Checkpoints, save: Save) -> None:
    first = save(10, best=True)
    save(20)
    save(30)
    leftover = checkpoints.folder / ".step-000000040.x.tmp"
    leftover.mkdir()
    again = Checkpoints(checkpoints.folder, keep=2)
    again.go_back_to(first)
    assert steps(again) == [10]
    assert not leftover.exists()
    assert [path.name for path in (checkpoints.folder / "replay").iterdir()] == [
        "000000010-000000010.safetensors"
    ]
    ring = first.ring(first.read())
    for step in (20, 30, 40):
        ring.append(step, {"a": np.full(100, step)}, step, 10)
        again.save(step, {}, ring)
    assert steps(again) == [10, 30, 40], "the best of the earlier process is still kept"
    again.go_back_to(None)
    assert steps(again) == []
    assert list((checkpoints.folder / "replay").iterdir()) == []


def test_there_may_be_none(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "nowhere").newest(pytest.fail) is None
