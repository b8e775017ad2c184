"""`sna-rl compare`: algorithms × critics × ranks × environments × seeds, with an answer at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sna_rl.cli import flags
from sna_rl.errors import SnaError


def command(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="STUDY.yml", help="Study file, or the name of a packaged one.", show_default=False
        ),
    ] = None,
    algo: Annotated[list[str] | None, typer.Option(help="sac, td3 or dqn; repeat for more.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="Environment's id; repeat for more.")] = None,
    critic: Annotated[
        list[str] | None,
        typer.Option(help="Critic beside the MLP baselines, cp by default; repeat for more."),
    ] = None,
    rank: Annotated[list[str] | None, typer.Option(help="Rank; repeat for more.")] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Number of seeds, 5 by default, or a list: 10,11,12.")
    ] = None,
    n_timesteps: Annotated[
        str | None, typer.Option("--n-timesteps", "-n", help="Environment steps a run.")
    ] = None,
    eval_freq: Annotated[
        str | None, typer.Option(help="Steps between evaluations; by default 20 a run.")
    ] = None,
    eval_episodes: Annotated[str | None, typer.Option(help="Episodes of an evaluation.")] = None,
    hyperparams: Annotated[
        list[str] | None,
        typer.Option("--hyperparams", "-params", metavar="K:V", help="Hyperparameters of every arm."),
    ] = None,
    gym_packages: flags.GymPackages = None,
    matched: Annotated[
        bool | None,
        typer.Option(
            "--matched/--no-matched", help="The MLP with as many parameters.", show_default="matched"
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the study.")] = None,
    folder: Annotated[
        Path, typer.Option("--log-folder", "--folder", "-f", help="Folder of all runs.")
    ] = Path("logs"),
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Runs at once, one thread each.")] = 1,
    ray: Annotated[
        str | None, typer.Option(metavar="auto|ADDRESS", help="Run on a Ray cluster that shares the folder.")
    ] = None,
    progress: Annotated[
        bool, typer.Option("--progress/--no-progress", "-P", help="Show how far it is.")
    ] = True,
) -> None:
    """Compare critics over seeds: runs what isn't finished yet, then reports."""
    from sna_rl.config import merge, parse_pairs, parse_value, read_yaml
    from sna_rl.config.importables import check_trusted, modules_named
    from sna_rl.training.studies.compare import compare
    from sna_rl.training.studies.pools import make_pool
    from sna_rl.training.studies.results import report_study
    from sna_rl.training.studies.study import Study, find_study

    data: dict[str, Any] = {}
    if file is not None:
        path = find_study(file)
        data = {"name": path.stem, **read_yaml(path)}
    given: dict[str, Any] = {
        "algo": algo,
        "env": env,
        "critic": critic,
        "rank": [parse_value(each, "--rank") for each in rank or ()],
        "seeds": _seeds(seeds),
        "n_timesteps": None if n_timesteps is None else parse_value(n_timesteps, "n_timesteps"),
        "eval_freq": None if eval_freq is None else parse_value(eval_freq, "eval_freq"),
        "eval_episodes": None if eval_episodes is None else parse_value(eval_episodes, "eval_episodes"),
        "hyperparams": merge(data.get("hyperparams", {}), parse_pairs(hyperparams or ())),
        "gym_packages": gym_packages,
        "matched": matched,
        "name": name,
    }
    data |= {key: value for key, value in given.items() if value not in (None, [], {})}
    if "name" not in data:
        data["name"] = "-".join(
            [*(algo or []), *(each.replace("/", "-").replace(":", "-") for each in env or [])]
        )
    study = Study.from_dict(data, file or "")
    trusted = {*(gym_packages or ()), *(each.rpartition(":")[0] for each in env or ())}
    for config in (cell.config for cell in study.cells()):  # a study file may name no module on its own
        check_trusted(modules_named(config.env, config.gym_packages), trusted, file or "the study")
    pool = make_pool(jobs, ray)
    place, n_failed = compare(
        study, folder, pool, command=flags.command_line(), say=typer.echo, progress=progress
    )
    page = report_study(place, typer.echo)
    typer.echo(f"report: {page}\nTensorBoard: sna-rl board {place.runs}")
    if n_failed:
        raise SnaError(f"{n_failed} cells failed; the report says why, and the same command tries them again")


def _seeds(text: str | None) -> Any:
    """Number of seeds or their list."""
    from sna_rl.config import parse_value

    if text is None:
        return None
    return parse_value(f"[{text}]" if "," in text else text, "--seeds")
