"""Sudoku by exact search: reading boards, counting their solutions, saying whether a grid is right."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from sna_rl.errors import UsageError

N = 81
ALL = 0b111111111
ROW = [cell // 9 for cell in range(N)]
COLUMN = [cell % 9 for cell in range(N)]
BOX = [cell // 27 * 3 + cell % 9 // 3 for cell in range(N)]
DIGITS = [[digit for digit in range(9) if mask >> digit & 1] for mask in range(ALL + 1)]

Board = tuple[int, ...]
"""81 digits row by row, 0 where a cell is empty."""


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


def solutions(
    board: Sequence[int], barred: tuple[int, int] | None = None, shuffle: random.Random | None = None
) -> Iterator[Board]:
    """Every completion of a board, found by filling the cell with the fewest candidates first.

    Args:
        board: 81 digits, 0 where empty.
        barred: a cell and a digit that it must not hold.
        shuffle: candidates are tried in an order drawn from it, instead of ascending.

    Yields:
        Filled grids; none where two givens contradict each other.

    Cost:
        Well-posed boards take a fraction of a millisecond to some milliseconds.

    Example:
        >>> next(solutions([0] * 81))[:9]
        (1, 2, 3, 4, 5, 6, 7, 8, 9)
    """
    cells = list(board)
    rows, columns, boxes = [ALL] * 9, [ALL] * 9, [ALL] * 9  # digits that are still free, as bits
    for cell, digit in enumerate(cells):
        if digit:
            bit = 1 << (digit - 1)
            if not rows[ROW[cell]] & columns[COLUMN[cell]] & boxes[BOX[cell]] & bit:
                return
            rows[ROW[cell]] ^= bit
            columns[COLUMN[cell]] ^= bit
            boxes[BOX[cell]] ^= bit
    banned = {barred[0]: ~(1 << (barred[1] - 1))} if barred else {}
    empty = [cell for cell, digit in enumerate(cells) if not digit]

    def fill() -> Iterator[Board]:
        best, least, index = 0, 10, -1
        for position, cell in enumerate(empty):
            free = rows[ROW[cell]] & columns[COLUMN[cell]] & boxes[BOX[cell]] & banned.get(cell, ALL)
            count = free.bit_count()
            if count < least:
                best, least, index = free, count, position
                if count < 2:
                    break
        if index < 0:
            yield tuple(cells)
            return
        if not best:
            return
        cell = empty[index]
        empty[index] = empty[-1]
        empty.pop()
        row, column, box = ROW[cell], COLUMN[cell], BOX[cell]
        choices = DIGITS[best]
        for digit in choices if shuffle is None else shuffle.sample(choices, len(choices)):
            bit = 1 << digit
            cells[cell] = digit + 1
            rows[row] ^= bit
            columns[column] ^= bit
            boxes[box] ^= bit
            yield from fill()
            rows[row] ^= bit
            columns[column] ^= bit
            boxes[box] ^= bit
        cells[cell] = 0
        empty.append(cell)

    yield from fill()


def count_solutions(board: Sequence[int], limit: int = 2) -> int:
    """How many completions a board has, up to a limit.

    Args:
        board: 81 digits, 0 where empty.
        limit: where counting ends.

    Example:
        >>> count_solutions([1, 1] + [0] * 79), count_solutions([0] * 81)
        (0, 2)
    """
    found = solutions(board)
    return sum(1 for _ in zip(range(limit), found, strict=False))


def solve_exactly(board: Sequence[int]) -> Board:
    """The one completion of a board.

    Args:
        board: 81 digits, 0 where empty.

    Raises:
        UsageError: if there is none, or more than one.
    """
    found = [grid for _, grid in zip(range(2), solutions(board), strict=False)]
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
