"""What all environments of the project promise: Gymnasium's interface, seeds, pickling, bounds."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import sna_rl.envs
from sna_rl.envs.views import draw_bars, draw_choices

IDS = ["SNA/LQR-v0", "SNA/LowRankMDP-v0", "SNA/FactoredArms-v0", "SNA/Waypoint-v0"]


def rollout(env: gymnasium.Env[Any, Any], seed: int, steps: int = 60) -> list[Any]:
    observation, _ = env.reset(seed=seed)
    env.action_space.seed(seed)
    trace: list[Any] = [observation]
    for _ in range(steps):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        assert env.observation_space.contains(observation)
        trace.append((observation, reward, terminated, truncated))
        if terminated or truncated:
            trace.append(env.reset()[0])
    return trace


def flat(trace: list[Any]) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(x) for item in trace for x in (item if isinstance(item, tuple) else (item,))]


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasium_checker_has_no_complaint(env_id: str) -> None:
    check_env(gymnasium.make(env_id).unwrapped)


@pytest.mark.parametrize("env_id", IDS)
def test_a_seed_decides_everything(env_id: str) -> None:
    first, again, other = (flat(rollout(gymnasium.make(env_id), seed)) for seed in (5, 5, 6))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert len(first) != len(other) or any(
        not np.array_equal(a, b) for a, b in zip(first, other, strict=True)
    )


@pytest.mark.parametrize("env_id", IDS)
def test_a_pickled_copy_goes_on_like_the_original(env_id: str) -> None:
    env = gymnasium.make(env_id).unwrapped
    rollout(env, 1, 10)
    copy = pickle.loads(pickle.dumps(env))
    for _ in range(5):
        action = env.action_space.sample()
        for a, b in zip(env.step(action)[:2], copy.step(action)[:2], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("env_id", "limit"), [("SNA/LQR-v0", 25), ("SNA/LowRankMDP-v0", 100)])
def test_time_limits_truncate(env_id: str, limit: int) -> None:
    env = gymnasium.make(env_id)
    env.reset(seed=0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(limit)]
    assert ends[-1] == (False, True)
    assert not any(any(end) for end in ends[:-1])


@pytest.mark.parametrize("env_id", IDS)
def test_pictures_show_the_state(env_id: str) -> None:
    env = gymnasium.make(env_id, render_mode="rgb_array")
    env.reset(seed=0)
    env.action_space.seed(0)
    first = np.asarray(env.render())
    env.step(env.action_space.sample())
    second = np.asarray(env.render())
    assert first.dtype == np.uint8
    assert first.shape == second.shape
    assert first.shape[2] == 3
    assert (first != second).any()
    assert gymnasium.make(env_id).unwrapped.render() is None


def test_bars_stand_where_the_numbers_say() -> None:
    image = draw_bars([3.0, 0.0], [-1.0])
    state, action = (25, 55, 110), (214, 120, 30)
    assert tuple(image[40, 66]) == state  # the first entry, at its full height
    assert tuple(image[40, 174]) != state
    assert tuple(image[220, 120]) == action


def test_dots_stand_where_the_choices_say() -> None:
    image = draw_choices(1, 2, [0], [2])
    left, right = int(240 * 0.275), int(240 * 0.725)
    assert tuple(image[60, right]) == (25, 55, 110)
    assert tuple(image[180, left]) == (214, 120, 30)
    assert tuple(image[60, left]) == tuple(image[180, right]) == (215, 217, 220)


def test_the_module_prefix_registers_on_the_way() -> None:
    assert gymnasium.make("sna_rl.envs:SNA/LQR-v0").spec is not None


def test_a_second_name_is_refused() -> None:
    source = Path(str(sna_rl.envs.__file__))
    spec = importlib.util.spec_from_file_location("envs", source)
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ImportError, match=r"imported as 'sna_rl\.envs', not 'envs'"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
