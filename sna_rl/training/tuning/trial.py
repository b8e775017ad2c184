"""One trial of a tuning study, in a process of its own: train over seeds, report, stop when told to."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import optuna
import torch
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from stable_baselines3.common.callbacks import BaseCallback

from sna_rl.config import RunConfig
from sna_rl.errors import SnaError
from sna_rl.runs import RunFolder, run_name
from sna_rl.training.callbacks import Evaluate
from sna_rl.training.train import Training
from sna_rl.training.tuning.storage import open_storage

OBJECTIVES: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "auc": lambda returns: float(np.mean(returns)),
    "last": lambda returns: float(returns[-1]),
    "best": lambda returns: float(np.max(returns)),
}
"""What a run counts for: area under its evaluation curve divided by its length, last or best evaluation."""
SIGN: Final = "last sign"
"""Attribute of a trial: when it last reported, in seconds since 1970."""
PRUNERS: Final = ("median", "hyperband", "halving", "none")


def make_pruner(name: str, n_startup_trials: int, n_evaluations: int) -> BasePruner:
    """The pruner of a name; the first third of the evaluations is never judged by the median.

    Args:
        name: one of `PRUNERS`.
        n_startup_trials: trials before the median counts.
        n_evaluations: evaluations of a whole trial, all seeds together.
    """
    if name == "median":
        return MedianPruner(n_startup_trials, n_warmup_steps=n_evaluations // 3)
    if name == "hyperband":
        return HyperbandPruner(min_resource=1, max_resource=n_evaluations)
    return SuccessiveHalvingPruner(min_resource=1) if name == "halving" else NopPruner()


class ReportEvaluations(BaseCallback):
    """Reports each new evaluation of a run, and ends the run when told to.

    Args:
        evaluation: the run's evaluation.
        report: takes number and mean return of an evaluation; True ends the run.
    """

    def __init__(self, evaluation: Evaluate, report: Callable[[int, float], bool]) -> None:
        super().__init__()
        self.evaluation = evaluation
        self.report = report
        self.n_reported = 0
        self.is_stopped = False

    def _on_step(self) -> bool:
        returns = self.evaluation.returns[self.n_reported :]
        for episode_returns in returns:
            self.is_stopped = self.report(self.n_reported, float(np.mean(episode_returns)))
            self.n_reported += 1
        return not self.is_stopped


def run_trial(
    config: Mapping[str, Any],
    seeds: Sequence[int],
    objective: str,
    root: str,
    reporting: Mapping[str, Any],
) -> dict[str, Any]:
    """Train a trial's configuration with every seed.

    Intermediate value i is the return at the evaluation that i counts to, averaged over the seeds run so far.

    Args:
        config: the configuration as plain data, its seed left out of account.
        seeds: seeds to train with.
        objective: one of `OBJECTIVES`.
        root: folder of the trial's runs.
        reporting: fields of `Reporting`.

    Returns:
        `value`, None where the trial was pruned; and `curves`, one list of returns a seed.

    Raises:
        SnaError: if training fails or the value is not finite.
    """
    reporter = _Reporter(Reporting(**reporting), len(seeds))
    shutil.rmtree(root, ignore_errors=True)
    curves: list[list[float]] = []
    for seed in seeds:
        curves.append([])
        if _is_pruned(RunConfig.from_dict({**config, "seed": seed}), root, reporter, curves):
            return {"value": None, "curves": curves}
    value = float(np.mean([OBJECTIVES[objective](curve) for curve in curves]))
    if not math.isfinite(value):
        raise SnaError(f"the objective is {value}")
    return {"value": value, "curves": curves}


@dataclass(frozen=True)
class Reporting:
    """A trial's line to its study, as plain data.

    Args:
        storage: what `open_storage` takes.
        folder: folder of the study.
        study: name of the study.
        number: number of the trial.
        pruner: one of `PRUNERS`.
        n_startup_trials: trials before the median counts.
        n_evaluations: evaluations of one run.
    """

    storage: str | None
    folder: str
    study: str
    number: int
    pruner: str
    n_startup_trials: int
    n_evaluations: int


class _Reporter:
    """Reports values and asks the pruner."""

    def __init__(self, line: Reporting, n_seeds: int) -> None:
        self.line = line
        self.storage = open_storage(line.storage, Path(line.folder)).backend
        self.pruner = make_pruner(line.pruner, line.n_startup_trials, line.n_evaluations * n_seeds)
        self.study = optuna.load_study(study_name=line.study, storage=self.storage, pruner=self.pruner)
        study_id = self.storage.get_study_id_from_name(line.study)
        self.trial_id = self.storage.get_trial_id_from_study_id_trial_number(study_id, line.number)

    def report(self, step: int, value: float) -> bool:
        """Report a value; whether the trial should end."""
        if not math.isfinite(value):
            raise SnaError(f"evaluation {step + 1} returned {value}")
        self.storage.set_trial_intermediate_value(self.trial_id, step, value)
        self.storage.set_trial_user_attr(self.trial_id, SIGN, time.time())
        return bool(self.pruner.prune(self.study, self.storage.get_trial(self.trial_id)))


def _is_pruned(config: RunConfig, root: str, reporter: _Reporter, curves: list[list[float]]) -> bool:
    """Train one seed, its returns appended to the last of `curves`."""

    def report(index: int, value: float) -> bool:
        curves[-1].append(value)
        so_far = [curve[index] for curve in curves if index < len(curve)]
        return reporter.report(
            (len(curves) - 1) * reporter.line.n_evaluations + index, float(np.mean(so_far))
        )

    torch.set_num_threads(config.num_threads)
    name = run_name(config.algo, config.critic, config.rank)
    with ExitStack() as resources:
        run = Training.prepare(config, RunFolder.create(root, config.env, name, config.seed), resources)
        assert run.evaluation is not None
        run.write_start("")
        callback = ReportEvaluations(run.evaluation, report)
        run.learn(progress=False, callbacks=[callback])
    return callback.is_stopped
