"""Which Sudoku boards come from one base, whatever digits were renamed and lines moved."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

from sna_rl.errors import UsageError

Part = tuple[tuple[tuple[int, ...], ...], ...]


def base_key(grid: Sequence[int]) -> tuple[Part, ...]:
    """A key that a solution shares with all its relabellings and symmetries, and hardly with another.

    Two rows of a band are a permutation of the digits, from what stands in one to what stands below or above
    it in the other. Its cycle lengths stay when digits are renamed, columns moved, or the two rows swapped.
    The key collects them for every band and every stack, without order.

    Args:
        grid: 81 digits, filled and valid.

    Cost:
        About 40 µs; two random grids share it with a probability of about 10⁻⁷.

    Example:
        >>> from sna_rl.vision.search import solutions
        >>> grid = next(solutions([0] * 81))
        >>> base_key(grid) == base_key([10 - digit for digit in grid])
        True
    """
    rows = [grid[9 * row : 9 * row + 9] for row in range(9)]
    columns = [grid[column::9] for column in range(9)]
    return tuple(sorted((_part(rows), _part(columns))))


def same_base(grids: Sequence[Sequence[int]], draw: random.Random) -> list[list[int]]:
    """Numbers of the grids, those with one key together, the groups in a random order.

    Args:
        grids: solutions.
        draw: where the order comes from.
    """
    groups: dict[tuple[Part, ...], list[int]] = {}
    for number, grid in enumerate(grids):
        groups.setdefault(base_key(grid), []).append(number)
    found = list(groups.values())
    draw.shuffle(found)
    return found


def share_out(grids: Sequence[Sequence[int]], sizes: Sequence[int], draw: random.Random) -> list[list[int]]:
    """Numbers of the grids for each of several splits, no base in two of them, at least one in each.

    Args:
        grids: solutions.
        sizes: splits are as large as these, relative to each other.
        draw: who gets which.

    Raises:
        UsageError: if there are fewer bases than splits.

    Example:
        >>> from sna_rl.vision.search import solutions
        >>> share_out([next(solutions([0] * 81))] * 5, [2, 1], random.Random(0))
        Traceback (most recent call last):
        sna_rl.errors.UsageError: 5 boards of 1 base are too few for 2 splits that share none
    """
    groups = same_base(grids, draw)
    n_bases, n_splits = len(groups), len(sizes)
    if n_bases < n_splits:
        raise UsageError(
            f"{len(grids)} boards of {n_bases} base{'s' * (n_bases > 1)} are too few for {n_splits} splits "
            "that share none"
        )
    ends = [0]
    for split in range(n_splits):
        wanted = round(n_bases * sum(sizes[: split + 1]) / sum(sizes))
        ends.append(min(max(wanted, ends[-1] + 1), n_bases - (n_splits - 1 - split)))
    return [[number for group in groups[start:end] for number in group] for start, end in pairwise(ends)]


def _part(lines: Sequence[Sequence[int]]) -> Part:
    """Cycle lengths between the lines of each band, bands and lines without order."""
    bands = (lines[first : first + 3] for first in (0, 3, 6))
    return tuple(
        sorted(tuple(sorted(_cycles(a, b) for a, b in ((x, y), (x, z), (y, z)))) for x, y, z in bands)
    )


def _cycles(before: Sequence[int], after: Sequence[int]) -> tuple[int, ...]:
    """Lengths of the cycles of a permutation, ascending."""
    to = dict(zip(before, after, strict=True))
    lengths = []
    while to:
        first, last = to.popitem()
        length = 1
        while last != first:
            last = to.pop(last)
            length += 1
        lengths.append(length)
    return tuple(sorted(lengths))
