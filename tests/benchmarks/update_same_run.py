"""Is a compiled run the same run as one with Stable-Baselines3's own update? Step by step, in float64.

Run it as `python -m tests.benchmarks.update_same_run`. Rollout, buffer, sampling and update draw the same
random numbers in either form, so that in exact arithmetic the two runs are one. In float32 rounding grows to
another run within some hundred updates, and returns can only be compared over many seeds; in float64 it takes
thousands, and the table shows how far apart actions and parameters are until then.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback

from sna_rl.agents import ALGORITHMS
from sna_rl.agents.fused.algorithm import FusedAlgorithm
from sna_rl.runs import versions, write_json
from sna_rl.runs.rows import Rows
from tests.agents.fused.float64 import turn_to_float64

FORMS = ("compiled", "reference")
ENVS = ("HalfCheetah-v5", "Hopper-v5")
LEARNING_STARTS, EVERY = 1_000, 25
POLICY = {"critic": "cp", "factor": "linear"}
Array = NDArray[np.float64]


class Trace(BaseCallback):
    """Actions of every step, all parameters at every 25th, ends of episodes."""

    def _init_callback(self) -> None:
        self.actions: list[Array] = []
        self.parameters: list[Array] = []
        self.n_episodes: list[int] = [0]

    def _on_step(self) -> bool:
        self.actions.append(np.array(self.locals["actions"], np.float64).ravel())
        self.n_episodes.append(self.n_episodes[-1] + int(self.locals["dones"][0]))
        if self.num_timesteps % EVERY == 0:
            agent: Any = self.model
            tensors = [*agent.policy.parameters(), agent.log_ent_coef]
            self.parameters.append(torch.cat([t.detach().double().ravel() for t in tensors]).numpy().copy())
        return True


def traces(env: str, n_timesteps: int, seed: int) -> dict[str, Trace]:
    """One run of each form."""
    agents: dict[str, FusedAlgorithm] = {
        form: ALGORITHMS["sac"](
            "SNAPolicy",
            env,
            seed=seed,
            update=form,
            learning_starts=LEARNING_STARTS,
            policy_kwargs=dict(POLICY),
        )
        for form in FORMS
    }
    turn_to_float64(agents.values(), setattr)
    found = {}
    for form, agent in agents.items():
        agent.set_random_seed(seed)
        found[form] = Trace()
        agent.learn(n_timesteps, callback=found[form])
        assert agent.update_form == form
    return found


def main() -> None:
    """Run one environment and fill its rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("env", choices=ENVS)
    parser.add_argument("-o", "--out", type=Path, default=Path("results/update_forms"))
    parser.add_argument("-n", "--n-timesteps", type=int, default=6_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    ours, theirs = traces(arguments.env, arguments.n_timesteps, arguments.seed).values()
    table = Rows(arguments.out / "same_run.csv", ["env", "seed", "step"])
    for number, (mine, other) in enumerate(zip(ours.parameters, theirs.parameters, strict=True)):
        step = EVERY * (number + 1)
        window = slice(step - EVERY, step)
        apart = np.abs(np.array(ours.actions[window]) - np.array(theirs.actions[window])).max()
        row = {
            "env": arguments.env,
            "seed": arguments.seed,
            "step": step,
            "updates": max(step - LEARNING_STARTS, 0),
            "episodes_compiled": ours.n_episodes[step],
            "episodes_reference": theirs.n_episodes[step],
            "actions_apart": f"{apart:.1e}",
            "parameters_apart": f"{np.abs(mine - other).max():.1e}",
            "parameters_moved": f"{np.abs(other - theirs.parameters[0]).max():.1e}",
        }
        if table.find(env=arguments.env, seed=arguments.seed, step=step) is None:
            table.add(row)
        print(*row.values(), sep="\t", flush=True)
    write_json(arguments.out / "same_run_versions.json", versions())


if __name__ == "__main__":
    main()
