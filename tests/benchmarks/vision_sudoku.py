"""Recurrent transformer against Hyper-SET on the same Sudoku boards, at equal epochs, board by board.

Hyper-SET comes in two forms: as published, and descending, its steps positive and its gradient that of the
normalised energy. The second was added when the first was done, after tries with the selecting seed.

    python tests/benchmarks/vision_sudoku.py --select   # heads, learning rate: seed 100, validation boards
    python tests/benchmarks/vision_sudoku.py            # seeds 0 to 2, test boards

Both are continued over any number of sittings: runs from their checkpoints in --logs, finished readings
from the tables in --output.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sna_rl.runs import versions, write_json
from sna_rl.runs.rows import Rows
from sna_rl.vision.counts import n_parameters
from sna_rl.vision.run import Run
from sna_rl.vision.scores import interval
from sna_rl.vision.settings import VisionConfig
from sna_rl.vision.study import cpu_seconds, keep_settings, run_folder, trained
from sna_rl.vision.sudoku import accuracies, right_cells
from sna_rl.vision.sudoku_data import Splits, make_boards, read_splits, write_splits

FOLDER = Path(__file__).parents[2] / "results" / "vision" / "sudoku_pair"
ARMS: dict[str, dict[str, Any]] = {
    "transformer": {"model": "transformer"},
    "hyper-set": {"model": "hyper-set"},
    "descending": {"model": "hyper-set", "positive_steps": True, "step_size": 0.5, "jacobian": "exact"},
}
SELECTING_SEED, BOARDS_SEED = 100, 0
TRIALS = ((4, 5e-4), (4, 1e-3), (4, 2e-3), (4, 4e-3), (2, 1e-3), (2, 2e-3))
"""Heads and learning rate. Hyper-SET's heads hold a token's place and its digit in the same few numbers."""
COUNTS_FROM = 0.2  # share of boards that the transformer must solve for a comparison
OTHER_DATA = (
    "other data, published: Hyper-SET 54.7 % of boards (5.2 M parameters, loss on the last iteration), "
    "recurrent transformer 79.0 % (0.21 M, loss on all iterations), boards of 17 to 34 givens"
)
COMMON: dict[str, Any] = {
    "task": "sudoku", "width": 64, "hidden": 256, "n_iterations": 12, "loss_on": "all",
    "batch_size": 32, "n_warmup": 50, "lr_floor": 0.05, "n_steps": 2_000, "eval_freq": 500, "save_freq": 250,
    "n_bases": 400, "n_train": 9_000, "n_valid": 500, "n_test": 1_000, "min_givens": 17, "max_givens": 34,
}  # fmt: skip
SELECTING_STEPS = 500


def boards_of(logs: Path) -> Splits:
    """The boards of every run, generated in the first sitting."""
    folder = logs / "boards"
    if not (folder / "test.csv").exists():
        write_splits(folder, make_boards(VisionConfig().changed(COMMON).task, BOARDS_SEED))
    return read_splits(folder)


def select(logs: Path, output: Path) -> None:
    """Validation accuracy of each arm in each trial."""
    table = Rows(output / "selection.csv", ["arm", "n_heads", "learning_rate"])
    for arm, form in ARMS.items():
        for n_heads, rate in TRIALS:
            tried = {"n_heads": n_heads, "learning_rate": rate}
            if table.find(arm=arm, **tried) is not None:
                continue
            fixed = {"n_steps": SELECTING_STEPS, "eval_freq": 0, "seed": SELECTING_SEED}
            config = VisionConfig().changed(COMMON | form | fixed | tried)
            folder = logs / arm / f"heads-{n_heads}-rate-{rate:g}"
            run = trained(config, folder, "", data=boards_of(logs), progress=True)
            assert isinstance(run.data, Splits)
            (last,) = accuracies(run.model, run.data.valid, [config.model.n_iterations])
            seconds = round(cpu_seconds(run_folder(config, folder)), 1)
            numbers = {"boards": f"{last.boards:.4f}", "cells": f"{last.cells:.4f}", "cpu_seconds": seconds}
            table.add({"arm": arm, **tried, **numbers})
            print(table.rows[-1], flush=True)


def best(tried: Sequence[dict[str, str]], measure: str, n_trials: int) -> dict[str, str]:
    """The row of the highest validation score, once all trials are there."""
    if len(tried) < n_trials:
        raise SystemExit("not every model has been tried in full: run --select first")
    return max(tried, key=lambda row: float(row[measure]))


def compare(logs: Path, output: Path, seeds: list[int]) -> None:
    """Train and read what is missing."""
    keep_settings(output / "settings.yml", COMMON)
    trials = Rows(output / "selection.csv", ["arm", "n_heads", "learning_rate"]).rows
    table = Rows(output / "readings.csv", ["arm", "seed", "iteration"])
    for seed in seeds:
        for arm, form in ARMS.items():
            chosen = best([row for row in trials if row["arm"] == arm], "cells", len(TRIALS))
            own = {"n_heads": int(chosen["n_heads"]), "learning_rate": float(chosen["learning_rate"])}
            config = VisionConfig().changed(COMMON | form | own | {"seed": seed})
            first = config.model.n_iterations
            wanted = range(first, 2 * first + 1, 2)
            if all(table.find(arm=arm, seed=seed, iteration=n) for n in wanted):
                continue
            run = trained(config, logs / arm, "", data=boards_of(logs), progress=True)
            seconds = round(cpu_seconds(run_folder(config, logs / arm)), 1)
            for row in readings(run, wanted):
                if table.find(arm=arm, seed=seed, **row) is None:
                    table.add({"arm": arm, "seed": seed, **row, "cpu_seconds": seconds})
            print("\n".join(verdict(table.rows, first, COMMON["n_test"])), flush=True)


def readings(run: Run, iterations: range) -> list[dict[str, Any]]:
    """Shares of test boards and cells after each iteration, and which boards (a bit each, hexadecimal)."""
    assert isinstance(run.data, Splits)
    empty = run.data.test.puzzles == 0
    rows: list[dict[str, Any]] = []
    for n, right in right_cells(run.model, run.data.test, iterations).items():
        solved = right.all(1).numpy()
        rows.append(
            {
                "iteration": n,
                "parameters": n_parameters(run.model),
                "boards": f"{solved.mean():.4f}",
                "cells": f"{right[empty].float().mean().item():.4f}",
                "solved": packed(solved),
            }
        )
    return rows


def verdict(rows: Sequence[dict[str, str]], first: int, n_boards: int) -> list[str]:
    """Curves over the iterations, and the paired difference at the iterations of training, in lines.

    Args:
        rows: of readings.csv.
        first: L; rows are read at L, L + 2, … 2 L.
        n_boards: boards of the test set.
    """
    lines, marks = [], {}
    for arm in ARMS:
        own = [row for row in rows if row["arm"] == arm]
        if own:
            lines.append(f"{arm}: {curve(own, first)}")
        at_first = [row for row in own if row["iteration"] == str(first)]
        marks[arm] = {row["seed"]: unpacked(row["solved"], n_boards) for row in at_first}
    lines.append(OTHER_DATA)
    transformer = marks.pop("transformer")
    for arm, own_marks in marks.items():
        seeds = sorted(transformer.keys() & own_marks.keys())
        if not seeds:
            lines.append(f"{arm}: no comparison, no seed is finished by both")
        elif np.mean([transformer[seed] for seed in seeds]) <= COUNTS_FROM:
            lines.append(f"{arm}: no comparison, the transformer solves no more than {COUNTS_FROM:.0%}")
        else:
            found = interval(100 * np.mean([own_marks[seed] - transformer[seed] for seed in seeds], axis=0))
            lines.append(
                f"{arm} − transformer at {first} iterations, seeds {', '.join(seeds)}, the same "
                f"{n_boards:,} boards: {found.mean:+.1f} points [{found.low:+.1f}, {found.high:+.1f}]"
            )
    return lines


def curve(rows: Sequence[dict[str, str]], first: int) -> str:
    """Shares of boards at each iteration, means over the seeds, and how far they leave that at the first."""
    shares = {
        n: 100 * fmean(float(row["boards"]) for row in rows if row["iteration"] == n)
        for n in dict.fromkeys(row["iteration"] for row in rows)
    }
    moved = max(abs(share - shares[str(first)]) for share in shares.values())
    text = ", ".join(f"{share:.1f} at {n}" for n, share in shares.items())
    return f"{text} iterations, % of boards; at most {moved:.1f} points from {first} to {2 * first}"


def packed(solved: NDArray[np.bool_]) -> str:
    """One bit a board, as hexadecimal digits."""
    return np.packbits(solved).tobytes().hex()


def unpacked(text: str, n_boards: int) -> NDArray[np.float64]:
    """1 or 0 a board, from what `packed` gave."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), dtype=np.uint8))[:n_boards].astype(np.float64)


def main() -> None:
    """Select, or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--select", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--logs", type=Path, default=Path("logs/vision_sudoku"))
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.output.mkdir(parents=True, exist_ok=True)
    write_json(given.output / "versions.json", versions())
    if given.select:
        select(given.logs, given.output)
    else:
        compare(given.logs, given.output, given.seeds)


if __name__ == "__main__":
    main()
