"""`sna-rl tune`: rank and learning rates first, then the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sna_rl.cli import flags


def command(
    algo: flags.Algo = None,
    env: flags.Env = None,
    critic: Annotated[str | None, typer.Option(help="Critic to tune; cp by default.")] = None,
    n_timesteps: Annotated[
        str | None, typer.Option("--n-timesteps", "-n", help="Environment steps a run.")
    ] = None,
    n_trials: Annotated[int, typer.Option(help="Trials of this process.")] = 50,
    max_total_trials: Annotated[
        int | None, typer.Option(help="Trials of the whole study, all machines together.")
    ] = None,
    n_jobs: Annotated[
        int, typer.Option("--n-jobs", "--jobs", "-j", help="Trials at once, a process each.")
    ] = 1,
    sampler: Annotated[str, typer.Option(help="tpe, gp, cmaes or random.")] = "tpe",
    pruner: Annotated[str, typer.Option(help="median, hyperband, halving or none.")] = "median",
    n_startup_trials: Annotated[int, typer.Option(min=0, help="Trials drawn at random first.")] = 10,
    n_evaluations: Annotated[int, typer.Option(help="Evaluations of a run, reported to the pruner.")] = 20,
    eval_episodes: Annotated[str | None, typer.Option(help="Episodes of an evaluation.")] = None,
    objective: Annotated[
        str, typer.Option(help="auc (area under the evaluation curve), last or best.")
    ] = "auc",
    seeds_per_trial: Annotated[
        int, typer.Option(min=1, max=1000, help="Seeds whose mean a trial's value is.")
    ] = 1,
    search: Annotated[
        Path | None, typer.Option(help="Search space in YAML, in place of the packaged one.")
    ] = None,
    storage: Annotated[
        str | None, typer.Option(help="Journal file (.log) or URL that several machines share.")
    ] = None,
    study_name: Annotated[
        str | None, typer.Option(help="Name of the study; an existing one goes on.")
    ] = None,
    trial_timeout: Annotated[float | None, typer.Option(help="Seconds after which a trial fails.")] = None,
    conf_file: Annotated[
        Path | None, typer.Option("--conf-file", "-conf", help="Hyperparameters that trials start from.")
    ] = None,
    hyperparams: Annotated[
        list[str] | None,
        typer.Option("--hyperparams", "-params", metavar="K:V", help="Hyperparameters, over the file's."),
    ] = None,
    env_kwargs: flags.EnvKwargs = None,
    gym_packages: flags.GymPackages = None,
    seed: Annotated[
        int,
        typer.Option(min=0, max=flags.MAX_SEED, help="Seed of the sampler, and of a trial's first run."),
    ] = 0,
    folder: Annotated[
        Path, typer.Option("--log-folder", "--folder", "-f", help="Folder of all runs.")
    ] = Path("logs"),
    ray: Annotated[
        str | None, typer.Option(metavar="auto|ADDRESS", help="Run on a Ray cluster that shares the folder.")
    ] = None,
    plots: Annotated[bool, typer.Option("--optim-plots/--no-optim-plots", help="Draw the plots.")] = True,
    progress: Annotated[
        bool, typer.Option("--progress/--no-progress", "-P", help="Show how far it is.")
    ] = True,
) -> None:
    """Tune hyperparameters with Optuna; started on several machines, they share one study."""
    from sna_rl.config import parse_pairs, parse_value
    from sna_rl.errors import UsageError
    from sna_rl.runs.folder import env_name
    from sna_rl.training.studies.pools import make_pool
    from sna_rl.training.tuning.results import write_results
    from sna_rl.training.tuning.search import Space, packaged_space
    from sna_rl.training.tuning.settings import Tuning
    from sna_rl.training.tuning.tune import tune
    from sna_rl.zoo_configs import resolve

    if n_evaluations < 1:
        raise UsageError(f"--n-evaluations must be at least 1, not {n_evaluations}")
    overrides = {
        "critic": critic,
        "n_timesteps": None if n_timesteps is None else parse_value(n_timesteps, "n_timesteps"),
        "eval_episodes": None if eval_episodes is None else parse_value(eval_episodes, "eval_episodes"),
        "env_kwargs": parse_pairs(env_kwargs, "--env-kwargs") if env_kwargs else None,
        "gym_packages": gym_packages,
        "seed": seed,
        "folder": str(folder),
    }
    config = resolve(algo, env, overrides, parse_pairs(hyperparams or ()), conf_file)
    config = config.replace(eval_freq=max(1, config.n_timesteps // n_evaluations))
    name = study_name or f"tune-{config.algo}-{config.critic}-{env_name(config.env)}"
    tuning = Tuning(
        name=name,
        config=config,
        space=Space.read(search or packaged_space(config.algo), config.critic),
        objective=objective,
        seeds=tuple(range(seed, seed + seeds_per_trial)),
        sampler=sampler,
        pruner=pruner,
        n_startup_trials=n_startup_trials,
        n_trials=n_trials,
        max_total_trials=max_total_trials,
        timeout=trial_timeout,
        seed=seed,
    )
    pool = make_pool(n_jobs, ray)
    tuned = tune(tuning, folder, pool, storage=storage, say=typer.echo, progress=progress)
    best = write_results(tuned, typer.echo, plots)
    typer.echo(f"best: sna-rl train -conf {best}\nall trials: {tuned.path / 'trials.csv'}")
