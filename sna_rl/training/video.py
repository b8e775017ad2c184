"""A trained agent as an MP4 file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sna_rl.errors import SnaError, UsageError


def record(
    model: BaseAlgorithm,
    env: VecEnv,
    file: Path,
    n_timesteps: int,
    *,
    seed: int = 0,
    deterministic: bool = True,
) -> list[float]:
    """Let an agent act and write what is seen, one frame a step.

    Args:
        model: the agent.
        env: one environment with render mode "rgb_array".
        file: where to; it appears only when it is whole.
        n_timesteps: steps to record, over several episodes where they are shorter.
        seed: seed of the first episode.
        deterministic: take the policy's best action instead of a sampled one.

    Returns:
        Returns of the episodes that ended.

    Raises:
        UsageError: if the file is no `.mp4` or its folder doesn't exist.
        SnaError: if the environment draws nothing.
    """
    if file.suffix != ".mp4":
        raise UsageError(f"a video's name must end in .mp4, not {file.name!r}")
    if not file.parent.is_dir():
        raise UsageError(f"folder {str(file.parent)!r} of the video does not exist")
    if env.render_mode != "rgb_array":
        raise SnaError("the environment draws no picture; a video needs render mode 'rgb_array'")
    returns: list[float] = []
    frames = _frames(model, env, n_timesteps, seed, deterministic, returns)
    first = next(frames)
    handle, temporary = tempfile.mkstemp(prefix=f".{file.stem}.", suffix=".tmp.mp4", dir=file.parent)
    os.close(handle)
    try:
        writer = imageio_ffmpeg.write_frames(
            temporary,
            (first.shape[1], first.shape[0]),
            fps=env.get_attr("metadata")[0].get("render_fps") or 30,
            macro_block_size=1,
            ffmpeg_log_level="error",
        )
        writer.send(None)
        writer.send(first)
        for frame in frames:
            writer.send(frame)
        writer.close()
        os.replace(temporary, file)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return returns


def _frames(
    model: BaseAlgorithm, env: VecEnv, n_timesteps: int, seed: int, deterministic: bool, returns: list[float]
) -> Iterator[NDArray[Any]]:
    """Picture after the reset and after each step; returns of episodes that end are appended."""
    env.seed(seed)
    observations: Any = env.reset()
    yield _picture(env)
    for _ in range(n_timesteps):
        actions, _ = model.predict(observations, deterministic=deterministic)
        observations, _, _, infos = env.step(actions)
        yield _picture(env)
        returns += [float(info["episode"]["r"]) for info in infos if "episode" in info]


def _picture(env: VecEnv) -> NDArray[Any]:
    """What the environment draws, RGB, cut to an even height and width as the format wants."""
    picture = env.render()
    if not isinstance(picture, np.ndarray) or picture.ndim != 3:
        raise SnaError(
            f"the environment draws {type(picture).__name__}, no picture of rows, columns and colours"
        )
    height, width = (size - size % 2 for size in picture.shape[:2])
    return np.ascontiguousarray(picture[:height, :width, :3], dtype=np.uint8)
