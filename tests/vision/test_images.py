"""Every form of image data, whole and damaged; augmentation; classification."""

from __future__ import annotations

import gzip
import pickle
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sna_rl.errors import SnaError, UsageError
from sna_rl.runs.atomic import write_json
from sna_rl.vision.augment import OPERATIONS, augment
from sna_rl.vision.classify import ClassifyTask, class_accuracies
from sna_rl.vision.config import ModelConfig
from sna_rl.vision.image_data import image_splits, images_to_score, keep_kind
from sna_rl.vision.images import read_batch, read_class_folders, read_idx, read_images
from sna_rl.vision.model import class_model
from sna_rl.vision.settings import TaskConfig, VisionConfig

FASHION = Path("/usr/share/datasets/fashion-mnist")


def idx(array: np.ndarray[Any, Any]) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


@pytest.fixture
def idx_folder(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    for prefix, count in (("train", 20), ("t10k", 6)):
        pixels, labels = draw.integers(0, 256, (count, 4, 6)), np.arange(count) % 3
        (tmp_path / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(pixels)))
        (tmp_path / f"{prefix}-labels-idx1-ubyte").write_bytes(idx(labels))
    return tmp_path


def test_idx_files_packed_and_not(idx_folder: Path) -> None:
    images = read_images(idx_folder, "train")
    expected = np.random.default_rng(0).integers(0, 256, (20, 4, 6))
    assert images.shape == (1, 4, 6)
    np.testing.assert_array_equal(images.pixels[:, 0], expected)
    assert images.labels.tolist() == [n % 3 for n in range(20)]
    assert len(read_images(idx_folder, "test")) == 6


@pytest.mark.skipif(not FASHION.is_dir(), reason="dataset-fashion-mnist is not installed")
def test_fashion_mnist_itself() -> None:
    test = read_images(FASHION, "test")
    assert test.pixels.shape == (10_000, 1, 28, 28)
    assert torch.bincount(test.labels).tolist() == [1_000] * 10


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with nothing"),
        (b"\x00\x00\x09\x01" + 12 * b"\x00", "is no idx file of bytes: it begins with 00000901"),
        (idx(np.zeros((3, 4, 6)))[:-1], "tells of 3 × 4 × 6 bytes and holds 71"),
        (
            b"\x00\x00\x08\x03" + b"\xff" * 12,
            "tells of 4294967295 × 4294967295 × 4294967295 bytes and holds 0",
        ),
    ],
)
def test_damaged_idx_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(SnaError, match=message):
        read_idx(path)


def test_a_cut_gzip_and_labels_of_another_set(idx_folder: Path) -> None:
    path = idx_folder / "train-images-idx3-ubyte.gz"
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    with pytest.raises(SnaError, match="can't be unpacked"):
        read_images(idx_folder, "train")
    path.write_bytes(content)
    (idx_folder / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(7)))
    with pytest.raises(SnaError, match="don't belong together"):
        read_images(idx_folder, "train")


def test_a_folder_for_each_class(image_folder: Path) -> None:
    images = read_images(image_folder, "train")
    assert images.classes == ("dark", "light")
    assert images.shape == (3, 8, 8)
    assert images.pixels[images.labels == 0].float().mean() < 50
    assert images.pixels[images.labels == 1].float().mean() > 190


