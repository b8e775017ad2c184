"""SAC, TD3 and DQN of Stable-Baselines3 with separable policies by name and telling run names."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import stable_baselines3
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy

from sna_rl.agents.policies import (
    SNADQNCnnPolicy,
    SNADQNMultiInputPolicy,
    SNADQNPolicy,
    SNASACCnnPolicy,
    SNASACMultiInputPolicy,
    SNASACPolicy,
    SNATD3CnnPolicy,
    SNATD3MultiInputPolicy,
    SNATD3Policy,
)


class _Agent(OffPolicyAlgorithm):
    """What the three algorithms share: an own copy of `policy_kwargs` and run names that tell the critic."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("policy_kwargs") is not None:
            kwargs["policy_kwargs"] = dict(kwargs["policy_kwargs"])
        super().__init__(*args, **kwargs)

    @property
    def run_name(self) -> str:
        """Name of a run in TensorBoard: algorithm, critic and, for separable critics, rank (`sac-cp-r32`)."""
        config = getattr(self.policy, "critic_config", None)
        name = type(self).__name__.lower()
        if config is None or config.critic == "mlp":
            return f"{name}-mlp"
        return f"{name}-{config.critic}-r{config.rank}"

    def learn(self, *args: Any, **kwargs: Any) -> Self:
        """Train as Stable-Baselines3 does; `tb_log_name` is `run_name` unless given."""
        if len(args) < 4:
            kwargs.setdefault("tb_log_name", self.run_name)
        return super().learn(*args, **kwargs)


class SAC(_Agent, stable_baselines3.SAC):
    """Soft actor-critic that knows the separable policies by name.

    Every argument is Stable-Baselines3's; the policy's own go into `policy_kwargs`.

    Source: Haarnoja et al. 2018, arXiv 1812.05905.

    Example:
        >>> agent = SAC("SNAPolicy", "Pendulum-v1", policy_kwargs={"critic": "cp", "rank": 4})
        >>> agent.run_name
        'sac-cp-r4'
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        **stable_baselines3.SAC.policy_aliases,
        "SNAPolicy": SNASACPolicy,
        "SNACnnPolicy": SNASACCnnPolicy,
        "SNAMultiInputPolicy": SNASACMultiInputPolicy,
    }


class TD3(_Agent, stable_baselines3.TD3):
    """Twin delayed deep deterministic policy gradient that knows the separable policies by name.

    Every argument is Stable-Baselines3's; the policy's own go into `policy_kwargs`.

    Source: Fujimoto et al. 2018, arXiv 1802.09477.

    Example:
        >>> TD3("SNAPolicy", "Pendulum-v1", policy_kwargs={"critic": "mlp"}).run_name
        'td3-mlp'
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        **stable_baselines3.TD3.policy_aliases,
        "SNAPolicy": SNATD3Policy,
        "SNACnnPolicy": SNATD3CnnPolicy,
        "SNAMultiInputPolicy": SNATD3MultiInputPolicy,
    }


class DQN(_Agent, stable_baselines3.DQN):
    """Deep Q-network that knows the separable policies by name.

    Every argument is Stable-Baselines3's; the policy's own go into `policy_kwargs`.

    Source: Mnih et al. 2015, https://www.nature.com/articles/nature14236.

    Example:
        >>> DQN("SNAPolicy", "CartPole-v1", policy_kwargs={"critic": "dueling"}).run_name
        'dqn-dueling'
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        **stable_baselines3.DQN.policy_aliases,
        "SNAPolicy": SNADQNPolicy,
        "SNACnnPolicy": SNADQNCnnPolicy,
        "SNAMultiInputPolicy": SNADQNMultiInputPolicy,
    }


ALGORITHMS: dict[str, type[SAC] | type[TD3] | type[DQN]] = {"sac": SAC, "td3": TD3, "dqn": DQN}
