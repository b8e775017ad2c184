"""What must be equal between a run that was interrupted and one that never was."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sna_rl.runs import RunFolder
from sna_rl.runs.checkpoints import Checkpoints
from sna_rl.runs.tree import read_arrays

WALL_CLOCK = ("time/", "wall_seconds", "cpu_seconds")


@pytest.fixture(scope="session")
def assert_equal_runs() -> Callable[[RunFolder, RunFolder], None]:
    """Holds every file of two finished runs against each other, the clock aside."""
    return equal_runs


@pytest.fixture(scope="session")
def assert_equal_checkpoints() -> Callable[[RunFolder, RunFolder], None]:
    """Holds the newest checkpoints of two runs against each other."""
    return equal_checkpoints


@pytest.fixture(scope="session")
def read_curve() -> Callable[[Path], dict[str, list[tuple[int, float]]]]:
    """Reads every scalar of a run's event files but those of the clock."""
    return curve


def half_written(folder: Path) -> list[Path]:
    """What an interrupted write left in a run."""
    return [*folder.rglob(".*.tmp")]


def curve(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Every scalar of a run's event files but those of the clock: tag → steps with values."""
    points: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(folder.glob("events.out.tfevents.*")):
        events = EventAccumulator(str(file), size_guidance={"scalars": 0})
        events.Reload()
        for tag in events.Tags()["scalars"]:
            if not tag.startswith(WALL_CLOCK):
                points.setdefault(tag, []).extend((event.step, event.value) for event in events.Scalars(tag))
    # files of one second and one process are named by a counter: file 10 sorts before file 9
    return {tag: sorted(values) for tag, values in points.items()}


def equal_runs(left: RunFolder, right: RunFolder) -> None:
    """Hold every file of two finished runs against each other, the clock aside."""
    for name in (left.model_tensors.name, left.best_model_tensors.name):
        assert_same(read_arrays(left.path / name), read_arrays(right.path / name), name)
    with np.load(left.evaluations_npz) as one, np.load(right.evaluations_npz) as other:
        assert set(one) == set(other)
        for key in one:
            np.testing.assert_array_equal(one[key], other[key], err_msg=key)
    assert episodes(left) == episodes(right)
    curves = curve(left.path), curve(right.path)
    assert curves[0].keys() == curves[1].keys()
    for tag, points in curves[1].items():
        steps = [step for step, _ in points]
        assert len(set(steps)) == len(steps), f"{tag} has a step twice"
        assert points == curves[0][tag], tag
    assert not half_written(right.path)
    equal_checkpoints(left, right)


def episodes(run: RunFolder) -> list[list[tuple[str, str]]]:
    """Return and length of every episode of every environment."""
    found = []
    for file in sorted(run.path.glob("*.monitor.csv")):
        lines = file.read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith("#")
        assert not any(line.startswith(("#", "r,")) for line in lines[2:]), "the header stands once"
        found.append([(row["r"], row["l"]) for row in csv.DictReader(lines[1:])])
    return found


def equal_checkpoints(left: RunFolder, right: RunFolder) -> None:
    """Hold the newest checkpoints against each other: counters, generators, moments, every transition."""
    newest = []
    for run in (left, right):
        checkpoint = Checkpoints(run.checkpoints).newest(lambda line: None)
        assert checkpoint is not None
        state = checkpoint.read()
        ring = checkpoint.ring(state)
        first = read_arrays(ring.folder / ring.segments[0].file)
        rows = {key: np.zeros((ring.capacity, *value.shape[1:]), value.dtype) for key, value in first.items()}
        ring.load(rows)
        del state["extra"], state["rows"]
        newest.append((checkpoint.step, state, rows))
    assert newest[0][0] == newest[1][0]
    assert_same(newest[0][1], newest[1][1], "state")
    assert_same(newest[0][2], newest[1][2], "replay buffer")


def assert_same(left: Any, right: Any, path: str) -> None:
    """Equal to the last bit, times on the clock aside."""
    if isinstance(left, dict):
        assert left.keys() == right.keys(), path
        for key in left:
            if not (key == "t" and "ep_info" in path) and not key.startswith(WALL_CLOCK):
                assert_same(left[key], right[key], f"{path}/{key}")
    elif isinstance(left, list | tuple):
        assert len(left) == len(right), path
        for index, pair in enumerate(zip(left, right, strict=True)):
            assert_same(*pair, f"{path}/{index}")
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype, path
        assert left.tobytes() == right.tobytes(), path
    else:
        assert left == right, f"{path}: {left} != {right}"
