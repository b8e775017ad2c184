"""Networks of a user's own that have no graph of tensor operations."""

from __future__ import annotations

import logging

import pytest
import torch
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import Tensor

from sna_rl.agents import SAC


class Undecided(FlattenExtractor):
    """Looks at its numbers before it decides what to compute."""

    def forward(self, observations: Tensor) -> Tensor:
        values: Tensor = super().forward(observations)
        return values if values.sum().item() > 0.0 else values + 0.0


def test_networks_that_cannot_be_traced_take_the_reference(caplog: pytest.LogCaptureFixture) -> None:
    kwargs = {"features_extractor_class": Undecided, "rank": 2, "width": 4, "net_arch": [4]}
    agent = SAC("SNAPolicy", "Pendulum-v1", learning_starts=5, batch_size=4, policy_kwargs=kwargs, seed=0)
    before = torch.cat([parameter.detach().flatten() for parameter in agent.policy.parameters()])
    with caplog.at_level(logging.WARNING):
        agent.learn(10)
    assert agent.update_form == "reference"
    assert any("the networks can't be traced" in record.getMessage() for record in caplog.records)
    after = torch.cat([parameter.detach().flatten() for parameter in agent.policy.parameters()])
    assert agent._n_updates == 5
    assert not torch.equal(before, after)
