"""The directions in which rows of a matrix lie."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from sna_rl.separable.checks import check_int


def principal_directions(rows: Float[Tensor, "n size"], count: int) -> Float[Tensor, "size count"]:
    """Orthonormal directions that hold most of the rows' squared length, the first holding most.

    The rows are not centred: for points on a sphere about the origin these are its axes.

    Args:
        rows: finite points.
        count: directions, at most the smaller side.

    Cost:
        One singular value decomposition in float64.

    Example:
        >>> principal_directions(torch.tensor([[0.0, 3.0], [1.0, 0.0]]), 1).abs().flatten()
        tensor([0., 1.])
    """
    check_int("count", count, 1)
    _, _, right = torch.linalg.svd(rows.detach().double(), full_matrices=False)
    directions: Tensor = right[:count].mT.to(rows.dtype)
    return directions
