"""From a configuration to an agent: schedules, noise, classes named in text, fitting spaces."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.noise import ActionNoise, NormalActionNoise, OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from sna_rl.agents import ALGORITHMS, DQN, SAC, TD3
from sna_rl.config import RunConfig
from sna_rl.config.schedules import parse_schedule
from sna_rl.errors import UsageError
from sna_rl.training.environments import describe_space, first_line
from sna_rl.training.named import load_class

NOT_FOR_THE_ALGORITHM = (
    "policy",
    "policy_kwargs",
    "env_wrapper",
    "vec_env_wrapper",
    "frame_stack",
    "normalize",
    "monitor_kwargs",
    "callback",
)
TOO_LARGE = (RuntimeError, MemoryError, OverflowError)
"""What torch and NumPy raise for sizes that no memory holds."""
FACTORED = "sna_rl.envs.FactoredActions"
NOISES = {"normal": NormalActionNoise, "ornstein-uhlenbeck": OrnsteinUhlenbeckActionNoise}


def build(config: RunConfig, env: VecEnv) -> SAC | TD3 | DQN:
    """Make the untrained agent that a configuration describes.

    Args:
        config: the run's configuration.
        env: environments whose spaces the agent fits.

    Returns:
        The algorithm, ready to learn.

    Raises:
        UsageError: if the algorithm doesn't fit the action space, or an argument has a value it can't have.
    """
    check_action_space(config.algo, config.env, env.action_space)
    check_device(config.device)
    kwargs: dict[str, Any] = {
        key: value for key, value in deepcopy(config.hyperparams).items() if key not in NOT_FOR_THE_ALGORITHM
    }
    kwargs |= _noise(kwargs.pop("noise_type", None), kwargs.pop("noise_std", 0.1), env.action_space)
    if "learning_rate" in kwargs:
        kwargs["learning_rate"] = _schedule(kwargs["learning_rate"])
    if "replay_buffer_class" in kwargs:
        kwargs["replay_buffer_class"] = load_class(kwargs["replay_buffer_class"], ReplayBuffer)
    if isinstance(kwargs.get("train_freq"), list):
        kwargs["train_freq"] = tuple(kwargs["train_freq"])
    policy, kwargs["policy_kwargs"] = _policy(config)
    kwargs |= {"seed": config.seed, "device": config.device, "update": config.update}
    try:
        return ALGORITHMS[config.algo](policy, env, **kwargs)
    except UsageError:
        raise
    except (TypeError, ValueError, AssertionError, AttributeError, KeyError, *TOO_LARGE) as error:
        raise UsageError(f"{config.algo} can't be built for {config.env!r}: {first_line(error)}") from error


def check_action_space(algo: str, env: str, space: spaces.Space[Any]) -> None:
    """Refuse an algorithm that can't act in a space, and say what can.

    Args:
        algo: "sac", "td3" or "dqn".
        env: id, for the message.
        space: the environment's actions.

    Raises:
        UsageError: if the algorithm doesn't fit.

    Example:
        >>> check_action_space("sac", "CartPole-v1", spaces.Discrete(2))
        Traceback (most recent call last):
        ...
        sna_rl.errors.UsageError: sac needs continuous (Box) actions, but 'CartPole-v1' has Discrete(2); \
