"""Sudoku boards and base puzzles in text files."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sna_rl.errors import SnaError, UsageError
from sna_rl.runs.atomic import atomic_write
from sna_rl.runs.files import check_file
from sna_rl.vision.boards import Boards
from sna_rl.vision.puzzles import is_valid, parse_board, solve_exactly
from sna_rl.vision.search import Board

MAX_BYTES = 2**28


def write_boards(path: Path, boards: Boards) -> None:
    """Write a CSV file of two columns, puzzle and solution, without a header.

    Args:
        path: the file.
        boards: what to write.
    """
    with atomic_write(path, "w") as file:
        for puzzle, grid in zip(boards.puzzles.tolist(), boards.grids.tolist(), strict=True):
            file.write(f"{''.join(map(str, puzzle))},{''.join(map(str, grid))}\n")


def read_boards(path: Path, *, checked: bool = False) -> Boards:
    """Read a CSV file of two columns, puzzle and solution; a header and blank lines are skipped.

    Args:
        path: the file, at most 256 MiB.
        checked: see that every puzzle has one solution alone, as those that were generated here have.

    Raises:
        SnaError: if it is missing, no text, or empty.
        UsageError: if a line is no puzzle with its only solution; the line is named.

    Cost:
        The check takes about 0.6 ms a board of 17 to 34 givens.
    """
    pairs = []
    for number, row in _rows(path):
        with _named(path, number):
            if len(row) < 2:
                raise UsageError("a line needs a puzzle and its solution, with a comma between")
            puzzle, grid = _puzzle(row[0]), parse_board(row[1])
            if not is_valid(grid) or any(p not in (0, g) for p, g in zip(puzzle, grid, strict=True)):
                raise UsageError("the second column does not solve the first")
            if checked:
                solve_exactly(puzzle)
        pairs.append((puzzle, grid))
    if not pairs:
        raise SnaError(f"{str(path)!r} holds no Sudoku")
    return Boards.of(pairs)


def read_bases(path: Path) -> list[tuple[Board, Board]]:
    """Read base puzzles, one a line; further columns, a header and blank lines are skipped.

    Args:
        path: the file, at most 256 MiB.

    Returns:
        Puzzles with their solutions, which are searched for.

    Raises:
        SnaError: if it is missing, no text, or empty.
        UsageError: if a line is no puzzle with one solution; the line is named.

    Cost:
        About 1 ms a puzzle of 17 givens.
    """
    pairs = []
    for number, row in _rows(path):
        with _named(path, number):
            puzzle = _puzzle(row[0])
            pairs.append((puzzle, solve_exactly(puzzle)))
    if not pairs:
        raise SnaError(f"{str(path)!r} holds no Sudoku")
    return pairs


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Lines of a CSV file with their numbers."""
    check_file(path, MAX_BYTES)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise SnaError(f"{str(path)!r} can't be read as CSV: {error}") from error
    for number, row in enumerate(rows, 1):
        text = "".join(row).strip()
        if text and (number > 1 or any(character.isdigit() for character in text)):
            yield number, row


def _puzzle(text: str) -> Board:
    """A board with something to fill in."""
    puzzle = parse_board(text)
    if 0 not in puzzle:
        raise UsageError("no cell of the puzzle is empty")
    return puzzle


@contextmanager
def _named(path: Path, number: int) -> Iterator[None]:
    """Errors about a line name it."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{str(path)!r}, line {number}: {error}") from error
