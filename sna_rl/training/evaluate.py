"""How good an agent is: episodes without learning, and what they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv

from sna_rl.errors import UsageError


@dataclass(frozen=True)
class EpisodeResults:
    """Episodes of one evaluation.

    Args:
        returns: summed reward of each episode, before any normalisation.
        lengths: steps of each episode.
        successes: `info["is_success"]` at each episode's end; empty where the environment doesn't tell.
    """

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    successes: tuple[bool, ...] = ()

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation of the returns over episodes (divided by their number)."""
        return float(np.std(self.returns))

    @property
    def iqm(self) -> float:
        """Interquartile mean: mean of the returns without the lowest and the highest quarter.

        Example:
            >>> EpisodeResults((0.0, 1.0, 3.0, 100.0), (1, 1, 1, 1)).iqm
            2.0
        """
        ordered = np.sort(self.returns)
        cut = len(ordered) // 4
        return float(np.mean(ordered[cut : len(ordered) - cut]))

    def summary(self) -> dict[str, Any]:
        """What is printed and written: statistics first, then every episode."""
        successes = {"success_rate": float(np.mean(self.successes))} if self.successes else {}
        return {
            "n_episodes": len(self.returns),
            "mean": self.mean,
            "std": self.std,
            "iqm": self.iqm,
            "min": min(self.returns),
            "max": max(self.returns),
            "mean_length": float(np.mean(self.lengths)),
            **successes,
            "returns": list(self.returns),
            "lengths": list(self.lengths),
        }


def run_episodes(
    model: BaseAlgorithm,
    env: VecEnv,
    n_episodes: int,
    *,
    seed: int,
    deterministic: bool = True,
    render: bool = False,
) -> EpisodeResults:
    """Play whole episodes with a fixed policy.

    Args:
        model: the agent; nothing of it changes.
        env: environments apart from those it trains in, with monitors around each.
        n_episodes: number of episodes, shared out evenly.
        seed: seed of the first episodes; the same seed plays the same episodes.
        deterministic: take the policy's best action instead of a sampled one.
        render: show every step.

    Returns:
        Return and length of each episode.

    Raises:
        UsageError: if n_episodes isn't at least 1.
    """
    if n_episodes < 1:
        raise UsageError(f"evaluation needs at least 1 episode, not {n_episodes}")
    successes: list[bool] = []

    def note_success(local: dict[str, Any], _: dict[str, Any]) -> None:
        if local["done"] and local["info"].get("is_success") is not None:
            successes.append(bool(local["info"]["is_success"]))

    env.seed(seed)
    returns, lengths = evaluate_policy(
        model,
        env,
        n_eval_episodes=n_episodes,
        deterministic=deterministic,
        render=render,
        callback=note_success,
        return_episode_rewards=True,
    )
    assert isinstance(returns, list)
    assert isinstance(lengths, list)
    return EpisodeResults(tuple(map(float, returns)), tuple(map(int, lengths)), tuple(successes))
