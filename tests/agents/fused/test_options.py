"""Everything users switch on, by the fused update and by Stable-Baselines3's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv, FakeImageEnv
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

SMALL = {"net_arch": [6, 5], "critic": "cp", "rank": 2, "width": 5}
NORM = {"net_arch": [6], "critic": "mlp", "n_critics": 3, "layer_norm": True}
CNN = {"features_extractor_kwargs": {"features_dim": 4}}
NOISE = NormalActionNoise(np.zeros(1), 0.2 * np.ones(1))


class InADict(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Observations below two keys."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        box = env.observation_space
        self.observation_space = spaces.Dict({"now": box, "twice": spaces.Box(-np.inf, np.inf, box.shape)})

    def observation(self, observation: Any) -> dict[str, Any]:
        return {"now": observation, "twice": 2 * observation}


def several(name: str, n: int) -> VecEnv:
    return DummyVecEnv([lambda: gymnasium.make(name, max_episode_steps=13) for _ in range(n)])


def normalized(name: str) -> VecEnv:
    return VecNormalize(several(name, 2))


def images(discrete: bool) -> Any:
    env = FakeImageEnv(2, 36, 36, 1, discrete)
    env.observation_space.seed(0)
    return env


PENDULUM: dict[str, Callable[[], Any]] = {
    "normalized": lambda: normalized("Pendulum-v1"),
    "three": lambda: several("Pendulum-v1", 3),
    "dict": lambda: InADict(gymnasium.make("Pendulum-v1", max_episode_steps=13)),
    "image": lambda: images(False),
    "goal": lambda: BitFlippingEnv(3, continuous=True, max_steps=4),
}
CARTPOLE: dict[str, Callable[[], Any]] = {
    "normalized": lambda: normalized("CartPole-v1"),
    "three": lambda: several("CartPole-v1", 3),
    "dict": lambda: InADict(gymnasium.make("CartPole-v1")),
    "image": lambda: images(True),
    "goal": lambda: BitFlippingEnv(3, continuous=False, max_steps=4),
}
SHARED: dict[str, tuple[str | None, dict[str, Any]]] = {
    "n-step returns, VecNormalize": ("normalized", {"n_steps": 3}),
    "VecNormalize, learning-rate schedule": (
        "normalized",
        {"learning_rate": lambda progress: 1e-3 * progress + 1e-4},
    ),
    "all steps of several environments": ("three", {"gradient_steps": -1}),
    "n-step returns, two updates a step": (None, {"n_steps": 2, "gradient_steps": 2}),
    "Dict": ("dict", {}),
    "image": ("image", {"policy_kwargs": {**SMALL, **CNN}, "batch_size": 4}),
    "hindsight": ("goal", {"replay_buffer_class": HerReplayBuffer}),
    "weight decay, learning rate of the critic": (
        None,
        {"policy_kwargs": {**SMALL, "critic_lr_ratio": 3.0, "optimizer_kwargs": {"weight_decay": 0.1}}},
    ),
}
ACTORS: dict[str, tuple[str | None, dict[str, Any]]] = {
    "one critic, action noise": (
        None,
        {"policy_kwargs": {**SMALL, "n_critics": 1}, "action_noise": NOISE},
    ),
    "three critics": (None, {"policy_kwargs": {**SMALL, "n_critics": 3}}),
    "three MLP critics": (None, {"policy_kwargs": NORM}),
    "shared features": (
        "image",
        {"policy_kwargs": {**SMALL, **CNN, "share_features_extractor": True}, "batch_size": 4},
    ),
}
SAC: dict[str, tuple[str | None, dict[str, Any]]] = {
    "fixed entropy": (None, {"ent_coef": 0.25}),
    "entropy from a start to a target": (None, {"ent_coef": "auto_0.3", "target_entropy": -0.3}),
    "rare targets": (None, {"target_update_interval": 3, "gradient_steps": 4}),
}
TD3: dict[str, tuple[str | None, dict[str, Any]]] = {
    "actor every time": (None, {"policy_delay": 1}),
    "actor every third time": (None, {"policy_delay": 3, "gradient_steps": 2}),
    "wide target noise": (None, {"target_policy_noise": 0.9, "target_noise_clip": 0.1}),
}
DQN: dict[str, tuple[str | None, dict[str, Any]]] = {
    "frequent targets": (None, {"target_update_interval": 7, "tau": 0.5}),
    "small gradients": (None, {"max_grad_norm": 0.01}),
}
CASES = [
    pytest.param(algo, env, kwargs, id=f"{algo} {name}")
    for algo, options in (
        ("sac", {**SHARED, **ACTORS, **SAC}),
        ("td3", {**SHARED, **ACTORS, **TD3}),
        ("dqn", {**SHARED, **DQN}),
    )
    for name, (env, kwargs) in options.items()
]


@pytest.mark.parametrize(("algo", "env", "kwargs"), CASES)
def test_options_keep_the_fused_update_equal_to_the_reference(
    algo: str, env: str | None, kwargs: dict[str, Any], assert_forms_agree: Callable[..., None]
) -> None:
    envs = CARTPOLE if algo == "dqn" else PENDULUM
    assert_forms_agree(algo, envs[env] if env else None, **{"policy_kwargs": SMALL, **kwargs})
