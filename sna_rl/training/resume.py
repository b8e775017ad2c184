"""Going on with a run: in its folder, from its newest whole checkpoint, with the configuration it had."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from stable_baselines3.common.callbacks import BaseCallback

from sna_rl.config import RunConfig, diff
from sna_rl.errors import SnaError, UsageError
from sna_rl.runs import RunFolder, remove_leftovers, versions
from sna_rl.runs.checkpoints import Checkpoints
from sna_rl.runs.files import read_record, refuse_links
from sna_rl.runs.growing import cut_logs
from sna_rl.runs.lock import LOCK, locked
from sna_rl.training.checkpoint import check_fit
from sna_rl.training.guard import NumericalError
from sna_rl.training.logs import events_folder
from sna_rl.training.start import Start
from sna_rl.training.train import RunResult, Training

MAX_RESTORES = 3
DECISIVE = ("python", "torch", "stable-baselines3", "gymnasium", "mujoco", "numpy", "processor", "threads")
"""What must stay the same for a continued run to be bit-equal."""


def tell(line: str) -> None:
    """Print a line for the user on stderr."""
    print(line, file=sys.stderr, flush=True)


def changed_config(
    folder: RunFolder, changes: Mapping[str, object], *, override: bool, gym_packages: Sequence[str] = ()
) -> RunConfig:
    """The run's configuration with what the user changes on the way.

    Args:
        folder: the run.
        changes: fields and hyperparameters given now.
        override: allow other changes than more steps.
        gym_packages: modules the user trusts.

    Returns:
        The configuration to go on with.

    Raises:
        UsageError: if something but a larger `n_timesteps` changes without `override`; the differences are
            listed.
    """
    before = RunConfig.from_yaml(folder.config_yml, gym_packages)
    after = before.replace(**changes)
    differing = diff(before, after)
    if after.n_timesteps >= before.n_timesteps:
        differing.pop("n_timesteps", None)
    if differing and not override:
        listed = ", ".join(f"{key} {old} → {new}" for key, (old, new) in differing.items())
        raise UsageError(
            f"run {str(folder.path)!r} has another configuration ({listed}); --override changes it"
        )
    return after


def find_start(folder: RunFolder, config: RunConfig, say: Callable[[str], None] = tell) -> Start:
    """Newest whole checkpoint of a run, with what was saved beside the agent.

    Args:
        folder: the run.
        config: the configuration to go on with.
        say: is told what the user should know.

    Returns:
        Where to go on; step 0 where the run was ended before its first checkpoint.

    Raises:
        UsageError: if there is nothing left to do.
        SnaError: if there are checkpoints, but none is whole.
    """
    done = _finished_steps(folder)
    if done >= config.n_timesteps:
        raise UsageError(f"run {str(folder.path)!r} has its {done:,} steps; more need -n above that")
    checkpoints = Checkpoints(folder.checkpoints)
    checkpoint = checkpoints.newest(say)
    if checkpoint is None and checkpoints.all():
        raise SnaError(
            f"run {str(folder.path)!r} has no checkpoint that is whole; without its folder checkpoints it "
            "begins at step 0"
        )
    if checkpoint is not None:
        return Start.at(checkpoint)
    if done:
        raise UsageError(
            f"run {str(folder.path)!r} ended without a checkpoint; runs with --save-freq can be made longer"
        )
    say(f"run {str(folder.path)!r} has no checkpoint yet; it begins at step 0")
    return Start()


def go_on(
    folder: RunFolder,
    config: RunConfig,
    start: Start,
    *,
    command: str = "",
    announce: Callable[[str], None] | None = None,
    progress: bool = True,
    callbacks: Sequence[BaseCallback] = (),
) -> RunResult:
    """Train on in a run's folder; the end is bit-equal to that of a run never interrupted.

    Args:
        folder: the run.
        config: its configuration.
        start: where to go on.
        command: the command line, appended to `command.txt`.
        announce: called with each line that says what is about to run.
        progress: show a bar, or lines where stderr is no terminal.
        callbacks: called at every step, beside the run's own.

    Returns:
        Where it was saved and what it reached.

    Raises:
        SnaError: if the checkpoint does not fit the configuration.
    """
    torch.set_num_threads(config.num_threads)
    refuse_links(folder.path, folder.checkpoints, folder.checkpoints / "replay")
    with ExitStack() as resources:
        resources.enter_context(locked(folder.path / LOCK, f"run {str(folder.path)!r}"))
        remove_leftovers(folder.path)
        Checkpoints(folder.checkpoints).go_back_to(start.checkpoint)
        cut_logs(start.logs, folder.path, events_folder(config, folder))
        run = Training.prepare(config, folder, resources, start=start)
        if start.checkpoint is not None:
            check_fit(run.model, start.checkpoint)
        _tell_changes(folder)
        run.write_start(command)
        for line in [*run.description(), f"from step {start.step:,}"] if announce else ():
            announce(line)  # type: ignore[misc]
        return run.learn(progress, callbacks)


def through_failures(
    attempt: Callable[[], RunResult], *, on_nan: str, gym_packages: Sequence[str] = (), **options: Any
) -> RunResult:
    """Train, and on a numerical failure go back to the last checkpoint with half the learning rate.

    Args:
        attempt: trains the first time.
        on_nan: "stop" raises the first failure, "restore" goes back at most three times.
        gym_packages: modules the user trusts.
        **options: of `go_on`.

    Returns:
        What the run came to.

    Raises:
        UsageError: if `on_nan` is neither.
        NumericalError: if it failed for good.
    """
    if on_nan not in ("stop", "restore"):
        raise UsageError(f"--on-nan is stop or restore, not {on_nan!r}")
    n_restores, lr_scale = 0, None
    while True:
        try:
            return attempt()
        except NumericalError as error:
            folder = RunFolder.open(error.folder)
            if on_nan == "stop" or n_restores == MAX_RESTORES:
                raise
            config = RunConfig.from_yaml(folder.config_yml, gym_packages)
            start = find_start(folder, config)
            if start.checkpoint is None:
                raise
            n_restores += 1
            lr_scale = 0.5 * (start.lr_scale if lr_scale is None else lr_scale)
            start = replace(start, lr_scale=lr_scale)
            tell(
                f"{error}; back to step {start.step:,} with the learning rate times {lr_scale:g} "
                f"({n_restores} of {MAX_RESTORES})"
            )
            attempt = _again(folder, config, start, options)


def _again(
    folder: RunFolder, config: RunConfig, start: Start, options: Mapping[str, Any]
) -> Callable[[], RunResult]:
    """The next attempt."""
    return lambda: go_on(folder, config, start, **options)


def _finished_steps(folder: RunFolder) -> int:
    """Steps that the run came to its end with; 0 where it has not ended."""
    summary = folder.path / "summary.json"
    try:
        steps = read_record(summary, ["n_timesteps"]).get("n_timesteps") if summary.exists() else 0
    except SnaError:
        return 0
    return steps if isinstance(steps, int) else 0


def _tell_changes(folder: RunFolder) -> None:
    """Say what differs from where the run was begun, since it then goes on differently in the last bits."""
    try:
        before = read_record(folder.versions_json)
    except SnaError:
        return
    now = versions()
    changed = [f"{key} {before.get(key)} → {now[key]}" for key in DECISIVE if before.get(key) != now[key]]
    if changed:
        tell(f"since the run began {', '.join(changed)}: it goes on, but not bit for bit as it would have")
