"""Picture of a waypoint scene from above."""

from __future__ import annotations

from math import cos, sin

import numpy as np
from numpy.typing import NDArray

from sna_rl.envs.drawing import Canvas, Colour
from sna_rl.envs.waypoint_course import ARENA, Course
from sna_rl.envs.waypoint_dynamics import Motion

_SIZE = 400
_GROUND: Colour = (245, 245, 240)
_OBSTACLE: Colour = (120, 124, 130)
_COURSE: Colour = (205, 205, 198)
_AHEAD: Colour = (214, 120, 30)
_REACHED: Colour = (70, 150, 90)
_TRAIL: Colour = (90, 130, 190)
_VEHICLE: Colour = (25, 55, 110)
_WIND: Colour = (60, 60, 60)


def draw_scene(
    course: Course,
    motion: Motion,
    trail: list[tuple[float, float]],
    n_reached: int,
    wind_and_radius: tuple[NDArray[np.float64], float],
) -> NDArray[np.uint8]:
    """Draw obstacles, waypoints (green once reached, the current one filled), trail, vehicle and wind.

    Args:
        course: where things stand.
        motion: the vehicle's place and heading.
        trail: places passed, m.
        n_reached: waypoints reached so far.
        wind_and_radius: wind, m/s, drawn in the lower left corner, 1 m long for 1 m/s; the
            vehicle's radius, m.

    Returns:
        Image of shape (400, 400, 3).
    """
    wind, radius = wind_and_radius
    canvas = Canvas(ARENA, _SIZE, _GROUND)
    for start, end in zip(course.points[:-1], course.points[1:], strict=True):
        canvas.line(start, end, 0.08, _COURSE)
    for centre, size in zip(course.centres, course.radii, strict=True):
        canvas.disc(centre, float(size), _OBSTACLE)
    for index, point in enumerate(course.points[1:]):
        colour = _REACHED if index < n_reached else _AHEAD
        if index == n_reached:
            canvas.disc(point, 0.8, colour, opacity=0.3)
        canvas.ring(point, 0.8, 0.12, colour)
        for dot in range(index + 1):  # the waypoint's place in the order, as dots
            canvas.disc((point[0] + 0.28 * (dot - index / 2.0), point[1]), 0.1, colour)
    for start, end in zip(trail[:-1:4], [*trail[4::4], trail[-1]], strict=False):
        canvas.line(start, end, 0.1, _TRAIL)
    ahead = np.array([cos(motion.heading), sin(motion.heading)])
    left = np.array([-ahead[1], ahead[0]])
    place = np.array([motion.x, motion.y])
    hull = [2.0 * ahead, 1.2 * left - 1.2 * ahead, -1.2 * left - 1.2 * ahead]
    canvas.polygon([place + radius * corner for corner in hull], _VEHICLE)
    corner = np.array([1.5, 1.5])
    canvas.disc(corner, 0.15, _WIND)
    canvas.line(corner, corner + wind, 0.1, _WIND)
    return canvas.image()
