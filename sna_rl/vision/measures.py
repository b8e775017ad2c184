"""How near a reconstruction comes to an image."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

WINDOW = 11  # pixels
SPREAD = 1.5  # standard deviation of its weights, pixels
LUMINANCE, CONTRAST = 0.01**2, 0.03**2


def psnr(
    image: Float[Tensor, "batch channels height width"], truth: Float[Tensor, "batch channels height width"]
) -> Float[Tensor, " batch"]:
    """Peak signal-to-noise ratio, −10 log₁₀ (mean square error), decibels.

    Args:
        image: pixels in [0, 1].
        truth: likewise.

    Returns:
        One number an image; infinite where both are equal.

    Example:
        >>> psnr(torch.zeros(1, 1, 2, 2), torch.full((1, 1, 2, 2), 0.1)).round(decimals=3)
        tensor([20.])
    """
    return -10.0 * (image - truth).square().mean((1, 2, 3)).log10()


def ssim(
    image: Float[Tensor, "batch channels height width"], truth: Float[Tensor, "batch channels height width"]
) -> Float[Tensor, " batch"]:
    """Structural similarity, mean over channels and over all places of the window inside the image.

    (2 μ_x μ_y + c₁)(2 σ_xy + c₂) / ((μ_x² + μ_y² + c₁)(σ_x² + σ_y² + c₂)), under Gaussian weights of standard
    deviation 1.5 in a window of 11 pixels (of the odd side that fits, in smaller images), c₁ = 0.01²,
    c₂ = 0.03².

    Args:
        image: pixels in [0, 1].
        truth: likewise.

    Returns:
        One number an image, 1 where both are equal.

    Source:
        Wang, Bovik, Sheikh, Simoncelli 2004.

    Example:
        >>> ssim(torch.ones(1, 1, 16, 16), torch.ones(1, 1, 16, 16))
        tensor([1.])
    """
    side = min(WINDOW, *image.shape[-2:])
    places = torch.arange(side - (side + 1) % 2, dtype=image.dtype, device=image.device)
    weights = torch.exp(-0.5 * ((places - places.mean()) / SPREAD).square())
    window = torch.outer(weights, weights) / weights.sum().square()

    def blur(x: Tensor) -> Tensor:
        blurred = F.conv2d(x.flatten(0, 1).unsqueeze(1), window[None, None])
        return blurred.view(*x.shape[:2], *blurred.shape[-2:])

    mean_x, mean_y = blur(image), blur(truth)
    var_x = blur(image.square()) - mean_x.square()
    var_y = blur(truth.square()) - mean_y.square()
    both = blur(image * truth) - mean_x * mean_y
    similar = (2 * mean_x * mean_y + LUMINANCE) * (2 * both + CONTRAST)
    scale = (mean_x.square() + mean_y.square() + LUMINANCE) * (var_x + var_y + CONTRAST)
    return (similar / scale).mean((1, 2, 3))
