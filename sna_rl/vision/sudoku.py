"""Learning Sudoku: a digit for each empty cell, scored on whole boards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
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
    empty = boards.puzzles == 0
    found = right_cells(model, boards, iterations, batch_size)
    return [
        Accuracy(n, right.all(1).float().mean().item(), right[empty].float().mean().item())
        for n, right in found.items()
    ]


@torch.no_grad()
def right_cells(
    model: IterativeModel, boards: Boards, iterations: Sequence[int], batch_size: int = 250
) -> dict[int, Bool[Tensor, "boards 81"]]:
    """Which cells are right, read out after some iterations of one pass; a given cell always is.

    Args:
        model: trained, in evaluation mode.
        boards: what it is asked.
        iterations: where it is read, of the last layer.
        batch_size: boards computed at once.

    Returns:
        Iteration, ascending → one row a board.
    """
    device = next(model.parameters()).device
    parts: dict[int, list[Tensor]] = {n: [] for n in sorted(set(iterations))}
    for start in range(0, len(boards), batch_size):
        puzzles = boards.puzzles[start : start + batch_size].to(device)
        truth = targets(puzzles, boards.grids[start : start + batch_size].to(device))
        for n, scores in model.readouts(puzzles, iterations=parts):
            parts[n].append(((scores.argmax(-1) == truth) | (truth == GIVEN)).cpu())
    return {n: torch.cat(each) for n, each in parts.items()}


@torch.no_grad()
def fill(scores: Float[Tensor, "81 9"], puzzle: Sequence[int]) -> list[int]:
    """A filled grid: the likeliest digit in every empty cell.

    Args:
        scores: the model's answer to one puzzle.
        puzzle: its 81 digits.
    """
    digits = (scores.argmax(-1) + 1).tolist()
    return [given or digit for given, digit in zip(puzzle, digits, strict=True)]
