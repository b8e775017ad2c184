"""`sna-rl train`: train an agent in a new run folder."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from sna_rl.cli import flags
from sna_rl.config import RunConfig, parse_pairs, parse_value
from sna_rl.errors import UsageError

WHAT, HOW, CHECKS, WORLD = "What to train", "How", "Evaluation and saving", "Environments"
NUMBERS = {
    "rank",
    "n_timesteps",
    "seed",
    "eval_freq",
    "eval_episodes",
    "n_eval_envs",
    "save_freq",
    "n_envs",
    "num_threads",
}
FIXED = {field.name: field.default for field in fields(RunConfig)}
"""Defaults of the configuration's fields, but for what zoo_configs sets for an environment."""
NOT_FIELDS = {
    "algo",
    "env",
    "hyperparams",
    "conf_file",
    "trained_agent",
    "study",
    "trial",
    "storage",
    "override",
    "on_nan",
    "progress",
    "verbose",
    "uuid",
}


def _option(panel: str, help: str, *names: str, metavar: str | None = None, field: str | None = None) -> Any:
    """A flag in its panel of the help, with the default of the configuration's field where it names one."""
    default = True if field is None else str(FIXED[field])
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel, show_default=default)


def command(
    algo: Annotated[str | None, _option(WHAT, "sac, td3 or dqn.")] = None,
    env: Annotated[str | None, _option(WHAT, "Environment's id; package:Id works.")] = None,
    critic: Annotated[
        str | None,
        _option(WHAT, "cp, tucker, additive, spline-joint, mlp, mlp-matched, dueling.", field="critic"),
    ] = None,
    rank: Annotated[
        str | None,
        _option(WHAT, "Components of the critic; for tucker one a mode (8,8,4).", metavar="R", field="rank"),
    ] = None,
    n_timesteps: Annotated[
        str | None, _option(WHAT, "Environment steps.", "--n-timesteps", "-n", metavar="N")
    ] = None,
    seed: Annotated[
        str | None, _option(WHAT, "Seed of everything random; one is drawn without it.", metavar="S")
    ] = None,
    folder: Annotated[
        Path | None, _option(WHAT, "Folder of all runs.", "--log-folder", "--folder", "-f", field="folder")
    ] = None,
    tensorboard_log: Annotated[
        Path | None,
        _option(WHAT, "TensorBoard events here, not in the run folder.", "--tensorboard-log", "-tb"),
    ] = None,
    conf_file: Annotated[
        Path | None, _option(HOW, "YAML like the RL Zoo's, or a run's config.yml.", "--conf-file", "-conf")
    ] = None,
    hyperparams: Annotated[
        list[str] | None,
        _option(HOW, "Hyperparameters, over the file's.", "--hyperparams", "-params", metavar="K:V…"),
    ] = None,
    trained_agent: Annotated[
        Path | None,
        _option(HOW, "Go on with this run, in its folder.", "--trained-agent", "-i", metavar="RUN"),
    ] = None,
    study: Annotated[
        str | None, _option(HOW, "Take the best trial of this tuning study.", "--study", "--study-name")
    ] = None,
    trial: Annotated[
        int | None, _option(HOW, "With --study: take this trial.", "--trial", "--trial-id", metavar="N")
    ] = None,
    storage: Annotated[str | None, _option(HOW, "With --study: its storage, if not its folder.")] = None,
    override: Annotated[
        bool, _option(HOW, "With -i: let its configuration be changed.", "--override")
    ] = False,
    on_nan: Annotated[
        str, _option(CHECKS, "At a NaN: stop, or restore the last checkpoint.", metavar="stop|restore")
    ] = "stop",
    update: Annotated[
        str | None, _option(HOW, "Gradient step: auto, compiled, eager, reference.", field="update")
    ] = None,
    num_threads: Annotated[
        str | None, _option(HOW, "Threads of one operation.", metavar="N", field="num_threads")
    ] = None,
    device: Annotated[str | None, _option(HOW, "auto, cpu or cuda.", field="device")] = None,
    eval_freq: Annotated[
        str | None, _option(CHECKS, "Steps between evaluations; -1 for none.", metavar="N", field="eval_freq")
    ] = None,
    eval_episodes: Annotated[
        str | None, _option(CHECKS, "Episodes of each.", metavar="N", field="eval_episodes")
    ] = None,
    n_eval_envs: Annotated[
        str | None, _option(CHECKS, "Environments of each.", metavar="N", field="n_eval_envs")
    ] = None,
    save_freq: Annotated[
        str | None, _option(CHECKS, "Steps between checkpoints; -1 for none.", metavar="N", field="save_freq")
    ] = None,
    progress: Annotated[
        bool, _option(CHECKS, "Show how far it is.", "--progress/--no-progress", "-P")
    ] = True,
    verbose: Annotated[int, _option(CHECKS, "0 prints the result alone.")] = 1,
    uuid: Annotated[bool, typer.Option("--uuid", "-uuid", hidden=True)] = False,
    n_envs: Annotated[
        str | None, _option(WORLD, "Environments to train in.", metavar="N", field="n_envs")
    ] = None,
    vec_env: Annotated[
        str | None, _option(WORLD, "dummy (one process) or subproc (one each).", field="vec_env")
    ] = None,
    env_kwargs: Annotated[list[str] | None, _option(WORLD, "Arguments of each.", metavar="K:V…")] = None,
    eval_env_kwargs: Annotated[
        list[str] | None, _option(WORLD, "The same in evaluation, where they differ.", metavar="K:V…")
    ] = None,
    gym_packages: Annotated[
        list[str] | None, _option(WORLD, "Modules that may be imported.", metavar="MODULE…")
    ] = None,
) -> None:
    """Train an agent: --algo, --env, and what shall differ from zoo_configs."""
    given = {key: value for key, value in dict(locals()).items() if value not in (None, (), [])}
    from sna_rl.runs import RunFolder
    from sna_rl.training.resume import changed_config, find_start, go_on, through_failures
    from sna_rl.training.train import RunResult, train
    from sna_rl.zoo_configs import resolve

    changes: dict[str, Any] = {}
    for key, value in given.items():
        if key in NUMBERS:
            changes[key] = parse_value(value, key)
        elif key in ("env_kwargs", "eval_env_kwargs"):
            changes[key] = parse_pairs(value, f"--{key.replace('_', '-')}")
        elif key not in NOT_FIELDS:
            changes[key] = str(value) if isinstance(value, Path) else value
    params = parse_pairs(hyperparams or [])
    options: dict[str, Any] = {
        "command": flags.command_line(),
        "announce": typer.echo if verbose else None,
        "progress": progress and verbose > 0,
    }

    def attempt() -> RunResult:
        if study is not None:
            from sna_rl.training.tuning.results import trial_config

            config = trial_config(
                study, trial, folder=folder or Path("logs"), storage=storage, gym_packages=gym_packages or ()
            )
            named = {key: given[key] for key in ("algo", "env") if key in given}
            return train(config.replace(**named, **changes, **params), **options)
        if trial is not None or storage is not None:
            raise UsageError("--trial and --storage belong to a tuning study; name it with --study")
        if trained_agent is None:
            return train(resolve(algo, env, changes, params, conf_file), **options)
        if conf_file is not None:
            raise UsageError("-i goes on with the run's own configuration; leave --conf-file away")
        run = RunFolder.open(trained_agent)
        named = {key: given[key] for key in ("algo", "env") if key in given}
        config = changed_config(
            run, named | changes | params, override=override, gym_packages=gym_packages or ()
        )
        return go_on(run, config, find_start(run, config), **options)

    result = through_failures(attempt, on_nan=on_nan, gym_packages=gym_packages or (), **options)
    typer.echo(
        f"done: {result.n_timesteps:,} steps in {result.wall_seconds:,.0f} s "
        f"({result.steps_per_second:,.0f}/s), {result.reached}, saved in {result.folder}"
    )
