"""Features extractors: rank of each feature's table, groups, plain modules, agents on top."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from torch import Tensor, nn

from sna_rl.agents.extractor import ModuleExtractor, SeparableExtractor
from sna_rl.agents.policies import SNASACPolicy
from sna_rl.errors import UsageError

Make = Callable[..., Any]


@pytest.mark.parametrize("factor", ["mlp", "linear", "spline"])
def test_each_feature_has_the_rank_as_a_table_between_two_groups(factor: str) -> None:
    torch.manual_seed(1)
    space = spaces.Box(-1.0, 1.0, (5,), np.float64)
    extractor = SeparableExtractor(
        space, [[0, 3], [1, 2, 4]], features_dim=6, rank=3, factor=factor, width=16
    )
    extractor = extractor.double()
    left, right = torch.rand(20, 2).double() * 2 - 1, torch.rand(25, 3).double() * 2 - 1
    states = torch.empty(20, 25, 5).double()
    states[..., [0, 3]] = left.unsqueeze(1)
    states[..., [1, 2, 4]] = right.unsqueeze(0)
    tables = extractor(states.reshape(-1, 5)).reshape(20, 25, 6)
    for feature in range(6):
        values = torch.linalg.svdvals(tables[..., feature])
        assert values[3] < 1e-12 * values[0]
        assert values[2] > 1e-9 * values[0]


def test_a_dict_has_one_group_an_entry() -> None:
    space = spaces.Dict({"arm": spaces.Box(-1, 1, (2,)), "goal": spaces.Box(-1, 1, (3,))})
    extractor = SeparableExtractor(space, features_dim=4, rank=2, width=8)
    assert extractor.groups == ((0, 1), (2, 3, 4))
    arm, goal = torch.rand(7, 2), torch.rand(7, 3)
    flat = SeparableExtractor(spaces.Box(-1, 1, (5,)), extractor.groups, features_dim=4, rank=2, width=8)
    flat.load_state_dict(extractor.state_dict())
    torch.testing.assert_close(extractor({"arm": arm, "goal": goal}), flat(torch.cat([arm, goal], dim=1)))


def test_groups_must_be_two_and_hold_every_column() -> None:
    space = spaces.Box(-1, 1, (3,))
    with pytest.raises(UsageError, match="groups must be at least two lists"):
        SeparableExtractor(space)
    with pytest.raises(UsageError, match="groups must hold each of the columns 0 to 2 once; not right: 2"):
        SeparableExtractor(space, [[0], [1]])
    assert SeparableExtractor(space, "each", width=8).groups == ((0,), (1,), (2,))


class Encoder(nn.Module):
    def __init__(self, n_inputs: int, features_dim: int) -> None:
        super().__init__()
        self.features_dim = features_dim
        self.layer = nn.Linear(n_inputs, features_dim)

    def forward(self, observations: Tensor) -> Tensor:
        return torch.tanh(self.layer(observations))


def test_any_module_becomes_an_extractor_with_weights_of_its_own(product_env: Any, tmp_path: Path) -> None:
    encoder = Encoder(2, 6)
    start = encoder.layer.weight.detach().clone()
    kwargs = {
        "features_extractor_class": ModuleExtractor,
        "features_extractor_kwargs": {"encoder": encoder},
        "rank": 2,
        "width": 8,
        "net_arch": [8],
    }
    agent: Any = stable_baselines3.SAC(
        SNASACPolicy, product_env(), policy_kwargs=kwargs, learning_starts=5, batch_size=8, seed=0
    )
    parts = [agent.actor, agent.critic, agent.critic_target]
    for part in parts:
        assert torch.equal(part.features_extractor.encoder.layer.weight, start)
    agent.learn(10)
    actor, critic, _ = (part.features_extractor.encoder.layer.weight for part in parts)
    assert not torch.equal(actor, critic)
    assert not torch.equal(critic, start)
    assert torch.equal(encoder.layer.weight, start)
    assert agent.critic.network.layout.modes == (6, 1)
    agent.save(tmp_path / "agent.zip")
    observation = np.array([0.1, -0.4], np.float32)
    np.testing.assert_array_equal(
        agent.predict(observation, deterministic=True)[0],
        stable_baselines3.SAC.load(tmp_path / "agent.zip").predict(observation, deterministic=True)[0],
    )


def test_an_encoder_must_tell_its_size() -> None:
    with pytest.raises(UsageError, match="encoder Linear needs an int attribute features_dim"):
        ModuleExtractor(spaces.Box(-1, 1, (2,)), nn.Linear(2, 4))


def test_an_agent_learns_on_separable_features(make_agent: Make) -> None:
    agent = make_agent(
        "td3",
        features_extractor_class=SeparableExtractor,
        features_extractor_kwargs={"groups": "each", "features_dim": 5, "rank": 2, "width": 8},
    )
    before = agent.critic.features_extractor.weights.weight.detach().clone()
    agent.learn(20)
    assert not torch.equal(before, agent.critic.features_extractor.weights.weight)
