"""From text in a configuration to the objects that Stable-Baselines3 takes."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from sna_rl.agents import SNASACPolicy
from sna_rl.config import RunConfig
from sna_rl.errors import UsageError
from sna_rl.training.build import build, check_action_space, n_parameters, updates_per_step
from sna_rl.training.environments import make_vec_env

TINY = {"buffer_size": 10, "policy_kwargs": {"net_arch": [4], "width": 4, "depth": 1}}


@pytest.fixture
def pendulum() -> Iterator[VecEnv]:
    venv = make_vec_env(RunConfig("sac", "Pendulum-v1", n_envs=2))
    yield venv
    venv.close()


def config(algo: str = "sac", env: str = "Pendulum-v1", **changes: Any) -> RunConfig:
    return RunConfig(algo, env, rank=2, hyperparams=TINY).replace(**changes)


@pytest.mark.parametrize(
    ("given", "at_half", "at_end"),
    [(1e-3, 1e-3, 1e-3), ("lin_3e-4", 1.5e-4, 0.0), ("lin_3e-4_1e-4", 2e-4, 1e-4), ("5e-4", 5e-4, 5e-4)],
)
def test_learning_rates_follow_their_text(
    given: Any, at_half: float, at_end: float, pendulum: VecEnv
) -> None:
    model = build(config(learning_rate=given), pendulum)
    assert model.lr_schedule(0.5) == pytest.approx(at_half)
    assert model.lr_schedule(0.0) == pytest.approx(at_end)


def test_noise_becomes_an_object_of_the_actions_shape(pendulum: VecEnv) -> None:
    assert build(config("td3"), pendulum).action_noise is None
    normal: Any = build(config("td3", noise_type="normal", noise_std=0.3), pendulum).action_noise
    assert isinstance(normal, NormalActionNoise)
    assert normal._sigma.tolist() == pytest.approx([0.3])
    assert normal._mu.tolist() == [0.0]
    coloured = build(config("td3", noise_type="ornstein-uhlenbeck"), pendulum).action_noise
    assert isinstance(coloured, OrnsteinUhlenbeckActionNoise)


def test_classes_are_found_by_their_names(pendulum: VecEnv) -> None:
    kwargs = "dict(net_arch=[4], activation_fn=nn.Tanh, optimizer_class=torch.optim.RMSprop)"
    model: Any = build(
        config(
            critic="mlp", policy_kwargs=kwargs, replay_buffer_class="ReplayBuffer", train_freq=[3, "step"]
        ),
        pendulum,
    )
    assert any(isinstance(layer, nn.Tanh) for layer in model.actor.latent_pi)
    assert isinstance(model.actor.optimizer, torch.optim.RMSprop)
    assert type(model.replay_buffer) is ReplayBuffer
    assert (model.train_freq.frequency, model.train_freq.unit.value) == (3, "step")


def test_policies_come_by_zoo_name_or_by_dotted_name(pendulum: VecEnv) -> None:
    for name in ("MlpPolicy", "SNAPolicy", "sna_rl.agents.SNASACPolicy"):
        model: Any = build(config(policy=name), pendulum)
        assert type(model.policy) is SNASACPolicy
        assert model.policy.critic_config.rank == 2
    plain = build(
        RunConfig(
            "sac",
            "Pendulum-v1",
            gym_packages=("stable_baselines3.sac.policies",),
            hyperparams={
                "policy": "stable_baselines3.sac.policies.SACPolicy",
                "policy_kwargs": {"net_arch": [4]},
            },
        ).replace(buffer_size=10),
        pendulum,
    )
    assert type(plain.policy).__module__ == "stable_baselines3.sac.policies"


def test_one_configuration_serves_two_algorithms_unchanged(pendulum: VecEnv) -> None:
    sac = config()
    before = deepcopy(sac.to_dict())
    build(sac, pendulum)
    build(sac.replace(algo="td3"), pendulum)
    assert sac.to_dict() == before


def test_equal_seeds_give_equal_weights(pendulum: VecEnv) -> None:
    def weights(seed: int) -> np.ndarray[Any, Any]:
        return (
            nn.utils.parameters_to_vector(build(config(seed=seed), pendulum).policy.parameters())
            .detach()
            .numpy()
        )

    np.testing.assert_array_equal(weights(4), weights(4))
    assert not np.array_equal(weights(4), weights(5))


DISCRETE, BOX = spaces.Discrete(2), spaces.Box(-1, 1, (2,))
PARTS = spaces.MultiDiscrete([2, 3])


@pytest.mark.parametrize(
    ("algo", "space", "said"),
    [
        ("sac", DISCRETE, r"has Discrete\(2\); use --algo dqn"),
        (
            "td3",
            PARTS,
            r"MultiDiscrete.*use --algo dqn with -params env_wrapper:sna_rl\.envs\.FactoredActions",
        ),
        ("dqn", BOX, r"has Box\(2,\); use --algo sac or td3"),
        ("dqn", PARTS, r"number them with -params env_wrapper:sna_rl\.envs\.FactoredActions"),
        ("dqn", spaces.MultiBinary(2), "so that its actions are Discrete"),
        ("sac", spaces.Box(-np.inf, np.inf, (2,)), "finite bounds"),
    ],
)
def test_actions_that_do_not_fit_name_the_remedy(algo: str, space: spaces.Space[Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_action_space(algo, "Mine-v0", space)


def test_the_remedy_works() -> None:
    factored = config("dqn", "Pendulum-v1", env_wrapper="sna_rl.envs.FactoredActions")
    venv = make_vec_env(factored)
    assert build(factored, venv).action_space == spaces.Discrete(7)
    venv.close()


@pytest.mark.parametrize(
    ("changes", "rate"),
    [
        ({"train_freq": 1, "gradient_steps": -1}, 1.0),
        ({"train_freq": 1, "gradient_steps": 1}, 0.5),
        ({"train_freq": 4, "gradient_steps": 8}, 1.0),
        ({"train_freq": [1, "episode"], "gradient_steps": 10, "n_envs": 1}, None),
    ],
)
def test_updates_per_step_count_environments(
    changes: dict[str, Any], rate: float | None, pendulum: VecEnv
) -> None:
    changed = config(**changes)
    venv = pendulum if changed.n_envs == 1 and rate is not None else make_vec_env(changed)
    assert updates_per_step(build(changed, venv)) == rate
    venv.close()


def test_parameters_are_counted_without_targets(pendulum: VecEnv) -> None:
    model = build(config("td3", critic="mlp"), pendulum)
    actor = 3 * 4 + 4 + 4 * 1 + 1
    head = (3 + 1) * 4 + 4 + 4 * 1 + 1
    assert n_parameters(model) == (actor, 2 * head)


def test_what_an_algorithm_refuses_is_one_sentence(pendulum: VecEnv) -> None:
    with pytest.raises(UsageError, match="sac can't be built for 'Pendulum-v1': ") as caught:
        build(config(optimize_memory_usage=True), pendulum)
    assert "\n" not in str(caught.value)
