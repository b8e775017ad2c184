from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from sna_rl.envs import FactoredArmsEnv
from sna_rl.errors import UsageError


def brute_force(env: FactoredArmsEnv) -> list[NDArray[np.float64]]:
    """Q*_t by value iteration over every stage and joint action, from the description alone."""
    n_stages, (n_joints, n_settings, rank) = len(env.rewards), env.fits.shape
    tables: list[NDArray[np.float64]] = []
    after = np.zeros(n_stages)
    for _ in range(env.horizon):
        table = np.zeros((n_stages, *[n_settings] * n_joints))
        for stage, joint in product(range(n_stages), product(range(n_settings), repeat=n_joints)):
            stay, value = 1.0, 0.0
            for posture in range(rank):
                chance = env.fit_scale * np.prod([env.fits[m, a, posture] for m, a in enumerate(joint)])
                wanted = stage % rank == posture
                following = (stage + 1) % n_stages if wanted else max(stage - 1, 0)
                value += chance * (wanted * (stage + 1) / n_stages + after[following])
                stay -= chance
            table[(stage, *joint)] = value + stay * after[stage]
        tables.insert(0, table)
        after = table.reshape(n_stages, -1).max(axis=1)
    return tables


@pytest.mark.parametrize("rank", [1, 3])
def test_optimal_q_is_value_iteration_and_has_the_known_ranks(rank: int) -> None:
    env = FactoredArmsEnv(n_joints=2, n_settings=7, rank=rank)
    for step, table in enumerate(brute_force(env)):
        np.testing.assert_allclose(env.optimal_q(step), table, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(env.optimal_value(step), table.reshape(8, -1).max(axis=1), rtol=1e-10)
        np.testing.assert_allclose(
            np.einsum("sr,ar,br->sab", *env.cp_factors(step)), table, rtol=1e-10, atol=1e-12
        )
        # The CP form bounds the rank from above, the unfoldings' ranks from below.
        whole = rank if step == env.horizon - 1 else rank + 1
        for mode in range(3):
            unfolded = np.moveaxis(table, mode, 0).reshape(table.shape[mode], -1)
            assert np.linalg.matrix_rank(unfolded, tol=1e-9 * np.linalg.norm(unfolded)) == whole
        flat = table.reshape(8, -1)
        centred = flat - flat.mean(0) - flat.mean(1, keepdims=True) + flat.mean()
        assert np.linalg.matrix_rank(centred, tol=1e-9 * np.linalg.norm(flat)) == rank


def test_three_joints_agree_with_value_iteration() -> None:
    env = FactoredArmsEnv(n_joints=3, n_settings=3, rank=2, n_stages=4)
    for step, table in enumerate(brute_force(env)):
        np.testing.assert_allclose(env.optimal_q(step), table, rtol=1e-10, atol=1e-12)


def test_chances_never_exceed_one() -> None:
    for seed in range(20):
        env = FactoredArmsEnv(n_joints=3, rank=6, model_seed=seed)
        totals = env.fit_scale * np.einsum("ar,br,cr->abc", *env.fits)
        assert 0.0 < totals.max() <= 1.0


def test_greedy_return_is_the_optimal_value() -> None:
    env = FactoredArmsEnv(n_joints=2)
    returns = []
    for seed in range(400):
        env.reset(seed=seed)
        total, terminated = 0.0, False
        while not terminated:
            table = env.optimal_q(env.elapsed)[env.stage]
            action = np.array(np.unravel_index(table.argmax(), table.shape))
            _, reward, terminated, truncated, _ = env.step(action)
            assert not truncated
            total += reward
        returns.append(total)
    error = np.std(returns) / np.sqrt(len(returns))
    assert abs(np.mean(returns) - env.optimal_value(0)[0]) < 4.0 * error


def test_observation_tells_stage_and_time_left() -> None:
    env = FactoredArmsEnv(horizon=20)
    observation, _ = env.reset(seed=0, options={"stage": 2})
    np.testing.assert_array_equal(observation, [0, 0, 1, 0, 0, 0, 0, 0, 1])
    for elapsed in range(1, 21):
        observation, _, terminated, _, _ = env.step(np.zeros(3, np.int64))
        assert observation[:8].sum() == 1.0
        assert observation[8] == pytest.approx(1 - elapsed / 20)
        assert terminated == (elapsed == 20)


def test_six_joints_are_solved_in_full() -> None:
    env = FactoredArmsEnv(n_joints=6)
    assert env.optimal_q(0).size == 8 * 7**6
    assert env.optimal_value(0)[0] == pytest.approx(env.optimal_q(0)[0].max())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 7}, "rank must be an int from 1 to 6"),
        ({"horizon": 5}, "horizon must be an int of at least 20, not 5"),
        ({"n_joints": 1}, "n_joints must be an int of at least 2, not 1"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FactoredArmsEnv(**arguments)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="step must lie between 0 and 19, not 20"):
        FactoredArmsEnv().optimal_q(20)
