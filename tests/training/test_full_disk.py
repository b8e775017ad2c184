from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback

from sna_rl.agents import DQN
from sna_rl.config import RunConfig
from sna_rl.errors import SnaError
from sna_rl.runs import RunFolder
from sna_rl.runs.checkpoints import Checkpoints
from sna_rl.training.resume import find_start, go_on
from sna_rl.training.saving import SaveCheckpoints
from sna_rl.training.train import train

pytestmark = pytest.mark.unhooked

Equal = Callable[[RunFolder, RunFolder], None]
Curve = Callable[[Path], dict[str, list[tuple[int, float]]]]
UNLIMITED = resource.getrlimit(resource.RLIMIT_FSIZE)


@pytest.fixture(autouse=True)
def unlimited() -> Iterator[None]:
    """Give the disk back, whatever happens."""
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, UNLIMITED)


class FullBetween(BaseCallback):
    """Lets no file grow past 400 bytes between two steps; larger files can't be written at all."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__()
        self.first = first
        self.last = last

    def _on_step(self) -> bool:
        if self.num_timesteps == self.first:
            resource.setrlimit(resource.RLIMIT_FSIZE, (400, UNLIMITED[1]))
        if self.num_timesteps == self.last:
            resource.setrlimit(resource.RLIMIT_FSIZE, UNLIMITED)
        return True


def config(folder: Path, **changes: Any) -> RunConfig:
    small = {"policy_kwargs": {"net_arch": [8]}, "learning_starts": 20, "buffer_size": 500, "train_freq": 5}
    given = {"folder": str(folder), "n_timesteps": 400, "save_freq": 50, "eval_freq": 50, "eval_episodes": 1}
    return RunConfig("dqn", "CartPole-v1", hyperparams=small).replace(**(given | changes))


def test_a_full_disk_is_told_once_and_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], read_curve: Curve
) -> None:
    full = FullBetween(130, 310)
    seen: list[int] = []

    class Look(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps == 305:
                (folder,) = tmp_path.glob("*/*/*/checkpoints")
                newest = Checkpoints(folder).newest(pytest.fail)
                assert newest is not None
                seen.append(newest.step)
            return True

    run = RunFolder.open(train(config(tmp_path), progress=False, callbacks=[full, Look()]).folder)
    assert capsys.readouterr().err.count("can't be written (File too large); the run goes on") == 1
    assert seen == [100], "the last good checkpoint stands while the disk is full"
    assert [checkpoint.step for checkpoint in Checkpoints(run.checkpoints).all()][-2:] == [350, 400]
    newest = Checkpoints(run.checkpoints).newest(pytest.fail)
    assert newest is not None
    assert newest.step == 400
    assert not list(run.path.rglob("*.tmp"))
    with np.load(run.evaluations_npz) as evaluations:
        assert evaluations["timesteps"].tolist() == list(range(50, 450, 50))
    steps = [step for step, _ in read_curve(run.path)["eval/mean_reward"]]
    assert steps == [50, 100, 350, 400], "events before and after are readable"


def test_a_disk_full_at_the_end_is_one_sentence_and_the_run_can_be_ended_later(tmp_path: Path) -> None:
    with pytest.raises(SnaError, match=r"can't be written to .* \(File too large\); make room, and train -i"):
        train(config(tmp_path), progress=False, callbacks=[FullBetween(330, -1)])
    resource.setrlimit(resource.RLIMIT_FSIZE, UNLIMITED)
    (found,) = tmp_path.glob("*/*/*/config.yml")
    run = RunFolder.open(found)
    given = RunConfig.from_yaml(run.config_yml)
    assert go_on(run, given, find_start(run, given), progress=False).n_timesteps == 400
    assert run.model_zip.is_file()


def test_the_next_checkpoint_holds_what_could_not_be_saved(
    tmp_path: Path, assert_equal_checkpoints: Equal
) -> None:
    whole = train(config(tmp_path / "whole"), progress=False, callbacks=[FullBetween(-1, -1)])
    full = train(config(tmp_path / "full"), progress=False, callbacks=[FullBetween(130, 310)])
    assert_equal_checkpoints(*(RunFolder.open(result.folder) for result in (whole, full)))


class WithInfos(ReplayBuffer):
    """Holds Python objects, as hindsight replay does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.infos = np.full((self.buffer_size, self.n_envs), None, dtype=object)


def test_a_buffer_that_only_pickle_could_save_is_told(tmp_path: Path) -> None:
    lines: list[str] = []
    agent = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=WithInfos, learning_starts=10, buffer_size=50)
    agent.learn(20, callback=SaveCheckpoints(Checkpoints(tmp_path / "checkpoints"), 5, say=lines.append))
    assert lines == [
        "no checkpoint can be made of this run: WithInfos holds Python objects in 'infos', which only pickle "
        "could save"
    ]
    assert not (tmp_path / "checkpoints").exists()
