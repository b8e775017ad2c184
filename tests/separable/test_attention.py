"""Linear attention: chunks against the quadratic sum, values and gradients; steps; the prompt's window."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sna_rl.separable.attention import (
    CHUNK,
    SMALLEST_SUM,
    attention_state,
    attention_step,
    causal_attention,
    look_ahead_attention,
    positive_features,
)


def quadratic(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None) -> Tensor:
    """The definition: a time × time table of products, of which the allowed ones count."""
    time = q.shape[-2]
    if allowed is None:
        allowed = torch.ones(time, time, dtype=torch.bool).tril()
    table = (q @ k.mT) * allowed
    return table @ v / (table.sum(-1, keepdim=True) + SMALLEST_SUM)


def inputs(time: int, rank: int = 5, size: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(time)
    q, k = (torch.rand(2, 3, time, rank, dtype=torch.float64) for _ in range(2))
    v = torch.randn(2, 3, time, size, dtype=torch.float64)
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_()


@pytest.mark.parametrize("time", [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
def test_chunks_equal_the_quadratic_sum_and_its_gradients(time: int) -> None:
    leaves = inputs(time)
    actual, expected = causal_attention(*leaves), quadratic(*leaves)
    torch.testing.assert_close(actual, expected)
    upstream = torch.randn_like(actual)
    ours = torch.autograd.grad(actual, leaves, upstream)
    theirs = torch.autograd.grad(expected, leaves, upstream)
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left, right)


@given(time=st.integers(1, 150), seed=st.integers(0, 2**16))
def test_constant_values_are_kept_and_outputs_lie_between_the_values(time: int, seed: int) -> None:
    torch.manual_seed(seed)
    q, k = (0.1 + torch.rand(1, 1, time, 4, dtype=torch.float64) for _ in range(2))
    v = torch.randn(1, 1, time, 2, dtype=torch.float64)
    torch.testing.assert_close(
        causal_attention(q, k, torch.ones_like(v)), torch.ones_like(v), rtol=1e-4, atol=0.0
    )
    out = causal_attention(q, k, v)
    assert (out.abs() <= v.abs().cummax(2).values + 1e-9).all()


def test_nothing_later_is_read_bit_for_bit() -> None:
    q, k, v = (x.detach().float() for x in inputs(200))
    before = causal_attention(q, k, v)
    for changed in (q, k, v):
        changed[:, :, 137:] += 1.0
    after = causal_attention(q, k, v)
    assert torch.equal(before[:, :, :137], after[:, :, :137])
    assert not torch.equal(before[:, :, 137:], after[:, :, 137:])


def test_features_that_vanish_give_zero_and_finite_gradients() -> None:
    q, k, v = inputs(70)
    zeros = torch.zeros_like(q, requires_grad=True)
    out = causal_attention(zeros, k, v)
    assert torch.equal(out.detach(), torch.zeros_like(v))
    assert all(x.isfinite().all() for x in torch.autograd.grad(out.sum(), [zeros, k, v]))


def test_steps_equal_the_parallel_form_and_go_on_from_a_prompt() -> None:
    q, k, v = (x.detach() for x in inputs(90))
    expected = causal_attention(q, k, v)
    state = attention_state(k[:, :, :40], v[:, :, :40])
    sizes = [x.shape for x in state]
    for time in range(40, 90):
        out, state = attention_step(state, q[:, :, time], k[:, :, time], v[:, :, time])
        torch.testing.assert_close(out, expected[:, :, time])
    assert [x.shape for x in state] == sizes


@pytest.mark.parametrize("window", [1, 4, 100])
def test_the_window_ends_with_the_prompt(window: int) -> None:
    leaves = inputs(80)
    lengths = torch.tensor([30, 77])
    index = torch.arange(80)
    inside = index < lengths[:, None]
    ahead = (index - index[:, None] <= window) & inside[:, None, :] & inside[:, :, None]
    allowed = (ahead | (index <= index[:, None]))[:, None]
    actual, expected = look_ahead_attention(*leaves, inside, window), quadratic(*leaves, allowed)
    torch.testing.assert_close(actual, expected)
    ours = torch.autograd.grad(actual.square().sum(), leaves)
    theirs = torch.autograd.grad(expected.square().sum(), leaves)
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left, right)


def test_features_by_hand_and_never_negative() -> None:
    x = torch.linspace(-200.0, 20.0, 1001)
    assert (positive_features(x) >= 0).all()
    torch.testing.assert_close(positive_features(torch.tensor([-1.0, 0.5])), torch.tensor([0.36787944, 1.5]))


def test_sums_are_float32_under_bfloat16() -> None:
    q, k, v = (x.detach().float() for x in inputs(300))
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(causal_attention(q, k, v), causal_attention(q, k, v.double()).float())
