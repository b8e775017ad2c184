"""A recorded agent: as many frames as steps, whole or absent."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest
from stable_baselines3 import SAC

from sna_rl.config import RunConfig
from sna_rl.errors import SnaError, UsageError
from sna_rl.training.environments import make_vec_env
from sna_rl.training.video import record


def pictures(file: Path, width: int, height: int) -> np.ndarray[Any, Any]:
    """Every frame of a video "frame row column colour"."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(file), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    content = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(content, np.uint8).reshape(-1, height, width, 3).astype(int)


@pytest.mark.parametrize(("env", "side", "fps"), [("Pendulum-v1", 500, 30), ("HalfCheetah-v5", 480, 20)])
def test_a_video_shows_every_step(env: str, side: int, fps: int, tmp_path: Path) -> None:
    venv = make_vec_env(RunConfig("sac", env), render_mode="rgb_array")
    model = SAC("MlpPolicy", venv, policy_kwargs={"net_arch": [4]}, buffer_size=1)
    assert record(model, venv, tmp_path / "a.mp4", 8) == []
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]
    n_frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "a.mp4"))
    assert n_frames == 9
    assert seconds == pytest.approx(9 / fps, abs=0.01)
    shown = pictures(tmp_path / "a.mp4", side, side)
    assert len(shown) == 9
    assert shown[0].std() > 1
    assert np.abs(shown[0] - shown[-1]).max() > 10
    venv.close()


def test_returns_of_ended_episodes_are_told(tmp_path: Path) -> None:
    venv = make_vec_env(
        RunConfig("sac", "Pendulum-v1", env_kwargs={"max_episode_steps": 3}), render_mode="rgb_array"
    )
    model = SAC("MlpPolicy", venv, policy_kwargs={"net_arch": [4]}, buffer_size=1)
    first = record(model, venv, tmp_path / "a.mp4", 7, seed=1)
    assert len(first) == 2
    assert record(model, venv, tmp_path / "a.mp4", 7, seed=1) == first
    venv.close()


def test_what_cannot_be_recorded_leaves_nothing(tmp_path: Path) -> None:
    venv = make_vec_env(RunConfig("sac", "Pendulum-v1"))
    model = SAC("MlpPolicy", venv, policy_kwargs={"net_arch": [4]}, buffer_size=1)
    with pytest.raises(SnaError, match="draws no picture"):
        record(model, venv, tmp_path / "a.mp4", 5)
    with pytest.raises(UsageError, match=r"must end in \.mp4"):
        record(model, venv, tmp_path / "a.gif", 5)
    with pytest.raises(UsageError, match="does not exist"):
        record(model, venv, tmp_path / "b" / "a.mp4", 5)
    assert not list(tmp_path.iterdir())
    venv.close()
