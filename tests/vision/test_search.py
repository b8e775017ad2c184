"""Exact search: known puzzles, impossible ones, and seeded boards that stay what they were."""

from __future__ import annotations

import random

import pytest

from sna_rl.errors import UsageError
from sna_rl.vision.boards import make_base, make_splits
from sna_rl.vision.puzzles import count_solutions, is_valid, parse_board, solve_exactly
from sna_rl.vision.search import N, solutions

PUZZLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
GRID = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
HARD = "000005900260000000300000000070320000000000540000080000800000032005009000000100000"
IMPOSSIBLE = ".....5.8....6.1.43..........1.5........1.6...3.......553.....61........4........."


def test_a_known_puzzle_and_one_of_seventeen_givens() -> None:
    assert solve_exactly(parse_board(PUZZLE)) == parse_board(GRID)
    assert count_solutions(parse_board(HARD)) == 1


def test_none_and_many_solutions_are_told_apart() -> None:
    twice = "55" + 79 * "0"
    with pytest.raises(UsageError, match="has no solution"):
        solve_exactly(parse_board(twice))
    with pytest.raises(UsageError, match="more than one solution"):
        solve_exactly([0] * N)
    # an empty cell without a candidate
    assert count_solutions(parse_board("12345678" + "0" + "000000009" + 63 * "0")) == 0
    # a row without a place for its 9
    assert count_solutions(parse_board("1234567" + "00" + "000000009" + "000000090" + 54 * "0")) == 0


def test_all_completions_are_found_once() -> None:
    """Every third cell of a solved grid is opened again; two orders of search find the same grids."""
    grid = solve_exactly(parse_board(HARD))
    open_board = [0 if cell % 3 == 0 else digit for cell, digit in enumerate(grid)]
    shuffled = set(solutions(open_board, shuffle=random.Random(0)))
    ordered = list(solutions(open_board))
    assert len(ordered) == len(set(ordered)) > 1
    assert set(ordered) == shuffled
    assert all(is_valid(found) for found in ordered)
    without = set(solutions(open_board, barred=(0, grid[0])))
    assert without == {found for found in shuffled if found[0] != grid[0]}


def test_an_impossible_puzzle_is_seen_through_and_guesses_are_limited() -> None:
    with pytest.raises(UsageError, match="has no solution"):
        solve_exactly(parse_board(IMPOSSIBLE))
    with pytest.raises(UsageError, match="is given up after 100 guesses; a puzzle with one solution takes"):
        list(solutions(parse_board(IMPOSSIBLE), max_guesses=100))
    assert len(list(solutions(parse_board(HARD), max_guesses=100))) == 1


def test_boards_of_a_seed_stay_what_they_were() -> None:
    """Published results stand on them."""
    puzzle, _ = make_base(random.Random(0))
    first, second = make_splits([2, 1], 2, (17, 34), seed=5)
    rows = ["".join(map(str, row)) for row in (puzzle, *first.puzzles.tolist(), *second.puzzles.tolist())]
    assert rows == [
        "065000000390000087200010900000080010080001009103095040004036000020500000000000005",
        "050400001700006900010030050065920000800005020000064000600070508007090030000000002",
        "905003001004000000070100002040005090700002083000930204200001030590060007006090800",
        "041000200000008010000009400000096051007021000009083000072030000050017809000800003",
    ]
