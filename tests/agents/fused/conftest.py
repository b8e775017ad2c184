"""Agents whose whole training runs in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stable_baselines3.common.policies
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.preprocessing import preprocess_obs
from torch import Tensor

from sna_rl.agents.fused.algorithm import FusedAlgorithm


@pytest.fixture
def to_float64(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Turns agents, and from then on all that Stable-Baselines3 would cast to float32, to float64."""
    to_torch = BaseBuffer.to_torch

    def double(tensors: Any) -> Any:
        if isinstance(tensors, dict):
            return {key: double(tensor) for key, tensor in tensors.items()}
        return tensors.double() if tensors.is_floating_point() else tensors

    def samples_in_float64(buffer: BaseBuffer, array: np.ndarray, copy: bool = True) -> Tensor:
        tensor: Tensor = double(to_torch(buffer, array, copy))
        return tensor

    def turn(*agents: FusedAlgorithm) -> None:
        monkeypatch.setattr(BaseBuffer, "to_torch", samples_in_float64)
        monkeypatch.setattr(
            stable_baselines3.common.policies,
            "preprocess_obs",
            lambda *args, **kwargs: double(preprocess_obs(*args, **kwargs)),
        )
        for agent in agents:
            agent.policy.double()
            entropy: Tensor | None = getattr(agent, "log_ent_coef", None)
            if entropy is not None:
                entropy.data = entropy.data.double()

    return turn
