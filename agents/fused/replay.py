"""A replay buffer that stores every observation once and gathers a batch in one call an array."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

REWARD, DONE, TIMEOUT = range(3)
NEXT_ROW = -1
"""Link of a transition whose next observation is the observation of the row after it."""


class CompactReplayBuffer(ReplayBuffer):
    """The transitions of Stable-Baselines3's `ReplayBuffer`, in less memory: same rows, same samples.

    Real-valued observations are float32. The next observation of a transition is the observation of the next
    row, as long as an episode goes on; where it isn't, at the end of an episode and before the newest row, it
    lies apart. Rows are written once and never changed while they are valid.

    Args:
        buffer_size: transitions to hold, over all environments.
        observation_space: a Box.
        action_space: any space that Stable-Baselines3's off-policy algorithms take.
        device: where samples go.
        n_envs: number of environments.
        handle_timeout_termination: bootstrap where an episode ended by its time limit.
        **kwargs: `optimize_memory_usage=False`, as Stable-Baselines3 passes it.

    Cost:
        4 · (observation + action + 4) bytes a transition, and one observation more an episode.

    Example:
        >>> from stable_baselines3 import SAC
        >>> agent = SAC("MlpPolicy", "Pendulum-v1", replay_buffer_class=CompactReplayBuffer, buffer_size=100)
        >>> agent.replay_buffer.observations.shape
        (100, 1, 3)
    """

    row_names: ClassVar[tuple[str, ...]] = ("observations", "actions", "outcomes", "links")
    """Arrays whose first axis counts rows; a checkpoint writes their new rows alone."""

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        handle_timeout_termination: bool = True,
        **kwargs: Any,
    ) -> None:
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        if kwargs.get("optimize_memory_usage"):
            raise ValueError(
                "CompactReplayBuffer stores observations once already; leave optimize_memory_usage"
            )
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.handle_timeout_termination = handle_timeout_termination
        self.optimize_memory_usage = False
        rows = (self.buffer_size, n_envs)
        self.observations = np.zeros((*rows, *self.obs_shape), _compact(observation_space.dtype))
        self.actions = np.zeros((*rows, self.action_dim), _compact(action_space.dtype))
        self.outcomes = np.zeros((*rows, 3), np.float32)
        self.links = np.full(rows, NEXT_ROW, np.int32)
        """For each row, where the next observation of the row *before* it lies among `finals`."""
        self.finals = np.zeros((0, *self.obs_shape), self.observations.dtype)
        self.free: list[int] = []
        self.pending = np.zeros((n_envs, *self.obs_shape), self.observations.dtype)
        """Next observations of the newest row."""

    @property
    def rewards(self) -> np.ndarray:  # type: ignore[override]
        """Rewards, (rows, envs); a view."""
        return self.outcomes[..., REWARD]

    @property
    def dones(self) -> np.ndarray:  # type: ignore[override]
        """Ends of episodes, by time limit too, (rows, envs); a view."""
        return self.outcomes[..., DONE]

    @property
    def timeouts(self) -> np.ndarray:  # type: ignore[override]
        """Ends of episodes by time limit, (rows, envs); a view."""
        return self.outcomes[..., TIMEOUT]

    @property
    def next_observations(self) -> np.ndarray:  # type: ignore[override]
        """Next observations of all rows, (rows, envs, …), gathered: as large as `observations`."""
        rows, envs = np.divmod(np.arange(self.buffer_size * self.n_envs), self.n_envs)
        return self._following(rows, envs).reshape(self.observations.shape)

    def add(
        self,
        obs: np.ndarray,
        next_obs: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        done: np.ndarray,
        infos: list[dict[str, Any]],
    ) -> None:
        """Store one transition of every environment.

        Args:
            obs: observations, one row an environment.
            next_obs: observations that followed, at the end of an episode its last ones.
            action: actions as the policy gave them.
            reward: rewards.
            done: whether the episode ended.
            infos: `TimeLimit.truncated` tells ends by time limit.
        """
        row = self.pos
        for env in np.flatnonzero(self.links[row] != NEXT_ROW):
            self.free.append(int(self.links[row, env]))
        self.observations[row] = obs
        self.links[row] = NEXT_ROW
        if row or self.full:
            same = self.observations[row].reshape(self.n_envs, -1) == self.pending.reshape(self.n_envs, -1)
            for env in np.flatnonzero(~same.all(axis=1)):
                self.links[row, env] = self._keep(self.pending[env])
        self.pending[:] = next_obs
        self.actions[row] = action.reshape(self.n_envs, self.action_dim)
        outcome = self.outcomes[row]
        outcome[:, REWARD], outcome[:, DONE] = reward, done
        if self.handle_timeout_termination:
            outcome[:, TIMEOUT] = [info.get("TimeLimit.truncated", False) for info in infos]
        self.pos = (row + 1) % self.buffer_size
        self.full |= self.pos == 0

    def reset(self) -> None:
        """Forget every transition."""
        super().reset()
        self.links[:] = NEXT_ROW
        self.free = list(range(len(self.finals)))

    def _get_samples(self, batch_inds: np.ndarray, env: VecNormalize | None = None) -> ReplayBufferSamples:
        envs = None if self.n_envs == 1 else np.random.randint(0, self.n_envs, size=len(batch_inds))
        cells = self._cells(batch_inds, envs)
        outcomes = _gather(self.outcomes, cells)
        dones = outcomes[:, DONE] * (1.0 - outcomes[:, TIMEOUT])
        rewards = self._normalize_reward(outcomes[:, REWARD, None], env)
        arrays = (
            self._normalize_obs(_gather(self.observations, cells), env),
            _gather(self.actions, cells),
            self._normalize_obs(self._following(batch_inds, envs), env),
            dones[:, None],
            rewards,
        )
        return ReplayBufferSamples(*(self.to_torch(array, copy=False) for array in arrays))  # type: ignore[arg-type]

    def _cells(self, rows: np.ndarray, envs: np.ndarray | None) -> np.ndarray:
        """Positions of rows in the arrays with both first axes flattened; without `envs` there is one."""
        return rows if envs is None else rows * self.n_envs + envs

    def _following(self, rows: np.ndarray, envs: np.ndarray | None) -> np.ndarray:
        """Next observations of some rows."""
        after = rows + 1
        after[after == self.buffer_size] = 0
        cells = self._cells(after, envs)
        following = _gather(self.observations, cells)
        links = _gather(self.links, cells)
        (apart,) = np.nonzero(links != NEXT_ROW)
        if len(apart):
            following[apart] = self.finals[links[apart]]
        (newest,) = np.nonzero(after == self.pos)
        if len(newest):
            following[newest] = self.pending[0 if envs is None else envs[newest]]
        return following

    def _keep(self, observation: np.ndarray) -> int:
        """Store an observation apart and say where."""
        if not self.free:
            n = len(self.finals)
            grown = max(16, n // 4)
            self.finals = np.concatenate([self.finals, np.zeros((grown, *self.obs_shape), self.finals.dtype)])
            self.free = list(range(n + grown - 1, n - 1, -1))
        slot = self.free.pop()
        self.finals[slot] = observation
        return slot


def _compact(kind: Any) -> Any:
    """float32 for float64, other kinds of number as they are."""
    return np.float32 if kind == np.float64 else kind


def _gather(array: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Rows of an array whose two first axes are flattened, ten times as fast as indexing by two arrays."""
    flat: np.ndarray = array.reshape(-1, *array.shape[2:])
    gathered: np.ndarray = flat.take(cells, axis=0, mode="clip")
    return gathered
