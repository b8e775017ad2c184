from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeAwareObservation
from stable_baselines3.common.monitor import Monitor

from sna_rl.envs.recorder import Recorder

IDS = ["Hopper-v5", "HalfCheetah-v5", "Ant-v5", "Pendulum-v1", "CartPole-v1", "LunarLander-v3", "SNA/LQR-v0"]


def recorder(env: str) -> Recorder:
    return Recorder(TimeAwareObservation(Monitor(gymnasium.make(env))))


def play(env: Recorder, n_steps: int) -> list[Any]:
    seen = []
    for _ in range(n_steps):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        seen.append((observation.tobytes(), float(reward), terminated, truncated))
        if terminated or truncated:
            seen.append(env.reset()[0].tobytes())
    return seen


@pytest.mark.parametrize("name", IDS)
def test_a_replayed_environment_goes_on_bit_for_bit(name: str) -> None:
    original, other = recorder(name), recorder(name)
    original.action_space.seed(0)
    original.reset(seed=5)
    play(original, 137)
    other.reset(seed=77)
    other.action_space.seed(1)
    play(other, 20)
    assert other.replay(original.recorded())
    for env in (original, other):
        env.action_space.seed(2)
    assert play(other, 80) == play(original, 80)


def test_mujoco_comes_back_with_its_warm_start_and_contact_forces() -> None:
    original, other = recorder("Ant-v5"), recorder("Ant-v5")
    original.reset(seed=0)
    original.action_space.seed(0)
    play(original, 60)
    assert other.replay(original.recorded())
    left, right = original.unwrapped.data, other.unwrapped.data  # type: ignore[attr-defined]
    for name in ("qpos", "qvel", "qacc_warmstart", "ctrl", "cfrc_ext", "xpos", "xipos", "qfrc_constraint"):
        assert getattr(left, name).tobytes() == getattr(right, name).tobytes(), name
    assert left.time == right.time
    assert np.abs(left.qacc_warmstart).max() > 0


def test_time_limit_and_monitor_come_back() -> None:
    original, other = recorder("Pendulum-v1"), recorder("Pendulum-v1")
    original.reset(seed=0)
    play(original, 150)
    assert other.replay(original.recorded())
    for _ in range(49):
        assert not other.step(np.zeros(1))[3]
    *_, truncated, info = other.step(np.zeros(1))
    assert truncated
    assert info["episode"]["l"] == 200


def test_before_the_first_reset_there_is_only_the_generator() -> None:
    original, other = recorder("Pendulum-v1"), recorder("Pendulum-v1")
    assert other.replay(original.recorded())
    assert original.reset()[0].tobytes() == other.reset()[0].tobytes()


class Drifting(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Depends on how often it was stepped in its whole life."""

    life = 0

    def step(self, action: Any) -> Any:
        self.life += 1
        observation, *rest = self.env.step(action)
        return (observation + self.life, *rest)


def test_an_environment_that_cannot_be_repeated_says_so() -> None:
    original, other = (Recorder(Drifting(gymnasium.make("Pendulum-v1"))) for _ in range(2))
    original.reset(seed=0)
    original.step(np.zeros(1))
    original.reset()
    original.step(np.zeros(1))
    assert not other.replay(original.recorded())
