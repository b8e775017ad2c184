"""Q-networks for DQN: separable ones with a table a finite action mode, dueling, and the MLP baselines."""

from __future__ import annotations

import math
from typing import Any

import torch
from gymnasium import spaces
from jaxtyping import Float, Int
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import create_mlp
from stable_baselines3.common.type_aliases import PyTorchObs
from stable_baselines3.dqn.policies import QNetwork
from torch import Tensor, nn

from sna_rl.agents.critic_config import CriticConfig
from sna_rl.agents.matched import matched_widths
from sna_rl.agents.networks import (
    add_layer_norm,
    matched_table_parameters,
    select,
    state_table_network,
)
from sna_rl.errors import UsageError
from sna_rl.separable import Part

BLOCK = 4096
"""Actions whose values are in memory at once when a maximum over all of them is taken."""


def make_q_network(config: CriticConfig, kwargs: dict[str, Any]) -> QNetwork:
    """Build the Q-network that a config names.

    Args:
        config: form and sizes.
        kwargs: what Stable-Baselines3's DQNPolicy passes to a QNetwork.

    Returns:
        A network from observations to one value an action.

    Raises:
        UsageError: if the critic is for continuous actions alone.
    """
    if config.critic == "spline-joint":
        raise UsageError("critic 'spline-joint' is for continuous actions; use 'cp' with factor 'spline'")
    if config.critic in ("mlp", "mlp-matched"):
        return MLPQNetwork(config, **kwargs)
    if config.critic == "dueling":
        return DuelingQNetwork(config, **kwargs)
    return SeparableQNetwork(config, **kwargs)


def action_sizes(space: spaces.Discrete) -> tuple[int, ...]:
    """Sizes of the modes of a discrete action space.

    Args:
        space: a Discrete; one that `sna_rl.envs.FactoredActions` made knows its modes.

    Returns:
        Their sizes, whose product is the number of actions; one mode for a plain Discrete.

    Example:
        >>> action_sizes(spaces.Discrete(5))
        (5,)
    """
    return tuple(int(size) for size in getattr(space, "modes", (space.n,)))


class SeparableQNetwork(QNetwork):
    """Q-values that separate between state columns and finite action modes.

    Q(s, a) = b + Σ_n g_n(s_n) + Σ_m A_m[a_m] + Σ_r λ_r Π_n φ_r^(n)(s_n) Π_m E_m[a_m, r]

    With one action mode this is V(s) + A[a] + U(s) Eᵀ: V and A are free, so that the rank binds only below
    |A| − 1. Actions of several modes are numbered with the last mode running fastest.

    Args:
        config: form and sizes.
        **kwargs: what Stable-Baselines3's DQNPolicy passes to a QNetwork.

    Cost:
        One state tower a state and R multiplications an action; `q_values` needs those of the chosen action
        alone, `greedy` never holds more than `BLOCK` actions.
    """

    def __init__(self, config: CriticConfig, *, features_dim: int, **kwargs: Any) -> None:
        net_arch, activation_fn = kwargs.pop("net_arch"), kwargs.pop("activation_fn")
        BasePolicy.__init__(self, **kwargs)
        self.net_arch, self.activation_fn, self.features_dim = net_arch, activation_fn, features_dim
        self.config = config
        self.sizes = action_sizes(self.action_space)
        self.network, self.state_columns = state_table_network(config, features_dim, self.sizes)

    def encode_state(self, features: Float[Tensor, "n features"]) -> Part:
        """The state's half of the network, evaluated once for any number of actions."""
        inputs = [select(features, group) for group in self.state_columns]
        return self.network.encode(inputs, range(len(inputs)))

    def encode_action(self, actions: Int[Tensor, " m"]) -> Part:
        """The action's half of the network."""
        first = len(self.state_columns)
        modes = range(first, first + len(self.sizes))
        return self.network.encode(unravel(actions, self.sizes), modes)

    def q_values(
        self, features: Float[Tensor, "batch features"], actions: Int[Tensor, " batch"]
    ) -> Float[Tensor, "1 batch"]:
        """Value of one chosen action a state, without building the table."""
        return self.network.combine(self.encode_state(features), self.encode_action(actions))

    def value_table(
        self, features: Float[Tensor, "n features"], actions: Int[Tensor, " m"]
    ) -> Float[Tensor, "1 n m"]:
        """Value of each state with each action."""
        return self.network.table(self.encode_state(features), self.encode_action(actions))

    def all_values(self, features: Float[Tensor, "batch features"]) -> Float[Tensor, "batch actions"]:
        """Value of every action."""
        return self.value_table(features, self._actions(0, math.prod(self.sizes), features))[0]

    def greedy(
        self, features: Float[Tensor, "batch features"]
    ) -> tuple[Float[Tensor, " batch"], Int[Tensor, " batch"]]:
        """Largest value and its action, over blocks of actions.

        Args:
            features: what the features extractor gives.

        Returns:
            Values and action numbers, the first of equal ones.
        """
        state = self.encode_state(features)
        n_actions = math.prod(self.sizes)
        blocks = []
        for start in range(0, n_actions, BLOCK):
            part = self.encode_action(self._actions(start, min(start + BLOCK, n_actions), features))
            values, actions = self.network.table(state, part)[0].max(dim=1)
            blocks.append((values, actions + start))
        if len(blocks) == 1:
            return blocks[0]
        values, block = torch.stack([values for values, _ in blocks]).max(dim=0)
        actions = torch.stack([actions for _, actions in blocks]).gather(0, block.unsqueeze(0))[0]
        return values, actions

    def forward(self, obs: PyTorchObs) -> Tensor:
        """Value of every action, (batch, actions)."""
        return self.all_values(self.extract_features(obs, self.features_extractor))

    def _predict(self, observation: PyTorchObs, deterministic: bool = True) -> Tensor:
        return self.greedy(self.extract_features(observation, self.features_extractor))[1]

    @staticmethod
    def _actions(start: int, stop: int, like: Tensor) -> Tensor:
        return torch.arange(start, stop, device=like.device)


