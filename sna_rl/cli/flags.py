"""Flags that several verbs share, under the names that RL Zoo users know, and the agent they name."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sna_rl.errors import UsageError

if TYPE_CHECKING:
    from sna_rl.training.loading import Source

Run = Annotated[
    Path | None,
    typer.Argument(
        metavar="[RUN|ZIP]", help="Run folder, or a zip of Stable-Baselines3.", show_default=False
    ),
]
Algo = Annotated[str | None, typer.Option("--algo", help="sac, td3 or dqn.")]
Env = Annotated[str | None, typer.Option("--env", help="Environment's id; package:Id works.")]
EnvKwargs = Annotated[
    list[str] | None, typer.Option("--env-kwargs", metavar="K:V", help="Arguments of the environment.")
]
GymPackages = Annotated[
    list[str] | None,
    typer.Option("--gym-packages", metavar="MODULE", help="Modules that may be imported for environments."),
]
Folder = Annotated[Path, typer.Option("--folder", "-f", help="Without RUN: folder of all runs.")]
ExpId = Annotated[
    int, typer.Option("--exp-id", help="Without RUN: the run of this seed; 0 takes the latest.")
]
LoadBest = Annotated[bool, typer.Option("--load-best", help="Model of the best evaluation.")]
LoadCheckpoint = Annotated[
    int | None, typer.Option("--load-checkpoint", metavar="STEP", help="Checkpoint of this step.")
]
LoadLastCheckpoint = Annotated[bool, typer.Option("--load-last-checkpoint", help="Latest checkpoint.")]
Deterministic = Annotated[
    bool, typer.Option("--deterministic/--stochastic", help="Best action, or one sampled from the policy.")
]
MAX_SEED = 2**31 - 1
Seed = Annotated[int, typer.Option("--seed", min=0, max=MAX_SEED, help="Seed of the episodes.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Unpickle a zip from elsewhere, whatever code it holds.")
]
RENAMED = {"n_iterations": "--iterations", "trunk": "--model"}
"""Settings whose flag has another name."""
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]


def command_line() -> str:
    """The command line of this process, as a shell takes it."""
    return shlex.join(["sna-rl", *sys.argv[1:]])


def changed_settings(params: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a supervised run from `-params` and from flags of their own.

    Args:
        params: setting → value, of `-params`.
        given: setting → value of its flag, None where that was left away.

    Raises:
        UsageError: if a setting is given both ways, with different values.

    Example:
        >>> changed_settings({"width": 64}, {"seed": 1, "n_steps": None})
        {'width': 64, 'seed': 1}
    """
    changes = dict(params)
    for name, value in given.items():
        if value is not None and changes.setdefault(name, value) != value:
            flag = RENAMED.get(name, f"--{name.replace('_', '-')}")
            raise UsageError(
                f"{flag} {value} and -params {name}:{changes[name]} contradict each other; give one of them"
            )
    return changes


def source(given: Mapping[str, Any]) -> Source:
    """The agent that a verb's flags name.

    Args:
        given: every flag of the verb under its name, the run's among them.

    Returns:
        What `load_agent` takes.

    Raises:
        UsageError: if no run is given and none is found.
    """
    from sna_rl.config import parse_pairs
    from sna_rl.training.loading import Source, find_run

    pairs = given.get("env_kwargs")
    run = given["run"] or find_run(given["folder"], given["algo"], given["env"], given["exp_id"])
    return Source(
        path=run,
        best=given["load_best"],
        checkpoint=-1 if given["load_last_checkpoint"] else given["load_checkpoint"],
        env=given["env"],
        env_kwargs=parse_pairs(pairs, "--env-kwargs") if pairs else None,
        gym_packages=tuple(given["gym_packages"] or ()),
        algo=given["algo"],
        trust=given["trust"],
        device=given["device"],
    )
