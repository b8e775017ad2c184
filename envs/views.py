"""Pictures of the environments that have no scene of their own: state and last action as marks."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sna_rl.envs.drawing import Canvas, Colour

_SIZE = 240
_GROUND: Colour = (245, 245, 240)
_AXIS: Colour = (170, 174, 180)
_STATE: Colour = (25, 55, 110)
_ACTION: Colour = (214, 120, 30)
_EMPTY: Colour = (215, 217, 220)


def draw_bars(state: ArrayLike, action: ArrayLike) -> NDArray[np.uint8]:
    """Entries of a state (above, full height 3) and of the last action (below, full height 1) as bars.

    Args:
        state: numbers around 0.
        action: numbers in [−1, 1].

    Returns:
        Image of shape (240, 240, 3).
    """
    canvas = Canvas(1.0, _SIZE, _GROUND)
    for values, limit, level, height, colour in (
        (np.asarray(state), 3.0, 0.66, 0.3, _STATE),
        (np.asarray(action), 1.0, 0.18, 0.14, _ACTION),
    ):
        canvas.line((0.05, level), (0.95, level), 0.006, _AXIS)
        places = 0.05 + 0.9 * (np.arange(len(values)) + 0.5) / len(values)
        for place, value in zip(places, np.clip(values / limit, -1.0, 1.0), strict=True):
            canvas.line((place, level), (place, level + height * value), 0.5 / len(values), colour)
    return canvas.image()


def draw_choices(state: int, n_states: int, action: ArrayLike, sizes: ArrayLike) -> NDArray[np.uint8]:
    """A numbered state (upper row of dots) and a choice of each mode of the last action (rows below).

    Args:
        state: number of the state.
        n_states: how many there are.
        action: choice of each mode, −1 where none has been made.
        sizes: number of choices of each mode.

    Returns:
        Image of shape (240, 240, 3).
    """
    canvas = Canvas(1.0, _SIZE, _GROUND)
    chosen, counts = np.atleast_1d(action), np.atleast_1d(sizes)
    rows = [
        (state, n_states, _STATE),
        *((int(c), int(n), _ACTION) for c, n in zip(chosen, counts, strict=True)),
    ]
    for row, (mark, count, colour) in enumerate(rows):
        height = 1.0 - (row + 0.5) / len(rows)
        for index in range(count):
            place = 0.05 + 0.9 * (index + 0.5) / count
            radius = min(0.3 / len(rows), 0.36 / count)
            canvas.disc((place, height), radius, colour if index == mark else _EMPTY)
    return canvas.image()
