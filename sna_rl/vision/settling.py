"""Iterating until nothing changes any more."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from sna_rl.separable.checks import check_name
from sna_rl.vision.model import IterativeModel

PATIENCE = 2
"""Iterations in a row without a change that end it."""


class Settled(NamedTuple):
    """Where iterating ended."""

    answer: Tensor
    n_iterations: int  # of the last layer


@torch.no_grad()
def until_settled(
    model: IterativeModel,
    *inputs: Any,
    n_iterations: int | None = None,
    least: int | None = None,
    on: str = "prediction",
    tolerance: float = 1e-3,
) -> Settled:
    """Answer of the last layer's first iteration after which nothing changed for two, or of its last one.

    It does not end before the iterations of training, at which `evaluate` reads a model out.

    Args:
        model: in evaluation mode.
        *inputs: what its embedding takes.
        n_iterations: most iterations of each layer; those of training by default.
        least: iterations before which it does not end; those of training by default.
        on: prediction (the likeliest class of every answer stays) or energy (it changes by less than
            `tolerance` of its size, for every input).
        tolerance: for the energy.

    Raises:
        UsageError: if `on` is unknown, or the energy is asked of a model without one.

    Example:
        >>> from sna_rl.vision.config import ModelConfig
        >>> from sna_rl.vision.model import sudoku_model
        >>> model = sudoku_model(ModelConfig(width=8, n_heads=2, hidden=16, n_iterations=9))
        >>> board = torch.zeros(1, 81, dtype=torch.int64)
        >>> [until_settled(model, board, n_iterations=20, least=least).n_iterations for least in (None, 1)]
        [9, 3]
    """
    check_name("way to settle", on, ("prediction", "energy"))
    config = model.body.config
    first = config.n_iterations if least is None else least
    before: Tensor | None = None
    quiet = count = 0
    answer = torch.empty(0)
    for state in model.states(*inputs, n_iterations=n_iterations):
        if state.layer < config.n_layers - 1:
            continue
        answer = model.read(state)
        count = state.t + 1
        now = answer.argmax(-1) if on == "prediction" else model.body.energy(state).total
        if before is not None:
            change = (now - before).abs()
            still = change == 0 if on == "prediction" else change <= tolerance * before.abs()
            quiet = quiet + 1 if bool(still.all()) else 0
        before = now
        if quiet >= PATIENCE and count >= first:
            break
    return Settled(answer, count)
