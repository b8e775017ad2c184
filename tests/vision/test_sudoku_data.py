"""Boards of a run: no base in two splits, whatever they come from; files that are refused."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sna_rl.errors import SnaError, UsageError
from sna_rl.vision.bases import base_key, same_base, share_out
from sna_rl.vision.board_files import read_bases, read_boards, write_boards
from sna_rl.vision.boards import Boards, make_base, make_splits, transform
from sna_rl.vision.settings import TaskConfig
from sna_rl.vision.sudoku_data import Splits, boards_to_score, make_boards, read_splits, write_splits

PUZZLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
GRID = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
SEVENTEEN = "000005900260000000300000000070320000000000540000080000800000032005009000000100000"
TWO = PUZZLE.replace("9", "0").replace("8", "0")


def text(board: Iterable[int]) -> str:
    return "".join(map(str, board))


def keys(boards: Boards) -> set[object]:
    return {base_key(grid) for grid in boards.grids.tolist()}


def test_generated_splits_have_disjoint_bases() -> None:
    splits = make_splits([30, 5, 10], 9, (40, 40), seed=0)
    found = [keys(boards) for boards in splits]
    assert [len(each) for each in found] == [6, 1, 2]
    assert len(set().union(*found)) == 9


@given(seed=st.integers(0, 2**32))
def test_a_key_is_that_of_every_relabelling_and_symmetry(seed: int) -> None:
    draw = random.Random(seed)
    grid = tuple(map(int, GRID))
    assert base_key(transform(grid, grid, draw)[1]) == base_key(grid)


def test_keys_of_other_grids_differ() -> None:
    draw = random.Random(0)
    grids = [make_base(draw)[1] for _ in range(20)]
    assert len({base_key(grid) for grid in grids}) == 20
    groups = same_base([*grids, *reversed(grids)], draw)
    assert sorted(sorted(group) for group in groups) == [[n, 39 - n] for n in range(20)]


def test_bases_are_shared_out_by_size_at_least_one_each() -> None:
    draw = random.Random(0)
    grids = [make_base(draw)[1] for _ in range(10)]
    for sizes, counts in (([80, 10, 10], [8, 1, 1]), ([1_000, 1, 1], [8, 1, 1]), ([1, 1, 8], [1, 1, 8])):
        shares = share_out(grids, sizes, draw)
        assert [len(share) for share in shares] == counts
        assert sorted(number for share in shares for number in share) == list(range(10))


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten relabelled boards of each of four bases, the first twice; in no order."""
    draw = random.Random(1)
    bases = [make_base(draw) for _ in range(4)]
    pairs = [transform(*base, draw) for base in bases for _ in range(10)]
    pairs.append(pairs[0])
    draw.shuffle(pairs)
    path = tmp_path_factory.mktemp("copies") / "boards.csv"
    write_boards(path, Boards.of(pairs))
    return path


def test_splits_of_one_file_share_no_base_and_no_row(copies: Path) -> None:
    task = TaskConfig(data=str(copies), n_valid=5, n_test=8)
    for seed in range(5):
        splits = make_boards(task, seed)
        found = [keys(boards) for boards in splits]
        assert [len(each) for each in found] == [2, 1, 1]
        assert len(set().union(*found)) == 4
        assert [len(boards) for boards in splits[1:]] == [5, 8]
        assert len(splits.train) in (20, 21)
    assert torch.equal(make_boards(task, 4).test.puzzles, splits.test.puzzles)
    few = make_boards(TaskConfig(data=str(copies), n_train=3, n_valid=5, n_test=8), 4)
    assert torch.equal(few.train.puzzles, splits.train.puzzles[:3])
    with pytest.raises(UsageError, match=r"holds 41 boards of 4 bases: too few for n_valid 12, n_test 12"):
        make_boards(TaskConfig(data=str(copies), n_valid=12, n_test=12), 0)


