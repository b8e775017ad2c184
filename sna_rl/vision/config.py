"""What a model is made of: one frozen record for Hyper-SET and for every baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int, check_name
from sna_rl.vision.energies import ATTENTIONS
from sna_rl.vision.feed_energies import FEEDS
from sna_rl.vision.kernels import KERNELS
from sna_rl.vision.normaliser import GAINS, JACOBIANS

MODELS = ("hyper-set", "transformer", "crate", "crate-t", "energy-transformer")
STEPS = ("fixed", "iteration", "start", "current")
TIMES = ("mlp", "normed", "sinusoid")
NORMS = ("rms", "layer")
PLACES = ("cells", "lines")


@dataclass(frozen=True)
class ModelConfig:
    """Architecture; a setting that the chosen model does not read stays at its default.

    Args:
        model: hyper-set, transformer, crate, crate-t (its output map the transposed input map) or
            energy-transformer.
        width: d, size of a token.
        n_heads: H, a divisor of the width.
        hidden: M, hidden units of the feed-forward part; CRATE's dictionary is always d × d.
        n_iterations: times the layer is applied in training.
        n_layers: layers of their own weights, each iterated `n_iterations` times.
        attention: energy of Hyper-SET's attention: bisoftmax, sigmoid, linear or relu.
        kernel: φ of the linear one.
        feed: energy of its feed-forward part: relu, softmax or gated.
        gain: gain of its norms: none, or shared by all heads.
        jacobian: of its norms: none (as published) or exact.
        eps: of every root-mean-square norm.
        steps: fixed; iteration (one vector each); start or current: a network of the iteration and x(0), or
            of the iteration and x_t.
        step_size: of fixed steps, and of positive ones at the start; by default 0.1 down an energy, else 1.
        step_time: how that network reads the iteration: mlp (Sudoku's), normed (image classification's) or
            sinusoid (masked images').
        positive_steps: softplus keeps learned steps over 0.
        lora_rank: rank of the low-rank deltas of each iteration; 0 for none.
        lora_scale: their scale a.
        norm: the transformer's norms: rms or layer.
        plain_patches: patches are embedded by one linear map, without the two layer norms around it.
        places: of Sudoku's cells: the sum of learned vectors of row, column and box (lines), with which a
            model learns much sooner, or a vector each, as published (cells).
        dropout: share of the embedded tokens' numbers left out in training.
        truncate: iterations that gradients flow back through; 0 for all.
        recompute: keep one state an iteration for the backward pass and compute the rest again.
        n_halvings: times a step may be halved until the energy does not rise; 0 takes steps as they are.

    Raises:
        UsageError: if a value is out of its range, a name is unknown, or a setting would change nothing.

    Example:
        >>> ModelConfig(model="hyperset")
        Traceback (most recent call last):
        sna_rl.errors.UsageError: unknown model 'hyperset'; did you mean 'hyper-set'?
        >>> ModelConfig(kernel="relu")
        Traceback (most recent call last):
        sna_rl.errors.UsageError: kernel 'relu' would change nothing: it is read with attention linear alone
    """

    model: str = "hyper-set"
    width: int = 128
    n_heads: int = 4
    hidden: int = 512
    n_iterations: int = 16
    n_layers: int = 1
    attention: str = "bisoftmax"
    kernel: str = "elu+1"
    feed: str = "relu"
    gain: str = "shared"
    jacobian: str = "none"
    eps: float = 1e-6
    steps: str = "start"
    step_size: float | None = None
    step_time: str = "mlp"
    positive_steps: bool = False
    lora_rank: int = 0
    lora_scale: float | None = None
    norm: str = "rms"
    plain_patches: bool = False
    places: str = "lines"
    dropout: float = 0.0
    truncate: int = 0
    recompute: bool = False
    n_halvings: int = 0

    def __post_init__(self) -> None:
        names: dict[str, Iterable[str]] = {
            "model": MODELS, "attention": ATTENTIONS, "kernel": KERNELS, "feed": FEEDS, "gain": GAINS,
            "jacobian": JACOBIANS, "steps": STEPS, "step_time": TIMES, "norm": NORMS, "places": PLACES,
        }  # fmt: skip
        for name, known in names.items():
            check_name(name, getattr(self, name), known)
        for name in ("width", "n_heads", "hidden", "n_iterations", "n_layers"):
            check_int(name, getattr(self, name), 1)
        for name in ("lora_rank", "truncate", "n_halvings"):
            check_int(name, getattr(self, name), 0)
        if not 0.0 <= self.dropout < 1.0:
            raise UsageError(f"dropout must be from 0 to below 1, not {self.dropout!r}")
        if not 0.0 < self.eps < 1.0:
            raise UsageError(f"eps must be over 0 and under 1, not {self.eps!r}")
        for name in ("step_size", "lora_scale"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < math.inf:
                raise UsageError(f"{name} must be over 0 and finite, not {value!r}")
        self._refuse_unread()

    def _refuse_unread(self) -> None:
        """Refuse a setting that is not at its default though nothing reads it."""
        hyper_set = (self.model == "hyper-set", "model hyper-set")
        network = self.steps in ("start", "current")
        readers = {
            **dict.fromkeys(("attention", "feed", "gain", "jacobian", "lora_rank"), hyper_set),
            "kernel": (self.attention == "linear", "attention linear"),
            "lora_scale": (self.lora_rank > 0, "a lora_rank"),
            "norm": (self.model == "transformer", "model transformer"),
            "step_time": (network, "steps start or current"),
            "positive_steps": (self.steps != "fixed", "steps iteration, start or current"),
            "step_size": (self.steps == "fixed" or self.positive_steps, "steps fixed or positive_steps"),
            "n_halvings": (self.has_energy, "model hyper-set or energy-transformer"),
        }
        for each in fields(self):
            value, (is_read, by) = getattr(self, each.name), readers.get(each.name, (True, ""))
            if value != each.default and not is_read:
                raise UsageError(f"{each.name} {value!r} would change nothing: it is read with {by} alone")

    @property
    def has_energy(self) -> bool:
        """Whether the model's updates go down an energy."""
        return self.model in ("hyper-set", "energy-transformer")

    @property
    def first_step(self) -> float:
        """Size of fixed steps, and of positive ones at the start."""
        return self.step_size or (0.1 if self.has_energy else 1.0)
