"""Fused updates against Stable-Baselines3's own: the same batches, noise and steps in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from sna_rl.agents import ALGORITHMS
from sna_rl.agents.fused.algorithm import FusedAlgorithm

Turn = Callable[..., None]
N_UPDATES = 50

CONTINUOUS = {
    "mlp": {"critic": "mlp"},
    "mlp with LayerNorm": {"critic": "mlp", "layer_norm": True},
    "mlp-matched": {"critic": "mlp-matched", "rank": 2, "width": 8},
    "cp mlp": {"critic": "cp", "rank": 3, "width": 8},
    "cp linear": {"critic": "cp", "factor": "linear", "rank": 3, "branch_width": 5},
    "cp spline": {
        "critic": "cp",
        "factor": "spline",
        "rank": 2,
        "width": 5,
        "n_knots": 4,
        "n_coordinates": 3,
    },
    "tucker": {"critic": "tucker", "rank": 2, "width": 5},
    "orders": {"critic": "cp", "rank": 2, "width": 5, "order": 2, "state_modes": "each"},
    "additive": {"critic": "additive", "width": 5},
    "spline-joint": {"critic": "spline-joint", "rank": 2, "width": 5, "n_knots": 4, "n_coordinates": 3},
}
DISCRETE = {
    "mlp": {"critic": "mlp"},
    "dueling": {"critic": "dueling"},
    "cp": {"critic": "cp", "rank": 2, "width": 5},
    "tucker": {"critic": "tucker", "rank": 2, "width": 5},
}
CASES = [
    *(("sac", name, critic) for name, critic in CONTINUOUS.items()),
    *(("td3", name, CONTINUOUS[name]) for name in ("mlp", "cp mlp", "spline-joint")),
    *(("dqn", name, critic) for name, critic in DISCRETE.items()),
]


def parameters(agent: FusedAlgorithm) -> Tensor:
    """Every number an update changes, targets and optimizer states included."""
    tensors = [*agent.policy.parameters()]
    for name, state in agent.get_parameters().items():
        if name.endswith("optimizer"):
            tensors += [moment for entry in state["state"].values() for moment in entry.values()]
    if getattr(agent, "log_ent_coef", None) is not None:
        tensors.append(agent.log_ent_coef)  # type: ignore[attr-defined]
    return torch.cat([tensor.detach().double().flatten() for tensor in tensors])


def assert_equal(algo: str, turn: Turn, n_steps: int = 20 + N_UPDATES, **kwargs: Any) -> None:
    """Train two agents alike, one by each form, and compare all they learned."""
    env = "CartPole-v1" if algo == "dqn" else "Pendulum-v1"
    defaults = {"train_freq": 1, "learning_starts": 20, "batch_size": 16, "buffer_size": 500}
    agents = {
        form: ALGORITHMS[algo](
            "SNAPolicy", kwargs.pop("env", env), update=form, seed=1, **{**defaults, **kwargs}
        )
        for form in ("eager", "reference")
    }
    turn(*agents.values())
    for form, agent in agents.items():
        agent.set_random_seed(1)
        agent.learn(n_steps)
        assert agent.update_form == form
    fused, reference = agents.values()
    assert fused._n_updates == reference._n_updates >= N_UPDATES
    torch.testing.assert_close(parameters(fused), parameters(reference), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("algo", "name", "critic"), CASES, ids=[f"{algo} {name}" for algo, name, _ in CASES])
def test_fifty_updates_equal_the_reference(
    algo: str, name: str, critic: dict[str, Any], to_float64: Turn
) -> None:
    assert_equal(algo, to_float64, policy_kwargs={"net_arch": [6, 5], **critic})
