"""An agent ready to act: from a run folder without opening a pickle, or from a zip that is trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from sna_rl.config import RunConfig
from sna_rl.errors import SnaError, UsageError
from sna_rl.runs import RunFolder, env_name
from sna_rl.runs.checkpoints import Checkpoint, Checkpoints
from sna_rl.training.archive import load_archive, read_archive
from sna_rl.training.build import build, check_device
from sna_rl.training.environments import first_line, make_vec_env
from sna_rl.training.models import load_checkpoint, load_tensors


@dataclass(frozen=True)
class Source:
    """Which agent to load, and what it shall act in.

    Args:
        path: a run folder, a model in one, or a zip of Stable-Baselines3.
        best: take the model of the best evaluation instead of the last.
        checkpoint: take the checkpoint of this step, or the latest for −1.
        env: environment's id; None is the run's own. A zip has none.
        env_kwargs: arguments of the environment; None are the run's own.
        gym_packages: modules that may be imported.
        algo: algorithm of a zip that doesn't tell it.
        trust: a zip from elsewhere may be unpickled.
        device: where the networks go.
    """

    path: Path
    best: bool = False
    checkpoint: int | None = None
    env: str | None = None
    env_kwargs: Mapping[str, Any] | None = None
    gym_packages: Sequence[str] = ()
    algo: str | None = None
    trust: bool = False
    device: str = "auto"


@dataclass(frozen=True)
class Agent:
    """A loaded agent with environments to act in; VecNormalize statistics are those it was saved with.

    Args:
        model: the agent.
        env: its environments.
        config: what it was trained with; of a zip, the environment alone is known.
        folder: where what is made of it goes: the run folder, or the zip's.
        origin: the file it was loaded from.
    """

    model: BaseAlgorithm
    env: VecEnv
    config: RunConfig
    folder: Path
    origin: str


def load_agent(source: Source, *, n_envs: int = 1, render_mode: str | None = None) -> Agent:
    """Load an agent and make environments for it.

    Args:
        source: which agent.
        n_envs: number of environments.
        render_mode: Gymnasium's, None to draw nothing.

    Returns:
        The agent; whoever asked closes `env`.

    Raises:
        UsageError: if there is no such agent, a zip isn't trusted, or the environment doesn't match.
        SnaError: if what was saved is damaged.
    """
    if not source.path.exists():
        raise UsageError(
            f"{str(source.path)!r} does not exist; give a run folder or a zip of Stable-Baselines3"
        )
    is_run = source.path.is_dir() or (source.path.parent / "config.yml").is_file()
    return (_from_run if is_run else _from_zip)(source, n_envs, render_mode)


def _from_run(source: Source, n_envs: int, render_mode: str | None) -> Agent:
    """Build the agent anew from the run's configuration and give it the saved tensors."""
    folder = RunFolder.open(source.path)
    config = RunConfig.from_yaml(folder.config_yml, source.gym_packages)
    acting = _acting(config, source)
    env = make_vec_env(acting, evaluation=True, n_envs=n_envs, render_mode=render_mode)
    try:
        not_acting = ("replay_buffer_class", "replay_buffer_kwargs", "optimize_memory_usage", "n_steps")
        changes = {"buffer_size": 1, "device": source.device, "update": "reference"}
        model = build(config.replace(**dict.fromkeys(not_acting), **changes), env)
        origin = _fill(model, folder, source)
    except BaseException:
        env.close()
        raise
    return Agent(model, env, acting, folder.path, str(origin))


def _fill(model: BaseAlgorithm, folder: RunFolder, source: Source) -> Path:
    """Give a new agent what was saved; the path it comes from."""
    if source.checkpoint is not None:
        checkpoint = _checkpoint(folder, source.checkpoint)
        load_checkpoint(checkpoint, model)
        return checkpoint.path
    is_best = source.best or source.path.name.startswith("best_model")
    tensors = folder.best_model_tensors if is_best else folder.model_tensors
    load_tensors(tensors, model)
    return tensors


