"""Roll-outs of a forecasting model, the simple forecasts it must beat, and the numbers of one evaluation."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from sna_rl.language.forecast_scores import Climate, crps, diverged, spectrum_error, spread_error_ratio
from sna_rl.language.systems import advancer
from sna_rl.separable.checks import check_int

LEADS = 10  # steps of a scored forecast
SMALLEST_NOISE = 1e-30  # variance that keeps a noiseless system's covariance definite
LOST = 1e6  # no state of any system here is near it
RIDGE = 1e-6  # added to the states' second moment, relative to its trace


@runtime_checkable
class Predictor(Protocol):
    """Anything that draws a next state."""

    n_context: int

    def predict(
        self, states: Float[Tensor, "batch time size"], generator: torch.Generator
    ) -> Float[Tensor, "batch size"]:
        """Next states from the last ones."""


class LinearGaussian:
    """x_{t+1} = A x_t + b + noise, least squares, the noise with the residuals' full covariance.

    Args:
        states: training trajectories.

    Example:
        >>> steps = 0.5 ** torch.arange(9).view(1, 9, 1)
        >>> LinearGaussian(steps).predict(torch.tensor([[[2.0]]]), torch.Generator()).round(decimals=2)
        tensor([[1.]])
    """

    n_context = 1

    def __init__(self, states: Float[Tensor, "trajectories time size"]) -> None:
        before, after = (x.flatten(0, 1).double() for x in (states[:, :-1], states[:, 1:]))
        inputs = torch.cat([before, torch.ones_like(before[:, :1])], 1)
        moment = inputs.mT @ inputs / len(inputs)
        ridge = RIDGE * moment.trace() / len(moment) * torch.eye(len(moment), dtype=moment.dtype)
        self.weights = torch.linalg.solve(moment + ridge, inputs.mT @ after / len(inputs))
        residuals = after - inputs @ self.weights
        noise = residuals.mT @ residuals / len(inputs)
        floor = torch.finfo(torch.float32).eps * noise.trace() + SMALLEST_NOISE
        self.noise = torch.linalg.cholesky(noise + floor * torch.eye(len(noise), dtype=noise.dtype))

    def predict(
        self, states: Float[Tensor, "batch time size"], generator: torch.Generator
    ) -> Float[Tensor, "batch size"]:
        """A draw of the next states."""
        last = states[:, -1].double()
        mean = last @ self.weights[:-1] + self.weights[-1]
        draws = torch.randn(mean.shape, generator=generator, dtype=mean.dtype)
        drawn: Tensor = (mean + draws @ self.noise.mT).to(states.dtype)
        return drawn


class Climatology:
    """A state of the training trajectories drawn at random, whatever the last ones were.

    Args:
        states: training trajectories.
    """

    n_context = 1

    def __init__(self, states: Float[Tensor, "trajectories time size"]) -> None:
        self.states = states.flatten(0, 1)

    def predict(
        self, states: Float[Tensor, "batch time size"], generator: torch.Generator
    ) -> Float[Tensor, "batch size"]:
        """Drawn states."""
        return self.states[torch.randint(len(self.states), (len(states),), generator=generator)]


class TrueSystem:
    """The system itself: what is left of a score's distance to its best is the test's sampling.

    Args:
        system: its name.
    """

    n_context = 1

    def __init__(self, system: str) -> None:
        self.advance = advancer(system)

    def predict(
        self, states: Float[Tensor, "batch time size"], generator: torch.Generator
    ) -> Float[Tensor, "batch size"]:
        """The states that follow."""
        return self.advance(states[:, -1].double()).to(states.dtype)


def roll_out(
    predictor: Predictor,
    states: Float[Tensor, "batch time size"],
    n_steps: int,
    generator: torch.Generator,
) -> Float[Tensor, "batch steps size"]:
    """Feed a model its own forecasts; one that runs away is NaN from there on.

    Args:
        predictor: the model.
        states: true states to begin with.
        n_steps: forecasts.
        generator: of the draws.
    """
    check_int("n_steps", n_steps, 1)
    context = states[:, -predictor.n_context :]
    lost = torch.zeros(len(states), dtype=torch.bool)
    forecasts = []
    for _ in range(n_steps):
        following = predictor.predict(context.masked_fill(lost[:, None, None], 0.0), generator)
        lost = lost | ~(following.abs() < LOST).all(1)
        following = following.masked_fill(lost[:, None], torch.nan)
        forecasts.append(following)
        context = torch.cat([context, following.unsqueeze(1)], 1)[:, -predictor.n_context :]
    return torch.stack(forecasts, 1)


def score_forecasts(
    predictor: Predictor,
    test: Float[Tensor, "trajectories time size"],
    climate: Climate,
    *,
    n_members: int = 20,
    seed: int = 0,
) -> dict[str, float]:
    """Ensemble forecasts of 10 steps from every tenth state on.

    Args:
        predictor: the model.
        test: trajectories that nothing was trained on, with room for context and 10 steps.
        climate: of the training trajectories.
        n_members: members of an ensemble.
        seed: of the draws.

    Returns:
        "crps" (mean of the 10 leads, in climatological deviations), "crps_last" (at lead 10), "rmse_last" (of
        the mean), "spread_error" (at lead 10).
    """
    n_context = predictor.n_context
    starts = range(n_context, test.shape[1] - LEADS + 1, LEADS)
    context = torch.cat([test[:, start - n_context : start] for start in starts])
    truth = torch.cat([test[:, start : start + LEADS] for start in starts])
    generator = torch.Generator().manual_seed(seed)
    ensemble = roll_out(predictor, context.repeat(n_members, 1, 1), LEADS, generator)
    ensemble = ensemble.view(n_members, *truth.shape)
    scores = crps(ensemble, truth) / climate.std
    error = (ensemble[:, :, -1].mean(0) - truth[:, -1]) / climate.std
    return {
        "crps": float(scores.mean()),
        "crps_last": float(scores[:, -1].mean()),
        "rmse_last": float(error.square().mean().sqrt()),
        "spread_error": spread_error_ratio(ensemble[:, :, -1], truth[:, -1]),
    }


def score_long(
    predictor: Predictor,
    test: Float[Tensor, "trajectories time size"],
    climate: Climate,
    *,
    n_steps: int = 10_000,
    seed: int = 0,
    truth: Float[Tensor, "trajectories2 time2 size"] | None = None,
) -> dict[str, float]:
    """One long roll-out from the start of each test trajectory.

    Args:
        predictor: the model.
        test: trajectories that nothing was trained on.
        climate: of the training trajectories.
        n_steps: forecasts of each.
        seed: of the draws.
        truth: states whose spectrum is the true one; None for the test's. Few of them, or few roll-outs, show
            a distance of their own.

    Returns:
        "spectrum_error" in decades, "n_diverged" of "n_rollouts".
    """
    generator = torch.Generator().manual_seed(seed)
    states = roll_out(predictor, test[:, : predictor.n_context], n_steps, generator)
    return {
        "spectrum_error": spectrum_error(states, test if truth is None else truth, climate),
        "n_diverged": float(diverged(states, climate).sum()),
        "n_rollouts": float(len(test)),
    }
