"""A training run from its configuration to its saved agent."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from stable_baselines3.common.callbacks import BaseCallback

from sna_rl.agents import DQN, SAC, TD3
from sna_rl.agents.metrics import RankMetrics
from sna_rl.config import RunConfig, named_items
from sna_rl.errors import UsageError
from sna_rl.runs import Progress, RunFolder, atomic_write, env_name, run_name, versions, write_json
from sna_rl.runs.checkpoints import Checkpoints
from sna_rl.runs.disk import no_room_is_an_error
from sna_rl.runs.folder import add_command
from sna_rl.runs.interruption import Interrupted, StopOnSignal
from sna_rl.runs.lock import LOCK, locked
from sna_rl.training.build import build, counted_critics, n_parameters, updates_per_step
from sna_rl.training.callbacks import Evaluate, ShowProgress, recent_return
from sna_rl.training.environments import first_line, make_vec_env
from sna_rl.training.guard import NumericalGuard
from sna_rl.training.logs import OnceLogger, events_folder
from sna_rl.training.models import save_model
from sna_rl.training.named import load_class
from sna_rl.training.patient import PatientTensorBoard
from sna_rl.training.saving import SaveCheckpoints
from sna_rl.training.start import Clock, Start


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
        eval_episodes: episodes of each evaluation.
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
    eval_episodes: int

    @property
    def reached(self) -> str:
        """The return that counts, and what it is the mean of."""
        if self.final_return is not None:
            return (
                f"return {self.final_return:,.1f} (mean of the last evaluation's episodes, "
                f"{self.eval_episodes}, without exploration)"
            )
        if self.training_return is None:
            return "no episode ended"
        return f"return {self.training_return:,.1f} (mean of at most 100 last training episodes, exploring)"


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
            resources.enter_context(locked(folder.path / LOCK, f"run {str(folder.path)!r}"))
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
        config: the run's configuration, the form of the gradient update settled.
        folder: where everything is written.
        model: the agent.
        evaluation: evaluates it now and then; None where the run asks for none.
        resources: closes environments and log files.
        start: where it begins.
        named: callbacks that the configuration names.
    """

    config: RunConfig
    folder: RunFolder
    model: SAC | TD3 | DQN
    evaluation: Evaluate | None
    resources: ExitStack
    start: Start
    named: Sequence[BaseCallback] = ()

    @classmethod
    def prepare(
        cls,
        config: RunConfig,
        folder: RunFolder,
        resources: ExitStack,
        stop_at: float | None = None,
        start: Start | None = None,
    ) -> Training:
        """Make environments, agent and log.

        Args:
            config: the run's configuration.
            folder: an existing run folder.
            resources: gets what must be closed.
            stop_at: mean evaluation return that ends the run early.
            start: where it begins; None is step 0.

        Raises:
            UsageError: if the configuration can't be trained.
        """
        start = start or Start()
        env = resources.enter_context(closing(make_vec_env(config, monitors=folder.monitor)))
        model = build(config, env)
        named = _named_callbacks(config)
        config = config.replace(update=model.choose_update(config.n_timesteps))
        start.apply(model)
        evaluation = None
        if 0 < config.eval_freq <= config.n_timesteps:
            eval_env = resources.enter_context(closing(make_vec_env(config, evaluation=True)))
            evaluation = Evaluate(
                eval_env, folder, config.eval_freq, config.eval_episodes, config.seed, stop_at
            )
        events = events_folder(config, folder)
        try:
            writer = PatientTensorBoard(str(events))
        except OSError as error:
            raise UsageError(
                f"TensorBoard folder {str(events)!r} can't be written: {first_line(error)}"
            ) from error
        logger = OnceLogger(str(events), [writer])
        resources.callback(logger.close)
        model.set_logger(logger)
        return cls(config, folder, model, evaluation, resources, start, named)

    def write_start(self, command: str) -> None:
        """Write what repeats the run: configuration, command, versions.

        Args:
            command: the command line, appended to those before.
        """
        with atomic_write(self.folder.config_yml, "w") as file:
            file.write(self.config.to_yaml())
        add_command(self.folder.path, command)
        write_json(self.folder.versions_json, versions())

    def description(self) -> list[str]:
        """What runs, in lines for the user."""
        actor, critic = n_parameters(self.model)
        rate = updates_per_step(self.model)
        updates = f"{rate:g} per environment step" if rate is not None else "after whole episodes"
        name = run_name(self.config.algo, self.config.critic, self.config.rank)
        return [
            f"{name} on {self.config.env}, seed {self.config.seed}, {self.config.n_timesteps:,} steps",
            f"parameters: {f'actor {actor:,}, ' if actor else ''}{counted_critics(self.model)} {critic:,}",
            f"gradient updates: {updates} ({self.model.update_form})",
            f"run folder: {self.folder.path}",
        ]

    def save(self) -> None:
        """Write the agent as it is now.

        Raises:
            SnaError: if the disk is full.
        """
        folder = self.folder
        with no_room_is_an_error(folder.path):
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
        clock = self.start.clock()
        with (
            Progress(config.n_timesteps, start=model.num_timesteps, shown=progress) as bar,
            StopOnSignal() as stop,
        ):
            guard = NumericalGuard(self.folder.path, bar.say)
            self.resources.callback(guard.close)
            own = [
                guard,
                self._saving(stop, clock, bar.say),
                self.evaluation,
                RankMetrics(seed=config.seed),
                ShowProgress(bar, self.evaluation),
            ]
            try:
                model.learn(
                    config.n_timesteps - self.start.step,
                    [each for each in [*own, *self.named, *callbacks] if each is not None],
                    reset_num_timesteps=False,
                )
            except Interrupted:
                self.save()
                raise
        wall = clock.wall_seconds
        self.save()
        self.resources.close()
        actor, critic = n_parameters(model)
        result = RunResult(
            folder=str(self.folder.path),
            n_timesteps=model.num_timesteps,
            final_return=self.evaluation.last_return if self.evaluation else None,
            best_return=self.evaluation.best_return if self.evaluation else None,
            training_return=recent_return(model),
            wall_seconds=wall,
            cpu_seconds=clock.cpu_seconds,  # worker processes count once they have ended
            steps_per_second=model.num_timesteps / wall,
            actor_parameters=actor,
            critic_parameters=critic,
            update=model.update_form,
            eval_episodes=config.eval_episodes,
        )
        write_json(self.folder.path / "summary.json", asdict(result))
        return result

    def _saving(self, stop: StopOnSignal, clock: Clock, say: Callable[[str], None]) -> SaveCheckpoints:
        """The callback that saves checkpoints, and at first goes on from one."""
        evaluation = self.evaluation
        return SaveCheckpoints(
            Checkpoints(self.folder.checkpoints),
            self.config.save_freq,
            folders=(self.folder.path, events_folder(self.config, self.folder)),
            stop=stop,
            start=self.start.checkpoint,
            best_return=lambda: None if evaluation is None else evaluation.best_return,
            extra=clock.extra,
            say=say,
        )


def _named_callbacks(config: RunConfig) -> list[BaseCallback]:
    """Callbacks that the configuration names."""
    callbacks = []
    for name, kwargs in named_items(config.hyperparams.get("callback")):
        try:
            callbacks.append(load_class(name, BaseCallback)(**kwargs))
        except TypeError as error:
            raise UsageError(f"callback {name!r} can't be made: {first_line(error)}") from error
    return callbacks
