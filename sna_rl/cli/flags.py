"""Flags that several verbs share, under the names that RL Zoo users know."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Run = Annotated[
    Path | None,
    typer.Argument(metavar="RUN|ZIP", help="Run folder, or a zip of Stable-Baselines3.", show_default=False),
]
Algo = Annotated[str | None, typer.Option("--algo", help="sac, td3 or dqn.", show_default=False)]
Env = Annotated[
    str | None, typer.Option("--env", help="Environment's id; package:Id works.", show_default=False)
]
EnvKwargs = Annotated[
    list[str] | None,
    typer.Option("--env-kwargs", metavar="K:V", help="Arguments of the environment.", show_default=False),
]
GymPackages = Annotated[
    list[str] | None,
    typer.Option(
        "--gym-packages",
        metavar="MODULE",
        help="Modules that may be imported for environments, wrappers and callbacks.",
        show_default=False,
    ),
]
Folder = Annotated[Path, typer.Option("--folder", "-f", help="Folder of all runs.")]
ExpId = Annotated[
    int,
    typer.Option("--exp-id", help="With --algo and --env: the run of this seed; 0 for the latest of all."),
]
LoadBest = Annotated[bool, typer.Option("--load-best", help="Take the model of the best evaluation.")]
LoadCheckpoint = Annotated[
    int | None, typer.Option("--load-checkpoint", metavar="STEPS", help="Take the checkpoint of this step.")
]
LoadLastCheckpoint = Annotated[
    bool, typer.Option("--load-last-checkpoint", help="Take the latest checkpoint.")
]
Deterministic = Annotated[
    bool, typer.Option("--deterministic/--stochastic", help="Best action, or one sampled from the policy.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the episodes.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Unpickle a zip from elsewhere: this can run any code in it.")
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
