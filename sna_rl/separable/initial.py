"""Initial scales: the spread wanted of the whole decides the spread of its parts.

`scaled` (default): every factor's components have a known mean and mean square at the start
(a rectified unit normal: 1/√(2π) and 1/2), and the weights are drawn so that the mean square of
the whole interaction is std², whatever the rank and the interaction order.

`paper`: the basic form as published: orthogonal factors, everything else as PyTorch's `nn.Linear`
starts. Its interaction fades with rank, about like R^(−3/2): for reproduction only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_name
from sna_rl.separable.linear import EnsembleHead, EnsembleLinear, EnsembleTower

INITS = ("scaled", "paper")
STATE_STD = 1.0  # normalised states
ACTION_STD = 1.0 / math.sqrt(3.0)  # actions spread evenly over [−1, 1]


@dataclass(frozen=True)
class InitConfig:
    """What a network is like before it has learned anything.

    Args:
        name: scaled, or paper (form cp with linear factors alone).
        std: root mean square σ of the interaction, and of all main effects together (scaled).
        input_stds: standard deviation of the inputs of each mode (scaled). None: the last mode is
            spread evenly over [−1, 1] as actions are, the others have unit variance.

    Raises:
        UsageError: if the name is unknown or a scale is not positive.

    Example:
        >>> InitConfig(std=0.1)
        InitConfig(name='scaled', std=0.1, input_stds=None)
    """

    name: str = "scaled"
    std: float = 0.2
    input_stds: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_name("init", self.name, INITS)
        for name, value in [
            ("std", self.std),
            *(("each of input_stds", std) for std in self.input_stds or ()),
        ]:
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
                raise UsageError(f"{name} must be a positive number, not {value!r}")

    def stds(self, n_modes: int) -> tuple[float, ...]:
        """Standard deviation of each mode's inputs, the default filled in."""
        stds = self.input_stds or (STATE_STD,) * (n_modes - 1) + (ACTION_STD,)
        if len(stds) != n_modes:
            raise UsageError(f"input_stds must name one number for each of {n_modes} modes, not {stds!r}")
        return stds


class Moments(NamedTuple):
    """Mean and mean square of a component at the start, over inputs and draws."""

    mean: float
    square: float


RECTIFIED = Moments(1.0 / math.sqrt(2.0 * math.pi), 0.5)  # relu of a unit normal
FREE = Moments(0.0, 1.0)  # a unit normal


def symmetric_square(moments: Sequence[Moments], order: int) -> float:
    """Mean square of the elementary symmetric polynomial e_j of independent components.

    E[e_j²] = coefficient of x^j y^j in Π_n (1 + μ_n x + μ_n y + m_n x y)

    Args:
        moments: mean μ_n and mean square m_n of each mode's component.
        order: j, modes that meet in a term.

    Returns:
        E[e_j²]; for j = N the product of the mean squares.

    Example:
        >>> symmetric_square([Moments(0.0, 1.0)] * 4, 2)  # six independent terms
        6.0
        >>> symmetric_square([Moments(0.4, 0.5)] * 2, 2)
        0.25
    """
    table = [[0.0] * (order + 1) for _ in range(order + 1)]
    table[0][0] = 1.0
    for mean, square in moments:
        for i in range(order, -1, -1):
            for j in range(order, -1, -1):
                if i:
                    table[i][j] += mean * table[i - 1][j]
                if j:
                    table[i][j] += mean * table[i][j - 1]
                if i and j:
                    table[i][j] += square * table[i - 1][j - 1]
    return table[order][order]


@torch.no_grad()
def orthogonal_rows_(layer: EnsembleLinear, norm: float) -> None:
    """Set each output's weights to an orthogonal direction of length `norm`, biases to zero.

    Where outputs outnumber inputs, the directions come from a tall orthogonal matrix whose rows
    are set to length `norm` one by one.
    """
    layer.weight.copy_(_orthogonal_directions(*layer.weight.shape) * norm)
    layer.bias.zero_()


@torch.no_grad()
def head_(head: EnsembleHead, norm: float) -> None:
    """Set each member's weights to a random direction of length `norm`, biases to zero."""
    head.weight.copy_(nn.functional.normalize(torch.randn_like(head.weight), dim=-1) * norm)
    head.bias.zero_()


@torch.no_grad()
def first_layer_(layer: EnsembleLinear, input_std: float) -> None:
    """Set a hidden layer that reads inputs: unit outputs, the bias counting as one input more.

    With zero biases a normalised layer would see the direction of its input alone, not its size.
    """
    n_members, size_in, size_out = layer.weight.shape
    directions = _orthogonal_directions(n_members, size_in + 1, size_out)
    layer.weight.copy_(directions[:, :-1] / input_std)
    layer.bias.copy_(directions[:, -1])


def tower_(tower: EnsembleTower, input_std: float) -> float:
    """Set the hidden layers so that each has unit inputs to its ReLU; the mean square of its features."""
    for depth, layer in enumerate(tower.layers):
        assert isinstance(layer, EnsembleLinear)
        if depth == 0:
            first_layer_(layer, input_std)
        else:
            orthogonal_rows_(layer, 1.0 / math.sqrt(RECTIFIED.square))
    return RECTIFIED.square if len(tower.layers) else input_std**2


def _orthogonal_directions(n_members: int, size_in: int, size_out: int) -> torch.Tensor:
    """Unit columns (member, in, out) of orthogonal matrices, another draw for each member."""
    draws = [nn.init.orthogonal_(torch.empty(size_in, size_out)) for _ in range(n_members)]
    return nn.functional.normalize(torch.stack(draws), dim=1)
