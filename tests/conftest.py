"""What every test needs: MuJoCo quiet, no display asked for, Ctrl-C heard, every monitor closed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")

import mujoco
import pytest
import torch
from hypothesis import settings
from stable_baselines3.common.monitor import Monitor

mujoco.set_mju_user_warning(lambda message: None)
torch.set_num_threads(1)
# A job in the background, and every command that it starts, ignores Ctrl-C otherwise.
signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("laptop", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "laptop")


@pytest.fixture(autouse=True)
def closed_monitors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close every monitor a test opened: an open CSV file fails some later test."""
    opened: list[Monitor] = []
    construct = Monitor.__init__

    def construct_and_remember(monitor: Monitor, *args: object, **kwargs: object) -> None:
        construct(monitor, *args, **kwargs)  # type: ignore[arg-type]
        opened.append(monitor)

    monkeypatch.setattr(Monitor, "__init__", construct_and_remember)
    yield
    for monitor in opened:
        monitor.close()