use --algo dqn
    """
    has = f"but {env!r} has {describe_space(space)}"
    if algo == "dqn" and not isinstance(space, spaces.Discrete):
        remedy = {
            spaces.Box: f"use --algo sac or td3, or -params env_wrapper:{FACTORED}",
            spaces.MultiDiscrete: f"number them with -params env_wrapper:{FACTORED}",
        }.get(type(space), "wrap the environment so that its actions are Discrete")
        raise UsageError(f"dqn needs Discrete actions, {has}; {remedy}")
    if algo != "dqn" and not isinstance(space, spaces.Box):
        remedy = "use --algo dqn"
        if isinstance(space, spaces.MultiDiscrete):
            remedy += f" with -params env_wrapper:{FACTORED}"
        raise UsageError(f"{algo} needs continuous (Box) actions, {has}; {remedy}")
    if isinstance(space, spaces.Box) and not np.isfinite([space.low, space.high]).all():
        raise UsageError(
            f"{algo} needs actions with finite bounds, but {env!r} has none; wrap it in RescaleAction"
        )


def _policy(config: RunConfig) -> tuple[str | type[BasePolicy], dict[str, Any]]:
    """Policy by alias or class, and its arguments with every class named in text imported."""
    kinds: dict[str, type] = {
        "activation_fn": nn.Module,
        "optimizer_class": torch.optim.Optimizer,
        "features_extractor_class": BaseFeaturesExtractor,
    }
    kwargs = {
        key: load_class(value, kinds[key]) if key in kinds else value
        for key, value in config.policy_kwargs.items()
    }
    if "." not in config.policy:
        return config.policy, kwargs
    policy: type[BasePolicy] = load_class(config.policy, BasePolicy)
    if not policy.__module__.startswith("sna_rl."):  # a policy from elsewhere knows no critics by name
        del kwargs["critic"], kwargs["rank"]
    return policy, kwargs


def _schedule(value: Any) -> float | LinearSchedule:
    """Constant or linear learning rate."""
    start, end = parse_schedule(value)
    return start if start == end else LinearSchedule(start, end, end_fraction=1.0)


def _noise(kind: str | None, std: float, space: spaces.Space[Any]) -> dict[str, ActionNoise]:
    """Exploration noise as an argument of the algorithm; none without a kind."""
    if kind is None:
        return {}
    mean = np.zeros(space.shape or ())
    return {"action_noise": NOISES[kind](mean, np.full_like(mean, std))}


def check_device(device: str) -> None:
    """Refuse a device that isn't there.

    Args:
        device: "auto", "cpu", "cuda:1", …

    Raises:
        UsageError: if torch can't put a tensor on it.
    """
    try:
        there = device == "auto" or torch.empty(0, device=device).numel() == 0
    except (RuntimeError, AssertionError) as error:
        raise UsageError(
            f"device {device!r} can't be used: {first_line(error)}; --device cpu always can"
        ) from error
    assert there


def updates_per_step(model: OffPolicyAlgorithm) -> float | None:
    """Gradient updates for each step of one environment; None where they follow episodes.

    Args:
        model: an agent with environments.

    Returns:
        gradient_steps / (train_freq · n_envs); 1 where gradient_steps is −1.

    Example:
        >>> from sna_rl.agents import SAC
        >>> updates_per_step(SAC("MlpPolicy", "Pendulum-v1", train_freq=4, gradient_steps=2))
        0.5
    """
    if model.gradient_steps < 0:
        return 1.0
    freq: Any = model.train_freq
    if isinstance(freq, int):
        return model.gradient_steps / (freq * model.n_envs)
    amount, unit = (freq.frequency, freq.unit.value) if hasattr(freq, "unit") else freq
    return model.gradient_steps / (amount * model.n_envs) if unit == "step" else None


def n_parameters(model: OffPolicyAlgorithm) -> tuple[int, int]:
    """Parameters of the actor and of the critic, targets left out; an actor-less DQN counts 0 for the actor.

    Args:
        model: an agent.

    Returns:
        (actor, critic); for the critic, all of its heads.

    Example:
        >>> from sna_rl.agents import DQN
        >>> n_parameters(DQN("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [8]}))
        (0, 58)
    """

    def count(module: nn.Module | None) -> int:
        return sum(parameter.numel() for parameter in module.parameters()) if module is not None else 0

    policy: Any = model.policy
    return count(getattr(policy, "actor", None)), count(getattr(policy, "critic", None) or policy.q_net)


def counted_critics(model: OffPolicyAlgorithm) -> str:
    """What the critic's number of parameters counts, in words.

    Args:
        model: an agent.

    Example:
        >>> from sna_rl.agents import SAC
        >>> counted_critics(SAC("MlpPolicy", "Pendulum-v1"))
        'both critics'
    """
    policy: Any = model.policy
    if not hasattr(policy, "critic"):
        return "Q-network"
    n_critics = policy.critic.n_critics
    return {1: "critic", 2: "both critics"}.get(n_critics, f"all {n_critics} critics")
