"""Whether a model's energy falls while it iterates, and how much of the proposed steps was taken for it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sna_rl.vision.model import IterativeModel
from sna_rl.vision.recurrence import State


class Descent(NamedTuple):
    """Energies along the way, the embedded input first, and the share of the proposed step that was taken.

    A state has the energy of the iteration that made it. Another layer, or other low-rank deltas, are another
    energy, so `before` is what that one was at the state before.
    """

    attention: Float[Tensor, "states batch"]
    feed_forward: Float[Tensor, "states batch"]
    before: Float[Tensor, "states batch"]
    accepted: Float[Tensor, "states batch"]

    @property
    def energy(self) -> Float[Tensor, "states batch"]:
        """Both parts together."""
        return self.attention + self.feed_forward

    @property
    def fell(self) -> Bool[Tensor, "states batch"]:
        """Where an iteration did not raise its own energy; the embedded input counts as fallen."""
        return self.energy <= self.before

    @property
    def monotone(self) -> Bool[Tensor, " batch"]:
        """Inputs of which no iteration raised its energy."""
        return self.fell.all(0)


@torch.no_grad()
def descent(model: IterativeModel, *inputs: Any, n_iterations: int | None = None) -> Descent:
    """Follow the energy of inputs.

    Args:
        model: with an energy, in evaluation mode.
        *inputs: what its embedding takes.
        n_iterations: of each layer; those of training by default.

    Raises:
        UsageError: if the model has no energy.

    Example:
        >>> from sna_rl.vision.config import ModelConfig
        >>> from sna_rl.vision.model import sudoku_model
        >>> model = sudoku_model(ModelConfig(width=8, n_heads=2, hidden=16, n_iterations=3))
        >>> found = descent(model, torch.zeros(2, 81, dtype=torch.int64))
        >>> found.energy.shape, found.monotone.tolist()  # nothing moves before training
        (torch.Size([4, 2]), [True, True])
    """
    return along(model, states_from_start(model, *inputs, n_iterations=n_iterations))


def along(model: IterativeModel, states: Sequence[State]) -> Descent:
    """Energies of states that follow each other.

    Args:
        model: with an energy.
        states: what `states_from_start` gave.

    Raises:
        UsageError: if the model has no energy.
    """
    energies = [model.body.energy(state) for state in states]
    before = [energies[0].total]
    before += [model.body.energy(now._replace(x=last.x)).total for last, now in pairwise(states)]
    columns = (*zip(*energies, strict=True), before, [state.accepted for state in states])
    return Descent(*(torch.stack(tuple(column)) for column in columns))


def states_from_start(model: IterativeModel, *inputs: Any, n_iterations: int | None = None) -> list[State]:
    """The embedded input as a state, then the states of all iterations.

    Args:
        model: in evaluation mode.
        *inputs: what its embedding takes.
        n_iterations: of each layer; those of training by default.
    """
    start = model.embed(*inputs)
    return [State(start, 0, 0, start.new_ones(len(start))), *model.body.states(start, n_iterations)]
