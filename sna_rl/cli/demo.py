"""`sna-rl demo`: train a first agent and show what it learned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sna_rl.cli import flags
from sna_rl.errors import SnaError


def command(
    folder: Annotated[Path, typer.Option("--folder", "-f", help="Folder of all runs.")] = Path("logs"),
    seed: Annotated[int, typer.Option(min=0, max=flags.MAX_SEED, help="Seed of everything random.")] = 1,
) -> None:
    """Train SAC with a separable critic on Pendulum-v1, about a minute or two, and draw what it learned."""
    from sna_rl.training.demo import THRESHOLD, demo
    from sna_rl.zoo_configs import resolve

    fields = {"seed": seed, "folder": str(folder), "eval_freq": 1000, "eval_episodes": 20, "update": "eager"}
    done = demo(resolve("sac", "Pendulum-v1", fields), announce=typer.echo)
    result = done.result
    score = f"20 evaluation episodes average {result.final_return:,.1f} after {result.n_timesteps:,} steps"
    if not done.has_learned:
        raise SnaError(f"{score}, short of {THRESHOLD:g}; another --seed may do better")
    typer.echo(f"{score} ({result.wall_seconds:,.0f} s)")
    typer.echo(f"run folder: {result.folder}")
    typer.echo(f"figure: {done.figure}")
    typer.echo(f"TensorBoard: sna-rl board {folder}")
