"""A trained critic with fewer components, in the same agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from torch import Tensor

from sna_rl.agents.critics import SeparableCritic
from sna_rl.agents.fused.algorithm import FusedAlgorithm
from sna_rl.agents.networks import select
from sna_rl.agents.optimizer import optimizers
from sna_rl.agents.probe import sample_probe
from sna_rl.agents.q_networks import SeparableQNetwork, unravel
from sna_rl.agents.value_table import critic_features, critic_of
from sna_rl.errors import UsageError
from sna_rl.separable.compress import compress


@dataclass(frozen=True)
class Compression:
    """What a compression came to; one number a head.

    Args:
        rank: components kept.
        expected: RMS of what is lost on the table that was fitted.
        held_out: RMS of the change on another table of states and actions; off it nothing is claimed.
    """

    rank: int
    expected: tuple[float, ...]
    held_out: tuple[float, ...]


@torch.no_grad()
def compress_critic(
    model: OffPolicyAlgorithm, rank: int, n_states: int = 512, n_actions: int = 256, seed: int = 0
) -> Compression:
    """Give an agent's separable critic fewer components, keeping its values as well as they can be kept.

    The target becomes a copy of the compressed critic. Adam keeps the moments of the parameters that are
    untouched; the rotated ones begin anew. The agent can be saved, loaded and trained on.

    Args:
        model: SAC, TD3 or DQN with a `cp` critic and a replay buffer that holds something.
        rank: components to keep.
        n_states: states of the tables.
        n_actions: actions of the tables, half taken from the buffer, half uniform.
        seed: decides which.

    Returns:
        The error on the fitted table and on another one.

    Raises:
        UsageError: if the critic isn't separable, or not of the kind that can be compressed.

    Example:
        >>> from sna_rl.agents import SAC
        >>> agent = SAC("SNAPolicy", "Pendulum-v1", policy_kwargs={"rank": 8, "width": 8}, learning_starts=9)
        >>> _ = agent.learn(20)
        >>> compress_critic(agent, 4, n_states=16, n_actions=16).rank
        4
    """
    critic = critic_of(model)
    if not isinstance(critic, SeparableCritic | SeparableQNetwork):
        raise UsageError(
            f"{type(critic).__name__} has no components; only separable critics can be compressed"
        )
    fitted, unseen = (_sample(model, critic, n_states, n_actions, seed + i) for i in range(2))
    result = compress(critic.network, rank, *_inputs(critic, *fitted))
    before = critic.value_table(*unseen)
    old = dict(critic.network.named_parameters())
    critic.network = result.network
    change = (critic.value_table(*unseen) - before).square().mean((1, 2)).sqrt()
    _follow(model, critic)
    new = {old[name]: parameter for name, parameter in critic.network.named_parameters()}
    _hand_over(_optimizer(model), new, {old[name] for name in result.rotated})
    _record(model, critic, rank)
    return Compression(rank, tuple(result.expected.tolist()), tuple(change.tolist()))


Critic = SeparableCritic | SeparableQNetwork


def _sample(
    model: OffPolicyAlgorithm, critic: Critic, n_states: int, n_actions: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Features and actions."""
    probe = sample_probe(model, n_states, n_actions, seed)
    actions = probe.supported
    if probe.uniform is not None:
        actions = torch.cat([actions[: n_actions // 2], probe.uniform[: n_actions - n_actions // 2]])
    return critic_features(critic, probe.observations), actions


def _inputs(critic: Critic, features: Tensor, actions: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """Inputs of the state's modes and of the action's."""
    if isinstance(critic, SeparableCritic):
        return critic.columns.of_state(features), critic.columns.of_action(actions)
    return [select(features, group) for group in critic.state_columns], unravel(actions, critic.sizes)


def _target(model: OffPolicyAlgorithm) -> Any:
    policy: Any = model.policy
    return policy.critic_target if hasattr(policy, "critic_target") else policy.q_net_target


def _optimizer(model: OffPolicyAlgorithm) -> torch.optim.Optimizer:
    found = optimizers(model)
    return found["critic"] if "critic" in found else found["Q-network"]


def _follow(model: OffPolicyAlgorithm, critic: Critic) -> None:
    """Make the target a copy."""
    target = _target(model)
    target.network = deepcopy(critic.network)
    target.load_state_dict(critic.state_dict())


def _hand_over(optimizer: torch.optim.Optimizer, new: Mapping[Any, Tensor], rotated: set[Any]) -> None:
    """Put the new parameters in the places of the old ones, with their moments where nothing was rotated."""
    for group in optimizer.param_groups:
        group["params"] = [new.get(parameter, parameter) for parameter in group["params"]]
    for old, parameter in new.items():
        state = optimizer.state.pop(old, None)
        if state is not None and old not in rotated:
            optimizer.state[parameter] = state


def _record(model: OffPolicyAlgorithm, critic: Critic, rank: int) -> None:
    """Write the new rank wherever the agent is built from."""
    policy: Any = model.policy
    config = replace(critic.config, rank=rank)
    for owner in (critic, _target(model)):
        owner.config = config
    policy.critic_config = config
    model.policy_kwargs["rank"] = rank
    if isinstance(model, FusedAlgorithm):
        model.rebuild()
