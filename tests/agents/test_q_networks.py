"""Q-networks: the action table by hand, factored modes, blocks, dueling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces

from sna_rl.agents import q_networks
from sna_rl.agents.policies import SNADQNPolicy
from sna_rl.agents.q_networks import Dueling, unravel
from sna_rl.envs.wrappers import FactoredActions
from sna_rl.errors import UsageError

Make = Callable[..., Any]


class Joints(gymnasium.Env[Any, Any]):
    """One step an episode; reward s_0 · Π_m (a_m − 1) over joints of three settings."""

    observation_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.MultiDiscrete([3, 3])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        return self.state, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.state, float(self.state[0] * np.prod(np.asarray(action) - 1.0)), True, False, {}


def factored(**policy_kwargs: Any) -> Any:
    kwargs = {"rank": 6, "width": 16, "depth": 1, "net_arch": [16], **policy_kwargs}
    return stable_baselines3.DQN(
        SNADQNPolicy,
        FactoredActions(Joints()),
        policy_kwargs=kwargs,
        learning_rate=2e-2,
        learning_starts=10_000,
        buffer_size=2_000,
        seed=0,
        device="cpu",
    )


def test_one_action_mode_is_state_value_plus_action_value_plus_table(make_agent: Make) -> None:
    """Q(s,·) = b + V(s) 1 + A + U(s) Eᵀ with an action table E."""
    network = make_agent("dqn", rank=3).q_net
    states = torch.rand(7, 2)
    state, action = network.network.factors
    components, effect = state(states)
    table, column = (part[0] for part in action(torch.arange(5)))
    weights = network.network.interaction.weights[0] / 3**0.5
    expected = network.network.bias[0] + effect[0].unsqueeze(1) + column + (components[0] * weights) @ table.T
    torch.testing.assert_close(network(states), expected)
    assert torch.linalg.matrix_rank(network(states) - network(states).mean(1, keepdim=True)) <= 4


@pytest.mark.parametrize("critic", ["cp", "tucker"])
def test_factored_modes_learn_the_product_of_the_joints(critic: str) -> None:
    agent = factored(critic=critic, rank=4)
    assert agent.q_net.sizes == (3, 3)
    assert agent.q_net.network.layout.modes == (2, 3, 3)
    agent.learn(300)
    agent.train(gradient_steps=120, batch_size=64)
    states = torch.tensor([[0.8, 0.0], [-0.8, 0.0]])
    product = torch.outer(torch.tensor([-1.0, 0.0, 1.0]), torch.tensor([-1.0, 0.0, 1.0])).flatten()
    expected = states[:, :1] * product
    assert (agent.q_net(states) - expected).abs().mean() < 0.15
    agent.get_env().close()


def test_the_maximum_over_blocks_is_the_maximum_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = factored()
    states = torch.rand(20, 2) * 2 - 1
    table = agent.q_net(states)
    monkeypatch.setattr(q_networks, "BLOCK", 4)
    values, actions = agent.q_net.greedy(states)
    torch.testing.assert_close(values, table.amax(1))
    assert torch.equal(actions, table.argmax(1))
    assert torch.equal(agent.q_net._predict(states), actions)
    agent.get_env().close()


def test_action_numbers_are_numpys() -> None:
    numbers = torch.arange(24)
    expected = np.unravel_index(numbers.numpy(), (2, 3, 4))
    for index, wanted in zip(unravel(numbers, (2, 3, 4)), expected, strict=True):
        np.testing.assert_array_equal(index.numpy(), wanted)


def test_dueling_advantages_have_no_mean() -> None:
    network = Dueling(4, 3, [8], torch.nn.ReLU, layer_norm=True)
    features = torch.randn(5, 4)
    torch.testing.assert_close(network(features).mean(1, keepdim=True), network.value(features))
    difference = network(features) - network.advantage(features)
    torch.testing.assert_close(difference, difference[:, :1].expand(5, 3))


@pytest.mark.parametrize("critic", ["cp", "additive", "dueling", "mlp"])
def test_chosen_values_and_greedy_agree_with_forward(make_agent: Make, critic: str) -> None:
    network = make_agent("dqn", critic=critic).q_net
    states, actions = torch.rand(6, 2), torch.tensor([0, 4, 2, 2, 1, 3])
    table = network(states)
    torch.testing.assert_close(network.q_values(states, actions)[0], table[range(6), actions])
    values, best = network.greedy(states)
    torch.testing.assert_close(values, table.amax(1))
    assert torch.equal(best, table.argmax(1))


def test_matched_and_joint(make_agent: Make) -> None:
    def size(**kwargs: Any) -> int:
        return sum(p.numel() for p in make_agent("dqn", net_arch=[32, 32], **kwargs).q_net.parameters())

    sizes = {"rank": 16, "width": 32, "depth": 2}
    assert abs(size(critic="mlp-matched", **sizes) / size(critic="cp", **sizes) - 1) < 0.02
    with pytest.raises(UsageError, match="'spline-joint' is for continuous actions"):
        make_agent("dqn", critic="spline-joint")
