"""Policies of Stable-Baselines3 with the critic as one choice in `policy_kwargs`."""

from __future__ import annotations

import inspect
import logging
from typing import Any, ClassVar

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy, ContinuousCritic
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    NatureCNN,
)
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy

from sna_rl.agents.contract import check_actor_critic, check_q_network
from sna_rl.agents.critic_config import CriticConfig
from sna_rl.agents.critics import make_critic
from sna_rl.agents.optimizer import ClippedAdam
from sna_rl.agents.q_networks import make_q_network
from sna_rl.agents.spaces import check_action_space
from sna_rl.errors import UsageError, suggestion

_LOGGER = logging.getLogger(__name__)


class _SNAPolicy(BasePolicy):
    """What all policies share: the critic's fields, a fitting features extractor, the critic's optimizer."""

    critic_config: CriticConfig
    extractor: ClassVar[type[BaseFeaturesExtractor] | None] = None
    """Features extractor where the user gives none; None takes the one that fits the observations."""

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], *args: Any, **kwargs: Any
    ) -> None:
        check_action_space(type(self).__name__, action_space, discrete=isinstance(self, DQNPolicy))
        self.critic_config, rest = CriticConfig.split(kwargs)
        known = self._arguments()
        if rest.get("use_sde") is False and "use_sde" not in known:
            del rest["use_sde"]  # SAC writes it into the user's own policy_kwargs
        for key in rest.keys() - known:
            raise UsageError(
                f"{type(self).__name__}: unknown argument {key!r} in policy_kwargs"
                f"{suggestion(key, [*known, *self.critic_config.kwargs()])}"
            )
        fitting = _fitting_extractor(observation_space, normalized=not rest.get("normalize_images", True))
        if self.extractor not in (None, fitting) and "features_extractor_class" not in rest:
            raise UsageError(
                f"{type(self).__name__} does not fit the observations {observation_space}; "
                "the policy without Cnn or MultiInput in its name takes any"
            )
        rest.setdefault("features_extractor_class", fitting)
        for key in ("features_extractor_kwargs", "optimizer_kwargs"):
            rest[key] = dict(rest.get(key) or {})
        if self.critic_config.critic == "additive":
            _LOGGER.warning(
                "additive critic: Q(s, a) = V(s) + A(a), so the greedy action is the same in every state; "
                "a negative control, not an agent to use"
            )
        super().__init__(observation_space, action_space, *args, **rest)

    def set_training_mode(self, mode: bool) -> None:
        """Switch dropout and the like on or off; a rollout asks every step, so nothing is done twice."""
        if mode != self.training:
            super().set_training_mode(mode)

    @classmethod
    def _arguments(cls) -> list[str]:
        """Names that Stable-Baselines3's own policy takes."""
        parent = next(base for base in cls.__mro__ if base.__module__.startswith("stable_baselines3."))
        return list(inspect.signature(parent).parameters)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | self.critic_config.kwargs()

    def _critic_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """The same optimizer with the critic's clipping and learning-rate ratio."""
        clip, ratio = self.critic_config.clip_norm, self.critic_config.critic_lr_ratio
        if self.optimizer_class is torch.optim.Adam:
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            lr = optimizer.param_groups[0]["lr"]
            return ClippedAdam(parameters, lr, max_grad_norm=clip, lr_ratio=ratio, **self.optimizer_kwargs)
        if clip is None and ratio == 1.0:
            return optimizer
        raise UsageError(
            f"clipping and critic_lr_ratio need Adam, not {self.optimizer_class.__name__}; "
            "pass max_grad_norm=None and critic_lr_ratio=1.0 beside optimizer_class"
        )


def _fitting_extractor(space: spaces.Space[Any], normalized: bool) -> type[BaseFeaturesExtractor]:
    if isinstance(space, spaces.Dict):
        return CombinedExtractor
    if is_image_space(space, normalized_image=normalized):
        return NatureCNN
    return FlattenExtractor


