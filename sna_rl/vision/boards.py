"""Sudoku boards: a seeded generator whose splits share no base puzzle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sna_rl.errors import UsageError
from sna_rl.vision.bases import share_out
from sna_rl.vision.search import Board, N, solutions


@dataclass(frozen=True)
class Boards:
    """Puzzles with their solutions.

    Args:
        puzzles: (boards, 81), 0 where a cell is empty.
        grids: (boards, 81), digits 1 to 9.
    """

    puzzles: Tensor
    grids: Tensor

    def __len__(self) -> int:
        return len(self.puzzles)

    @classmethod
    def of(cls, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Boards:
        """Boards from pairs of a puzzle and its solution.

        Args:
            pairs: digits of both.
        """
        puzzles, grids = zip(*pairs, strict=True)
        return cls(torch.tensor(puzzles), torch.tensor(grids))

    def givens(self) -> Mapping[int, int]:
        """Number of givens → how many boards have it."""
        return dict(sorted(Counter((self.puzzles > 0).sum(1).tolist()).items()))

    def histogram(self) -> str:
        """The same as part of a sentence."""
        return ", ".join(f"{givens}: {count:,}" for givens, count in self.givens().items())


def make_splits(sizes: Sequence[int], n_bases: int, givens: tuple[int, int], seed: int) -> list[Boards]:
    """Boards of several splits, no base puzzle in two of them.

    A base is a random full grid from which givens are removed as long as the solution stays the only one. A
    board is a base of its split under a random relabelling of the digits and a random symmetry of the board,
    then more givens revealed up to a number drawn evenly. A base that has more stays as it is.

    Args:
        sizes: boards of each split.
        n_bases: bases in all, shared out by size, at least one each.
        givens: least and most givens.
        seed: of everything drawn.

    Returns:
        One set for each size.

    Raises:
        UsageError: if a size is under 1 or the givens are no range within 17 to 80.

    Cost:
        About 0.02 s a base.

    Example:
        >>> train, test = make_splits([3, 2], 2, (50, 50), seed=0)
        >>> len(train), len(test), train.givens()
        (3, 2, {50: 3})
    """
    draw = random.Random(seed)
    splits = []
    for size in _checked(sizes, givens):
        share = max(1, round(n_bases * size / sum(sizes)))
        splits.append(_boards([make_base(draw) for _ in range(share)], size, givens, draw))
    return splits


def splits_of(
    bases: Sequence[tuple[Board, Board]], sizes: Sequence[int], givens: tuple[int, int], seed: int
) -> list[Boards]:
    """Boards of several splits as `make_splits` makes them, from bases that are there.

    Args:
        bases: puzzles with their solutions; those that differ by a symmetry alone come into one split.
        sizes: boards of each split.
        givens: least and most givens.
        seed: of everything drawn.

    Returns:
        One set for each size.

    Raises:
        UsageError: if there are fewer bases than splits, a size is under 1 or the givens are no range.
    """
    draw = random.Random(seed)
    shares = share_out([grid for _, grid in bases], _checked(sizes, givens), draw)
    return [
        _boards([bases[number] for number in share], size, givens, draw)
        for share, size in zip(shares, sizes, strict=True)
    ]


def make_base(draw: random.Random) -> tuple[Board, Board]:
    """A minimal puzzle, of which no given can be left out, and its solution.

    Args:
        draw: where it comes from.

    Example:
        >>> puzzle, grid = make_base(random.Random(0))
        >>> next(solutions(puzzle)) == grid
        True
    """
    grid = next(solutions([0] * N, shuffle=draw))
    puzzle = list(grid)
    for cell in draw.sample(range(N), N):
        digit, puzzle[cell] = puzzle[cell], 0
        if next(solutions(puzzle, barred=(cell, digit)), None) is not None:
            puzzle[cell] = digit
    return tuple(puzzle), grid


def transform(puzzle: Board, grid: Board, draw: random.Random) -> tuple[Board, Board]:
    """The same puzzle to a player: digits renamed, rows and columns permuted within what the rules allow.

    Args:
        puzzle: a board.
        grid: its solution.
        draw: where digits and places come from.
    """
    names = [0, *draw.sample(range(1, 10), 9)]
    rows, columns = (
        [3 * band + line for band in draw.sample(range(3), 3) for line in draw.sample(range(3), 3)]
        for _ in range(2)
    )
    transposed = draw.random() < 0.5
    order = [9 * column + row if transposed else 9 * row + column for row in rows for column in columns]
    moved = [tuple(names[board[cell]] for cell in order) for board in (puzzle, grid)]
    return moved[0], moved[1]


def reveal(puzzle: Board, grid: Board, n_givens: int, draw: random.Random) -> Board:
    """The puzzle with more givens, up to a number.

    Args:
        puzzle: a board.
        grid: its solution.
        n_givens: givens wanted; a board that has more is left as it is.
        draw: which cells are shown.
    """
    empty = [cell for cell, digit in enumerate(puzzle) if not digit]
    more = max(0, n_givens - (N - len(empty)))
    shown = set(draw.sample(empty, more))
    return tuple(grid[cell] if cell in shown else digit for cell, digit in enumerate(puzzle))


def _checked(sizes: Sequence[int], givens: tuple[int, int]) -> Sequence[int]:
    """The sizes, where boards of such givens can be made."""
    low, high = givens
    if not 17 <= low <= high < N:
        raise UsageError(f"givens must be a range from 17 to 80, not {low} to {high}")
    if min(sizes) < 1:
        raise UsageError(f"a split needs at least one board, not {min(sizes)}")
    return sizes


def _boards(
    bases: Sequence[tuple[Board, Board]], size: int, givens: tuple[int, int], draw: random.Random
) -> Boards:
    """One split."""
    pairs = []
    for _ in range(size):
        puzzle, grid = transform(*draw.choice(bases), draw)
        pairs.append((reveal(puzzle, grid, draw.randint(*givens), draw), grid))
    return Boards.of(pairs)
