"""Motion of the waypoint vehicle: a planar body with thrust, drag, a keel and wind."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, hypot, sin


@dataclass(frozen=True)
class Vehicle:
    """What the vehicle is made of.

    At full thrust in still air it tends to √(max_thrust / drag) = 4 m/s.

    Args:
        mass: kg.
        max_thrust: N along the heading, both ways.
        drag: kg/m; force along the heading per squared air speed.
        keel_drag: kg/s; force across the heading per air speed, so that it follows its nose.
        max_turn_rate: rad/s.
        turn_lag: s; the turn rate follows the command with this time constant.
        radius: m.
    """

    mass: float = 2.0
    max_thrust: float = 4.0
    drag: float = 0.25
    keel_drag: float = 6.0
    max_turn_rate: float = 2.0
    turn_lag: float = 0.2
    radius: float = 0.3


@dataclass(frozen=True)
class Motion:
    """Where the vehicle is and how it moves; all in world axes, SI units, angles in rad."""

    x: float
    y: float
    heading: float
    vx: float = 0.0
    vy: float = 0.0
    turn_rate: float = 0.0

    def in_body_axes(self, east: float, north: float) -> tuple[float, float]:
        """Components of a world vector along the heading and to its left."""
        c, s = cos(self.heading), sin(self.heading)
        return c * east + s * north, c * north - s * east


def advance(
    vehicle: Vehicle,
    motion: Motion,
    command: tuple[float, float],
    wind: tuple[float, float],
    *,
    duration: float,
    n_substeps: int = 5,
) -> Motion:
    """Integrate the equations of motion for a constant command and wind.

    m dv/dt = max_thrust · thrust · e − drag · |u∥| u∥ − keel_drag · u⊥ with the air velocity u = v − wind
    split along (∥) and across (⊥) the heading e; turn_lag · dω/dt = max_turn_rate · turn − ω. Semi-implicit
    Euler: velocities first, positions with the new ones.

    Args:
        vehicle: its constants.
        motion: at the start.
        command: (thrust, turn), each in [−1, 1].
        wind: m/s, world axes.
        duration: s.
        n_substeps: equal steps of the integration, at least 1.

    Returns:
        The motion after `duration`.

    Example:
        >>> after = advance(Vehicle(), Motion(0.0, 0.0, 0.0), (1.0, 0.0), (0.0, 0.0), duration=0.1)
        >>> 0.19 < after.vx < 0.2
        True
    """
    dt = duration / n_substeps
    for _ in range(n_substeps):
        turn_rate = motion.turn_rate + dt / vehicle.turn_lag * (
            vehicle.max_turn_rate * command[1] - motion.turn_rate
        )
        heading = motion.heading + dt * turn_rate
        along, across = motion.in_body_axes(motion.vx - wind[0], motion.vy - wind[1])
        ahead = vehicle.max_thrust * command[0] - vehicle.drag * abs(along) * along
        aside = -vehicle.keel_drag * across
        c, s = cos(motion.heading), sin(motion.heading)
        vx = motion.vx + dt / vehicle.mass * (c * ahead - s * aside)
        vy = motion.vy + dt / vehicle.mass * (s * ahead + c * aside)
        motion = Motion(motion.x + dt * vx, motion.y + dt * vy, heading, vx, vy, turn_rate)
    return motion


def distance(motion: Motion, point: tuple[float, float]) -> float:
    """Metres from the vehicle's centre to a point."""
    return hypot(point[0] - motion.x, point[1] - motion.y)
