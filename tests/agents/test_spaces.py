"""R22: actions that do not fit are refused with the remedy, by our algorithms and by the policies."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sna_rl.agents import DQN, SAC, TD3
from sna_rl.agents.policies import SNADQNPolicy, SNASACPolicy, SNATD3Policy
from sna_rl.errors import UsageError

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
REFUSED: list[tuple[Any, spaces.Space[Any], str]] = [
    (SAC, spaces.Discrete(2), r"SAC needs Box actions with finite bounds, not Discrete\(2\); use DQN$"),
    (TD3, spaces.MultiDiscrete([2, 3]), r"use DQN with sna_rl.envs.FactoredActions\(env\)"),
    (SAC, spaces.Box(-np.inf, np.inf, (2,)), "RescaleAction"),
    (
        DQN,
        spaces.MultiDiscrete([2, 3]),
        r"DQN needs Discrete actions.*; number them with sna_rl.envs.Factored",
    ),
    (DQN, BOX, "use SAC or TD3, or number them with"),
]


class Spaced(gymnasium.Env[Any, Any]):
    observation_space: spaces.Space[Any] = BOX

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self.action_space = action_space


@pytest.mark.parametrize(("algorithm", "space", "message"), REFUSED)
def test_algorithms_name_the_remedy(algorithm: Any, space: spaces.Space[Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        algorithm("SNAPolicy", Spaced(space))


@pytest.mark.parametrize(("algorithm", "space", "message"), REFUSED)
def test_policies_name_the_remedy(algorithm: Any, space: spaces.Space[Any], message: str) -> None:
    policy: Any = {SAC: SNASACPolicy, TD3: SNATD3Policy, DQN: SNADQNPolicy}[algorithm]
    with pytest.raises(
        UsageError, match=message.replace("SAC needs", "SNASACPolicy needs").replace("DQN needs", "")
    ):
        policy(BOX, space, lambda _: 1e-3)
