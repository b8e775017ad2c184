"""`sna-rl video`: record a trained agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sna_rl.cli import flags


def command(
    run: flags.Run = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="MP4 file; by default video.mp4 in the run folder.")
    ] = None,
    n_timesteps: Annotated[int, typer.Option("--n-timesteps", "-n", min=1, help="Steps to record.")] = 1000,
    deterministic: flags.Deterministic = True,
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
    """Record a trained agent as an MP4 video; needs no display."""
    given = dict(locals())  # every flag under its name
    from sna_rl.training.loading import load_agent
    from sna_rl.training.video import record

    agent = load_agent(flags.source(given), render_mode="rgb_array")
    try:
        file = output or agent.folder / "video.mp4"
        returns = record(agent.model, agent.env, file, n_timesteps, seed=seed, deterministic=deterministic)
    finally:
        agent.env.close()
    ended = ", ".join(f"{value:,.1f}" for value in returns) or "none ended"
    typer.echo(
        f"{agent.origin} on {agent.config.env}: {n_timesteps:,} steps, returns of its episodes: {ended}"
    )
    typer.echo(f"written: {file}")
