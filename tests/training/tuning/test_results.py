"""Figures of a tuning study, read back from their axes."""

from __future__ import annotations

from matplotlib.figure import Figure
from optuna.distributions import IntDistribution
from optuna.trial import create_trial

from sna_rl.training.tuning.results import _slice


def test_ranks_on_a_logarithmic_axis_are_whole_numbers() -> None:
    ax = Figure().subplots()
    distribution = IntDistribution(2, 48, log=True)
    trials = [
        create_trial(
            params={"rank": rank},
            distributions={"rank": distribution},
            value=float(rank),
            user_attrs={"values": {"rank": rank}},
        )
        for rank in (2, 24)
    ]
    _slice(ax, "rank", trials)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["2", "4", "8", "16", "32"]
    assert [label.get_text() for label in ax.get_xticklabels(minor=True) if label.get_text()] == []
