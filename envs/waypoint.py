"""Waypoint navigation of a planar vehicle among obstacles in wind."""

from __future__ import annotations

from math import cos, pi, sin
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sna_rl.envs.exact import check_render_mode
from sna_rl.envs.groups import Groups
from sna_rl.envs.waypoint_course import ARENA, Course, draw_course
from sna_rl.envs.waypoint_dynamics import Motion, Vehicle, advance, distance
from sna_rl.envs.waypoint_view import draw_scene
from sna_rl.errors import UsageError

STEP_SECONDS = 0.1
REACH = 0.8
"""A waypoint counts as reached within this distance, m."""
N_RANGES = 24
RANGE_LIMIT = 10.0
SPEED_UNIT = 5.0
_GUST_STD = 0.3
_GUST_SECONDS = 2.0
_WAYPOINT_BONUS = 5.0
_COLLISION_COST = 10.0
_STEP_COST = 0.05


class WaypointEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Fly through all waypoints in order, without touching an obstacle or the arena's wall.

    A vehicle of 2 kg with 4 N of thrust, quadratic drag and a keel moves in a 20 m square, 0.1 s a step
    (`waypoint_dynamics.advance` states the equations). The wind is one vector an episode, drawn uniformly
    from the disc of radius `max_wind`, plus gusts (Ornstein–Uhlenbeck, standard deviation 0.3 m/s, time
    constant 2 s).

    | action | unit | min | max | meaning |
    |---|---|---|---|---|
    | 0 | 4 N | −1 | 1 | thrust along the heading |
    | 1 | 2 rad/s | −1 | 1 | commanded turn rate, left positive; followed with a lag of 0.2 s |

    | observation | unit | min | max | meaning |
    |---|---|---|---|---|
    | 0, 1 | 20 m | −2 | 2 | current waypoint, ahead and to the left |
    | 2, 3 | 20 m | −2 | 2 | the waypoint after it (the current one again at the last) |
    | 4 | 1 | 0 | 1 | share of waypoints not reached yet |
    | 5, 6 | 5 m/s | −2 | 2 | ground velocity, ahead and to the left |
    | 7 | 2 rad/s | −2 | 2 | turn rate |
    | 8, 9 | 5 m/s | −2 | 2 | wind, ahead and to the left |
    | 10 … 33 | 10 m | 0 | 1 | range to obstacle or wall in 24 directions, from ahead counter-clockwise |

    Reward: metres of progress towards the current waypoint − 0.05 a step + 5 a waypoint − 10 for a collision;
    between −11 and 6 a step, an episode that succeeds returns about 5 a waypoint and 1 a metre of course.
    Start: at rest at a random place, in a random direction. End: terminated on a collision or on reaching the
    last waypoint; `gymnasium.make` truncates after 400 steps, to be bootstrapped.

    `info` at every step: `is_success` (all waypoints reached), `collision`, `waypoints_reached`, and
    `path_efficiency`, the length of the straight course covered over the metres travelled, in [0, 1]. The
    straight course crosses obstacles, so an efficiency of 1 is not always possible.

    Known Q: none. `sna_rl.envs.ScriptedPilot` is the baseline to compare with.

    Version history: v0, first version.

    Args:
        n_waypoints: waypoints an episode, at least 1.
        n_obstacles: discs of radius 0.8 to 1.8 m, from 0 to 12.
        max_wind: largest steady wind, m/s, from 0 to 2.
        render_mode: None or "rgb_array" (400 × 400 pixels, seen from above).

    Raises:
        UsageError: if an argument is out of range.

    Example:
        >>> import gymnasium
        >>> env = gymnasium.make("sna_rl.envs:SNA/Waypoint-v0")
        >>> observation, info = env.reset(seed=0)
        >>> observation.shape, info["waypoints_reached"]
        ((34,), 0)
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    groups: ClassVar[Groups] = Groups(
        state={
            "waypoints": (0, 1, 2, 3, 4),
            "motion": (5, 6, 7),
            "wind": (8, 9),
            "ranges": tuple(range(10, 10 + N_RANGES)),
        },
        action={"thrust": (0,), "turn": (1,)},
    )

    def __init__(
        self,
        n_waypoints: int = 4,
        n_obstacles: int = 6,
        max_wind: float = 1.0,
        render_mode: str | None = None,
    ) -> None:
        if type(n_waypoints) is not int or n_waypoints < 1:
            raise UsageError(f"n_waypoints must be an int of at least 1, not {n_waypoints!r}")
        if type(n_obstacles) is not int or not 0 <= n_obstacles <= 12:
            raise UsageError(f"n_obstacles must be an int from 0 to 12, not {n_obstacles!r}")
        if not 0.0 <= max_wind <= 2.0:
            raise UsageError(f"max_wind must lie between 0 and 2 m/s, not {max_wind!r}")
        self.n_waypoints = n_waypoints
        self.n_obstacles = n_obstacles
        self.max_wind = max_wind
        self.render_mode = check_render_mode(render_mode, ("rgb_array",))
        self.vehicle = Vehicle()
        low = np.full(10 + N_RANGES, -2.0, np.float32)
        high = np.full(10 + N_RANGES, 2.0, np.float32)
        low[4], high[4], low[10:], high[10:] = 0.0, 1.0, 0.0, 1.0
        self._bounds = low, high
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._course: Course | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Draw a course, a wind and a heading."""
        super().reset(seed=seed)
        self._course = draw_course(self.np_random, self.n_waypoints, self.n_obstacles)
        self.motion = self._at_start(self.np_random.uniform(-pi, pi))
        bearing, strength = self.np_random.uniform(-pi, pi), self.max_wind * self.np_random.uniform() ** 0.5
        self._steady = np.array([strength * cos(bearing), strength * sin(bearing)])
        self._gust = _GUST_STD * self.np_random.standard_normal(2)
        self.n_reached = 0
        self.travelled = 0.0
        self.trail = [(self.motion.x, self.motion.y)]
        return self._observation(), self._info(collision=False)

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Move for 0.1 s under the commanded thrust and turn rate."""
        thrust, turn = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        target = self._waypoint(self.n_reached)
        before, here = distance(self.motion, target), self.trail[-1]
        self.motion = advance(
            self.vehicle,
            self.motion,
            (float(thrust), float(turn)),
            (float(self.wind[0]), float(self.wind[1])),
            duration=STEP_SECONDS,
        )
        self._gust += -STEP_SECONDS / _GUST_SECONDS * self._gust
        self._gust += (
            _GUST_STD * (2.0 * STEP_SECONDS / _GUST_SECONDS) ** 0.5 * self.np_random.standard_normal(2)
        )
        self.travelled += distance(self.motion, here)
        self.trail.append((self.motion.x, self.motion.y))
        left = distance(self.motion, target)
        reward = before - left - _STEP_COST
        collision = self.course.clearance(self.motion.x, self.motion.y) < self.vehicle.radius
        if collision:
            reward -= _COLLISION_COST
        elif left < REACH:
            self.n_reached += 1
            reward += _WAYPOINT_BONUS
        info = self._info(collision)
        return self._observation(), reward, collision or info["is_success"], False, info

    def render(self) -> NDArray[np.uint8] | None:
        """The scene from above, shape (400, 400, 3); None without a render mode."""
        if self.render_mode is None:
            return None
        return draw_scene(
            self.course, self.motion, self.trail, self.n_reached, (self.wind, self.vehicle.radius)
        )

    @property
    def course(self) -> Course:
        """The episode's course.

        Raises:
            UsageError: before the first reset.
        """
        if self._course is None:
            raise UsageError("the course is drawn by reset(); call it first")
        return self._course

    @property
    def wind(self) -> NDArray[np.float64]:
        """The wind now, m/s, world axes, shape (2,)."""
        return self._steady + self._gust

    def _at_start(self, heading: float) -> Motion:
        x, y = self.course.points[0]
        return Motion(float(x), float(y), heading)

    def _waypoint(self, index: int) -> tuple[float, float]:
        x, y = self.course.points[1 + min(index, self.n_waypoints - 1)]
        return float(x), float(y)

    def _observation(self) -> NDArray[np.float32]:
        motion = self.motion
        current, following = self._waypoint(self.n_reached), self._waypoint(self.n_reached + 1)
        angles = np.array([motion.heading + 2.0 * pi * ray / N_RANGES for ray in range(N_RANGES)])
        values = [
            *(v / ARENA for v in motion.in_body_axes(current[0] - motion.x, current[1] - motion.y)),
            *(v / ARENA for v in motion.in_body_axes(following[0] - motion.x, following[1] - motion.y)),
            1.0 - self.n_reached / self.n_waypoints,
            *(v / SPEED_UNIT for v in motion.in_body_axes(motion.vx, motion.vy)),
            motion.turn_rate / self.vehicle.max_turn_rate,
            *(v / SPEED_UNIT for v in motion.in_body_axes(float(self.wind[0]), float(self.wind[1]))),
            *(self.course.ranges(motion.x, motion.y, angles, RANGE_LIMIT) / RANGE_LIMIT),
        ]
        return np.clip(np.array(values, np.float32), *self._bounds)

    def _info(self, collision: bool) -> dict[str, Any]:
        """What `info` carries; the course covered counts the way gained towards the next waypoint too."""
        points = self.course.points
        legs = np.hypot(*np.diff(points, axis=0).T)
        covered = float(legs[: self.n_reached].sum())
        if self.n_reached < self.n_waypoints:
            left = distance(self.motion, self._waypoint(self.n_reached))
            covered += max(0.0, float(legs[self.n_reached]) - left)
        return {
            "is_success": self.n_reached == self.n_waypoints,
            "collision": collision,
            "waypoints_reached": self.n_reached,
            "path_efficiency": min(1.0, covered / self.travelled) if self.travelled > 0.0 else 0.0,
        }