def test_damaged_class_folders(image_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(image_folder / "train", folder)
    (folder / "nothing").mkdir()
    with pytest.raises(UsageError, match="nothing' has no image; remove it or fill it"):
        read_class_folders(folder)
    (folder / "nothing").rmdir()
    from PIL import Image

    Image.new("RGB", (64, 64), (5, 90, 200)).save(folder / "dark" / "large.jpg")
    with pytest.raises(SnaError, match="is 64 × 64 pixels, the images before it 8 × 8"):
        read_class_folders(folder)
    content = (folder / "dark" / "large.jpg").read_bytes()
    (folder / "dark" / "large.jpg").write_bytes(content[: len(content) // 2])
    with pytest.raises(SnaError, match=r"large\.jpg' can't be read as an image"):
        read_class_folders(folder)
    with pytest.raises(UsageError, match="holds no train images: no idx files"):
        read_images(tmp_path, "train")


def test_hidden_names_are_no_classes_and_no_images(image_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(image_folder / "test", folder)
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / "dark" / "._0.png").write_bytes(b"of another file system")
    found = read_class_folders(folder)
    assert found.classes == ("dark", "light")
    assert len(found) == 8


def test_a_set_without_images(tmp_path: Path) -> None:
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx(np.zeros((0, 4, 6))))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(np.zeros(0)))
    with pytest.raises(SnaError, match=r"images-idx3-ubyte' holds no images: its shape is \(0, 4, 6\)"):
        read_images(tmp_path, "test")
    cifar = tmp_path / "cifar"
    cifar.mkdir()
    empty = {b"data": np.zeros((0, 3072), np.uint8), b"labels": []}
    (cifar / "test_batch").write_bytes(pickle.dumps(empty, protocol=3))
    with pytest.raises(SnaError, match="test_batch' holds no images"):
        read_images(cifar, "test")


def batch(path: Path, n: int = 4, **changes: Any) -> None:
    data = np.arange(n * 3072).reshape(n, 3072).astype(np.uint8)
    path.write_bytes(
        pickle.dumps({b"data": data, b"labels": [k % 10 for k in range(n)]} | changes, protocol=2)
    )


def test_cifars_batches(tmp_path: Path) -> None:
    for name in [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]:
        batch(tmp_path / name)
    images = read_images(tmp_path, "train")
    assert images.pixels.shape == (20, 3, 32, 32)
    assert images.pixels[0, 1, 0, 0] == 1024 % 256
    assert images.labels.tolist() == [0, 1, 2, 3] * 5


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("/tmp/sna-rl-should-not-be-here"),)


def test_a_batch_that_would_run_something_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "test_batch"
    path.write_bytes(pickle.dumps({b"data": Evil(), b"labels": []}))
    with pytest.raises(SnaError, match="is no CIFAR-10 batch: it asks for pathlib"):
        read_batch(path)
    assert not Path("/tmp/sna-rl-should-not-be-here").exists()
    for content in (b"", b"\x80", pickle.dumps([1]), pickle.dumps({b"data": [1.5], b"labels": [0]})):
        path.write_bytes(content)
        with pytest.raises(SnaError, match="is no CIFAR-10 batch"):
            read_batch(path)


def test_splits_are_disjoint_and_bad_sizes_refused(image_folder: Path) -> None:
    task = TaskConfig(task="classify", data=str(image_folder), n_train=0, n_valid=4)
    train, valid, test = image_splits(task, seed=0)
    assert (len(train), len(valid), len(test)) == (20, 4, 8)
    rows = {tuple(row.flatten().tolist()) for part in (train, valid) for row in part.pixels}
    assert len(rows) == 24
    with pytest.raises(UsageError, match="has 24 training images; n_train and n_valid ask for 25"):
        image_splits(TaskConfig(task="classify", data=str(image_folder), n_train=21, n_valid=4), seed=0)
    with pytest.raises(UsageError, match="does not exist"):
        image_splits(TaskConfig(task="classify", data="/nowhere"), seed=0)
    file = image_folder / "test" / "dark" / "0.png"
    with pytest.raises(UsageError, match=r"0.png' is a file; images are read from a folder"):
        image_splits(TaskConfig(task="classify", data=str(file)), seed=0)


