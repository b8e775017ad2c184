"""Bilinear scores against explicit sums; low-rank deltas."""

from __future__ import annotations

import pytest
import torch

from sna_rl.errors import UsageError
from sna_rl.separable.components import svdvals
from sna_rl.separable.delta import LowRankDelta
from sna_rl.separable.scores import HeadFactor, bilinear_scores


def test_scores_are_products_of_both_factors_tied_and_untied() -> None:
    torch.manual_seed(0)
    queries, keys = HeadFactor(6, 2).double(), HeadFactor(6, 2).double()
    x = torch.randn(3, 5, 6, dtype=torch.float64)
    untied = bilinear_scores(queries.split(x), keys.split(x), 0.3)
    tied = bilinear_scores(queries.split(x), queries.split(x), 0.3)
    for head in range(2):
        rows = slice(3 * head, 3 * head + 3)
        form = 0.3 * queries.weight[rows].T @ keys.weight[rows]
        torch.testing.assert_close(untied[:, head], x @ form @ x.mT)
        square = 0.3 * queries.weight[rows].T @ queries.weight[rows]
        torch.testing.assert_close(tied[:, head], x @ square @ x.mT)
    torch.testing.assert_close(tied, tied.mT)


def test_the_rank_of_a_score_table_is_the_size_of_a_head() -> None:
    torch.manual_seed(0)
    factor = HeadFactor(8, 4).double()
    z = factor.split(torch.randn(1, 7, 8, dtype=torch.float64))
    values = svdvals(bilinear_scores(z, z, 1.0))
    assert values.shape == (1, 4, 7)
    assert (values[..., 2:] < 1e-12 * values[..., :1]).all()
    assert (values[..., 1] > 1e-6 * values[..., 0]).all()


def test_join_is_the_transpose_of_split_with_and_without_a_delta() -> None:
    torch.manual_seed(0)
    factor = HeadFactor(6, 3).double()
    delta = torch.randn(6, 6, dtype=torch.float64)
    x = torch.randn(2, 4, 6, dtype=torch.float64, requires_grad=True)
    u = torch.randn(2, 3, 4, 2, dtype=torch.float64)
    for change in (None, delta):
        (expected,) = torch.autograd.grad((factor.split(x, change) * u).sum(), x)
        torch.testing.assert_close(factor.join(u, change), expected)


def test_deltas_are_zero_at_the_start_and_of_their_rank_later() -> None:
    torch.manual_seed(0)
    delta = LowRankDelta(3, 6, 5, rank=2, scale=8.0).double()
    assert all(not delta(index).any() for index in range(3))
    delta(1).sum().backward()
    assert delta.left.grad is not None
    assert delta.left.grad[1].any()
    assert not delta.left.grad[0].any()
    delta.left.data.normal_()
    torch.testing.assert_close(delta(2), 4.0 * delta.left[2] @ delta.right[2])
    assert (svdvals(delta(2))[2:] < 1e-12).all()


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match="n_heads must divide the width 6, not 4"):
        HeadFactor(6, 4)
    with pytest.raises(UsageError, match="rank must be at most 5"):
        LowRankDelta(1, 6, 5, rank=6)
    with pytest.raises(UsageError, match="deltas for 2 iterations, none for iteration 3"):
        LowRankDelta(2, 6, 5, rank=1)(2)


def test_singular_values_of_a_batch_are_those_of_each_and_nan_where_one_is_not_finite() -> None:
    torch.manual_seed(0)
    batch = torch.randn(3, 4, 5, dtype=torch.float64)
    batch[1, 2, 2] = torch.inf
    values = svdvals(batch)
    assert values[1].isnan().all()
    for index in (0, 2):
        torch.testing.assert_close(values[index], torch.linalg.svdvals(batch[index]))
