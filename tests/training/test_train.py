"""A whole run: what it leaves behind, that it repeats, and how it ends early."""

from __future__ import annotations

import json
import os
import pickle
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
from safetensors.numpy import load_file
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecNormalize
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sna_rl.config import RunConfig
from sna_rl.errors import SnaError, UsageError
from sna_rl.runs.interruption import Interrupted
from sna_rl.training import callbacks
from sna_rl.training.environments import make_vec_env
from sna_rl.training.evaluate import EpisodeResults
from sna_rl.training.loading import Source, load_agent
from sna_rl.training.train import RunResult, train

SMALL: dict[str, Any] = {
    "learning_starts": 20,
    "batch_size": 8,
    "policy_kwargs": {"net_arch": [8], "width": 8, "depth": 1},
}


def small(folder: Path, algo: str = "sac", env: str = "Pendulum-v1", **changes: Any) -> RunConfig:
    """A run of a second; its episodes have 30 steps."""
    fields: dict[str, Any] = {
        "rank": 2,
        "seed": 3,
        "n_timesteps": 60,
        "eval_freq": -1,
        "eval_episodes": 1,
        "folder": str(folder),
        "env_kwargs": {"max_episode_steps": 30},
        "update": "reference",
    }
    return RunConfig(algo, env, hyperparams=SMALL).replace(**fields | changes)


