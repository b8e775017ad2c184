"""Every completion of a Sudoku, by exact search."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from sna_rl.errors import UsageError

N = 81
ALL = 0b111111111
ROW = [cell // 9 for cell in range(N)]
COLUMN = [cell % 9 for cell in range(N)]
BOX = [cell // 27 * 3 + cell % 9 // 3 for cell in range(N)]
UNITS = [(ROW[cell], 9 + COLUMN[cell], 18 + BOX[cell]) for cell in range(N)]
"""Cell → its row, column and box, numbered together."""
BITS = [[1 << digit for digit in range(9) if mask >> digit & 1] for mask in range(ALL + 1)]
"""Set of digits, as bits → each of them."""

Board = tuple[int, ...]
"""81 digits row by row, 0 where a cell is empty."""
Move = tuple[int, int]
"""A cell and the bit of the digit it is given."""


def solutions(
    board: Sequence[int],
    barred: tuple[int, int] | None = None,
    shuffle: random.Random | None = None,
    max_guesses: int | None = None,
) -> Iterator[Board]:
    """Every completion of a board.

    What is tried next is the cell with the fewest candidates or, where that has several, a digit with fewer
    places in a row, column or box. Shuffled, places are not looked at: seeded boards depend on the order.

    Args:
        board: 81 digits, 0 where empty.
        barred: a cell and a digit that it must not hold.
        shuffle: candidates are tried in an order drawn from it, instead of ascending.
        max_guesses: moves with an alternative after which it gives up; None for no limit.

    Yields:
        Filled grids; none where two givens contradict each other.

    Raises:
        UsageError: if it gives up.

    Cost:
        About a millisecond for a puzzle with one solution, a few for the hardest.

    Example:
        >>> next(solutions([0] * 81))[:9]
        (1, 2, 3, 4, 5, 6, 7, 8, 9)
    """
    cells, left = list(board), [ALL] * 27  # digits that each unit still needs
    for cell, digit in enumerate(cells):
        if digit:
            bit = 1 << (digit - 1)
            if not all(left[unit] & bit for unit in UNITS[cell]):
                return
            _toggle(left, cell, bit)
    banned = {barred[0]: ~(1 << (barred[1] - 1))} if barred else {}
    empty = [cell for cell, digit in enumerate(cells) if not digit]
    guesses = 0

    def moves() -> Sequence[Move]:
        candidates = {}
        scarcest, least = -1, 10
        for cell in empty:
            row, column, box = UNITS[cell]
            free = candidates[cell] = left[row] & left[column] & left[box] & banned.get(cell, ALL)
            if (count := free.bit_count()) < least:
                scarcest, least = cell, count
                if count < 2:
                    break
        bits = BITS[candidates[scarcest]]
        if shuffle is not None:
            bits = shuffle.sample(bits, len(bits))
        elif least > 1 and (found := _places(candidates, left, least)) is not None:
            return found
        return [(scarcest, bit) for bit in bits]

    def fill() -> Iterator[Board]:
        nonlocal guesses
        if not empty:
            yield tuple(cells)
            return
        found = moves()
        guesses += len(found) > 1
        if max_guesses is not None and guesses > max_guesses:
            raise UsageError(
                f"this Sudoku is given up after {max_guesses:,} guesses; a puzzle with one solution takes "
                "far fewer"
            )
        for cell, bit in found:
            place = empty.index(cell)
            empty[place] = empty[-1]
            empty.pop()
            cells[cell] = bit.bit_length()
            _toggle(left, cell, bit)
            yield from fill()
            _toggle(left, cell, bit)
            cells[cell] = 0
            empty.append(cell)

    yield from fill()


def _toggle(left: list[int], cell: int, bit: int) -> None:
    """A digit is set in a cell, or taken away again."""
    for unit in UNITS[cell]:
        left[unit] ^= bit


def _places(candidates: Mapping[int, int], left: Sequence[int], fewer: int) -> Sequence[Move] | None:
    """Places of a digit that has the fewest in some unit, where that is fewer than a number of at most 3."""
    once, twice, thrice = [0] * 27, [0] * 27, [0] * 27  # digits with so many places or more
    for cell, free in candidates.items():
        for unit in UNITS[cell]:
            thrice[unit] |= twice[unit] & free
            twice[unit] |= once[unit] & free
            once[unit] |= free
    for some, more in ((left, once), (once, twice), (twice, thrice))[:fewer]:
        for unit in range(27):
            if scarce := some[unit] & ~more[unit]:
                bit = scarce & -scarce
                return [
                    (cell, bit) for cell, free in candidates.items() if free & bit and unit in UNITS[cell]
                ]
    return None
