"""Linear-quadratic regulator whose optimal Q has an interaction of known rank."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sna_rl.envs.exact import check_rank, check_render_mode
from sna_rl.envs.views import draw_bars
from sna_rl.errors import UsageError

OBSERVATION_BOUND = 1e6


def _orthonormal(rng: np.random.Generator, rows: int, columns: int) -> NDArray[np.float64]:
    """Uniformly random matrix with orthonormal columns."""
    q, r = np.linalg.qr(rng.standard_normal((rows, columns)))
    signed: NDArray[np.float64] = q * np.sign(np.diag(r))
    return signed


class LQREnv(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Drive a linear system to the origin at quadratic cost; Q* is known in closed form.

    Dynamics: s' = A s + B a + w with A = 0.9 O (O orthogonal), B = 0.5 U Vᵀ (U and V with `rank` orthonormal
    columns) and w ~ N(0, noise_std² I).

    | action | unit | min | max | meaning |
    |---|---|---|---|---|
    | 0 … action_dim − 1 | 1 | −1 | 1 | input a; a value outside is clipped |

    | observation | unit | min | max | meaning |
    |---|---|---|---|---|
    | 0 … state_dim − 1 | 1 | −1e6 | 1e6 | state s; the bounds are never reached |

    Reward: −(sᵀ Q_c s + aᵀ R_c a) with R_c = action_cost · I and
    Q_c = I − γ 0.81 I + γ² AᵀB (R_c + γ BᵀB)⁻¹ BᵀA, both positive definite: at most 0, unbounded below.
    Start: s ~ N(0, I). End: never terminated; `gymnasium.make` truncates after 25 steps, and the value at a
    truncation is to be bootstrapped. Termination would change Q*.

    Known Q and its rank: with these costs the discounted Riccati equation has the solution I, so

        V*(s) = −sᵀs − c,   a*(s) = −(R_c + γ BᵀB)⁻¹ γ BᵀA s,
        Q*(s, a) = −[sᵀ(Q_c + γAᵀA)s + 2 sᵀ M a + aᵀ(R_c + γBᵀB)a] − c,   M = γ AᵀB,

    with c = γ/(1 − γ) · state_dim · noise_std². The interaction between s and a is −2 sᵀ M a; M has `rank`
    equal singular values γ · 0.9 · 0.5, so that is the rank of the double-centred value table. The formulas
    hold where a*(s) lies inside the box: at the default arguments on more than 99 % of s ~ N(0, I). The
    share falls to about 97 % where rank = action_dim; action_cost = 2 brings it back above 99.9 %.

    Version history: v0, first version.

    Args:
        state_dim: entries of s, at least 1.
        action_dim: entries of a, at least 1.
        rank: rank of B and of the interaction, from 1 to min(state_dim, action_dim).
        gamma: discount γ in (0, 1) for which Q* is meant; train with the same one.
        noise_std: standard deviation of each entry of w, at least 0; noise keeps the states apart from 0.
        action_cost: diagonal entry of R_c, above 0.
        model_seed: draws O, U and V; the episodes' randomness comes from `reset(seed=...)`.
        render_mode: None or "rgb_array" (state above, last action below).

    Raises:
        UsageError: if an argument is out of range.

    Example:
        >>> import gymnasium
        >>> env = gymnasium.make("sna_rl.envs:SNA/LQR-v0", rank=2).unwrapped
        >>> int(np.linalg.matrix_rank(env.interaction_matrix))
        2
        >>> state = np.ones(8)
        >>> bool(np.isclose(env.optimal_q(state, env.optimal_action(state)), env.optimal_value(state)))
        True
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    decay: ClassVar[float] = 0.9
    gain: ClassVar[float] = 0.5

    def __init__(
        self,
        state_dim: int = 8,
        action_dim: int = 6,
        rank: int = 3,
        gamma: float = 0.95,
        noise_std: float = 0.1,
        action_cost: float = 1.0,
        model_seed: int = 0,
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = check_render_mode(render_mode, ("rgb_array",))
        for name, size in (("state_dim", state_dim), ("action_dim", action_dim)):
            if type(size) is not int or size < 1:
                raise UsageError(f"{name} must be an int of at least 1, not {size!r}")
        self.rank = check_rank(rank, min(state_dim, action_dim), "the smaller of state_dim and action_dim")
        if not 0.0 < gamma < 1.0:
            raise UsageError(f"gamma must lie between 0 and 1, both excluded, not {gamma!r}")
        if noise_std < 0.0 or action_cost <= 0.0:
            raise UsageError(
                f"noise_std must be at least 0 and action_cost above 0, not {noise_std!r} and {action_cost!r}"
            )
        self.gamma = gamma
        self.noise_std = noise_std
        rng = np.random.default_rng(model_seed)
        self.dynamics = self.decay * _orthonormal(rng, state_dim, state_dim)
        left, right = _orthonormal(rng, state_dim, rank), _orthonormal(rng, action_dim, rank)
        self.input_matrix: NDArray[np.float64] = self.gain * left @ right.T
        self.action_cost = action_cost * np.eye(action_dim)
        self.interaction_matrix: NDArray[np.float64] = gamma * self.dynamics.T @ self.input_matrix
        self.action_hessian: NDArray[np.float64] = (
            self.action_cost + gamma * self.input_matrix.T @ self.input_matrix
        )
        self.feedback = np.linalg.solve(self.action_hessian, self.interaction_matrix.T).astype(np.float64)
        remainder: NDArray[np.float64] = (1.0 - gamma * self.decay**2) * np.eye(state_dim, dtype=np.float64)
        self.state_cost = remainder + self.interaction_matrix @ self.feedback
        self.noise_constant = gamma / (1.0 - gamma) * state_dim * noise_std**2
        self.observation_space = gymnasium.spaces.Box(
            -OBSERVATION_BOUND, OBSERVATION_BOUND, (state_dim,), np.float32
        )
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (action_dim,), np.float32)
        self.state = np.zeros(state_dim)
        self.taken = np.zeros(action_dim)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Draw s ~ N(0, I); `options={"state": s}` starts at a given state instead."""
        super().reset(seed=seed)
        drawn = self.np_random.standard_normal(self.state.shape)
        chosen = (options or {}).get("state")
        self.state = drawn if chosen is None else np.array(chosen, dtype=np.float64).reshape(self.state.shape)
        self.taken = np.zeros(len(self.taken))
        return self.state.astype(np.float32), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """One step of the dynamics; never terminates."""
        self.taken = taken = np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0)
        cost = self.state @ self.state_cost @ self.state + taken @ self.action_cost @ taken
        noise = self.noise_std * self.np_random.standard_normal(self.state.shape)
        self.state = self.dynamics @ self.state + self.input_matrix @ taken + noise
        return self.state.astype(np.float32), -float(cost), False, False, {}

    def render(self) -> NDArray[np.uint8] | None:
        """State and last action, shape (240, 240, 3); None without a render mode."""
        if self.render_mode is None:
            return None
        return draw_bars(self.state, self.taken)

    def optimal_action(self, state: ArrayLike) -> NDArray[np.float64]:
        """a*(s) for states of shape (..., state_dim), not clipped to the box; shape (..., action_dim)."""
        return -np.asarray(state, dtype=np.float64) @ self.feedback.T

    def optimal_value(self, state: ArrayLike) -> NDArray[np.float64]:
        """V*(s) for states of shape (..., state_dim); shape (...)."""
        s = np.asarray(state, dtype=np.float64)
        values: NDArray[np.float64] = -(s * s).sum(axis=-1) - self.noise_constant
        return values

    def optimal_q(self, state: ArrayLike, action: ArrayLike) -> NDArray[np.float64]:
        """Q*(s, a); leading shapes of the two broadcast, so (n, 1, ·) with (1, m, ·) gives the value table.

        Args:
            state: states, shape (..., state_dim).
            action: actions, shape (..., action_dim); outside [−1, 1] the formula is continued, not clipped.

        Returns:
            Values of the broadcast leading shape.
        """
        s, a = np.asarray(state, dtype=np.float64), np.asarray(action, dtype=np.float64)
        hessian = self.state_cost + self.gamma * self.decay**2 * np.eye(s.shape[-1])
        of_state = ((s @ hessian) * s).sum(axis=-1)
        of_action = ((a @ self.action_hessian) * a).sum(axis=-1)
        mixed = ((s @ self.interaction_matrix) * a).sum(axis=-1)
        values: NDArray[np.float64] = -(of_state + 2.0 * mixed + of_action) - self.noise_constant
        return values
