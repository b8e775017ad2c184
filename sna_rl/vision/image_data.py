"""Images of a run: read, shared out, and compared with those that a model has learned from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from sna_rl.errors import UsageError
from sna_rl.runs.atomic import write_json
from sna_rl.runs.files import read_record
from sna_rl.vision.images import Images, read_images
from sna_rl.vision.settings import TaskConfig

KIND = "images.json"
"""File of a run folder: size and classes of its images."""


def image_splits(task: TaskConfig, seed: int) -> tuple[Images, Images, Images]:
    """Training, validation and test images; the validation images are drawn from the training set.

    Args:
        task: folder and sizes.
        seed: of the draw.

    Raises:
        UsageError: if there is no such folder, too few images in it, or other ones in the test.
        SnaError: if a file is damaged.
    """
    folder = _folder(task)
    train, test = read_images(folder, "train"), read_images(folder, "test")
    classes = test.classes if task.task == "mask" else train.classes
    check_alike(test, train.shape, classes, ("the training images", "the test images"), task.data)
    n_train = task.n_train or len(train) - task.n_valid
    if not 1 <= n_train <= len(train) - task.n_valid:
        raise UsageError(
            f"{task.data!r} has {len(train)} training images; n_train and n_valid ask for "
            f"{task.n_train + task.n_valid}"
        )
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
    return train[order[task.n_valid : task.n_valid + n_train]], train[order[: task.n_valid]], test


def images_to_score(task: TaskConfig, run: Path) -> tuple[Images, Images, Images]:
    """Test images that a trained model is asked, in the place of all three sets.

    Args:
        task: their folder, which needs no training images.
        run: the run folder, which tells what kind the model has learned from.

    Raises:
        UsageError: if there is no such folder, or images of another size or, to classify, of other classes.
        SnaError: if a file is damaged.
    """
    images = read_images(_folder(task), "test")
    if (run / KIND).exists():
        kind = read_record(run / KIND)
        classes = images.classes if task.task == "mask" else kind["classes"]
        check_alike(images, kind["shape"], classes, ("those that the run learned from", "these"), task.data)
    return images, images, images


def keep_kind(run: Path, images: Images) -> None:
    """Write down what `images_to_score` compares with.

    Args:
        run: the run folder.
        images: those that are learned from.
    """
    write_json(run / KIND, {"shape": list(images.shape), "classes": list(images.classes)})


def check_alike(
    images: Images, shape: Sequence[int], classes: Sequence[str], names: tuple[str, str], where: str
) -> None:
    """See that images have the size and the classes of others.

    Args:
        images: which ones.
        shape: channels, height and width of the others.
        classes: names of the others' classes.
        names: what the others and these are called, in the message.
        where: their folder, in the message.

    Raises:
        UsageError: naming the sizes, or the first class that one of them has alone.
    """
    if images.shape != tuple(shape):
        there, here = (" × ".join(map(str, each)) for each in (shape, images.shape))
        raise UsageError(f"{where!r}: {names[0]} are {there} (channels, height, width), {names[1]} {here}")
    for name in sorted({*classes} ^ {*images.classes}):
        raise UsageError(f"{where!r}: class {name!r} is among {names[name not in classes]} alone")


def _folder(task: TaskConfig) -> Path:
    """The folder of the images."""
    folder = Path(task.data)
    if not folder.exists():
        raise UsageError(f"image folder {task.data!r} does not exist")
    if not folder.is_dir():
        raise UsageError(f"{task.data!r} is a file; images are read from a folder")
    return folder
