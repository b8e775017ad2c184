"""The image encoder under Stable-Baselines3's agents."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor

from sna_rl.agents import DQN, ModuleExtractor, SNADQNCnnPolicy, SNASACCnnPolicy
from sna_rl.agents.algorithms import SAC
from sna_rl.vision.config import ModelConfig
from sna_rl.vision.model import ImageEncoder


class Lights(gymnasium.Env[np.ndarray[Any, Any], Any]):
    """An 8 × 8 picture that is light or dark; reward 1 for telling which."""

    def __init__(self, actions: spaces.Space[Any]) -> None:
        self.observation_space = spaces.Box(0, 255, (3, 8, 8), np.uint8)
        self.action_space = actions
        self.is_light, self.steps = False, 0

    def _picture(self) -> np.ndarray[Any, Any]:
        self.is_light = bool(self.np_random.integers(2))
        return np.full((3, 8, 8), 220 if self.is_light else 30, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._picture(), {}

    def step(self, action: Any) -> Any:
        chosen = float(np.asarray(action).flatten()[0]) > 0
        reward = float(chosen == self.is_light)
        self.steps += 1
        return self._picture(), reward, False, self.steps == 10, {}


def encoder(n_iterations: int = 2) -> ImageEncoder:
    torch.manual_seed(0)
    return ImageEncoder((3, 8, 8), 2, ModelConfig(width=16, n_heads=2, hidden=16, n_iterations=n_iterations))


@pytest.mark.parametrize(
    ("algorithm", "policy", "actions"),
    [(DQN, SNADQNCnnPolicy, spaces.Discrete(2)), (SAC, SNASACCnnPolicy, spaces.Box(-1.0, 1.0, (1,)))],
)
def test_agents_train_through_the_encoder(algorithm: Any, policy: Any, actions: spaces.Space[Any]) -> None:
    kwargs = {
        "features_extractor_class": ModuleExtractor,
        "features_extractor_kwargs": {"encoder": encoder()},
    }
    agent = algorithm(
        policy,
        Monitor(Lights(actions)),
        learning_starts=8,
        batch_size=8,
        buffer_size=100,
        update="reference",
        policy_kwargs=kwargs,
        seed=0,
    )
    parameters = [parameter.clone() for parameter in agent.policy.parameters()]
    agent.learn(24)
    now = list(agent.policy.parameters())
    assert any(not torch.equal(before, after) for before, after in zip(parameters, now, strict=True))
    found = [module for module in agent.policy.modules() if isinstance(module, ImageEncoder)]
    assert found
    assert any(parameter.grad is not None and parameter.grad.any() for parameter in found[0].parameters())
    agent.get_env().close()


def test_iterations_are_a_dial_that_costs_no_parameter() -> None:
    counts = {n: sum(each.numel() for each in encoder(n).parameters()) for n in (1, 8)}
    assert counts[1] == counts[8]
    assert encoder().features_dim == 16
