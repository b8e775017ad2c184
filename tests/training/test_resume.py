from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.callbacks import BaseCallback

from sna_rl.cli import main
from sna_rl.config import RunConfig
from sna_rl.errors import SnaError, UsageError
from sna_rl.runs import RunFolder
from sna_rl.runs.checkpoints import Checkpoints
from sna_rl.runs.lock import LOCK, locked
from sna_rl.training.resume import changed_config, find_start, go_on
from sna_rl.training.train import RunResult, train

pytestmark = pytest.mark.unhooked

Equal = Callable[[RunFolder, RunFolder], None]
NETWORK = {"net_arch": [8], "width": 8, "depth": 1}
SMALL = {
    "policy_kwargs": NETWORK,
    "batch_size": 8,
    "learning_starts": 30,
    "buffer_size": 100,
    "train_freq": 2,
}
TASKS = {"sac": "Hopper-v5", "td3": "Pendulum-v1", "dqn": "CartPole-v1"}


class PowerCut(Exception):
    """The process ends here."""


class CutAt(BaseCallback):
    """Ends a run in the middle of a step."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def _on_step(self) -> bool:
        if self.num_timesteps >= self.step:
            raise PowerCut
        return True


class SignalAt(BaseCallback):
    """Sends a signal to the own process, once."""

    def __init__(self, step: int, number: signal.Signals) -> None:
        super().__init__()
        self.step = step
        self.number = number

    def _on_step(self) -> bool:
        if self.num_timesteps == self.step:
            os.kill(os.getpid(), self.number)
        return True


class Watch(BaseCallback):
    """Remembers what the model counts at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, int, float]] = []

    def _on_rollout_start(self) -> None:
        epsilon = getattr(self.model, "exploration_rate", 0.0)
        self.seen.append((self.model.num_timesteps, self.model._n_updates, epsilon))

    def _on_step(self) -> bool:
        return True


def small(folder: Path, algo: str = "sac", env: str | None = None, **changes: Any) -> RunConfig:
    """A run of a second or two that saves every 40 steps and evaluates every 80."""
    given = {
        "folder": str(folder),
        "rank": 2,
        "seed": 5,
        "n_timesteps": 200,
        "save_freq": 40,
        "eval_freq": 80,
    }
    given |= {"eval_episodes": 1, "update": "reference"} | changes
    return RunConfig(algo, env or TASKS[algo], hyperparams=dict(SMALL)).replace(**given)


def cut_and_resume(config: RunConfig, at: int) -> RunFolder:
    """Train, end in the middle of a step, go on to the end."""
    with pytest.raises(PowerCut):
        train(config, progress=False, callbacks=[CutAt(at)])
    return resumed(folder_of(config))


def finished(config: RunConfig) -> RunFolder:
    """A run trained to its end."""
    return RunFolder.open(train(config, progress=False).folder)


def folder_of(config: RunConfig) -> RunFolder:
    """The only run in a log folder."""
    (path,) = Path(config.folder).glob("*/*/*/config.yml")
    return RunFolder.open(path.parent)


def resumed(run: RunFolder, **changes: Any) -> RunFolder:
    """Go on with a run to its end."""
    config = changed_config(run, changes, override=False)
    go_on(run, config, find_start(run, config), progress=False)
    return run


@pytest.mark.parametrize("n_envs", [1, 4])
@pytest.mark.parametrize("critic", ["cp", "mlp"])
@pytest.mark.parametrize("algo", ["sac", "td3", "dqn"])
def test_a_continued_run_is_bit_equal(
    algo: str, critic: str, n_envs: int, tmp_path: Path, assert_equal_runs: Equal
) -> None:
    changes: dict[str, Any] = {"critic": critic, "n_envs": n_envs, "normalize": algo == "sac"}
    whole = finished(small(tmp_path / "whole", algo, **changes))
    assert_equal_runs(whole, cut_and_resume(small(tmp_path / "cut", algo, **changes), at=131))


