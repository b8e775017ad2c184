"""`sna-rl export`: write a trained policy as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sna_rl.cli import flags


def command(
    run: flags.Run = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="ONNX file; by default policy.onnx in the run folder."),
    ] = None,
    algo: flags.Algo = None,
    env: flags.Env = None,
    folder: flags.Folder = Path("logs"),
    exp_id: flags.ExpId = 0,
    load_best: flags.LoadBest = False,
    load_checkpoint: flags.LoadCheckpoint = None,
    load_last_checkpoint: flags.LoadLastCheckpoint = False,
    env_kwargs: flags.EnvKwargs = None,
    gym_packages: flags.GymPackages = None,
    device: flags.Device = "cpu",
    trust: flags.Trust = False,
) -> None:
    """Write a trained policy as ONNX, observations to actions, and check it against torch."""
    given = dict(locals())  # every flag under its name
    from sna_rl.training.export import export_onnx
    from sna_rl.training.loading import load_agent

    agent = load_agent(flags.source(given))
    try:
        file = output or agent.folder / "policy.onnx"
        difference = export_onnx(agent.model, file)
    finally:
        agent.env.close()
    typer.echo(f"{agent.origin}: ONNX and torch actions differ by at most {difference:.1e}")
    typer.echo(f"written: {file}")
