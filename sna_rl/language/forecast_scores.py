"""How good an ensemble forecast is, and whether long roll-outs stay on the attractor."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

BEYOND = 10.0  # climatological standard deviations from the mean that no state of the attractor reaches
SMALLEST_SHARE = 1e-6  # of the true power, below which a wavenumber holds rounding or a conserved quantity


def crps(ensemble: Float[Tensor, members * shape], truth: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Continuous ranked probability score of an ensemble, without the bias of its finite size.

    (1/M) Σ_m |x_m − y| − (1/(2 M (M − 1))) Σ_{m,n} |x_m − x_n|

    Args:
        ensemble: M forecasts; one alone is scored by its absolute error.
        truth: what happened.

    Returns:
        Scores in the units of the state; lower is better, 0 at best for a sure and right forecast.

    Cost:
        M log M a number.

    Source:
        Ferro 2014 (fair CRPS).

    Example:
        >>> crps(torch.tensor([[0.0], [2.0]]), torch.tensor([1.0]))
        tensor([0.])
    """
    error = (ensemble - truth).abs().mean(0)
    n = len(ensemble)
    if n == 1:
        return error
    ordered = ensemble.sort(0).values
    weights = 2.0 * torch.arange(n, dtype=ensemble.dtype, device=ensemble.device) - (n - 1)
    spread = (weights.view(-1, *[1] * (ensemble.dim() - 1)) * ordered).sum(0) / (n * (n - 1))
    return error - spread


def spread_error_ratio(ensemble: Float[Tensor, members * shape], truth: Float[Tensor, "*shape"]) -> float:
    """Spread of the ensemble over the error of its mean: 1 where the forecast is as sure as it may be.

    √((M + 1)/M · mean variance) / RMSE of the mean

    Args:
        ensemble: M ≥ 2 forecasts.
        truth: what happened.

    Returns:
        Under 1 for a forecast that is too sure; 0 for one without spread.

    Source:
        Fortin et al. 2014.

    Example:
        >>> torch.manual_seed(0) and spread_error_ratio(torch.randn(50, 4000), torch.randn(4000)) > 0.97
        True
    """
    n = len(ensemble)
    variance = ensemble.var(0).mean() * (n + 1) / n
    error = (ensemble.mean(0) - truth).square().mean()
    return float((variance / error).sqrt())


def diverged(states: Float[Tensor, "rollouts states size"], climate: Climate) -> Bool[Tensor, " rollouts"]:
    """Which roll-outs left the attractor: a number that is not finite, or ten deviations from the mean.

    Args:
        states: long roll-outs.
        climate: of the true system.
    """
    inside = ((states - climate.mean).abs() <= BEYOND * climate.std).flatten(1)
    return ~inside.all(1)  # a comparison with NaN is False


def spectrum(states: Float[Tensor, "*batch size"]) -> Float[Tensor, " waves"]:
    """Mean power of each wavenumber around the ring.

    Args:
        states: of any number of times and roll-outs.

    Example:
        >>> ring = torch.cos(torch.arange(8) * torch.pi / 4)
        >>> spectrum(ring[None]).argmax()
        tensor(1)
    """
    power: Tensor = torch.fft.rfft(states.double()).abs().square()
    return power.flatten(0, -2).mean(0)


def spectrum_error(
    states: Float[Tensor, "rollouts states size"], truth: Float[Tensor, "*batch size"], climate: Climate
) -> float:
    """Mean distance of the log spectrum to the true one, over the roll-outs that have not diverged.

    mean_k |log10 P(k) − log10 P_true(k)|, over the wavenumbers with a millionth of the true power or more:
    what is damped away or conserved has no spectrum to be right about.

    Args:
        states: long roll-outs.
        truth: states of the true system.
        climate: of the true system.

    Returns:
        Decades; infinite where every roll-out diverged.
    """
    whole = states[~diverged(states, climate)]
    if not len(whole):
        return float("inf")
    true = spectrum(truth)
    distance = (spectrum(whole).log10() - true.log10()).abs()
    return float(distance[true >= SMALLEST_SHARE * true.sum()].mean())


class Climate:
    """Mean and standard deviation of a system's states, one of each for the whole ring.

    Args:
        states: many states on the attractor.

    Example:
        >>> climate = Climate(torch.tensor([[[1.0, 3.0]]]))
        >>> climate.mean, climate.std
        (2.0, 1.0)
    """

    def __init__(self, states: Float[Tensor, "*batch size"]) -> None:
        self.mean = float(states.double().mean())
        self.std = float(states.double().std(correction=0))
