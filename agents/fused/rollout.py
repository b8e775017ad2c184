"""Actions for the rollout straight from the networks' layers, without the policy object's detours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.dqn.policies import QNetwork
from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN
from stable_baselines3.sac.policies import Actor as SACActor
from stable_baselines3.td3.policies import Actor as TD3Actor
from torch import Tensor, nn

from sna_rl.agents.q_networks import DuelingQNetwork, MLPQNetwork, SeparableQNetwork

OWN_Q_NETWORKS = (DuelingQNetwork, MLPQNetwork, SeparableQNetwork)

DirectPolicy = Callable[[np.ndarray], np.ndarray]
"""From observations, one row an environment, to actions: scaled to [−1, 1], or their numbers."""


class FlatInputs:
    """Observations as rows of real numbers of the kind and on the device of a network's parameters."""

    def __init__(self, network: nn.Module) -> None:
        self.like: Tensor = next(network.parameters())

    def __call__(self, observations: np.ndarray) -> Tensor:
        """Tensor of shape (environments, numbers)."""
        return torch.from_numpy(observations).to(self.like).flatten(1)


class DirectGaussian:
    """SAC's actor: a standard normal number an environment and action dimension, drawn as `predict` does."""

    def __init__(self, actor: SACActor, shape: tuple[int, ...]) -> None:
        self.actor, self.shape = actor, shape
        self.inputs = FlatInputs(actor)

    @torch.no_grad()
    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Actions sampled from the policy."""
        hidden = self.actor.latent_pi(self.inputs(observations))
        mean: Tensor = self.actor.mu(hidden)
        log_std: Tensor = self.actor.log_std(hidden)  # type: ignore[operator]
        deviation = log_std.clamp(LOG_STD_MIN, LOG_STD_MAX).exp() * torch.randn_like(mean)
        actions: np.ndarray = torch.tanh(mean + deviation).cpu().numpy()
        return actions.reshape(-1, *self.shape)


class DirectDeterministic:
    """TD3's actor."""

    def __init__(self, actor: TD3Actor, shape: tuple[int, ...]) -> None:
        self.actor, self.shape = actor, shape
        self.inputs = FlatInputs(actor)

    @torch.no_grad()
    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Actions of the policy, without noise."""
        actions: np.ndarray = self.actor.mu(self.inputs(observations)).cpu().numpy()
        return actions.reshape(-1, *self.shape)


class DirectGreedy:
    """DQN's ε-greedy choice: one uniform number from NumPy's generator decides, as in `predict`."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.inputs = FlatInputs(agent.q_net)

    @torch.no_grad()
    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Random actions for all environments, or the best ones."""
        if np.random.rand() < self.agent.exploration_rate:
            return np.array([self.agent.action_space.sample() for _ in range(len(observations))])
        inputs, network = self.inputs(observations), self.agent.q_net
        best: Tensor = (
            network.greedy(inputs)[1] if hasattr(network, "greedy") else network.q_net(inputs).argmax(dim=1)
        )
        return best.cpu().numpy()


def direct_policy(agent: OffPolicyAlgorithm) -> DirectPolicy | None:
    """A direct way to the actions that an agent explores with, from the same random numbers as `predict`.

    Args:
        agent: an agent that has been set up; its networks are read at every call, so loaded parameters count.

    Returns:
        None where only the policy knows the way: gSDE, networks of other classes, observations that need
        more than flattening, layers that behave otherwise in training.

    Cost:
        The layers of the network; about a third of `policy.predict`'s time.
    """
    network: Any = getattr(agent, "q_net", None) or getattr(agent, "actor", None)
    space = agent.observation_space
    fits = (
        isinstance(space, spaces.Box)
        and not is_image_space(space, normalized_image=not network.normalize_images)
        and type(network.features_extractor) is FlattenExtractor
        and not any(isinstance(module, nn.modules.dropout._DropoutNd) for module in network.modules())
    )
    if not fits or agent.use_sde:
        return None
    if type(network) is SACActor:
        return DirectGaussian(network, agent.action_space.shape or ())
    if type(network) is TD3Actor:
        return DirectDeterministic(network, agent.action_space.shape or ())
    return DirectGreedy(agent) if type(network) is QNetwork or isinstance(network, OWN_Q_NETWORKS) else None
