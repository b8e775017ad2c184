"""What a trained model gets right on its test set, input by input, and how sure a mean of that is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sna_rl.errors import UsageError
from sna_rl.vision.classify import right_images
from sna_rl.vision.images import Images
from sna_rl.vision.run import Run
from sna_rl.vision.sudoku import right_cells
from sna_rl.vision.sudoku_data import Splits

N_RESAMPLES = 2_000


class Interval(NamedTuple):
    """A mean and the bounds of its 95 % interval."""

    mean: float
    low: float
    high: float


def scores(run: Run, n_iterations: int | None = None) -> dict[str, NDArray[np.float64]]:
    """Score of every input of the test set, from 0 to 1.

    Args:
        run: of Sudoku or of classification, in evaluation mode.
        n_iterations: of each layer; those of training by default.

    Returns:
        Of Sudoku `boards` (1 where every cell is right) and `cells` (share of the empty cells that are
        right); of classification `accuracy` (1 where the class is right).

    Raises:
        UsageError: if the run is of another task.
    """
    n = n_iterations or run.config.model.n_iterations
    test = run.data[-1]
    if isinstance(run.data, Splits):
        right = right_cells(run.model, run.data.test, [n])[n]
        empty = run.data.test.puzzles == 0
        cells = (right & empty).sum(1) / empty.sum(1)
        return {"boards": right.all(1).double().numpy(), "cells": cells.double().numpy()}
    if run.config.task.task != "classify" or not isinstance(test, Images):
        raise UsageError(f"single inputs are scored for sudoku and classify, not for {run.config.task.task}")
    return {"accuracy": right_images(run.model, test, [n])[n].double().numpy()}


def interval(values: ArrayLike, seed: int = 0) -> Interval:
    """Mean of independent values, and its 95 % bootstrap interval (percentiles).

    Of two models scored on the same inputs, the interval of the differences is the paired one.

    Args:
        values: one number an input.
        seed: of the resampling.

    Example:
        >>> interval([0.5, 0.5, 0.5])
        Interval(mean=0.5, low=0.5, high=0.5)
        >>> found = interval(np.arange(100) % 2)  # standard deviation of the mean 0.05
        >>> found.mean, round(found.low, 1), round(found.high, 1)
        (0.5, 0.4, 0.6)
    """
    from scipy.stats import bootstrap

    numbers = np.asarray(values, dtype=np.float64)
    found: Any = bootstrap(
        (numbers,), np.mean, n_resamples=N_RESAMPLES, batch=100, method="percentile", rng=seed
    )
    bounds = found.confidence_interval
    return Interval(float(numbers.mean()), float(bounds.low), float(bounds.high))
