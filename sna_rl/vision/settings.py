"""All that repeats a run: task, model, learning, training loop; flat names on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sna_rl.errors import UsageError
from sna_rl.runs.fit_config import FitConfig
from sna_rl.runs.settings import Settings
from sna_rl.separable.checks import check_int, check_name
from sna_rl.vision.config import ModelConfig

TASKS = ("sudoku", "classify", "mask")
AUGMENTATIONS = ("none", "crop", "flip", "auto")
LOSS_ON = ("all", "last", "random")


@dataclass(frozen=True)
class TaskConfig:
    """What is learned, and from which data.

    Args:
        task: sudoku, classify or mask (masked images).
        data: a folder or file; "" generates Sudoku boards.
        n_train: boards or images learned from, of boards in a file at most; 0 takes all that `data` has.
        n_valid: held out of them, for choosing between models.
        n_test: boards of the test set, generated or from one file; images of symbols held out for the test.
        bases: file of base puzzles, one a line, that Sudoku boards are generated from; "" makes its own.
        n_bases: base puzzles that are made, for all splits together.
        min_givens: least givens of a generated board.
        max_givens: most givens.
        n_side: patches along each side of an image.
        augment: none, crop (shifted by up to an eighth), flip (crop and mirrored) or auto (flip and a
            random operation on the colours or the geometry).
        min_hidden: least share of an image that is masked.
        max_hidden: most.
        n_symbols: symbols of the tokenizer that made a file of them; 0, one more than the file's largest, is
            settled when the run is made.

    Raises:
        UsageError: if a value is out of its range or a name is unknown.
    """

    task: str = "sudoku"
    data: str = ""
    n_train: int = 9_000
    n_valid: int = 500
    n_test: int = 1_000
    bases: str = ""
    n_bases: int = 1_000
    min_givens: int = 17
    max_givens: int = 34
    n_side: int = 7
    augment: str = "none"
    min_hidden: float = 0.1
    max_hidden: float = 0.6
    n_symbols: int = 0

    def __post_init__(self) -> None:
        check_name("task", self.task, TASKS)
        check_name("augment", self.augment, AUGMENTATIONS)
        check_int("n_train", self.n_train, 0)
        check_int("n_symbols", self.n_symbols, 0)
        for name in ("n_valid", "n_test", "n_bases", "n_side"):
            check_int(name, getattr(self, name), 1)
        check_shares(self.min_hidden, self.max_hidden)
        if self.task != "sudoku" and not self.data:
            raise UsageError(f"task {self.task} needs images: give their folder with --data")
        if self.bases and self.task != "sudoku":
            raise UsageError(f"bases are Sudoku puzzles; task {self.task} has none")
        if self.bases and self.data:
            raise UsageError(
                "bases are what boards are generated from, and data has boards: give one of them"
            )
        if self.task == "sudoku" and not self.data and not self.n_train:
            raise UsageError("n_train:0 takes all that --data has; to generate boards, n_train is at least 1")

    @property
    def is_of_symbols(self) -> bool:
        """Whether images are masked that a tokenizer has read."""
        return self.task == "mask" and self.data.endswith(".npz")


@dataclass(frozen=True)
class LearnConfig:
    """How the loss is made and followed.

    Args:
        batch_size: boards or images of a step.
        learning_rate: of AdamW.
        weight_decay: of AdamW, on every parameter.
        beta2: of AdamW; beta1 is 0.9.
        loss_on: iterations that are read out: all (their mean), last, or a random one of the last layer.
        label_smoothing: share of a target spread over all classes.

    Raises:
        UsageError: if a value is out of its range or a name is unknown.
    """

    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.1
    beta2: float = 0.95
    loss_on: str = "all"
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_int("batch_size", self.batch_size, 1)
        check_name("loss_on", self.loss_on, LOSS_ON)
        if not self.learning_rate > 0.0:
            raise UsageError(f"learning_rate must be over 0, not {self.learning_rate!r}")
        for name in ("weight_decay", "beta2", "label_smoothing"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise UsageError(f"{name} must be from 0 to below 1, not {getattr(self, name)!r}")


@dataclass(frozen=True)
class VisionConfig(Settings):
    """A whole run.

    Args:
        task: what is learned.
        model: the architecture.
        learn: loss and optimizer.
        fit: the training loop.

    Example:
        >>> config = VisionConfig().changed({"width": 64, "n_steps": 10, "learning_rate": 1e-4})
        >>> config.model.width, config.fit.n_steps, config.learn.learning_rate
        (64, 10, 0.0001)
        >>> VisionConfig.of(config.plain()) == config
        True
        >>> config.changed({"widht": 64})
        Traceback (most recent call last):
        sna_rl.errors.UsageError: unknown key 'widht'; did you mean 'width'?
    """

    task: TaskConfig = field(default_factory=TaskConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    fit: FitConfig = field(default_factory=lambda: FitConfig(n_steps=10_000, eval_freq=500, save_freq=500))

    def absolute(self) -> VisionConfig:
        """The same, its files named from the root, so that a run finds them from any folder."""
        paths = {name: getattr(self.task, name) for name in ("data", "bases")}
        return self.changed({name: str(Path(path).resolve()) for name, path in paths.items() if path})


def with_none_named(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes in which a text that a parser read as nothing is the name "none" again.

    Args:
        changes: flat names and values.

    Example:
        >>> with_none_named({"gain": None, "lora_scale": None, "width": 8})
        {'gain': 'none', 'lora_scale': None, 'width': 8}
    """
    texts = {name for name, value in VisionConfig().plain().items() if isinstance(value, str)}
    return {name: "none" if value is None and name in texts else value for name, value in changes.items()}


def check_shares(least: float, most: float) -> None:
    """Raise unless 0 < least <= most < 1: something of an image is hidden, and something is seen.

    Args:
        least: least share of an image that is hidden.
        most: most.

    Raises:
        UsageError: with the shares given.
    """
    if not 0.0 < least <= most < 1.0:
        given = f"{least:g}" if least == most else f"{least:g} to {most:g}"
        raise UsageError(
            f"the hidden share must be over 0 and under 1, not {given}; else nothing is hidden or seen"
        )
