"""FactoredActions: numbers, values, bounds, refusal."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sna_rl.envs.wrappers import FactoredActions, FactoredDiscrete
from sna_rl.errors import UsageError


class Echo(gymnasium.Env[Any, Any]):
    """Keeps the last action."""

    observation_space = spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self.action_space = action_space
        self.last: Any = None

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.last = action
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_multidiscrete_numbers_run_through_the_last_mode_fastest() -> None:
    inner = Echo(spaces.MultiDiscrete([2, 3], start=[0, 5]))
    env = FactoredActions(inner)
    assert env.action_space == spaces.Discrete(6)
    given = []
    for number in range(6):
        env.step(np.int64(number))
        assert inner.action_space.contains(inner.last)
        given.append(inner.last.tolist())
    assert given == [[0, 5], [0, 6], [0, 7], [1, 5], [1, 6], [1, 7]]


def test_box_is_a_grid_with_both_bounds_in_the_box_shape() -> None:
    inner = Echo(spaces.Box(np.array([[-1.0, 0.0]]), np.array([[1.0, 4.0]]), dtype=np.float64))
    env = FactoredActions(inner, n_bins=3)
    env.step(np.int64(0))
    np.testing.assert_array_equal(inner.last, [[-1.0, 0.0]])
    env.step(np.int64(5))
    np.testing.assert_array_equal(inner.last, [[0.0, 4.0]])
    assert inner.last.dtype == np.float64
    assert inner.action_space.contains(inner.last)


def test_the_space_keeps_its_modes_when_pickled_and_samples_within() -> None:
    space = pickle.loads(pickle.dumps(FactoredDiscrete((7, 3), seed=1)))
    assert space.modes == (7, 3)
    assert space.n == 21
    assert space.indices(20) == (6, 2)
    assert {int(space.sample()) for _ in range(400)} == set(range(21))


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Discrete(3), "needs no wrapper"),
        (spaces.Box(-np.inf, np.inf, (2,)), "bounded Box"),
    ],
)
def test_other_spaces_are_refused(space: spaces.Space[Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        FactoredActions(Echo(space))


def test_bad_bins_are_refused() -> None:
    with pytest.raises(UsageError, match=r"n_bins must be an int of at least 2, not 1 \(int\)"):
        FactoredActions(Echo(spaces.Box(-1, 1, (2,))), n_bins=1)
