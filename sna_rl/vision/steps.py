"""How far each update goes: step sizes that are fixed, learned for each iteration, or computed per token."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sna_rl.errors import UsageError
from sna_rl.vision.config import ModelConfig
from sna_rl.vision.normaliser import Normaliser

TIME_SIZE = 512
LONGEST_PERIOD = 10_000.0


class StepPolicy(nn.Module, ABC):
    """Step sizes of the updates of an iteration."""

    @abstractmethod
    def forward(
        self, t: int, start: Float[Tensor, "batch tokens width"], state: Float[Tensor, "batch tokens width"]
    ) -> tuple[Tensor, ...]:
        """One step for each update, each to be multiplied with (batch, tokens, width).

        Args:
            t: number of the iteration, from 0.
            start: x(0), the embedded tokens.
            state: x_t.
        """


class FixedSteps(StepPolicy):
    """One number for all.

    Args:
        n_updates: updates of an iteration.
        size: the step.
    """

    def __init__(self, n_updates: int, size: float) -> None:
        super().__init__()
        self.register_buffer("size", torch.tensor(size), persistent=False)
        self.n_updates = n_updates

    def forward(
        self, t: int, start: Float[Tensor, "batch tokens width"], state: Float[Tensor, "batch tokens width"]
    ) -> tuple[Tensor, ...]:
        """The number, as often as there are updates."""
        return (self.get_buffer("size"),) * self.n_updates


class IterationSteps(StepPolicy):
    """One learned vector for each update of each iteration: zero at the start, or a positive step size.

    Iterations beyond those of training take the last one's.

    Args:
        n_updates: updates of an iteration.
        config: n_iterations, width, positive_steps, step_size.
    """

    def __init__(self, n_updates: int, config: ModelConfig) -> None:
        super().__init__()
        shape = (config.n_iterations, n_updates, config.width)
        self.steps = nn.Parameter(torch.full(shape, _first_number(config)))
        self.positive = config.positive_steps

    def forward(
        self, t: int, start: Float[Tensor, "batch tokens width"], state: Float[Tensor, "batch tokens width"]
    ) -> tuple[Tensor, ...]:
        """The iteration's vectors."""
        steps = self.steps[min(t, len(self.steps) - 1)]
        return (F.softplus(steps) if self.positive else steps).unbind()


class ConditionedSteps(StepPolicy):
    """Steps for each channel of each token, from the iteration and from x(0) or x_t.

    steps = Linear(GELU(time(t) + signal)), the last Linear zero at the start and nothing else, so that the
    steps learn to differ between iterations. signal is x(0), or RMSNorm(x_t). time is a sinusoid through

    - mlp: Linear, GELU, Linear
    - normed: the same with a norm behind each of the three
    - sinusoid: nothing, and the sum is normalised instead.

    Args:
        n_updates: updates of an iteration.
        config: width, steps (start or current), step_time, positive_steps, step_size, eps.

    Raises:
        UsageError: if a sinusoid does not fill the width.

    Cost:
        n_updates · d² products a token.

    Example:
        >>> policy = ConditionedSteps(2, ModelConfig(width=8, n_heads=2))
        >>> [step.shape for step in policy(0, torch.zeros(1, 3, 8), torch.zeros(1, 3, 8))]
        [torch.Size([1, 3, 8]), torch.Size([1, 3, 8])]
    """

    def __init__(self, n_updates: int, config: ModelConfig) -> None:
        super().__init__()
        width, eps = config.width, config.eps
        self.n_updates = n_updates
        self.on_start = config.steps == "start"
        self.time_size = check_width(width) if config.step_time == "sinusoid" else TIME_SIZE
        parts: list[nn.Module] = []
        if config.step_time != "sinusoid":
            parts = [nn.Linear(TIME_SIZE, width), nn.GELU(), nn.Linear(width, width)]
        if config.step_time == "normed":
            parts = [module for part in parts for module in (part, Normaliser(width, eps=eps))]
        self.time = nn.Sequential(*parts)
        self.signal = nn.Identity() if self.on_start else Normaliser(width, eps=eps)
        self.sum = Normaliser(width, eps=eps) if config.step_time == "sinusoid" else nn.Identity()
        self.out = nn.Linear(width, n_updates * width)
        self.positive = config.positive_steps
        nn.init.zeros_(self.out.weight)
        nn.init.constant_(self.out.bias, _first_number(config))

    def forward(
        self, t: int, start: Float[Tensor, "batch tokens width"], state: Float[Tensor, "batch tokens width"]
    ) -> tuple[Tensor, ...]:
        """The network's output, cut into one step an update."""
        time = self.time(sinusoid(t + 1, self.time_size).to(start))
        signal = self.signal(start if self.on_start else state)
        steps: Tensor = self.out(F.gelu(self.sum(time + signal)))
        if self.positive:
            steps = F.softplus(steps)
        return steps.chunk(self.n_updates, -1)


def sinusoid(position: int, size: int) -> Float[Tensor, " size"]:
    """Sines, then cosines of a position at periods growing geometrically from 2π to 2π · 10⁴.

    Args:
        position: a whole number.
        size: even, at least 4.

    Example:
        >>> sinusoid(0, 4)
        tensor([0., 0., 1., 1.])
    """
    half = size // 2
    frequencies = torch.exp(torch.arange(half) * (-math.log(LONGEST_PERIOD) / (half - 1)))
    angles = position * frequencies
    return torch.cat([angles.sin(), angles.cos()])


def check_width(width: int, n_sinusoids: int = 1) -> int:
    """The width itself where sinusoids of equal sizes fill it.

    Args:
        width: size of a token.
        n_sinusoids: that lie side by side in it.

    Raises:
        UsageError: otherwise.

    Example:
        >>> check_width(10, n_sinusoids=2)
        Traceback (most recent call last):
        sna_rl.errors.UsageError: width must be a multiple of 4 from 8 on, to be filled by sinusoids, not 10
    """
    if width % (2 * n_sinusoids) or width < 4 * n_sinusoids:
        raise UsageError(
            f"width must be a multiple of {2 * n_sinusoids} from {4 * n_sinusoids} on, "
            f"to be filled by sinusoids, not {width}"
        )
    return width


def make_steps(config: ModelConfig, n_updates: int) -> StepPolicy:
    """Step policy by the configuration's name.

    Args:
        config: the model.
        n_updates: updates of an iteration.

    Example:
        >>> type(make_steps(ModelConfig(steps="fixed"), 2)).__name__
        'FixedSteps'
    """
    if config.steps == "fixed":
        return FixedSteps(n_updates, config.first_step)
    if config.steps == "iteration":
        return IterationSteps(n_updates, config)
    return ConditionedSteps(n_updates, config)


def _first_number(config: ModelConfig) -> float:
    """What a learned step is made from at the start: 0, or the number whose softplus is the step size."""
    size = config.first_step
    return size + math.log(-math.expm1(-size)) if config.positive_steps else 0.0
