"""Direct actions in rollouts against those of the policy object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv

from sna_rl.agents import ALGORITHMS
from sna_rl.agents.fused.algorithm import FusedAlgorithm
from sna_rl.agents.fused.rollout import direct_policy

ENVS = {"sac": "Pendulum-v1", "td3": "Pendulum-v1", "dqn": "CartPole-v1"}


def agent_of(algo: str, **kwargs: Any) -> FusedAlgorithm:
    return ALGORITHMS[algo]("SNAPolicy", kwargs.pop("env", ENVS[algo]), seed=3, **kwargs)


@pytest.mark.parametrize("critic", ["mlp", "cp"])
@pytest.mark.parametrize("algo", ["sac", "td3", "dqn"])
def test_direct_actions_are_the_policys_and_draw_the_same_numbers(algo: str, critic: str) -> None:
    agent = agent_of(algo, policy_kwargs={"critic": critic})
    direct = direct_policy(agent)
    assert direct is not None
    (n_inputs,) = agent.observation_space.shape or ()
    observations = np.random.default_rng(0).standard_normal((5, n_inputs)).astype(np.float32)
    for _ in range(3):
        state, numbers = torch.get_rng_state(), np.random.get_state(legacy=False)
        expected, _ = agent.predict(observations, deterministic=False)
        after, position = torch.get_rng_state(), np.random.get_state(legacy=False)["state"]["pos"]
        torch.set_rng_state(state)
        np.random.set_state(numbers)
        actions = direct(observations)
        assert torch.equal(torch.get_rng_state(), after)
        assert np.random.get_state(legacy=False)["state"]["pos"] == position
        if algo != "dqn":
            actions = agent.policy.unscale_action(actions)
        np.testing.assert_allclose(actions, expected, rtol=1e-5, atol=1e-6)


def test_an_action_is_stored_as_it_was_taken() -> None:
    noise = NormalActionNoise(np.zeros(1), np.full(1, 0.5))
    agent = agent_of("td3", action_noise=noise, learning_starts=0, gradient_steps=0, buffer_size=50)
    agent.learn(20)
    stored = agent.replay_buffer.actions[:20, 0]  # type: ignore[union-attr]
    assert stored.dtype == np.float32
    assert np.abs(stored).max() <= 1.0
    assert len(np.unique(stored)) > 10


def test_random_actions_of_dqn_are_the_action_spaces() -> None:
    agent = agent_of("dqn", policy_kwargs={"critic": "mlp"})
    agent.exploration_rate = 1.0  # type: ignore[attr-defined]
    direct = direct_policy(agent)
    assert direct is not None
    agent.action_space.seed(0)
    actions = direct(np.zeros((40, 4), np.float32))
    agent.action_space.seed(0)
    assert actions.tolist() == [agent.action_space.sample() for _ in range(40)]


class InADict(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Observations below a key."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = spaces.Dict({"state": env.observation_space})

    def observation(self, observation: Any) -> dict[str, Any]:
        return {"state": observation}


def test_what_only_the_policy_knows_goes_through_it() -> None:
    assert direct_policy(agent_of("sac", use_sde=True)) is None
    env = DummyVecEnv([lambda: InADict(gymnasium.make("Pendulum-v1"))])
    assert direct_policy(agent_of("sac", env=env)) is None


def test_the_reference_keeps_to_the_policy() -> None:
    assert agent_of("sac", update="reference", learning_starts=2).learn(4)._direct is None
    assert agent_of("sac", update="eager", learning_starts=2, buffer_size=20).learn(4)._direct is not None


@pytest.mark.parametrize("n_envs", [1, 3])
def test_several_environments_get_the_actions_of_the_plain_path(n_envs: int) -> None:
    env = DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")] * n_envs)
    agent = agent_of("sac", env=env, update="eager", learning_starts=0, gradient_steps=0, buffer_size=50)
    agent.learn(3 * n_envs)
    taken = []
    for sample in (FusedAlgorithm._sample_action, OffPolicyAlgorithm._sample_action):
        torch.manual_seed(5)
        taken.append(sample(agent, 0, None, n_envs))
    for ours, theirs in zip(*taken, strict=True):
        assert ours.shape == theirs.shape == (n_envs, 1)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_loaded_parameters_count_at_once(tmp_path: Path) -> None:
    first, second = (ALGORITHMS["sac"]("SNAPolicy", "Pendulum-v1", seed=seed) for seed in (0, 1))
    observations = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)

    def actions(direct: Any) -> np.ndarray:
        torch.manual_seed(5)
        taken: np.ndarray = direct(observations)
        return taken

    direct = direct_policy(second)
    expected = actions(direct_policy(first))
    assert not np.allclose(actions(direct), expected)
    first.save(tmp_path / "first.zip")
    second.set_parameters(str(tmp_path / "first.zip"))
    np.testing.assert_array_equal(actions(direct), expected)
