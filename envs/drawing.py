"""A small anti-aliased painter on a numpy image, so that rendering needs no further library."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Colour = tuple[int, int, int]


class Canvas:
    """An RGB image over a square of the plane; y points up.

    Shapes are painted through their signed distance, in pixels, to each pixel's centre: coverage is
    ½ − distance, clipped to [0, 1].

    Args:
        side: length of the square shown, in the units of the drawing.
        size: pixels a side.
        background: colour of the empty canvas.

    Example:
        >>> canvas = Canvas(side=1.0, size=8, background=(255, 255, 255))
        >>> canvas.disc((0.5, 0.5), 0.2, (0, 0, 0))
        >>> canvas.image().shape
        (8, 8, 3)
    """

    def __init__(self, side: float, size: int, background: Colour) -> None:
        self._scale = size / side
        centres = (np.arange(size) + 0.5) / self._scale
        self._x, self._y = centres[None, :], centres[::-1, None]
        self._pixels = np.tile(np.array(background, np.float64), (size, size, 1))

    def disc(self, centre: ArrayLike, radius: float, colour: Colour, opacity: float = 1.0) -> None:
        """Paint a filled disc."""
        x, y = np.asarray(centre, dtype=np.float64)
        self._paint(np.hypot(self._x - x, self._y - y) - radius, colour, opacity)

    def ring(self, centre: ArrayLike, radius: float, width: float, colour: Colour) -> None:
        """Paint a circle's outline of the given width."""
        x, y = np.asarray(centre, dtype=np.float64)
        self._paint(np.abs(np.hypot(self._x - x, self._y - y) - radius) - width / 2, colour, 1.0)

    def line(
        self, start: ArrayLike, end: ArrayLike, width: float, colour: Colour, opacity: float = 1.0
    ) -> None:
        """Paint a segment with round ends."""
        ax, ay = np.asarray(start, dtype=np.float64)
        dx, dy = np.asarray(end, dtype=np.float64) - (ax, ay)
        length = max(dx * dx + dy * dy, 1e-12)
        t = np.clip(((self._x - ax) * dx + (self._y - ay) * dy) / length, 0.0, 1.0)
        self._paint(np.hypot(self._x - ax - t * dx, self._y - ay - t * dy) - width / 2, colour, opacity)

    def polygon(self, corners: ArrayLike, colour: Colour) -> None:
        """Paint a filled convex polygon, corners counter-clockwise."""
        points = np.asarray(corners, dtype=np.float64)
        distance = np.full(self._pixels.shape[:2], -np.inf)
        for (ax, ay), (bx, by) in zip(points, np.roll(points, -1, axis=0), strict=True):
            length = np.hypot(bx - ax, by - ay)
            edge = ((by - ay) * (self._x - ax) - (bx - ax) * (self._y - ay)) / length
            distance = np.maximum(distance, edge)
        self._paint(distance, colour, 1.0)

    def image(self) -> NDArray[np.uint8]:
        """The picture, shape (size, size, 3), rows from the top."""
        return np.rint(self._pixels).astype(np.uint8)

    def _paint(self, distance: NDArray[np.float64], colour: Colour, opacity: float) -> None:
        coverage = opacity * np.clip(0.5 - distance * self._scale, 0.0, 1.0)[:, :, None]
        self._pixels += coverage * (np.array(colour, np.float64) - self._pixels)
