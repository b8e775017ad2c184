"""A trained Waypoint agent beside the scripted pilot, on the same courses.

Run it as `python tests/benchmarks/waypoint.py RUN`, RUN being the folder of a run on SNA/Waypoint-v0. Course,
wind and start of episode i come from the seed 10,000 + i, which no training uses. Writes table.csv and a
picture of both at the end of one course.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import binomtest

from sna_rl.envs import ScriptedPilot
from sna_rl.runs import atomic_write
from sna_rl.training.loading import Source, load_agent

FIRST_SEED = 10_000


def play(model: Any, env: gymnasium.Env[Any, Any], seed: int) -> dict[str, float]:
    """One episode: what its last `info` says, and the return."""
    observation, info = env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        action, _ = model.predict(observation, deterministic=True)
        observation, reward, terminated, truncated, info = env.step(action)
        total += float(reward)
        ended = terminated or truncated
    return {
        "return": total,
        **{name: float(info[name]) for name in ("is_success", "collision", "path_efficiency")},
    }


def row(name: str, episodes: list[dict[str, float]]) -> dict[str, Any]:
    """Rates with 95 % Wilson intervals, and means."""
    n = len(episodes)
    rates = {}
    for key in ("is_success", "collision"):
        count = int(sum(episode[key] for episode in episodes))
        low, high = binomtest(count, n).proportion_ci(method="wilson")
        rates[key] = f"{count / n:.3f} ({low:.3f}–{high:.3f})"
    reached = [episode["path_efficiency"] for episode in episodes if episode["is_success"]]
    return {
        "pilot": name,
        "episodes": n,
        "success": rates["is_success"],
        "collision": rates["collision"],
        "path_efficiency_of_successes": f"{np.mean(reached):.3f}" if reached else "",
        "return": f"{np.mean([episode['return'] for episode in episodes]):.1f}",
    }


def draw(pilots: dict[str, Any], env: gymnasium.Env[Any, Any], seed: int) -> Figure:
    """Both at the end of the same course."""
    figure = Figure(figsize=(8.4, 4.5), layout="constrained")
    for axis, (name, model) in zip(figure.subplots(1, 2), pilots.items(), strict=True):
        episode = play(model, env, seed)
        axis.imshow(env.render())
        axis.set_axis_off()
        end = "all waypoints reached" if episode["is_success"] else "not all waypoints reached"
        axis.set_title(f"{name}: {end}")
    return figure


def main() -> None:
    """Play, write, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("results/waypoint"))
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--best", action="store_true", help="the model of the best evaluation")
    arguments = parser.parse_args()
    agent = load_agent(Source(arguments.run, best=arguments.best), n_envs=1)
    pilots = {"trained agent": agent.model, "scripted pilot": ScriptedPilot()}
    env = gymnasium.make("sna_rl.envs:SNA/Waypoint-v0", render_mode="rgb_array")
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.episodes)
    rows = [row(name, [play(model, env, seed) for seed in seeds]) for name, model in pilots.items()]
    arguments.out.mkdir(parents=True, exist_ok=True)
    with (arguments.out / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    with atomic_write(arguments.out / "course.png") as picture:
        draw(pilots, env, FIRST_SEED).savefig(picture, format="png", dpi=110)
    for each in rows:
        print(*each.values(), sep="\t")


if __name__ == "__main__":
    main()