@pytest.mark.parametrize(
    "changes",
    [
        {"update": "eager", "n_steps": 3, "normalize": True, "n_envs": 2},
        {"train_freq": [1, "episode"], "gradient_steps": -1, "env": "CartPole-v1", "algo": "dqn"},
        {"train_freq": 7, "gradient_steps": 2, "learning_rate": "lin_1e-3"},
        {"use_sde": True, "sde_sample_freq": 4},
        {"noise_type": "ornstein-uhlenbeck", "noise_std": 0.2, "algo": "td3", "n_envs": 2},
        {"frame_stack": 2, "env_wrapper": "gymnasium.wrappers.TimeAwareObservation"},
        {"optimize_memory_usage": True, "replay_buffer_kwargs": {"handle_timeout_termination": False}},
        pytest.param({"vec_env": "subproc", "n_envs": 2, "algo": "dqn"}, marks=pytest.mark.slow),
    ],
    ids=["eager", "episodes", "train_freq", "sde", "noise", "frames", "memory", "subproc"],
)
def test_every_kind_of_state_comes_back(
    changes: dict[str, Any], tmp_path: Path, assert_equal_runs: Equal
) -> None:
    algo, env = changes.pop("algo", "sac"), changes.pop("env", None)
    whole = finished(small(tmp_path / "whole", algo, env, **changes))
    assert_equal_runs(whole, cut_and_resume(small(tmp_path / "cut", algo, env, **changes), at=131))


DRIFTING = """
import gymnasium
from gymnasium.envs.classic_control import PendulumEnv

class Drifting(PendulumEnv):
    n_made = 0

    def __init__(self):
        super().__init__()
        Drifting.n_made += 1
        self.g = 9.0 + Drifting.n_made

gymnasium.register("drifting-v0", Drifting, max_episode_steps=200)
"""


