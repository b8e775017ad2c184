"""Learning to fill in hidden symbols of an image that a tokenizer has read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from sna_rl.errors import SnaError, UsageError
from sna_rl.runs.files import read_npz
from sna_rl.runs.fit_config import Batches, step_generator
from sna_rl.vision.mask import EVALUATED, TRIAL, hide, lowest, still_hidden
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
        seen, wanted = covered(symbols, hidden, self.train.n_symbols)
        return seen.to(self.device), wanted.to(self.device)

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
def decode(
    model: IterativeModel,
    seen: Int[Tensor, "batch places"],
    hidden: Bool[Tensor, "batch places"],
    n_rounds: int = 1,
    n_iterations: int | None = None,
) -> Int[Tensor, "batch places"]:
    """Fill in hidden symbols, those that the model is surest of first.

    After round k of K, n arccos(k / K) / (π / 2) of n hidden symbols are still hidden; what was filled in is
    seen from then on.

    Args:
        model: trained, in evaluation mode.
        seen: symbols, at hidden places the one that stands for them.
        hidden: which places are.
        n_rounds: K.
        n_iterations: of each pass.

    Returns:
        The symbols, visible ones as they were.
    """
    given, n_hidden = seen, hidden.sum(1, keepdim=True)
    for k in range(1, n_rounds + 1):
        sureness, likeliest = model(seen, n_iterations=n_iterations).softmax(-1).max(-1)
        filled = torch.where(hidden, likeliest, seen)
        hidden = lowest(hidden, sureness, still_hidden(n_hidden, k, n_rounds))
        seen = torch.where(hidden, given, filled)
    return seen


@torch.no_grad()
def symbol_accuracies(
    model: IterativeModel,
    symbols: Symbols,
    iterations: Sequence[int],
    share: float,
    *,
    n_rounds: int = 1,
    seed: int = 0,
) -> dict[int, float]:
    """Share of hidden symbols that are right after some iterations of one pass, or of decoding in rounds.

    Args:
        model: trained, in evaluation mode.
        symbols: what it is asked.
        iterations: where it is read, of the last layer.
        share: of every image that is hidden.
        n_rounds: of decoding; several are gone through for each of the iterations.
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
        hidden = hide(len(rows), rows.shape[1], (share, share), draw)
        seen, wanted = (part.to(device) for part in covered(rows, hidden, symbols.n_symbols))
        n_hidden += int(hidden.sum())
        if n_rounds == 1:
            answers = {n: answer.argmax(-1) for n, answer in model.readouts(seen, iterations=right)}
        else:
            answers = {n: decode(model, seen, hidden.to(device), n_rounds, n) for n in right}
        for n, answer in answers.items():
            right[n] += int((answer == wanted).sum())
    return {n: count / n_hidden for n, count in right.items()}


def symbol_splits(task: TaskConfig, seed: int) -> tuple[Symbols, Symbols, Symbols]:
    """Training, validation and test symbols from an `.npz` file with an array "symbols" (images, places).

    Args:
        task: file, sizes and number of symbols.
        seed: of the split.

    Raises:
        UsageError: if there are too few images, or a symbol is none of the `n_symbols`.
        SnaError: if the file holds no such array.
    """
    arrays = read_npz(Path(task.data))
    if "symbols" not in arrays or arrays["symbols"].ndim != 2 or arrays["symbols"].dtype.kind not in "iu":
        raise SnaError(f"{task.data!r} needs an array 'symbols' of whole numbers, (images, places)")
    symbols = torch.from_numpy(arrays["symbols"].astype("int64"))
    if not symbols.numel():
        raise SnaError(f"{task.data!r} holds no symbol: its array is empty, of shape {tuple(symbols.shape)}")
    if symbols.min() < 0:
        raise SnaError(f"{task.data!r} holds a symbol under 0")
    largest = int(symbols.max())
    n_symbols = task.n_symbols or largest + 1
    if largest >= n_symbols:
        raise UsageError(
            f"{task.data!r} holds the symbol {largest}, but n_symbols {n_symbols} ends at {n_symbols - 1}"
        )
    n_held_out = task.n_valid + task.n_test
    if len(symbols) <= n_held_out:
        raise UsageError(
            f"{task.data!r} holds {len(symbols)} images; n_valid and n_test alone ask for {n_held_out}"
        )
    order = torch.randperm(len(symbols), generator=torch.Generator().manual_seed(seed))
    held_out, left = order[:n_held_out], order[n_held_out:]
    rows = (left[: task.n_train or None], held_out[: task.n_valid], held_out[task.n_valid :])
    train, valid, test = (Symbols(symbols[each], n_symbols) for each in rows)
    return train, valid, test


def covered(
    symbols: Int[Tensor, "batch places"], hidden: Bool[Tensor, "batch places"], n_symbols: int
) -> tuple[Int[Tensor, "batch places"], Int[Tensor, "batch places"]]:
    """What is seen of symbols, and the targets: the hidden ones.

    Args:
        symbols: of the tokenizer.
        hidden: which are.
        n_symbols: how many the tokenizer has; this number stands for a hidden one.
    """
    return torch.where(hidden, n_symbols, symbols), torch.where(hidden, symbols, VISIBLE)
