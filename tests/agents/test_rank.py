from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import stable_baselines3 as sb3
import torch

import sna_rl.envs  # noqa: F401  (registers SNA/…)
from sna_rl.agents import DQN, SAC, TD3, SNASACPolicy
from sna_rl.agents.rank import PATIENCE, RankControl
from sna_rl.errors import UsageError
from sna_rl.separable.growing import GrowingInteraction, component_parameters

SMALL: dict[str, Any] = {"rank": "auto", "width": 8, "net_arch": [8]}


def agent(kind: Any = SAC, **kwargs: Any) -> Any:
    settings = {
        "learning_starts": 10,
        "buffer_size": 400,
        "batch_size": 16,
        "seed": 0,
        "update": "reference",
        **kwargs,
    }
    return kind("SNAPolicy", "SNA/LQR-v0", policy_kwargs=dict(SMALL), **settings)


def control(model: Any) -> RankControl:
    callback = RankControl(interval=10, n_states=80, n_actions=70)
    callback.init_callback(model)
    return callback


def mask(model: Any, target: bool = False) -> torch.Tensor:
    interaction = (model.critic_target if target else model.critic).network.interaction
    assert isinstance(interaction, GrowingInteraction)
    return interaction.running_mask[0, 0]


@pytest.mark.parametrize("kind", [SAC, TD3])
def test_it_starts_with_four_and_grows_without_a_jump(kind: Any) -> None:
    model = agent(kind, update="eager").learn(60)
    assert mask(model).sum() == mask(model, target=True).sum() == 4
    batch = model.replay_buffer.sample(32)
    both = (model.critic, model.critic_target)
    before = [critic(batch.observations, batch.actions) for critic in both]
    callback = control(model)
    callback.binding = PATIENCE
    callback._grow()
    for critic, values in zip(both, before, strict=True):
        torch.testing.assert_close(critic(batch.observations, batch.actions), values, rtol=0.0, atol=1e-6)
    assert callback.rank == mask(model, target=True).sum() == 8
    assert callback.binding == 0
    assert callback.idle[4:8] == [-PATIENCE] * 4
    weights = model.critic.network.interaction.weights
    model.learn(40, reset_num_timesteps=False)
    assert weights[..., 4:8].all()  # the new components learn
    assert not weights[..., 8:].any()


def test_three_probes_that_bind_grow_the_rank() -> None:
    model = agent().learn(60)
    with torch.no_grad():  # two heads that are one: nothing is noise
        for parameter in model.critic.network.parameters():
            parameter[1] = parameter[0]
    callback = control(model)
    ranks = []
    for _ in range(2 * PATIENCE):
        callback.probe()
        ranks.append(callback.rank)
    assert ranks == [4, 4, 8, 8, 8, 8]  # σ_8 is 0: the new weights have not learned
    assert model.logger.name_to_value["separable/rank"] == 8


def test_heads_that_disagree_do_not_grow() -> None:
    model = agent().learn(12)
    callback = control(model)
    for _ in range(PATIENCE + 1):
        callback.probe()
    assert callback.rank == 4


def test_the_largest_rank_is_the_end() -> None:
    model = agent().learn(12)
    callback = control(model)
    for _ in range(6):
        callback._grow()
    assert callback.rank == 64


def test_idle_components_are_switched_off_in_both_networks() -> None:
    model = agent().learn(60)
    interaction = model.critic.network.interaction
    with torch.no_grad():
        interaction.weights[..., 2] *= 1e-4
    callback = control(model)
    batch = model.replay_buffer.sample(64)
    before = torch.cat(model.critic(batch.observations, batch.actions))
    for _ in range(PATIENCE):
        assert callback.rank == 4
        callback.probe()
    assert mask(model).tolist()[:5] == mask(model, target=True).tolist()[:5] == [1, 1, 0, 1, 0]
    after = torch.cat(model.critic(batch.observations, batch.actions))
    assert (after - before).square().mean().sqrt() < 0.01 * before.std()
    for factor, follower in zip(
        model.critic.network.factors, model.critic_target.network.factors, strict=True
    ):
        for one, other in zip(component_parameters(factor), component_parameters(follower), strict=True):
            assert torch.equal(one[..., 2], other[..., 2])
            assert not model.critic.optimizer.state[one]["exp_avg"][..., 2].any()
            assert model.critic.optimizer.state[one]["exp_avg"][..., 0].any()
    assert callback.idle[2] == 0


def test_one_component_stays() -> None:
    model = agent().learn(12)
    callback = control(model)
    callback.idle[:4] = [PATIENCE] * 4
    callback._prune(torch.ones(64, dtype=torch.bool), seed=0)
    assert callback.rank == 1


def test_training_is_not_disturbed_by_a_probe() -> None:
    model = agent().learn(40)
    callback = control(model)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    callback.idle[1] = PATIENCE
    callback.probe()
    assert torch.equal(torch.rand(1), expected)


def test_save_and_load_keep_the_rank(tmp_path: Path) -> None:
    model = agent().learn(30)
    control(model)._grow()
    model.save(tmp_path / "agent")
    loaded = SAC.load(tmp_path / "agent")
    assert mask(loaded).sum() == mask(loaded, target=True).sum() == 8
    observation = model.observation_space.sample()
    assert (
        loaded.predict(observation, deterministic=True)[0]
        == model.predict(observation, deterministic=True)[0]
    ).all()


def test_our_algorithms_control_it_themselves_and_others_take_the_callback() -> None:
    model = agent()
    model.learn(12)
    root = model._init_callback(None)
    assert isinstance(root.callbacks[0], RankControl)
    own = RankControl(interval=5)
    assert model._init_callback([own]).callbacks == [own]
    fixed = SAC("SNAPolicy", "Pendulum-v1", policy_kwargs={"rank": 4, "width": 8}, buffer_size=9)
    assert not hasattr(fixed._init_callback(None), "callbacks")
    plain = sb3.SAC(
        SNASACPolicy, "Pendulum-v1", policy_kwargs=dict(SMALL), learning_starts=10, buffer_size=99
    )
    callback = RankControl(interval=5, n_states=8, n_actions=8)
    plain.learn(20, callback=callback)
    assert callback.rank == 4


def test_what_has_no_rank_of_its_own_choice_is_refused() -> None:
    for kind, env, kwargs, message in (
        (SAC, "Pendulum-v1", {"critic": "tucker"}, "rank 'auto' is for critic 'cp'"),
        (SAC, "Pendulum-v1", {"order": 2}, "rank 'auto' is for critic 'cp' with order None"),
        (SAC, "Pendulum-v1", {"n_critics": 1}, "rank 'auto' needs two critics"),
        (DQN, "CartPole-v1", {}, "rank 'auto' needs two critics"),
    ):
        with pytest.raises(UsageError, match=message):
            kind("SNAPolicy", env, policy_kwargs={"rank": "auto", **kwargs}, buffer_size=9)
