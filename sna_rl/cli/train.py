"""`sna-rl train`: train an agent in a new run folder."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from sna_rl.cli import flags
from sna_rl.errors import UsageError

NOT_FIELDS = {"algo", "env", "hyperparams", "conf_file", "progress", "verbose", "track"}


def command(
    context: typer.Context,
    algo: flags.Algo = None,
    env: flags.Env = None,
    critic: Annotated[
        str | None, typer.Option(help="cp, tucker, additive, spline-joint, mlp, mlp-matched or dueling.")
    ] = None,
    rank: Annotated[
        str | None, typer.Option(help="Components of the critic: an int, or one a mode for tucker (8,8,4).")
    ] = None,
    n_timesteps: Annotated[int | None, typer.Option("--n-timesteps", "-n", help="Environment steps.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of everything random; without it one is drawn.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--log-folder", "--folder", "-f", help="Folder of all runs.")
    ] = None,
    tensorboard_log: Annotated[
        Path | None,
        typer.Option(
            "--tensorboard-log", "-tb", help="TensorBoard events here instead of in the run folder."
        ),
    ] = None,
    conf_file: Annotated[
        Path | None,
        typer.Option(
            "--conf-file", "-conf", help="YAML of the RL Zoo's form, or a run's config.yml to repeat it."
        ),
    ] = None,
    hyperparams: Annotated[
        list[str] | None,
        typer.Option(
            "--hyperparams", "-params", metavar="K:V", help="Hyperparameters, over those of the file."
        ),
    ] = None,
    eval_freq: Annotated[
        int | None, typer.Option(help="Steps between evaluations; below 0 for none.")
    ] = None,
    eval_episodes: Annotated[int | None, typer.Option(help="Episodes of an evaluation.")] = None,
    n_eval_envs: Annotated[int | None, typer.Option(help="Environments of an evaluation.")] = None,
    save_freq: Annotated[
        int | None, typer.Option(help="Steps between checkpoints; below 0 for none.")
    ] = None,
    n_envs: Annotated[int | None, typer.Option(help="Environments to train in.")] = None,
    vec_env: Annotated[str | None, typer.Option(help="dummy (one process) or subproc (one each).")] = None,
    env_kwargs: flags.EnvKwargs = None,
    eval_env_kwargs: Annotated[
        list[str] | None, typer.Option(metavar="K:V", help="The same for evaluation; by default equal.")
    ] = None,
    gym_packages: flags.GymPackages = None,
    num_threads: Annotated[int | None, typer.Option(help="Threads of one operation.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    update: Annotated[str | None, typer.Option(help="auto, compiled, eager or reference.")] = None,
    progress: Annotated[
        bool, typer.Option("--progress/--no-progress", "-P", help="Show how far it is.")
    ] = True,
    verbose: Annotated[int, typer.Option(help="0 prints the result alone.")] = 1,
    track: Annotated[bool, typer.Option("--track", hidden=True)] = False,
) -> None:
    """Train an agent: --algo, --env, and what differs from zoo_configs."""
    if track:
        raise UsageError(
            "tracking isn't built in; TensorBoard's event files lie in the run folder (sna-rl board)"
        )
    from sna_rl.config import parse_pairs, parse_value
    from sna_rl.training.train import train
    from sna_rl.zoo_configs import resolve

    fields = {
        key: value for key, value in context.params.items() if key not in NOT_FIELDS and value not in ((), [])
    }
    fields |= {key: str(value) for key, value in fields.items() if isinstance(value, Path)}
    for key, flag in (("env_kwargs", "--env-kwargs"), ("eval_env_kwargs", "--eval-env-kwargs")):
        if fields.get(key):
            fields[key] = parse_pairs(fields[key], flag)
    if rank is not None:
        fields["rank"] = parse_value(rank, "--rank")
    config = resolve(algo, env, fields, parse_pairs(hyperparams or []), conf_file)
    result = train(
        config,
        command=shlex.join(["sna-rl", *sys.argv[1:]]),
        announce=typer.echo if verbose else None,
        progress=progress and verbose > 0,
    )
    reached = result.final_return if result.final_return is not None else result.training_return
    typer.echo(
        f"done: {result.n_timesteps:,} steps in {result.wall_seconds:,.0f} s "
        f"({result.steps_per_second:,.0f}/s), "
        f"return {'unknown' if reached is None else format(reached, ',.1f')}, saved in {result.folder}"
    )
