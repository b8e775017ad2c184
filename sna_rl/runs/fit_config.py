"""How a supervised run is trained: its length, its learning rate over the steps, when it saves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int, check_name

SCHEDULES = ("constant", "cosine")
PRECISIONS = ("fp32", "bf16")


@dataclass(frozen=True)
class FitConfig:
    """Numbers of a training loop that don't depend on the model.

    Args:
        n_steps: optimizer steps in all.
        seed: of everything drawn while training.
        schedule: learning rate after the warm-up: "constant", or "cosine" down to `lr_floor` of it.
        n_warmup: steps over which the learning rate rises linearly from 0.
        lr_floor: share of the learning rate that the cosine ends at.
        clip: largest norm of the whole gradient; 0 clips nothing.
        precision: "fp32", or "bf16" (matrix products under autocast).
        log_freq: steps between two points in TensorBoard.
        eval_freq: steps between evaluations; 0 for one at the end alone.
        save_freq: steps between checkpoints; 0 for one at the end alone.
        keep: newest checkpoints kept.

    Raises:
        UsageError: if a number is out of its range or a name is unknown.

    Example:
        >>> config = FitConfig(n_steps=101, n_warmup=10, lr_floor=0.1)
        >>> [round(config.lr_scale(step), 3) for step in (0, 9, 10, 55, 100)]
        [0.1, 1.0, 1.0, 0.55, 0.1]
    """

    n_steps: int
    seed: int = 0
    schedule: str = "cosine"
    n_warmup: int = 0
    lr_floor: float = 0.0
    clip: float = 1.0
    precision: str = "fp32"
    log_freq: int = 20
    eval_freq: int = 0
    save_freq: int = 0
    keep: int = 2

    def __post_init__(self) -> None:
        least = {
            "n_steps": 1, "seed": 0, "n_warmup": 0, "log_freq": 1, "eval_freq": 0, "save_freq": 0, "keep": 1
        }  # fmt: skip
        for name, minimum in least.items():
            check_int(name, getattr(self, name), minimum)
        check_name("schedule", self.schedule, SCHEDULES)
        check_name("precision", self.precision, PRECISIONS)
        if not 0.0 <= self.lr_floor <= 1.0:
            raise UsageError(f"lr_floor must be a share from 0 to 1, not {self.lr_floor!r}")
        if not 0.0 <= self.clip < math.inf:
            raise UsageError(f"clip must be 0 or a finite norm over 0, not {self.clip!r}")

    def lr_scale(self, step: int) -> float:
        """Factor of the learning rate at a step.

        min(1, (step + 1) / n_warmup), then lr_floor + (1 − lr_floor) (1 + cos πt) / 2, t from 0 to 1.

        Args:
            step: steps done before.
        """
        if step < self.n_warmup:
            return (step + 1) / self.n_warmup
        if self.schedule == "constant":
            return 1.0
        t = (step - self.n_warmup) / max(self.n_steps - 1 - self.n_warmup, 1)
        return self.lr_floor + (1.0 - self.lr_floor) * (1.0 + math.cos(math.pi * min(t, 1.0))) / 2.0


class Batches:
    """Which rows make up the batch of a step: each epoch is one random order, its last short batch left out.

    The rows are a function of seed and step alone, so a run that goes on sees what it would have seen.

    Args:
        n_rows: rows of the training set.
        batch_size: rows of a batch.
        seed: of the orders.

    Raises:
        UsageError: if a batch has no row or more than there are.

    Example:
        >>> batches = Batches(10, 5, seed=0)
        >>> sorted(batches.rows(0).tolist() + batches.rows(1).tolist())
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(self, n_rows: int, batch_size: int, seed: int) -> None:
        if not 1 <= batch_size <= n_rows:
            raise UsageError(f"batch_size must be from 1 to the {n_rows} rows there are, not {batch_size!r}")
        self.n_rows = n_rows
        self.batch_size = batch_size
        self.seed = seed
        self.per_epoch = n_rows // batch_size
        self._epoch = -1
        self._order = torch.empty(0, dtype=torch.int64)

    def rows(self, step: int) -> Int[Tensor, " batch"]:
        """Rows of one step's batch.

        Args:
            step: steps done before.
        """
        epoch, position = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._order = torch.randperm(self.n_rows, generator=step_generator(self.seed, epoch))
            self._epoch = epoch
        return self._order[position * self.batch_size : (position + 1) * self.batch_size]


def step_generator(seed: int, step: int) -> torch.Generator:
    """A generator that depends on seed and step alone, for what a batch draws: crops, masks, windows.

    Args:
        seed: the run's seed.
        step: number of the step.

    Example:
        >>> draws = [torch.rand(3, generator=step_generator(0, 5)) for _ in range(2)]
        >>> torch.equal(*draws)
        True
    """
    return torch.Generator().manual_seed((seed * 1_000_003 + step) % 2**63)
