"""B-spline atoms: products of one-dimensional splines over learned coordinates."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

SMALLEST_SUM = 1e-6  # between knots a very steep basis vanishes; its sum is not divided by zero


def quadratic_bspline(u: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Quadratic B-spline at the distance `u` ≥ 0 from its knot, in units of the knots' spacing.

    B(u) = 3/4 − u² for u < 1/2, (3/2 − u)²/2 for u < 3/2, else 0.

    Args:
        u: distances, not negative.

    Returns:
        Values in [0, 3/4].

    Source:
        KHRONOS, arXiv 2505.13315.

    Example:
        >>> quadratic_bspline(torch.tensor([0.0, 0.5, 1.0, 2.0]))
        tensor([0.7500, 0.5000, 0.1250, 0.0000])
    """
    return 0.5 * (1.5 - u).relu().square() - 1.5 * (0.5 - u).relu().square()


def spline_basis(z: Float[Tensor, "*shape"], slope: Tensor, n_knots: int) -> Float[Tensor, "*shape knots"]:
    """Renormalised quadratic B-spline basis on knots g / (G − 1) in [0, 1].

    basis_g(z) = B(s |z − t_g|) / Σ_h B(s |z − t_h|)

    Without the division the basis sums to 7/8 at both ends, and a product over D saturated
    coordinates shrinks like (7/8)^D.

    Args:
        z: coordinates in [0, 1].
        slope: s, broadcast against z; G − 1 makes neighbouring splines overlap as usual.
        n_knots: G, at least 2.

    Returns:
        Weights of the G knots, summing to 1.

    Source:
        KHRONOS, arXiv 2505.13315, with the basis renormalised.

    Example:
        >>> spline_basis(torch.tensor([0.0]), torch.tensor(2.0), 3)
        tensor([[0.8571, 0.1429, 0.0000]])
    """
    knots = torch.linspace(0.0, 1.0, n_knots, dtype=z.dtype, device=z.device)
    basis = quadratic_bspline(slope.unsqueeze(-1) * (z.unsqueeze(-1) - knots).abs())
    return basis / basis.sum(-1, keepdim=True).clamp_min(SMALLEST_SUM)


class SplineAtoms(nn.Module):
    """R products of splines, one spline for each of D coordinates, for K members at once.

    φ_r(z) = Π_d Σ_g basis_g(z_d) W[d, g, r]

    Args:
        n_members: K, number of independent members.
        n_coordinates: D, number of coordinates.
        n_knots: G, knots of each spline.
        rank: R, number of products.

    Cost:
        2 · K · batch · D · G · R floating point operations; D · G · R + D parameters a member.

    Source:
        KHRONOS, arXiv 2505.13315.

    Example:
        >>> atoms = SplineAtoms(2, n_coordinates=3, n_knots=5, rank=4)
        >>> atoms(torch.rand(2, 7, 3)).shape
        torch.Size([2, 7, 4])
    """

    def __init__(self, n_members: int, n_coordinates: int, n_knots: int, rank: int) -> None:
        super().__init__()
        self.slopes = nn.Parameter(torch.full((n_members, n_coordinates, 1), n_knots - 1.0))
        self.coefficients = nn.Parameter(torch.empty(n_members, n_coordinates, n_knots, rank))
        nn.init.normal_(self.coefficients, 1.0, 0.1)

    def forward(self, z: Float[Tensor, "K batch coordinates"]) -> Float[Tensor, "K batch rank"]:
        """Products at coordinates in [0, 1]."""
        basis = spline_basis(z.transpose(1, 2), self.slopes, self.coefficients.shape[2])
        splines = torch.matmul(basis, self.coefficients)
        while splines.shape[1] > 1:  # pairwise, since the gradient of torch.prod asks for values
            half = splines.shape[1] // 2
            paired = splines[:, :half] * splines[:, half : 2 * half]
            splines = torch.cat([paired, splines[:, 2 * half :]], 1) if splines.shape[1] % 2 else paired
        return splines.squeeze(1)
