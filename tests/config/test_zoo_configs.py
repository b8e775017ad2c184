"""The packaged hyperparameters: every promised task is there, is registered, and makes a configuration."""

from __future__ import annotations

import importlib
import re
from itertools import pairwise
from typing import Any

import gymnasium
import pytest

from sna_rl.config import ALGORITHMS, RunConfig, read_yaml
from sna_rl.errors import UsageError
from sna_rl.zoo_configs import path, resolve

MUJOCO = (
    *("Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "InvertedDoublePendulum"),
    *("InvertedPendulum", "Pusher", "Reacher", "Swimmer", "Walker2d"),
)
CONTINUOUS = {"Pendulum-v1", "MountainCarContinuous-v0", "LunarLander-v3", "LunarLanderContinuous-v3"}
CONTINUOUS |= {"BipedalWalker-v3", "BipedalWalkerHardcore-v3", "default"} | {f"{name}-v5" for name in MUJOCO}
DISCRETE = {"CartPole-v1", "Acrobot-v1", "MountainCar-v0", "LunarLander-v3", "default"}


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_entries(algo: str) -> None:
    entries = read_yaml(path(algo))
    assert set(entries) == (DISCRETE if algo == "dqn" else CONTINUOUS)
    for env in entries:
        config = resolve(algo, env, {"seed": 1})
        assert config.critic == "cp"
        assert config.policy == "SNAPolicy"
        assert config == RunConfig.from_dict(config.to_dict())
        if env != "default":
            kwargs: dict[str, Any] = config.env_kwargs
            with gymnasium.make(env, **kwargs) as made:
                is_discrete = isinstance(made.action_space, gymnasium.spaces.Discrete)
            assert is_discrete == (algo == "dqn")


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_older_readers_read_the_files_alike(algo: str) -> None:
    pyyaml: Any = importlib.import_module("yaml")
    assert pyyaml.safe_load(path(algo).read_text()) == read_yaml(path(algo))


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_entry_tells_its_source(algo: str) -> None:
    lines = path(algo).read_text().splitlines()
    for above, line in pairwise(lines):
        if re.match(r"\S+:", line) and not line.startswith("#"):
            assert above.startswith("# "), f"{line} has no source above it"


def test_values_that_decide_whether_a_task_is_learned() -> None:
    assert resolve("sac", "Swimmer-v5").hyperparams["gamma"] == 0.9999
    assert resolve("td3", "Swimmer-v5").hyperparams["gamma"] == 0.9999
    assert resolve("sac", "HalfCheetah-v5").hyperparams["learning_starts"] == 10_000
    assert resolve("sac", "Pendulum-v1").hyperparams["learning_rate"] == 1e-3
    assert resolve("sac", "LunarLander-v3").env_kwargs == {"continuous": True}
    assert resolve("dqn", "LunarLander-v3").env_kwargs == {}
    assert resolve("dqn", "CartPole-v1").n_timesteps == 50_000


def test_unknown_algorithms_get_the_closest_name() -> None:
    with pytest.raises(UsageError, match=r"unknown algorithm 'dqnn'; did you mean 'dqn'\?"):
        path("dqnn")
