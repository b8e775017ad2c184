"""Reading images from where users have them: idx files, a folder for each class, CIFAR's batches."""

from __future__ import annotations

import gzip
import io
import math
import pickle
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sna_rl.errors import SnaError, UsageError, require
from sna_rl.runs.files import DAMAGE, check_file

MAX_BYTES = 2**31
IDX_MAGIC = {b"\x00\x00\x08\x01": 1, b"\x00\x00\x08\x03": 3}
"""First bytes of an idx file of unsigned bytes → its number of axes."""
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")


@dataclass(frozen=True)
class Images:
    """Labelled images.

    Args:
        pixels: (images, channels, height, width), bytes.
        labels: (images), numbers of classes.
        classes: their names.
    """

    pixels: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, rows: Tensor) -> Images:
        return Images(self.pixels[rows], self.labels[rows], self.classes)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        channels, height, width = self.pixels.shape[1:]
        return channels, height, width


def read_images(folder: Path, part: str) -> Images:
    """Read one part of a data set, whatever its form.

    - idx: `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, `t10k-…` for the test, each maybe `.gz`;
    - `part/<class>/*.jpg`, or png, bmp;
    - `cifar-10-batches-py`: `data_batch_1` … `data_batch_5`, `test_batch`.

    Args:
        folder: where the data set lies.
        part: train or test.

    Raises:
        UsageError: if there is no data set of these forms, or a class has no image.
        SnaError: if a file is damaged; it is named.
    """
    prefix = "train" if part == "train" else "t10k"
    if found := sorted(folder.glob(f"{prefix}-images-idx3-ubyte*")):
        labels = sorted(folder.glob(f"{prefix}-labels-idx1-ubyte*"))
        if not labels:
            raise SnaError(f"{str(folder)!r} has images but no {prefix}-labels-idx1-ubyte")
        return _read_idx_pair(found[0], labels[0])
    names = [f"data_batch_{n}" for n in range(1, 6)] if part == "train" else ["test_batch"]
    if (folder / names[0]).is_file():
        return _read_batches([folder / name for name in names])
    if (folder / part).is_dir():
        return read_class_folders(folder / part)
    raise UsageError(
        f"{str(folder)!r} holds no {part} images: no idx files, no {part}/<class>/ folders, no CIFAR batches"
    )


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, gzipped or not.

    Args:
        path: the file.

    Returns:
        An array of one axis (labels) or three (images, rows, columns).

    Raises:
        SnaError: if it is damaged.
    """
    check_file(path, MAX_BYTES)
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                content = file.read(MAX_BYTES)
        else:
            content = path.read_bytes()
    except (*DAMAGE, zlib.error) as error:
        raise SnaError(f"{str(path)!r} can't be unpacked: {error}") from error
    n_axes = IDX_MAGIC.get(content[:4])
    if n_axes is None or len(content) < 4 + 4 * n_axes:
        raise SnaError(
            f"{str(path)!r} is no idx file of bytes: it begins with {content[:4].hex() or 'nothing'}"
        )
    shape = struct.unpack(f">{n_axes}I", content[4 : 4 + 4 * n_axes])
    data = np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes)
    if len(data) != math.prod(shape):
        wanted = " × ".join(map(str, shape))
        raise SnaError(f"{str(path)!r} tells of {wanted} bytes and holds {len(data):,}")
    return data.reshape(shape).copy()


def read_class_folders(folder: Path) -> Images:
    """Read `folder/<class>/*`, classes in the order of their names; hidden names are passed over.

    Args:
        folder: holds one folder a class; all images have the size of the first.

    Raises:
        UsageError: if there are no classes, or one of them has no image.
        SnaError: if an image is damaged or of another size.
    """
    opener = require("PIL.Image", "vision")
    classes = sorted(path for path in _shown(folder) if path.is_dir())
    if not classes:
        raise UsageError(f"{str(folder)!r} has no folder for a class")
    pixels: list[NDArray[np.uint8]] = []
    labels: list[int] = []
    for number, path in enumerate(classes):
        files = sorted(file for file in _shown(path) if file.suffix.lower() in SUFFIXES)
        if not files:
            raise UsageError(f"class folder {str(path)!r} has no image; remove it or fill it")
        for file in files:
            try:
                with opener.open(file) as image:
                    pixels.append(np.asarray(image.convert("RGB")))
            except (*DAMAGE, SyntaxError, opener.DecompressionBombError) as error:
                raise SnaError(f"{str(file)!r} can't be read as an image: {error}") from error
            if pixels[-1].shape != pixels[0].shape:
                here, first = (f"{each.shape[1]} × {each.shape[0]}" for each in (pixels[-1], pixels[0]))
                raise SnaError(f"{str(file)!r} is {here} pixels, the images before it {first}")
            labels.append(number)
    stacked = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous()
    return Images(stacked, torch.tensor(labels), tuple(path.name for path in classes))


class SafeUnpickler(pickle.Unpickler):
    """Reads numbers, texts, containers and NumPy arrays out of a pickle; anything else in it is refused.

    Args:
        file: the pickle.
        **options: of `pickle.Unpickler`.
    """

    ALLOWED = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    }

    def find_class(self, module: str, name: str) -> Any:
        """The class or function of that name, if it is one of those that arrays are made with."""
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR batch needs")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def read_batch(path: Path) -> tuple[NDArray[np.uint8], list[int]]:
    """Read one of CIFAR-10's Python batches without running what it may hold.

    Args:
        path: the file.

    Returns:
        Images (rows, 3, 32, 32) and labels.

    Raises:
        SnaError: if it is damaged, or asks for anything but arrays.
    """
    check_file(path, MAX_BYTES)
    try:
        content = SafeUnpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        pixels = np.asarray(content[b"data"])
        labels = [int(label) for label in content[b"labels"]]
        if pixels.dtype != np.uint8 or pixels.shape != (len(labels), 3072):
            raise ValueError(f"it holds {pixels.dtype} of shape {pixels.shape} for {len(labels)} labels")
        if not set(labels) <= set(range(10)):
            raise ValueError("a label is not from 0 to 9")
    except (*DAMAGE, pickle.UnpicklingError, AttributeError, ImportError, IndexError) as error:
        raise SnaError(f"{str(path)!r} is no CIFAR-10 batch: {error}") from error
    return pixels.reshape(-1, 3, 32, 32), labels


def _shown(folder: Path) -> Iterator[Path]:
    """What is in a folder and not hidden."""
    return (path for path in folder.iterdir() if not path.name.startswith("."))


def _read_batches(paths: list[Path]) -> Images:
    """Several batches as one set."""
    read = [read_batch(path) for path in paths]
    pixels = torch.from_numpy(np.concatenate([pixels for pixels, _ in read]))
    labels = torch.tensor([label for _, labels in read for label in labels])
    if not len(labels):
        raise SnaError(f"{str(paths[0])!r} holds no images")
    return Images(pixels, labels, tuple(map(str, range(10))))


def _read_idx_pair(images: Path, labels: Path) -> Images:
    """Images with their labels from two idx files."""
    pixels, classes = read_idx(images), read_idx(labels)
    if pixels.ndim != 3 or classes.ndim != 1 or len(pixels) != len(classes):
        raise SnaError(
            f"{str(images)!r} and {str(labels)!r} don't belong together: "
            f"shapes {pixels.shape} and {classes.shape}"
        )
    if not pixels.size:
        raise SnaError(f"{str(images)!r} holds no images: its shape is {pixels.shape}")
    names = tuple(map(str, range(int(classes.max()) + 1)))
    return Images(torch.from_numpy(pixels)[:, None], torch.from_numpy(classes).long(), names)
