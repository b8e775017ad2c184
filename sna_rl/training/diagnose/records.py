"""What is asked of a critic, and the answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sna_rl.errors import UsageError
from sna_rl.training.diagnose.table import TableReport
from sna_rl.training.diagnose.verdict import Verdict

MOST_PAIRS = 2**23
"""Pairs of state and action of the largest table; under 1 GB with the copies that are made of it."""


@dataclass(frozen=True)
class Question:
    """What is asked of a critic.

    Args:
        n_states: rows of the value tables.
        n_actions: columns; a Discrete action space with no more of them gives all.
        rank: rank that the verdict is about; None is the critic's own, 32 for one without.
        seed: decides every draw.

    Raises:
        UsageError: if the tables would be too small for the rank, or too large for the memory.
    """

    n_states: int = 512
    n_actions: int = 256
    rank: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rank is not None and self.rank < 1:
            raise UsageError(f"rank must be an int of at least 1, not {self.rank}")
        if self.n_states < 4 or self.n_actions < 2:
            raise UsageError(
                "a value table needs at least 4 states and 2 actions, "
                f"not {self.n_states} and {self.n_actions}"
            )
        if self.n_states * self.n_actions > MOST_PAIRS:
            raise UsageError(
                f"{self.n_states:,} states × {self.n_actions:,} actions are more than the "
                f"{MOST_PAIRS:,} pairs that fit in memory; fewer of either tell as much"
            )


@dataclass(frozen=True)
class Tables:
    """What is read off one head's two tables; they are never pooled.

    Args:
        supported: over actions that were taken, or over all actions of a small Discrete space.
        uniform: over uniform actions, where the critic extrapolates; None where `supported` holds all.
    """

    supported: TableReport
    uniform: TableReport | None = None


@dataclass(frozen=True)
class Diagnosis:
    """All that was read off a critic.

    Args:
        algorithm: class of the agent.
        critic: class of its critic.
        rank: most components that the critic can have; None where nothing bounds it.
        n_timesteps: environment steps it has learned from.
        notes: what a reader must know of this table.
        verdict: on all heads together.
        verdicts: one a head, on its supported table.
        heads: tables of each head.
        nulls: tables of critics that know nothing, on the same states and actions.
        branch_gradients: RMS gradient of the interaction over that of the additive branches.
        fit: squared Bellman error over that of the critic re-initialised.
        loss_ratio: critic loss over that of another agent on the same transitions.
        weight_spectra: singular values of W_stateᵀ W_action, one list a head (linear factors alone).
    """

    algorithm: str
    critic: str
    rank: int | None
    n_timesteps: int
    notes: tuple[str, ...]
    verdict: Verdict
    verdicts: tuple[Verdict, ...]
    heads: tuple[Tables, ...]
    nulls: dict[str, Tables]
    branch_gradients: float | None
    fit: float | None
    loss_ratio: float | None
    weight_spectra: list[list[float]] | None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, texts, lists and dicts."""
        return asdict(self)