def tensors(result: RunResult, name: str | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """What a run saved."""
    folder = Path(result.folder)
    return load_file(folder / f"{name or folder.parts[-3]}.safetensors")


def assert_same(a: dict[str, np.ndarray[Any, Any]], b: dict[str, np.ndarray[Any, Any]]) -> None:
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_array_equal(a[key], b[key], err_msg=key)


def events(folder: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    return accumulator


def test_a_run_folder_holds_what_the_zoo_and_a_repetition_need(tmp_path: Path) -> None:
    config = small(tmp_path, eval_freq=30, eval_episodes=2, n_timesteps=200, normalize=True, update="auto")
    result = train(config, command="sna-rl train --some flag", progress=False)
    folder = Path(result.folder)
    assert folder == tmp_path / "Pendulum-v1" / "sac-cp-r2" / "seed-3"
    assert {path.name for path in folder.iterdir() if "tfevents" not in path.name} == {
        ".lock",
        "config.yml",
        "command.txt",
        "versions.json",
        "summary.json",
        "0.monitor.csv",
        "evaluations.npz",
        "Pendulum-v1.zip",
        "Pendulum-v1.safetensors",
        "vecnormalize.pkl",
        "best_model.zip",
        "best_model.safetensors",
        "best_vecnormalize.pkl",
    }
    assert (folder / "command.txt").read_text() == "sna-rl train --some flag\n"
    with np.load(folder / "evaluations.npz") as evaluations:
        assert set(evaluations.files) == {"timesteps", "results", "ep_lengths"}
        assert evaluations["timesteps"].tolist() == [30, 60, 90, 120, 150, 180]
        assert evaluations["results"].shape == evaluations["ep_lengths"].shape == (6, 2)
        means = evaluations["results"].mean(axis=1)
    monitor = (folder / "0.monitor.csv").read_text().splitlines()
    assert monitor[1] == "r,l,t"
    assert len(monitor) == 2 + 200 // 30
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["n_timesteps"] == 200
    assert summary["final_return"] == pytest.approx(means[-1])
    assert summary["best_return"] == pytest.approx(means.max())
    episodes = [float(line.split(",")[0]) for line in monitor[2:]]
    assert summary["training_return"] == pytest.approx(np.mean(episodes))
    assert summary["steps_per_second"] == pytest.approx(200 / summary["wall_seconds"])
    assert summary["cpu_seconds"] > 0
    assert summary["update"] == "eager"
    assert RunConfig.from_yaml(folder / "config.yml") == config.replace(update="eager")


@pytest.mark.parametrize(
    ("algo", "env", "changes"),
    [
        ("sac", "Pendulum-v1", {"normalize": True, "n_envs": 2, "update": "eager"}),
        ("td3", "Pendulum-v1", {"noise_type": "normal", "learning_rate": "lin_1e-3"}),
        ("dqn", "CartPole-v1", {"critic": "mlp"}),
    ],
)
def test_its_configuration_repeats_a_run_bit_for_bit(
    algo: str, env: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    once = train(small(tmp_path, algo, env, eval_freq=20, **changes), progress=False)
    config = RunConfig.from_yaml(Path(once.folder, "config.yml"))
    again = train(config, progress=False)
    assert Path(again.folder).name == "seed-3-2"
    assert_same(tensors(once), tensors(again))
    assert_same(tensors(once, "best_model"), tensors(again, "best_model"))
    with (
        np.load(Path(once.folder, "evaluations.npz")) as a,
        np.load(Path(again.folder, "evaluations.npz")) as b,
    ):
        assert_same(dict(a), dict(b))


@pytest.mark.parametrize("algo", ["sac", "dqn"])
def test_evaluation_changes_no_number_of_the_training(algo: str, tmp_path: Path) -> None:
    env = "CartPole-v1" if algo == "dqn" else "Pendulum-v1"
    with_it = train(small(tmp_path, algo, env, eval_freq=7), progress=False)
    without = train(small(tmp_path, algo, env), progress=False)
    assert_same(tensors(with_it), tensors(without))
    assert without.final_return is None


@pytest.mark.parametrize(("n_envs", "wanted"), [(1, [20, 40, 60]), (4, [20, 40, 60]), (8, [24, 40, 64])])
def test_evaluation_comes_at_multiples_whatever_the_number_of_environments(
    n_envs: int, wanted: list[int], tmp_path: Path
) -> None:
    result = train(small(tmp_path, n_envs=n_envs, eval_freq=20, n_eval_envs=2), progress=False)
    with np.load(Path(result.folder, "evaluations.npz")) as evaluations:
        assert evaluations["timesteps"].tolist() == wanted


def test_the_true_number_of_steps_is_reported(tmp_path: Path) -> None:
    result = train(small(tmp_path, n_timesteps=100, n_envs=8, train_freq=5), progress=False)
    assert result.n_timesteps == 120


@pytest.mark.parametrize(("gradient_steps", "n_updates", "rate"), [(-1, 72, "1"), (1, 18, "0.25")])
def test_updates_per_step_are_told(gradient_steps: int, n_updates: int, rate: str, tmp_path: Path) -> None:
    counted: list[int] = []

    class Count(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_training_end(self) -> None:
            counted.append(self.model._n_updates)

    lines: list[str] = []
    config = small(tmp_path, n_timesteps=80, n_envs=4, learning_starts=8, gradient_steps=gradient_steps)
    train(config, announce=lines.append, progress=False, callbacks=[Count()])
    assert counted == [n_updates]
    assert f"gradient updates: {rate} per environment step (reference)" in lines


def test_the_best_model_keeps_its_own_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def worse_each_time(model: Any, *_: Any, **__: Any) -> EpisodeResults:
        return EpisodeResults((-float(model.num_timesteps),), (30,))

    monkeypatch.setattr(callbacks, "run_episodes", worse_each_time)
    result = train(small(tmp_path, n_timesteps=90, eval_freq=30, normalize=True), progress=False)
    assert (result.best_return, result.final_return) == (-30.0, -90.0)
    for best, step in ((True, 30), (False, 90)):
        agent = load_agent(Source(Path(result.folder), best=best))
        statistics: Any = agent.model.get_vec_normalize_env()
        assert statistics.obs_rms.count == pytest.approx(step + 1, abs=1e-3)
        assert agent.model.num_timesteps == step
        agent.env.close()
        name = "best_vecnormalize.pkl" if best else "vecnormalize.pkl"
        with Path(result.folder, name).open("rb") as file:
            assert pickle.load(file).obs_rms.count == pytest.approx(step + 1, abs=1e-3)


@pytest.mark.parametrize("algo", ["sac", "td3", "dqn"])
def test_the_zip_acts_alike_in_plain_stable_baselines3(algo: str, tmp_path: Path) -> None:
    env = "CartPole-v1" if algo == "dqn" else "Pendulum-v1"
    result = train(small(tmp_path, algo, env, normalize=True), progress=False)
    folder = Path(result.folder)
    ours = load_agent(Source(folder))
    raw = make_vec_env(small(tmp_path, algo, env), evaluation=True)
    raw.seed(5)
    observations: Any = raw.reset()
    ours_statistics = ours.model.get_vec_normalize_env()
    assert ours_statistics is not None
    plain = getattr(stable_baselines3, algo.upper()).load(folder / f"{env}.zip")
    statistics = VecNormalize.load(str(folder / "vecnormalize.pkl"), raw)
    expected, _ = plain.predict(statistics.normalize_obs(observations), deterministic=True)
    action, _ = ours.model.predict(ours_statistics.normalize_obs(observations), deterministic=True)
    np.testing.assert_array_equal(action, expected)
    raw.close()
    ours.env.close()


class SendSignal(BaseCallback):
    """Sends this process a signal at step 30."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def _on_step(self) -> bool:
        if self.num_timesteps == 30:
            os.kill(os.getpid(), self.number)
        return True


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_between_two_steps_and_saves_it(
    number: signal.Signals, exit_code: int, tmp_path: Path
) -> None:
    former = signal.getsignal(number)
    with pytest.raises(
        Interrupted, match=r"stopped at step 3\d and saved; sna-rl train -i .* goes on"
    ) as caught:
        train(small(tmp_path), progress=False, callbacks=[SendSignal(number)])
    assert caught.value.exit_code == exit_code
    assert signal.getsignal(number) is former
    folder = tmp_path / "Pendulum-v1" / "sac-cp-r2" / "seed-3"
    agent = load_agent(Source(folder))
    assert 30 <= agent.model.num_timesteps <= 31
    agent.env.close()
    assert not (folder / "summary.json").exists()


@pytest.mark.parametrize(
    ("algo", "env", "changes", "said"),
    [
        ("sac", "CartPole-v1", {}, r"needs continuous \(Box\) actions, but 'CartPole-v1' has Discrete\(2\)"),
        ("sac", "Pendulum-v9", {}, "did you mean 'Pendulum-v1'"),
        ("sac", "Pendulum-v1", {"env_kwargs": {"gravity": 1}}, "refuses gravity=1"),
        ("sac", "Pendulum-v1", {"device": "cuda"}, "device 'cuda' can't be used"),
        ("sac", "Pendulum-v1", {"env_wrapper": "gymnasium.wrappers.Nothing"}, "is no Wrapper"),
        (
            "sac",
            "Pendulum-v1",
            {"callback": "stable_baselines3.common.callbacks.Nothing"},
            "is no BaseCallback",
        ),
        (
            "sac",
            "Pendulum-v1",
            {"frame_stack": 2, "callback": {"gymnasium.wrappers.TimeLimit": {}}},
            "BaseCallback",
        ),
    ],
)
def test_what_cannot_be_trained_leaves_no_folder(
    algo: str, env: str, changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        train(small(tmp_path / "logs", algo, env, **changes), progress=False)
    assert not list(tmp_path.iterdir())


def test_a_failed_start_keeps_the_runs_that_stood_there(tmp_path: Path) -> None:
    train(small(tmp_path), progress=False)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError):
        train(small(tmp_path, env_kwargs={"gravity": 1}), progress=False)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_log_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file"):
        train(small(tmp_path / "file"), progress=False)
    with pytest.raises(UsageError, match="file"):
        train(small(tmp_path / "logs", tensorboard_log=str(tmp_path / "file")), progress=False)


NAN_MODULE = """
import gymnasium, numpy as np
from gymnasium.envs.classic_control import PendulumEnv

class Sick(PendulumEnv):
    n = 0
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        Sick.n += 1
        if Sick.n == 25:
            {fault}
        return observation, reward, terminated, truncated, info

gymnasium.register("{name}-v0", Sick, max_episode_steps=200)
"""


@pytest.mark.parametrize(
    ("fault", "said"),
    [("observation[1] = np.nan", "NaN as observation"), ("reward = -np.inf", "an infinite number as reward")],
)
def test_numbers_that_are_not_finite_stop_a_run(
    fault: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"sick_{'reward' in fault}"
    (tmp_path / f"{name}.py").write_text(NAN_MODULE.format(fault=fault, name=name))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SnaError, match=f"'{name}-v0' gave {said}") as caught:
        train(small(tmp_path / "logs", env=f"{name}-v0", gym_packages=[name]), progress=False)
    assert caught.value.exit_code == 1
    assert not list(tmp_path.rglob("*.zip"))


def test_event_files_tell_baseline_from_separable_run(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"tensorboard_log": str(tmp_path / "tb"), "eval_freq": 30}
    for critic in ("cp", "mlp"):
        train(small(tmp_path / "logs", critic=critic, **changes), progress=False)
    runs = {str(file.parent.relative_to(tmp_path / "tb")) for file in (tmp_path / "tb").rglob("*tfevents*")}
    assert runs == {"Pendulum-v1/sac-cp-r2/seed-3", "Pendulum-v1/sac-mlp/seed-3"}
    assert not list((tmp_path / "logs").rglob("*tfevents*"))
    scalars = events(tmp_path / "tb" / "Pendulum-v1" / "sac-cp-r2" / "seed-3")
    assert [event.step for event in scalars.Scalars("eval/mean_reward")] == [30, 60]
    assert "separable/effective_rank" in scalars.Tags()["scalars"]


def test_a_run_stops_at_the_return_asked_for(tmp_path: Path) -> None:
    result = train(small(tmp_path, eval_freq=20), progress=False, stop_at=-1e9)
    assert result.n_timesteps == 20


def test_named_callbacks_are_called(tmp_path: Path) -> None:
    callback = {"stable_baselines3.common.callbacks.StopTrainingOnMaxEpisodes": {"max_episodes": 1}}
    result = train(small(tmp_path, callback=callback), progress=False)
    assert result.n_timesteps == 30
