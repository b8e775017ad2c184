"""Any critic of Stable-Baselines3 or sb3-contrib as value tables, one a head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from gymnasium import spaces
from jaxtyping import Float, Shaped
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.torch_layers import create_mlp
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor, nn

from sna_rl.agents.value_table import critic_features, pairwise_table, value_table
from sna_rl.errors import SnaError, UsageError
from sna_rl.separable import SeparableNetwork
from sna_rl.separable.growing import GrowingInteraction

MLP_WIDTHS = [256, 256]
"""Hidden layers of the untrained MLP that every critic is set beside."""

Function = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Heads:
    """A critic as functions of features and actions, one a head; a distribution is read by its mean.

    Args:
        module: the critic.
        table: features "n d" and actions "m ..." to "heads n m".
        values: features "n d" and actions "n ..." to "heads n".
    """

    module: Any
    table: Function
    values: Function

    def features(self, observations: PyTorchObs) -> Float[Tensor, "n d"]:
        """What the critic's own features extractor makes of observations."""
        return critic_features(self.module, observations)

    @torch.no_grad()
    def tables(
        self, features: Float[Tensor, "n d"], actions: Shaped[Tensor, "m ..."]
    ) -> Float[Tensor, "heads n m"]:
        """Value of each state with each action, one table a head.

        Raises:
            SnaError: if a value is NaN or infinite.
        """
        values = self.table(features, actions)
        wrong = int((~values.isfinite()).sum())
        if wrong:
            raise SnaError(
                f"the critic gives NaN or infinite values for {wrong:,} of {values.numel():,} pairs of state "
                "and action; nothing can be read off it, load an earlier checkpoint"
            )
        return values

    @property
    def network(self) -> SeparableNetwork | None:
        """The separable network inside, None in any other critic."""
        network = getattr(self.module, "network", None)
        separable = isinstance(network, SeparableNetwork) and hasattr(self.module, "encode_state")
        return network if separable else None

    @property
    def rank(self) -> int | None:
        """Most components that a table of this critic can have; None where nothing bounds it."""
        network = self.network
        if network is None:
            return None
        if isinstance(network.interaction, GrowingInteraction):
            return network.interaction.n_active
        return min(network.layout.ranks) if network.layout.interacts else 0


def heads_of(model: BaseAlgorithm) -> Heads:
    """The critic that a model has learned.

    Args:
        model: SAC, TD3, DDPG, DQN, TQC, CrossQ or QR-DQN.

    Returns:
        Its heads, in evaluation mode.

    Raises:
        UsageError: if the algorithm has no Q-function.
    """
    for name in ("critic", "q_net", "quantile_net"):
        module = getattr(model.policy, name, None)
        if module is not None:
            return _heads(module)
    raise UsageError(
        f"{type(model).__name__} has no Q-function to diagnose, a value of states alone has no rank; "
        "SAC, TD3, DDPG, DQN, TQC, CrossQ and QR-DQN have one"
    )


def fresh_heads(model: BaseAlgorithm) -> Heads:
    """The same critic with new random parameters: the first null.

    Args:
        model: a model with a Q-function; it is not changed.

    Returns:
        Heads over the same features.
    """
    policy: Any = model.policy
    for name in ("make_critic", "make_q_net", "make_quantile_net"):
        make = getattr(policy, name, None)
        if make is not None:
            return _heads(make())
    raise UsageError(f"{type(policy).__name__} does not say how to make its critic anew")


def untrained_mlp(features_dim: int, action_space: spaces.Space[Any], device: torch.device) -> Heads:
    """An MLP with random parameters over the same features and actions: the second null.

    Args:
        features_dim: number of features.
        action_space: Box or Discrete.
        device: where the features lie.

    Returns:
        Heads with one head, as Stable-Baselines3 would initialise it.
    """
    if isinstance(action_space, spaces.Discrete):
        network = nn.Sequential(*create_mlp(features_dim, int(action_space.n), MLP_WIDTHS)).to(device)
        return _choosing(network, network)
    n_inputs = features_dim + int(torch.tensor(action_space.shape).prod())
    network = nn.Sequential(*create_mlp(n_inputs, 1, MLP_WIDTHS)).to(device)
    return _joint(network, [network])


def _heads(module: Any) -> Heads:
    """Heads of one critic module."""
    module.set_training_mode(False)
    if hasattr(module, "q_values"):
        return Heads(module, partial(value_table, module), module.q_values)
    if hasattr(module, "q_networks"):  # Stable-Baselines3's own critic, TQC's and CrossQ's
        return _joint(module, list(module.q_networks))
    if hasattr(module, "q_net"):
        return _choosing(module, module.q_net)
    n_actions = int(module.action_space.n)
    return _choosing(
        module, lambda features: module.quantile_net(features).unflatten(1, (-1, n_actions)).mean(1)
    )


def _joint(module: nn.Module, networks: list[nn.Module]) -> Heads:
    """Networks that read state and action side by side; several outputs (quantiles) are averaged."""

    def values(features: Tensor, actions: Tensor) -> Tensor:
        pairs = torch.cat([features, actions], dim=1)
        return torch.stack([network(pairs).mean(1) for network in networks])

    return Heads(module, lambda features, actions: pairwise_table(values, features, actions), values)


def _choosing(module: nn.Module, network: Callable[[Tensor], Tensor]) -> Heads:
    """A network that reads the state and gives one value an action."""
    return Heads(
        module,
        lambda features, actions: network(features)[:, actions].unsqueeze(0),
        lambda features, actions: network(features).gather(1, actions[:, None]).mT,
    )
