"""Critics: the baseline bit for bit, the basic form by hand, sharing, modes, budgets, negative control."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import FlattenExtractor

from sna_rl.agents.critic_config import CriticConfig
from sna_rl.agents.critics import make_critic
from sna_rl.agents.policies import SNADQNPolicy, SNASACPolicy, SNATD3Policy
from sna_rl.agents.value_table import value_table
from sna_rl.errors import UsageError

Make = Callable[..., Any]
STATE, ACTION = 17, 6  # HalfCheetah's


def build(config: CriticConfig, **kwargs: Any) -> Any:
    space = spaces.Box(-1.0, 1.0, (STATE,), np.float32)
    given = {
        "observation_space": space,
        "action_space": spaces.Box(-1.0, 1.0, (ACTION,), np.float32),
        "net_arch": [256, 256],
        "activation_fn": torch.nn.ReLU,
        "normalize_images": True,
        "n_critics": 2,
        "share_features_extractor": False,
        "features_extractor": FlattenExtractor(space),
        "features_dim": STATE,
    }
    return make_critic(config, {**given, **kwargs})


def count(critic: Any) -> int:
    return sum(parameter.numel() for parameter in critic.parameters())


@pytest.mark.parametrize(
    ("algorithm", "policy"),
    [
        (stable_baselines3.SAC, SNASACPolicy),
        (stable_baselines3.TD3, SNATD3Policy),
        (stable_baselines3.DDPG, SNATD3Policy),
        (stable_baselines3.DQN, SNADQNPolicy),
    ],
)
def test_mlp_trains_bit_equal_to_stable_baselines3(algorithm: Any, policy: Any, product_env: Any) -> None:
    vectors = []
    for cls, kwargs in (("MlpPolicy", {}), (policy, {"critic": "mlp"})):
        env = product_env(discrete=algorithm is stable_baselines3.DQN)
        agent = algorithm(
            cls, env, policy_kwargs={"net_arch": [24, 24], **kwargs}, learning_starts=10, seed=4, device="cpu"
        )
        agent.learn(30)
        assert agent._n_updates >= 4
        vectors.append(torch.nn.utils.parameters_to_vector(agent.policy.parameters()))
    assert torch.equal(*vectors)


def test_the_basic_form_has_its_count_and_its_formula() -> None:
    """Q(s,a) = b + V(s) + A(a) + Σ_r w_r relu(W_s s)_r relu(W_a a)_r / √R, 4,291 parameters a head."""
    critic = build(CriticConfig(factor="linear"))
    assert count(critic) == 2 * 4_291
    network, states, actions = critic.network, torch.randn(5, STATE), torch.rand(5, ACTION) * 2 - 1
    (u, value), (v, advantage) = network.factors[0](states), network.factors[1](actions)
    assert (u >= 0).all()
    assert (v >= 0).all()
    interaction = (u * v * network.interaction.weights).sum(-1) / math.sqrt(32)
    expected = network.bias + value + advantage + interaction
    torch.testing.assert_close(critic.q_values(states, actions), expected)
    torch.testing.assert_close(critic.q1_forward(states, actions)[:, 0], expected[0])


@pytest.mark.parametrize("rank", [8, 32, 128])
def test_the_start_is_scaled_the_same_at_every_rank(rank: int) -> None:
    torch.manual_seed(0)
    states, actions = torch.randn(512, STATE), torch.rand(512, ACTION) * 2 - 1
    heads = build(CriticConfig(rank=rank, factor="linear"), n_critics=16).network
    form = heads.bilinear(heads.encode([states], [0]), heads.encode([actions], [1]))
    spread = (form.left * form.right).sum(-1).std()
    assert 0.12 < spread < 0.28  # σ = 0.2; the literal init fades to 0.002 at rank 128


@pytest.mark.parametrize(
    "config",
    [
        CriticConfig("mlp-matched"),
        CriticConfig("mlp-matched", factor="linear"),
        CriticConfig("mlp-matched", factor="spline", rank=8),
        CriticConfig("mlp-matched", layer_norm=True),
        CriticConfig("mlp-matched", action_modes="each", order=2),
    ],
)
def test_matched_mlps_have_the_parameters_of_the_separable_critic(config: CriticConfig) -> None:
    reference = CriticConfig(**{**config.kwargs(), "critic": "cp", "layer_norm": "auto"})
    assert abs(count(build(config)) / count(build(reference)) - 1) < 0.02


def test_modes_read_their_own_columns() -> None:
    config = CriticConfig(
        rank=3, state_modes=((0, 16, 5), tuple(set(range(17)) - {0, 5, 16})), action_modes="each"
    )
    critic = build(config)
    assert critic.network.layout.modes == (3, 14, 1, 1, 1, 1, 1, 1)
    states, actions = torch.randn(4, STATE), torch.rand(4, ACTION)
    other = [column for column in range(STATE) if column not in (0, 16, 5)]
    inputs = [states[:, [0, 16, 5]], states[:, other], *torch.split(actions, 1, dim=1)]
    torch.testing.assert_close(critic.q_values(states, actions), critic.network(inputs))


def test_state_and_action_factors_have_depths_of_their_own() -> None:
    critic = build(
        CriticConfig(state_modes=(tuple(range(10)), tuple(range(10, 17))), depth=3, action_depth=0)
    )
    assert [factor.depth for factor in critic.network.layout.factors] == [3, 3, 0]
    # towers of 128 with LayerNorm, 32 components and a main effect each, 32 weights, one bias
    towers = sum((size + 1) * 128 + 2 * 128 + 2 * (129 * 128 + 2 * 128) + 129 * 33 for size in (10, 7))
    assert count(critic) == 2 * (towers + (ACTION + 1) * 33 + 32 + 1)


@pytest.mark.parametrize("kind", ["cp", "tucker", "spline-joint", "mlp"])
def test_a_shared_extractor_gets_no_gradient_from_the_critic(kind: str) -> None:
    space = spaces.Box(-1.0, 1.0, (STATE,), np.float32)

    class Learned(FlattenExtractor):
        def __init__(self) -> None:
            super().__init__(space)
            self.scale = torch.nn.Parameter(torch.ones(STATE))

        def forward(self, observations: torch.Tensor) -> torch.Tensor:
            return super().forward(observations) * self.scale

    states, actions = torch.randn(3, STATE), torch.rand(3, ACTION, requires_grad=True)
    for shared in (True, False):
        extractor = Learned()
        critic = build(CriticConfig(kind), features_extractor=extractor, share_features_extractor=shared)
        torch.autograd.backward(torch.stack(critic(states, actions)).sum())
        assert (extractor.scale.grad is None) is shared
        assert actions.grad is not None
        with torch.no_grad():
            assert not torch.stack(critic(states, actions)).requires_grad
        extractor.scale.grad = None
        torch.autograd.backward(critic.q1_forward(states, actions).sum())
        assert extractor.scale.grad is None


def test_the_additive_greedy_action_ignores_the_state_and_training_says_so(
    make_agent: Make, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make_agent("sac", critic="additive")
    assert len(caplog.messages) == 1
    assert "same in every state" in caplog.messages[0]
    agent.learn(40)
    grid = torch.linspace(-1, 1, 41).unsqueeze(1)
    for table in value_table(agent.critic, torch.rand(50, 2) * 2 - 1, grid):
        assert table.argmax(dim=1).unique().numel() == 1
    states, actions = torch.rand(8, 2), torch.zeros(8, 1, requires_grad=True)
    (gradient,) = torch.autograd.grad(agent.critic(states, actions)[0].sum(), actions)
    torch.testing.assert_close(gradient, gradient[:1].expand(8, 1))


def test_the_joint_critic_is_its_splines_over_all_columns() -> None:
    critic = build(CriticConfig("spline-joint", rank=4, n_coordinates=5, width=16))
    states, actions = torch.randn(3, STATE), torch.rand(3, ACTION)
    expected = critic.network([torch.cat([states, actions], dim=1)])
    torch.testing.assert_close(torch.cat(critic(states, actions), dim=1).T, expected)
    assert critic.network.layout.modes == (STATE + ACTION,)
    assert critic.network.layout.factors[0].kind == "spline"


def test_what_is_for_other_actions_is_refused() -> None:
    with pytest.raises(UsageError, match="'dueling' is for DQN"):
        build(CriticConfig("dueling"))
    with pytest.raises(UsageError, match="state_modes must hold each of the columns 0 to 16 once"):
        build(CriticConfig(state_modes=((0,),)))


def test_the_critic_optimizer_clips_and_keeps_its_ratio(make_agent: Make) -> None:
    agent = make_agent("td3", critic_lr_ratio=0.5)
    optimizer = agent.critic.optimizer
    assert (optimizer.max_grad_norm, optimizer.param_groups[0]["lr_ratio"]) == (1.0, 0.5)
    assert type(agent.actor.optimizer) is torch.optim.Adam
    agent.learn(14)
    assert optimizer.param_groups[0]["lr"] == 3e-3
    assert make_agent("dqn").policy.optimizer.max_grad_norm == 1.0
    assert make_agent("sac", critic="mlp").critic.optimizer.max_grad_norm is None
    assert make_agent("sac", critic="mlp", max_grad_norm=0.3).critic.optimizer.max_grad_norm == 0.3
