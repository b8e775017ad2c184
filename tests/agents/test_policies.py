"""Policies: arguments, default extractors, saving, the zoo's dotted paths, messages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor, NatureCNN

import sna_rl.agents as agents
from sna_rl.agents.policies import (
    SNADQNCnnPolicy,
    SNADQNMultiInputPolicy,
    SNADQNPolicy,
    SNASACCnnPolicy,
    SNASACMultiInputPolicy,
    SNASACPolicy,
    SNATD3CnnPolicy,
    SNATD3MultiInputPolicy,
    SNATD3Policy,
)
from sna_rl.agents.value_table import critic_of
from sna_rl.errors import UsageError

Make = Callable[..., Any]
BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (1, 36, 36), np.uint8)
DICT = spaces.Dict({"camera": IMAGE, "joints": BOX})


class Blank(gymnasium.Env[Any, Any]):
    """One step an episode, observations drawn from any space."""

    def __init__(self, observation_space: spaces.Space[Any], discrete: bool) -> None:
        self.observation_space = observation_space
        self.action_space = spaces.Discrete(3) if discrete else spaces.Box(-2.0, 2.0, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 1.0, True, False, {}


FAMILIES = [
    (stable_baselines3.SAC, SNASACPolicy, SNASACCnnPolicy, SNASACMultiInputPolicy),
    (stable_baselines3.TD3, SNATD3Policy, SNATD3CnnPolicy, SNATD3MultiInputPolicy),
    (stable_baselines3.DQN, SNADQNPolicy, SNADQNCnnPolicy, SNADQNMultiInputPolicy),
]


def agent(algorithm: Any, policy: Any, space: spaces.Space[Any], **policy_kwargs: Any) -> Any:
    env = Blank(space, discrete=algorithm is stable_baselines3.DQN)
    kwargs = {"rank": 2, "width": 8, "depth": 1, "net_arch": [8], **policy_kwargs}
    return algorithm(
        policy,
        env,
        policy_kwargs=kwargs,
        buffer_size=50,
        learning_starts=2,
        batch_size=4,
        seed=0,
        device="cpu",
    )


@pytest.mark.parametrize("family", FAMILIES, ids=["sac", "td3", "dqn"])
def test_each_observation_gets_the_extractor_that_fits(family: Any) -> None:
    algorithm, plain, cnn, multi = family
    small = {"features_extractor_kwargs": {"features_dim": 8}}
    assert isinstance(_extractor(agent(algorithm, plain, BOX)), FlattenExtractor)
    for policy in (plain, cnn):
        assert isinstance(_extractor(agent(algorithm, policy, IMAGE, **small)), NatureCNN)
    for policy in (plain, multi):
        kwargs = {"features_extractor_kwargs": {"cnn_output_dim": 8}}
        model = agent(algorithm, policy, DICT, **kwargs)
        assert isinstance(_extractor(model), CombinedExtractor)
        model.learn(6)
    with pytest.raises(UsageError, match=f"{cnn.__name__} does not fit the observations"):
        agent(algorithm, cnn, BOX)
    with pytest.raises(UsageError, match=f"{multi.__name__} does not fit the observations"):
        agent(algorithm, multi, IMAGE)
    own = agent(algorithm, cnn, BOX, features_extractor_class=FlattenExtractor)
    assert isinstance(_extractor(own), FlattenExtractor)


def _extractor(model: Any) -> Any:
    return critic_of(model).features_extractor


@pytest.mark.parametrize("shared", [True, False])
def test_image_agents_save_and_load_with_sharing(shared: bool, tmp_path: Path) -> None:
    kwargs = {"features_extractor_kwargs": {"features_dim": 8}, "share_features_extractor": shared}
    model = agent(stable_baselines3.SAC, SNASACPolicy, IMAGE, **kwargs)
    assert (model.actor.features_extractor is model.critic.features_extractor) is shared
    model.learn(6)
    model.policy.save(tmp_path / "policy.pth")
    loaded = SNASACPolicy.load(str(tmp_path / "policy.pth"), device="cpu")
    assert loaded.share_features_extractor is shared
    image = IMAGE.sample()
    np.testing.assert_array_equal(
        model.policy.predict(image, deterministic=True)[0], loaded.predict(image, deterministic=True)[0]
    )


def test_one_dict_serves_sac_then_td3_then_load(product_env: Any, tmp_path: Path) -> None:
    """R8: Stable-Baselines3 writes use_sde into the dict; nothing else changes it, and it fits everywhere."""
    given: dict[str, Any] = {"rank": 3, "net_arch": [8], "optimizer_kwargs": {"eps": 1e-6}}
    model = stable_baselines3.SAC(SNASACPolicy, product_env(), policy_kwargs=given)
    assert given == {"rank": 3, "net_arch": [8], "optimizer_kwargs": {"eps": 1e-6}, "use_sde": False}
    stable_baselines3.TD3(SNATD3Policy, product_env(), policy_kwargs=given)
    model.save(tmp_path / "model.zip")
    loaded: Any = stable_baselines3.SAC.load(tmp_path / "model.zip", policy_kwargs=given)
    assert loaded.critic.config.rank == 3


def test_own_algorithms_leave_the_users_dict_alone(product_env: Any, tmp_path: Path) -> None:
    """R8: the dict is unchanged, serves TD3 next, and is accepted when the agent is loaded."""
    given: dict[str, Any] = {"rank": 3, "net_arch": [8]}
    agents.SAC("SNAPolicy", product_env(), policy_kwargs=given).save(tmp_path / "agent.zip")
    agents.TD3("SNAPolicy", product_env(), policy_kwargs=given)
    loaded: Any = agents.SAC.load(tmp_path / "agent.zip", policy_kwargs=given)
    assert loaded.critic.config.rank == 3
    assert given == {"rank": 3, "net_arch": [8]}


def test_runs_in_one_folder_are_told_apart(product_env: Any, tmp_path: Path) -> None:
    """R25."""
    for critic in ("mlp", "cp", "cp"):
        kwargs = {"critic": critic, "rank": 3, "net_arch": [8]}
        agents.SAC("SNAPolicy", product_env(), policy_kwargs=kwargs, tensorboard_log=str(tmp_path)).learn(3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sac-cp-r3_1", "sac-cp-r3_2", "sac-mlp_1"]


def test_rank_survives_policy_save_and_load(make_agent: Make, tmp_path: Path) -> None:
    """R15."""
    policy = make_agent("td3", rank=3, max_grad_norm=None, critic_lr_ratio=0.5).policy
    policy.save(tmp_path / "policy.pth")
    loaded: Any = SNATD3Policy.load(str(tmp_path / "policy.pth"), device="cpu")
    assert loaded.critic_config == policy.critic_config
    assert loaded.critic.network.layout.ranks == (3, 3)


def test_without_the_package_loading_names_it(make_agent: Make, tmp_path: Path) -> None:
    """R14: with the package present nothing more is needed; without it the error tells its name."""
    make_agent("sac").save(tmp_path / "agent.zip")
    program = """
