"""Critics for SAC and TD3: separable ones and the MLP baselines, with one calling convention."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from stable_baselines3.common.policies import BaseModel, ContinuousCritic
from stable_baselines3.common.preprocessing import get_action_dim
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor, nn

from sna_rl.agents.critic_config import CriticConfig
from sna_rl.agents.matched import matched_widths
from sna_rl.agents.networks import (
    add_layer_norm,
    joint_network,
    matched_parameters,
    state_action_network,
)
from sna_rl.agents.value_table import stacked_values
from sna_rl.errors import UsageError
from sna_rl.separable import Part


def make_critic(config: CriticConfig, kwargs: dict[str, Any]) -> ContinuousCritic:
    """Build the critic that a config names.

    Args:
        config: form and sizes.
        kwargs: what Stable-Baselines3's policies pass to a ContinuousCritic.

    Returns:
        A critic with `forward`, `q1_forward` and `q_values`.

    Raises:
        UsageError: if the critic is for discrete actions alone.
    """
    if config.critic == "dueling":
        raise UsageError("critic 'dueling' is for DQN; use 'cp' or 'mlp' with continuous actions")
    if config.critic in ("mlp", "mlp-matched"):
        return MLPCritic(config, **kwargs)
    if config.critic == "spline-joint":
        return SplineJointCritic(config, **kwargs)
    return SeparableCritic(config, **kwargs)


class BatchedCritic(ContinuousCritic, ABC):
    """Critics whose K heads are one batched computation; `q_values` is theirs to give.

    Args:
        config: form and sizes.
        **kwargs: what Stable-Baselines3's policies pass to a ContinuousCritic.
    """

    def __init__(
        self,
        config: CriticConfig,
        *,
        features_dim: int,
        n_critics: int,
        share_features_extractor: bool,
        net_arch: list[int],
        activation_fn: type[nn.Module],
        **kwargs: Any,
    ) -> None:
        del net_arch, activation_fn  # the config's widths and ReLU take their place
        BaseModel.__init__(self, **kwargs)
        self.config = config
        self.features_dim = features_dim
        self.action_dim = get_action_dim(self.action_space)
        self.n_critics = n_critics
        self.share_features_extractor = share_features_extractor

    @abstractmethod
    def q_values(
        self, features: Float[Tensor, "batch features"], actions: Float[Tensor, "batch action"]
    ) -> Float[Tensor, "critics batch"]:
        """Every head's value of each pair; pure, so that it can be compiled and differentiated."""

    def forward(self, obs: PyTorchObs, actions: Tensor) -> tuple[Tensor, ...]:
        """One (batch, 1) tensor of values a head.

        Args:
            obs: observations as the replay buffer gives them.
            actions: actions scaled to [-1, 1].

        Returns:
            `n_critics` tensors; a shared features extractor gets no gradient through them.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.share_features_extractor):
            features = self.extract_features(obs, self.features_extractor)
        return self.q_values(features, actions).unsqueeze(-1).unbind(0)

    def q1_forward(self, obs: PyTorchObs, actions: Tensor) -> Tensor:
        """Values of the first head, (batch, 1), with a gradient to the actions alone."""
        with torch.no_grad():
            features = self.extract_features(obs, self.features_extractor)
        return self.q_values(features, actions)[0].unsqueeze(-1)


class SeparableCritic(BatchedCritic):
    """Q-values that separate between groups of state and action columns.

    Q_k(s, a) = b_k + Σ_n g_kn(x_n) + Σ_r λ_kr Π_n φ_kr^(n)(x_n), x_n the modes of state and action
    (cp with two modes; tucker and additive as in `sna_rl.separable.SeparableNetwork`).

    Args:
        config: form and sizes.
        **kwargs: what Stable-Baselines3's policies pass to a ContinuousCritic.

    Cost:
        `value_table` runs n state towers and m action towers, not n · m passes.
    """

    def __init__(self, config: CriticConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self.network, self.columns = state_action_network(
            config, self.features_dim, self.action_dim, self.n_critics
        )

    def q_values(
        self, features: Float[Tensor, "batch features"], actions: Float[Tensor, "batch action"]
    ) -> Float[Tensor, "critics batch"]:
        """Every head's value of each pair."""
        values: Tensor = self.network([*self.columns.of_state(features), *self.columns.of_action(actions)])
        return values

    def encode_state(self, features: Float[Tensor, "n features"]) -> Part:
        """The state's half of the network, evaluated once for any number of actions."""
        return self.network.encode(self.columns.of_state(features), self.columns.state_modes)

    def encode_action(self, actions: Float[Tensor, "m action"]) -> Part:
        """The action's half of the network, evaluated once for any number of states."""
        return self.network.encode(self.columns.of_action(actions), self.columns.action_modes)

    def value_table(
        self, features: Float[Tensor, "n features"], actions: Float[Tensor, "m action"]
    ) -> Float[Tensor, "critics n m"]:
        """Every head's value of each state with each action."""
        return self.network.table(self.encode_state(features), self.encode_action(actions))


class SplineJointCritic(BatchedCritic):
    """Splines over learned coordinates of state and action together.

    Q_k(s, a) = b_k + Σ_r w_kr Π_d spline_kdr(z_kd), z_k = sigmoid of a learned map of (s, a).
    Separable in the learned coordinates, not between s and a: its value table has no rank bound.

    Source:
        SPAN, arXiv 2601.23225; KHRONOS, arXiv 2505.13315.
    """

    def __init__(self, config: CriticConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self.network = joint_network(config, self.features_dim + self.action_dim, self.n_critics)

    def q_values(
        self, features: Float[Tensor, "batch features"], actions: Float[Tensor, "batch action"]
    ) -> Float[Tensor, "critics batch"]:
        """Every head's value of each pair."""
        values: Tensor = self.network([torch.cat([features, actions], dim=1)])
        return values


class MLPCritic(ContinuousCritic):
    """Stable-Baselines3's own critic, bit for bit; LayerNorm and solved widths are options.

    "mlp-matched" takes the number of hidden layers from `net_arch` and solves their widths for the parameter
    count of the separable critic that the config's other fields describe.

    Args:
        config: form and sizes.
        **kwargs: what Stable-Baselines3's policies pass to a ContinuousCritic.
    """

    def __init__(self, config: CriticConfig, **kwargs: Any) -> None:
        if config.critic == "mlp-matched":
            n_features, n_actions = kwargs["features_dim"], get_action_dim(kwargs["action_space"])
            budget = matched_parameters(config, n_features, n_actions)
            kwargs["net_arch"] = matched_widths(
                budget, n_features + n_actions, 1, len(kwargs["net_arch"]), config.has_layer_norm
            )
        super().__init__(**kwargs)
        self.config = config
        if config.has_layer_norm:
            for network in self.q_networks:
                add_layer_norm(network)

    def q_values(
        self, features: Float[Tensor, "batch features"], actions: Float[Tensor, "batch action"]
    ) -> Float[Tensor, "critics batch"]:
        """Every head's value of each pair; pure, so that it can be compiled and differentiated."""
        return stacked_values(self.q_networks, features, actions)
