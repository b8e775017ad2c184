"""One promise a test, every algorithm × critic, in plain Stable-Baselines3 classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from sna_rl.agents.value_table import critic_features, critic_of, value_table

CONTINUOUS: list[tuple[str, dict[str, Any]]] = [
    ("cp", {}),
    ("cp-linear", {"critic": "cp", "factor": "linear"}),
    ("cp-paper", {"critic": "cp", "factor": "linear", "init": "paper"}),
    ("cp-spline", {"critic": "cp", "factor": "spline"}),
    ("cp-each", {"critic": "cp", "state_modes": "each", "order": 2}),
    ("tucker", {"critic": "tucker", "rank": (3, 2)}),
    ("additive", {}),
    ("spline-joint", {}),
    ("mlp", {}),
    ("mlp-norm", {"critic": "mlp", "layer_norm": True, "max_grad_norm": 1.0}),
    ("mlp-matched", {}),
]
DISCRETE: list[tuple[str, dict[str, Any]]] = [
    ("cp", {}),
    ("cp-spline", {"critic": "cp", "factor": "spline"}),
    ("tucker", {}),
    ("additive", {}),
    ("dueling", {}),
    ("dueling-norm", {"critic": "dueling", "layer_norm": True}),
    ("mlp", {}),
    ("mlp-matched", {}),
]
CASES = [
    pytest.param(algo, {"critic": name, **kwargs}, id=f"{algo}-{name}")
    for algo, cases in (("sac", CONTINUOUS), ("td3", CONTINUOUS), ("dqn", DISCRETE))
    for name, kwargs in cases
]
every = pytest.mark.parametrize(("algo", "kwargs"), CASES)
Make = Callable[..., Any]


def weights(model: OffPolicyAlgorithm) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(model.policy.parameters()).detach().clone()


@every
def test_values_are_one_column_a_head_and_rows_do_not_mix(
    make_agent: Make, algo: str, kwargs: dict[str, Any]
) -> None:
    critic: Any = critic_of(make_agent(algo, **kwargs))
    observations = torch.rand(7, 2) * 2 - 1
    if algo == "dqn":
        table = critic(observations)
        assert table.shape == (7, 5)
        torch.testing.assert_close(table[2:3], critic(observations[2:3]))
        return
    actions = torch.rand(7, 1) * 2 - 1
    values = critic(observations, actions)
    assert isinstance(values, tuple)
    assert [value.shape for value in values] == [(7, 1), (7, 1)]
    assert not torch.equal(values[0], values[1])
    singles = torch.cat([critic(observations[i : i + 1], actions[i : i + 1])[1] for i in range(7)])
    torch.testing.assert_close(values[1], singles)
    torch.testing.assert_close(critic.q1_forward(observations, actions), values[0])
    torch.testing.assert_close(critic.q_values(observations, actions), torch.cat(values, dim=1).T)


@every
def test_the_value_table_is_the_forward_pass_of_every_pair(
    make_agent: Make, algo: str, kwargs: dict[str, Any]
) -> None:
    critic: Any = critic_of(make_agent(algo, **kwargs))
    observations = torch.rand(6, 2) * 2 - 1
    features = critic_features(critic, observations)
    if algo == "dqn":
        actions = torch.tensor([3, 0, 4])
        expected = critic(observations)[:, actions].unsqueeze(0)
        chosen = critic.q_values(features, torch.tensor([3, 0, 4, 4, 1, 2]))
        torch.testing.assert_close(chosen[0], critic(observations)[range(6), [3, 0, 4, 4, 1, 2]])
    else:
        actions = torch.rand(3, 1) * 2 - 1
        columns = [torch.stack(critic(observations, action.expand(6, 1))).squeeze(-1) for action in actions]
        expected = torch.stack(columns, dim=-1)
    torch.testing.assert_close(value_table(critic, features, actions), expected)


@every
def test_the_optimizer_holds_every_parameter_and_the_target_starts_equal(
    make_agent: Make, algo: str, kwargs: dict[str, Any]
) -> None:
    policy = make_agent(algo, **kwargs).policy
    critic, target = (
        (policy.q_net, policy.q_net_target) if algo == "dqn" else (policy.critic, policy.critic_target)
    )
    optimizer = policy.optimizer if algo == "dqn" else critic.optimizer
    assert [id(p) for group in optimizer.param_groups for p in group["params"]] == list(
        map(id, critic.parameters())
    )
    for (name, online), (target_name, copy) in zip(
        critic.named_parameters(), target.named_parameters(), strict=True
    ):
        assert name == target_name
        assert online is not copy
        assert torch.equal(online, copy)


@every
def test_same_seed_same_weights_and_every_critic_parameter_learns(
    make_agent: Make, algo: str, kwargs: dict[str, Any]
) -> None:
    runs = []
    for _ in range(2):
        agent = make_agent(algo, seed=3, **kwargs)
        before = {name: value.clone() for name, value in critic_of(agent).named_parameters()}
        runs.append(agent.learn(25))
    assert torch.equal(weights(runs[0]), weights(runs[1]))
    for name, value in critic_of(runs[0]).named_parameters():
        assert not torch.equal(value, before[name]), f"{name} did not learn"
    assert not torch.equal(
        weights(make_agent(algo, seed=4, **kwargs)), weights(make_agent(algo, seed=3, **kwargs))
    )


@every
def test_saved_agents_act_the_same_and_go_on_the_same(
    make_agent: Make, algo: str, kwargs: dict[str, Any], tmp_path: Path
) -> None:
    agent = make_agent(algo, **kwargs)
    agent.learn(14)
    agent.save(tmp_path / "agent.zip")
    loaded = type(agent).load(tmp_path / "agent.zip")
    observations = np.random.default_rng(0).uniform(-1, 1, (20, 2)).astype(np.float32)
    np.testing.assert_array_equal(
        agent.predict(observations, deterministic=True)[0],
        loaded.predict(observations, deterministic=True)[0],
    )
    assert loaded.policy.critic_config == agent.policy.critic_config
    loaded.replay_buffer, loaded.policy_class = agent.replay_buffer, agent.policy_class
    loaded.set_logger(agent.logger)
    for model in (agent, loaded):
        np.random.seed(5)
        torch.manual_seed(5)
        model.train(gradient_steps=3, batch_size=8)
    assert torch.equal(weights(agent), weights(loaded))


@every
def test_a_policy_alone_saves_and_loads_its_critic(
    make_agent: Make, algo: str, kwargs: dict[str, Any], tmp_path: Path
) -> None:
    policy = make_agent(algo, **kwargs).policy
    policy.save(tmp_path / "policy.pth")
    loaded = type(policy).load(tmp_path / "policy.pth", device="cpu")
    assert loaded.critic_config == policy.critic_config
    for (name, value), (other, copy) in zip(
        policy.state_dict().items(), loaded.state_dict().items(), strict=True
    ):
        assert name == other
        assert torch.equal(value, copy)
    observation = np.array([0.3, -0.5], np.float32)
    np.testing.assert_array_equal(
        policy.predict(observation, deterministic=True)[0], loaded.predict(observation, deterministic=True)[0]
    )


@pytest.mark.parametrize(("algo", "kwargs"), [case for case in CASES if not str(case.id).endswith("-paper")])
def test_the_critic_learns_the_product_unless_it_is_additive(
    make_agent: Make, algo: str, kwargs: dict[str, Any]
) -> None:
    agent = make_agent(algo, **kwargs)
    agent.learning_starts, agent.lr_schedule = 10_000, lambda _: 2e-2
    agent.learn(200)
    agent.train(gradient_steps=70, batch_size=64)
    critic = critic_of(agent)
    grid = torch.linspace(-0.9, 0.9, 9)
    states = torch.stack([grid, torch.zeros(9)], dim=1)
    values = torch.linspace(-1, 1, 5)
    actions = torch.arange(5) if algo == "dqn" else values.unsqueeze(1)
    table = value_table(critic, states, actions)[0]
    error = (table - torch.outer(grid, values)).square().mean().sqrt()
    greedy = table.argmax(dim=1)
    if kwargs["critic"] == "additive":
        assert len(set(greedy.tolist())) == 1
        assert error > 0.25
    else:
        assert error < 0.2
        assert greedy[0] <= 1
        assert greedy[-1] >= 3