import sys
from stable_baselines3 import SAC

class Absent:
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] == "sna_rl":
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Absent)
try:
    SAC.load(sys.argv[1])
except ModuleNotFoundError as error:
    print(error)
sys.meta_path.remove(Absent)
print("rank", SAC.load(sys.argv[1]).policy_kwargs["rank"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "agent.zip")],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.splitlines() == ["No module named 'sna_rl'", "rank 4"]


def test_unknown_arguments_get_the_closest_name(make_agent: Make) -> None:
    with pytest.raises(UsageError, match=r"SNASACPolicy: unknown argument 'rnak'.*did you mean 'rank'"):
        make_agent("sac", rnak=3)
    with pytest.raises(UsageError, match=r"unknown argument 'n_critics'"):
        make_agent("dqn", n_critics=3)
    with pytest.raises(UsageError, match=r"unknown argument 'use_sde'"):
        make_agent("td3", use_sde=True)
    with pytest.raises(UsageError, match="unknown critic 'cpp'"):
        make_agent("sac", critic="cpp")


def test_other_optimizers_are_kept_where_nothing_is_clipped(make_agent: Make) -> None:
    model = make_agent("sac", optimizer_class=torch.optim.SGD, max_grad_norm=None)
    assert type(model.critic.optimizer) is torch.optim.SGD
    with pytest.raises(UsageError, match="need Adam, not SGD"):
        make_agent("sac", optimizer_class=torch.optim.SGD)


def test_wide_heads_and_state_dependent_noise_work(product_env: Any) -> None:
    kwargs = {"n_critics": 5, "rank": 2, "width": 8, "net_arch": {"pi": [8], "qf": [8]}}
    model = stable_baselines3.SAC(
        SNASACPolicy, product_env(), policy_kwargs=kwargs, use_sde=True, learning_starts=4, batch_size=8
    )
    model.learn(8)
    assert len(model.critic(torch.zeros(3, 2), torch.zeros(3, 1))) == 5


def test_the_folder_refuses_another_name() -> None:
    folder = Path(agents.__file__).parent
    program = f"import sys; sys.path.insert(0, {str(folder.resolve().parent)!r}); import agents"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.returncode == 1
    assert "write `import sna_rl.agents`" in done.stderr
