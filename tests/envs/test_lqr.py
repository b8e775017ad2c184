from __future__ import annotations

from itertools import product
from typing import Any

import gymnasium
import numpy as np
import pytest
import scipy.linalg

from sna_rl.envs import LQREnv
from sna_rl.errors import UsageError

SIZES = [(8, 6, 3), (8, 8, 8), (3, 5, 1), (5, 2, 2)]


def make(state_dim: int = 8, action_dim: int = 6, rank: int = 3, **kwargs: Any) -> LQREnv:
    env = gymnasium.make(
        "sna_rl.envs:SNA/LQR-v0", state_dim=state_dim, action_dim=action_dim, rank=rank, **kwargs
    ).unwrapped
    assert isinstance(env, LQREnv)
    return env


@pytest.mark.parametrize(("state_dim", "action_dim", "rank"), SIZES)
def test_the_riccati_solution_is_the_identity(state_dim: int, action_dim: int, rank: int) -> None:
    env = make(state_dim, action_dim, rank)
    root = np.sqrt(env.gamma)
    solution = scipy.linalg.solve_discrete_are(
        root * env.dynamics, root * env.input_matrix, env.state_cost, env.action_cost
    )
    np.testing.assert_allclose(solution, np.eye(state_dim), atol=1e-10)


@pytest.mark.parametrize(("state_dim", "action_dim", "rank"), SIZES)
def test_interaction_matrix_has_equal_singular_values(state_dim: int, action_dim: int, rank: int) -> None:
    env = make(state_dim, action_dim, rank)
    sigma = np.linalg.svd(env.interaction_matrix, compute_uv=False)
    np.testing.assert_allclose(sigma[:rank], env.gamma * 0.9 * 0.5, rtol=1e-12)
    np.testing.assert_allclose(sigma[rank:], 0.0, atol=1e-12)


@pytest.mark.parametrize("rank", range(1, 9))
def test_double_centred_table_has_the_rank(rank: int) -> None:
    env = make(8, 8, rank)
    rng = np.random.default_rng(1)
    table = env.optimal_q(rng.standard_normal((128, 1, 8)), rng.uniform(-1, 1, (1, 64, 8)))
    centred = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
    energy = np.cumsum(np.linalg.svd(centred, compute_uv=False) ** 2)
    assert int(np.searchsorted(energy / energy[-1], 1 - 1e-9)) + 1 == rank


def test_bellman_equation_holds_without_noise() -> None:
    env = make(noise_std=0.0)
    rng = np.random.default_rng(2)
    for _ in range(20):
        state, action = rng.standard_normal(8), rng.uniform(-1, 1, 6).astype(np.float32)
        env.reset(seed=0, options={"state": state})
        _, reward, terminated, truncated, _ = env.step(action)
        assert not terminated
        assert not truncated
        target = reward + env.gamma * env.optimal_value(env.state)
        np.testing.assert_allclose(env.optimal_q(state, action), target, rtol=1e-12)


def test_process_noise_adds_the_constant() -> None:
    quiet, noisy = make(noise_std=0.0), make(noise_std=0.3)
    difference = noisy.optimal_value(np.ones(8)) - quiet.optimal_value(np.ones(8))
    np.testing.assert_allclose(difference, -0.95 / 0.05 * 8 * 0.3**2, rtol=1e-12)
    # E V*(s') over the noise: one-step Bellman equation in expectation, from the moments of N(0, σ²).
    state, action = np.full(8, 0.3), np.full(6, -0.2)
    mean = noisy.dynamics @ state + noisy.input_matrix @ action
    cost = state @ noisy.state_cost @ state + action @ noisy.action_cost @ action
    expected = noisy.optimal_value(mean) - 8 * 0.3**2
    np.testing.assert_allclose(noisy.optimal_q(state, action), -cost + 0.95 * expected, rtol=1e-12)


def test_simulated_return_of_the_optimal_policy_is_the_value() -> None:
    env = make(noise_std=0.3)
    state = np.full(8, 0.5)
    returns = []
    for seed in range(60):
        env.reset(seed=seed, options={"state": state})
        total = 0.0
        for step in range(160):
            action = env.optimal_action(env.state)
            total += 0.95**step * env.step(action.astype(np.float32))[1]
        returns.append(total)
    error = np.std(returns) / np.sqrt(len(returns))
    assert abs(np.mean(returns) - env.optimal_value(state)) < 3.0 * error + 0.05


@pytest.mark.parametrize(
    ("sizes", "action_cost"), [*product([(8, 6, 3), (8, 8, 4)], [1.0]), ((8, 8, 8), 2.0)]
)
def test_optimal_action_stays_inside_the_box(sizes: tuple[int, int, int], action_cost: float) -> None:
    env = make(*sizes, action_cost=action_cost)
    actions = env.optimal_action(np.random.default_rng(3).standard_normal((100_000, 8)))
    assert (np.abs(actions).max(axis=1) <= 1.0).mean() >= 0.99


def test_optimal_action_maximises_q() -> None:
    env = make()
    rng = np.random.default_rng(4)
    states = rng.standard_normal((50, 8))
    best = env.optimal_action(states)
    np.testing.assert_allclose(env.optimal_q(states, best), env.optimal_value(states), rtol=1e-12)
    others = best[:, None] + 0.1 * rng.standard_normal((50, 20, 6))
    assert (env.optimal_q(states[:, None], others) < env.optimal_value(states)[:, None]).all()


def test_actions_outside_the_box_are_clipped() -> None:
    env = make(noise_std=0.0)
    outcomes = []
    for scale in (1.0, 3.0):
        env.reset(seed=0)
        outcomes.append(env.step(np.full(6, scale, np.float32))[1])
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"rank": 7},
            r"rank must be an int from 1 to 6 \(the smaller of state_dim and action_dim\), not 7 \(int\)",
        ),
        ({"rank": 2.0}, r"rank must be an int .* not 2.0 \(float\)"),
        ({"gamma": 1.0}, "gamma must lie between 0 and 1"),
        ({"state_dim": 0}, "state_dim must be an int of at least 1, not 0"),
        ({"noise_std": -0.1}, "noise_std must be at least 0"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LQREnv(**arguments)  # type: ignore[arg-type]
