"""Many discrete joints under one task, with an optimal Q of known CP and Tucker rank at every step."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sna_rl.envs.exact import check_rank, check_render_mode
from sna_rl.envs.views import draw_choices
from sna_rl.errors import UsageError

_BELL_WIDTH = 0.7


class FactoredArmsEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.int64]]):
    """Set every joint so that the arm takes the posture which the current stage of the work wants.

    There are `rank` postures. Posture r prefers setting μ_r^(m) on joint m, and the joints fit it by

        g_r(a) = (1/c) Π_m φ_r^(m)(a_m),    φ_r^(m)(x) = exp(−(x − μ_r^(m))² / (2 · 0.7²)),

    where c makes Σ_r g_r(a) ≤ 1 for every a. With probability g_r(a) the arm takes posture r; with the rest,
    1 − Σ_r g_r(a), nothing happens. In stage s the wanted posture is s mod `rank`: it leads to stage s + 1
    (the last stage leads to stage 0), any other posture to stage s − 1 (stage 0 stays).

    | action | values | meaning |
    |---|---|---|
    | 0 … n_joints − 1 | 0 … n_settings − 1 | setting of the joint |

    | observation | unit | min | max | meaning |
    |---|---|---|---|---|
    | 0 … n_stages − 1 | 1 | 0 | 1 | the stage, one-hot |
    | n_stages | 1 | 0 | 1 | steps left / horizon |

    Reward: g_w(a) · (s + 1) / n_stages with w the wanted posture, in [0, 1]. Start: stage 0. End: terminated
    after `horizon` steps, which the observation shows coming; no discount is needed.

    Known Q and its rank: at every step t,

        Q*_t(s, a) = V*_{t+1}(s) + Σ_r c_{t,r}(s) Π_m φ_r^(m)(a_m),

    because reward and transitions see the action through the same `rank` products. Over the modes
    (stage, joint 1, …, joint M) this is a CP form with `rank` components and one that depends on the stage
    alone (absent at the last step): CP rank and every multilinear (Tucker) rank are `rank` + 1, at the last
    step `rank`. As a table of stages × joint actions its interaction has rank `rank` at every step.
    `cp_factors(step)` returns the form, `optimal_q(step)` the table.

    Version history: v0, first version.

    Args:
        n_joints: number of joints M, at least 2.
        n_settings: settings of each joint, at least 2; the joint actions number n_settings ** n_joints.
        rank: number of postures, from 1 to min(n_settings, n_stages) − 1.
        n_stages: number of stages, at least 2.
        horizon: steps of an episode, at least 20.
        model_seed: draws the preferred settings μ, without repeats on a joint.
        render_mode: None or "rgb_array" (state above, last action below).

    Raises:
        UsageError: if an argument is out of range.

    Example:
        >>> import gymnasium
        >>> env = gymnasium.make("sna_rl.envs:SNA/FactoredArms-v0", n_joints=2).unwrapped
        >>> env.optimal_q(0).shape
        (8, 7, 7)
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    action_space: gymnasium.spaces.MultiDiscrete

    def __init__(
        self,
        n_joints: int = 3,
        n_settings: int = 7,
        rank: int = 3,
        n_stages: int = 8,
        horizon: int = 20,
        model_seed: int = 0,
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = check_render_mode(render_mode, ("rgb_array",))
        for name, size, least in (
            ("n_joints", n_joints, 2),
            ("n_settings", n_settings, 2),
            ("n_stages", n_stages, 2),
            ("horizon", horizon, 20),
        ):
            if type(size) is not int or size < least:
                raise UsageError(f"{name} must be an int of at least {least}, not {size!r}")
        limit = "one less than the smaller of n_settings and n_stages"
        self.rank = check_rank(rank, min(n_settings, n_stages) - 1, limit)
        self.horizon = horizon
        rng = np.random.default_rng(model_seed)
        preferred = np.stack([rng.permutation(n_settings)[:rank] for _ in range(n_joints)])
        settings = np.arange(n_settings)
        bells = np.exp(-((settings[:, None] - preferred[:, None, :]) ** 2) / (2.0 * _BELL_WIDTH**2))
        self.fits: NDArray[np.float64] = bells
        """φ, shape (joints, settings, postures)."""
        self.fit_scale = 1.0 / float(bells.sum(axis=2).max(axis=1).min())
        """1/c: Σ_r Π_m φ ≤ Σ_r φ_r^(m) for each joint m, since no φ exceeds 1."""
        stages = np.arange(n_stages)
        wanted = np.eye(rank)[stages % rank]
        self.rewards: NDArray[np.float64] = wanted * (stages[:, None] + 1) / n_stages
        """Reward rate of each posture, shape (stages, postures)."""
        onward, backward = (stages + 1) % n_stages, np.maximum(stages - 1, 0)
        self.successors: NDArray[np.int64] = np.where(wanted > 0, onward[:, None], backward[:, None])
        """Next stage after each posture, shape (stages, postures)."""
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (n_stages + 1,), np.float32)
        self.action_space = gymnasium.spaces.MultiDiscrete([n_settings] * n_joints)
        self.stage = 0
        self.elapsed = 0
        self.taken = np.full(n_joints, -1)

    def _observation(self) -> NDArray[np.float32]:
        observation = np.zeros(len(self.rewards) + 1, np.float32)
        observation[self.stage] = 1.0
        observation[-1] = 1.0 - self.elapsed / self.horizon
        return observation

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Go to stage 0; `options={"stage": s}` starts at a given one instead."""
        super().reset(seed=seed)
        self.stage = int((options or {}).get("stage", 0))
        self.elapsed = 0
        self.taken = np.full(len(self.fits), -1)
        return self._observation(), {}

    def step(
        self, action: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take a posture with the probabilities g(a); terminates after `horizon` steps."""
        self.taken = np.array(action)
        chances = self.fit_scale * self.fits[np.arange(len(self.fits)), action].prod(axis=0)
        reward = float(chances @ self.rewards[self.stage])
        posture = int(np.searchsorted(chances.cumsum(), self.np_random.random(), side="right"))
        if posture < self.rank:
            self.stage = int(self.successors[self.stage, posture])
        self.elapsed += 1
        return self._observation(), reward, self.elapsed >= self.horizon, False, {}

    def render(self) -> NDArray[np.uint8] | None:
        """State and last action, shape (240, 240, 3); None without a render mode."""
        if self.render_mode is None:
            return None
        return draw_choices(self.stage, len(self.rewards), self.taken, self.action_space.nvec)

    def optimal_value(self, step: int) -> NDArray[np.float64]:
        """V*_step for every stage, shape (stages,); step = horizon gives zeros."""
        values: NDArray[np.float64] = self._values[self._checked(step, self.horizon)]
        return values

    def optimal_q(self, step: int) -> NDArray[np.float64]:
        """Q*_step as a table of shape (stages, settings, …, settings), one axis a joint.

        Cost: stages × n_settings ** n_joints values.
        """
        after = self._values[self._checked(step, self.horizon - 1) + 1]
        flat: NDArray[np.float64] = self._posture_values(after) @ self._joint_fits.T + after[:, None]
        return flat.reshape(-1, *self.action_space.nvec)

    def cp_factors(self, step: int) -> list[NDArray[np.float64]]:
        """The CP form of Q*_step: one matrix of `rank` + 1 columns a mode, stage first, then the joints.

        Q*_step[s, a_1, …, a_M] = Σ_r factors[0][s, r] Π_m factors[m][a_m, r].
        """
        after = self._values[self._checked(step, self.horizon - 1) + 1]
        ones = np.ones((self.fits.shape[1], 1))
        return [
            np.column_stack([self._posture_values(after), after]),
            *(np.hstack([fits, ones]) for fits in self.fits),
        ]

    def _checked(self, step: int, last: int) -> int:
        if not 0 <= step <= last:
            raise UsageError(f"step must lie between 0 and {last}, not {step}")
        return step

    def _posture_values(self, after: NDArray[np.float64]) -> NDArray[np.float64]:
        """c_{t,r}(s) from V*_{t+1}: what posture r gives beyond staying, times 1/c; (stages, postures)."""
        beyond: NDArray[np.float64] = self.rewards + after[self.successors] - after[:, None]
        return self.fit_scale * beyond

    @cached_property
    def _joint_fits(self) -> NDArray[np.float64]:
        """Π_m φ_r^(m)(a_m) for every joint action in row-major order, shape (joint actions, postures)."""
        table: NDArray[np.float64] = self.fits[0]
        for fits in self.fits[1:]:
            table = (table[:, None, :] * fits[None, :, :]).reshape(-1, self.rank)
        return table

    @cached_property
    def _values(self) -> NDArray[np.float64]:
        """V* by backward induction, shape (horizon + 1, stages)."""
        values = np.zeros((self.horizon + 1, len(self.rewards)))
        for step in reversed(range(self.horizon)):
            after = values[step + 1]
            values[step] = after + (self._posture_values(after) @ self._joint_fits.T).max(axis=1)
        return values
