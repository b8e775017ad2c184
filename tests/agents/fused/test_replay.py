"""The compact replay buffer against Stable-Baselines3's: the same transitions, the same samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.buffers import ReplayBuffer

from sna_rl.agents.fused.replay import CompactReplayBuffer

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)


def transitions(n: int, n_envs: int, seed: int, p_end: float) -> Iterator[dict[str, Any]]:
    """Made-up episodes: random lengths, ends by time limit, now and then a jump within an episode."""
    rng = np.random.default_rng(seed)
    obs = rng.standard_normal((n_envs, 3)).astype(np.float32)
    for _ in range(n):
        next_obs = rng.standard_normal((n_envs, 3)).astype(np.float32)
        done = rng.random(n_envs) < p_end
        truncated = done & (rng.random(n_envs) < 0.5)
        yield {
            "obs": obs,
            "next_obs": next_obs,
            "action": rng.standard_normal((n_envs, 2)),
            "reward": rng.standard_normal(n_envs),
            "done": done,
            "infos": [{"TimeLimit.truncated": bool(flag)} for flag in truncated],
        }
        jumps = done | (rng.random(n_envs) < 0.05)
        obs = np.where(jumps[:, None], rng.standard_normal((n_envs, 3)), next_obs).astype(np.float32)


def both(size: int, n_envs: int, **kwargs: Any) -> tuple[CompactReplayBuffer, ReplayBuffer]:
    arguments = (size, BOX, spaces.Box(-1.0, 1.0, (2,), np.float64), "cpu", n_envs)
    return CompactReplayBuffer(*arguments, **kwargs), ReplayBuffer(*arguments, **kwargs)


@given(
    size=st.integers(1, 12),
    n_envs=st.integers(1, 3),
    n=st.integers(1, 40),
    p_end=st.sampled_from([0.0, 0.2, 1.0]),
    seed=st.integers(0, 1000),
)
def test_samples_equal_those_of_the_plain_buffer(
    size: int, n_envs: int, n: int, p_end: float, seed: int
) -> None:
    compact, plain = both(size * n_envs, n_envs)
    for transition in transitions(n, n_envs, seed, p_end):
        compact.add(**transition)
        plain.add(**transition)
    assert (compact.pos, compact.full, compact.size()) == (plain.pos, plain.full, plain.size())
    samples = []
    for buffer in (compact, plain):
        np.random.seed(seed)
        samples.append(buffer.sample(64))
    for ours, theirs in zip(*samples, strict=True):
        assert ours is None or (torch.equal(ours, theirs) and ours.dtype == theirs.dtype)
    n_valid = compact.size()
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        np.testing.assert_array_equal(getattr(compact, name)[:n_valid], getattr(plain, name)[:n_valid])


def test_float64_observations_become_float32_and_integers_stay() -> None:
    action = spaces.Discrete(4)
    real = CompactReplayBuffer(4, spaces.Box(-1.0, 1.0, (2,), np.float64), action, "cpu")
    image = CompactReplayBuffer(4, spaces.Box(0, 255, (1, 8, 8), np.uint8), action, "cpu")
    for buffer, obs in ((real, np.full((1, 2), 1 / 3)), (image, np.full((1, 1, 8, 8), 7, np.uint8))):
        buffer.add(obs, obs, np.array([3]), np.array([1.0]), np.array([True]), [{}])
    assert real.sample(2).observations.dtype == torch.float32
    assert real.sample(2).next_observations[0, 0] == np.float32(1 / 3)
    assert image.sample(2).observations.dtype == torch.uint8
    assert image.sample(2).actions.dtype == torch.int64
    assert image.sample(2).actions.tolist() == [[3], [3]]


def test_observations_apart_are_reused_when_rows_are_overwritten() -> None:
    compact, _ = both(8, 1)
    for transition in transitions(400, 1, 0, 1.0):
        compact.add(**transition)
    assert len(compact.finals) == 16
    compact.reset()
    assert compact.size() == 0
    assert sorted(compact.free) == list(range(16))


def test_time_limits_are_ends_where_they_are_not_handled() -> None:
    compact, plain = both(16, 1, handle_timeout_termination=False)
    for transition in transitions(16, 1, 3, 0.6):
        compact.add(**transition)
        plain.add(**transition)
    np.testing.assert_array_equal(compact.dones, plain.dones)
    assert compact.dones.any()
    assert not compact.timeouts.any()


def test_the_other_variant_of_saving_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="stores observations once already"):
        both(4, 1, optimize_memory_usage=True, handle_timeout_termination=False)


def test_humanoid_fits_in_the_memory_it_is_given() -> None:
    """One million transitions of Humanoid-v5, episodes of 30 steps: at most 1.6 GB."""
    buffer = CompactReplayBuffer(
        1_000_000,
        spaces.Box(-np.inf, np.inf, (348,), np.float64),
        spaces.Box(-0.4, 0.4, (17,), np.float32),
        "cpu",
    )
    rows = sum(array.nbytes for array in vars(buffer).values() if isinstance(array, np.ndarray))
    finals = 1.25 * 1_000_000 / 30 * 348 * 4
    assert rows + finals <= 1.6e9
