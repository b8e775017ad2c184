"""Do compiled runs learn as much as runs with Stable-Baselines3's own update? Many short pairs of equal seeds.

A run of 50,000 steps with the reference update costs ten minutes of CPU time, and returns differ from seed to
seed by half their size: few pairs decide nothing. Here the actor is small and the runs are short, so that
tens of pairs can be had. What is compared is the mean return of the training episodes that end in the last
fifth of a run. Rows in table.csv stay; the summary takes every pair that is complete.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from stable_baselines3.common.callbacks import BaseCallback

from sna_rl.agents import ALGORITHMS
from sna_rl.runs import versions
from sna_rl.runs.rows import Rows

FORMS = ("compiled", "reference")
SETTINGS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {"n_timesteps": 6_000, "learning_starts": 100, "learning_rate": 1e-3},
    "HalfCheetah-v5": {"n_timesteps": 20_000, "learning_starts": 1_000},
    "Hopper-v5": {"n_timesteps": 30_000, "learning_starts": 1_000},
}
POLICY = {"critic": "cp", "factor": "linear", "net_arch": [64, 64]}


class Returns(BaseCallback):
    """Step and return of every training episode."""

    def _init_callback(self) -> None:
        self.ends: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        episodes = [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        self.ends += [(self.num_timesteps, float(value)) for value in episodes]
        return True

    def last(self, share: float) -> float:
        """Mean return of the episodes that ended in the last `share` of the run."""
        start = (1.0 - share) * self.num_timesteps
        return float(np.mean([value for step, value in self.ends if step > start]))


def run(env: str, form: str, seed: int) -> dict[str, float]:
    """Train once."""
    settings = dict(SETTINGS[env])
    n_timesteps = settings.pop("n_timesteps")
    agent: Any = ALGORITHMS["sac"](
        "SNAPolicy", env, seed=seed, update=form, policy_kwargs=dict(POLICY), **settings
    )
    returns = Returns()
    agent.choose_update(n_timesteps)
    started = time.process_time()
    agent.learn(n_timesteps, callback=returns)
    assert agent.update_form == form
    return {
        "return": round(returns.last(0.2), 2),
        "entropy_coefficient": round(agent.log_ent_coef.detach().exp().item(), 5),
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def summary(table: Rows) -> list[dict[str, object]]:
    """Paired differences of returns, compiled less reference, for each environment."""
    lines: list[dict[str, object]] = []
    for env in SETTINGS:
        found = {
            (form, row["seed"]): float(row["return"])
            for form in FORMS
            for row in table.rows
            if (row["env"], row["form"]) == (env, form)
        }
        seeds = [seed for form, seed in found if form == FORMS[0] and (FORMS[1], seed) in found]
        if len(seeds) < 2:
            continue
        ours, theirs = (np.array([found[form, seed] for seed in seeds]) for form in FORMS)
        difference = ours - theirs
        low, high = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
        lower = int((difference < 0).sum())
        lines.append(
            {
                "env": env,
                "pairs": len(seeds),
                "compiled": round(float(ours.mean()), 1),
                "reference": round(float(theirs.mean()), 1),
                "difference": round(float(difference.mean()), 1),
                "low": round(float(low), 1),
                "high": round(float(high), 1),
                "compiled_lower": lower,
                "sign_test_p": round(float(stats.binomtest(lower, len(seeds)).pvalue), 3),
            }
        )
    return lines


def main() -> None:
    """Run what is missing, then summarise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--out", type=Path, default=Path("results/update_forms/pairs"))
    parser.add_argument("--envs", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(20, 30)))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = Rows(arguments.out / "table.csv", ["env", "form", "seed"])
    for env in arguments.envs:
        for seed in arguments.seeds:
            for form in FORMS:
                if table.find(env=env, form=form, seed=seed) is None:
                    table.add({"env": env, "form": form, "seed": seed, **run(env, form, seed)})
                    print(*table.rows[-1].values(), sep="\t", flush=True)
    result = Rows(arguments.out / "summary.csv", ["env"])
    result.rows.clear()
    for line in summary(table):
        result.add(line)
        print(*line.values(), sep="\t", flush=True)
    (arguments.out / "versions.json").write_text(json.dumps(versions(), indent=1) + "\n")


if __name__ == "__main__":
    main()
