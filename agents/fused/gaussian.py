"""The squashed Gaussian of SAC as a pure function; Stable-Baselines3's stores its state on the module."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN, Actor
from torch import Tensor, nn
from torch.nn import functional as F

EPSILON = 1e-6
"""Keeps log(1 − a²) finite; Stable-Baselines3's value."""


def squashed_gaussian(
    mean: Float[Tensor, "*batch action"],
    log_std: Float[Tensor, "*batch action"],
    noise: Float[Tensor, "*samples action"],
) -> tuple[Float[Tensor, "*samples action"], Float[Tensor, "*samples"]]:
    """Actions and their log density from standard normal noise.

    u = mean + σ ε, a = tanh u, log π(a) = Σ_d [−ε_d²/2 − log σ_d − ½ log 2π − log(1 − a_d² + 1e-6)]

    Args:
        mean: mean before squashing.
        log_std: logarithm of σ.
        noise: ε, of the batch's shape or with leading sample dimensions before it.

    Returns:
        Actions in (−1, 1) and their log density.

    Source:
        Haarnoja et al. 2018, arXiv 1812.05905, appendix C.

    Example:
        >>> action, log_density = squashed_gaussian(torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1, 1))
        >>> action.item(), round(log_density.item(), 4)
        (0.0, -0.9189)
    """
    actions = torch.tanh(mean + noise * log_std.exp())
    density = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)
    return actions, (density - torch.log(1.0 - actions.square() + EPSILON)).sum(-1)


def actor_gaussian(actor: Actor, observations: Tensor | dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and log σ, before squashing, of SAC's actor without gSDE; both heads are one matrix product."""
    mean_head, std_head = actor.mu, actor.log_std
    if not (isinstance(mean_head, nn.Linear) and isinstance(std_head, nn.Linear)):
        mean, log_std, _ = actor.get_action_dist_params(observations)
        return mean, log_std
    features = actor.extract_features(observations, actor.features_extractor)
    weight = torch.cat([mean_head.weight, std_head.weight])
    bias = torch.cat([mean_head.bias, std_head.bias])
    mean, log_std = F.linear(actor.latent_pi(features), weight, bias).chunk(2, dim=-1)
    return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
