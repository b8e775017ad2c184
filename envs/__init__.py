"""Environments whose answer is known, and the wrappers and column groups that give a critic its modes.

Importing this package registers the ids `SNA/LQR-v0`, `SNA/LowRankMDP-v0`, `SNA/FactoredArms-v0` and
`SNA/Waypoint-v0`; `gymnasium.make("sna_rl.envs:SNA/LQR-v0")` imports it on the way.
"""

from __future__ import annotations

if __name__ != "sna_rl.envs":
    raise ImportError(
        f"these environments are imported as 'sna_rl.envs', not {__name__!r}: under a second name every "
        "class would exist twice; run from outside the source folder and write 'import sna_rl.envs'"
    )

import gymnasium

from sna_rl.envs.factored_arms import FactoredArmsEnv
from sna_rl.envs.groups import Groups, observation_groups
from sna_rl.envs.low_rank_mdp import LowRankMDPEnv
from sna_rl.envs.lqr import LQREnv
from sna_rl.envs.waypoint import WaypointEnv
from sna_rl.envs.waypoint_pilot import ScriptedPilot
from sna_rl.envs.wrappers import FactoredActions, FactoredDiscrete

__all__ = [
    "FactoredActions",
    "FactoredArmsEnv",
    "FactoredDiscrete",
    "Groups",
    "LQREnv",
    "LowRankMDPEnv",
    "ScriptedPilot",
    "WaypointEnv",
    "observation_groups",
]

gymnasium.register("SNA/LQR-v0", entry_point="sna_rl.envs.lqr:LQREnv", max_episode_steps=25)
gymnasium.register(
    "SNA/LowRankMDP-v0", entry_point="sna_rl.envs.low_rank_mdp:LowRankMDPEnv", max_episode_steps=100
)
gymnasium.register("SNA/FactoredArms-v0", entry_point="sna_rl.envs.factored_arms:FactoredArmsEnv")
gymnasium.register("SNA/Waypoint-v0", entry_point="sna_rl.envs.waypoint:WaypointEnv", max_episode_steps=400)
