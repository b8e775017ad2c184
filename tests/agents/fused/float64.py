"""Training in float64, which Stable-Baselines3 would cast to float32 at two places."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import stable_baselines3.common.policies
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.preprocessing import preprocess_obs
from torch import Tensor

from sna_rl.agents.fused.algorithm import FusedAlgorithm

TO_TORCH = BaseBuffer.to_torch


def double(tensors: Any) -> Any:
    """Real numbers as float64, other tensors as they are, also in a dict."""
    if isinstance(tensors, dict):
        return {key: double(tensor) for key, tensor in tensors.items()}
    return tensors.double() if tensors.is_floating_point() else tensors


def samples_in_float64(buffer: BaseBuffer, array: np.ndarray, copy: bool = True) -> Tensor:
    """Stands for `BaseBuffer.to_torch`."""
    tensor: Tensor = double(TO_TORCH(buffer, array, copy))
    return tensor


def observations_in_float64(*args: Any, **kwargs: Any) -> Any:
    """Stands for Stable-Baselines3's `preprocess_obs`."""
    return double(preprocess_obs(*args, **kwargs))


def turn_to_float64(agents: Iterable[FusedAlgorithm], replace: Callable[[Any, str, Any], None]) -> None:
    """Turn agents, and from then on all that Stable-Baselines3 would cast to float32, to float64.

    Args:
        agents: built already; one built later fails.
        replace: `setattr`, or one that puts things back.
    """
    replace(BaseBuffer, "to_torch", samples_in_float64)
    replace(stable_baselines3.common.policies, "preprocess_obs", observations_in_float64)
    for agent in agents:
        agent.policy.double()
        entropy: Tensor | None = getattr(agent, "log_ent_coef", None)
        if entropy is not None:
            entropy.data = entropy.data.double()
