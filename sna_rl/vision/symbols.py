"""Learning to fill in hidden symbols of an image that a tokenizer has read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from sna_rl.errors import SnaError, UsageError
from sna_rl.runs.files import read_npz
from sna_rl.runs.fit_config import Batches, step_generator
from sna_rl.vision.mask import EVALUATED, TRIAL, hide
from sna_rl.vision.model import IterativeModel
from sna_rl.vision.objective import readout_loss
from sna_rl.vision.settings import TaskConfig, VisionConfig

VISIBLE = -100
"""Target of a place that is not hidden."""


@dataclass(frozen=True)
class Symbols:
    """Images as a tokenizer's symbols.

    Args:
        symbols: (images, places).
        n_symbols: how many the tokenizer has.
    """

    symbols: Tensor
    n_symbols: int

    def __len__(self) -> int:
        return len(self.symbols)


class SymbolMaskTask:
    """Hidden symbols are predicted as classes.

    Args:
        model: what is trained, on its device.
        train: symbols learned from.
        valid: symbols that choose the best weights.
        config: batch size, read-outs, label smoothing, shares that are hidden, seed.
    """

    def __init__(self, model: IterativeModel, train: Symbols, valid: Symbols, config: VisionConfig) -> None:
        self.model, self.train, self.valid, self.config = model, train, valid, config
        self.device = next(model.parameters()).device
        self.batches = Batches(len(train), config.learn.batch_size, config.fit.seed)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Symbols, the hidden ones replaced, and the targets."""
        task, draw = self.config.task, step_generator(self.config.fit.seed, step)
        symbols = self.train.symbols[self.batches.rows(step)]
        hidden = hide(len(symbols), symbols.shape[1], (task.min_hidden, task.max_hidden), draw)
        inputs, wanted = _hidden(symbols, hidden, self.train.n_symbols)
        return inputs.to(self.device), wanted.to(self.device)

    def loss(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Cross-entropy over the hidden places."""
        symbols, wanted = batch
        smoothing = self.config.learn.label_smoothing

        def cross_entropy(scores: Tensor) -> Tensor:
            return F.cross_entropy(
                scores.flatten(0, 1).float(),
                wanted.flatten(),
                ignore_index=VISIBLE,
                label_smoothing=smoothing,
            )

        loss, last = readout_loss(self.model, (symbols,), cross_entropy, self.config.learn.loss_on)
        seen = wanted != VISIBLE
        return loss, {"accuracy": (last.argmax(-1) == wanted)[seen].float().mean()}

    def evaluate(self) -> Mapping[str, float]:
        """Share of hidden symbols that are right, 40 % of every image being hidden."""
        n = self.model.body.config.n_iterations
        found = symbol_accuracies(self.model, self.valid, [n], TRIAL, seed=self.config.fit.seed)[n]
        return {"accuracy": found, "score": found}


@torch.no_grad()
def symbol_accuracies(
    model: IterativeModel, symbols: Symbols, iterations: Sequence[int], share: float, *, seed: int = 0
) -> dict[int, float]:
    """Share of hidden symbols that are right, read out after some iterations of one pass.

    Args:
        model: trained, in evaluation mode.
        symbols: what it is asked.
        iterations: where it is read, of the last layer.
        share: of every image that is hidden.
        seed: of the masks.

    Returns:
        Iteration, ascending → accuracy.

    Raises:
        UsageError: if the share is not over 0 and under 1.
    """
    draw, device = step_generator(seed, 0), next(model.parameters()).device
    right = dict.fromkeys(sorted(set(iterations)), 0)
    n_hidden = 0
    for rows in torch.split(symbols.symbols, EVALUATED):
        inputs, wanted = _hidden(
            rows, hide(len(rows), rows.shape[1], (share, share), draw), symbols.n_symbols
        )
        n_hidden += int((wanted != VISIBLE).sum())
        for n, answer in model.readouts(inputs.to(device), iterations=right):
            right[n] += int((answer.argmax(-1).cpu() == wanted).sum())
    return {n: count / n_hidden for n, count in right.items()}


def symbol_splits(task: TaskConfig, seed: int) -> tuple[Symbols, Symbols]:
    """Training and validation symbols from an `.npz` file with an array "symbols" (images, places).

    Args:
        task: file and sizes.
        seed: of the split.

    Raises:
        UsageError: if there are too few images.
        SnaError: if the file holds no such array.
    """
    arrays = read_npz(Path(task.data))
    if "symbols" not in arrays or arrays["symbols"].ndim != 2 or arrays["symbols"].dtype.kind not in "iu":
        raise SnaError(f"{task.data!r} needs an array 'symbols' of whole numbers, (images, places)")
    symbols = torch.from_numpy(arrays["symbols"].astype("int64"))
    if symbols.min() < 0:
        raise SnaError(f"{task.data!r} holds a symbol under 0")
    if len(symbols) <= task.n_valid:
        raise UsageError(f"{task.data!r} holds {len(symbols)} images; n_valid alone asks for {task.n_valid}")
    order = torch.randperm(len(symbols), generator=torch.Generator().manual_seed(seed))
    n_symbols = int(symbols.max()) + 1
    n_train = task.n_train or len(symbols)
    train = symbols[order[task.n_valid :][:n_train]]
    return Symbols(train, n_symbols), Symbols(symbols[order[: task.n_valid]], n_symbols)


def _hidden(symbols: Tensor, hidden: Tensor, n_symbols: int) -> tuple[Tensor, Tensor]:
    """What is seen of symbols, and the targets."""
    return torch.where(hidden, n_symbols, symbols), torch.where(hidden, symbols, VISIBLE)