class _ActorCriticPolicy(_SNAPolicy):
    """What SAC's and TD3's policies share: how the critic is made and checked."""

    critic: ContinuousCritic
    critic_kwargs: dict[str, Any]

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)  # type: ignore[misc]  # Stable-Baselines3's, next in line
        self.critic.optimizer = self._critic_optimizer(self.critic.optimizer)
        check_actor_critic(self)  # type: ignore[arg-type]

    def make_critic(self, features_extractor: BaseFeaturesExtractor | None = None) -> ContinuousCritic:
        """Build a critic; called once for the online critic and once for its target."""
        kwargs = self._update_features_extractor(self.critic_kwargs, features_extractor)
        return make_critic(self.critic_config, kwargs).to(self.device)


class SNASACPolicy(_ActorCriticPolicy, SACPolicy):
    """Policy for SAC whose critic is chosen in `policy_kwargs`.

    Takes every argument of Stable-Baselines3's SACPolicy and, flat beside them, every field of
    `CriticConfig`. Image and Dict observations get the features extractor that fits them.

    Args:
        observation_space: observation space.
        action_space: a Box.
        *args: as in Stable-Baselines3's policy.
        **kwargs: as in Stable-Baselines3's policy, and the fields of `CriticConfig`.

    Raises:
        UsageError: if an argument is unknown or does not fit, or if the critic breaks the contract of
            `sna_rl.agents.contract`.

    Example:
        >>> from stable_baselines3 import SAC
        >>> agent = SAC(SNASACPolicy, "Pendulum-v1", policy_kwargs={"critic": "cp", "rank": 8})
        >>> agent.critic.network.layout.ranks
        (8, 8)
    """

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {
            "share_features_extractor": self.share_features_extractor
        }


class SNATD3Policy(_ActorCriticPolicy, TD3Policy):
    """Policy for TD3 and DDPG whose critic is chosen in `policy_kwargs`; else as `SNASACPolicy`.

    Example:
        >>> from stable_baselines3 import TD3
        >>> agent = TD3(SNATD3Policy, "Pendulum-v1", policy_kwargs={"critic": "cp", "rank": 8})
        >>> agent.critic.network.layout.modes
        (3, 1)
    """


class SNADQNPolicy(_SNAPolicy, DQNPolicy):
    """Policy for DQN whose Q-network is chosen in `policy_kwargs`; else as `SNASACPolicy`.

    The modes of a factored action space come from the space itself: see `sna_rl.envs.FactoredActions`.

    Example:
        >>> from stable_baselines3 import DQN
        >>> agent = DQN(SNADQNPolicy, "CartPole-v1", policy_kwargs={"critic": "dueling"})
        >>> type(agent.q_net).__name__
        'DuelingQNetwork'
    """

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)
        self.optimizer = self._critic_optimizer(self.optimizer)
        check_q_network(self)

    def make_q_net(self) -> QNetwork:
        """Build a Q-network; called once for the online network and once for its target."""
        kwargs = self._update_features_extractor(self.net_args, features_extractor=None)
        return make_q_network(self.critic_config, kwargs).to(self.device)


class SNASACCnnPolicy(SNASACPolicy):
    """`SNASACPolicy` for images alone."""

    extractor = NatureCNN


class SNASACMultiInputPolicy(SNASACPolicy):
    """`SNASACPolicy` for Dict observations alone."""

    extractor = CombinedExtractor


class SNATD3CnnPolicy(SNATD3Policy):
    """`SNATD3Policy` for images alone."""

    extractor = NatureCNN


class SNATD3MultiInputPolicy(SNATD3Policy):
    """`SNATD3Policy` for Dict observations alone."""

    extractor = CombinedExtractor


class SNADQNCnnPolicy(SNADQNPolicy):
    """`SNADQNPolicy` for images alone."""

    extractor = NatureCNN


class SNADQNMultiInputPolicy(SNADQNPolicy):
    """`SNADQNPolicy` for Dict observations alone."""

    extractor = CombinedExtractor
