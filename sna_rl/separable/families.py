"""Factor networks: a mode's input in, its R components and its main effect out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from sna_rl.separable.factors import FactorConfig
from sna_rl.separable.initial import FREE, RECTIFIED, Moments, head_, orthogonal_rows_, tower_
from sna_rl.separable.linear import EnsembleHead, EnsembleLinear, EnsembleTower
from sna_rl.separable.splines import SplineAtoms

SPLINE_MOMENTS = Moments(1.0, 1.25)  # of a product of splines at the start
MEAN_SQUARED_BASIS = 0.55  # ∫ B(u)² du: what a spline keeps of its coefficients' variance
LOGISTIC_STD = math.pi / math.sqrt(3.0)  # inputs spread like this fill a sigmoid's range evenly


class FactorOutput(NamedTuple):
    """Components, rank 0 where the mode does not interact, and the main effect where it is carried."""

    components: Tensor  # "K batch rank"
    effect: Tensor | None  # "K batch"


class Factor(nn.Module, ABC):
    """One mode's network."""

    moments: Moments  # of its components under the scaled init

    @abstractmethod
    def forward(self, x: Shaped[Tensor, ...]) -> FactorOutput:
        """Components and main effect of a batch of inputs."""

    @abstractmethod
    def initialise(self, input_std: float, effect_std: float) -> None:
        """Draw the scaled init: components of `moments`, a main effect of root mean square `effect_std`."""

    @abstractmethod
    def owned(self) -> tuple[list[nn.Module], list[nn.Module]]:
        """Modules that only the components read, and those that only the main effect reads."""

    @property
    def components_from(self) -> Factor:
        """The factor that makes the components: this one, unless a branch stands beside another."""
        return self


class LinearFactor(Factor):
    """φ = relu(W x + b), without the ReLU where signed; the main effect is a linear head on φ."""

    def __init__(self, n_members: int, size: int, rank: int, config: FactorConfig, has_effect: bool) -> None:
        super().__init__()
        self.layer = EnsembleLinear(n_members, size, rank)
        self.head = EnsembleHead(n_members, rank) if has_effect else None
        self.is_signed = config.is_signed
        self.moments = FREE if config.is_signed else RECTIFIED

    def forward(self, x: Float[Tensor, "*members batch in"]) -> FactorOutput:
        """Components and main effect of a batch of inputs."""
        components = self.layer(x) if self.is_signed else F.relu(self.layer(x))
        return FactorOutput(components, None if self.head is None else self.head(components))

    def initialise(self, input_std: float, effect_std: float) -> None:
        """Orthogonal directions of length 1 / input_std, zero biases."""
        orthogonal_rows_(self.layer, 1.0 / input_std)
        if self.head is not None:
            head_(self.head, effect_std / math.sqrt(self.moments.square))

    def owned(self) -> tuple[list[nn.Module], list[nn.Module]]:
        """The layer, unless a head reads it too; the head."""
        return ([self], []) if self.head is None else ([], [self.head])


class MLPFactor(Factor):
    """φ = W h + b on a tower's last hidden layer h; the main effect is one extra output of the tower."""

    def __init__(self, n_members: int, size: int, rank: int, config: FactorConfig, has_effect: bool) -> None:
        super().__init__()
        self.tower = EnsembleTower(n_members, size, config.width, config.depth, config.layer_norm)
        width = self.tower.out_features
        self.layer = EnsembleLinear(n_members, width, rank)
        self.head = EnsembleHead(n_members, width) if has_effect else None
        self.is_signed = config.is_signed
        self.moments = FREE if config.is_signed else RECTIFIED

    def forward(self, x: Float[Tensor, "*members batch in"]) -> FactorOutput:
        """Components and main effect of a batch of inputs."""
        features = self.tower(x)
        components = self.layer(features) if self.is_signed else F.relu(self.layer(features))
        return FactorOutput(components, None if self.head is None else self.head(features))

    def initialise(self, input_std: float, effect_std: float) -> None:
        """Unit inputs to every ReLU and to the components."""
        features_std = math.sqrt(tower_(self.tower, input_std))
        orthogonal_rows_(self.layer, 1.0 / features_std)
        if self.head is not None:
            head_(self.head, effect_std / features_std)

    def owned(self) -> tuple[list[nn.Module], list[nn.Module]]:
        """The last layer, without a head everything; the head."""
        return ([self], []) if self.head is None else ([self.layer], [self.head])


class SplineFactor(Factor):
    """φ_r = Π_d spline_dr(z_d), z = sigmoid of a learned map; the main effect is a linear head on φ."""

    def __init__(self, n_members: int, size: int, rank: int, config: FactorConfig, has_effect: bool) -> None:
        super().__init__()
        self.tower = EnsembleTower(n_members, size, config.width, config.depth, config.layer_norm)
        self.coordinates = EnsembleLinear(n_members, self.tower.out_features, config.n_coordinates)
        self.atoms = SplineAtoms(n_members, config.n_coordinates, config.n_knots, rank)
        self.head = EnsembleHead(n_members, rank) if has_effect else None
        self.is_signed = config.is_signed
        self.moments = SPLINE_MOMENTS

    def forward(self, x: Float[Tensor, "*members batch in"]) -> FactorOutput:
        """Components and main effect of a batch of inputs."""
        components = self.atoms(torch.sigmoid(self.coordinates(self.tower(x))))
        if not self.is_signed:
            components = F.relu(components)
        return FactorOutput(components, None if self.head is None else self.head(components))

    def initialise(self, input_std: float, effect_std: float) -> None:
        """Coordinates spread evenly over [0, 1]; coefficients around 1, closer the more coordinates."""
        features_std = math.sqrt(tower_(self.tower, input_std))
        orthogonal_rows_(self.coordinates, LOGISTIC_STD / features_std)
        n_coordinates = self.atoms.coefficients.shape[1]
        variance = self.moments.square ** (1.0 / n_coordinates) - 1.0
        nn.init.normal_(self.atoms.coefficients, 1.0, math.sqrt(variance / MEAN_SQUARED_BASIS))
        if self.head is not None:
            head_(self.head, effect_std / math.sqrt(self.moments.square))

    def owned(self) -> tuple[list[nn.Module], list[nn.Module]]:
        """Everything, unless a head reads the components too; the head."""
        return ([self], []) if self.head is None else ([], [self.head])


