"""What happens beside training: evaluation, the best model, the progress bar."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, sync_envs_normalization

from sna_rl.runs import Progress, RunFolder, atomic_write
from sna_rl.runs.disk import no_room_is_an_error, tolerate_full_disk
from sna_rl.training.evaluate import run_episodes
from sna_rl.training.models import save_model


class EveryMultiple(BaseCallback):
    """Acts at the first step at or past each multiple of `freq` environment steps.

    The number of environments doesn't matter. It keeps no counter, so a continued run acts at the same steps.

    Args:
        freq: environment steps from one action to the next; 0 or less never acts.
    """

    def __init__(self, freq: int) -> None:
        super().__init__()
        self.freq = freq

    @abstractmethod
    def at_multiple(self) -> bool:
        """Act; False ends training."""

    def _on_step(self) -> bool:
        before = self.num_timesteps - self.training_env.num_envs
        if self.freq > 0 and self.num_timesteps // self.freq > before // self.freq:
            return self.at_multiple()
        return True


class Evaluate(EveryMultiple):
    """Evaluates at every multiple of `freq` steps, and keeps the best model with the statistics it had then.

    Which episodes are played follows from the seed and the step alone: training draws no other random number
    because of them, and a continued run plays the same ones.

    Args:
        env: environments for evaluation alone.
        folder: where `evaluations.npz` and the best model go.
        freq: environment steps between evaluations.
        n_episodes: episodes of each.
        seed: the run's seed.
        stop_at: a mean return that ends training; None never does.
    """

    def __init__(
        self,
        env: VecEnv,
        folder: RunFolder,
        freq: int,
        n_episodes: int,
        seed: int,
        stop_at: float | None = None,
    ) -> None:
        super().__init__(freq)
        self.env = env
        self.folder = folder
        self.n_episodes = n_episodes
        self.seed = seed
        self.stop_at = stop_at
        self.timesteps: list[int] = []
        self.returns: list[tuple[float, ...]] = []
        self.lengths: list[tuple[int, ...]] = []
        self.successes: list[tuple[bool, ...]] = []
        self._is_written = True

    @property
    def last_return(self) -> float | None:
        """Mean return of the last evaluation."""
        return float(np.mean(self.returns[-1])) if self.returns else None

    @property
    def best_return(self) -> float | None:
        """Mean return of the best evaluation."""
        return max((float(np.mean(returns)) for returns in self.returns), default=None)

    def at_multiple(self) -> bool:
        """Evaluate, log, and save a new best model."""
        if self.model.get_vec_normalize_env() is not None:
            sync_envs_normalization(self.training_env, self.env)
        seed = int(np.random.SeedSequence([self.seed, self.num_timesteps]).generate_state(1)[0]) >> 1
        result = run_episodes(self.model, self.env, self.n_episodes, seed=seed)
        best = self.best_return
        self.timesteps.append(self.num_timesteps)
        self.returns.append(result.returns)
        self.lengths.append(result.lengths)
        self.successes.append(result.successes)
        self._is_written = False
        with tolerate_full_disk(self.folder.path):
            self._write()
        self.logger.record("eval/mean_reward", result.mean)
        self.logger.record("eval/mean_ep_length", float(np.mean(result.lengths)))
        if result.successes:
            self.logger.record("eval/success_rate", float(np.mean(result.successes)))
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)
        if best is None or result.mean > best:
            folder = self.folder
            with tolerate_full_disk(folder.path):
                save_model(
                    self.model, folder.best_model_zip, folder.best_model_tensors, folder.best_vecnormalize_pkl
                )
        return self.stop_at is None or result.mean < self.stop_at

    def _on_training_end(self) -> None:
        """Write what found no room before; a disk that is full to the end fails the run."""
        if not self._is_written:
            with no_room_is_an_error(self.folder.path):
                self._write()

    def _write(self) -> None:
        """Write every evaluation so far in the RL Zoo's form."""
        told: dict[str, Any] = {"successes": self.successes} if all(self.successes) else {}
        with atomic_write(self.folder.evaluations_npz) as file:
            np.savez(
                file,
                timesteps=self.timesteps,
                results=self.returns,
                ep_lengths=self.lengths,
                **told,
            )
        self._is_written = True


class ShowProgress(BaseCallback):
    """Moves the bar; its returns come from evaluations, without them from the latest training episodes.

    Args:
        progress: the bar.
        evaluation: the run's evaluation, None where there is none.
    """

    not_saved: ClassVar[tuple[str, ...]] = ("_shown_at",)

    def __init__(self, progress: Progress, evaluation: Evaluate | None) -> None:
        super().__init__()
        self.progress = progress
        self.evaluation = evaluation
        self._shown_at = 0.0

    def _on_step(self) -> bool:
        now = time.monotonic()
        if now - self._shown_at >= 0.2:
            self._shown_at = now
            self._show()
        return True

    def _on_training_end(self) -> None:
        self._show()

    def _show(self) -> None:
        last = self.evaluation.last_return if self.evaluation else recent_return(self.model)
        self.progress.update(self.num_timesteps, last)


def recent_return(model: BaseAlgorithm) -> float | None:
    """Mean return of the latest training episodes (100 at most), None before the first has ended."""
    episodes = model.ep_info_buffer
    return float(np.mean([episode["r"] for episode in episodes])) if episodes else None
