"""SAC, TD3 and DQN of Stable-Baselines3 with separable policies by name and telling run names."""

from __future__ import annotations

from typing import ClassVar

import stable_baselines3
from stable_baselines3.common.policies import BasePolicy

from sna_rl.agents.fused.algorithm import FusedAlgorithm
from sna_rl.agents.fused.dqn import DQNUpdate
from sna_rl.agents.fused.sac import SACUpdate
from sna_rl.agents.fused.td3 import TD3Update
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


class SAC(FusedAlgorithm, stable_baselines3.SAC):
    """Soft actor-critic that knows the separable policies by name.

    Every argument is Stable-Baselines3's; the policy's own go into `policy_kwargs`.

    Source: Haarnoja et al. 2018, arXiv 1812.05905.

    Example:
        >>> agent = SAC("SNAPolicy", "Pendulum-v1", policy_kwargs={"critic": "cp", "rank": 4})
        >>> agent.run_name
        'sac-cp-r4'
    """

    update_class = SACUpdate
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        **stable_baselines3.SAC.policy_aliases,
        "SNAPolicy": SNASACPolicy,
        "SNACnnPolicy": SNASACCnnPolicy,
        "SNAMultiInputPolicy": SNASACMultiInputPolicy,
    }


class TD3(FusedAlgorithm, stable_baselines3.TD3):
    """Twin delayed deep deterministic policy gradient that knows the separable policies by name.

    Every argument is Stable-Baselines3's; the policy's own go into `policy_kwargs`.

    Source: Fujimoto et al. 2018, arXiv 1802.09477.

    Example:
        >>> TD3("SNAPolicy", "Pendulum-v1", policy_kwargs={"critic": "mlp"}).run_name
        'td3-mlp'
    """

    update_class = TD3Update
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        **stable_baselines3.TD3.policy_aliases,
        "SNAPolicy": SNATD3Policy,
        "SNACnnPolicy": SNATD3CnnPolicy,
        "SNAMultiInputPolicy": SNATD3MultiInputPolicy,
    }


class DQN(FusedAlgorithm, stable_baselines3.DQN):
    """Deep Q-network that knows the separable policies by name.

    Every argument is Stable-Baselines3's; the policy's own go into `policy_kwargs`.

    Source: Mnih et al. 2015, https://www.nature.com/articles/nature14236.

    Example:
        >>> DQN("SNAPolicy", "CartPole-v1", policy_kwargs={"critic": "dueling"}).run_name
        'dqn-dueling'
    """

    update_class = DQNUpdate
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        **stable_baselines3.DQN.policy_aliases,
        "SNAPolicy": SNADQNPolicy,
        "SNACnnPolicy": SNADQNCnnPolicy,
        "SNAMultiInputPolicy": SNADQNMultiInputPolicy,
    }


ALGORITHMS: dict[str, type[SAC] | type[TD3] | type[DQN]] = {"sac": SAC, "td3": TD3, "dqn": DQN}
