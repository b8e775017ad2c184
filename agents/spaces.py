"""Which action space an algorithm acts in, and what to do where it can't."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from sna_rl.errors import UsageError


def check_action_space(name: str, space: spaces.Space[Any], discrete: bool) -> None:
    """Refuse an action space with the remedy, before Stable-Baselines3 stops at an assertion.

    Args:
        name: algorithm or policy, for the message.
        space: the environment's actions.
        discrete: whether the algorithm needs Discrete actions (DQN) or bounded Box ones (SAC, TD3).

    Raises:
        UsageError: if the space does not fit.

    Example:
        >>> check_action_space("SAC", spaces.Discrete(2), discrete=False)
        Traceback (most recent call last):
        ...
        sna_rl.errors.UsageError: SAC needs Box actions with finite bounds, not Discrete(2); use DQN
    """
    if discrete and not isinstance(space, spaces.Discrete):
        remedy = "use SAC or TD3, or number" if isinstance(space, spaces.Box) else "number"
        raise UsageError(
            f"{name} needs Discrete actions, not {space}; {remedy} them with sna_rl.envs.FactoredActions(env)"
        )
    if discrete:
        return
    if not isinstance(space, spaces.Box):
        numbered = isinstance(space, spaces.MultiDiscrete)
        remedy = "use DQN with sna_rl.envs.FactoredActions(env)" if numbered else "use DQN"
    elif not np.isfinite([space.low, space.high]).all():
        remedy = "wrap the environment in gymnasium.wrappers.RescaleAction"
    else:
        return
    raise UsageError(f"{name} needs Box actions with finite bounds, not {space}; {remedy}")
