"""Exact solutions of finite problems, and the argument checks that the environments share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sna_rl.errors import UsageError


def check_rank(rank: object, largest: int, limit: str) -> int:
    """Return `rank` if it is an int in [1, largest].

    Args:
        rank: what the user gave.
        largest: the highest rank the construction allows.
        limit: where that limit comes from, for the message.

    Raises:
        UsageError: if `rank` is not such an int.

    Example:
        >>> check_rank(3, 6, "the smaller of state_dim and action_dim")
        3
    """
    if type(rank) is not int or not 1 <= rank <= largest:
        raise UsageError(
            f"rank must be an int from 1 to {largest} ({limit}), not {rank!r} ({type(rank).__name__})"
        )
    return rank


def check_render_mode(render_mode: str | None, known: tuple[str, ...]) -> str | None:
    """Return `render_mode` if it is None or one of `known`.

    Raises:
        UsageError: if it is another.

    Example:
        >>> check_render_mode("rgb_array", ("rgb_array",))
        'rgb_array'
    """
    if render_mode is not None and render_mode not in known:
        choices = " or ".join(["None", *map(repr, known)])
        raise UsageError(f"render_mode must be {choices}, not {render_mode!r}")
    return render_mode


def policy_iteration(
    reward: NDArray[np.float64], kernel: NDArray[np.float64], gamma: float
) -> NDArray[np.float64]:
    """Optimal values of a finite discounted problem, exact up to the linear solver.

    V* = max_a [r(s, a) + γ Σ_s' P(s' | s, a) V*(s')]. Each round solves (I − γ P_π) V = r_π for the greedy
    policy π and stops when no action is better by more than 1e-12, which happens after finitely many rounds.

    Args:
        reward: r(s, a), shape (states, actions).
        kernel: P(s' | s, a), shape (states, actions, next states), rows summing to 1.
        gamma: discount in [0, 1).

    Returns:
        V*, shape (states,).

    Cost: rounds (about ten) × states³ + states² · actions.

    Example:
        >>> policy_iteration(np.array([[0.0, 1.0]]), np.ones((1, 2, 1)), 0.5)
        array([2.])
    """
    n_states = reward.shape[0]
    rows = np.arange(n_states)
    policy = reward.argmax(axis=1)
    while True:
        values: NDArray[np.float64] = np.linalg.solve(
            np.eye(n_states) - gamma * kernel[rows, policy], reward[rows, policy]
        )
        table = reward + gamma * kernel @ values
        better = table.max(axis=1) > table[rows, policy] + 1e-12
        if not better.any():
            return values
        policy = np.where(better, table.argmax(axis=1), policy)
