"""Fused updates against Stable-Baselines3's own in float32, where Adam amplifies rounding in parameters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sna_rl.agents import ALGORITHMS
from sna_rl.agents.fused.algorithm import FusedAlgorithm
from sna_rl.agents.optimizer import optimizers

N_UPDATES = 50
CASES: list[tuple[str, dict[str, Any]]] = [
    ("sac", {"critic": "mlp"}),
    ("sac", {"critic": "cp"}),
    ("sac", {"critic": "cp", "factor": "linear"}),
    ("td3", {"critic": "cp", "net_arch": [64, 48]}),
    ("dqn", {"critic": "mlp"}),
    ("dqn", {"critic": "cp"}),
]


def first_gradients(agent: FusedAlgorithm) -> dict[str, Tensor]:
    """Gradients of the first update by optimizer: Adam's first moment is (1 − β₁) g after it."""
    gradients = {}
    for role, optimizer in optimizers(agent).items():
        moments = [state["exp_avg"].flatten() for state in optimizer.state.values()]
        gradients[role] = torch.cat(moments) / (1.0 - optimizer.param_groups[0]["betas"][0])
    return gradients


def losses(agent: FusedAlgorithm) -> dict[str, float]:
    """Losses of the newest update by name."""
    return {name: value for name, value in agent.logger.name_to_value.items() if name.endswith("loss")}


@pytest.mark.parametrize(
    ("algo", "critic"), CASES, ids=[f"{a} {'-'.join(map(str, c.values()))}" for a, c in CASES]
)
def test_gradients_of_one_update_and_losses_of_fifty(algo: str, critic: dict[str, Any]) -> None:
    gradients: dict[str, dict[str, Tensor]] = {}
    history: dict[str, list[dict[str, float]]] = {}
    for form in ("eager", "reference"):
        env = "CartPole-v1" if algo == "dqn" else "Pendulum-v1"
        agent = ALGORITHMS[algo](
            "SNAPolicy", env, update=form, learning_starts=300, seed=1, policy_kwargs=critic
        )
        agent.learn(200)
        agent.set_random_seed(2)
        delay = getattr(agent, "policy_delay", 1)
        agent._n_updates = delay - 1  # the first update takes every optimizer along
        history[form] = []
        for index in range(N_UPDATES):
            agent.logger.name_to_value.clear()
            agent.train(1, 64)
            if index == 0:
                gradients[form] = first_gradients(agent)
            history[form].append(losses(agent))
        agent.env.close()  # type: ignore[union-attr]
    for role, reference in gradients["reference"].items():
        error = (gradients["eager"][role] - reference).norm() / reference.norm()
        assert error <= 1e-5, f"{role}: {error}"
    for ours, theirs in zip(history["eager"], history["reference"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-3)
