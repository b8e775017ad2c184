"""A separable critic that reads MiniGrid's mission strings, beside one to which every mission is the same.

Run it as `python tests/benchmarks/language_minigrid.py`, with the extra `minigrid` installed. Two things lie
in a room, and the mission names the one to pick up; picking up either ends the episode. Rows that stand in
table.csv are not computed again.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import DQN

from sna_rl.agents import SNADQNPolicy
from sna_rl.agents.extractor import ModuleExtractor
from sna_rl.errors import require
from sna_rl.language.config import LMConfig
from sna_rl.language.encoder import TextEncoder, Words
from sna_rl.runs import write_json
from sna_rl.runs.rows import Rows
from sna_rl.runs.versions import versions

FOLDER = Path(__file__).parents[2] / "results" / "language" / "minigrid"
ENV = "MiniGrid-Fetch-5x5-N2-v0"
MISSIONS = [
    f"{how} {colour} {thing}"
    for how in ("get a", "go get a", "fetch a", "go fetch a", "you must fetch a")
    for colour in ("red", "green", "blue", "purple", "yellow", "grey")
    for thing in ("key", "ball")
]
WORDS = Words(MISSIONS, length=6)
LARGEST = 10.0  # of the numbers that MiniGrid describes a cell with
ARMS = ("reads", "blind")
N_EVALUATED = 50


class Observed(gymnasium.ObservationWrapper[dict[str, Any], Any, Any]):
    """Cells as numbers in [0, 1], the mission as words; nothing in place of the words for a blind agent.

    Args:
        env: of MiniGrid.
        reads: whether the mission is told.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], *, reads: bool) -> None:
        super().__init__(env)
        self.reads = reads
        self.observation_space = spaces.Dict(
            {
                "cells": spaces.Box(0.0, 1.0, (147,), np.float32),
                "mission": spaces.Box(0, WORDS.vocab_size, (WORDS.length,), np.int64),
            }
        )

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        """What the agent is given."""
        cells = observation["image"].astype(np.float32).ravel() / LARGEST
        return {"cells": cells, "mission": WORDS(observation["mission"] if self.reads else "a")}


def evaluated(agent: DQN, env: gymnasium.Env[Any, Any]) -> dict[str, float]:
    """Mean return and share of right things over episodes of their own; the agent explores a twentieth."""
    returns = []
    for episode in range(N_EVALUATED):
        observation, _ = env.reset(seed=1_000_000 + episode)
        done = False
        while not done:
            action, _ = agent.predict(observation)
            observation, reward, terminated, truncated, _ = env.step(action)
            done = terminated or truncated
        returns.append(float(reward))
    return {"return": statistics.fmean(returns), "right": statistics.fmean(float(r > 0) for r in returns)}


def measured(arm: str, seed: int, n_steps: int) -> dict[str, float]:
    """Train an agent, and score it before and after."""
    env, other = (Observed(gymnasium.make(ENV), reads=arm == "reads") for _ in range(2))
    torch.manual_seed(seed)
    config = LMConfig(
        WORDS.vocab_size, n_positions=WORDS.length, width=32, n_layers=1, n_heads=2, embedding="table"
    )
    extractor = {"encoder": TextEncoder(config, key="mission", n_others=147)}
    kwargs = {"critic": "cp", "rank": 32, "features_extractor_class": ModuleExtractor,
              "features_extractor_kwargs": extractor}  # fmt: skip
    agent = DQN(
        SNADQNPolicy, env, policy_kwargs=kwargs, seed=seed, learning_starts=1000, learning_rate=1e-3,
        buffer_size=n_steps, batch_size=64, gamma=0.95, exploration_fraction=0.5,
        target_update_interval=500,
    )  # fmt: skip
    before = evaluated(agent, other)
    began = time.process_time()
    agent.learn(n_steps)
    seconds = time.process_time() - began
    after = evaluated(agent, other)
    for each in (env, other):
        each.close()
    said = {f"{name}_before": value for name, value in before.items()} | after | {"cpu_seconds": seconds}
    return {name: round(value, 4) for name, value in said.items()}


def main() -> None:
    """Fill the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    given = parser.parse_args()
    torch.set_num_threads(1)
    ran_on = versions() | {"minigrid": require("minigrid", "minigrid").__version__}
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "command").write_text(shlex.join(["python", *sys.argv]) + "\n")
    write_json(given.output / "versions.json", ran_on)
    table = Rows(given.output / "table.csv", ["arm", "seed", "n_steps"])
    for seed in range(given.seeds):
        for arm in ARMS:
            if table.find(arm=arm, seed=seed, n_steps=given.steps) is None:
                row = measured(arm, seed, given.steps)
                table.add({"arm": arm, "seed": seed, "n_steps": given.steps, **row})


if __name__ == "__main__":
    main()
