"""Tiny environments with known values, and agents on them in plain Stable-Baselines3 classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import gymnasium
import numpy as np
import pytest
import stable_baselines3
from gymnasium import spaces
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from sna_rl.agents.policies import SNADQNPolicy, SNASACPolicy, SNATD3Policy

ACTIONS = np.linspace(-1.0, 1.0, 5)


class Product(gymnasium.Env[Any, Any]):
    """One step an episode, reward s · a: Q(s, a) = s · a, interaction rank 1, best action sign(s)."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]

    def __init__(self, discrete: bool = False) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = (
            spaces.Discrete(len(ACTIONS)) if discrete else spaces.Box(-1.0, 1.0, (1,), np.float32)
        )
        self.state = np.zeros(2, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        return self.state, {}

    def step(self, action: Any) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        value = ACTIONS[int(action)] if isinstance(self.action_space, spaces.Discrete) else float(action[0])
        return self.state, float(self.state[0] * value), True, False, {}


class MakeAgent(Protocol):
    """`make_agent("sac", critic="cp")`: a plain Stable-Baselines3 agent on Product with tiny networks."""

    def __call__(self, algo: str, seed: int = 0, env: Any = None, **policy_kwargs: Any) -> Any: ...


ALGORITHMS: dict[str, tuple[type[OffPolicyAlgorithm], type[Any]]] = {
    "sac": (stable_baselines3.SAC, SNASACPolicy),
    "td3": (stable_baselines3.TD3, SNATD3Policy),
    "dqn": (stable_baselines3.DQN, SNADQNPolicy),
}


@pytest.fixture
def make_agent() -> MakeAgent:
    """Builder of agents."""

    def make(algo: str, seed: int = 0, env: Any = None, **policy_kwargs: Any) -> Any:
        algorithm, policy = ALGORITHMS[algo]
        kwargs = {"net_arch": [16], "rank": 4, "width": 16, "depth": 1, "n_coordinates": 4, "n_knots": 6}
        kwargs |= policy_kwargs
        env = Product(discrete=algo == "dqn") if env is None else env
        return algorithm(
            policy,
            env,
            policy_kwargs=kwargs,
            learning_rate=3e-3,
            learning_starts=10,
            buffer_size=2000,
            batch_size=32,
            seed=seed,
            device="cpu",
        )

    return make


@pytest.fixture
def product_env() -> Callable[..., Product]:
    """The environment's class."""
    return Product
