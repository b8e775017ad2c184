"""What a distributional head means: a mixture of Gaussians, or bins, for each variable's increment."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

SQRT_2, SQRT_PI = math.sqrt(2.0), math.sqrt(math.pi)


class Mixture(NamedTuple):
    """A mixture of Gaussians for each variable's increment, in deviations of the increments."""

    logits: Float[Tensor, "*batch size components"]
    means: Float[Tensor, "*batch size components"]
    stds: Float[Tensor, "*batch size components"]

    def log_prob(self, x: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """Log density of each variable's increment."""
        z = (x.unsqueeze(-1) - self.means) / self.stds
        logs = -0.5 * z.square() - self.stds.log() - 0.5 * math.log(2 * math.pi)
        return (self.logits.log_softmax(-1) + logs).logsumexp(-1)

    def sample(self, generator: torch.Generator) -> Float[Tensor, "*batch size"]:
        """One draw, each variable by itself."""
        chosen = _drawn(self.logits, generator)
        mean, std = (x.gather(-1, chosen).squeeze(-1) for x in (self.means, self.stds))
        return mean + std * torch.randn(mean.shape, generator=generator, dtype=mean.dtype)

    def crps(self, x: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """Continuous ranked probability score of each variable's increment, exactly.

        Σ_i p_i A(x − μ_i, σ_i) − ½ Σ_ij p_i p_j A(μ_i − μ_j, √(σ_i² + σ_j²)),  A(m, s) = E|m + s · normal|

        Args:
            x: what happened.

        Source:
            Grimit et al. 2006.
        """
        p = self.logits.softmax(-1)
        error = (p * _absolute(x.unsqueeze(-1) - self.means, self.stds)).sum(-1)
        apart = self.means.unsqueeze(-1) - self.means.unsqueeze(-2)
        stds = (self.stds.square().unsqueeze(-1) + self.stds.square().unsqueeze(-2)).sqrt()
        return error - 0.5 * (p.unsqueeze(-1) * p.unsqueeze(-2) * _absolute(apart, stds)).sum((-2, -1))


class Bins(NamedTuple):
    """Probabilities of equal bins of each variable's increment, evenly spread within a bin.

    Args:
        logits: of the bins.
        low: where the first begins, in deviations of the increments.
        high: where the last ends.
    """

    logits: Float[Tensor, "*batch size bins"]
    low: Float[Tensor, ""]
    high: Float[Tensor, ""]

    @property
    def width(self) -> Float[Tensor, ""]:
        """Of a bin."""
        return (self.high - self.low) / self.logits.shape[-1]

    def log_prob(self, x: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """Log density of each variable's increment; beyond the bins that of the nearest one.

        Example:
            >>> bins = Bins(torch.tensor([[0.25, 0.75]]).log(), torch.tensor(-1.0), torch.tensor(1.0))
            >>> bins.log_prob(torch.tensor([0.5])).exp()
            tensor([0.7500])
        """
        last = self.logits.shape[-1] - 1
        index = ((x - self.low) / self.width).floor().clamp(0, last).long()
        chosen = self.logits.log_softmax(-1).gather(-1, index.unsqueeze(-1)).squeeze(-1)
        return chosen - self.width.log()

    def sample(self, generator: torch.Generator) -> Float[Tensor, "*batch size"]:
        """One draw, each variable by itself."""
        chosen = _drawn(self.logits, generator).squeeze(-1)
        within = torch.rand(chosen.shape, generator=generator, dtype=self.logits.dtype)
        return self.low + (chosen + within) * self.width

    def crps(self, x: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """Continuous ranked probability score of each variable's increment, exactly.

        ∫ (F(u) − [u ≥ x])² du, F linear within a bin: from a to b over a width w the integral of F² is
        w (a² + ab + b²) / 3

        Args:
            x: what happened; beyond the bins each unit of distance costs one.

        Example:
            >>> bins = Bins(torch.zeros(1, 1), torch.tensor(0.0), torch.tensor(1.0))
            >>> bins.crps(torch.tensor([0.0]))
            tensor([0.3333])
        """
        inside = x.clamp(self.low, self.high)
        ends = self.logits.softmax(-1).cumsum(-1)
        starts = torch.cat([torch.zeros_like(ends[..., :1]), ends[..., :-1]], -1)
        edges = self.low + torch.arange(ends.shape[-1], device=ends.device) * self.width
        share = ((inside.unsqueeze(-1) - edges) / self.width).clamp(
            0.0, 1.0
        )  # of each bin that lies before x
        middle = starts + share * (ends - starts)
        before = share * _square(starts, middle)
        after = (1.0 - share) * _square(1.0 - middle, 1.0 - ends)
        return self.width * (before + after).sum(-1) + (x - inside).abs()


def _drawn(logits: Tensor, generator: torch.Generator) -> Tensor:
    """One number for each distribution, (…, 1)."""
    flat = logits.softmax(-1).flatten(0, -2)
    return torch.multinomial(flat, 1, generator=generator).view(*logits.shape[:-1], 1)


def _absolute(mean: Tensor, std: Tensor) -> Tensor:
    """Expected absolute value of a normal variable, 2 s φ(m/s) + m (2 Φ(m/s) − 1)."""
    z = mean / (std * SQRT_2)
    expected: Tensor = std * SQRT_2 / SQRT_PI * (-z.square()).exp() + mean * torch.special.erf(z)
    return expected


def _square(a: Tensor, b: Tensor) -> Tensor:
    """Mean square of what goes evenly from a to b."""
    return (a.square() + a * b + b.square()) / 3.0
