from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import sna_rl.envs  # noqa: F401  (registers SNA/…)
from sna_rl.agents import DQN, SAC, TD3
from sna_rl.agents.compression import compress_critic
from sna_rl.errors import UsageError

KINDS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "sac": (SAC, "SNA/LQR-v0", {}),
    "td3": (TD3, "SNA/LQR-v0", {"signed": True}),
    "linear": (SAC, "SNA/LQR-v0", {"factor": "linear"}),
    "three modes": (SAC, "SNA/LQR-v0", {"action_modes": [[0, 1, 2], [3, 4, 5]]}),
    "dqn": (DQN, "SNA/LowRankMDP-v0", {}),
}


def agent(name: str, **changes: Any) -> Any:
    kind, env, kwargs = KINDS[name]
    policy_kwargs = {
        "rank": 6,
        "width": 8,
        **({} if name == "dqn" else {"net_arch": [8]}),
        **kwargs,
        **changes,
    }
    settings = {"learning_starts": 10, "buffer_size": 400, "batch_size": 16, "train_freq": 1}
    return kind("SNAPolicy", env, policy_kwargs=policy_kwargs, seed=0, update="eager", **settings).learn(60)


def values(model: Any) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    if hasattr(model, "q_net"):
        every: torch.Tensor = model.q_net(torch.arange(32).reshape(32, 1))
        return every
    states, actions = torch.randn(32, 8, generator=generator), torch.rand(32, 6, generator=generator)
    return torch.cat(model.critic(states, 2.0 * actions - 1.0))


@pytest.mark.parametrize("name", list(KINDS))
def test_full_rank_changes_nothing(name: str) -> None:
    model = agent(name)
    before = values(model)
    report = compress_critic(model, 6, n_states=64, n_actions=64)
    torch.testing.assert_close(values(model), before, rtol=0.0, atol=2e-6)
    assert max(report.held_out) < 2e-6


@pytest.mark.parametrize("name", list(KINDS))
def test_a_compressed_agent_learns_saves_and_loads(name: str, tmp_path: Path) -> None:
    model = agent(name)
    critic = model.q_net if name == "dqn" else model.critic
    target = model.q_net_target if name == "dqn" else model.critic_target
    optimizer = model.policy.optimizer if name == "dqn" else critic.optimizer
    untouched = critic.network.bias
    moments = optimizer.state[untouched]["exp_avg"].clone()
    report = compress_critic(model, 2, n_states=48, n_actions=40)
    assert len(report.expected) == (1 if name == "dqn" else 2)
    assert all(lost > 0 for lost in report.expected)
    assert critic.network.layout.ranks[0] == 2
    for one, other in zip(critic.parameters(), target.parameters(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(optimizer.state[critic.network.bias]["exp_avg"], moments)
    assert critic.network.interaction.weights not in optimizer.state
    assert {id(p) for group in optimizer.param_groups for p in group["params"]} >= {
        id(p) for p in critic.network.parameters()
    }
    weights = critic.network.interaction.weights.clone()
    model.learn(30, reset_num_timesteps=False)
    assert not torch.equal(critic.network.interaction.weights, weights)
    model.save(tmp_path / "agent")
    loaded = type(model).load(tmp_path / "agent")
    torch.testing.assert_close(values(loaded), values(model))


def test_a_growing_critic_becomes_a_fixed_one() -> None:
    model = agent("sac", rank="auto")
    before = values(model)
    compress_critic(model, 4, n_states=64, n_actions=64)
    torch.testing.assert_close(values(model), before, rtol=0.0, atol=2e-6)
    assert model.policy_kwargs["rank"] == 4


def test_an_mlp_has_no_components() -> None:
    with pytest.raises(UsageError, match="MLPCritic has no components"):
        compress_critic(agent("sac", critic="mlp"), 4)
