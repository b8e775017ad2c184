"""DQN on MiniGrid's pictures: Hyper-SET as the encoder beside NatureCNN of about as many parameters.

Run it as `python tests/benchmarks/vision_minigrid.py`, with the extra `minigrid` installed. An agent sees the
7 × 7 cells before it as 56 × 56 pixels, a patch a cell. Rows that stand in table.csv are not computed again.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import NatureCNN

from sna_rl.agents import DQN, ModuleExtractor, SNADQNCnnPolicy
from sna_rl.errors import require
from sna_rl.runs import write_json
from sna_rl.runs.rows import Rows
from sna_rl.runs.versions import versions
from sna_rl.vision.config import ModelConfig
from sna_rl.vision.counts import n_parameters
from sna_rl.vision.model import ImageEncoder

FOLDER = Path(__file__).parents[2] / "results" / "vision" / "minigrid"
ENVS = ("MiniGrid-Empty-5x5-v0", "MiniGrid-DoorKey-5x5-v0")
SHAPE, N_SIDE = (3, 56, 56), 7
WIDTH, FEATURES = 88, 59  # 110,000 parameters each
N_ITERATIONS, BATCH, TRAIN_FREQ = 2, 32, 4
N_EVALUATED, SEEDS = 100, range(3)
ARMS = ("hyper-set", "nature-cnn")


class Successes(BaseCallback):
    """Whether each training episode reached the goal, and at which step it ended."""

    def _init_callback(self) -> None:
        self.ends: list[tuple[int, bool]] = []

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.ends.append((self.num_timesteps, info["episode"]["r"] > 0.0))
        return True

    def steady_from(self, window: int = 100, share: float = 0.9) -> int | str:
        """Step from which on nine of ten of the last hundred episodes succeeded; empty if never."""
        for last in range(window, len(self.ends) + 1):
            if sum(success for _, success in self.ends[last - window : last]) >= share * window:
                return self.ends[last - 1][0]
        return ""


def make_env(name: str) -> gymnasium.Env[Any, Any]:
    """The agent's view as pixels."""
    wrappers = require("minigrid.wrappers", "minigrid")
    env: gymnasium.Env[Any, Any] = wrappers.ImgObsWrapper(
        wrappers.RGBImgPartialObsWrapper(gymnasium.make(name))
    )
    return env


def policy_kwargs(arm: str) -> dict[str, Any]:
    """The encoder; what stands on it is equal."""
    common = {"critic": "mlp", "net_arch": [64]}
    if arm == "nature-cnn":
        own: dict[str, Any] = {"features_dim": FEATURES}
        return {**common, "features_extractor_class": NatureCNN, "features_extractor_kwargs": own}
    config = ModelConfig(width=WIDTH, hidden=2 * WIDTH, n_iterations=N_ITERATIONS, step_time="normed")
    own = {"encoder": ImageEncoder(SHAPE, N_SIDE, config)}
    return {**common, "features_extractor_class": ModuleExtractor, "features_extractor_kwargs": own}


def succeeded(agent: DQN, name: str) -> float:
    """Share of evaluation episodes that reach the goal; the agent explores a twentieth, as in training."""
    env = make_env(name)
    n_right = 0
    for episode in range(N_EVALUATED):
        observation, _ = env.reset(seed=1_000_000 + episode)
        done = False
        while not done:
            action, _ = agent.predict(observation)
            observation, reward, terminated, truncated, _ = env.step(int(action))
            done = terminated or truncated
        n_right += float(reward) > 0.0
    env.close()
    return n_right / N_EVALUATED


def measured(name: str, arm: str, seed: int, n_steps: int) -> dict[str, Any]:
    """Train an agent and score it."""
    torch.manual_seed(seed)
    agent = DQN(
        SNADQNCnnPolicy, make_env(name), policy_kwargs=policy_kwargs(arm), seed=seed, learning_starts=1_000,
        learning_rate=5e-4, buffer_size=50_000, batch_size=BATCH, train_freq=TRAIN_FREQ, gamma=0.95,
        exploration_fraction=0.5, target_update_interval=500,
    )  # fmt: skip
    successes = Successes()
    agent.choose_update(n_steps)
    began = time.process_time()
    agent.learn(n_steps, callback=successes)
    seconds = time.process_time() - began
    encoder = agent.q_net.features_extractor
    return {
        "n_parameters": n_parameters(encoder),
        "success": succeeded(agent, name),
        "nine_of_ten_from_step": successes.steady_from(),
        "frames_per_cpu_second": round(n_steps / seconds, 1),
        "update": agent.update_form,
    }


def main() -> None:
    """Fill the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--envs", nargs="+", choices=ENVS, default=list(ENVS))
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    given = parser.parse_args()
    torch.set_num_threads(1)
    ran_on = versions() | {"minigrid": require("minigrid", "minigrid").__version__}
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "command").write_text(shlex.join(["python", *sys.argv]) + "\n")
    write_json(given.output / "versions.json", ran_on)
    table = Rows(given.output / "table.csv", ["env", "arm", "seed", "n_steps"])
    for name in given.envs:
        for seed in SEEDS:
            for arm in ARMS:
                if table.find(env=name, arm=arm, seed=seed, n_steps=given.steps) is None:
                    row = {"env": name, "arm": arm, "seed": seed, "n_steps": given.steps}
                    table.add(row | measured(name, arm, seed, given.steps))
                    print(*table.rows[-1].values(), flush=True)


if __name__ == "__main__":
    main()
