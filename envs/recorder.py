"""Bring an environment back to the very state it was in, in another process: by doing its episode again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium
import numpy as np


class Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Remembers how the present episode began and every action since, so that it can be repeated.

    An environment is deterministic given its generator: the generator's state before `reset`, the arguments
    of `reset` and the actions bring back everything that `step` depends on, in the simulator (MuJoCo's warm
    start and contact forces included) and in every wrapper inside this one (time limit, monitor, frame
    stack). Wrap it outermost. What an environment carries from one episode to the next outside its generator
    is not repeated.

    Cost:
        One copy of an action a step; memory grows with the length of an episode.

    Example:
        >>> env, other = (Recorder(gymnasium.make("CartPole-v1")) for _ in range(2))
        >>> _ = env.reset(seed=1), env.step(0), env.step(1)
        >>> other.replay(env.recorded())
        True
        >>> bool((env.step(1)[0] == other.step(1)[0]).all())
        True
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._beginning: dict[str, Any] | None = None
        self._actions: list[Any] = []
        self._observation: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode and forget the one before.

        Args:
            seed: seed of the environment's generator; None lets it go on.
            options: the environment's own.

        Returns:
            First observation and information.
        """
        generator = self._generator().state if seed is None else None
        self._beginning = {"generator": generator, "seed": seed, "options": options}
        self._actions = []
        self._observation, info = self.env.reset(seed=seed, options=options)
        return self._observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a step and remember its action.

        Args:
            action: the action.

        Returns:
            Observation, reward, terminated, truncated, information.
        """
        self._actions.append(np.array(action))
        self._observation, reward, terminated, truncated, info = self.env.step(action)
        return self._observation, reward, terminated, truncated, info

    def recorded(self) -> dict[str, Any]:
        """What `replay` needs: numbers, texts and arrays only.

        Returns:
            `beginning` (None before the first reset), `actions` stacked in one array (None before the first
            step), `observation` reached, and `generator`.
        """
        return {
            "beginning": self._beginning,
            "actions": np.stack(self._actions) if self._actions else None,
            "observation": self._observation,
            "generator": self._generator().state,
        }

    def replay(self, recorded: Mapping[str, Any]) -> bool:
        """Come to the state in which another environment of the same kind gave `recorded`.

        Args:
            recorded: what `recorded` returned.

        Returns:
            Whether the observation and the generator came out equal to the last bit. Where they did not, the
            environment depends on something outside its generator; it is then in the state it came to.

        Cost:
            The steps of one episode.
        """
        beginning = recorded["beginning"]
        if beginning is not None:
            if beginning["generator"] is not None:
                self._generator().state = beginning["generator"]
            self.reset(seed=beginning["seed"], options=beginning["options"])
            for action in () if recorded["actions"] is None else recorded["actions"]:
                self.step(action)
        same = _equal(self._observation, recorded["observation"])
        if beginning is None:
            self._generator().state = recorded["generator"]
        return same and _equal(self._generator().state, recorded["generator"])

    def _generator(self) -> np.random.BitGenerator:
        """Generator that the environment draws from."""
        return self.unwrapped.np_random.bit_generator


def _equal(left: Any, right: Any) -> bool:
    """Whether two observations, or two states of a generator, are equal to the last bit (NaN equals NaN)."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return np.asarray(left).tobytes() == np.asarray(right).tobytes()
    return bool(left == right)
