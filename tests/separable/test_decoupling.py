"""Penalties by hand, in expectation and by autograd; similarity and rank of subspaces that are known."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sna_rl.errors import UsageError
from sna_rl.separable.decoupling import cross_moment, per_token, subspace_similarity, unit_rank

LEFT = torch.tensor([[[1.0, 2.0], [3.0, -1.0]]], dtype=torch.float64)
RIGHT = torch.tensor([[[2.0, 0.0], [1.0, 4.0]]], dtype=torch.float64)


def test_cross_moment_by_hand() -> None:
    # G = ½ ((1, 2)ᵀ(2, 0) + (3, −1)ᵀ(1, 4)) = ½ [[5, 12], [3, −4]]
    assert cross_moment(LEFT, RIGHT).item() == pytest.approx((25 + 144 + 9 + 16) / 4)


def test_centred_cross_moment_by_hand() -> None:
    # Centred: left ∓(1, −1.5), right ±(½, −2); G = −[[½, −2], [−¾, 3]]
    assert cross_moment(LEFT, RIGHT, centred=True).item() == pytest.approx(0.25 + 4 + 0.5625 + 9)


def test_per_token_by_hand() -> None:
    assert per_token(LEFT, RIGHT).item() == pytest.approx((2.0**2 + (3 - 4) ** 2) / 2)
    cosines = [2 / (5**0.5 * 2), -1 / (10**0.5 * 17**0.5)]
    free = per_token(LEFT, RIGHT, scale_free=True).item()
    assert free == pytest.approx((cosines[0] ** 2 + cosines[1] ** 2) / 2)


def test_they_differ_where_coordinates_are_paired_otherwise() -> None:
    swapped = RIGHT.flip(-1)
    assert cross_moment(LEFT, swapped).item() == pytest.approx(cross_moment(LEFT, RIGHT).item())
    assert per_token(LEFT, swapped).item() != pytest.approx(per_token(LEFT, RIGHT).item())


def test_expectation_for_independent_halves() -> None:
    torch.manual_seed(0)
    half, n = 32, 256
    draws = torch.stack([cross_moment(torch.randn(n, half), torch.randn(n, half)) for _ in range(40)])
    assert draws.mean().item() == pytest.approx(half * half / n, rel=0.05)


def test_per_token_expectation_at_unit_rms_is_the_size() -> None:
    torch.manual_seed(0)
    assert per_token(torch.randn(20_000, 16), torch.randn(20_000, 16)).item() == pytest.approx(16, rel=0.05)


@given(scale=st.floats(0.01, 100.0), seed=st.integers(0, 1000))
def test_scale_free_forms_do_not_change_with_scale(scale: float, seed: int) -> None:
    torch.manual_seed(seed)
    left, right = (torch.randn(6, 3, dtype=torch.float64) for _ in range(2))
    for penalty in (cross_moment, per_token):
        value = penalty(left, right, scale_free=True).item()
        assert penalty(left, scale * right, scale_free=True).item() == pytest.approx(value)
        assert 0 <= value <= 1
        assert penalty(left, scale * right).item() == pytest.approx(scale**2 * penalty(left, right).item())


def test_scale_free_gradients_do_not_shrink_a_half() -> None:
    right = RIGHT.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(cross_moment(LEFT, right, scale_free=True), right)
    torch.testing.assert_close((gradient * right).sum(-1), torch.zeros(1, 2, dtype=torch.float64))


def test_gradients_equal_finite_differences() -> None:
    for penalty in (cross_moment, per_token):
        for scale_free in (False, True):
            for centred in (False, True):
                torch.autograd.gradcheck(
                    lambda a, b, p=penalty, s=scale_free, c=centred: p(a, b, scale_free=s, centred=c),
                    (
                        torch.randn(4, 3).double().requires_grad_(),
                        torch.randn(4, 3).double().requires_grad_(),
                    ),
                )


def test_halves_of_two_sizes_have_a_cross_moment_alone() -> None:
    left, right = torch.randn(5, 6), torch.randn(5, 2)
    assert cross_moment(left, right).item() > 0
    with pytest.raises(UsageError, match="one size, not 6 and 2; take cross-moment"):
        per_token(left, right)


def test_similarity_of_known_subspaces() -> None:
    torch.manual_seed(0)
    basis, _ = torch.linalg.qr(torch.randn(200, 7, dtype=torch.float64) - 0.0)
    basis = torch.linalg.qr(basis - basis.mean(0))[0]
    mixed = basis[:, :3] @ torch.randn(3, 3, dtype=torch.float64)
    assert subspace_similarity(basis[:, :3], mixed) == pytest.approx(1.0)
    assert subspace_similarity(basis[:, :3], basis[:, 3:]) == pytest.approx(0.0, abs=1e-12)
    assert subspace_similarity(basis[:, :4], basis[:, 2:6]) == pytest.approx(0.5)
    assert subspace_similarity(basis, torch.ones(200, 2)) == 0.0


def test_rank_of_units_does_not_count_their_mean() -> None:
    torch.manual_seed(0)
    one = torch.randn(50, 1, dtype=torch.float64) @ torch.randn(1, 8, dtype=torch.float64)
    assert unit_rank(one + 100.0) == pytest.approx(1.0, abs=1e-6)
    basis = torch.linalg.qr(torch.randn(50, 4, dtype=torch.float64))[0]
    assert unit_rank(torch.linalg.qr(basis - basis.mean(0))[0]) == pytest.approx(4.0)
