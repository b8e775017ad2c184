"""How far one compiled update in float32 lies from Stable-Baselines3's own, all along a training run.

Run it as `python tests/benchmarks/update_along_run.py ENV`. An agent trains with the compiled update. Every
so many steps two others get its parameters and optimizer states, and take one update on the same batch with
the same noise, one in either form. The table holds the distance of their parameters' changes, divided by the
length of the reference's change: for actor, critic and target.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from torch import Tensor

from sna_rl.agents import ALGORITHMS
from sna_rl.agents.optimizer import optimizers
from sna_rl.runs import versions, write_json
from sna_rl.runs.rows import Rows

FORMS = ("compiled", "reference")
SETTINGS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {"n_timesteps": 6_000, "every": 50, "learning_starts": 100, "learning_rate": 1e-3},
    "HalfCheetah-v5": {"n_timesteps": 20_000, "every": 200, "learning_starts": 1_000, "learning_rate": 3e-4},
}
POLICY = {"critic": "cp", "factor": "linear", "net_arch": [64, 64]}
PARTS = ("actor", "critic", "critic_target")
LONG = 100_000
"""Steps that a training is said to have, so that its update compiles."""


def agent_of(env: str, form: str, seed: int, **kwargs: Any) -> Any:
    """An agent whose update has this form."""
    agent = ALGORITHMS["sac"]("SNAPolicy", env, seed=seed, update=form, policy_kwargs=dict(POLICY), **kwargs)
    assert agent.choose_update(LONG) == form
    return agent


def state(agent: Any) -> Iterator[Tensor]:
    """Everything that an update reads and changes, in one order."""
    yield from agent.policy.parameters()
    yield agent.log_ent_coef
    for optimizer in optimizers(agent).values():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                entry = optimizer.state[parameter]
                if not entry:
                    entry["step"] = torch.tensor(0.0)
                    entry |= {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
                yield from (entry["step"], entry["exp_avg"], entry["exp_avg_sq"])


def parameters(agent: Any, part: str) -> Tensor:
    """All numbers of one network."""
    tensors = getattr(agent.policy, part).parameters()
    return torch.cat([tensor.detach().double().ravel() for tensor in tensors])


class Beside(BaseCallback):
    """Takes one update of either form from the agent's state, and keeps how far apart they come.

    Args:
        twins: an agent of each form.
        every: steps between two looks.
    """

    def __init__(self, twins: dict[str, Any], every: int) -> None:
        super().__init__()
        self.twins, self.every = twins, every
        self.rows: list[dict[str, object]] = []

    def _on_step(self) -> bool:
        agent: Any = self.model
        if self.num_timesteps % self.every == 0 and agent._n_updates:
            numbers, noise = np.random.get_state(), torch.get_rng_state()
            after = {form: self._updated(twin) for form, twin in self.twins.items()}
            np.random.set_state(numbers)
            torch.set_rng_state(noise)
            apart: dict[str, object] = {"step": self.num_timesteps}
            for part in PARTS:
                before, ours, theirs = parameters(agent, part), *(after[form][part] for form in FORMS)
                apart[part] = f"{float((ours - theirs).norm() / (theirs - before).norm()):.1e}"
            self.rows.append(apart)
        return True

    @torch.no_grad()
    def _updated(self, twin: Any) -> dict[str, Tensor]:
        """The twin's networks one update after the agent's."""
        agent: Any = self.model
        for mine, other in zip(state(twin), state(agent), strict=True):
            mine.copy_(other)
        twin.set_logger(agent.logger)
        twin.replay_buffer = agent.replay_buffer
        torch.manual_seed(self.num_timesteps)
        np.random.seed(self.num_timesteps)
        with torch.enable_grad():
            twin.train(1, twin.batch_size)
        return {part: parameters(twin, part) for part in PARTS}


def main() -> None:
    """Run, and fill the rows of one environment."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("env", choices=list(SETTINGS))
    parser.add_argument("-o", "--out", type=Path, default=Path("results/update_forms"))
    parser.add_argument("--seed", type=int, default=40)
    given = parser.parse_args()
    torch.set_num_threads(1)
    settings = dict(SETTINGS[given.env])
    n_timesteps, every = settings.pop("n_timesteps"), settings.pop("every")
    twins = {form: agent_of(given.env, form, given.seed, **settings, buffer_size=1) for form in FORMS}
    beside = Beside(twins, every)
    agent_of(given.env, "compiled", given.seed, **settings).learn(n_timesteps, callback=beside)
    table = Rows(given.out / "along_run.csv", ["env", "seed", "step"])
    for row in beside.rows:
        if table.find(env=given.env, seed=given.seed, step=row["step"]) is None:
            table.add({"env": given.env, "seed": given.seed, **row})
    for part in PARTS:
        found = np.array([float(str(row[part])) for row in beside.rows])
        print(f"{part}: median {np.median(found):.1e}, largest {found.max():.1e} of {len(found)} updates")
    write_json(given.out / "along_run_versions.json", versions())


if __name__ == "__main__":
    main()
