"""When a run saves: at every multiple of steps, at the end, and when a signal comes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from sna_rl.agents.state import buffer_rows
from sna_rl.runs.checkpoints import Checkpoint, Checkpoints
from sna_rl.runs.disk import tolerate_full_disk
from sna_rl.runs.growing import log_positions
from sna_rl.runs.interruption import Interrupted, StopOnSignal
from sna_rl.training.checkpoint import BufferLog, restore, save_checkpoint
from sna_rl.training.logs import flush


class SaveCheckpoints(BaseCallback):
    """Saves a run between two rollouts and, at the first rollout, brings back the run it continues.

    Args:
        checkpoints: where to.
        freq: environment steps between saves, and one at the end; 0 or less saves on a signal alone.
        folders: where event and monitor files lie.
        stop: knows whether a signal came.
        start: the checkpoint to go on from; None starts anew.
        best_return: tells the best evaluation's mean return so far; the save after a new best one is kept.
        extra: tells what else to save: numbers, texts and arrays.
        say: is told what the user should know, a line at a time.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        freq: int,
        *,
        folders: tuple[Path, ...] = (),
        stop: StopOnSignal | None = None,
        start: Checkpoint | None = None,
        best_return: Callable[[], float | None] = lambda: None,
        extra: Callable[[], Mapping[str, Any]] = dict,
        say: Callable[[str], None] = print,
    ) -> None:
        super().__init__()
        self.model: OffPolicyAlgorithm
        self.checkpoints = checkpoints
        self.freq = freq
        self.folders = folders
        self.stop = stop
        self.start = start
        self.say = say
        self.best_return = best_return
        self.extra = extra
        self._saved_at = 0
        self._best_saved = -np.inf
        self._is_between = False
        self._is_possible = True

    def _on_training_start(self) -> None:
        self._log = BufferLog(self.checkpoints, self.model)
        try:
            buffer_rows(self._log.buffer)
        except TypeError as error:
            self.say(f"no checkpoint can be made of this run: {error}, which only pickle could save")
            self._is_possible = False
        self._saved_at = self.model.num_timesteps
        self._root: BaseCallback = self.locals["callback"]

    def _on_rollout_start(self) -> None:
        """Restore once, where the save was made; later save when it is time."""
        self._is_between = False
        if self.start is not None:
            self._restore(self.start)
        step = self.model.num_timesteps
        received = None if self.stop is None else self.stop.received
        if received is not None or (self.freq > 0 and step // self.freq > self._saved_at // self.freq):
            saved = self.save()
            if received is not None:
                kept = "saved" if saved else "NOT saved; its last checkpoint stands"
                folder = shlex.quote(str(self.checkpoints.folder.parent))
                raise Interrupted(
                    f"stopped at step {step:,} and {kept}; sna-rl train -i {folder} goes on", received
                )

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self._is_between = True

    def _on_training_end(self) -> None:
        """Save the end, unless a callback broke off in the middle of a rollout."""
        if self.start is not None:
            self._restore(self.start)
        elif self.freq > 0 and self._is_between:
            self.save()

    def save(self) -> bool:
        """Save now. A full disk ends nothing: it is told once, and the last good checkpoint stands.

        Returns:
            Whether it was saved.
        """
        if not self._is_possible:
            return False
        model = self.model
        self._saved_at = model.num_timesteps
        reached = self.best_return()
        best = reached is not None and reached > self._best_saved
        saved = False
        with tolerate_full_disk(self.checkpoints.folder.parent):
            flush(model.logger)
            extra = {**self.extra(), "logs": log_positions(*self.folders)}
            save_checkpoint(model, self._log, self.checkpoints, callback=self._root, extra=extra, best=best)
            saved = True
        if saved and best and reached is not None:
            self._best_saved = reached
        return saved

    def _restore(self, start: Checkpoint) -> None:
        """Go on from a checkpoint."""
        restore(self.model, self._log, start, callback=self._root, say=self.say)
        self._saved_at, self.start = start.step, None
