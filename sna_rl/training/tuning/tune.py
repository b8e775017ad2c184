"""Tune hyperparameters: trials in processes of their own, on one storage, from any number of machines."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import optuna

from sna_rl.config.plain import differences
from sna_rl.errors import UsageError
from sna_rl.runs import Progress
from sna_rl.runs.files import refuse_links
from sna_rl.runs.folder import writing_below
from sna_rl.runs.interruption import Interrupted
from sna_rl.training.environments import register
from sna_rl.training.studies.workers import Pool
from sna_rl.training.tuning.queue import TrialQueue
from sna_rl.training.tuning.settings import Tuning
from sna_rl.training.tuning.storage import Storage, open_storage


@dataclass(frozen=True)
class Tuned:
    """A tuning study after a call.

    Args:
        study: Optuna's study.
        path: folder of the study.
        n_run: trials that this call ran.
    """

    study: optuna.study.Study
    path: Path
    n_run: int


def tune(
    tuning: Tuning,
    folder: Path,
    pool: Pool,
    *,
    storage: str | None = None,
    say: Callable[[str], None] = print,
    progress: bool = True,
) -> Tuned:
    """Run trials until their number is reached; an existing study of that name goes on.

    Args:
        tuning: what to tune.
        folder: log folder; the study gets its own folder there.
        pool: where trials run.
        storage: what `open_storage` takes; None is a journal file in the study's folder.
        say: called with each line for the user.
        progress: show a bar, or lines where stderr is no terminal.

    Returns:
        The study.

    Raises:
        UsageError: if the environment is unknown, or the study was begun with other settings or space.
        SnaError: if the storage can't be reached.
        Interrupted: after Ctrl-C; trials that ran are begun anew by the next call.
    """
    register(tuning.config.env, tuning.config.gym_packages)
    path = folder / tuning.name
    refuse_links(path, path / "logs")
    opened = open_storage(storage, path)
    with writing_below(folder):
        (path / "logs").mkdir(parents=True, exist_ok=True)
    with opened.exclusive(tuning.name):
        study = _create(tuning, opened)
        queue = TrialQueue(tuning, study, opened, storage, path)
        n_dead = queue.give_up_dead()
    if n_dead:
        say(f"{n_dead} trials whose process was killed are begun anew")
    n_run, steps = 0, tuning.config.n_timesteps * len(tuning.seeds)
    start = steps * queue.n_ended if tuning.max_total_trials else 0
    try:
        with Progress(steps * tuning.n_planned, start=start, shown=progress) as bar:
            for outcome in pool.run(queue.units()):
                n_run += 1
                bar.say(queue.end(outcome))
                bar.update(bar.done + steps, queue.last_value, queue.best_value)
    except KeyboardInterrupt:
        queue.give_back()
        raise Interrupted(
            "stopped; finished trials stay, and the same command goes on", signal.SIGINT
        ) from None
    return Tuned(study, path, n_run)


def _create(tuning: Tuning, storage: Storage) -> optuna.study.Study:
    """The study, new or going on; one begun with other settings is refused."""
    study = optuna.create_study(
        study_name=tuning.name, storage=storage.backend, direction="maximize", load_if_exists=True
    )
    settings = tuning.settings()
    if "settings" not in study.user_attrs:
        study.set_user_attr("settings", settings)
    begun = study.user_attrs["settings"]
    if not isinstance(begun, Mapping):
        raise UsageError(f"study {tuning.name!r} was not made by sna-rl tune; give another --study-name")
    changed = differences(begun, settings)
    if changed:
        key, (before, now) = next(iter(changed.items()))
        raise UsageError(
            f"study {tuning.name!r} was begun with {key} {before}, not {now}: its trials can't be compared "
            f"with new ones; give another --study-name, or the old value"
        )
    return study
