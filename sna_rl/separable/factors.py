"""How one mode's input becomes R components: the families of factors and their sizes."""

from __future__ import annotations

from dataclasses import dataclass

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int, check_name

KINDS = ("linear", "mlp", "spline", "table")


@dataclass(frozen=True)
class FactorConfig:
    """Family and sizes of a factor φ(x) = (φ_1 … φ_R).

    - linear: φ = relu(W x + b).
    - mlp: φ = W h + b, h the last of `depth` hidden layers.
    - spline: z = sigmoid(W h + b) in [0, 1]^D, φ_r = Π_d spline_dr(z_d).
    - table: φ = row of a table, for a mode of finitely many values given by their index.

    Args:
        kind: linear, mlp, spline or table.
        width: size of each hidden layer (mlp, spline).
        depth: number of hidden layers (mlp, spline); 0 leaves an affine map.
        layer_norm: whether hidden layers are normalised before their ReLU (mlp, spline).
        signed: whether components may be negative. False puts a ReLU after the last layer; where
            that layer is affine, each component is then convex in its input. None: False for
            linear (the basic form), True for the others.
        n_knots: G, knots of each spline (spline).
        n_coordinates: D, learned coordinates that the splines read (spline).

    Raises:
        UsageError: if a value is out of its range.

    Example:
        >>> FactorConfig("linear").is_signed, FactorConfig("mlp").is_signed
        (False, True)
    """

    kind: str = "mlp"
    width: int = 128
    depth: int = 2
    layer_norm: bool = True
    signed: bool | None = None
    n_knots: int = 16
    n_coordinates: int = 8

    def __post_init__(self) -> None:
        check_name("factor", self.kind, KINDS)
        check_int("width", self.width, 1)
        check_int("depth", self.depth, 0)
        check_int("n_knots", self.n_knots, 2)
        check_int("n_coordinates", self.n_coordinates, 1)
        if self.kind == "table" and self.signed is False:
            raise UsageError("signed must be True or None for factor 'table': its entries are free")

    @property
    def is_signed(self) -> bool:
        """Whether components may be negative, the kind's default filled in."""
        return self.kind != "linear" if self.signed is None else self.signed
