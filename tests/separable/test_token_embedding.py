"""Token embedding: digits that tell tokens apart, the formula by loops, its scale and its parameters."""

from __future__ import annotations

from functools import reduce

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sna_rl.errors import UsageError
from sna_rl.separable.splines import spline_basis
from sna_rl.separable.token_embedding import SeparableEmbedding, digit_base


@given(n_tokens=st.integers(2, 200_000), n_digits=st.integers(1, 5))
def test_the_base_is_the_least_that_tells_tokens_apart(n_tokens: int, n_digits: int) -> None:
    base = digit_base(n_tokens, n_digits)
    assert base**n_digits >= n_tokens
    assert base == 2 or (base - 1) ** n_digits < n_tokens


def test_embeddings_equal_the_formula_in_loops() -> None:
    torch.manual_seed(0)
    embedding = SeparableEmbedding(
        30, 5, 3, n_digits=2, n_heads=2, n_coordinates=3, n_knots=4, std=0.5
    ).double()
    base = 6  # 6 · 6 is the first square of at least 30
    tokens = torch.tensor([0, 17, 29])
    rows = []
    for token in tokens.tolist():
        heads = []
        for head in range(2):
            book = embedding.codebooks[head]
            seed = book[token % base] + book[base + token // base]
            z = (embedding.norm(seed) / 2).sigmoid()
            splines = [
                spline_basis(z[d], embedding.atoms.slopes[head, d, 0], 4)
                @ embedding.atoms.coefficients[head, d]
                for d in range(3)
            ]
            heads.append(reduce(torch.mul, splines) - 1.0)
        rows.append(torch.cat(heads) @ embedding.mix.weight.T)
    torch.testing.assert_close(embedding(tokens), torch.stack(rows))


def test_looked_up_and_computed_embeddings_are_the_same_with_their_gradients() -> None:
    embedding = SeparableEmbedding(11, 4, 3).double()
    few, many = torch.tensor([3, 10]), torch.tensor([3, 10] * 10)
    torch.testing.assert_close(embedding(many)[:2], embedding(few))
    parameters = list(embedding.parameters())
    by_table = torch.autograd.grad(embedding(many).square().sum(), parameters)
    by_token = torch.autograd.grad(10 * embedding(few).square().sum(), parameters)
    for left, right in zip(by_table, by_token, strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("rank", [8, 128])
@pytest.mark.parametrize("n_coordinates", [2, 12])
def test_the_scale_at_the_start_depends_on_neither_rank_nor_order(rank: int, n_coordinates: int) -> None:
    torch.manual_seed(1)
    embedding = SeparableEmbedding(4096, 256, rank, n_coordinates=n_coordinates, std=0.3)
    assert embedding.table().square().mean().sqrt().item() == pytest.approx(0.3, rel=0.2)


def test_tokens_start_apart() -> None:
    table = SeparableEmbedding(512, 64).table()
    table = torch.nn.functional.normalize(table - table.mean(0), dim=1)
    cosines = (table @ table.T).fill_diagonal_(0.0)
    assert cosines.abs().mean() < 0.35
    assert cosines.max() < 1 - 1e-4


def test_parameters_are_counted_and_few() -> None:
    embedding = SeparableEmbedding(8192, 128, 64)
    codebooks, atoms = 4 * 3 * 21 * 8, 4 * (8 * 8 * 64 + 8)
    expected = codebooks + 2 * 8 + atoms + 4 * 64 * 128
    count = sum(parameter.numel() for parameter in embedding.parameters())
    assert count == expected
    assert count < 8192 * 128 / 3


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"rank": 0}, "rank must"), ({"n_knots": 1}, "n_knots must"), ({"n_digits": 0}, "n_digits must")],
)
def test_wrong_sizes_are_one_sentence(changed: dict[str, int], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        SeparableEmbedding(**{"n_tokens": 10, "size": 4, **changed})
