"""The course of one waypoint episode: obstacles, waypoints, start, and what a range finder sees of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ARENA = 20.0
"""Side of the square arena, m; its corner is the origin and its edge a wall."""
_OBSTACLE_RADII = (0.8, 1.8)
_CLEARANCE = 1.2
_LEG = 5.0
_TRIES = 200


@dataclass(frozen=True)
class Course:
    """Where things stand, m.

    Args:
        centres: of the obstacles, shape (obstacles, 2).
        radii: of the obstacles, shape (obstacles,).
        points: the start, then the waypoints in order, shape (1 + waypoints, 2).
    """

    centres: NDArray[np.float64]
    radii: NDArray[np.float64]
    points: NDArray[np.float64]

    def clearance(self, x: float, y: float) -> float:
        """Distance from a point to the nearest obstacle or wall, m; negative inside one."""
        walls = min(x, y, ARENA - x, ARENA - y)
        if not len(self.radii):
            return walls
        gaps = np.hypot(self.centres[:, 0] - x, self.centres[:, 1] - y) - self.radii
        return min(walls, float(gaps.min()))

    def ranges(self, x: float, y: float, angles: NDArray[np.float64], limit: float) -> NDArray[np.float64]:
        """Distance to the first obstacle or wall along each ray.

        Args:
            x: of the rays' origin, m.
            y: of the rays' origin, m.
            angles: of the rays in world axes, rad, shape (rays,).
            limit: the longest distance seen, m.

        Returns:
            Distances in [0, limit], shape (rays,).
        """
        directions = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        origin = np.array([x, y])
        with np.errstate(divide="ignore"):
            to_walls = (np.where(directions > 0, ARENA, 0.0) - origin) / directions
        nearest = np.where(directions == 0.0, np.inf, to_walls).min(axis=1)
        offsets = self.centres - origin
        along = directions @ offsets.T
        depth = self.radii**2 - (offsets**2).sum(axis=1) + along**2
        entry = along - np.sqrt(np.maximum(depth, 0.0))
        hits = np.where((depth >= 0.0) & (along > 0.0), entry, np.inf)
        seen: NDArray[np.float64] = np.clip(np.minimum(nearest, hits.min(axis=1, initial=np.inf)), 0.0, limit)
        return seen


def draw_course(rng: np.random.Generator, n_waypoints: int, n_obstacles: int) -> Course:
    """Draw a course: obstacles apart from each other, waypoints clear of them and at least 5 m apart in turn.

    Args:
        rng: generator of all the draws.
        n_waypoints: at least 1.
        n_obstacles: at least 0; more than about 12 leave too little room.

    Returns:
        The course. A layout that leaves no room for a point is thrown away and drawn anew.
    """
    while True:
        obstacles: list[NDArray[np.float64]] = []
        for _ in range(_TRIES):
            if len(obstacles) == n_obstacles:
                break
            radius = rng.uniform(*_OBSTACLE_RADII)
            centre = rng.uniform(radius, ARENA - radius, 2)
            if all(np.hypot(*(centre - o[:2])) > radius + o[2] + 2.0 * _CLEARANCE for o in obstacles):
                obstacles.append(np.array([*centre, radius]))
        table = np.array(obstacles).reshape(-1, 3)
        course = Course(table[:, :2], table[:, 2], np.empty((0, 2)))
        points: list[NDArray[np.float64]] = []
        for _ in range(_TRIES):
            if len(points) == n_waypoints + 1:
                break
            point = rng.uniform(_CLEARANCE, ARENA - _CLEARANCE, 2)
            far = not points or np.hypot(*(point - points[-1])) >= _LEG
            if far and course.clearance(*point) >= _CLEARANCE:
                points.append(point)
        if len(obstacles) == n_obstacles and len(points) == n_waypoints + 1:
            return Course(course.centres, course.radii, np.array(points))