def test_boards_of_seventeen_givens_are_made_from_a_list(tmp_path: Path) -> None:
    path = tmp_path / "clues.txt"
    path.write_text(
        f"puzzle,solution\n{SEVENTEEN}\n\n{PUZZLE},{GRID}\n{text(make_base(random.Random(0))[0])}\n"
    )
    bases = read_bases(path)
    assert [text(puzzle) for puzzle, _ in bases][:2] == [SEVENTEEN, PUZZLE]
    assert text(bases[1][1]) == GRID
    task = TaskConfig(bases=str(path), n_train=6, n_valid=2, n_test=3, min_givens=17, max_givens=20)
    splits = make_boards(task, 0)
    assert [len(boards) for boards in splits] == [6, 2, 3]
    assert [len(keys(boards)) for boards in splits] == [1, 1, 1]
    assert len(set().union(*map(keys, splits))) == 3
    own = [set(boards.givens()) for boards in splits]
    assert {30} in own
    (seventeen,) = (givens for givens in own if min(givens) < 21)
    assert seventeen <= {17, 18, 19, 20}
    assert torch.equal(make_boards(task, 0).train.puzzles, splits.train.puzzles)
    path.write_text(
        f"{SEVENTEEN}\n{PUZZLE}\n{text(transform(bases[1][0], bases[1][1], random.Random(3))[0])}"
    )
    with pytest.raises(UsageError, match=r"clues.txt': 3 boards of 2 bases are too few for 3 splits"):
        make_boards(task, 0)
    path.write_text(f"{SEVENTEEN}\n{TWO}\n")
    with pytest.raises(UsageError, match=r"clues.txt', line 2: this Sudoku has more than one solution"):
        make_boards(task, 0)


def test_settings_that_contradict_each_other() -> None:
    with pytest.raises(UsageError, match="give one of them"):
        TaskConfig(bases="a", data="b")
    with pytest.raises(UsageError, match="task mask has none"):
        TaskConfig(task="mask", bases="a", data="b")
    with pytest.raises(UsageError, match="to generate boards, n_train is at least 1"):
        TaskConfig(n_train=0)


def test_a_users_puzzle_with_two_solutions_is_refused_and_a_runs_own_is_not_checked(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    path.write_text(f"{PUZZLE},{GRID}\n{TWO},{GRID}\n")
    assert len(read_boards(path)) == 2
    task = TaskConfig(data=str(path), n_valid=1, n_test=1)
    message = r"two.csv', line 2: this Sudoku has more than one solution"
    with pytest.raises(UsageError, match=message):
        make_boards(task, 0)
    with pytest.raises(UsageError, match=message):
        boards_to_score(path)
    boards = read_boards(path)
    folder = tmp_path / "boards"
    write_splits(folder, Splits(boards, boards, boards))
    assert len(read_splits(folder).test) == 2
    with pytest.raises(UsageError, match=r"train.csv', line 2: this Sudoku has more than one solution"):
        boards_to_score(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{PUZZLE},{GRID}\n{PUZZLE}\n", "line 2: a line needs a puzzle and its solution"),
        (f"{PUZZLE},{GRID[:-1]}\n", "line 1: a Sudoku has 81 cells, this one has 80"),
        (f"{PUZZLE},{GRID[::-1]}\n", "line 1: the second column does not solve the first"),
        (f"{GRID},{GRID}\n", "line 1: no cell of the puzzle is empty"),
        ("", "holds no Sudoku"),
        ("puzzle,solution\n \n", "holds no Sudoku"),
    ],
)
def test_damaged_files(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "boards.csv"
    path.write_text(content)
    with pytest.raises(SnaError, match=message):
        read_boards(path)


def test_csv_out_and_in(tmp_path: Path) -> None:
    boards = make_splits([3], 1, (40, 40), seed=0)[0]
    path = tmp_path / "boards.csv"
    write_boards(path, boards)
    again = read_boards(path)
    assert torch.equal(again.puzzles, boards.puzzles)
    assert torch.equal(again.grids, boards.grids)
    path.write_text(f"puzzle,solution\n{PUZZLE},{GRID}\n\n")
    assert read_boards(path).givens() == {30: 1}
