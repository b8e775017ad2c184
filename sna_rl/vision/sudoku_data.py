"""Boards of a run: generated, read from files, and kept in the run folder."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from sna_rl.errors import UsageError
from sna_rl.vision.bases import same_base
from sna_rl.vision.board_files import read_bases, read_boards, write_boards
from sna_rl.vision.boards import Boards, make_splits, splits_of
from sna_rl.vision.settings import TaskConfig


class Splits(NamedTuple):
    """Boards learned from, those that choose the best weights, and those that count."""

    train: Boards
    valid: Boards
    test: Boards


def make_boards(task: TaskConfig, seed: int) -> Splits:
    """Boards of a new run.

    Args:
        task: `data` is "" (generated), a folder of train.csv, valid.csv and test.csv, or one CSV file, which
            is shared out; `bases` is "" or a file of puzzles that boards are generated from.
        seed: of generating and of sharing out.

    Raises:
        UsageError: if a file holds too few boards, or a puzzle without one solution alone.
        SnaError: if a file can't be read.
    """
    sizes, givens = (task.n_train, task.n_valid, task.n_test), (task.min_givens, task.max_givens)
    if task.bases:
        bases = read_bases(Path(task.bases))
        try:
            return Splits(*splits_of(bases, sizes, givens, seed))
        except UsageError as error:
            raise UsageError(f"{task.bases!r}: {error}") from error
    if not task.data:
        return Splits(*make_splits(sizes, task.n_bases, givens, seed))
    path = Path(task.data)
    return read_splits(path, checked=True) if path.is_dir() else _shared_out(task, seed)


def whence(task: TaskConfig) -> str:
    """Where a run's boards or images come from, as part of a sentence.

    Args:
        task: its data.

    Example:
        >>> whence(TaskConfig())
        'our own, generated, no published set'
    """
    if task.data:
        return f"from {task.data!r}"
    bases = f" from the bases in {task.bases!r}" if task.bases else ""
    return f"our own, generated{bases}, no published set"


def boards_to_score(path: Path) -> Splits:
    """Boards that a trained model is asked, whatever it was trained on.

    Args:
        path: a folder of train.csv, valid.csv and test.csv, or one CSV file, all of whose boards count.

    Raises:
        SnaError: if a file can't be read.
        UsageError: if a puzzle has not one solution alone.
    """
    if path.is_dir():
        return read_splits(path, checked=True)
    boards = read_boards(path, checked=True)
    return Splits(boards, boards, boards)


def read_splits(folder: Path, *, checked: bool = False) -> Splits:
    """Boards that `write_splits` wrote, or a user.

    Args:
        folder: with train.csv, valid.csv and test.csv.
        checked: see that every puzzle has one solution alone.

    Raises:
        SnaError: if one is missing or damaged.
        UsageError: if a line is no puzzle with its only solution.
    """
    return Splits(*(read_boards(folder / f"{name}.csv", checked=checked) for name in Splits._fields))


def write_splits(folder: Path, splits: Splits) -> None:
    """Write train.csv, valid.csv and test.csv.

    Args:
        folder: made where it is missing.
        splits: the boards.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, boards in splits._asdict().items():
        write_boards(folder / f"{name}.csv", boards)


def _shared_out(task: TaskConfig, seed: int) -> Splits:
    """Boards of one file, those of one base in one split; what is more than the split holds is left out."""
    boards = read_boards(Path(task.data), checked=True)
    groups = same_base(boards.grids.tolist(), random.Random(seed))
    n_bases, held_out = len(groups), []
    for size in (task.n_valid, task.n_test):
        rows: list[int] = []
        while groups and len(rows) < size:
            rows += groups.pop()
        held_out.append(rows[:size])
    rest = [row for group in groups for row in group]
    if not rest:
        raise UsageError(
            f"{task.data!r} holds {len(boards)} boards of {n_bases} bases: too few for "
            f"n_valid {task.n_valid}, n_test {task.n_test} and others to learn from, no base in two of them"
        )
    shares = (rest[: task.n_train or None], *held_out)
    return Splits(*(Boards(boards.puzzles[rows], boards.grids[rows]) for rows in shares))
