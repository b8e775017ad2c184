"""Puzzles against qqwing and by hand; splits; targets and accuracies."""

from __future__ import annotations

import random
import shutil
import subprocess
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sna_rl.errors import UsageError
from sna_rl.vision.boards import Boards, make_base, make_splits, reveal, transform
from sna_rl.vision.config import ModelConfig
from sna_rl.vision.model import sudoku_model
from sna_rl.vision.objective import readout_loss
from sna_rl.vision.puzzles import count_solutions, is_valid, parse_board, show, solve_exactly
from sna_rl.vision.search import solutions
from sna_rl.vision.settings import LearnConfig
from sna_rl.vision.sudoku import GIVEN, SudokuTask, accuracies, fill, targets

PUZZLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
GRID = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
HARD = "000005900260000000300000000070320000000000540000080000800000032005009000000100000"


@pytest.mark.parametrize(
    ("text", "message"),
    [(PUZZLE[:-1], "this one has 80"), (PUZZLE + "1", "this one has 82"), (PUZZLE[:-1] + "x", "not 'x'")],
)
def test_malformed_puzzles(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_board(text)


@settings(max_examples=5)
@given(seed=st.integers(0, 2**32))
def test_bases_are_minimal_and_have_one_solution(seed: int) -> None:
    puzzle, grid = make_base(random.Random(seed))
    assert is_valid(grid)
    assert list(solutions(puzzle)) == [grid]
    for cell, digit in enumerate(puzzle):
        if digit:
            less = list(puzzle)
            less[cell] = 0
            assert count_solutions(less) == 2


@given(seed=st.integers(0, 2**32))
def test_symmetries_keep_a_puzzle_a_puzzle(seed: int) -> None:
    draw = random.Random(seed)
    puzzle, grid = parse_board(PUZZLE), parse_board(GRID)
    moved, solved = transform(puzzle, grid, draw)
    assert is_valid(solved)
    assert solve_exactly(moved) == solved
    assert sum(digit > 0 for digit in moved) == 30
    more = reveal(moved, solved, 36, draw)
    assert sum(digit > 0 for digit in more) == 36
    assert all(digit in (0, right) for digit, right in zip(more, solved, strict=True))
    assert reveal(moved, solved, 20, draw) == moved


def test_splits_are_repeatable_distinct_and_as_asked() -> None:
    first, second = (make_splits([12, 6], 6, (30, 33), seed=3) for _ in range(2))
    for left, right in zip(first, second, strict=True):
        assert torch.equal(left.puzzles, right.puzzles)
        assert set(left.givens()) <= {30, 31, 32, 33}
    rows = [tuple(row) for boards in first for row in boards.grids.tolist()]
    assert len(set(rows)) == 18
    assert not torch.equal(make_splits([12], 6, (30, 33), seed=4)[0].puzzles, first[0].puzzles)
    with pytest.raises(UsageError, match="givens must be a range from 17 to 80, not 30 to 20"):
        make_splits([1], 1, (30, 20), seed=0)


@pytest.mark.skipif(shutil.which("qqwing") is None, reason="qqwing is not installed")
def test_qqwing_agrees() -> None:
    boards = make_splits([25], 10, (17, 34), seed=1)[0]
    ours = ["".join(map(str, puzzle)) for puzzle in boards.puzzles.tolist()]
    two = PUZZLE.replace("9", "0").replace("8", "0")
    many = [two, HARD]
    answer = subprocess.run(
        ["qqwing", "--solve", "--count-solutions", "--csv"],
        input="\n".join(ours + many) + "\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()[1:]
    counts = [int(line.split(",")[1]) for line in answer]
    assert counts[:25] == [1] * 25
    for puzzle, count in zip(many, counts[25:], strict=True):
        assert count_solutions(parse_board(puzzle)) == min(count, 2)
    generated = subprocess.run(
        ["qqwing", "--generate", "10", "--csv", "--puzzle", "--solution"],
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()[1:]  # fmt: skip
    for line in generated:
        puzzle, solution = line.split(",")[:2]
        assert solve_exactly(parse_board(puzzle)) == parse_board(solution)


def test_targets_and_filling_by_hand() -> None:
    puzzle, grid = torch.tensor([parse_board(PUZZLE)]), torch.tensor([parse_board(GRID)])
    wanted = targets(puzzle, grid)
    assert wanted[0, :4].tolist() == [GIVEN, GIVEN, 3, 5]
    scores = torch.nn.functional.one_hot(grid[0] - 1, 9).float()
    scores[0] = 0  # a given is kept whatever the model says
    assert fill(scores, puzzle[0].tolist()) == grid[0].tolist()
    assert show(grid[0].tolist()).splitlines()[3] == "------+-------+------"


SMALL: dict[str, Any] = {"width": 16, "n_heads": 2, "hidden": 32, "n_iterations": 3}


class Oracle(torch.nn.Module):
    """Answers with the solution, but for what it is told to get wrong."""

    def __init__(self, boards: Boards, wrong_boards: int) -> None:
        super().__init__()
        self.boards, self.wrong = boards, wrong_boards

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.nn.functional.one_hot(self.boards.grids - 1, 9).float()
        for board in range(self.wrong):
            cell = int((self.boards.puzzles[board] == 0).nonzero()[0])
            scores[board, cell] = scores[board, cell].roll(1)
        return scores


def test_accuracies_count_boards_and_empty_cells() -> None:
    boards = make_splits([4], 1, (41, 41), seed=0)[0]
    model = sudoku_model(ModelConfig(**SMALL)).eval()
    model.head = Oracle(boards, wrong_boards=1)
    found = accuracies(model, boards, [1, 5])
    assert [each.iteration for each in found] == [1, 5]
    assert found[0].boards == 0.75
    assert found[1].cells == pytest.approx(1 - 1 / 160)


def test_losses_are_read_where_they_are_told() -> None:
    torch.manual_seed(0)
    model = sudoku_model(ModelConfig(**SMALL))
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter)
    puzzle = torch.randint(0, 10, (2, 81))
    losses = [model.read(state).square().mean() for state in model.states(puzzle)]

    def square(answer: torch.Tensor) -> torch.Tensor:
        return answer.square().mean()

    assert readout_loss(model, (puzzle,), square, "last")[0] == losses[-1]
    torch.testing.assert_close(readout_loss(model, (puzzle,), square, "all")[0], torch.stack(losses).mean())
    drawn = {readout_loss(model, (puzzle,), square, "random")[0].item() for _ in range(20)}
    assert drawn == {loss.item() for loss in losses}


def test_it_learns_by_heart() -> None:
    boards = make_splits([8], 1, (70, 70), seed=0)[0]
    torch.manual_seed(0)
    model = sudoku_model(ModelConfig(**SMALL))
    task = SudokuTask(model, boards, boards, LearnConfig(batch_size=8), seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(90):
        loss, numbers = task.loss(task.batch(step))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert loss < 0.3
    assert numbers["boards"] > 0.5
    model.eval()
    assert task.evaluate()["cells"] > 0.9
