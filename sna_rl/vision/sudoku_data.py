"""Boards of a run: generated, read from files, and kept in the run folder."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from sna_rl.errors import UsageError
from sna_rl.vision.boards import Boards, make_splits, read_boards, write_boards
from sna_rl.vision.settings import TaskConfig


class Splits(NamedTuple):
    """Boards learned from, those that choose the best weights, and those that count."""

    train: Boards
    valid: Boards
    test: Boards


def make_boards(task: TaskConfig, seed: int) -> Splits:
    """Boards of a new run.

    Args:
        task: `data` is "" (generated), a folder of train.csv, valid.csv and test.csv, or one CSV file, whose
            rows are shuffled and shared out.
        seed: of generating and of sharing out.

    Raises:
        UsageError: if a file holds too few boards.
        SnaError: if a file can't be read.
    """
    sizes = (task.n_train, task.n_valid, task.n_test)
    if not task.data:
        return Splits(*make_splits(sizes, task.n_bases, (task.min_givens, task.max_givens), seed))
    path = Path(task.data)
    if path.is_dir():
        return read_splits(path)
    boards = read_boards(path)
    held_out = task.n_valid + task.n_test
    if len(boards) <= held_out:
        raise UsageError(
            f"{task.data!r} holds {len(boards)} boards; n_valid and n_test alone ask for {held_out}"
        )
    order = torch.randperm(len(boards), generator=torch.Generator().manual_seed(seed))
    shares = (order[held_out:], order[: task.n_valid], order[task.n_valid : held_out])
    return Splits(*(Boards(boards.puzzles[rows], boards.grids[rows]) for rows in shares))


def boards_to_score(path: Path) -> Splits:
    """Boards that a trained model is asked, whatever it was trained on.

    Args:
        path: a folder of train.csv, valid.csv and test.csv, or one CSV file, all of whose boards count.

    Raises:
        SnaError: if a file can't be read.
    """
    if path.is_dir():
        return read_splits(path)
    boards = read_boards(path)
    return Splits(boards, boards, boards)


def read_splits(folder: Path) -> Splits:
    """Boards that `write_splits` wrote.

    Args:
        folder: with train.csv, valid.csv and test.csv.

    Raises:
        SnaError: if one is missing or damaged.
    """
    return Splits(*(read_boards(folder / f"{name}.csv") for name in Splits._fields))


def write_splits(folder: Path, splits: Splits) -> None:
    """Write train.csv, valid.csv and test.csv.

    Args:
        folder: made where it is missing.
        splits: the boards.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, boards in splits._asdict().items():
        write_boards(folder / f"{name}.csv", boards)
