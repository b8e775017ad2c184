"""Finite decision process whose optimal Q has a known rank."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sna_rl.envs.exact import check_rank, check_render_mode, policy_iteration
from sna_rl.envs.views import draw_choices
from sna_rl.errors import UsageError


class LowRankMDPEnv(gymnasium.Env[np.int64, np.int64]):
    """Each action mixes the same few reward vectors and transition kernels.

    With d = rank + 1 components and simplex weights w(a),

        r(s, a) = Σ_j w_j(a) ρ_j(s),    P(s' | s, a) = Σ_j w_j(a) K_j(s, s').

    | action | meaning |
    |---|---|
    | 0 … n_actions − 1 | index into the weights w |

    | observation | meaning |
    |---|---|
    | 0 … n_states − 1 | the state itself (Stable-Baselines3 makes it one-hot) |

    Reward: r(s, a), without noise, in [0, 1]. Start: a uniformly drawn state. End: never terminated;
    `gymnasium.make` truncates after 100 steps, to be bootstrapped.

    Known Q and its rank: Q*(s, a) = Σ_j w_j(a) [ρ_j(s) + γ Σ_s' K_j(s, s') V*(s')], of rank d. Since the
    weights sum to 1, taking row and column means away leaves rank d − 1 = `rank`: the interaction's rank.

    Version history: v0, first version.

    Args:
        n_states: number of states, at least 2.
        n_actions: number of actions, at least 2.
        rank: rank of the interaction, from 1 to min(n_states, n_actions) − 1.
        gamma: discount γ in [0, 1) for which Q* is meant.
        model_seed: draws ρ (uniform on [0, 1]), K (Dirichlet, sparse) and w (Dirichlet).
        render_mode: None or "rgb_array" (state above, last action below).

    Raises:
        UsageError: if an argument is out of range.

    Example:
        >>> import gymnasium
        >>> env = gymnasium.make("sna_rl.envs:SNA/LowRankMDP-v0", rank=2).unwrapped
        >>> table = env.optimal_q()
        >>> table.shape, int(np.linalg.matrix_rank(table))
        ((32, 16), 3)
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        n_states: int = 32,
        n_actions: int = 16,
        rank: int = 3,
        gamma: float = 0.95,
        model_seed: int = 0,
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = check_render_mode(render_mode, ("rgb_array",))
        for name, size in (("n_states", n_states), ("n_actions", n_actions)):
            if type(size) is not int or size < 2:
                raise UsageError(f"{name} must be an int of at least 2, not {size!r}")
        self.rank = check_rank(
            rank, min(n_states, n_actions) - 1, "one less than the smaller of n_states and n_actions"
        )
        if not 0.0 <= gamma < 1.0:
            raise UsageError(f"gamma must lie in [0, 1), not {gamma!r}")
        self.gamma = gamma
        rng = np.random.default_rng(model_seed)
        n_components = rank + 1
        self.weights: NDArray[np.float64] = rng.dirichlet(np.full(n_components, 0.5), n_actions)
        self.rewards: NDArray[np.float64] = rng.uniform(size=(n_components, n_states))
        self.kernels: NDArray[np.float64] = rng.dirichlet(
            np.full(n_states, 0.1), size=(n_components, n_states)
        )
        self.reward: NDArray[np.float64] = self.rewards.T @ self.weights.T
        self.kernel: NDArray[np.float64] = np.einsum("aj,jst->sat", self.weights, self.kernels)
        self._cumulative = self.kernel.cumsum(axis=2)
        self._values: NDArray[np.float64] | None = None
        self.observation_space = gymnasium.spaces.Discrete(n_states)
        self.action_space = gymnasium.spaces.Discrete(n_actions)
        self.state = 0
        self.taken = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Draw a state uniformly; `options={"state": i}` starts at a given one instead."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(len(self.reward)))
        self.state = int((options or {}).get("state", drawn))
        self.taken = -1
        return np.int64(self.state), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Pay r(s, a) and draw the next state from P(· | s, a); never terminates."""
        reward = float(self.reward[self.state, action])
        self.taken = int(action)
        cumulative = self._cumulative[self.state, action]
        self.state = int(np.searchsorted(cumulative, self.np_random.random() * cumulative[-1], side="right"))
        return np.int64(self.state), reward, False, False, {}

    def render(self) -> NDArray[np.uint8] | None:
        """State and last action, shape (240, 240, 3); None without a render mode."""
        if self.render_mode is None:
            return None
        return draw_choices(self.state, len(self.reward), self.taken, self.reward.shape[1])

    def optimal_value(self) -> NDArray[np.float64]:
        """V*, shape (n_states,), by policy iteration to machine precision; solved once, then remembered."""
        if self._values is None:
            self._values = policy_iteration(self.reward, self.kernel, self.gamma)
        return self._values

    def optimal_q(self) -> NDArray[np.float64]:
        """Q*(s, a) = r(s, a) + γ Σ_s' P(s' | s, a) V*(s'), shape (n_states, n_actions)."""
        table: NDArray[np.float64] = self.reward + self.gamma * self.kernel @ self.optimal_value()
        return table
