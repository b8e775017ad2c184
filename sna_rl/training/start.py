"""Where a run begins: at step 0, or at a checkpoint with what was saved beside the agent."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from sna_rl.errors import SnaError
from sna_rl.runs.checkpoints import Checkpoint

SAVED = ("wall_seconds", "cpu_seconds", "lr_scale")
"""Numbers that a checkpoint keeps for `Start`."""


@dataclass(frozen=True)
class Start:
    """Where a run begins.

    Args:
        checkpoint: what it goes on from; None is step 0.
        wall_seconds: seconds spent before.
        cpu_seconds: processor seconds spent before.
        lr_scale: factor of the learning rate, halved each time a numerical failure was gone back from.
        logs: sizes of the event and monitor files.
    """

    checkpoint: Checkpoint | None = None
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    lr_scale: float = 1.0
    logs: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def at(cls, checkpoint: Checkpoint) -> Start:
        """Begin at a checkpoint, with what `Clock.extra` and the logs' positions were when it was saved.

        Args:
            checkpoint: a whole one.

        Raises:
            SnaError: if what it holds is nothing that was saved there.
        """
        extra = checkpoint.read().get("extra", {})
        try:
            numbers = {key: float(extra[key]) for key in SAVED if key in extra}
            logs = {str(name): int(size) for name, size in extra.get("logs", {}).items()}
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise SnaError(f"checkpoint {str(checkpoint.path)!r} is damaged: {error}") from error
        return cls(checkpoint, **numbers, logs=logs)

    @property
    def step(self) -> int:
        """Environment steps done."""
        return 0 if self.checkpoint is None else self.checkpoint.step

    def apply(self, model: OffPolicyAlgorithm) -> None:
        """Give a new model the step to count from and the learning rate; all else comes with the checkpoint.

        Args:
            model: built from the run's configuration.
        """
        model.num_timesteps = self.step
        if self.lr_scale != 1.0:
            model.lr_schedule = ScaledSchedule(model.lr_schedule, self.lr_scale)

    def clock(self) -> Clock:
        """A clock that goes on from the seconds spent before."""
        return Clock(self)


class Clock:
    """Seconds of a run, those of earlier processes included.

    Args:
        start: what was spent before.
    """

    def __init__(self, start: Start) -> None:
        self.start = start
        self._wall, self._cpu = time.perf_counter(), _cpu_seconds()

    @property
    def wall_seconds(self) -> float:
        """Seconds of training so far."""
        return self.start.wall_seconds + time.perf_counter() - self._wall

    @property
    def cpu_seconds(self) -> float:
        """Processor seconds so far, worker processes that have ended included."""
        return self.start.cpu_seconds + _cpu_seconds() - self._cpu

    def extra(self) -> dict[str, Any]:
        """What a checkpoint keeps for `Start`."""
        return {
            "wall_seconds": self.wall_seconds,
            "cpu_seconds": self.cpu_seconds,
            "lr_scale": self.start.lr_scale,
        }


class ScaledSchedule:
    """A learning-rate schedule times a factor.

    Args:
        schedule: learning rate by the share of training that remains.
        scale: the factor.

    Example:
        >>> ScaledSchedule(lambda remaining: 0.5 * remaining, 0.5)(1.0)
        0.25
    """

    def __init__(self, schedule: Callable[[float], float], scale: float) -> None:
        self.schedule = schedule
        self.scale = scale

    def __call__(self, remaining: float) -> float:
        """Learning rate when `remaining` of training, from 1 to 0, is left."""
        return self.scale * self.schedule(remaining)


def _cpu_seconds() -> float:
    """Processor seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])
