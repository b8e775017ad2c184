"""`sna-rl evaluate`: play episodes with a trained agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sna_rl.cli import flags
from sna_rl.errors import UsageError


def command(
    run: flags.Run = None,
    n_episodes: Annotated[int, typer.Option("--n-episodes", "-n", min=1, help="Episodes to play.")] = 20,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="JSON file; by default evaluation.json in the run folder."),
    ] = None,
    deterministic: flags.Deterministic = True,
    seed: flags.Seed = 0,
    render: Annotated[
        bool, typer.Option("--render/--no-render", help="Show the episodes in a window.")
    ] = False,
    n_envs: Annotated[int, typer.Option(min=1, max=10_000, help="Environments side by side.")] = 1,
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
    """Play episodes with a trained agent: mean, deviation and interquartile mean of the return."""
    given = dict(locals())  # every flag under its name
    from sna_rl.runs import write_json
    from sna_rl.training.display import has_display
    from sna_rl.training.evaluate import run_episodes
    from sna_rl.training.loading import load_agent

    if render and not has_display():
        raise UsageError("--render needs a display, and this machine has none; sna-rl video needs none")
    agent = load_agent(flags.source(given), n_envs=n_envs, render_mode="human" if render else None)
    try:
        results = run_episodes(agent.model, agent.env, n_episodes, seed=seed, deterministic=deterministic)
    finally:
        agent.env.close()
    summary = results.summary()
    file = output or agent.folder / "evaluation.json"
    write_json(
        file,
        {
            "model": agent.origin,
            "env": agent.config.env,
            "seed": seed,
            "deterministic": deterministic,
            **summary,
        },
    )
    kind = "deterministic" if deterministic else "stochastic"
    typer.echo(f"{agent.origin} on {agent.config.env}: {n_episodes} {kind} episodes from seed {seed}")
    typer.echo(
        f"return: mean {results.mean:,.2f}  std {results.std:,.2f}  IQM {results.iqm:,.2f}  "
        f"min {min(results.returns):,.2f}  max {max(results.returns):,.2f}"
    )
    success = f", success rate {summary['success_rate']:.2f}" if "success_rate" in summary else ""
    typer.echo(f"episode length: mean {summary['mean_length']:,.1f} steps{success}")
    typer.echo(f"written: {file}")
