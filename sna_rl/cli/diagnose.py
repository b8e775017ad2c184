"""`sna-rl diagnose`: how separable a critic is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sna_rl.cli import flags


def command(
    run: flags.Run = None,
    states: Annotated[int, typer.Option(help="States of the value tables.")] = 512,
    actions: Annotated[int, typer.Option(help="Actions of the value tables.")] = 256,
    rank: Annotated[
        int | None, typer.Option(help="Rank asked about; by default the critic's own, 32 for an MLP.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder; by default diagnosis/ in the run folder.")
    ] = None,
    buffer: Annotated[
        bool | None,
        typer.Option(
            "--buffer/--rollouts", help="States of the saved replay buffer (the default if there is one)."
        ),
    ] = None,
    versus: Annotated[
        Path | None,
        typer.Option("--versus", metavar="RUN|ZIP", help="Compare the critic loss with this agent's."),
    ] = None,
    seed: flags.Seed = 0,
    algo: flags.Algo = None,
    env: flags.Env = None,
    folder: flags.Folder = Path("logs"),
    exp_id: flags.ExpId = 0,
    load_best: flags.LoadBest = False,
    load_checkpoint: flags.LoadCheckpoint = None,
    load_last_checkpoint: flags.LoadLastCheckpoint = False,
    env_kwargs: flags.EnvKwargs = None,
    gym_packages: flags.GymPackages = None,
    device: flags.Device = "auto",
    trust: flags.Trust = False,
) -> None:
    """Read the rank of a critic off its value tables: any run, or any zip of Stable-Baselines3 (--trust)."""
    given = dict(locals())  # every flag under its name
    from sna_rl.training.diagnose.records import Question
    from sna_rl.training.diagnose.source import diagnose_agent

    question = Question(states, actions, rank, seed)
    lines, target = diagnose_agent(
        flags.source(given), question, output=output, from_buffer=buffer, versus=versus
    )
    typer.echo("\n".join(lines))
    typer.echo(f"written: {target}/diagnosis.json and figures")