def _checkpoint(folder: RunFolder, step: int) -> Checkpoint:
    """The checkpoint of a step, the latest whole one for −1."""
    checkpoints = Checkpoints(folder.checkpoints)
    damaged: list[str] = []
    found = checkpoints.newest(damaged.append) if step < 0 else None
    for each in checkpoints.all() if step >= 0 else ():
        if each.step == step:
            found = each
    if found is None:
        steps = ", ".join(f"{each.step}" for each in checkpoints.all()) or "none"
        wanted = f"of step {step}" if step >= 0 else "that is whole"
        raise UsageError(f"{str(folder.path)!r} has no checkpoint {wanted}; there are {steps}")
    return found


def _from_zip(source: Source, n_envs: int, render_mode: str | None) -> Agent:
    """Unpickle a zip that the user trusts, and the statistics that the RL Zoo puts beside it."""
    archive = read_archive(source.path)
    check_device(source.device)
    if source.env is None:
        raise UsageError(f"{str(source.path)!r} doesn't hold its environment's id; name it with --env")
    config = _acting(RunConfig("dqn", source.env), source)
    env = make_vec_env(config, evaluation=True, n_envs=n_envs, render_mode=render_mode)
    try:
        folder = source.path.parent
        statistics = [folder / env_name(source.env) / "vecnormalize.pkl", folder / "vecnormalize.pkl"]
        found = next((path for path in statistics if path.is_file()), None)
        if found is not None and source.trust:
            env = _normalized(found, env)
        model = load_archive(archive, env, algo=source.algo, trust=source.trust, device=source.device)
    except BaseException:
        env.close()
        raise
    return Agent(model, env, config, folder, str(source.path))


def _acting(config: RunConfig, source: Source) -> RunConfig:
    """The configuration with the environment that the agent shall act in."""
    changes: dict[str, Any] = {} if source.env is None else {"env": source.env}
    packages = sorted({*config.gym_packages, *source.gym_packages})
    changed = config.replace(gym_packages=packages, vec_env="dummy", **changes)
    if source.env_kwargs is None:
        return changed
    return replace(changed, env_kwargs=dict(source.env_kwargs), eval_env_kwargs=None)


def _normalized(path: Path, env: VecEnv) -> VecNormalize:
    """Statistics pickled by Stable-Baselines3, frozen."""
    try:
        statistics = VecNormalize.load(str(path), env)
    except Exception as error:  # unpickling can raise anything
        raise SnaError(
            f"{str(path)!r} can't be loaded as VecNormalize statistics: {first_line(error)}"
        ) from error
    statistics.training, statistics.norm_reward = False, False
    return statistics


def find_run(folder: Path, algo: str | None, env: str | None, exp_id: int) -> Path:
    """Find a run by what it trained, as RL Zoo users name it.

    Args:
        folder: folder of all runs.
        algo: its algorithm.
        env: its environment.
        exp_id: its seed; 0 takes the latest run of any seed.

    Returns:
        The run folder.

    Raises:
        UsageError: if there is none.
    """
    if algo is None or env is None:
        raise UsageError("name a run folder, or --algo and --env of a run in --folder")
    runs = [path.parent for path in Path(folder, env_name(env)).glob(f"{algo}-*/seed-*/config.yml")]
    wanted = [run for run in runs if exp_id == 0 or run.name.split("-")[1] == str(exp_id)]
    if not wanted:
        seeds = ", ".join(sorted({run.name.split("-")[1] for run in runs}, key=int))
        remedy = f"its runs there have the seeds {seeds}" if runs else "train one, or name the folder with -f"
        seed = f" of seed {exp_id}" if exp_id else ""
        raise UsageError(f"{str(folder)!r} holds no run of {algo} on {env}{seed}; {remedy}")
    return max(wanted, key=lambda run: (run / "config.yml").stat().st_mtime)
