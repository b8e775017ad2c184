"""Which units of a hidden state answer to which signal, and how many answer to both."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sna_rl.errors import UsageError

LEAST = 0.05  # share of a unit's variance that a signal must explain for the unit to answer to it


@torch.no_grad()
def explained(units: Float[Tensor, "n units"], signal: Int[Tensor, " n"]) -> Float[Tensor, " units"]:
    """Share of each unit's variance that a signal's values explain, with what chance explains taken off.

    ε² = 1 − (Σ squares within values / (n − k)) / (Σ squares / (n − 1)), k values among n tokens

    Args:
        units: activations.
        signal: a value for each token, such as the number of the next token.

    Returns:
        At most 1; about 0 for an unrelated unit, 0 for a constant one.

    Raises:
        UsageError: if the signal has one value, or no value occurs twice.

    Source:
        Kelley 1935 (ε², the adjusted correlation ratio).

    Example:
        >>> explained(torch.tensor([[0.0], [2.0], [2.0], [4.0]]), torch.tensor([0, 0, 1, 1]))
        tensor([0.2500])
    """
    _, which, counts = signal.unique(return_inverse=True, return_counts=True)  # type: ignore[no-untyped-call]
    n, k = len(units), len(counts)
    if not 1 < k < n:
        raise UsageError(f"a signal needs two values and fewer than there are tokens, not {k} among {n}")
    centred = units.double() - units.double().mean(0)
    sums = torch.zeros(k, units.shape[1], dtype=torch.float64).index_add_(0, which, centred)
    total = centred.square().sum(0)
    within = total - (sums.square() / counts.unsqueeze(1)).sum(0)
    share = 1.0 - (within / (n - k)) / (total / (n - 1))
    return torch.where(total > 0, share, 0.0).to(units.dtype)


def answering(
    units: Float[Tensor, "n units"], first: Int[Tensor, " n"], second: Int[Tensor, " n"], least: float = LEAST
) -> dict[str, float]:
    """Shares of units that answer to two signals of the same tokens.

    A unit answers to a signal that explains at least `least` of its variance.

    Args:
        units: activations.
        first: a value for each token.
        second: another, best one independent of the first: what they share counts for both.
        least: from 0 to 1.

    Returns:
        "first", "second" and "both": shares of all units, "both" within the other two.

    Raises:
        UsageError: if a signal has one value alone, or none twice.

    Example:
        >>> units = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 2.0]]).repeat(9, 1)
        >>> first, second = torch.tensor([0, 0, 1, 1]).repeat(9), torch.tensor([0, 1, 0, 1]).repeat(9)
        >>> answering(units, first, second)
        {'first': 1.0, 'second': 0.5, 'both': 0.5}
    """
    to_first, to_second = (explained(units, signal) >= least for signal in (first, second))
    shares = {"first": to_first, "second": to_second, "both": to_first & to_second}
    return {name: float(share.float().mean()) for name, share in shares.items()}
