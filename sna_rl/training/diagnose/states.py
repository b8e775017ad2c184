"""Transitions to diagnose a critic on: from new rollouts, or from a buffer that was saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.save_util import load_from_pkl
from stable_baselines3.common.type_aliases import PyTorchObs
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from sna_rl.agents.fused.replay import CompactReplayBuffer
from sna_rl.agents.plain import load_own_state
from sna_rl.agents.probe import undisturbed
from sna_rl.agents.state import buffer_rows
from sna_rl.errors import SnaError, UsageError
from sna_rl.runs.checkpoints import Checkpoints
from sna_rl.runs.tree import read_arrays
from sna_rl.training.environments import first_line


def new_buffer(
    model: OffPolicyAlgorithm, n_rows: int, n_envs: int, kind: type[ReplayBuffer] = ReplayBuffer
) -> ReplayBuffer:
    """An empty replay buffer for a model's spaces.

    Args:
        model: the model.
        n_rows: transitions it holds.
        n_envs: environments side by side.
        kind: its class where observations are no Dict.
    """
    if isinstance(model.observation_space, spaces.Dict):
        kind = DictReplayBuffer
    return kind(n_rows, model.observation_space, model.action_space, device=model.device, n_envs=n_envs)


def roll_out(model: OffPolicyAlgorithm, env: VecEnv, n_transitions: int, seed: int) -> None:
    """Fill a model's replay buffer with transitions of its own exploring policy.

    Args:
        model: the model; its buffer is replaced, nothing of it learns.
        env: environments.
        n_transitions: how many, at least; the environments share them.
        seed: decides the episodes.
    """
    n_steps = -(-n_transitions // env.num_envs)
    buffer = new_buffer(model, n_steps * env.num_envs, env.num_envs)
    normalize = model.get_vec_normalize_env()
    model.policy.set_training_mode(False)
    env.seed(seed)
    model.action_space.seed(seed)
    with undisturbed(seed, model.device):
        model._last_obs = env.reset()  # type: ignore[assignment]
        model._last_original_obs = None if normalize is None else normalize.get_original_obs()
        for _ in range(n_steps):
            actions, stored = model._sample_action(0, model.action_noise, env.num_envs)
            observations, rewards, dones, infos = env.step(actions)
            model._store_transition(buffer, stored, observations, rewards, dones, infos)  # type: ignore[arg-type]
    model.replay_buffer = buffer


def load_run_buffer(model: OffPolicyAlgorithm, checkpoints: Path, n_envs: int) -> None:
    """Give a model the replay buffer of its run's newest checkpoint.

    Args:
        model: the model of that run.
        checkpoints: the run's folder of checkpoints.
        n_envs: environments that the run trained in.

    Raises:
        UsageError: if there is no checkpoint.
        SnaError: if what is saved does not fit the model.
    """
    checkpoint = Checkpoints(checkpoints).newest(lambda line: None)
    if checkpoint is None:
        raise UsageError(f"{str(checkpoints)!r} holds no checkpoint; leave --buffer out to use rollouts")
    state = checkpoint.read()
    try:
        ring = checkpoint.ring(state)
        names = read_arrays(ring.folder / ring.segments[0].file).keys() if ring.segments else set()
        kind = CompactReplayBuffer if "links" in names else ReplayBuffer
        buffer = new_buffer(model, ring.capacity * n_envs, n_envs, kind)
        ring.load(buffer_rows(buffer))
        load_own_state(buffer, state["buffer"])
    except (KeyError, TypeError, ValueError, RuntimeError, MemoryError, AttributeError) as error:
        raise SnaError(
            f"the replay buffer in {str(checkpoint.path)!r} does not fit: {first_line(error)}"
        ) from error
    model.replay_buffer = buffer


def load_pickled_buffer(model: OffPolicyAlgorithm, path: Path) -> None:
    """Give a model the replay buffer that Stable-Baselines3 pickled; this can run any code in it.

    Args:
        model: the model.
        path: `replay_buffer.pkl`, of an origin that the user trusts.

    Raises:
        UsageError: if there is no such file, or it is for other spaces.
        SnaError: if it can't be unpickled.
    """
    if not path.is_file():
        raise UsageError(f"{str(path)!r} does not exist; leave --buffer out to use rollouts")
    try:
        buffer = load_from_pkl(path)
    except Exception as error:  # unpickling can raise anything
        raise SnaError(f"{str(path)!r} can't be loaded as a replay buffer: {first_line(error)}") from error
    own = (model.observation_space, model.action_space)
    if not isinstance(buffer, ReplayBuffer) or (buffer.observation_space, buffer.action_space) != own:
        raise UsageError(f"{str(path)!r} is no replay buffer of this agent's spaces")
    buffer.device = model.device
    model.replay_buffer = buffer


def first_episode(model: OffPolicyAlgorithm, most: int = 300) -> tuple[PyTorchObs, Tensor, Tensor]:
    """The oldest transitions of the first environment, in order, up to the end of the episode.

    Args:
        model: a model with a filled buffer.
        most: no more than these.

    Returns:
        Observations as the critic sees them, actions as the critic takes them, and rewards.
    """
    buffer = model.replay_buffer
    assert buffer is not None
    n_rows = buffer.buffer_size if buffer.full else buffer.pos
    rows = (np.arange(min(most, n_rows)) + (buffer.pos if buffer.full else 0)) % buffer.buffer_size
    ends = np.flatnonzero(buffer.dones[rows, 0])
    rows = rows[: ends[0] + 1] if len(ends) else rows
    seen: Any = buffer.observations
    raw = {key: part[rows, 0] for key, part in seen.items()} if isinstance(seen, dict) else seen[rows, 0]
    normalized: Any = buffer._normalize_obs(raw, model.get_vec_normalize_env())
    observations = (
        {key: buffer.to_torch(part) for key, part in normalized.items()}
        if isinstance(normalized, dict)
        else buffer.to_torch(normalized)
    )
    actions = buffer.to_torch(buffer.actions[rows, 0])
    if isinstance(model.action_space, spaces.Discrete):
        actions = actions.flatten().long()
    return observations, actions, buffer.to_torch(buffer.rewards[rows, 0])
