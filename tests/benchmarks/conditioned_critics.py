"""SAC critics whose action components hang on the state: a try on the way from separable to joint critics.

Their policies are trained by name, from the project's root:

    PYTHONPATH=. sna-rl train --algo sac --env HalfCheetah-v5 -n 100000 --seed 100 --eval-freq 10000 \\
        --eval-episodes 5 -f logs --gym-packages tests.benchmarks.conditioned_critics \\
        -params policy:tests.benchmarks.conditioned_critics.HyperPolicy
"""

from __future__ import annotations

import math
from typing import Any

import torch
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from sna_rl.agents import SNASACPolicy
from sna_rl.agents.critic_config import CriticConfig
from sna_rl.agents.critics import BatchedCritic
from sna_rl.separable.linear import EnsembleHead, EnsembleLayerNorm, EnsembleLinear

WIDTH, RANK = 128, 32
N_SHIFTED, N_HYPER = 128, 64


class StateTower(nn.Module):
    """Two hidden layers with LayerNorm, as the default critic's."""

    def __init__(self, n_members: int, n_features: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            EnsembleLinear(n_members, n_features, WIDTH), EnsembleLayerNorm(n_members, WIDTH), nn.ReLU(),
            EnsembleLinear(n_members, WIDTH, WIDTH), EnsembleLayerNorm(n_members, WIDTH), nn.ReLU(),
        )  # fmt: skip

    def forward(self, features: Tensor) -> Tensor:
        """(K, batch, width)."""
        hidden: Tensor = self.layers(features)
        return hidden


class ConditionedCritic(BatchedCritic):
    """K heads Q(s, a) = V(s) + f(a; h(s)); f is a subclass's."""

    def __init__(self, config: CriticConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self.tower = StateTower(self.n_critics, self.features_dim)
        self.value = EnsembleHead(self.n_critics, WIDTH)
        self.make(self.n_critics, self.action_dim)

    def make(self, n_members: int, n_actions: int) -> None:
        """Layers of `advantage`."""
        raise NotImplementedError

    def advantage(self, hidden: Tensor, actions: Tensor) -> Tensor:
        """f(a; h), (K, batch)."""
        raise NotImplementedError

    def q_values(self, features: Tensor, actions: Tensor) -> Tensor:
        """Every head's value of each pair."""
        hidden = self.tower(features)
        values: Tensor = self.value(hidden) + self.advantage(hidden, actions)
        return values


class ShiftedCritic(ConditionedCritic):
    """The state moves the kinks over actions.

    f = w · g + Σ_r φ_r(h) ψ_r(g) / √R, g = relu(LayerNorm(W a + C h))
    """

    def make(self, n_members: int, n_actions: int) -> None:
        """Factors of both sides, and the shift."""
        self.state_factor = EnsembleLinear(n_members, WIDTH, RANK)
        self.shift = EnsembleLinear(n_members, WIDTH, N_SHIFTED)
        self.action = EnsembleLinear(n_members, n_actions, N_SHIFTED)
        self.norm = EnsembleLayerNorm(n_members, N_SHIFTED)
        self.action_factor = EnsembleLinear(n_members, N_SHIFTED, RANK)
        self.action_effect = EnsembleHead(n_members, N_SHIFTED)

    def advantage(self, hidden: Tensor, actions: Tensor) -> Tensor:
        """f(a; h), (K, batch)."""
        units = torch.relu(self.norm(self.action(actions) + self.shift(hidden)))
        products = self.state_factor(hidden) * self.action_factor(units)
        values: Tensor = self.action_effect(units) + products.sum(-1) / math.sqrt(RANK)
        return values


class HyperCritic(ConditionedCritic):
    """The state makes the weights of a small network over actions.

    f = Σ_h u_h relu(w_h · a + b_h) / √H, u, w and b affine in the state's units

    Source:
        Hypernetworks as critics: Sarafian, Keynan, Kraus, PMLR 139:9301, 2021.
    """

    def make(self, n_members: int, n_actions: int) -> None:
        """Maps from the state's units to weights, biases and outputs."""
        self.weights = EnsembleLinear(n_members, WIDTH, N_HYPER * n_actions)
        self.biases = EnsembleLinear(n_members, WIDTH, N_HYPER)
        self.outputs = EnsembleLinear(n_members, WIDTH, N_HYPER)
        variances = {self.weights: 3.0 / n_actions, self.biases: 0.5, self.outputs: 0.1}
        for layer, variance in variances.items():
            nn.init.normal_(layer.weight, std=math.sqrt(variance / (0.5 * WIDTH)))
            nn.init.zeros_(layer.bias)

    def advantage(self, hidden: Tensor, actions: Tensor) -> Tensor:
        """f(a; h), (K, batch)."""
        weights = self.weights(hidden).unflatten(-1, (N_HYPER, -1))
        units = torch.relu((weights * actions.unsqueeze(-2)).sum(-1) + self.biases(hidden))
        values: Tensor = (self.outputs(hidden) * units).sum(-1) / math.sqrt(N_HYPER)
        return values


class _ConditionedPolicy(SNASACPolicy):
    """The gradient's norm is clipped as that of separable critics."""

    critic_class: type[ConditionedCritic]

    def make_critic(self, features_extractor: BaseFeaturesExtractor | None = None) -> ContinuousCritic:
        """Build a critic, the online one or its target."""
        kwargs = self._update_features_extractor(self.critic_kwargs, features_extractor)
        return self.critic_class(self.critic_config, **kwargs).to(self.device)


class ShiftedPolicy(_ConditionedPolicy):
    """SAC with `ShiftedCritic`."""

    critic_class = ShiftedCritic


class HyperPolicy(_ConditionedPolicy):
    """SAC with `HyperCritic`."""

    critic_class = HyperCritic
