from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from sna_rl.runs import atomic_folder, atomic_write, remove_leftovers, write_json


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write_half() -> None:
        with atomic_write(path, "w") as file:
            file.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert path.read_text() == "old"
    with atomic_write(path, "w") as file:
        file.write("new")
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "a.json"
    write_json(path, {"step": 1})
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_json(path, {"step": 2})
    assert json.loads(path.read_text()) == {"step": 1}
    assert len(list(tmp_path.iterdir())) == 1


def test_files_get_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with atomic_write(tmp_path / "atomic") as file:
        file.write(b"")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_folder_is_whole_or_absent(tmp_path: Path) -> None:
    target = tmp_path / "save"

    def fill_half() -> None:
        with atomic_folder(target) as folder:
            (folder / "a").write_text("1")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fill_half()
    assert list(tmp_path.iterdir()) == []
    for text in ("1", "2"):
        with atomic_folder(target) as folder:
            (folder / "a").write_text(text)
            assert (target / "a").exists() == (text == "2")
        assert (target / "a").read_text() == text
    assert [entry.name for entry in tmp_path.iterdir()] == ["save"]


def test_leftovers_of_a_killed_write_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".a.json.x1.tmp").write_text("half")
    (tmp_path / ".save.x2.tmp").mkdir()
    (tmp_path / ".save.x2.tmp" / "a").write_text("half")
    (tmp_path / "kept.tmp").write_text("whole")
    remove_leftovers(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept.tmp"]
