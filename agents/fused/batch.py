"""Batches as the graphs take them: tensors of settled kinds, whatever the replay buffer holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.preprocessing import get_action_dim, get_obs_shape
from stable_baselines3.common.vec_env import VecNormalize
from torch import Tensor

Batch = dict[str, Any]
"""Fields of Stable-Baselines3's samples by name; observations may be a dict of tensors."""


def as_batch(samples: Any, dtype: torch.dtype) -> Batch:
    """Samples of a replay buffer with every real number of one kind.

    Args:
        samples: what `ReplayBuffer.sample` returns.
        dtype: kind of number of the networks' parameters; integers, images among them, stay as they are.

    Returns:
        The fields by name, "discounts" only where the buffer gives them.
    """
    batch: Batch = {}
    for name, field in samples._asdict().items():
        if isinstance(field, Tensor):
            batch[name] = _settled(field, dtype)
        elif field is not None:
            batch[name] = {key: _settled(value, dtype) for key, value in field.items()}
    return batch


def dummy_batch(agent: OffPolicyAlgorithm, batch_size: int, dtype: torch.dtype) -> Batch:
    """A batch of zeros with the shapes and kinds that the agent's replay buffer gives.

    Args:
        agent: whose spaces and buffer to follow.
        batch_size: number of transitions.
        dtype: kind of number of the networks' parameters.
    """

    def zeros(shape: tuple[int, ...], kind: Any) -> Tensor:
        return _settled(torch.zeros((batch_size, *shape), device=agent.device, dtype=_torch(kind)), dtype)

    def observations() -> Tensor | dict[str, Tensor]:
        space, normalize = agent.observation_space, agent.get_vec_normalize_env()
        if isinstance(space, spaces.Dict):
            return {
                key: zeros(get_obs_shape(part), np.float32 if _normalizes(normalize, key) else part.dtype)  # type: ignore[arg-type]
                for key, part in space.spaces.items()
            }
        return zeros(get_obs_shape(space), np.float32 if _normalizes(normalize, None) else space.dtype)  # type: ignore[arg-type]

    batch: Batch = {
        "observations": observations(),
        "actions": zeros((get_action_dim(agent.action_space),), agent.action_space.dtype),
        "next_observations": observations(),
        "dones": zeros((1,), np.float32),
        "rewards": zeros((1,), np.float32),
    }
    if isinstance(agent.replay_buffer, NStepReplayBuffer):
        batch["discounts"] = zeros((1,), np.float32)
    return batch


def bellman(batch: Batch, gamma: Tensor, next_values: Tensor) -> Tensor:
    """Targets r + γ (1 − done) V(s'), (batch,); γ from the batch where it holds n-step discounts.

    Args:
        batch: transitions.
        gamma: discount.
        next_values: V(s'), (batch,); or its samples, (samples, batch), whose mean is taken.
    """
    if next_values.dim() == 2:
        next_values = next_values.mean(dim=0)
    discounts = batch["discounts"].squeeze(1) if "discounts" in batch else gamma
    targets: Tensor = (
        batch["rewards"].squeeze(1) + (1.0 - batch["dones"].squeeze(1)) * discounts * next_values
    )
    return targets


def _normalizes(normalize: VecNormalize | None, key: str | None) -> bool:
    if normalize is None or not normalize.norm_obs:
        return False
    return key is None or key in (normalize.norm_obs_keys or ())


def _torch(kind: Any) -> torch.dtype:
    return torch.from_numpy(np.zeros(1, kind)).dtype


def _settled(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Contiguous, as compiled graphs need their inputs, with real numbers of one kind."""
    return (tensor.to(dtype) if tensor.is_floating_point() else tensor).contiguous()
