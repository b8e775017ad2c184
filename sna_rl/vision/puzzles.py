"""Sudoku by exact search: reading boards, counting their solutions, saying whether a grid is right."""

from __future__ import annotations

from collections.abc import Sequence

from sna_rl.errors import UsageError
from sna_rl.vision.search import BOX, COLUMN, ROW, Board, N, solutions

MAX_GUESSES = 10_000
"""Guesses after which a puzzle is given up: some seconds, while puzzles with one solution take tens."""


def parse_board(text: str) -> Board:
    """Read a board of 81 characters: digits, and 0, `.` or `_` for an empty cell; spaces are skipped.

    Args:
        text: the board, row by row.

    Raises:
        UsageError: if there are more or fewer cells, or other characters.

    Example:
        >>> parse_board("12." + 78 * "0")[:4]
        (1, 2, 0, 0)
        >>> parse_board(80 * "0")
        Traceback (most recent call last):
        sna_rl.errors.UsageError: a Sudoku has 81 cells, this one has 80
    """
    cells = "".join(text.split()).replace(".", "0").replace("_", "0")
    if wrong := sorted(set(cells) - set("0123456789")):
        raise UsageError(f"a Sudoku is written in digits, with 0 or . for an empty cell, not {wrong[0]!r}")
    if len(cells) != N:
        raise UsageError(f"a Sudoku has 81 cells, this one has {len(cells)}")
    return tuple(map(int, cells))


def count_solutions(board: Sequence[int], limit: int = 2) -> int:
    """How many completions a board has, up to a limit.

    Args:
        board: 81 digits, 0 where empty.
        limit: where counting ends.

    Raises:
        UsageError: if the search gives up.

    Example:
        >>> count_solutions([1, 1] + [0] * 79), count_solutions([0] * 81)
        (0, 2)
    """
    found = solutions(board, max_guesses=MAX_GUESSES)
    return sum(1 for _ in zip(range(limit), found, strict=False))


def solve_exactly(board: Sequence[int]) -> Board:
    """The one completion of a board.

    Args:
        board: 81 digits, 0 where empty.

    Raises:
        UsageError: if there is none, or more than one, or the search gives up.
    """
    found = [grid for _, grid in zip(range(2), solutions(board, max_guesses=MAX_GUESSES), strict=False)]
    if len(found) != 1:
        raise UsageError(
            "this Sudoku has no solution"
            if not found
            else "this Sudoku has more than one solution; a puzzle has exactly one"
        )
    return found[0]


def is_valid(grid: Sequence[int]) -> bool:
    """Whether every row, column and box of a filled grid holds each digit once.

    Args:
        grid: 81 digits.

    Example:
        >>> is_valid(next(solutions([0] * 81))), is_valid([1] * 81)
        (True, False)
    """
    groups = [
        {digit for digit, place in zip(grid, unit, strict=True) if place == index}
        for unit in (ROW, COLUMN, BOX)
        for index in range(9)
    ]
    return all(group == set(range(1, 10)) for group in groups)


def show(grid: Sequence[int]) -> str:
    """A board as nine lines, boxes apart, a dot for an empty cell.

    Args:
        grid: 81 digits.

    Example:
        >>> print(show([1] + [0] * 80).splitlines()[0])
        1 . . | . . . | . . .
    """
    lines = []
    for row in range(9):
        digits = [str(grid[9 * row + column] or ".") for column in range(9)]
        lines.append(" | ".join(" ".join(digits[start : start + 3]) for start in (0, 3, 6)))
    for at in (6, 3):
        lines.insert(at, "------+-------+------")
    return "\n".join(lines)