def test_test_images_of_another_kind_are_told_by_what_differs(image_folder: Path, tmp_path: Path) -> None:
    copy, run = tmp_path / "copy", tmp_path / "run"
    shutil.copytree(image_folder, copy)
    run.mkdir()
    classify, mask = (
        TaskConfig(task=task, data=str(copy), n_train=0, n_valid=4) for task in ("classify", "mask")
    )
    keep_kind(run, image_splits(classify, 0)[0])
    shutil.rmtree(copy / "train")
    for task in (classify, mask):
        sets = images_to_score(task, run)
        assert [len(each) for each in sets] == [8, 8, 8]
        with pytest.raises(UsageError, match="copy' holds no train images"):
            image_splits(task, 0)
    (copy / "test" / "light").rename(copy / "test" / "lamp")
    with pytest.raises(UsageError, match="copy': class 'lamp' is among these alone"):
        images_to_score(classify, run)
    assert len(images_to_score(mask, run)[2]) == 8
    shutil.copytree(image_folder / "train", copy / "train")
    with pytest.raises(UsageError, match="class 'lamp' is among the test images alone"):
        image_splits(classify, 0)
    assert len(image_splits(mask, 0)[2]) == 8
    write_json(run / "images.json", {"shape": [1, 8, 8], "classes": ["dark", "lamp"]})
    for task in (classify, mask):
        with pytest.raises(UsageError, match=r"learned from are 1 × 8 × 8 .*these 3 × 8 × 8"):
            images_to_score(task, run)


@pytest.mark.parametrize("how", ["crop", "flip", "auto"])
def test_augmented_images_stay_images_and_are_repeatable(how: str) -> None:
    images = torch.rand(32, 3, 16, 16)
    first, second = (augment(images, how, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)
    assert first.shape == images.shape
    assert first.min() >= 0
    assert first.max() <= 1
    assert not torch.equal(first, images)


def test_a_crop_is_a_shift_with_zeros_coming_in() -> None:
    images = torch.rand(64, 1, 8, 8) + 0.1
    moved = augment(images, "crop", torch.Generator().manual_seed(0))
    shifts = set()
    for before, after in zip(images, moved, strict=True):
        found = [
            (down, right)
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
            if torch.equal(
                torch.nn.functional.pad(before, (1, 1, 1, 1))[:, 1 + down : 9 + down, 1 + right : 9 + right],
                after,
            )
        ]
        assert found
        shifts.add(found[0])
    assert len(shifts) == 9


@given(seed=st.integers(0, 2**16))
def test_operations_at_strength_0_change_at_most_the_numbers_of_levels(seed: int) -> None:
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    zero = torch.zeros(2, 1, 1, 1)
    for name in ("identity", "brightness", "contrast", "colour", "rotate", "shear across", "shift down"):
        torch.testing.assert_close(OPERATIONS[name](images, zero), images, atol=1e-5, rtol=0)
    assert len(set(OPERATIONS["posterize"](images, zero).flatten().tolist())) <= 17
    dark = images * 0.7
    assert torch.equal(OPERATIONS["solarize"](dark, zero), dark)


def test_it_learns_dark_from_light(image_folder: Path) -> None:
    config = VisionConfig().changed(
        {"task": "classify", "data": str(image_folder), "n_train": 0, "n_valid": 4, "n_side": 2, "width": 16,
         "n_heads": 2, "hidden": 16, "n_iterations": 2, "batch_size": 10, "augment": "flip",
         "plain_patches": True}
    )  # fmt: skip
    train, valid, test = image_splits(config.task, 0)
    torch.manual_seed(0)
    model = class_model(config.model, train.shape, 2, 2)
    task = ClassifyTask(model, train, valid, config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(30):
        loss, _ = task.loss(task.batch(step))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    model.eval()
    assert class_accuracies(model, test, [1, 2, 4]).keys() == {1, 2, 4}
    assert class_accuracies(model, test, [2])[2] == 1.0
    assert task.evaluate()["accuracy"] == 1.0


def test_a_model_of_images_takes_only_patches_that_fit() -> None:
    with pytest.raises(UsageError, match="n_side must divide the image's 28 × 28 pixels, not 8"):
        class_model(ModelConfig(), (1, 28, 28), 8, 10)
