"""The value table of any critic: own or plain Stable-Baselines3, for continuous or discrete actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import torch
from jaxtyping import Float, Shaped
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BaseModel, ContinuousCritic
from stable_baselines3.common.type_aliases import PyTorchObs
from stable_baselines3.dqn.policies import QNetwork
from torch import Tensor, nn

from sna_rl.errors import UsageError

BLOCK = 16_384
"""Pairs of state and action that one full pass of an MLP takes at once."""


def critic_of(model: BaseAlgorithm) -> ContinuousCritic | QNetwork:
    """The critic that a model learns.

    Args:
        model: SAC, TD3, DDPG or DQN, ours or Stable-Baselines3's.

    Returns:
        The online critic or Q-network.

    Raises:
        UsageError: if the algorithm has no action-value critic.
    """
    for name in ("critic", "q_net"):
        critic = getattr(model, name, None)
        if isinstance(critic, ContinuousCritic | QNetwork):
            return critic
    raise UsageError(f"{type(model).__name__} has no critic of states and actions; SAC, TD3 and DQN have one")


@torch.no_grad()
def critic_features(critic: BaseModel, observations: PyTorchObs) -> Float[Tensor, "n d"]:
    """What a critic's features extractor makes of observations.

    Args:
        critic: any critic, a distributional one too.
        observations: as the replay buffer gives them, normalised where the model normalises.

    Returns:
        Features, one row an observation.
    """
    return critic.extract_features(observations, critic.features_extractor)  # type: ignore[arg-type]


@torch.no_grad()
def value_table(
    critic: ContinuousCritic | QNetwork, features: Float[Tensor, "n d"], actions: Shaped[Tensor, m * a]
) -> Float[Tensor, "critics n m"]:
    """Value of each state with each action, one table a head: the minimum of two heads is another function.

    T[k, i, j] = Q_k(s_i, a_j)

    Args:
        critic: SAC's or TD3's critic or DQN's Q-network, ours or Stable-Baselines3's.
        features: what `critic_features` gives.
        actions: (m, d) scaled to [-1, 1], or m action numbers for a Q-network.

    Returns:
        One table a head.

    Cost:
        n + m towers for a separable critic; n · m passes, in blocks, for another.

    Example:
        >>> from stable_baselines3 import DQN
        >>> agent = DQN("MlpPolicy", "CartPole-v1", buffer_size=10)
        >>> value_table(agent.q_net, torch.zeros(5, 4), torch.arange(2)).shape
        torch.Size([1, 5, 2])
    """
    own: Callable[..., Tensor] | None = getattr(critic, "value_table", None)
    if own is not None:
        return own(features, actions)
    if isinstance(critic, QNetwork):
        values: Tensor = critic.q_net(features)
        return values[:, actions].unsqueeze(0)
    return pairwise_table(partial(q_values, critic), features, actions)


def q_values(
    critic: ContinuousCritic, features: Float[Tensor, "batch d"], actions: Float[Tensor, "batch a"]
) -> Float[Tensor, "critics batch"]:
    """Every head's value of each pair of features and action.

    Args:
        critic: one with a `q_values` of its own, or with Stable-Baselines3's `q_networks`.
        features: what its features extractor makes of observations.
        actions: scaled to [-1, 1].

    Returns:
        One row a head.

    Example:
        >>> from stable_baselines3 import SAC
        >>> agent = SAC("MlpPolicy", "Pendulum-v1", buffer_size=10)
        >>> q_values(agent.critic, torch.zeros(5, 3), torch.zeros(5, 1)).shape
        torch.Size([2, 5])
    """
    own: Callable[[Tensor, Tensor], Tensor] | None = getattr(critic, "q_values", None)
    if own is not None:
        return own(features, actions)
    return stacked_values(critic.q_networks, features, actions)


def first_q_values(
    critic: ContinuousCritic, features: Float[Tensor, "batch d"], actions: Float[Tensor, "batch a"]
) -> Float[Tensor, " batch"]:
    """The first head's value of each pair, `q_values(...)[0]`; of `q_networks` only the first is run."""
    if hasattr(critic, "q_networks"):
        return stacked_values(critic.q_networks[:1], features, actions)[0]
    return q_values(critic, features, actions)[0]


def stacked_values(
    networks: Iterable[nn.Module], features: Float[Tensor, "batch d"], actions: Float[Tensor, "batch a"]
) -> Float[Tensor, "critics batch"]:
    """Value of each pair of features and action, one row a network that reads them side by side.

    Args:
        networks: each from (batch, d + a) to (batch, 1).
        features: states.
        actions: actions.

    Returns:
        One row a network.

    Example:
        >>> stacked_values([nn.Linear(3, 1), nn.Linear(3, 1)], torch.zeros(5, 2), torch.zeros(5, 1)).shape
        torch.Size([2, 5])
    """
    pairs = torch.cat([features, actions], dim=1)
    return torch.stack([network(pairs).squeeze(-1) for network in networks])


def pairwise_table(
    q_values: Callable[[Tensor, Tensor], Tensor],
    features: Float[Tensor, "n d"],
    actions: Float[Tensor, "m a"],
) -> Float[Tensor, "critics n m"]:
    """Value of each state with each action by full passes, `BLOCK` pairs at a time.

    Args:
        q_values: (pairs, d) and (pairs, a) to (critics, pairs).
        features: states.
        actions: actions.

    Returns:
        One table a head.

    Example:
        >>> def product(s, a):
        ...     return (s * a).T
        >>> pairwise_table(product, torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [5.0]])).tolist()
        [[[3.0, 5.0], [6.0, 10.0]]]
    """
    n_actions = len(actions)
    rows = max(1, BLOCK // n_actions)
    blocks = []
    for block in torch.split(features, rows):
        values = q_values(block.repeat_interleave(n_actions, dim=0), actions.repeat(len(block), 1))
        blocks.append(values.reshape(len(values), len(block), n_actions))
    return torch.cat(blocks, dim=1)
