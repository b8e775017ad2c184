"""The tables of keys hold what Stable-Baselines3, its wrappers and our policies take, no more and no less."""

from __future__ import annotations

import dataclasses
import inspect

import pytest
import stable_baselines3
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecNormalize

from sna_rl.agents.critic_config import CRITICS as AGENTS_CRITICS
from sna_rl.agents.critic_config import CriticConfig
from sna_rl.config import ALGORITHMS, CRITICS, HYPERPARAMETERS, POLICY_KEYS
from sna_rl.config.keys import MONITOR, NORMALIZE, REPLAY_BUFFER, RUN_RULES, unknown_key

GIVEN_OTHERWISE = {"self", "env", "action_noise", "tensorboard_log", "seed", "device", "_init_setup_model"}
ZOO = {"normalize", "frame_stack", "env_wrapper", "vec_env_wrapper", "callback", "monitor_kwargs"}
NOISE = {"noise_type", "noise_std"}
OURS = {"n_target_actions", "precision"}


def parameters(called: type) -> set[str]:
    """Names of what a constructor takes."""
    return set(inspect.signature(called.__init__).parameters)  # type: ignore[misc]


MONITOR_PARAMETERS = parameters(Monitor)  # before any fixture wraps it


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_hyperparameters_are_the_constructors_and_the_zoos(algo: str) -> None:
    constructor = parameters(getattr(stable_baselines3, algo.upper()))
    noise = NOISE if "action_noise" in constructor else set()
    assert set(HYPERPARAMETERS[algo]) == constructor - GIVEN_OTHERWISE | ZOO | OURS | noise
    assert not set(HYPERPARAMETERS[algo]) & set(RUN_RULES)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_policy_keys_are_the_policies_and_the_critics(algo: str) -> None:
    policy = getattr(stable_baselines3, algo.upper()).policy_aliases["MlpPolicy"]
    spaces = {"self", "observation_space", "action_space", "lr_schedule"}
    critic = {field.name for field in dataclasses.fields(CriticConfig)}
    assert set(POLICY_KEYS[algo]) == parameters(policy) - spaces | critic


def test_critics_are_those_of_the_agents() -> None:
    assert {critic for critics in CRITICS.values() for critic in critics} == set(AGENTS_CRITICS)


def test_nested_keys_are_the_wrappers() -> None:
    assert set(NORMALIZE) == parameters(VecNormalize) - {"self", "venv"}
    assert set(MONITOR) == MONITOR_PARAMETERS - {"self", "env", "filename", "override_existing"}
    buffer = parameters(HerReplayBuffer) - parameters(BaseBuffer) - {"env", "optimize_memory_usage"}
    assert set(REPLAY_BUFFER) == buffer


def test_unknown_keys_name_the_closest_or_the_owner() -> None:
    assert str(unknown_key("td3", "polcy_delay")).endswith("for td3; did you mean 'policy_delay'?")
    assert str(unknown_key("dqn", "noise_std")) == "key 'noise_std' is for sac and td3, not dqn"
    assert str(unknown_key("sac", "sed")).endswith("did you mean 'seed'?")
