"""Measures of the studies by hand: explained variance, shares of units, paired intervals."""

from __future__ import annotations

import math

import pytest
import torch

from sna_rl.errors import UsageError
from sna_rl.language.selectivity import answering, explained
from sna_rl.language.study import Paired, in_turns, paired


def test_explained_variance_by_hand() -> None:
    signal = torch.tensor([7, 7, 7, 9, 9])
    units = torch.tensor(
        [[1.0, 1.0, 3.0], [2.0, 1.0, 3.0], [3.0, 1.0, 3.0], [5.0, 4.0, 3.0], [9.0, 4.0, 3.0]]
    )
    # First: mean 4, squares 9 + 4 + 1 + 1 + 25 = 40, within (1 + 0 + 1) + (4 + 4) = 10
    torch.testing.assert_close(explained(units, signal), torch.tensor([1 - (10 / 3) / (40 / 4), 1.0, 0.0]))


def test_chance_explains_nothing_on_average_however_many_values() -> None:
    torch.manual_seed(0)
    units = torch.randn(200, 4000)
    for k in (2, 20):
        assert explained(units, torch.arange(200) % k).mean().item() == pytest.approx(0.0, abs=2e-3)


def test_a_known_share_is_found() -> None:
    torch.manual_seed(0)
    signal = torch.arange(100_000) % 2
    units = torch.randn(100_000, 3) + signal.unsqueeze(1) * torch.tensor([0.0, 1.0, 2.0])
    # A difference of d adds d² / 4 to a variance of 1.
    torch.testing.assert_close(explained(units, signal), torch.tensor([0.0, 0.2, 0.5]), atol=5e-3, rtol=0.0)


def test_units_of_both_signals_by_hand() -> None:
    first, second = torch.arange(400) % 2, torch.arange(400) // 2 % 2
    columns = [first, second, first + second, first - second, torch.arange(400) // 4 % 2]
    units = torch.stack(columns, 1).float()
    assert answering(units, first, second) == pytest.approx({"first": 0.6, "second": 0.6, "both": 0.4})


@pytest.mark.parametrize("signal", [[1, 1, 1], [1, 2, 3]])
def test_signals_that_say_nothing_are_refused(signal: list[int]) -> None:
    with pytest.raises(UsageError, match="needs two values and fewer"):
        explained(torch.randn(3, 2), torch.tensor(signal))


def test_paired_interval_by_hand() -> None:
    found = paired([0.7, 0.6, 0.9], [0.6, 0.6, 0.7])
    # Differences 0.1, 0, 0.2: standard deviation 0.1; t(2) at 97.5 % is 4.3027.
    half = 4.30265 * 0.1 / math.sqrt(3)
    assert found == pytest.approx((0.1, 0.1 - half, 0.1 + half, 3), abs=1e-5)
    assert found.half_width == pytest.approx(half, abs=1e-5)
    assert paired([2.0, 3.0], [1.0, 2.0]) == Paired(1.0, 1.0, 1.0, 2)


@pytest.mark.parametrize(("arm", "base"), [([1.0], [1.0]), ([1.0, 2.0], [1.0])])
def test_an_interval_needs_pairs(arm: list[float], base: list[float]) -> None:
    with pytest.raises(UsageError, match="needs pairs"):
        paired(arm, base)


def test_works_take_turns() -> None:
    done: list[str] = []
    times = in_turns([lambda: done.append("a"), lambda: done.append("b")], 2)
    assert "".join(done) == "ab" * 5
    assert [len(each) for each in times] == [2, 2]
