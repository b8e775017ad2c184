"""Ends of episodes that the monitor does not see, since a wrapper around it makes them."""

from __future__ import annotations

import time
from typing import Any, SupportsFloat

import gymnasium
from stable_baselines3.common.monitor import Monitor


class TellMonitor(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Has a monitor count an episode that a wrapper outside of it ends, a time limit for example.

    Without it such an episode has no return, and an evaluation that waits for one never ends.

    Args:
        env: the monitored environment with the wrappers around it.
        monitor: its monitor.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], monitor: Monitor) -> None:
        super().__init__(env)
        self.monitor = monitor

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a step.

        Args:
            action: the action.

        Returns:
            Observation, reward, terminated, truncated, information with the `episode` that has ended.
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        monitor = self.monitor
        if (terminated or truncated) and not monitor.needs_reset:
            monitor.needs_reset = True
            info["episode"] = {
                "r": round(sum(monitor.rewards), 6),
                "l": len(monitor.rewards),
                "t": round(time.time() - monitor.t_start, 6),
                **{key: info[key] for key in monitor.info_keywords},
                **monitor.current_reset_info,
            }
            if monitor.results_writer is not None:
                monitor.results_writer.write_row(info["episode"])
        return observation, reward, terminated, truncated, info
