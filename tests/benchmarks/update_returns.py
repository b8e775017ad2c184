"""Do compiled runs learn as much as runs with Stable-Baselines3's own update? Many short runs in pairs.

Run it as `python tests/benchmarks/update_returns.py`. A run of 50,000 steps on HalfCheetah-v5 with the
reference update costs ten minutes of CPU time, and returns differ from seed to seed by half their size: few
pairs decide nothing. Here the actor is small and a run has 6,000 steps of Pendulum-v1, so that tens of pairs
can be had. What is compared is the mean return of the training episodes that end in the last fifth of a run.
Rows in pairs.csv stay; what is said of them takes every pair that is complete.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from stable_baselines3.common.callbacks import BaseCallback

from sna_rl.agents import ALGORITHMS
from sna_rl.runs import versions, write_json
from sna_rl.runs.rows import Rows

FORMS = ("compiled", "reference")
ENV, N_TIMESTEPS = "Pendulum-v1", 6_000
SETTINGS: dict[str, Any] = {"learning_starts": 100, "learning_rate": 1e-3}
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


def run(form: str, seed: int) -> dict[str, float]:
    """Train once."""
    agent: Any = ALGORITHMS["sac"](
        "SNAPolicy", ENV, seed=seed, update=form, policy_kwargs=dict(POLICY), **SETTINGS
    )
    returns = Returns()
    agent.choose_update(N_TIMESTEPS)
    started = time.process_time()
    agent.learn(N_TIMESTEPS, callback=returns)
    assert agent.update_form == form
    return {
        "return": round(returns.last(0.2), 2),
        "entropy_coefficient": round(agent.log_ent_coef.detach().exp().item(), 5),
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def said(table: Rows) -> str:
    """The paired difference of returns, compiled less reference, in a sentence."""
    found = {(row["form"], row["seed"]): float(row["return"]) for row in table.rows}
    seeds = [seed for form, seed in found if form == FORMS[0] and (FORMS[1], seed) in found]
    if len(seeds) < 2:
        return "fewer than two pairs"
    ours, theirs = (np.array([found[form, seed] for seed in seeds]) for form in FORMS)
    low, high = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    lower = int((ours < theirs).sum())
    return (
        f"{len(seeds)} pairs: compiled {ours.mean():.1f}, reference {theirs.mean():.1f}, difference "
        f"{(ours - theirs).mean():+.1f} [{low:+.1f}, {high:+.1f}]; compiled lower in {lower} (sign test, "
        f"two-sided p = {stats.binomtest(lower, len(seeds)).pvalue:.2f})"
    )


def main() -> None:
    """Run what is missing, then sum up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--out", type=Path, default=Path("results/update_forms"))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(40, 80)))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = Rows(arguments.out / "pairs.csv", ["form", "seed"])
    for seed in arguments.seeds:
        for form in FORMS:
            if table.find(form=form, seed=seed) is None:
                table.add({"form": form, "seed": seed, **run(form, seed)})
                print(*table.rows[-1].values(), sep="\t", flush=True)
    print(said(table))
    write_json(arguments.out / "pairs_versions.json", versions())


if __name__ == "__main__":
    main()
