from __future__ import annotations

import numpy as np
import pytest

from sna_rl.envs import LowRankMDPEnv
from sna_rl.envs.exact import policy_iteration
from sna_rl.errors import UsageError


def energy_rank(table: np.ndarray) -> int:
    centred = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
    energy = np.cumsum(np.linalg.svd(centred, compute_uv=False) ** 2)
    return int(np.searchsorted(energy / energy[-1], 1 - 1e-9)) + 1


@pytest.mark.parametrize("rank", range(1, 9))
def test_optimal_q_has_the_known_ranks(rank: int) -> None:
    table = LowRankMDPEnv(rank=rank, model_seed=rank).optimal_q()
    assert np.linalg.matrix_rank(table) == rank + 1
    assert energy_rank(table) == rank


def test_policy_iteration_agrees_with_value_iteration() -> None:
    env = LowRankMDPEnv()
    values = np.zeros(32)
    for _ in range(700):
        values = (env.reward + env.gamma * env.kernel @ values).max(axis=1)
    np.testing.assert_allclose(env.optimal_value(), values, rtol=1e-12)


def test_bellman_residual_is_zero() -> None:
    env = LowRankMDPEnv(rank=5)
    np.testing.assert_allclose(env.optimal_q().max(axis=1), env.optimal_value(), rtol=1e-13)


def test_two_state_problem_by_hand() -> None:
    # Staying in state 1 pays 1 for ever; moving there from state 0 costs nothing and takes one step.
    kernel = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    reward = np.array([[0.1, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(policy_iteration(reward, kernel, 0.9), [9.0, 10.0])


def test_kernel_and_reward_are_mixed_by_the_same_weights() -> None:
    env = LowRankMDPEnv(n_states=5, n_actions=4, rank=2)
    np.testing.assert_allclose(env.kernel.sum(axis=2), 1.0)
    np.testing.assert_allclose(env.weights.sum(axis=1), 1.0)
    mixed = sum(env.weights[3, j] * env.kernels[j, 1] for j in range(3))
    np.testing.assert_allclose(env.kernel[1, 3], mixed)
    np.testing.assert_allclose(env.reward[1, 3], sum(env.weights[3, j] * env.rewards[j, 1] for j in range(3)))


def test_simulation_follows_the_kernel() -> None:
    env = LowRankMDPEnv(n_states=4, n_actions=3, rank=1)
    env.reset(seed=0)
    counts = np.zeros(4)
    for _ in range(20_000):
        env.state = 2
        observation, reward, terminated, truncated, _ = env.step(np.int64(1))
        counts[observation] += 1
        assert reward == env.reward[2, 1]
        assert not terminated
        assert not truncated
    np.testing.assert_allclose(counts / counts.sum(), env.kernel[2, 1], atol=0.012)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 16}, "rank must be an int from 1 to 15"),
        ({"n_states": 1}, "n_states must be an int of at least 2, not 1"),
        ({"gamma": 1.0}, r"gamma must lie in \[0, 1\), not 1.0"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LowRankMDPEnv(**arguments)  # type: ignore[arg-type]