def unravel(actions: Int[Tensor, " m"], sizes: tuple[int, ...]) -> list[Tensor]:
    """Index of each mode of numbered actions, the last mode running fastest.

    Args:
        actions: action numbers.
        sizes: sizes of the modes.

    Returns:
        One tensor of indices a mode.

    Example:
        >>> [index.tolist() for index in unravel(torch.tensor([0, 4, 5]), (2, 3))]
        [[0, 1, 1], [0, 1, 2]]
    """
    indices = []
    for size in reversed(sizes):
        indices.append(actions % size)
        actions = actions // size
    return indices[::-1]


class _DenseQNetwork(QNetwork):
    """Q-networks that give every action's value in one pass."""

    config: CriticConfig

    def all_values(self, features: Float[Tensor, "batch features"]) -> Float[Tensor, "batch actions"]:
        """Value of every action."""
        values: Tensor = self.q_net(features)
        return values

    def q_values(
        self, features: Float[Tensor, "batch features"], actions: Int[Tensor, " batch"]
    ) -> Float[Tensor, "1 batch"]:
        """Value of one chosen action a state."""
        return self.all_values(features).gather(1, actions.unsqueeze(1)).T

    def value_table(
        self, features: Float[Tensor, "n features"], actions: Int[Tensor, " m"]
    ) -> Float[Tensor, "1 n m"]:
        """Value of each state with each action."""
        return self.all_values(features)[:, actions].unsqueeze(0)

    def greedy(
        self, features: Float[Tensor, "batch features"]
    ) -> tuple[Float[Tensor, " batch"], Int[Tensor, " batch"]]:
        """Largest value and its action."""
        values, actions = self.all_values(features).max(dim=1)
        return values, actions


class MLPQNetwork(_DenseQNetwork):
    """Stable-Baselines3's own Q-network, bit for bit; LayerNorm and solved widths are options.

    Args:
        config: form and sizes; "mlp-matched" has the parameter count of the `cp` network they describe.
        **kwargs: what Stable-Baselines3's DQNPolicy passes to a QNetwork.
    """

    def __init__(self, config: CriticConfig, **kwargs: Any) -> None:
        if config.critic == "mlp-matched":
            sizes, n_features = action_sizes(kwargs["action_space"]), kwargs["features_dim"]
            budget = matched_table_parameters(config, n_features, sizes)
            kwargs["net_arch"] = matched_widths(
                budget, n_features, math.prod(sizes), len(kwargs["net_arch"]), config.has_layer_norm
            )
        super().__init__(**kwargs)
        self.config = config
        if config.has_layer_norm:
            add_layer_norm(self.q_net)


class Dueling(nn.Module):
    """Two streams: Q(s, a) = V(s) + A(s, a) − mean_a A(s, a).

    Args:
        n_inputs: size of the features.
        n_actions: number of actions.
        widths: hidden layers of each stream.
        activation_fn: activation of the hidden layers.
        layer_norm: whether hidden layers have LayerNorm.

    Source:
        Wang et al. 2016, arXiv 1511.06581, equation 9.

    Example:
        >>> Dueling(4, 3, [8], nn.ReLU, layer_norm=False)(torch.zeros(5, 4)).shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        n_inputs: int,
        n_actions: int,
        widths: list[int],
        activation_fn: type[nn.Module],
        layer_norm: bool,
    ) -> None:
        super().__init__()
        self.value = nn.Sequential(*create_mlp(n_inputs, 1, widths, activation_fn))
        self.advantage = nn.Sequential(*create_mlp(n_inputs, n_actions, widths, activation_fn))
        if layer_norm:
            add_layer_norm(self.value)
            add_layer_norm(self.advantage)

    def forward(self, features: Float[Tensor, "batch features"]) -> Float[Tensor, "batch actions"]:
        """Value of every action."""
        advantages: Tensor = self.advantage(features)
        values: Tensor = self.value(features) + advantages - advantages.mean(dim=1, keepdim=True)
        return values


class DuelingQNetwork(_DenseQNetwork):
    """Dueling Q-network: additive in its two streams, not in its inputs; no rank limit of its own.

    Args:
        config: LayerNorm or not; widths come from `net_arch`.
        **kwargs: what Stable-Baselines3's DQNPolicy passes to a QNetwork.

    Source:
        Wang et al. 2016, arXiv 1511.06581.
    """

    def __init__(self, config: CriticConfig, **kwargs: Any) -> None:
        net_arch, activation_fn = kwargs.pop("net_arch"), kwargs.pop("activation_fn")
        features_dim = kwargs.pop("features_dim")
        BasePolicy.__init__(self, **kwargs)
        self.net_arch, self.activation_fn, self.features_dim = net_arch, activation_fn, features_dim
        self.config = config
        n_actions = int(self.action_space.n)
        self.q_net = nn.Sequential(
            Dueling(features_dim, n_actions, net_arch, activation_fn, config.has_layer_norm)
        )
