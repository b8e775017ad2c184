"""Factored actions for agents that know numbered actions alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sna_rl.errors import UsageError


class FactoredDiscrete(spaces.Discrete):
    """A Discrete space that knows its modes: action number a stands for one value a mode.

    a = Σ_m i_m Π_{l > m} n_l, so that the last mode runs fastest.

    Args:
        modes: sizes n_1 … n_M of the modes.
        seed: seed of its own sampling.

    Example:
        >>> space = FactoredDiscrete((3, 4))
        >>> int(space.n), space.indices(7)
        (12, (1, 3))
    """

    def __init__(self, modes: Sequence[int], seed: int | None = None) -> None:
        self.modes = tuple(int(size) for size in modes)
        super().__init__(math.prod(self.modes), seed=seed)

    def indices(self, action: int) -> tuple[int, ...]:
        """The value of each mode."""
        return tuple(int(index) for index in np.unravel_index(int(action), self.modes))

    def __repr__(self) -> str:
        return f"FactoredDiscrete({self.modes})"


class FactoredActions(gymnasium.ActionWrapper[Any, np.int64, Any], gymnasium.utils.RecordConstructorArgs):
    """Number the actions of a MultiDiscrete, or of a Box on a grid, and keep their modes.

    Each entry of a MultiDiscrete and each dimension of a Box is a mode; a Box gets `n_bins` evenly spaced
    values a dimension, both bounds among them. The action space is a `FactoredDiscrete`, which tells a
    separable Q-network its modes.

    Args:
        env: environment with a MultiDiscrete or bounded Box action space.
        n_bins: values a dimension of a Box, at least 2.

    Raises:
        UsageError: if the action space is of another kind or has no finite bounds.

    Example:
        >>> env = FactoredActions(gymnasium.make("Pendulum-v1"), n_bins=5)
        >>> env.action_space, env.action(3)
        (FactoredDiscrete((5,)), array([1.], dtype=float32))
        >>> env.close()
    """

    def __init__(self, env: gymnasium.Env[Any, Any], n_bins: int = 7) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, n_bins=n_bins)
        super().__init__(env)
        inner = env.action_space
        if isinstance(inner, spaces.MultiDiscrete):
            starts = inner.start.ravel()
            self._values = [
                np.arange(size) + start for size, start in zip(inner.nvec.ravel(), starts, strict=True)
            ]
        elif isinstance(inner, spaces.Box) and inner.is_bounded():
            if isinstance(n_bins, bool) or not isinstance(n_bins, int) or n_bins < 2:
                raise UsageError(
                    f"n_bins must be an int of at least 2, not {n_bins!r} ({type(n_bins).__name__})"
                )
            bounds = zip(inner.low.ravel(), inner.high.ravel(), strict=True)
            self._values = [np.linspace(low, high, n_bins) for low, high in bounds]
        else:
            raise UsageError(
                f"FactoredActions needs MultiDiscrete or bounded Box actions, not {inner}; "
                "a Discrete space needs no wrapper"
            )
        self._shape, self._dtype = inner.shape, inner.dtype
        self._space = FactoredDiscrete([len(values) for values in self._values])
        self.action_space = self._space

    def action(self, action: np.int64) -> NDArray[Any]:
        """The action of the wrapped environment that a number stands for.

        Args:
            action: number from 0 to the number of actions − 1.

        Returns:
            An array of the wrapped space's shape and type.
        """
        indices = self._space.indices(int(action))
        chosen = [values[index] for values, index in zip(self._values, indices, strict=True)]
        return np.array(chosen, dtype=self._dtype).reshape(self._shape)
