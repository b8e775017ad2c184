"""Claims trials of a study one by one, tells it how they ended, and begins anew what was killed."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import ceil
from pathlib import Path
from typing import Any, Final

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from sna_rl.training.studies.workers import Outcome, Unit
from sna_rl.training.tuning.search import applied
from sna_rl.training.tuning.settings import Tuning, make_sampler
from sna_rl.training.tuning.storage import Storage
from sna_rl.training.tuning.trial import SIGN, Reporting

KILLED: Final = "its process was killed"
SURPLUS: Final = "other processes had taken the last trials"
SILENT_FOR: Final = 3600.0
"""Seconds without a sign after which a trial of another machine counts as dead."""


class TrialQueue:
    """The trials that one process runs.

    Args:
        tuning: what is tuned.
        study: Optuna's study.
        storage: where it is kept.
        given: what `open_storage` took.
        path: folder of the study.
    """

    def __init__(
        self, tuning: Tuning, study: optuna.study.Study, storage: Storage, given: str | None, path: Path
    ) -> None:
        self.tuning, self.study, self.storage, self.given, self.path = tuning, study, storage, given, path
        self.running: dict[str, Trial] = {}
        self.last_value: float | None = None

    @property
    def best_value(self) -> float | None:
        """Largest value of a completed trial so far."""
        best = best_trial(self.study.get_trials(deepcopy=False))
        return None if best is None else best.value

    @property
    def n_ended(self) -> int:
        """Trials of the study that have ended and count."""
        trials = self.study.get_trials(deepcopy=False)
        return sum(trial.state.is_finished() and _counts(trial) for trial in trials)

    def units(self) -> Iterator[Unit]:
        """The next trial each time one is asked for, until there are enough."""
        n_claimed = 0
        while self.tuning.max_total_trials is not None or n_claimed < self.tuning.n_trials:
            trial = self._claim()
            if trial is None:
                return
            n_claimed += 1
            unit = self._unit(trial)
            self.running[unit.name] = trial
            yield unit

    def end(self, outcome: Outcome) -> str:
        """Tell the study how a trial ended.

        Args:
            outcome: what its process came to.

        Returns:
            A line for the user.
        """
        trial = self.running.pop(outcome.unit.name)
        shown = ", ".join(f"{name} {_short(value)}" for name, value in trial.user_attrs["values"].items())
        trial.set_user_attr("seconds", outcome.seconds)
        if outcome.reason is not None:
            trial.set_user_attr("reason", outcome.reason)
            self.study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
            return f"trial {trial.number}: failed: {outcome.reason} ({shown})"
        trial.set_user_attr("curves", outcome.value["curves"])
        if outcome.value["value"] is None:
            self.study.tell(trial.number, state=TrialState.PRUNED, skip_if_finished=True)
            return f"trial {trial.number}: pruned ({shown})"
        self.last_value = float(outcome.value["value"])
        self.study.tell(trial.number, self.last_value, skip_if_finished=True)
        best = self.study.best_trial
        return (
            f"trial {trial.number}: {self.last_value:,.2f}, "
            f"best {best.value:,.2f} of trial {best.number} ({shown})"
        )

    def give_back(self) -> None:
        """Queue again what was running, for the next call."""
        for trial in self.running.values():
            self._requeue(trial.number, trial.params)
        self.running.clear()

    def give_up_dead(self) -> int:
        """Queue again the trials whose process is gone.

        Returns:
            How many there were.
        """
        running = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        dead = [trial for trial in running if _is_dead(trial)]
        for trial in dead:
            self._requeue(trial.number, trial.params)
        return len(dead)

    def _unit(self, trial: Trial) -> Unit:
        """The call that trains a trial."""
        line = Reporting(
            storage=self.given,
            folder=str(self.path),
            study=self.tuning.name,
            number=trial.number,
            pruner=self.tuning.pruner,
            n_startup_trials=self.tuning.n_startup_trials,
            n_evaluations=self.tuning.n_evaluations,
        )
        arguments = {
            "config": trial.user_attrs["config"],
            "seeds": list(self.tuning.seeds),
            "objective": self.tuning.objective,
            "root": str(self.path / "trials" / str(trial.number)),
            "reporting": asdict(line),
        }
        log = self.path / "logs" / f"trial-{trial.number}.txt"
        call = "sna_rl.training.tuning.trial:run_trial"
        return Unit(f"trial {trial.number}", call, arguments, log, self.tuning.timeout)

    def _claim(self) -> Trial | None:
        """The next trial with its configuration, None where there are enough."""
        tuning, limit = self.tuning, self.tuning.max_total_trials
        with self.storage.exclusive(tuning.name) as is_exclusive:
            trials = self.study.get_trials(deepcopy=False)
            n_counted = sum(_counts(trial) for trial in trials)
            if limit is not None and n_counted >= limit:
                return None
            best = best_trial(trials)
            further = bool(tuning.space.then) and best is not None and n_counted >= ceil(tuning.n_planned / 2)
            first = [each.name for each in tuning.space.first] if further else []
            held = {name: best.params[name] for name in first if best and name in best.params}
            self.study.sampler = make_sampler(tuning, len(trials), held)
            trial = self.study.ask(
                {each.name: each.distribution for each in tuning.space.parameters(further)}
            )
            worker = {"host": socket.gethostname(), "pid": os.getpid(), "at": time.time()}
            trial.set_user_attr("worker", worker)
            values = tuning.space.values(trial.params)
            trial.set_user_attr("values", values)
            trial.set_user_attr("config", applied(tuning.config, values).to_dict())
        if not is_exclusive and limit is not None and self._is_surplus(trial, limit):
            trial.set_user_attr("reason", SURPLUS)
            self.study.tell(trial.number, state=TrialState.FAIL)
            return None
        return trial

    def _is_surplus(self, trial: Trial, limit: int) -> bool:
        """Whether others took the last places while this trial was asked for: numbers are given in order."""
        trials = self.study.get_trials(deepcopy=False)
        return sum(_counts(each) for each in trials if each.number < trial.number) >= limit

    def _requeue(self, number: int, params: Mapping[str, Any]) -> None:
        """Fail a trial as killed and queue its parameters."""
        backend = self.storage.backend
        study_id = backend.get_study_id_from_name(self.tuning.name)
        trial_id = backend.get_trial_id_from_study_id_trial_number(study_id, number)
        backend.set_trial_user_attr(trial_id, "reason", KILLED)
        self.study.tell(number, state=TrialState.FAIL, skip_if_finished=True)
        self.study.enqueue_trial(dict(params))


def _counts(trial: FrozenTrial) -> bool:
    """Whether a trial counts towards the total: not while it waits, nor if it was killed and begun anew."""
    return trial.state != TrialState.WAITING and trial.user_attrs.get("reason") not in (KILLED, SURPLUS)


def best_trial(trials: Sequence[FrozenTrial]) -> FrozenTrial | None:
    """The completed trial of the largest value, None where none completed.

    Args:
        trials: trials of a study.
    """
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    return max(
        complete, key=lambda trial: float("-inf") if trial.value is None else trial.value, default=None
    )


def _is_dead(trial: FrozenTrial) -> bool:
    """Whether a running trial's process is gone, or has been silent for too long on another machine."""
    worker = trial.user_attrs.get("worker")
    try:
        host, pid, at = worker["host"], int(worker["pid"]), float(worker["at"])  # type: ignore[index]
        last_sign = max(at, float(trial.user_attrs.get(SIGN, 0.0)))
    except (TypeError, KeyError, ValueError, OverflowError):  # nobody has signed for it
        return True
    if host != socket.gethostname():
        return time.time() - last_sign > SILENT_FOR
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False


def _short(value: Any) -> str:
    """A value in a line."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
