"""Random changes of training images: shifts, mirror images, colours, geometry, from one generator."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


def augment(
    images: Float[Tensor, "batch channels height width"], how: str, draw: torch.Generator
) -> Float[Tensor, "batch channels height width"]:
    """Change every image at random.

    Args:
        images: pixels in [0, 1].
        how: none; crop, shifted by up to an eighth of the side, zeros coming in; flip, crop and mirrored with
            probability ½; auto, flip and one operation of `OPERATIONS`.
        draw: where the changes come from.

    Example:
        >>> images = torch.rand(2, 1, 8, 8)
        >>> torch.equal(augment(images, "none", torch.Generator()), images)
        True
    """
    if how == "none":
        return images
    if how != "crop":
        mirrored = torch.rand(len(images), generator=draw) < 0.5
        images = torch.where(mirrored[:, None, None, None], images.flip(-1), images)
    if how == "auto":
        chosen = torch.randint(len(OPERATIONS), (len(images),), generator=draw)
        strengths = torch.rand(len(images), generator=draw) * 2.0 - 1.0
        changed = images.clone()
        for number, operation in enumerate(OPERATIONS.values()):
            rows = chosen == number
            if rows.any():
                changed[rows] = operation(images[rows], strengths[rows, None, None, None])
        images = changed.clamp(0.0, 1.0)
    return _shift(images, draw)


def _shift(images: Tensor, draw: torch.Generator) -> Tensor:
    """Each image moved by up to an eighth of its sides."""
    batch, _, height, width = images.shape
    most = (height // 8, width // 8)
    padded = F.pad(images, (most[1], most[1], most[0], most[0]))
    top, left = (torch.randint(2 * each + 1, (batch, 1), generator=draw) for each in most)
    rows, columns = top + torch.arange(height), left + torch.arange(width)
    return padded[torch.arange(batch)[:, None, None], :, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)


def _warp(images: Tensor, matrix: Tensor) -> Tensor:
    """Images seen through an affine map of the plane (batch, 2, 3)."""
    grid = F.affine_grid(matrix, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def _affine(images: Tensor, entries: dict[tuple[int, int], Tensor]) -> Tensor:
    """The identity map with some entries changed, applied."""
    matrix = torch.eye(2, 3).repeat(len(images), 1, 1)
    for (row, column), value in entries.items():
        matrix[:, row, column] = value.flatten()
    return _warp(images, matrix)


def _rotate(images: Tensor, strength: Tensor) -> Tensor:
    """By up to 30 degrees."""
    angle = strength * (torch.pi / 6.0)
    cosine, sine = angle.cos(), angle.sin()
    return _affine(images, {(0, 0): cosine, (0, 1): -sine, (1, 0): sine, (1, 1): cosine})


def _contrast(images: Tensor, strength: Tensor) -> Tensor:
    """Away from the mean, or towards it."""
    mean = images.mean((-3, -2, -1), keepdim=True)
    return mean + (images - mean) * (1.0 + 0.9 * strength)


def _colour(images: Tensor, strength: Tensor) -> Tensor:
    """Away from grey, or towards it."""
    grey = images.mean(-3, keepdim=True)
    return grey + (images - grey) * (1.0 + 0.9 * strength)


def _posterize(images: Tensor, strength: Tensor) -> Tensor:
    """To 4 … 32 levels."""
    levels = torch.exp2(torch.round(3.5 + 1.5 * strength))
    return torch.floor(images * levels) / levels


OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "identity": lambda images, strength: images,
    "brightness": lambda images, strength: images * (1.0 + 0.9 * strength),
    "contrast": _contrast,
    "colour": _colour,
    "posterize": _posterize,
    "solarize": lambda images, strength: torch.where(images > 0.75 + 0.25 * strength, 1.0 - images, images),
    "rotate": _rotate,
    "shear across": lambda images, strength: _affine(images, {(0, 1): 0.3 * strength}),
    "shear down": lambda images, strength: _affine(images, {(1, 0): 0.3 * strength}),
    "shift across": lambda images, strength: _affine(images, {(0, 2): 0.3 * strength}),
    "shift down": lambda images, strength: _affine(images, {(1, 2): 0.3 * strength}),
}
"""Name → operation on images in [0, 1] at strengths in [−1, 1], 0 near or at the image itself."""
