from __future__ import annotations

import math

import torch

from sna_rl.separable.ranks import effective_rank_of, energy_rank_of, stable_rank_of

SPECTRA = torch.tensor(
    [[4.0, 2.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64
)


def test_effective_rank_by_hand() -> None:
    # p = 1/2, 1/4, 1/8, 1/8: entropy 1/2 ln 2 + 1/4 ln 4 + 2/8 ln 8 = 1.75 ln 2.
    torch.testing.assert_close(effective_rank_of(SPECTRA), torch.tensor([2.0**1.75, 1.0, 0.0]).double())


def test_energy_rank_by_hand() -> None:
    # Energies 16, 4, 1, 1 of 22: 0.727, 0.909, 0.955, 1.
    for q, rank in ((0.7, 1), (0.9, 2), (0.95, 3), (0.99, 4), (1.0, 4)):
        assert energy_rank_of(SPECTRA, q).tolist() == [rank, 1, 0]


def test_stable_rank_by_hand() -> None:
    assert stable_rank_of(SPECTRA).tolist() == [22 / 16, 1, 0]


def test_nan_stays_nan() -> None:
    values = torch.tensor([math.nan, 1.0])
    assert effective_rank_of(values).isnan()
    assert energy_rank_of(values, 0.9).isnan()
    assert stable_rank_of(values).isnan()


def test_no_values_have_rank_zero() -> None:
    for measure in (effective_rank_of, stable_rank_of, lambda values: energy_rank_of(values, 0.9)):
        assert measure(torch.zeros(2, 0)).tolist() == [0.0, 0.0]
