"""Compiled updates recorded as CUDA graphs; these tests need a card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from sna_rl.agents import ALGORITHMS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
SMALL = {"net_arch": [6, 5], "critic": "cp", "rank": 3, "width": 8}


@pytest.mark.compiled
@pytest.mark.parametrize("algo", ["sac", "td3", "dqn"])
def test_recorded_updates_equal_the_reference(algo: str, assert_forms_agree: Callable[..., None]) -> None:
    assert_forms_agree(algo, forms=("compiled", "reference"), policy_kwargs=SMALL, device="cuda")


@pytest.mark.compiled
def test_a_recording_ends_with_the_tensors_it_was_made_for() -> None:
    agent: Any = ALGORITHMS["sac"](
        "SNAPolicy",
        "Pendulum-v1",
        policy_kwargs=SMALL,
        update="compiled",
        device="cuda",
        seed=1,
        learning_starts=10,
    )
    agent.learn(20)
    (first,) = agent._fused.captures.values()
    agent.set_parameters(agent.get_parameters())
    agent.train(1, 16)
    (second,) = agent._fused.captures.values()
    assert second is not first
