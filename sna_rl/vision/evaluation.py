"""What a trained model can do: accuracy over iterations, filled-in images, a solved puzzle."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sna_rl.errors import UsageError
from sna_rl.runs.atomic import atomic_write
from sna_rl.runs.fit_folder import open_run
from sna_rl.separable.checks import check_int
from sna_rl.vision.classify import class_accuracies
from sna_rl.vision.images import Images
from sna_rl.vision.mask import TRIAL, fidelity
from sna_rl.vision.pictures import picture
from sna_rl.vision.puzzles import is_valid, show
from sna_rl.vision.run import Run
from sna_rl.vision.search import Board
from sna_rl.vision.settings import TaskConfig, VisionConfig, check_shares
from sna_rl.vision.settling import until_settled
from sna_rl.vision.sudoku import accuracies, fill
from sna_rl.vision.sudoku_data import Splits, whence
from sna_rl.vision.symbols import Symbols, symbol_accuracies

NUMBER = "[0-9]{1,9}"
MAX_ITERATIONS = 10_000
UNITS = {"psnr": "decibels", "ssim": "structural similarity"}


def parse_iterations(text: str) -> list[int]:
    """Numbers of iterations: one, a list, or a range.

    Args:
        text: `16`, `8,16,32`, `8…64` or `8..64` (every fourth), `8…64:8`.

    Raises:
        UsageError: if it is none of these, or a number is under 1 or over 10,000.

    Example:
        >>> parse_iterations("8,4"), parse_iterations("8…16"), parse_iterations("2..6:2")
        ([4, 8], [8, 12, 16], [2, 4, 6])
    """
    ranged = re.fullmatch(rf"({NUMBER})(?:…|\.\.+|-)({NUMBER})(?::({NUMBER}))?", text.strip())
    parts = [part.strip() for part in text.split(",")]
    found: Sequence[int] = []
    if ranged:
        first, last, step = int(ranged[1]), int(ranged[2]), int(ranged[3] or 4)
        found = range(first, last + 1, max(step, 1))
    elif all(re.fullmatch(NUMBER, part) for part in parts):
        found = sorted({int(part) for part in parts})
    if not found or found[0] < 1 or found[-1] > MAX_ITERATIONS:
        raise UsageError(
            f"--iterations takes 16, 8,16,32 or 8…64 with numbers from 1 to {MAX_ITERATIONS:,}, not {text!r}"
        )
    return list(found)


def evaluate_run(
    folder: Path,
    iterations: Sequence[int] | None = None,
    *,
    data: str = "",
    best: bool = False,
    share: float | None = None,
    n_rounds: int | None = None,
    output: Path | None = None,
    device: str = "auto",
) -> list[str]:
    """Evaluate a trained run on a test set, and write `evaluation.csv` with a figure.

    Args:
        folder: the run folder.
        iterations: where it is read out; after those of training by default.
        data: other data than the run's own.
        best: the weights of the best evaluation instead of the last ones.
        share: of each image that is hidden, for masked images; 0.4 by default.
        n_rounds: of decoding, for masked images; 1 by default.
        output: where to write; in the run folder by default, `evaluation` for its own data and last weights,
            else `evaluation-<name of the data>-best`.
        device: auto, cpu or cuda.

    Returns:
        Lines for the user.

    Raises:
        UsageError: if there is no run, share or rounds don't belong to its task or are out of their range, or
            the model can't do so many iterations.
        SnaError: if a file is damaged.
    """
    _check_asked(VisionConfig.of(open_run(folder)).task, share, n_rounds)
    run = Run.open(folder, best=best, device=device, data=data)
    name = "evaluation" + (f"-{Path(data).resolve().stem}" if data else "") + ("-best" if best else "")
    lines = _curve(run, output or folder / name, iterations, TRIAL if share is None else share, n_rounds or 1)
    source = f"from {data!r}" if data else f"of the run's test set ({whence(run.config.task)})"
    what = "images"
    if isinstance(run.data, Splits):
        what = "boards"
        source += f", by givens {run.data.test.histogram()}"
    return [f"{'best' if best else 'last'} weights; {len(run.data[-1]):,} {what} {source}", *lines]


def solve_puzzle(run: Run, board: Board, solution: Board, n_iterations: int | None) -> list[str]:
    """Fill a puzzle.

    Args:
        run: a trained Sudoku run.
        board: the puzzle.
        solution: its only solution.
        n_iterations: of each layer; those of training by default. After these it ends where the digits stop
            changing.

    Returns:
        The grid, and whether it is valid, as lines.
    """
    puzzles = torch.tensor([board], device=next(run.model.parameters()).device)
    settled = until_settled(run.model, puzzles, n_iterations=n_iterations)
    grid = fill(settled.answer[0], board)
    wrong = sum(a != b for a, b in zip(grid, solution, strict=True))
    verdict = "valid: every row, column and box holds each digit once" if is_valid(grid) else (
        f"not valid: {wrong} of {board.count(0)} empty cells are filled wrongly"
    )  # fmt: skip
    return [show(grid), f"after {settled.n_iterations} iterations", verdict]


def _check_asked(task: TaskConfig, share: float | None, n_rounds: int | None) -> None:
    """See that what is asked about masks is asked of masked images, before they are read."""
    if task.task != "mask" and not (share is None and n_rounds is None):
        raise UsageError(f"--share and --rounds are about masked images; the run was trained on {task.task}")
    if n_rounds is not None:
        check_int("rounds", n_rounds, 1)
    if share is not None:
        check_shares(share, share)


def _curve(
    run: Run, folder: Path, iterations: Sequence[int] | None, share: float, n_rounds: int
) -> list[str]:
    """What is right after each of the iterations, written down and as lines."""
    wanted, trained = list(iterations or [run.config.model.n_iterations]), run.config.model.n_iterations
    if isinstance(run.data, Splits):
        found = accuracies(run.model, run.data.test, wanted)
        return _write(
            folder,
            [{"iteration": n, "boards": boards, "cells": cells} for n, boards, cells in found],
            trained,
        )
    held_out = run.data[-1]
    if isinstance(held_out, Images) and run.config.task.task == "mask":
        rows = [
            {"iteration": n, **fidelity(run.model, held_out, share, n_rounds=n_rounds, n_iterations=n)}
            for n in wanted
        ]
        lines = _write(folder, rows, trained)
        path = folder / "filled.png"
        picture(run.model, held_out, path, share=share, n_rounds=n_rounds, n_iterations=wanted[-1])
        return [*lines, f"picture: {path} (image, what was seen, what {wanted[-1]} iterations filled in)"]
    found_right = (
        symbol_accuracies(run.model, held_out, wanted, share, n_rounds=n_rounds)
        if isinstance(held_out, Symbols)
        else class_accuracies(run.model, held_out, wanted)
    )
    return _write(folder, [{"iteration": n, "accuracy": right} for n, right in found_right.items()], trained)


def _write(folder: Path, rows: Sequence[Mapping[str, int | float]], trained: int) -> list[str]:
    """Write a table and, where it has several rows, its curves; the table as lines."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list(rows[0])
    with atomic_write(folder / "evaluation.csv", "w") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    if len(rows) > 1:
        panels = [[name] for name in names[1:]] if "psnr" in names else [names[1:]]
        figure = Figure(figsize=(6 * len(panels), 4), dpi=120, layout="constrained")
        for axes, shown in zip(figure.subplots(1, len(panels), squeeze=False).flat, panels, strict=True):
            for name in shown:
                curve = [row[name] for row in rows]
                axes.plot([row["iteration"] for row in rows], curve, marker="o", label=name)
            axes.axvline(trained, color="grey", linestyle=":", label="iterations in training")
            axes.set(xlabel="iterations", ylabel=UNITS.get(shown[0], "share right"))
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            if shown[0] not in UNITS:
                axes.set_ylim(-0.02, 1.02)
            axes.legend()
        with atomic_write(folder / "evaluation.png") as file:
            figure.savefig(file, format="png")
    lines = [
        f"iterations {row['iteration']}  " + "  ".join(f"{name} {row[name]:.4g}" for name in names[1:])
        for row in rows
    ]
    return [*lines, f"written: {folder}/evaluation.csv"]
