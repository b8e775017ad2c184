"""What simulators and browsers need to know about this machine's display, before they start."""

from __future__ import annotations

import os
import sys


def has_display() -> bool:
    """Whether a window can be opened; only Linux can be without a display.

    Example:
        >>> isinstance(has_display(), bool)
        True
    """
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def prepare_simulators() -> None:
    """Render without a display where there is none, and keep MuJoCo from writing MUJOCO_LOG.TXT.

    Called in every process before its first environment; MuJoCo reads MUJOCO_GL when it is imported.
    """
    if not has_display():
        os.environ.setdefault("MUJOCO_GL", "egl")
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    import mujoco

    mujoco.set_mju_user_warning(lambda message: None)
