"""Learning Sudoku: a digit for each empty cell, scored on whole boards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from sna_rl.runs.fit_config import Batches
from sna_rl.vision.boards import Boards
from sna_rl.vision.model import IterativeModel
from sna_rl.vision.objective import readout_loss
from sna_rl.vision.settings import LearnConfig

GIVEN = -100
"""Target of a cell that was given: it counts neither in the loss nor in an accuracy."""


class Accuracy(NamedTuple):
    """Shares that are right after an iteration."""

    iteration: int
    boards: float
    cells: float


class SudokuTask:
    """Training and validation boards for `sna_rl.runs.fit`.

    Args:
        model: what is trained, on its device.
        train: boards learned from.
        valid: boards that choose the best weights.
        learn: batch size, read-outs, label smoothing.
        seed: of the batches.
    """

    def __init__(
        self, model: IterativeModel, train: Boards, valid: Boards, learn: LearnConfig, seed: int
    ) -> None:
        self.model, self.train, self.valid, self.learn = model, train, valid, learn
        self.device = next(model.parameters()).device
        self.batches = Batches(len(train), learn.batch_size, seed)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Puzzles and targets of a step."""
        rows = self.batches.rows(step)
        puzzles = self.train.puzzles[rows]
        return puzzles.to(self.device), targets(puzzles, self.train.grids[rows]).to(self.device)

    def loss(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Cross-entropy over the empty cells."""
        puzzles, wanted = batch

        def cross_entropy(scores: Tensor) -> Tensor:
            return F.cross_entropy(
                scores.flatten(0, 1).float(),
                wanted.flatten(),
                ignore_index=GIVEN,
                label_smoothing=self.learn.label_smoothing,
            )

        loss, last = readout_loss(self.model, (puzzles,), cross_entropy, self.learn.loss_on)
        right = (last.argmax(-1) == wanted) | (wanted == GIVEN)
        return loss, {"boards": right.all(1).float().mean()}

    def evaluate(self) -> Mapping[str, float]:
        """Accuracy on the validation boards after the iterations of training."""
        (last,) = accuracies(self.model, self.valid, [self.model.body.config.n_iterations])
        return {"boards": last.boards, "cells": last.cells, "score": last.boards}


def targets(puzzles: Int[Tensor, "batch 81"], grids: Int[Tensor, "batch 81"]) -> Int[Tensor, "batch 81"]:
    """Classes of the empty cells, digit − 1; `GIVEN` elsewhere.

    Args:
        puzzles: 0 where a cell is empty.
        grids: the solutions.
    """
    return torch.where(puzzles == 0, grids - 1, GIVEN)


@torch.no_grad()
def accuracies(
    model: IterativeModel, boards: Boards, iterations: Sequence[int], batch_size: int = 250
) -> list[Accuracy]:
    """Shares of boards and of empty cells that are right, read out after some iterations of one pass.

    Args:
        model: trained, in evaluation mode.
        boards: what it is asked.
        iterations: where it is read, of the last layer.
        batch_size: boards computed at once.

    Returns:
        One entry for each of the iterations, ascending.
    """
    device = next(model.parameters()).device
    wanted = sorted(set(iterations))
    n_boards, n_cells = dict.fromkeys(wanted, 0), dict.fromkeys(wanted, 0)
    for start in range(0, len(boards), batch_size):
        puzzles = boards.puzzles[start : start + batch_size].to(device)
        truth = targets(puzzles, boards.grids[start : start + batch_size].to(device))
        for n, scores in model.readouts(puzzles, iterations=wanted):
            right = scores.argmax(-1) == truth
            n_cells[n] += int(right.sum())
            n_boards[n] += int((right | (truth == GIVEN)).all(1).sum())
    empty = int((boards.puzzles == 0).sum())
    return [Accuracy(n, n_boards[n] / len(boards), n_cells[n] / empty) for n in wanted]


@torch.no_grad()
def fill(scores: Float[Tensor, "81 9"], puzzle: Sequence[int]) -> list[int]:
    """A filled grid: the likeliest digit in every empty cell.

    Args:
        scores: the model's answer to one puzzle.
        puzzle: its 81 digits.
    """
    digits = (scores.argmax(-1) + 1).tolist()
    return [given or digit for given, digit in zip(puzzle, digits, strict=True)]
