"""States, actions and gradients to look at a critic with, drawn without touching training's generators."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, SAC, TD3
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import PyTorchObs
from stable_baselines3.dqn.policies import QNetwork
from torch import Tensor
from torch.nn import functional as F

from sna_rl.agents.value_table import critic_of
from sna_rl.errors import UsageError
from sna_rl.separable.spectrum import gradient_ratio


@contextmanager
def undisturbed(seed: int, device: torch.device) -> Iterator[None]:
    """Seed Python's, numpy's and torch's global generators for a while, then put them back as they were.

    Args:
        seed: seed for the time inside.
        device: where the model lies; its generator is kept too.

    Example:
        >>> _ = torch.manual_seed(0); expected = torch.rand(1); _ = torch.manual_seed(0)
        >>> with undisturbed(7, torch.device("cpu")):
        ...     _ = torch.rand(3), np.random.rand(3)
        >>> bool(torch.rand(1) == expected)
        True
    """
    python, numpy = random.getstate(), np.random.get_state()
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


@dataclass(frozen=True)
class Probe:
    """States and actions of a value table.

    Args:
        observations: states from the replay buffer, normalised as the critic sees them.
        supported: actions from the replay buffer, scaled to [-1, 1], or action numbers.
        uniform: actions spread evenly over the action space; None where `supported` already holds every
            action there is.
    """

    observations: PyTorchObs
    supported: Tensor
    uniform: Tensor | None


def sample_probe(model: OffPolicyAlgorithm, n_states: int, n_actions: int, seed: int) -> Probe:
    """Draw the states and actions of a value table.

    Args:
        model: a model whose replay buffer holds something.
        n_states: number of states.
        n_actions: number of actions; a Discrete space with no more gives all of them.
        seed: decides the draw; no generator of the training is touched.

    Returns:
        A probe.

    Raises:
        UsageError: if the replay buffer is empty.
    """
    with undisturbed(seed, model.device):
        observations = sample_batch(model, n_states).observations
        space = model.action_space
        if isinstance(space, spaces.Discrete) and space.n <= n_actions:
            return Probe(observations, torch.arange(int(space.n), device=model.device), None)
        actions = sample_batch(model, n_actions).actions
        if isinstance(space, spaces.Discrete):
            uniform = torch.randperm(int(space.n))[:n_actions].to(model.device)
            return Probe(observations, actions.flatten().long().unique(), uniform)
        uniform = 2.0 * torch.rand(actions.shape, device=model.device) - 1.0
        return Probe(observations, actions, uniform)


def has_samples(model: OffPolicyAlgorithm) -> bool:
    """Whether the replay buffer has anything to give; one that relabels goals needs a whole episode.

    Args:
        model: any off-policy model.

    Returns:
        False where `sample_batch` would fail.
    """
    buffer = model.replay_buffer
    return buffer is not None and buffer.size() > 0 and bool(np.any(getattr(buffer, "ep_length", 1)))


def sample_batch(model: OffPolicyAlgorithm, n: int) -> Any:
    """A batch from the replay buffer as training gets it, drawn from the global generators.

    Args:
        model: a model whose replay buffer holds something.
        n: number of transitions.

    Returns:
        What the replay buffer's `sample` returns.

    Raises:
        UsageError: if the replay buffer is empty.
    """
    if not has_samples(model):
        raise UsageError("the replay buffer is empty; a value table needs states that were seen: train first")
    buffer = model.replay_buffer
    assert buffer is not None
    return buffer.sample(n, env=model._vec_normalize_env)


def batch_values(model: OffPolicyAlgorithm, observations: Any, actions: Tensor) -> Tensor:
    """Values that the critic gives a batch, one row a transition.

    Args:
        model: SAC, TD3, DDPG or DQN.
        observations: as the replay buffer gives them.
        actions: as the replay buffer gives them; DQN's network needs none.

    Returns:
        One column a head; of DQN one an action.
    """
    critic = critic_of(model)
    if isinstance(critic, QNetwork):
        values: Tensor = critic(observations)
        return values
    return torch.cat(critic(observations, actions), dim=1)


def critic_loss(model: OffPolicyAlgorithm, batch: Any) -> Tensor:
    """The loss that the model's `train` would take on a batch, with a graph to the critic's parameters.

    ½ Σ_k mean (Q_k(s, a) − y)² for SAC and TD3, Huber's loss for DQN; y as in each algorithm, DQN's from the
    target network's maximum.

    Args:
        model: SAC, TD3, DDPG or DQN.
        batch: what the replay buffer gives.

    Returns:
        A scalar.

    Raises:
        UsageError: if the algorithm is another one.
    """
    with torch.no_grad():
        discounts = model.gamma if batch.discounts is None else batch.discounts
        targets = batch.rewards + (1 - batch.dones) * discounts * _next_values(model, batch.next_observations)
    if isinstance(model, DQN):
        values = model.q_net(batch.observations).gather(1, batch.actions.long())
        return F.smooth_l1_loss(values, targets)
    heads = critic_of(model)(batch.observations, batch.actions)
    losses = torch.stack([F.mse_loss(head, targets) for head in heads])
    return losses.sum() * (0.5 if isinstance(model, SAC) else 1.0)


def _next_values(model: OffPolicyAlgorithm, observations: Any) -> Tensor:
    """Value of the next state, (batch, 1), as the algorithm's target takes it."""
    if isinstance(model, DQN):
        values: Tensor = model.q_net_target(observations)
        return values.amax(dim=1, keepdim=True)
    if isinstance(model, SAC):
        actions, log_prob = model.actor.action_log_prob(observations)
        values = _smallest(model.critic_target(observations, actions))
        log_alpha = model.log_ent_coef
        alpha = model.ent_coef_tensor if log_alpha is None else log_alpha.exp()
        return values - alpha * log_prob.reshape(-1, 1)
    if isinstance(model, TD3):
        actions = model.actor_target(observations)
        noise = (torch.randn_like(actions) * model.target_policy_noise).clamp(
            -model.target_noise_clip, model.target_noise_clip
        )
        actions = (actions + noise).clamp(-1, 1)
        return _smallest(model.critic_target(observations, actions))
    raise UsageError(f"no critic loss is known for {type(model).__name__}; SAC, TD3 and DQN have one")


def _smallest(heads: tuple[Tensor, ...]) -> Tensor:
    return torch.cat(heads, dim=1).amin(dim=1, keepdim=True)


def branch_gradient_ratio(model: OffPolicyAlgorithm, n: int, seed: int) -> float | None:
    """Gradient that the critic's loss sends to the interaction, relative to the additive branches.

    RMS over the interaction's parameters ÷ RMS over the branches' parameters, in a pass of its own before
    any clipping; gradients stored for training stay as they are. Below 0.01 for long: a dead branch.

    Args:
        model: SAC, TD3 or DQN.
        n: number of transitions.
        seed: decides the draw.

    Returns:
        The ratio, None where the critic has no interaction or no parameters of its own for it.
    """
    network = getattr(critic_of(model), "network", None)
    if network is None:
        return None
    interaction, branches = list(network.interaction_parameters()), list(network.branch_parameters())
    if not interaction or not branches:
        return None
    with undisturbed(seed, model.device), torch.enable_grad():
        loss = critic_loss(model, sample_batch(model, n))
        gradients = torch.autograd.grad(loss, [*interaction, *branches])
    return gradient_ratio(gradients[: len(interaction)], gradients[len(interaction) :])
