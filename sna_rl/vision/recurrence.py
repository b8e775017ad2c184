"""Layers applied again and again with the same weights: any number of iterations, every state at hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int
from sna_rl.vision.baselines import make_layer
from sna_rl.vision.config import ModelConfig
from sna_rl.vision.layers import Energies, EnergyLayer, Layer
from sna_rl.vision.steps import make_steps


class State(NamedTuple):
    """Tokens after an iteration."""

    x: Float[Tensor, "batch tokens width"]
    layer: int  # number of the layer that made it
    t: int  # number of that layer's iteration, from 0
    accepted: Float[Tensor, " batch"]  # share of the proposed step that was taken


class Recurrence(nn.Module):
    """x(0) → x(1) → … ; each layer is iterated before the next one begins, and t begins anew in each.

    Args:
        config: layers, iterations, steps, truncation, recomputation, halvings.

    Example:
        >>> body = Recurrence(ModelConfig(width=8, n_heads=2, hidden=16, n_iterations=3))
        >>> [state.t for state in body.states(torch.zeros(1, 5, 8), 5)]
        [0, 1, 2, 3, 4]
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(make_layer(config) for _ in range(config.n_layers))
        self.steps = make_steps(config, self._layer(0).n_updates)

    def states(
        self, start: Float[Tensor, "batch tokens width"], n_iterations: int | None = None
    ) -> Iterator[State]:
        """Tokens after every iteration.

        Args:
            start: x(0), the embedded tokens.
            n_iterations: of each layer; those of training by default.

        Raises:
            UsageError: if there are low-rank deltas for fewer iterations.
        """
        n = check_int("n_iterations", n_iterations or self.config.n_iterations, 1)
        if self.config.lora_rank and n > self.config.n_iterations:
            raise UsageError(
                f"the model has low-rank deltas for {self.config.n_iterations} iterations, so it can't do {n}"
            )
        return self._states(start, n)

    def energy(self, state: State) -> Energies:
        """Energy of every sequence.

        Args:
            state: what `states` gave.

        Raises:
            UsageError: if the model has none.
        """
        layer = self._layer(state.layer)
        if not isinstance(layer, EnergyLayer):
            raise UsageError(f"{self.config.model} has no energy; hyper-set and energy-transformer have one")
        return layer.energy(state.x, state.t)

    def _layer(self, index: int) -> Layer:
        layer = self.layers[index]
        assert isinstance(layer, Layer)
        return layer

    def _states(self, start: Tensor, n: int) -> Iterator[State]:
        x = start
        for index in range(len(self.layers)):
            for t in range(n):
                if self.config.truncate and t and t % self.config.truncate == 0:
                    x = x.detach()
                if self.config.recompute and torch.is_grad_enabled():
                    x, accepted = checkpoint(self._advance, index, t, start, x, use_reentrant=False)
                else:
                    x, accepted = self._advance(index, t, start, x)
                yield State(x, index, t, accepted)

    def _advance(self, index: int, t: int, start: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """One iteration, and the share of the proposed steps that was taken for each sequence."""
        share = x.new_ones(len(x))
        steps = self.steps(t, start, x)
        proposed = self._move(index, t, x, steps, share)
        if not self.config.n_halvings:
            return proposed, share
        layer = self._layer(index)
        assert isinstance(layer, EnergyLayer)
        with torch.no_grad():
            before = layer.energy(x, t).total
            rises = layer.energy(proposed, t).total > before
            for halving in range(1, self.config.n_halvings + 1):
                if not rises.any():
                    break
                last = halving == self.config.n_halvings
                share = torch.where(rises, 0.0 if last else share / 2.0, share)
                moved = self._move(index, t, x, steps, share)
                rises = rises & (layer.energy(moved, t).total > before)
        return self._move(index, t, x, steps, share), share

    def _move(
        self, index: int, t: int, x: Tensor, steps: tuple[Tensor, ...], share: Float[Tensor, " batch"]
    ) -> Tensor:
        """All updates in turn, their steps times a share."""
        layer = self._layer(index)
        for which, step in enumerate(steps):
            if self.config.n_halvings:
                step = step * share[:, None, None]
            x = torch.addcmul(x, step, layer.update(x, which, t))
        return x
