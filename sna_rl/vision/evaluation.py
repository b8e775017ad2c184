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
from sna_rl.runs.fit_config import step_generator
from sna_rl.vision.classify import centred, class_accuracies, scaled
from sna_rl.vision.embeddings import from_patches, to_patches
from sna_rl.vision.images import Images
from sna_rl.vision.mask import fidelity, hide, patch_size, reconstruct
from sna_rl.vision.model import IterativeModel
from sna_rl.vision.puzzles import is_valid, show
from sna_rl.vision.run import Run
from sna_rl.vision.search import Board
from sna_rl.vision.settling import until_settled
from sna_rl.vision.sudoku import accuracies, fill
from sna_rl.vision.sudoku_data import Splits
from sna_rl.vision.symbols import Symbols, symbol_accuracies

PICTURED = 8
UNITS = {"psnr": "decibels", "ssim": "structural similarity"}


def parse_iterations(text: str) -> list[int]:
    """Numbers of iterations: one, a list, or a range.

    Args:
        text: `16`, `8,16,32`, `8…64` or `8..64` (every fourth), `8…64:8`.

    Raises:
        UsageError: if it is none of these, or a number is under 1.

    Example:
        >>> parse_iterations("8,4"), parse_iterations("8…16"), parse_iterations("2..6:2")
        ([4, 8], [8, 12, 16], [2, 4, 6])
    """
    ranged = re.fullmatch(r"(\d+)(?:…|\.\.+|-)(\d+)(?::(\d+))?", text.strip())
    if ranged:
        first, last, step = int(ranged[1]), int(ranged[2]), int(ranged[3] or 4)
        found = list(range(first, last + 1, max(step, 1)))
    else:
        parts = [part.strip() for part in text.split(",")]
        found = (
            sorted({int(part) for part in parts if part.isdigit()}) if all(map(str.isdigit, parts)) else []
        )
    if not found or found[0] < 1:
        raise UsageError(f"--iterations takes 16, 8,16,32 or 8…64 with numbers from 1, not {text!r}")
    return found


def evaluate_run(
    run: Run, folder: Path, iterations: Sequence[int] | None, *, share: float = 0.4, n_rounds: int = 1
) -> list[str]:
    """Evaluate on the test set, and write `evaluation.csv` with a figure.

    Args:
        run: a trained run.
        folder: where to write.
        iterations: where it is read out; after those of training by default.
        share: of each image that is hidden, for masked images.
        n_rounds: of decoding, for masked images.

    Returns:
        Lines for the user.

    Raises:
        UsageError: if the share is not over 0 and under 1, or the model can't do so many iterations.
    """
    wanted = list(iterations or [run.config.model.n_iterations])
    if isinstance(run.data, Splits):
        found = accuracies(run.model, run.data.test, wanted)
        rows = [{"iteration": each.iteration, "boards": each.boards, "cells": each.cells} for each in found]
        by_givens = ", ".join(f"{givens}: {count}" for givens, count in run.data.test.givens().items())
        lines = [f"{len(run.data.test):,} boards of our own making or of --data, by givens {by_givens}"]
        return lines + _write(folder, rows, run.config.model.n_iterations)
    held_out = run.data[-1]
    if isinstance(held_out, Symbols):
        found_symbols = symbol_accuracies(run.model, held_out, wanted, share, n_rounds=n_rounds)
        rows = [{"iteration": n, "accuracy": accuracy} for n, accuracy in found_symbols.items()]
        return _write(folder, rows, run.config.model.n_iterations)
    if run.config.task.task == "classify":
        found_classes = class_accuracies(run.model, held_out, wanted)
        rows = [{"iteration": n, "accuracy": accuracy} for n, accuracy in found_classes.items()]
        return _write(folder, rows, run.config.model.n_iterations)
    rows = [
        {"iteration": n, **fidelity(run.model, held_out, share, n_rounds=n_rounds, n_iterations=n)}
        for n in wanted
    ]
    lines = _write(folder, rows, run.config.model.n_iterations)
    picture(run.model, held_out, share, folder / "filled.png", n_rounds)
    return [*lines, f"picture: {folder / 'filled.png'} (image, what was seen, what was filled in)"]


def picture(model: IterativeModel, images: Images, share: float, path: Path, n_rounds: int = 1) -> None:
    """Draw images, what was left of them, and what the model made of it, one below the other.

    Args:
        model: trained, in evaluation mode.
        images: the first eight are drawn.
        share: of each that is hidden.
        path: a png file.
        n_rounds: of decoding.
    """
    device = next(model.parameters()).device
    whole = centred(scaled(images.pixels[:PICTURED])).to(device)
    n_places = model.embed.get_buffer("places").shape[0]
    hidden = hide(len(whole), n_places, (share, share), step_generator(0, 0)).to(device)
    size = patch_size(model)
    seen = from_patches(to_patches(whole, size).masked_fill(hidden.unsqueeze(-1), 0.0), size, images.shape)
    filled = reconstruct(model, whole, hidden, n_rounds)
    figure = Figure(figsize=(len(whole), 3), dpi=120)
    for row, pixels in enumerate((whole, seen, filled)):
        for column, image in enumerate((pixels / 2.0 + 0.5).clamp(0.0, 1.0).cpu()):
            axes = figure.add_axes((column / len(whole), (2 - row) / 3, 0.98 / len(whole), 0.98 / 3))
            axes.imshow(image.movedim(0, -1).squeeze(-1).numpy(), cmap="gray", vmin=0.0, vmax=1.0)
            axes.set_axis_off()
    with atomic_write(path) as file:
        figure.savefig(file, format="png")


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
