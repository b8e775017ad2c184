"""All that repeats a run of a language model or of a forecaster."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sna_rl.errors import UsageError
from sna_rl.language.config import ArcadeConfig, LMConfig
from sna_rl.language.forecast import ForecastConfig
from sna_rl.language.systems import SYSTEMS
from sna_rl.runs.fit_config import FitConfig
from sna_rl.runs.settings import Settings
from sna_rl.separable.checks import check_int, check_name

MODELS = ("separable", "softmax", "arcade")


@dataclass(frozen=True)
class TaskConfig:
    """Which model learns what, and from which data.

    Args:
        model: separable, softmax (its baseline of equal parameters) or arcade.
        text: UTF-8 file or folder; "" for Python's own standard library source.
        problems: "" to learn the text, else conditional, arithmetic, or a file of GSM8K's format.
        n_problems: generated problems to learn from.
        n_test: problems that are scored, of each test set.
        largest: largest number in a generated question.
        start: folder of a run whose weights and vocabulary this one begins with; "" for none.
        digest: checksum of the text or problems, so that a run goes on with the same ones.
        quantized: the weights are for inference alone.

    Raises:
        UsageError: if a value is out of its range or a name is unknown.
    """

    model: str = "separable"
    text: str = ""
    problems: str = ""
    n_problems: int = 4000
    n_test: int = 400
    largest: int = 20
    start: str = ""
    digest: str = ""
    quantized: bool = False

    def __post_init__(self) -> None:
        check_name("model", self.model, MODELS)
        check_int("n_problems", self.n_problems, 1)
        check_int("n_test", self.n_test, 1)
        if self.problems and self.text:
            raise UsageError("a run learns a text or problems, not both; name one of them")


@dataclass(frozen=True)
class LearnConfig:
    """How a step is made.

    Args:
        batch_size: windows or problems of a step.
        learning_rate: of AdamW.
        constraint_learning_rate: of the constraint half's own parameters (arcade); None for the same.
        weight_decay: of AdamW.

    Raises:
        UsageError: if a value is out of its range.
    """

    batch_size: int = 16
    learning_rate: float = 2e-3
    constraint_learning_rate: float | None = None
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        check_int("batch_size", self.batch_size, 1)
        for name in ("learning_rate", "constraint_learning_rate"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < math.inf:
                raise UsageError(f"{name} must be a finite number over 0, not {value!r}")
        if not 0.0 <= self.weight_decay < 1.0:
            raise UsageError(f"weight_decay must be from 0 to below 1, not {self.weight_decay!r}")


@dataclass(frozen=True)
class LMSettings(Settings):
    """A whole run of a language model.

    Args:
        task: model and data.
        sizes: the decoder's; a vocabulary of 256 is bytes, a larger one is learned by byte-pair encoding.
        arcade: how an Arcade model is cut.
        learn: a step.
        fit: the training loop.

    Raises:
        UsageError: if the sizes don't go together.

    Example:
        >>> settings = LMSettings().changed({"model": "arcade", "strength": 0.1, "n_steps": 5})
        >>> settings.arcade.strength, settings.fit.n_steps, LMSettings.of(settings.plain()) == settings
        (0.1, 5, True)
    """

    task: TaskConfig = field(default_factory=TaskConfig)
    sizes: LMConfig = field(default_factory=lambda: LMConfig(vocab_size=256))
    arcade: ArcadeConfig = field(default_factory=ArcadeConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    fit: FitConfig = field(default_factory=lambda: FitConfig(n_steps=2000, eval_freq=500, save_freq=500))

    def __post_init__(self) -> None:
        if self.sizes.vocab_size < 256:
            raise UsageError(f"vocab_size must be 256 (bytes) or more, not {self.sizes.vocab_size}")
        if self.task.model != "arcade" and self.sizes.attention != "separable":
            raise UsageError("attention belongs to --model arcade; the softmax baseline is --model softmax")


@dataclass(frozen=True)
class SystemConfig:
    """Which chaotic system, and how much of it.

    Args:
        system: lorenz96 or kuramoto-sivashinsky.
        n_trajectories: trajectories to learn from; their test's start from other seeds.
        n_states: states of each.
        n_test: trajectories to test with.
        noise: added to the states that are read in training, in deviations of the climate.
        long_steps: forecasts of the long roll-out at the end.

    Raises:
        UsageError: if a value is out of its range or the system unknown.
    """

    system: str = "lorenz96"
    n_trajectories: int = 32
    n_states: int = 1000
    n_test: int = 8
    noise: float = 0.05
    long_steps: int = 10_000

    def __post_init__(self) -> None:
        check_name("system", self.system, SYSTEMS)
        check_int("n_trajectories", self.n_trajectories, 1)
        check_int("n_states", self.n_states, 32)
        check_int("n_test", self.n_test, 1)
        if not 0.0 <= self.noise < math.inf:
            raise UsageError(f"noise must be 0 or a finite number over 0, not {self.noise!r}")
        check_int("long_steps", self.long_steps, 1)


@dataclass(frozen=True)
class DynamicsSettings(Settings):
    """A whole run of a forecaster.

    Args:
        system: what is forecast.
        model: trunk, head, sizes.
        learn: a step.
        fit: the training loop.
    """

    system: SystemConfig = field(default_factory=SystemConfig)
    model: ForecastConfig = field(
        default_factory=lambda: ForecastConfig(40, width=64, n_layers=1, n_context=2, rank=32)
    )
    learn: LearnConfig = field(default_factory=lambda: LearnConfig(batch_size=128, weight_decay=0.0))
    fit: FitConfig = field(default_factory=lambda: FitConfig(n_steps=4000, eval_freq=1000, save_freq=1000))
