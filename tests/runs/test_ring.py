from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sna_rl.errors import SnaError
from sna_rl.runs import ring as module
from sna_rl.runs.ring import RingLog, remove_unused


@given(
    capacity=st.integers(1, 20),
    saves=st.lists(st.integers(0, 20), min_size=1, max_size=12),
    chunk=st.integers(1, 8),
)
def test_the_files_hold_the_ring_however_it_wraps(
    capacity: int, saves: list[int], chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = RingLog(tmp_path_factory.mktemp("ring"), capacity)
    rows = np.full((capacity, 2), -1)
    position = total = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_ROWS", chunk)
        patch.setattr(os, "fsync", lambda descriptor: None)
        for count in saves:
            start, count = position, min(count, capacity)
            for _ in range(count):
                rows[position] = total
                total += 1
                position = (position + 1) % capacity
            log.append(total, {"rows": rows}, start, count)
    loaded = np.full((capacity, 2), -1)
    RingLog.from_plain(log.folder, capacity, log.plain()).load({"rows": loaded})
    np.testing.assert_array_equal(loaded, rows)


def test_only_new_rows_are_written(tmp_path: Path) -> None:
    log = RingLog(tmp_path, 1000)
    rows = {"a": np.zeros((1000, 8), np.float32)}
    first, second = log.append(900, rows, 0, 900), log.append(910, rows, 900, 10)
    assert 900 * 32 < first < 900 * 32 + 200
    assert 10 * 32 < second < 10 * 32 + 200


def test_overwritten_files_are_forgotten(tmp_path: Path) -> None:
    log = RingLog(tmp_path, 10)
    rows = {"a": np.zeros(10)}
    for step in range(0, 60, 5):
        log.append(step, rows, step % 10, 5)
    assert len(log.segments) == 2
    remove_unused(tmp_path, {segment.file for segment in log.segments})
    assert sorted(path.name for path in tmp_path.iterdir()) == [s.file for s in log.segments]


def test_tensors_are_rows_too(tmp_path: Path) -> None:
    log = RingLog(tmp_path, 4)
    log.append(4, {"a": torch.arange(4.0)}, 0, 4)
    loaded = torch.zeros(4)
    log.load({"a": loaded})
    assert loaded.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log = RingLog(tmp_path, 10)
    log.append(5, {"a": np.zeros(10)}, 0, 5)
    before = log.plain()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        log.append(9, {"a": np.zeros(10)}, 5, 4)
    assert log.plain() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_an_altered_or_missing_file_is_named(tmp_path: Path) -> None:
    log = RingLog(tmp_path, 10)
    log.append(5, {"a": np.zeros(10)}, 0, 5)
    log.append(9, {"a": np.zeros(10)}, 5, 4)
    assert log.damaged() is None
    path = tmp_path / log.segments[1].file
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"\x01")
    assert log.damaged() == path.name
    path.unlink()
    assert log.damaged() == path.name


@pytest.mark.parametrize(
    "entry",
    [
        {"file": "../../etc/passwd.safetensors", "digest": "", "start": 0, "rows": 1},
        {"file": "/etc/passwd", "digest": "", "start": 0, "rows": 1},
        {"file": "a.safetensors", "digest": "", "start": -1, "rows": 1},
        {"file": "a.safetensors", "digest": "", "start": 0, "rows": 11},
        {"file": "a.safetensors", "digest": "", "start": "0", "rows": 1},
        {"file": "a.safetensors"},
        {"file": 3, "digest": "", "start": 0, "rows": 1},
    ],
)
def test_a_list_that_leaves_the_ring_or_the_folder_is_refused(
    entry: dict[str, object], tmp_path: Path
) -> None:
    with pytest.raises(SnaError, match="a saved replay buffer lists"):
        RingLog.from_plain(tmp_path, 10, [entry])


def test_rows_of_another_shape_are_refused(tmp_path: Path) -> None:
    log = RingLog(tmp_path, 10)
    log.append(5, {"a": np.zeros((10, 3))}, 0, 5)
    with pytest.raises(SnaError, match=r"rows of shape \(3,\), the replay buffer now has \(4,\)"):
        log.load({"a": np.zeros((10, 4))})
    with pytest.raises(SnaError, match="of another kind"):
        log.load({"b": np.zeros((10, 3))})
