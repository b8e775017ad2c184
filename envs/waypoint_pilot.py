"""Scripted pilot for the waypoint task: the baseline a trained agent is compared with."""

from __future__ import annotations

from math import atan2, hypot, pi
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sna_rl.envs.waypoint import N_RANGES, RANGE_LIMIT, SPEED_UNIT
from sna_rl.envs.waypoint_course import ARENA

_HALF_WIDTH = 1.0
"""Half the width of the corridor asked for, m."""
_LOOK_AHEAD = 7.0
"""Free way asked for where the waypoint is farther, m."""
_BRAKING = 0.9
"""Deceleration counted on, m/s²."""
_CRUISE = 3.0
"""Top speed, m/s."""


class ScriptedPilot:
    """Steer along the free corridor nearest to the waypoint's bearing; brake for turns and obstacles.

    Candidate directions are the rays and the waypoint's bearing. A candidate's free way is the distance,
    along it, to the first range reading within the corridor's half width. Its score is
    cos(angle to the waypoint) − 2 · shortfall², the shortfall being the missing share of the free way asked
    for. The heading turns so that the *velocity* follows the best candidate, which cancels the wind's drift.
    The speed lets it brake before the corridor ends, and falls in turns.
    It knows nothing but the observation and keeps no memory.

    Example:
        >>> import gymnasium
        >>> env = gymnasium.make("sna_rl.envs:SNA/Waypoint-v0")
        >>> observation, _ = env.reset(seed=0)
        >>> ScriptedPilot().predict(observation)[0].shape
        (2,)
    """

    def predict(
        self, observation: ArrayLike, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[np.float32], Any]:
        """Actions for one observation or a batch; arguments and result as in Stable-Baselines3's models.

        Args:
            observation: shape (34,) or (batch, 34).
            state: ignored, returned unchanged.
            episode_start: ignored.
            deterministic: ignored; the pilot always is.

        Returns:
            Actions of shape (2,) or (batch, 2), and `state`.
        """
        observations = np.asarray(observation, dtype=np.float64)
        if observations.ndim == 1:
            return self._act(observations), state
        return np.stack([self._act(row) for row in observations]), state

    def _act(self, observation: NDArray[np.float64]) -> NDArray[np.float32]:
        ahead, left = observation[0:2] * ARENA
        forward, aside = observation[5:7] * SPEED_UNIT
        bearing, wanted = atan2(left, ahead), min(_LOOK_AHEAD, hypot(ahead, left))
        ranges = observation[10:] * RANGE_LIMIT
        rays = 2.0 * pi / N_RANGES * np.arange(N_RANGES)
        candidates = np.append(rays, bearing)
        turned = rays - candidates[:, None]
        along, across = ranges * np.cos(turned), ranges * np.sin(turned)
        blocking = (np.abs(across) < _HALF_WIDTH) & (along > 0.0) & (ranges < RANGE_LIMIT)
        free = np.where(blocking, along, RANGE_LIMIT).min(axis=1)
        shortfall = np.clip(1.0 - free / wanted, 0.0, 1.0)
        best = int(np.argmax(np.cos(candidates - bearing) - 2.0 * shortfall**2))
        drift = atan2(aside, max(forward, 0.5))
        error = (candidates[best] - drift + pi) % (2.0 * pi) - pi
        room = max(0.0, float(min(free[0], free[best])) - _HALF_WIDTH)
        speed = min(_CRUISE, (2.0 * _BRAKING * room) ** 0.5 + 0.3) * max(0.1, np.cos(error))
        action: NDArray[np.float64] = np.clip([2.0 * (speed - forward), 1.5 * error], -1.0, 1.0)
        return action.astype(np.float32)
