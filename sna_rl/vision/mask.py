"""Learning to fill in hidden patches of an image."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from sna_rl.runs.fit_config import Batches, step_generator
from sna_rl.vision.augment import augment
from sna_rl.vision.classify import centred, scaled
from sna_rl.vision.embeddings import PatchEmbedding, from_patches, to_patches
from sna_rl.vision.images import Images
from sna_rl.vision.measures import psnr, ssim
from sna_rl.vision.model import IterativeModel
from sna_rl.vision.objective import readout_loss
from sna_rl.vision.settings import VisionConfig, check_shares

TRIAL = 0.4
"""Share of an image that is hidden where models are compared."""
EVALUATED = 250
"""Images computed at once where models are evaluated."""


class PatchMaskTask:
    """Hidden patches are predicted as pixels, loss the mean square over them.

    Args:
        model: what is trained, on its device.
        train: images learned from.
        valid: images that choose the best weights.
        config: batch size, read-outs, augmentation, shares that are hidden, seed.
    """

    def __init__(self, model: IterativeModel, train: Images, valid: Images, config: VisionConfig) -> None:
        self.model, self.train, self.valid, self.config = model, train, valid, config
        self.device = next(model.parameters()).device
        self.batches = Batches(len(train), config.learn.batch_size, config.fit.seed)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Images in [−1, 1] and which of their patches are hidden."""
        task, draw = self.config.task, step_generator(self.config.fit.seed, step)
        images = augment(scaled(self.train.pixels[self.batches.rows(step)]), task.augment, draw)
        hidden = hide(len(images), task.n_side**2, (task.min_hidden, task.max_hidden), draw)
        return centred(images).to(self.device), hidden.to(self.device)

    def loss(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Mean square error over the hidden patches."""
        images, hidden = batch
        wanted = to_patches(images, patch_size(self.model))[hidden]

        def mean_square(answer: Tensor) -> Tensor:
            return F.mse_loss(answer[hidden].float(), wanted)

        return readout_loss(self.model, batch, mean_square, self.config.learn.loss_on)[0], {}

    def evaluate(self) -> Mapping[str, float]:
        """Fidelity of validation images of which 40 % were hidden."""
        numbers = fidelity(self.model, self.valid, TRIAL, seed=self.config.fit.seed)
        return {**numbers, "score": numbers["psnr"]}


def hide(
    batch: int, n_places: int, shares: tuple[float, float], draw: torch.Generator
) -> Bool[Tensor, "batch places"]:
    """Which places of each image are hidden: a share drawn evenly, at least one hidden and one seen.

    Args:
        batch: images.
        n_places: places of an image.
        shares: least and most.
        draw: where they come from.

    Raises:
        UsageError: if a share leaves nothing to see or nothing to fill in.

    Example:
        >>> hide(2, 10, (0.3, 0.3), torch.Generator()).sum(1)
        tensor([3, 3])
    """
    check_shares(*shares)
    share = shares[0] + (shares[1] - shares[0]) * torch.rand(batch, 1, generator=draw)
    count = (share * n_places).round().clamp(1, n_places - 1)
    return torch.rand(batch, n_places, generator=draw).argsort(1).argsort(1) < count


@torch.no_grad()
def reconstruct(
    model: IterativeModel,
    images: Float[Tensor, "batch channels height width"],
    hidden: Bool[Tensor, "batch places"],
    n_rounds: int = 1,
    n_iterations: int | None = None,
) -> Float[Tensor, "batch channels height width"]:
    """Fill in hidden patches, those beside visible ones first.

    After round k of K, n arccos(k / K) / (π / 2) of n hidden patches are still hidden; what was filled in is
    seen from then on.

    Args:
        model: trained, in evaluation mode.
        images: pixels in [−1, 1]; hidden ones are not looked at.
        hidden: which patches are.
        n_rounds: K.
        n_iterations: of each pass.

    Returns:
        The images, visible patches as they were.
    """
    size = patch_size(model)
    n_hidden = hidden.sum(1, keepdim=True)
    for k in range(1, n_rounds + 1):
        patches = to_patches(images, size)
        answer: Tensor = model(images, hidden, n_iterations=n_iterations)
        images = from_patches(
            torch.where(hidden.unsqueeze(-1), answer.clamp(-1.0, 1.0), patches), size, _shape(images)
        )
        hidden = lowest(hidden, _n_neighbours(hidden), still_hidden(n_hidden, k, n_rounds))
    return images


def still_hidden(n_hidden: Int[Tensor, "batch 1"], k: int, n_rounds: int) -> Float[Tensor, "batch 1"]:
    """How many of n hidden places are still hidden after round k of K: n arccos(k / K) / (π / 2), rounded.

    Args:
        n_hidden: n of each image.
        k: the round, from 1.
        n_rounds: K.

    Example:
        >>> [still_hidden(torch.tensor([[12]]), k, 2).item() for k in (1, 2)]
        [8.0, 0.0]
    """
    return (n_hidden * math.acos(k / n_rounds) / (math.pi / 2)).round()


def lowest(
    hidden: Bool[Tensor, "batch places"],
    values: Float[Tensor, "batch places"],
    count: Float[Tensor, "batch 1"],
) -> Bool[Tensor, "batch places"]:
    """Of the hidden places, those of the lowest values, ties in order.

    Args:
        hidden: which are.
        values: one a place.
        count: how many of each image.

    Example:
        >>> hidden = torch.tensor([[False, True, True, True]])
        >>> lowest(hidden, torch.tensor([[0.0, 3.0, 1.0, 2.0]]), torch.tensor([[2.0]]))
        tensor([[False, False,  True,  True]])
    """
    order = torch.where(hidden, values, torch.inf).argsort(stable=True, dim=1).argsort(1)
    return hidden & (order < count)


def fidelity(
    model: IterativeModel,
    images: Images,
    share: float,
    *,
    n_rounds: int = 1,
    n_iterations: int | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """Peak signal-to-noise ratio and structural similarity of reconstructions, visible patches included.

    Args:
        model: trained, in evaluation mode.
        images: what it is asked.
        share: of every image that is hidden.
        n_rounds: of decoding.
        n_iterations: of each layer; those of training by default.
        seed: of the masks.

    Returns:
        psnr in decibels and ssim, means over the images.

    Raises:
        UsageError: if the share is not over 0 and under 1.
    """
    draw, n_side = step_generator(seed, 0), model.embed.get_buffer("places").shape[0]
    device = next(model.parameters()).device
    peaks, likenesses = [], []
    for rows in torch.split(torch.arange(len(images)), EVALUATED):
        whole = scaled(images.pixels[rows]).to(device)
        hidden = hide(len(rows), n_side, (share, share), draw).to(device)
        filled = reconstruct(model, centred(whole), hidden, n_rounds, n_iterations) / 2.0 + 0.5
        peaks.append(psnr(filled, whole))
        likenesses.append(ssim(filled, whole))
    return {"psnr": torch.cat(peaks).mean().item(), "ssim": torch.cat(likenesses).mean().item()}


def patch_size(model: IterativeModel) -> tuple[int, int]:
    """Height and width of a patch of a model of images.

    Args:
        model: whose embedding cuts patches.
    """
    assert isinstance(model.embed, PatchEmbedding)
    return model.embed.patch


def _shape(images: Tensor) -> tuple[int, int, int]:
    channels, height, width = images.shape[1:]
    return channels, height, width


def _n_neighbours(hidden: Tensor) -> Tensor:
    """How many visible places each place of a square has around it."""
    side = math.isqrt(hidden.shape[1])
    visible = (~hidden).float().view(-1, 1, side, side)
    return F.conv2d(visible, torch.ones(1, 1, 3, 3, device=hidden.device), padding=1).flatten(1)
