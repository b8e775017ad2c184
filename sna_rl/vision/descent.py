"""Whether a model's energy falls while it iterates, and how much of the proposed steps was taken for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sna_rl.vision.model import IterativeModel
from sna_rl.vision.recurrence import State


class Descent(NamedTuple):
    """Energies along the way, the embedded input first, and the share of the proposed step that was taken."""

    attention: Float[Tensor, "states batch"]
    feed_forward: Float[Tensor, "states batch"]
    accepted: Float[Tensor, "states batch"]

    @property
    def energy(self) -> Float[Tensor, "states batch"]:
        """Both parts together."""
        return self.attention + self.feed_forward

    @property
    def fell(self) -> Bool[Tensor, "states batch"]:
        """Where it did not rise since the state before; the first counts as fallen."""
        return torch.nn.functional.pad(self.energy.diff(dim=0) <= 0, (0, 0, 1, 0), value=True)

    @property
    def monotone(self) -> Bool[Tensor, " batch"]:
        """Inputs whose energy never rose."""
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
    attention, feed_forward = zip(*(model.body.energy(state) for state in states), strict=True)
    accepted = torch.stack([state.accepted for state in states])
    return Descent(torch.stack(attention), torch.stack(feed_forward), accepted)


def states_from_start(model: IterativeModel, *inputs: Any, n_iterations: int | None = None) -> list[State]:
    """The embedded input as a state, then the states of all iterations.

    Args:
        model: in evaluation mode.
        *inputs: what its embedding takes.
        n_iterations: of each layer; those of training by default.
    """
    start = model.embed(*inputs)
    return [State(start, 0, 0, start.new_ones(len(start))), *model.body.states(start, n_iterations)]
