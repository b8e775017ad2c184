"""Value tables of plain Stable-Baselines3 critics, in blocks, and of what has none."""

from __future__ import annotations

import pytest
import stable_baselines3
import torch

from sna_rl.agents import value_table as module
from sna_rl.agents.value_table import critic_features, critic_of, value_table
from sna_rl.errors import UsageError


def test_plain_critics_give_one_table_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 10)
    agent = stable_baselines3.SAC("MlpPolicy", "Pendulum-v1", buffer_size=10, policy_kwargs={"n_critics": 3})
    states, actions = torch.randn(7, 3), torch.rand(4, 1)
    table = value_table(agent.critic, critic_features(agent.critic, states), actions)
    assert table.shape == (3, 7, 4)
    for i in range(7):
        heads = agent.critic(states[i].expand(4, 3), actions)
        torch.testing.assert_close(table[:, i], torch.cat(heads, dim=1).T)
    assert not table.requires_grad


def test_plain_q_networks_give_the_columns_asked_for() -> None:
    agent = stable_baselines3.DQN("MlpPolicy", "CartPole-v1", buffer_size=10)
    states = torch.randn(5, 4)
    table = value_table(agent.q_net, critic_features(agent.q_net, states), torch.tensor([1]))
    torch.testing.assert_close(table[0], agent.q_net(states)[:, 1:])


def test_algorithms_without_a_critic_of_actions_are_refused() -> None:
    agent = stable_baselines3.PPO("MlpPolicy", "CartPole-v1", device="cpu")
    with pytest.raises(UsageError, match="PPO has no critic of states and actions"):
        critic_of(agent)