def test_an_environment_that_does_not_come_back_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "drifting.py").write_text(DRIFTING)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = small(tmp_path / "logs", env="drifting-v0", gym_packages=["drifting"])
    with pytest.raises(PowerCut):
        train(config, progress=False, callbacks=[CutAt(131)])
    run = RunFolder(next((tmp_path / "logs").glob("*/*/*")), "drifting-v0")
    result = go_on(run, config, find_start(run, config), progress=False)
    assert result.n_timesteps == 200
    told = "the environment did not come back to its exact state; every environment begins a new episode"
    assert told in capsys.readouterr().err


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of the usual configuration that was never interrupted."""
    return finished(small(tmp_path_factory.mktemp("whole")))


def test_a_run_cut_before_its_first_save_begins_again(
    tmp_path: Path, whole: RunFolder, assert_equal_runs: Equal
) -> None:
    assert_equal_runs(whole, cut_and_resume(small(tmp_path / "cut"), at=20))


def test_a_finished_run_can_be_made_longer(tmp_path: Path, assert_equal_runs: Equal) -> None:
    whole = finished(small(tmp_path / "whole", n_timesteps=320))
    short = finished(small(tmp_path / "short"))
    assert_equal_runs(whole, resumed(short, n_timesteps=320))
    assert RunConfig.from_yaml(short.config_yml).n_timesteps == 320


def test_warm_up_is_not_repeated_and_the_first_update_follows_the_first_step(tmp_path: Path) -> None:
    run = finished(small(tmp_path, learning_starts=50, n_timesteps=60, train_freq=1))
    watch = Watch()
    continue_with(run, watch, n_timesteps=120)
    assert watch.seen[:3] == [(60, 10, 0.0), (61, 11, 0.0), (62, 12, 0.0)]


def test_epsilon_goes_on_where_it_was(tmp_path: Path) -> None:
    config = small(tmp_path, "dqn", n_timesteps=200, exploration_fraction=0.5, exploration_final_eps=0.05)
    run = finished(config)
    watch = Watch()
    continue_with(run, watch, n_timesteps=400)
    assert {epsilon for *_, epsilon in watch.seen} == {0.05}


def continue_with(run: RunFolder, callback: BaseCallback, **changes: Any) -> RunResult:
    """Go on with a callback beside."""
    config = changed_config(run, changes, override=False)
    return go_on(run, config, find_start(run, config), progress=False, callbacks=[callback])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_the_run_goes_on(
    number: signal.Signals, code: int, tmp_path: Path, whole: RunFolder, assert_equal_runs: Equal
) -> None:
    with pytest.raises(
        SnaError, match=r"stopped at step 102 and saved; sna-rl train -i .* goes on"
    ) as stopped:
        train(small(tmp_path / "cut"), progress=False, callbacks=[SignalAt(101, number)])
    assert stopped.value.exit_code == code
    run = folder_of(small(tmp_path / "cut"))
    assert Checkpoints(run.checkpoints).all()[-1].step == 102
    assert run.model_zip.is_file()
    assert_equal_runs(whole, resumed(run))


def test_without_save_freq_a_signal_still_saves(tmp_path: Path) -> None:
    config = small(tmp_path, save_freq=-1)
    with pytest.raises(SnaError, match="stopped at step 102"):
        train(config, progress=False, callbacks=[SignalAt(101, signal.SIGTERM)])
    run = resumed(folder_of(config))
    assert json.loads((run.path / "summary.json").read_text())["n_timesteps"] == 200


def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(
    tmp_path: Path, whole: RunFolder, assert_equal_runs: Equal, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small(tmp_path / "cut")
    with pytest.raises(PowerCut):
        train(config, progress=False, callbacks=[CutAt(131)])
    run = folder_of(config)
    newest = Checkpoints(run.checkpoints).all()[-1]
    assert newest.step == 120
    (newest.path / "state.safetensors").write_bytes(b"half")
    assert_equal_runs(whole, resumed(run))
    assert "checkpoint step-000000120 is damaged" in capsys.readouterr().err


def test_a_changed_configuration_is_shown_and_refused(tmp_path: Path) -> None:
    run = finished(small(tmp_path))
    with pytest.raises(UsageError, match=r"\(rank 2 → 4, gamma absent → 0.9\); --override changes it"):
        changed_config(run, {"rank": 4, "gamma": 0.9, "n_timesteps": 300}, override=False)
    with pytest.raises(UsageError, match="n_timesteps 200 → 100"):
        changed_config(run, {"n_timesteps": 100}, override=False)
    changed = changed_config(run, {"gamma": 0.9, "n_timesteps": 300}, override=True)
    assert changed.hyperparams["gamma"] == 0.9
    go_on(run, changed, find_start(run, changed), progress=False)
    assert RunConfig.from_yaml(run.config_yml) == changed


def test_networks_of_another_shape_are_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    run = finished(small(tmp_path))
    before = run.config_yml.read_bytes()
    changed = changed_config(run, {"rank": 4, "n_timesteps": 300}, override=True)
    with pytest.raises(UsageError, match="does not fit: critic"):
        go_on(run, changed, find_start(run, changed), progress=False)
    changed = changed_config(run, {"buffer_size": 50, "n_timesteps": 300}, override=True)
    with pytest.raises(UsageError, match="the saved replay buffer has 100 rows"):
        go_on(run, changed, find_start(run, changed), progress=False)
    assert run.config_yml.read_bytes() == before


def test_what_has_nothing_left_to_do_says_so(tmp_path: Path) -> None:
    run = finished(small(tmp_path))
    with pytest.raises(UsageError, match="has its 200 steps; more need -n above that"):
        find_start(run, RunConfig.from_yaml(run.config_yml))
    shutil.rmtree(run.checkpoints)
    with pytest.raises(UsageError, match="ended without a checkpoint"):
        find_start(run, changed_config(run, {"n_timesteps": 300}, override=False))


def test_a_run_killed_between_its_last_save_and_its_end_is_finished(
    tmp_path: Path, whole: RunFolder, assert_equal_runs: Equal
) -> None:
    run = finished(small(tmp_path / "cut"))
    for name in ("summary.json", run.model_zip.name, run.model_tensors.name):
        (run.path / name).unlink()
    assert_equal_runs(whole, resumed(run))


def test_two_processes_never_train_in_one_folder(tmp_path: Path) -> None:
    run = finished(small(tmp_path))
    with locked(run.path / LOCK, "run"), pytest.raises(UsageError, match="is in use by process"):
        resumed(run, n_timesteps=300)


def test_a_library_that_changed_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = finished(small(tmp_path))
    versions = json.loads(run.versions_json.read_text())
    run.versions_json.write_text(json.dumps({**versions, "torch": "2.0.0"}))
    resumed(run, n_timesteps=240)
    assert "since the run began torch 2.0.0 →" in capsys.readouterr().err


def test_the_command_line_goes_on_in_the_same_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = finished(small(tmp_path))
    assert main(["train", "-i", str(run.path), "-n", "240", "--no-progress"]) == 0
    out = capsys.readouterr().out
    assert "from step 200" in out
    assert "done: 240 steps" in out
    assert len(run.command_txt.read_text().splitlines()) == 2
    assert main(["train", "-i", str(run.path), "-n", "300", "-params", "gamma:0.9"]) == 2
    assert "--override" in capsys.readouterr().err
    assert main(["train", "-i", str(run.path), "-conf", str(run.config_yml)]) == 2
    assert main(["train", "-i", str(tmp_path)]) == 2
    with np.load(run.evaluations_npz) as evaluations:
        assert evaluations["timesteps"].tolist() == [80, 160, 240]


@pytest.mark.parametrize("n_envs", [1, 4])
def test_evaluations_come_at_multiples_after_resuming(n_envs: int, tmp_path: Path) -> None:
    config = small(tmp_path, "dqn", n_envs=n_envs, n_timesteps=1000, eval_freq=100, save_freq=300)
    run = cut_and_resume(config, at=710)
    with np.load(run.evaluations_npz) as evaluations:
        assert evaluations["timesteps"].tolist() == list(range(100, 1100, 100))