class EnsembleTable(nn.Module):
    """K tables of one row for each value of a finite mode."""

    def __init__(self, n_members: int, n_values: int, n_columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_members, n_values, n_columns))

    def forward(self, index: Shaped[Tensor, batch]) -> Float[Tensor, "K batch columns"]:
        """The rows at these indices."""
        return self.weight.index_select(1, index)


class TableFactor(Factor):
    """φ = a table's row; the main effect is a column of its own. Inputs are the rows' indices."""

    def __init__(self, n_members: int, n_values: int, rank: int | None) -> None:
        super().__init__()
        self.table = None if rank is None else EnsembleTable(n_members, n_values, rank)
        self.column = EnsembleTable(n_members, n_values, 1)
        self.moments = FREE

    def forward(self, x: Shaped[Tensor, ...]) -> FactorOutput:
        """Components and main effect of a batch of integer indices, (batch,) or (batch, 1)."""
        index = x.reshape(-1)
        column = self.column(index)
        return FactorOutput(column[..., :0] if self.table is None else self.table(index), column.squeeze(-1))

    def initialise(self, input_std: float, effect_std: float) -> None:
        """Unit normal entries; a column of root mean square `effect_std`."""
        if self.table is not None:
            nn.init.normal_(self.table.weight)
        nn.init.normal_(self.column.weight, 0.0, effect_std)

    def owned(self) -> tuple[list[nn.Module], list[nn.Module]]:
        """The table; the column."""
        return [] if self.table is None else [self.table], [self.column]


class MainEffect(Factor):
    """A mode's main effect alone: a tower with one output."""

    def __init__(self, n_members: int, size: int, config: FactorConfig) -> None:
        super().__init__()
        self.tower = EnsembleTower(n_members, size, config.width, config.depth, config.layer_norm)
        self.head = EnsembleHead(n_members, self.tower.out_features)
        self.moments = FREE

    def forward(self, x: Float[Tensor, "*members batch in"]) -> FactorOutput:
        """Main effect of a batch of inputs."""
        effect = self.head(self.tower(x))
        return FactorOutput(effect.unsqueeze(-1)[..., :0], effect)

    def initialise(self, input_std: float, effect_std: float) -> None:
        """Unit inputs to every ReLU, an output of root mean square `effect_std`."""
        head_(self.head, effect_std / math.sqrt(tower_(self.tower, input_std)))

    def owned(self) -> tuple[list[nn.Module], list[nn.Module]]:
        """Nothing; everything."""
        return [], [self]


class Branched(Factor):
    """Components from a factor, the main effect from a branch beside it."""

    def __init__(self, factor: Factor, branch: MainEffect) -> None:
        super().__init__()
        self.factor = factor
        self.branch = branch
        self.moments = factor.moments

    def forward(self, x: Float[Tensor, "*members batch in"]) -> FactorOutput:
        """Components and main effect of a batch of inputs."""
        return FactorOutput(self.factor(x).components, self.branch(x).effect)

    def initialise(self, input_std: float, effect_std: float) -> None:
        """Both as they are alone."""
        self.factor.initialise(input_std, effect_std)
        self.branch.initialise(input_std, effect_std)

    def owned(self) -> tuple[list[nn.Module], list[nn.Module]]:
        """The factor; the branch."""
        return [self.factor], [self.branch]

    @property
    def components_from(self) -> Factor:
        """The factor beside the branch."""
        return self.factor


FAMILIES: dict[str, type[LinearFactor] | type[MLPFactor] | type[SplineFactor]] = {
    "linear": LinearFactor,
    "mlp": MLPFactor,
    "spline": SplineFactor,
}


def make_factor(
    n_members: int, size: int, rank: int, config: FactorConfig, interacts: bool, branch_width: int | None
) -> Factor:
    """Network of one mode, by the kind of its config.

    Args:
        n_members: K, number of independent members.
        size: size of the mode's input; for a table the number of its values.
        rank: R, number of components (linear and spline: also the features that their head reads).
        config: family and sizes.
        interacts: False where only the main effect is wanted.
        branch_width: hidden size of a separate main effect network; None: the factor carries it. A
            table always has a column for it.

    Returns:
        A new network as PyTorch draws it; `initialise` gives it its scale.

    Example:
        >>> factor = make_factor(2, 3, 4, FactorConfig("mlp", width=8), interacts=True, branch_width=None)
        >>> components, effect = factor(torch.zeros(7, 3))
        >>> components.shape, effect.shape
        (torch.Size([2, 7, 4]), torch.Size([2, 7]))
    """
    if config.kind == "table":
        return TableFactor(n_members, size, rank if interacts else None)
    if branch_width is not None:
        branch = MainEffect(n_members, size, FactorConfig("mlp", branch_width, depth=1, layer_norm=False))
        if not interacts:
            return branch
        return Branched(FAMILIES[config.kind](n_members, size, rank, config, False), branch)
    if config.kind == "mlp" and not interacts:
        return MainEffect(n_members, size, config)
    return FAMILIES[config.kind](n_members, size, rank, config, True)
