"""Learning to classify images."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from sna_rl.runs.fit_config import Batches, step_generator
from sna_rl.vision.augment import augment
from sna_rl.vision.images import Images
from sna_rl.vision.model import IterativeModel
from sna_rl.vision.objective import readout_loss
from sna_rl.vision.settings import VisionConfig


class ClassifyTask:
    """Training and validation images for `sna_rl.runs.fit`.

    Args:
        model: what is trained, on its device.
        train: images learned from.
        valid: images that choose the best weights.
        config: batch size, read-outs, label smoothing, augmentation, seed.
    """

    def __init__(self, model: IterativeModel, train: Images, valid: Images, config: VisionConfig) -> None:
        self.model, self.train, self.valid, self.config = model, train, valid, config
        self.device = next(model.parameters()).device
        self.batches = Batches(len(train), config.learn.batch_size, config.fit.seed)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Augmented images and labels of a step."""
        rows = self.batches.rows(step)
        draw = step_generator(self.config.fit.seed, step)
        images = augment(scaled(self.train.pixels[rows]), self.config.task.augment, draw)
        return centred(images).to(self.device), self.train.labels[rows].to(self.device)

    def loss(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Cross-entropy."""
        images, labels = batch
        smoothing = self.config.learn.label_smoothing

        def cross_entropy(scores: Tensor) -> Tensor:
            return F.cross_entropy(scores.float(), labels, label_smoothing=smoothing)

        loss, last = readout_loss(self.model, (images,), cross_entropy, self.config.learn.loss_on)
        return loss, {"accuracy": (last.argmax(-1) == labels).float().mean()}

    def evaluate(self) -> Mapping[str, float]:
        """Accuracy on the validation images after the iterations of training."""
        n = self.model.body.config.n_iterations
        found = class_accuracies(self.model, self.valid, [n])[n]
        return {"accuracy": found, "score": found}


def class_accuracies(model: IterativeModel, images: Images, iterations: list[int]) -> dict[int, float]:
    """Share of images that are classified right, read out after some iterations of one pass.

    Args:
        model: trained, in evaluation mode.
        images: what it is asked.
        iterations: where it is read, of the last layer.

    Returns:
        Iteration → accuracy.
    """
    return {n: right.float().mean().item() for n, right in right_images(model, images, iterations).items()}


@torch.no_grad()
def right_images(
    model: IterativeModel, images: Images, iterations: list[int], batch_size: int = 500
) -> dict[int, Bool[Tensor, " images"]]:
    """Which images are classified right, read out after some iterations of one pass.

    Args:
        model: trained, in evaluation mode.
        images: what it is asked.
        iterations: where it is read, of the last layer.
        batch_size: images computed at once.

    Returns:
        Iteration, ascending → True where the likeliest class is the image's.
    """
    device = next(model.parameters()).device
    parts: dict[int, list[Tensor]] = {n: [] for n in sorted(set(iterations))}
    for start in range(0, len(images), batch_size):
        pixels = centred(scaled(images.pixels[start : start + batch_size])).to(device)
        labels = images.labels[start : start + batch_size].to(device)
        for n, scores in model.readouts(pixels, iterations=parts):
            parts[n].append((scores.argmax(-1) == labels).cpu())
    return {n: torch.cat(each) for n, each in parts.items()}


def scaled(pixels: Tensor) -> Float[Tensor, "batch channels height width"]:
    """Bytes as numbers in [0, 1]."""
    return pixels.float() / 255.0


def centred(
    images: Float[Tensor, "batch channels height width"],
) -> Float[Tensor, "batch channels height width"]:
    """Numbers in [0, 1] as numbers in [−1, 1]."""
    return images * 2.0 - 1.0
