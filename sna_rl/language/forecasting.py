"""Runs of forecasters: begun, continued, and the scores at their end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from sna_rl.language.forecast import Forecaster, equal_parameters
from sna_rl.language.forecast_scores import Climate
from sna_rl.language.rollout import Climatology, LinearGaussian, Predictor, score_forecasts, score_long
from sna_rl.language.running import make_optimizer
from sna_rl.language.settings import DynamicsSettings
from sna_rl.language.systems import SIZES, trajectories
from sna_rl.language.tasks import ForecastTask
from sna_rl.runs.atomic import write_json
from sna_rl.runs.fit import fit
from sna_rl.runs.fit_folder import go_on_in, new_run, open_run

TEST_SEED = 1_000_000  # added to a run's seed for the starts of the test trajectories
TEST_STATES = 150  # of each test trajectory: 14 forecasts of 10 steps
BASELINES = ("linear-gaussian", "climatology")
N_LAYERS_BESIDE = 3  # of the models that the separable one is compared with


def make_forecaster(settings: DynamicsSettings) -> Forecaster:
    """The model of a run, drawn from its seed; MLP and convolution have as many parameters as the separable.

    Args:
        settings: system, trunk, head, sizes of the separable model.
    """
    config = replace(settings.model, size=SIZES[settings.system.system])
    torch.manual_seed(settings.fit.seed)
    if config.trunk == "separable":
        return Forecaster(config)
    separable = Forecaster(replace(config, trunk="separable"))
    n_parameters = sum(parameter.numel() for parameter in separable.parameters())
    return Forecaster(equal_parameters(replace(config, n_layers=N_LAYERS_BESIDE), n_parameters))


def begin_forecaster(
    settings: DynamicsSettings, folder: Path, command: str, *, progress: bool = True
) -> tuple[Path, dict[str, float]]:
    """Train a forecaster in a new run and score it.

    Args:
        settings: all that repeats it.
        folder: of all runs.
        command: the command line, for the record.
        progress: show how far it is.

    Returns:
        The run folder, and the scores of `rollout`; they are in its `scores.json` too.
    """
    make_forecaster(settings)  # what can't be built leaves no folder
    name = f"{settings.model.trunk}-{settings.model.head}"
    run = new_run(folder, settings.system.system, name, settings.plain(), command)
    return run, _train(settings, run, progress)


def continue_forecaster(run: Path, command: str, *, progress: bool = True) -> dict[str, float]:
    """Continue a run where its newest whole checkpoint stands, and score it.

    Args:
        run: its folder.
        command: the command line, for the record.
        progress: show how far it is.

    Raises:
        UsageError: if there is no run.
    """
    settings = DynamicsSettings.of(open_run(run))
    go_on_in(run, command)
    return _train(settings, run, progress)


def score_baseline(name: str, settings: DynamicsSettings) -> dict[str, float]:
    """Scores of a forecast that is not trained by steps.

    Args:
        name: in `BASELINES`.
        settings: the system and its data.
    """
    train, test = _data(settings)
    predictor = LinearGaussian(train) if name == "linear-gaussian" else Climatology(train)
    return _scores(predictor, train, test, settings)


def _train(settings: DynamicsSettings, run: Path, progress: bool) -> dict[str, float]:
    """Train in a run folder, then score."""
    train, test = _data(settings)
    model = make_forecaster(settings)
    batch_size, noise = settings.learn.batch_size, settings.system.noise
    task = ForecastTask(model, train, test, settings.fit, batch_size, noise)
    fit(model, make_optimizer(model, settings.learn), task, settings.fit, run, progress=progress)
    scores = _scores(model.eval(), train, test, settings)
    write_json(run / "scores.json", scores)
    return scores


def _data(settings: DynamicsSettings) -> tuple[torch.Tensor, torch.Tensor]:
    """Trajectories to learn from, and to test with from other starts."""
    system, seed = settings.system, settings.fit.seed
    train = trajectories(system.system, system.n_trajectories, system.n_states, seed=seed)
    return train, trajectories(system.system, system.n_test, TEST_STATES, seed=seed + TEST_SEED)


def _scores(
    predictor: Predictor, train: torch.Tensor, test: torch.Tensor, settings: DynamicsSettings
) -> dict[str, float]:
    """All scores of a forecast."""
    climate, seed = Climate(train), settings.fit.seed
    long = score_long(predictor, test, climate, n_steps=settings.system.long_steps, seed=seed)
    return {**score_forecasts(predictor, test, climate, seed=seed), **long}
