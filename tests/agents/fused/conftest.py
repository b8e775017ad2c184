"""Agents whose whole training runs in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from sna_rl.agents import ALGORITHMS
from sna_rl.agents.fused.algorithm import FusedAlgorithm
from tests.agents.fused.float64 import turn_to_float64

N_UPDATES = 50
DEFAULTS = {"train_freq": 1, "learning_starts": 20, "batch_size": 16, "buffer_size": 500}


def learned(agent: FusedAlgorithm) -> Tensor:
    """Every number an update changes, targets and optimizer states included."""
    tensors = [*agent.policy.parameters()]
    for name, state in agent.get_parameters().items():
        if name.endswith("optimizer"):
            tensors += [moment for entry in state["state"].values() for moment in entry.values()]
    if getattr(agent, "log_ent_coef", None) is not None:
        tensors.append(agent.log_ent_coef)  # type: ignore[attr-defined]
    return torch.cat([tensor.detach().double().flatten() for tensor in tensors])


@pytest.fixture
def to_float64(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Turns agents, and from then on all that Stable-Baselines3 would cast to float32, to float64."""

    def turn(*agents: FusedAlgorithm) -> None:
        turn_to_float64(agents, monkeypatch.setattr)

    return turn


@pytest.fixture
def assert_forms_agree(to_float64: Callable[..., None]) -> Callable[..., None]:
    """Trains two agents alike in float64, one by each form, and compares all they learned."""

    def agree(
        algo: str,
        make_env: Callable[[], Any] | None = None,
        forms: tuple[str, str] = ("eager", "reference"),
        **kwargs: Any,
    ) -> None:
        agents = {}
        for form in forms:
            env = make_env() if make_env else "CartPole-v1" if algo == "dqn" else "Pendulum-v1"
            given = {"policy": "SNAPolicy", **DEFAULTS, **kwargs}
            agents[form] = ALGORITHMS[algo](env=env, update=form, seed=1, **given)
        to_float64(*agents.values())
        for form, agent in agents.items():
            agent.set_random_seed(1)
            agent.learn(DEFAULTS["learning_starts"] + (N_UPDATES + 1) * agent.n_envs)
            assert agent.update_form == form
            agent.env.close()  # type: ignore[union-attr]
        first, second = agents.values()
        assert first._n_updates == second._n_updates >= N_UPDATES
        torch.testing.assert_close(learned(first), learned(second), rtol=1e-9, atol=1e-12)

    return agree
