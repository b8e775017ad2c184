"""What a run ran on: versions, commit, processor, threads; read without importing anything heavy."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("sna-rl", "torch", "stable-baselines3", "gymnasium", "mujoco", "numpy", "optuna", "tensorboard")


def versions() -> dict[str, str | int | None]:
    """Collect what decides whether a run can be repeated bit for bit.

    Returns:
        Version of Python and of each package in `PACKAGES` (None where it is not installed); `commit` of the
        source tree ("-dirty" after uncommitted changes, None outside a repository); `platform`, `processor`
        (text) and `threads` (count).

    Cost:
        One call of git, a few milliseconds.

    Example:
        >>> sorted(versions())[:4]
        ['commit', 'gymnasium', 'mujoco', 'numpy']
    """
    return {
        "python": platform.python_version(),
        **{package: _installed(package) for package in PACKAGES},
        "commit": _commit(),
        "platform": platform.platform(),
        "processor": _processor(),
        "threads": _threads(),
    }


def _installed(package: str) -> str | None:
    """Version of an installed distribution."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Commit of the tree that this file lies in, if it is this project's own repository."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None


def _processor() -> str:
    """Model name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _threads() -> int:
    """Threads that one operation may use: torch's own count once it is imported."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() else os.cpu_count() or 1
