"""Features extractors: a separable one over groups of the state, and any plain module as one."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any, Literal

import torch
from gymnasium import spaces
from jaxtyping import Float
from stable_baselines3.common.preprocessing import get_flattened_obs_dim
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from sna_rl.agents.critic_config import CriticConfig, Groups, mode_columns
from sna_rl.agents.networks import STATE_STD, factor_config, select
from sna_rl.errors import UsageError
from sna_rl.separable.families import FAMILIES


class SeparableExtractor(BaseFeaturesExtractor):
    """Features that separate between groups of the state.

    z_k = Σ_r w_kr Π_n φ_r^(n)(s_n), s_n the columns of group n. As a table between two groups every z_k has
    rank at most R.

    Args:
        observation_space: a Box, Discrete or Dict of them; a Dict's entries lie side by side.
        groups: "each" (one group a column) or lists of columns, one a group; None makes each entry of a Dict
            a group.
        features_dim: number of features z.
        rank: number of components R.
        **factor: `factor`, `width`, `depth`, `layer_norm`, `signed`, `n_knots`, `n_coordinates` as in
            `CriticConfig`.

    Raises:
        UsageError: if there are fewer than two groups, or if they do not hold every column once.

    Example:
        >>> space = spaces.Box(-1.0, 1.0, (4,))
        >>> extractor = SeparableExtractor(space, groups=[[0, 1], [2, 3]], features_dim=8, rank=2)
        >>> extractor(torch.zeros(5, 4)).shape
        torch.Size([5, 8])
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        groups: Sequence[Sequence[int]] | Literal["each"] | None = None,
        features_dim: int = 64,
        rank: int = 32,
        **factor: Any,
    ) -> None:
        super().__init__(observation_space, features_dim)
        config = CriticConfig(rank=rank, state_modes=groups, **factor)
        n_columns = get_flattened_obs_dim(observation_space)
        self.groups = mode_columns("groups", config.state_modes or _entries(observation_space), n_columns)
        if len(self.groups) < 2:
            raise UsageError(
                f"groups must be at least two lists of columns that hold each of 0 to {n_columns - 1} once, "
                f"not {groups!r}"
            )
        self.keys = list(observation_space) if isinstance(observation_space, spaces.Dict) else None
        family, sizes = FAMILIES[config.factor], factor_config(config, config.depth)
        factors = [family(1, len(group), rank, sizes, has_effect=False) for group in self.groups]
        for module in factors:
            module.initialise(STATE_STD, effect_std=0.0)
        self.factors = nn.ModuleList(factors)
        self.weights = nn.Linear(rank, features_dim, bias=False)

    def forward(self, observations: Any) -> Float[Tensor, "batch features"]:
        """Features of preprocessed observations."""
        if self.keys is not None:
            observations = torch.cat([observations[key].flatten(1) for key in self.keys], dim=1)
        columns = observations.flatten(1)
        components = [
            factor(select(columns, group)).components[0]
            for factor, group in zip(self.factors, self.groups, strict=True)
        ]
        features: Tensor = self.weights(functools.reduce(torch.mul, components))
        return features


class ModuleExtractor(BaseFeaturesExtractor):
    """Any plain module with a `features_dim` as a features extractor.

    Actor, critic and target each get a copy of the encoder, so that its weights start equal and are learned
    apart; `share_features_extractor=True` shares one between actor and critic.

    Args:
        observation_space: what the encoder reads, preprocessed as Stable-Baselines3 does: images in [0, 1],
            a dict of tensors for a Dict space.
        encoder: module with an int `features_dim`, from a batch of observations to (batch, features_dim).

    Raises:
        UsageError: if the encoder does not tell its `features_dim`.

    Example:
        >>> encoder = nn.Linear(3, 8)
        >>> encoder.features_dim = 8
        >>> ModuleExtractor(spaces.Box(-1.0, 1.0, (3,)), encoder)(torch.zeros(5, 3)).shape
        torch.Size([5, 8])
    """

    def __init__(self, observation_space: spaces.Space[Any], encoder: nn.Module) -> None:
        features_dim = getattr(encoder, "features_dim", None)
        if not isinstance(features_dim, int):
            raise UsageError(
                f"encoder {type(encoder).__name__} needs an int attribute features_dim, its output's size, "
                f"not {features_dim!r}"
            )
        super().__init__(observation_space, features_dim)
        self.encoder = copy.deepcopy(encoder)

    def forward(self, observations: Any) -> Float[Tensor, "batch features"]:
        """The encoder's output."""
        features: Tensor = self.encoder(observations)
        return features


def _entries(space: spaces.Space[Any]) -> Groups | None:
    """Columns of each entry of a Dict space, None for another space."""
    if not isinstance(space, spaces.Dict):
        return None
    groups, start = [], 0
    for entry in space.spaces.values():
        size = get_flattened_obs_dim(entry)
        groups.append(tuple(range(start, start + size)))
        start += size
    return tuple(groups)
