"""Models of a chaotic system's next state: separable, MLP or convolution; one value or a distribution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sna_rl.errors import UsageError
from sna_rl.language.config import LMConfig
from sna_rl.language.distributions import Bins, Mixture
from sna_rl.language.model import Block
from sna_rl.separable.checks import check_int, check_name
from sna_rl.separable.splines import SplineAtoms

TRUNKS = ("separable", "mlp", "convolution")
HEADS = ("deterministic", "distributional", "categorical")
N_COMPONENTS = 3  # of the mixture of each variable
N_BINS = 64  # of each variable's increment
BEYOND_SEEN = 0.05  # of the range of the increments seen, which the bins reach beyond it at either end
SMALLEST_STD = 1e-3  # of a component, in deviations of the increments
KERNEL = 5  # points that a layer of the convolution reads
N_KNOTS = 8


@dataclass(frozen=True)
class ForecastConfig:
    """Sizes of a forecasting model.

    Args:
        size: variables of a state.
        trunk: "separable" (splines of learned coordinates, then the language model's blocks over the last
            states), "mlp" or "convolution" (of the last state alone).
        head: "deterministic" (squared error), "distributional" (a mixture of Gaussians for each variable) or
            "categorical" (bins of each variable's increment).
        width: hidden size; for convolution channels.
        n_layers: blocks, hidden layers or convolutions.
        n_context: last states that the separable trunk reads.
        rank: products of splines, and features of an attention head.

    Raises:
        UsageError: if a count is too small or a name unknown.
    """

    size: int
    trunk: str = "separable"
    head: str = "distributional"
    width: int = 128
    n_layers: int = 2
    n_context: int = 4
    rank: int = 64

    def __post_init__(self) -> None:
        for name in ("size", "width", "n_layers", "n_context", "rank"):
            check_int(name, getattr(self, name), 1)
        check_name("trunk", self.trunk, TRUNKS)
        check_name("head", self.head, HEADS)
        if self.trunk == "separable" and self.width % 4:
            raise UsageError(f"width must be a multiple of the 4 attention heads, not {self.width}")


class StateEmbedding(nn.Module):
    """Smooth embedding of a continuous state: products of splines of learned coordinates, beside the state.

    e = W [x, Π_d spline_d(sigmoid(LayerNorm(A x)_d / 2)) − 1],  h heads of products

    Args:
        size: variables of a state.
        width: of the embedding.
        rank: products of each head.
        n_heads: h.
        n_coordinates: of a head.

    Example:
        >>> StateEmbedding(40, 16, rank=8)(torch.zeros(2, 3, 40)).shape
        torch.Size([2, 3, 16])
    """

    def __init__(self, size: int, width: int, rank: int, *, n_heads: int = 8, n_coordinates: int = 4) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.coordinates = nn.Linear(size, n_heads * n_coordinates)
        self.norm = nn.LayerNorm(n_coordinates)
        self.atoms = SplineAtoms(n_heads, n_coordinates, N_KNOTS, rank)
        self.mix = nn.Linear(size + n_heads * rank, width)

    def forward(self, x: Float[Tensor, "batch time size"]) -> Float[Tensor, "batch time width"]:
        """Embeddings of normalised states."""
        seeds = self.coordinates(x.flatten(0, 1)).unflatten(-1, (self.n_heads, -1)).transpose(0, 1)
        products = self.atoms((self.norm(seeds) / 2).sigmoid()).transpose(0, 1) - 1.0
        embedded: Tensor = self.mix(torch.cat([x, products.reshape(*x.shape[:2], -1)], -1))
        return embedded


class SeparableTrunk(nn.Module):
    """The language model's blocks over the spline embeddings of the last states.

    Args:
        config: sizes.
    """

    def __init__(self, config: ForecastConfig) -> None:
        super().__init__()
        sizes = LMConfig(
            2, max(config.n_context, 2), config.width, config.n_layers, rank=config.rank, embedding="table"
        )
        self.embedding = StateEmbedding(config.size, config.width, config.rank)
        self.positions = nn.Parameter(torch.zeros(config.n_context, config.width))
        self.blocks = nn.Sequential(*(Block(sizes) for _ in range(config.n_layers)))
        self.norm = nn.LayerNorm(config.width)

    def forward(self, x: Float[Tensor, "batch time size"]) -> Float[Tensor, "batch time width"]:
        """Features of each state from those up to it."""
        features: Tensor = self.norm(self.blocks(self.embedding(x) + self.positions[: x.shape[1]]))
        return features


class MLPTrunk(nn.Sequential):
    """Hidden layers with GELU over each state by itself.

    Args:
        config: sizes.
    """

    def __init__(self, config: ForecastConfig) -> None:
        sizes = [config.size] + [config.width] * config.n_layers
        layers = [(nn.Linear(a, b), nn.GELU()) for a, b in pairwise(sizes)]
        super().__init__(*(module for pair in layers for module in pair))


class Forecaster(nn.Module):
    """Next state from the last ones: x_{t+1} = x_t + increment.

    Args:
        config: trunk, head, sizes.

    Example:
        >>> model = Forecaster(ForecastConfig(40, trunk="mlp"))
        >>> model.predict(torch.zeros(2, 1, 40), torch.Generator()).shape
        torch.Size([2, 40])
    """

    mean: Tensor
    std: Tensor
    step: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, config: ForecastConfig) -> None:
        super().__init__()
        self.config = config
        self.n_context = config.n_context if config.trunk == "separable" else 1
        outputs = {"deterministic": 1, "distributional": 3 * N_COMPONENTS, "categorical": N_BINS}
        self.n_outputs = outputs[config.head]
        self.trunk: nn.Module
        self.head: nn.Module
        if config.trunk == "convolution":
            channels = [1] + [config.width] * config.n_layers
            layers = [
                (nn.Conv1d(a, b, KERNEL, padding=KERNEL // 2, padding_mode="circular"), nn.GELU())
                for a, b in pairwise(channels)
            ]
            self.trunk = nn.Sequential(*(module for pair in layers for module in pair))
            self.head = nn.Conv1d(config.width, self.n_outputs, 1)
        else:
            self.trunk = SeparableTrunk(config) if config.trunk == "separable" else MLPTrunk(config)
            self.head = nn.Linear(config.width, config.size * self.n_outputs)
        for name in ("mean", "std", "step"):
            self.register_buffer(name, torch.tensor(0.0 if name == "mean" else 1.0))
        if config.head == "categorical":
            self.register_buffer("low", torch.tensor(-1.0))
            self.register_buffer("high", torch.tensor(1.0))

    def normalise(self, states: Float[Tensor, "*batch time size"]) -> None:
        """Take the scales of states and of their increments from the training trajectories."""
        self.mean.copy_(states.mean())
        self.std.copy_(states.std(correction=0))
        increments = states.diff(dim=-2)
        self.step.copy_(increments.std(correction=0))
        if self.config.head == "categorical":
            low, high = (increments / self.step).aminmax()
            self.low.copy_(low - BEYOND_SEEN * (high - low))
            self.high.copy_(high + BEYOND_SEEN * (high - low))

    def forward(self, states: Float[Tensor, "batch time size"]) -> Float[Tensor, "batch time size outputs"]:
        """What the head says of the increment after each state, in deviations of the increments."""
        x = (states - self.mean) / self.std
        if self.config.trunk == "convolution":
            batch, time, size = x.shape
            rings: Tensor = self.head(self.trunk(x.reshape(batch * time, 1, size)))
            return rings.transpose(1, 2).reshape(batch, time, size, self.n_outputs)
        said: Tensor = self.head(self.trunk(x))
        return said.view(*states.shape, self.n_outputs)

    def loss(
        self, states: Float[Tensor, "batch time size"], following: Float[Tensor, "batch time size"]
    ) -> Float[Tensor, ""]:
        """Squared error, or negative log density, of the normalised increments.

        Args:
            states: consecutive states.
            following: the state after each.
        """
        said: Tensor = self(states).float()
        target = (following - states) / self.step
        if self.config.head == "deterministic":
            return (said.squeeze(-1) - target).square().mean()
        return -self.distribution(said).log_prob(target).mean()

    def distribution(self, said: Float[Tensor, "*batch size outputs"]) -> Mixture | Bins:
        """The distribution of the increments that a head's outputs mean, unless it is deterministic."""
        if self.config.head == "categorical":
            return Bins(said, self.low, self.high)
        logits, means, stds = said.chunk(3, -1)
        return Mixture(logits, means, nn.functional.softplus(stds) + SMALLEST_STD)

    @torch.no_grad()
    def crps(
        self, states: Float[Tensor, "batch time size"], following: Float[Tensor, "batch size"]
    ) -> Float[Tensor, "batch size"]:
        """Score of the next state's distribution, without drawing from it, in the states' units.

        Args:
            states: the last ones; older than `n_context` are not read.
            following: what happened.
        """
        said: Tensor = self(states[:, -self.n_context :])[:, -1].float()
        target = (following - states[:, -1]) / self.step
        if self.config.head == "deterministic":
            return self.step * (said.squeeze(-1) - target).abs()
        return self.step * self.distribution(said).crps(target)

    @torch.no_grad()
    def predict(
        self, states: Float[Tensor, "batch time size"], generator: torch.Generator
    ) -> Float[Tensor, "batch size"]:
        """Next states: the one predicted, or a draw from the distribution.

        Args:
            states: the last ones; older than `n_context` are not read.
            generator: of the draws.
        """
        states = states[:, -self.n_context :]
        said = self(states)[:, -1]
        increment = said.squeeze(-1) if self.n_outputs == 1 else self.distribution(said).sample(generator)
        return states[:, -1] + self.step * increment


def equal_parameters(config: ForecastConfig, n_parameters: int) -> ForecastConfig:
    """The configuration's width changed so that the model has as many parameters as asked, or the next fewer.

    Args:
        config: what is changed.
        n_parameters: number wanted.

    Raises:
        UsageError: if a width of 1 has more already.

    Example:
        >>> equal_parameters(ForecastConfig(40, trunk="mlp", head="deterministic"), 30_000).width
        136
    """
    count = 0
    low, high = 0, 1
    while True:
        count = _count(replace(config, width=high))
        if count > n_parameters:
            break
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _count(replace(config, width=middle)) <= n_parameters else (low, middle)
    if not low:
        raise UsageError(f"a {config.trunk} of width 1 has {count:,} parameters, more than {n_parameters:,}")
    return replace(config, width=low)


def _count(config: ForecastConfig) -> int:
    """Parameters of a model."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in Forecaster(config).parameters())
