"""A value table taken apart once: mean, main effects and the components of its interaction."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Decomposition:
    """T[i, j] = mean + rows_i + columns_j + Σ_p left_ip right_pj, the sum being the interaction.

    Args:
        mean: grand mean, ().
        rows: states' main effects, (n), of mean 0.
        columns: actions' main effects, (m), of mean 0.
        left: left singular vectors times singular values, (n, p), largest first.
        right: right singular vectors, (p, m), orthonormal.
        values: singular values of the interaction, (p).

    Example:
        >>> parts = Decomposition.of(torch.tensor([[1.0, 2.0], [3.0, 8.0]]))
        >>> [round(value, 6) for value in parts.values.tolist()]
        [2.0]
        >>> torch.allclose(parts.truncated(1), torch.tensor([[1.0, 2.0], [3.0, 8.0]]).double())
        True
    """

    mean: Float[Tensor, ""]
    rows: Float[Tensor, " n"]
    columns: Float[Tensor, " m"]
    left: Float[Tensor, "n p"]
    right: Float[Tensor, "p m"]
    values: Float[Tensor, " p"]

    @classmethod
    def of(cls, table: Float[Tensor, "n m"]) -> Decomposition:
        """Take a table apart; components that are round-off of the table's own numbers are left out.

        Args:
            table: finite values of n states and m actions.

        Cost:
            One singular value decomposition in float64, O(n · m · min(n, m)).
        """
        eps = torch.finfo(table.dtype).eps
        table = table.detach().double()
        mean = table.mean()
        rows, columns = table.mean(1) - mean, table.mean(0) - mean
        u, values, v = torch.linalg.svd(table - mean - rows[:, None] - columns, full_matrices=False)
        kept = int((values > max(table.shape) * eps * table.abs().amax()).sum())
        return cls(mean, rows, columns, u[:, :kept] * values[:kept], v[:kept], values[:kept])

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of states and of actions."""
        return len(self.rows), len(self.columns)

    def truncated(self, rank: int) -> Float[Tensor, "n m"]:
        """The table with `rank` components of its interaction, all main effects kept."""
        main = self.mean + self.rows[:, None] + self.columns
        return main + self.left[:, :rank] @ self.right[:rank]

    def shares(self) -> Float[Tensor, " three"]:
        """Shares of state, action and interaction in the table's variance; 0 for a constant table."""
        return _shares(
            self.rows.square().mean(),
            self.columns.square().mean(),
            self.left.square().sum() / len(self.rows) / len(self.columns),
        )

    def regrets(self, table: Float[Tensor, "n m"], most: int) -> Float[Tensor, " ranks"]:
        """What acting on each truncation loses, for ranks 0, 1, 2 …

        regret(k) = mean_i (max_j T[i, j] − T[i, j_k(i)]) / mean_i (max_j T[i, j] − min_j T[i, j]), j_k(i) the
        best action of row i in the table truncated to rank k.

        Args:
            table: the table itself.
            most: highest rank looked at; there are never more than p.

        Returns:
            Numbers in [0, 1]; 0 where all actions are alike.

        Cost:
            n · m a rank.
        """
        table = table.detach().double()
        best = table.amax(1)
        spread = (best - table.amin(1)).mean()
        kept = self.truncated(0)
        losses = []
        highest = min(most, len(self.values))
        for rank in range(highest + 1):
            chosen = table.gather(1, kept.argmax(1, keepdim=True)).squeeze(1)
            losses.append((best - chosen).mean())
            if rank < highest:
                kept.addr_(self.left[:, rank], self.right[rank])
        return torch.stack(losses) / spread if spread > 0 else table.new_zeros(len(losses))

    def resampled(self, index: Int[Tensor, " draws"]) -> tuple[Float[Tensor, " p"], Float[Tensor, " three"]]:
        """Singular values and shares of the table made of the rows `index`, repeats allowed.

        The rows are centred anew. Because the right vectors are orthonormal, the new singular values are
        those of the chosen rows of `left`, centred: an n × p problem whatever m is.

        Args:
            index: numbers of the rows drawn.

        Returns:
            Singular values, largest first, and the shares as `shares` gives them.
        """
        drawn = self.left[index]
        shift = drawn.mean(0)
        centred = drawn - shift
        values = torch.linalg.eigvalsh(centred.mT @ centred).clamp_min(0.0).flip(0).sqrt()
        n, m = len(index), len(self.columns)
        shares = _shares(
            self.rows[index].var(correction=0),
            (self.columns + shift @ self.right).square().mean(),
            centred.square().sum() / n / m,
        )
        return values, shares


def _shares(*variances: Tensor) -> Tensor:
    """Each variance divided by their sum."""
    stacked = torch.stack(variances)
    total = stacked.sum()
    return stacked / total if total > 0 else torch.zeros_like(stacked)
