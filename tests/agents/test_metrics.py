"""The metrics callback: right values, right tags, and no trace in training."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.logger import Logger, configure
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sna_rl.agents.metrics import GROUP, RankMetrics, draw_spectra, table_metrics
from sna_rl.agents.policies import SNASACPolicy
from sna_rl.agents.probe import (
    branch_gradient_ratio,
    critic_loss,
    sample_batch,
    sample_probe,
    undisturbed,
)
from sna_rl.agents.value_table import critic_features, critic_of, value_table
from sna_rl.errors import UsageError
from sna_rl.separable import spectrum

Make = Callable[..., Any]


def test_table_metrics_of_a_known_table() -> None:
    states, actions = torch.tensor([[-1.0], [1.0]]), torch.tensor([[-1.0, 0.0, 1.0]])
    first = 3 * states + 0 * actions + 2 * states @ actions  # variance: 9 of states, 8/3 of the interaction
    metrics = table_metrics(torch.stack([first, first - states @ actions]))
    assert metrics["energy_rank_99"] == 1.0
    assert metrics["effective_rank"] == pytest.approx(1.0)
    assert metrics["action_share"] == pytest.approx(0.0)
    shares = [9 / (9 + 8 / 3), 9 / (9 + 2 / 3)]
    assert metrics["state_share"] == pytest.approx(sum(shares) / 2)
    assert metrics["interaction_share"] == pytest.approx(1 - sum(shares) / 2)
    assert metrics["noise_floor"] == pytest.approx(0.5 * np.sqrt(2 * 2))


@pytest.mark.parametrize(("algo", "critic"), [("sac", "cp"), ("sac", "mlp"), ("td3", "cp"), ("dqn", "cp")])
def test_training_with_metrics_is_bit_equal_to_training_without(
    make_agent: Make, algo: str, critic: str
) -> None:
    ends: list[Any] = []
    for callback in (None, RankMetrics(interval=7, n_states=16, n_actions=8)):
        agent = make_agent(algo, critic=critic)
        agent.learn(40, callback=callback)
        vector = torch.nn.utils.parameters_to_vector(agent.policy.parameters())
        ends.append((vector, torch.rand(3), np.random.rand()))
    (bare, *generators), (watched, *others) = ends
    assert torch.equal(bare, watched)
    assert torch.equal(generators[0], others[0])
    assert generators[1:] == others[1:]


def test_all_three_generators_come_back() -> None:
    before = random.getstate()
    for seed in (1, 2):
        np.random.seed(0)
        torch.manual_seed(0)
        with undisturbed(seed, torch.device("cpu")):
            drawn = random.random(), np.random.rand(), torch.rand(1)
        after = np.random.rand(2), torch.rand(2)
        np.random.seed(0)
        torch.manual_seed(0)
        assert np.array_equal(after[0], np.random.rand(2))
        assert torch.equal(after[1], torch.rand(2))
        assert random.getstate() == before
        with undisturbed(seed, torch.device("cpu")):
            assert drawn == (random.random(), np.random.rand(), torch.rand(1))


@pytest.fixture
def logged(make_agent: Make, tmp_path: Path) -> Callable[..., EventAccumulator]:
    def run(algo: str, **kwargs: Any) -> EventAccumulator:
        agent = make_agent(algo, **kwargs)
        agent.set_logger(configure(str(tmp_path), ["tensorboard", "csv", "json"]))
        agent.learn(40, callback=RankMetrics(interval=20, n_states=16, n_actions=8))
        agent.logger.close()
        events = EventAccumulator(str(tmp_path))
        events.Reload()
        return events

    return run


def test_separable_critics_log_every_metric(logged: Callable[..., EventAccumulator]) -> None:
    tags = logged("sac", critic="cp").Tags()
    names = {
        "effective_rank",
        "energy_rank_90",
        "energy_rank_99",
        "state_share",
        "action_share",
        "interaction_share",
        "noise_floor",
    }
    own = {"idle_components", "branch_gradient_ratio"}
    assert {f"{GROUP}/{name}" for name in names | own} <= set(tags["scalars"])
    assert {f"{GROUP}_uniform/{name}" for name in names} <= set(tags["scalars"])
    assert "time/metrics_share" in tags["scalars"]
    assert f"{GROUP}/component_use" in tags["histograms"]
    assert f"{GROUP}/singular_values" in tags["images"]
    assert "custom_scalars__config__" in tags["tensors"]


def test_measurements_lie_at_multiples_of_the_interval_and_at_the_end(
    logged: Callable[..., EventAccumulator],
) -> None:
    events = logged("sac", critic="mlp")
    points = events.Scalars(f"{GROUP}/effective_rank")
    assert [point.step for point in points] == [20, 40, 40]
    shares = [events.Scalars(f"{GROUP}/{name}_share")[0].value for name in ("state", "action", "interaction")]
    assert sum(shares) == pytest.approx(1.0)
    assert f"{GROUP}/idle_components" not in events.Tags()["scalars"]


def test_an_additive_critic_has_no_interaction_to_log(logged: Callable[..., EventAccumulator]) -> None:
    events = logged("td3", critic="additive")
    assert events.Scalars(f"{GROUP}/interaction_share")[0].value == pytest.approx(0.0, abs=1e-9)
    assert events.Scalars(f"{GROUP}/effective_rank")[0].value == 0.0
    assert f"{GROUP}/branch_gradient_ratio" not in events.Tags()["scalars"]


def test_few_discrete_actions_make_one_table_of_all_of_them(logged: Callable[..., EventAccumulator]) -> None:
    events = logged("dqn", critic="dueling")
    assert events.Scalars(f"{GROUP}/energy_rank_99")[0].value <= 4
    assert not [tag for tag in events.Tags()["scalars"] if tag.startswith(f"{GROUP}_uniform")]


def test_nothing_is_logged_before_anything_was_seen(make_agent: Make) -> None:
    agent = make_agent("sac")
    callback = RankMetrics()
    agent.set_logger(Logger(None, []))
    callback.init_callback(agent)
    callback.measure()
    assert not agent.logger.name_to_value
    with pytest.raises(UsageError, match="replay buffer is empty"):
        sample_batch(agent, 4)


def test_goals_and_dicts_are_measured_once_an_episode_is_whole(tmp_path: Path) -> None:
    agent = stable_baselines3.SAC(
        SNASACPolicy,
        BitFlippingEnv(n_bits=30, continuous=True, max_steps=6),
        replay_buffer_class=HerReplayBuffer,
        learning_starts=8,
        batch_size=4,
        policy_kwargs={"rank": 2, "width": 8, "net_arch": [8]},
    )
    agent.set_logger(configure(str(tmp_path), ["csv"]))
    agent.learn(12, callback=RankMetrics(interval=4, n_states=8, n_actions=4))
    agent.logger.close()
    rows = (tmp_path / "progress.csv").read_text().splitlines()
    assert f"{GROUP}/effective_rank" in rows[0]
    assert len(rows) == 1 + 3  # after 8 and 12 steps and at the end, not after 4


def test_the_probe_is_what_the_critic_sees(make_agent: Make, product_env: Any) -> None:
    env = VecNormalize(DummyVecEnv([product_env]), gamma=0.9)
    agent = make_agent("sac", env=env)
    agent.learn(60)
    probe: Any = sample_probe(agent, n_states=200, n_actions=50, seed=3)
    again: Any = sample_probe(agent, n_states=200, n_actions=50, seed=3)
    assert torch.equal(probe.observations, again.observations)
    seen = agent.replay_buffer.observations[:60, 0]
    normalised = np.asarray(env.normalize_obs(seen), np.float32)
    known = {tuple(row) for row in normalised.tolist()}
    assert {tuple(row) for row in probe.observations.tolist()} <= known
    assert set(probe.supported.flatten().tolist()) <= set(agent.replay_buffer.actions[:60].flatten().tolist())
    assert probe.uniform is not None
    assert probe.uniform.abs().max() <= 1
    env.close()


def test_the_critic_loss_is_the_one_that_training_takes(make_agent: Make) -> None:
    for algo in ("sac", "td3", "dqn"):
        agent = make_agent(algo)
        agent.learn(30)
        batch = sample_batch(agent, 16)
        values = agent.q_net(batch.observations).gather(1, batch.actions) if algo == "dqn" else None
        if values is None:
            heads = agent.critic(batch.observations, batch.actions)
            expected = sum((head - batch.rewards).square().mean() for head in heads)
            expected *= 0.5 if algo == "sac" else 1.0
        else:
            expected = torch.nn.functional.smooth_l1_loss(values, batch.rewards)
        assert batch.dones.all()  # one step an episode: the target is the reward
        torch.testing.assert_close(critic_loss(agent, batch), expected)


def test_the_gradient_ratio_is_that_of_a_backward_pass(make_agent: Make) -> None:
    agent = make_agent("sac", critic="cp")
    agent.learn(30)
    agent.critic.optimizer.zero_grad()
    ratio = branch_gradient_ratio(agent, n=16, seed=2)
    assert all(parameter.grad is None for parameter in agent.critic.parameters())
    with undisturbed(2, agent.device):
        torch.autograd.backward(critic_loss(agent, sample_batch(agent, 16)))
    gradients = [
        torch.cat([parameter.grad.flatten() for parameter in part])
        for part in (agent.critic.network.interaction_parameters(), agent.critic.network.branch_parameters())
    ]
    expected = gradients[0].square().mean().sqrt() / gradients[1].square().mean().sqrt()
    assert ratio == pytest.approx(float(expected), rel=1e-5)
    assert branch_gradient_ratio(make_agent("sac", critic="mlp"), n=16, seed=2) is None


def test_component_use_adds_up_to_the_interaction(make_agent: Make) -> None:
    agent = make_agent("sac", critic="cp", rank=1)
    critic: Any = critic_of(agent)
    features = critic_features(critic, torch.rand(9, 2))
    actions = torch.rand(6, 1) * 2 - 1
    form = critic.network.bilinear(critic.encode_state(features), critic.encode_action(actions))
    use = spectrum.component_use(form.left[0], form.right[0])
    table = spectrum.interaction(value_table(critic, features, actions)[0])
    torch.testing.assert_close(use[0], table.square().mean().sqrt(), rtol=1e-4, atol=1e-7)


def test_a_spectrum_without_values_can_be_drawn() -> None:
    drawing = draw_spectra(torch.zeros(2, 3), floor=0.0)
    drawing.canvas.draw()
