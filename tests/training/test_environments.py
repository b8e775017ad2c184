"""Environments of a run: found, wrapped in the zoo's order, refused in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

from sna_rl.config import RunConfig
from sna_rl.errors import MissingExtraError, SnaError, UsageError
from sna_rl.training.display import has_display, prepare_simulators
from sna_rl.training.environments import FiniteVecEnv, MakeEnv, make_vec_env, register


def layers(venv: VecEnv) -> list[type]:
    """Classes of the wrappers around a vector of environments, outermost first."""
    found = [type(venv)]
    while hasattr(venv, "venv"):
        venv = venv.venv
        found.append(type(venv))
    return found


@pytest.mark.parametrize(
    "env",
    ["Pendulum-v1", "SNA/LQR-v0", "sna_rl.envs:SNA/LQR-v0", "gymnasium.envs.classic_control:CartPole-v1"],
)
def test_ids_are_found(env: str) -> None:
    register(env, ["gymnasium.envs.classic_control"])
    MakeEnv(env)().close()


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("Pendulum-v0", "unknown environment 'Pendulum-v0'; did you mean 'Pendulum-v1'"),
        ("halfcheetah", "did you mean 'HalfCheetah-v5'"),
        ("Zzzzz", "--gym-packages"),
        ("HalfCheetah-v9", "did you mean 'HalfCheetah-v5'"),
        ("nowhere:Thing-v0", "'nowhere', which can't be imported"),
        ("SNA/LQR-v7", "did you mean 'SNA/LQR-v0'"),
    ],
)
def test_unknown_ids_name_the_closest(env: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        register(env)


def test_wrappers_lie_in_the_zoos_order() -> None:
    config = RunConfig(
        "sac",
        "Pendulum-v1",
        env_kwargs={"g": 5.0},
        hyperparams={
            "env_wrapper": [
                "gymnasium.wrappers.TimeAwareObservation",
                {"gymnasium.wrappers.TransformReward": {"func": None}},
            ],
            "vec_env_wrapper": "stable_baselines3.common.vec_env.VecCheckNan",
            "normalize": {"clip_obs": 3.0},
            "gamma": 0.9,
            "frame_stack": 2,
        },
    )
    venv = make_vec_env(config, n_envs=2)
    assert [layer.__name__ for layer in layers(venv)] == [
        "VecFrameStack",
        "VecNormalize",
        "VecCheckNan",
        "FiniteVecEnv",
        "DummyVecEnv",
    ]
    wanted = ["TransformReward", "TimeAwareObservation", "Monitor"]
    inner: Any = venv.unwrapped
    names = []
    env = inner.envs[0]
    while env is not env.unwrapped:
        names.append(type(env).__name__)
        env = env.env
    assert [name for name in names if name in wanted] == wanted
    assert env.g == 5.0
    normalized: Any = venv.venv  # type: ignore[attr-defined]
    assert (normalized.clip_obs, normalized.gamma, normalized.training, normalized.norm_reward) == (
        3.0,
        0.9,
        True,
        True,
    )
    assert venv.observation_space.shape == (8,)
    venv.close()


def test_episodes_that_a_wrapper_ends_are_counted(tmp_path: Path) -> None:
    wrapper = {"gymnasium.wrappers.TimeLimit": {"max_episode_steps": 7}}
    config = RunConfig("sac", "Pendulum-v1", hyperparams={"env_wrapper": wrapper})
    venv = make_vec_env(config, monitors=lambda index: tmp_path / str(index))
    venv.reset()
    returns, told = 0.0, []
    for _ in range(14):
        _, rewards, _, infos = venv.step(np.ones((1, 1)))
        returns += float(rewards[0])
        told += [info["episode"] for info in infos if "episode" in info]
    venv.close()
    assert [episode["l"] for episode in told] == [7, 7]
    assert sum(episode["r"] for episode in told) == pytest.approx(returns, abs=1e-4)
    assert len((tmp_path / "0.monitor.csv").read_text().splitlines()) == 4


def test_evaluation_is_normalised_but_never_learns_the_statistics_nor_scales_rewards() -> None:
    config = RunConfig(
        "sac", "Pendulum-v1", n_eval_envs=3, eval_env_kwargs={"g": 1.0}, hyperparams={"normalize": True}
    )
    venv: Any = make_vec_env(config, evaluation=True)
    assert isinstance(venv, VecNormalize)
    assert venv.num_envs == 3
    assert not venv.training
    assert not venv.norm_reward
    assert venv.get_attr("g") == [1.0, 1.0, 1.0]
    venv.close()


def test_monitors_write_one_file_an_environment(tmp_path: Path) -> None:
    config = RunConfig(
        "sac", "Pendulum-v1", n_envs=2, hyperparams={"monitor_kwargs": {"allow_early_resets": False}}
    )
    venv = make_vec_env(config, monitors=lambda index: tmp_path / str(index))
    venv.reset()
    with pytest.raises(RuntimeError, match="before done"):
        venv.reset()
    venv.close()
    assert {path.name for path in tmp_path.iterdir()} == {"0.monitor.csv", "1.monitor.csv"}


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"env_kwargs": {"gravity": 1}}, UsageError, "refuses gravity=1"),
        ({"env_wrapper": "gymnasium.wrappers.FrameStackObservation"}, UsageError, "can't wrap 'Pendulum-v1'"),
        (
            {"env_wrapper": "gymnasium.wrappers.TimeAwareObservatio"},
            UsageError,
            "did you mean 'TimeAwareObservation'",
        ),
        (
            {"vec_env_wrapper": "stable_baselines3.common.vec_env.DummyVecEnv"},
            UsageError,
            "is no VecEnvWrapper",
        ),
        ({"normalize": {"norm_obs_keys": ["a"]}}, UsageError, "can't be wrapped"),
        ({"gym_packages": ["no_such_module"]}, UsageError, "'no_such_module', which can't be imported"),
    ],
)
def test_what_does_not_fit_is_one_sentence(changes: dict[str, Any], error: type[SnaError], said: str) -> None:
    config = RunConfig("sac", "Pendulum-v1").replace(**changes)
    with pytest.raises(error, match=said) as caught:
        make_vec_env(config)
    assert "\n" not in str(caught.value)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Box2D", None)
    for name in (
        "gymnasium.envs.box2d",
        "gymnasium.envs.box2d.lunar_lander",
        "gymnasium.envs.box2d.bipedal_walker",
    ):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(MissingExtraError, match=r"needs Box2D.*pip install 'sna-rl\[box2d\]'"):
        MakeEnv("LunarLander-v3")()


class Broken(gymnasium.Env[Any, Any]):
    """Gives what it is told to."""

    observation_space = gymnasium.spaces.Dict({"a": gymnasium.spaces.Box(-np.inf, np.inf, (1,))})
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, value: float, reward: float) -> None:
        self.value, self.given = value, reward

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return {"a": np.zeros(1, np.float32)}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return {"a": np.full(1, self.value, np.float32)}, self.given, False, False, {}


@pytest.mark.parametrize(
    ("value", "reward", "said"),
    [
        (np.nan, 0.0, "gave NaN as observation"),
        (np.inf, 0.0, "gave an infinite number as observation"),
        (0.0, np.nan, "gave NaN as reward"),
    ],
)
def test_numbers_that_are_not_finite_are_caught(value: float, reward: float, said: str) -> None:
    venv = FiniteVecEnv(DummyVecEnv([lambda: Monitor(Broken(value, reward))]), "Broken-v0")
    venv.reset()
    with pytest.raises(SnaError, match=said):
        venv.step(np.zeros(1, dtype=np.int64))
    venv.close()


def test_finite_numbers_pass_unchanged() -> None:
    venv = FiniteVecEnv(DummyVecEnv([lambda: Monitor(Broken(2.0, 3.0))]), "Broken-v0")
    venv.reset()
    observations: Any
    observations, rewards, dones, _ = venv.step(np.zeros(1, dtype=np.int64))
    assert observations["a"].tolist() == [[2.0]]
    assert rewards.tolist() == [3.0]
    assert dones.tolist() == [False]
    venv.close()


def test_without_a_display_simulators_draw_off_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert not has_display()
    prepare_simulators()
    assert (os.environ["MUJOCO_GL"], os.environ["SDL_VIDEODRIVER"]) == ("egl", "dummy")
    monkeypatch.setenv("DISPLAY", ":0")
    assert has_display()


SUBPROCESSES = """
import sys
from sna_rl.config import RunConfig
from sna_rl.training.environments import make_vec_env

if __name__ == "__main__":
    returns = []
    for kind in ("dummy", "subproc"):
        venv = make_vec_env(RunConfig("sac", "HalfCheetah-v5", n_envs=2, vec_env=kind))
        venv.seed(3)
        observations = venv.reset()
        for _ in range(5):
            observations, *_ = venv.step(observations[:, :6] * 0 + 0.3)
        returns.append(observations.tolist())
        venv.close()
    sys.exit(returns[0] != returns[1])
"""


def test_subprocesses_give_the_same_numbers_and_no_log_file(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SUBPROCESSES)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]
