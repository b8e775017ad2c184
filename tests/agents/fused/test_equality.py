"""Fused updates against Stable-Baselines3's own: the same batches, noise and steps in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Agree = Callable[..., None]

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


@pytest.mark.parametrize(("algo", "name", "critic"), CASES, ids=[f"{algo} {name}" for algo, name, _ in CASES])
def test_fifty_updates_equal_the_reference(
    algo: str, name: str, critic: dict[str, Any], assert_forms_agree: Agree
) -> None:
    assert_forms_agree(algo, policy_kwargs={"net_arch": [6, 5], **critic})
