from __future__ import annotations

import numpy as np
import pytest
import torch

from sna_rl.separable import spectrum
from sna_rl.separable.decomposition import Decomposition


@pytest.fixture
def table() -> torch.Tensor:
    rng = np.random.default_rng(0)
    product = rng.standard_normal((31, 4)) * [4.0, 2.0, 1.0, 0.5] @ rng.standard_normal((4, 17))
    return torch.from_numpy(product + rng.standard_normal((31, 1)) + rng.standard_normal(17) + 3.0)


def test_parts_add_up_to_the_table_and_agree_with_the_spectrum(table: torch.Tensor) -> None:
    parts = Decomposition.of(table)
    assert len(parts.values) == 4
    torch.testing.assert_close(parts.truncated(4), table)
    torch.testing.assert_close(parts.values, spectrum.singular_values(table)[:4])
    torch.testing.assert_close(parts.shares(), torch.tensor(spectrum.shares(table)).double())
    torch.testing.assert_close(parts.right @ parts.right.mT, torch.eye(4).double())


def test_regrets_agree_with_one_at_a_time(table: torch.Tensor) -> None:
    regrets = Decomposition.of(table).regrets(table, 9)
    expected = [spectrum.regret(table, rank) for rank in range(5)]
    torch.testing.assert_close(regrets, torch.tensor(expected).double())
    assert regrets[0] > 0.05
    assert regrets[4] == 0.0
    torch.testing.assert_close(Decomposition.of(table).regrets(table, 2), regrets[:3])


def test_resampling_equals_taking_the_rows_of_the_table(table: torch.Tensor) -> None:
    parts = Decomposition.of(table)
    index = torch.randint(31, (31,), generator=torch.Generator().manual_seed(1))
    values, shares = parts.resampled(index)
    torch.testing.assert_close(values, spectrum.singular_values(table[index])[:4])
    torch.testing.assert_close(shares, torch.tensor(spectrum.shares(table[index])).double())


def test_an_additive_table_has_no_components(table: torch.Tensor) -> None:
    additive = (table.mean(1, keepdim=True) + table.mean(0)).float()
    parts = Decomposition.of(additive)
    assert parts.values.numel() == 0
    assert parts.shares()[2] == 0.0
    assert parts.regrets(additive, 9).tolist() == [0.0]
    values, shares = parts.resampled(torch.arange(31))
    assert values.numel() == 0
    assert shares.sum() == pytest.approx(1.0)


def test_a_constant_table_has_nothing() -> None:
    parts = Decomposition.of(torch.full((5, 3), 2.0))
    assert parts.shares().tolist() == [0.0, 0.0, 0.0]
    assert parts.regrets(torch.full((5, 3), 2.0), 9).tolist() == [0.0]
