"""A training run from its configuration to its saved agent."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from sna_rl.config import RunConfig, named_items
from sna_rl.errors import UsageError
from sna_rl.runs import Progress, RunFolder, atomic_write, env_name, run_name, versions, write_json
from sna_rl.training.build import build, n_parameters, updates_per_step
from sna_rl.training.callbacks import Evaluate, ShowProgress, recent_return
from sna_rl.training.environments import first_line, make_vec_env
from sna_rl.training.interruption import Interrupted, StopOnSignal
from sna_rl.training.models import save_model
from sna_rl.training.named import load_class


@dataclass(frozen=True)
class RunResult:
    """What a finished run came to; `summary.json` holds the same.

    Args:
        folder: the run folder.
        n_timesteps: environment steps taken in all environments; whole rollouts may exceed what was asked.
        final_return: mean return of the last evaluation, None without one.
        best_return: mean return of the best evaluation, None without one.
        training_return: mean return of the last training episodes, 100 at most.
        wall_seconds: seconds from the first step to the last, evaluation included.
        cpu_seconds: processor seconds of that time, worker processes included.
        steps_per_second: n_timesteps divided by wall_seconds.
        actor_parameters: parameters of the actor.
        critic_parameters: parameters of all critic heads, targets left out.
        update: form of the gradient update.
    """

    folder: str
    n_timesteps: int
    final_return: float | None
    best_return: float | None
    training_return: float | None
    wall_seconds: float
    cpu_seconds: float
    steps_per_second: float
    actor_parameters: int
    critic_parameters: int
    update: str


def train(
    config: RunConfig,
    *,
    command: str = "",
    announce: Callable[[str], None] | None = None,
    progress: bool = True,
    stop_at: float | None = None,
    callbacks: Sequence[BaseCallback] = (),
) -> RunResult:
    """Train an agent in a new run folder.

    Args:
        config: what to train; `config.yml` in the folder repeats the run.
        command: the command line, kept in `command.txt`.
        announce: called with each line that says what is about to run.
        progress: show a bar, or lines where stderr is no terminal.
        stop_at: mean evaluation return that ends the run early.
        callbacks: called at every step, beside the run's own.

    Returns:
        Where it was saved and what it reached.

    Raises:
        UsageError: if the configuration can't be trained; no folder is left behind.
        SnaError: if the environment fails.
        Interrupted: if Ctrl-C or SIGTERM ended it; the agent is saved.
    """
    torch.set_num_threads(config.num_threads)
    with ExitStack() as resources:
        with new_folder(config) as folder:
            run = Training.prepare(config, folder, resources, stop_at)
            run.write_start(command)
        for line in run.description() if announce else ():
            announce(line)  # type: ignore[misc]
        return run.learn(progress, callbacks)


@contextmanager
def new_folder(config: RunConfig) -> Iterator[RunFolder]:
    """Make a run folder that stays only if the block succeeds.

    Args:
        config: the run's configuration.

    Yields:
        The new folder; it and the parents made for it are removed if the block raises.

    Raises:
        UsageError: if the log folder can't be written.
    """
    parents = [Path(config.folder), Path(config.folder, env_name(config.env))]
    made = [parent for parent in parents if not parent.exists()]
    folder = RunFolder.create(
        config.folder, config.env, run_name(config.algo, config.critic, config.rank), config.seed
    )
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        for parent in [folder.path.parent, *reversed(made)]:
            if not any(parent.iterdir()):
                parent.rmdir()
        raise


@dataclass
class Training:
    """An agent with all it needs to learn in its run folder.

    Args:
        config: the run's configuration.
        folder: where everything is written.
        model: the agent.
        evaluation: evaluates it now and then; None where the run asks for none.
        resources: closes environments and log files.
    """

    config: RunConfig
    folder: RunFolder
    model: OffPolicyAlgorithm
    evaluation: Evaluate | None
    resources: ExitStack

    @classmethod
    def prepare(
        cls, config: RunConfig, folder: RunFolder, resources: ExitStack, stop_at: float | None = None
    ) -> Training:
        """Make environments, agent and log.

        Args:
            config: the run's configuration.
            folder: an existing run folder.
            resources: gets what must be closed.
            stop_at: mean evaluation return that ends the run early.

        Raises:
            UsageError: if the configuration can't be trained.
        """
        env = resources.enter_context(closing(make_vec_env(config, monitors=folder.monitor)))
        model = build(config, env)
        evaluation = None
        if 0 < config.eval_freq <= config.n_timesteps:
            eval_env = resources.enter_context(closing(make_vec_env(config, evaluation=True)))
            evaluation = Evaluate(
                eval_env, folder, config.eval_freq, config.eval_episodes, config.seed, stop_at
            )
        events = folder.path
        if config.tensorboard_log:
            events = Path(config.tensorboard_log, *folder.path.parts[-3:])
        try:
            writer = TensorBoardOutputFormat(str(events))
        except OSError as error:
            raise UsageError(
                f"TensorBoard folder {str(events)!r} can't be written: {first_line(error)}"
            ) from error
        logger = Logger(str(events), [writer])
        resources.callback(logger.close)
        model.set_logger(logger)
        return cls(config, folder, model, evaluation, resources)

    def write_start(self, command: str) -> None:
        """Write what repeats the run: configuration, command, versions.

        Args:
            command: the command line, appended to those before.
        """
        with atomic_write(self.folder.config_yml, "w") as file:
            file.write(self.config.to_yaml())
        with self.folder.command_txt.open("a", encoding="utf-8") as file:
            file.write(f"{command}\n")
        write_json(self.folder.versions_json, versions())

    def description(self) -> list[str]:
        """What runs, in lines for the user."""
        actor, critic = n_parameters(self.model)
        rate = updates_per_step(self.model)
        updates = f"{rate:g} per environment step" if rate is not None else "after whole episodes"
        name = run_name(self.config.algo, self.config.critic, self.config.rank)
        return [
            f"{name} on {self.config.env}, seed {self.config.seed}, {self.config.n_timesteps:,} steps",
            f"parameters: actor {actor:,}, critic {critic:,}",
            f"gradient updates: {updates} ({self.update})",
            f"run folder: {self.folder.path}",
        ]

    @property
    def update(self) -> str:
        """Form of the gradient update in use."""
        return str(getattr(self.model, "update_form", "reference"))

    def save(self) -> None:
        """Write the agent as it is now."""
        folder = self.folder
        save_model(self.model, folder.model_zip, folder.model_tensors, folder.vecnormalize_pkl)

    def learn(self, progress: bool = True, callbacks: Sequence[BaseCallback] = ()) -> RunResult:
        """Train to the end, save, and write `summary.json`.

        Args:
            progress: show a bar, or lines where stderr is no terminal.
            callbacks: called at every step, beside the run's own.

        Returns:
            What the run came to.

        Raises:
            SnaError: if the environment fails.
            Interrupted: if Ctrl-C or SIGTERM ended it; the agent is saved then, too.
        """
        config, model = self.config, self.model
        started, cpu_started = time.perf_counter(), _cpu_seconds()
        with (
            Progress(config.n_timesteps, start=model.num_timesteps, shown=progress) as bar,
            StopOnSignal() as stop,
        ):
            own = [self.evaluation, ShowProgress(bar, self.evaluation), stop]
            named: list[BaseCallback] = [
                load_class(name, BaseCallback)(**kwargs)
                for name, kwargs in named_items(config.hyperparams.get("callback"))
            ]
            model.learn(config.n_timesteps, [each for each in [*own, *named, *callbacks] if each is not None])
        wall = time.perf_counter() - started
        self.save()
        self.resources.close()
        if stop.received is not None:
            steps = f"{model.num_timesteps:,} of {config.n_timesteps:,}"
            raise Interrupted(f"stopped at step {steps} and saved in {self.folder.path}", stop.received)
        actor, critic = n_parameters(model)
        result = RunResult(
            folder=str(self.folder.path),
            n_timesteps=model.num_timesteps,
            final_return=self.evaluation.last_return if self.evaluation else None,
            best_return=self.evaluation.best_return if self.evaluation else None,
            training_return=recent_return(model),
            wall_seconds=wall,
            cpu_seconds=_cpu_seconds() - cpu_started,
            steps_per_second=model.num_timesteps / wall,
            actor_parameters=actor,
            critic_parameters=critic,
            update=self.update,
        )
        write_json(self.folder.path / "summary.json", asdict(result))
        return result


def _cpu_seconds() -> float:
    """Processor seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])
