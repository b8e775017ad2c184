"""Statistics against hand calculations, SciPy and the published definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, norm

from sna_rl.errors import UsageError
from sna_rl.training.studies.statistics import (
    Interval,
    bootstrap,
    curve,
    failure_adjusted_cost,
    first_reach,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    success_rate,
)

RNG = np.random.default_rng(7)
STRATA = [RNG.normal(size=5), RNG.normal(1.0, size=5), RNG.normal(2.0, size=5)]


def test_point_statistics_equal_the_published_definitions_on_a_matrix_of_runs_and_tasks() -> None:
    matrix = np.stack(STRATA, axis=1)
    in_order = np.sort(matrix.ravel())
    assert float(iqm(STRATA)) == pytest.approx(in_order[3:-3].mean())
    assert float(mean(STRATA)) == pytest.approx(matrix.mean(axis=0).mean())
    assert float(median(STRATA)) == pytest.approx(np.sort(matrix.mean(axis=0))[1])
    assert float(optimality_gap(STRATA)) == pytest.approx(1.0 - np.minimum(matrix, 1.0).mean())


def test_iqm_drops_a_quarter_at_each_end_rounded_down() -> None:
    assert float(iqm([np.array([-1e9, 1.0, 2.0, 6.0, 1e9])])) == 3.0
    assert float(iqm([np.array([1.0, 2.0, 6.0])])) == 3.0
    assert float(iqm([np.array([0.0, 1.0]), np.array([3.0, 100.0])])) == 2.0


def test_optimality_gap_does_not_reward_scores_above_the_target() -> None:
    assert float(optimality_gap([np.array([0.5, 5.0])])) == 0.25
    assert float(optimality_gap([np.array([0.5, 5.0])], target=2.0)) == 0.75


def test_probability_of_improvement_equals_mann_whitney_averaged_over_environments() -> None:
    ours = [np.array([1.0, 2.0, 2.0, 5.0]), RNG.normal(size=6)]
    theirs = [np.array([0.0, 2.0, 3.0]), RNG.normal(size=4)]
    expected = np.mean(
        [
            mannwhitneyu(x, y, alternative="greater").statistic / (len(x) * len(y))
            for x, y in zip(ours, theirs, strict=True)
        ]
    )
    assert float(probability_of_improvement(ours, theirs)) == pytest.approx(expected)
    assert float(probability_of_improvement(theirs, ours)) == pytest.approx(1 - expected)
    assert float(probability_of_improvement(ours, ours)) == pytest.approx(0.5)


def test_profile_counts_runs_strictly_above_each_threshold() -> None:
    profile = performance_profile(
        [np.array([0.0, 0.5]), np.array([0.5, 1.0])], np.array([-1.0, 0.0, 0.5, 1.0])
    )
    np.testing.assert_array_equal(profile, [1.0, 0.75, 0.25, 0.0])


def test_bootstrap_equals_a_plain_loop_with_the_same_draws() -> None:
    interval = bootstrap(iqm, STRATA, repetitions=300, seed=3)
    generator = np.random.default_rng(3)
    draws = [generator.integers(5, size=(300, 5)) for _ in STRATA]
    values = [
        float(iqm([scores[draw[at]] for scores, draw in zip(STRATA, draws, strict=True)]))
        for at in range(300)
    ]
    assert float(interval.low) == pytest.approx(np.percentile(values, 2.5))
    assert float(interval.high) == pytest.approx(np.percentile(values, 97.5))
    assert interval == bootstrap(iqm, STRATA, repetitions=300, seed=3)


def test_bootstrap_of_a_mean_is_close_to_the_normal_interval() -> None:
    scores = np.random.default_rng(0).normal(3.0, 2.0, size=400)
    interval = bootstrap(mean, [scores], repetitions=4000)
    half = norm.ppf(0.975) * scores.std() / 20
    assert float(interval.low) == pytest.approx(scores.mean() - half, abs=0.02)
    assert float(interval.high) == pytest.approx(scores.mean() + half, abs=0.02)


def test_draws_stay_inside_their_environment() -> None:
    apart = [np.array([0.0, 0.0]), np.array([10.0, 10.0])]
    interval = bootstrap(mean, apart, repetitions=50)
    assert (float(interval.low), float(interval.high)) == (5.0, 5.0)


def test_difference_of_arms_draws_them_independently() -> None:
    scores = np.random.default_rng(1).normal(size=200)
    interval = bootstrap(lambda a, b: mean(a) - mean(b), [scores], [scores], repetitions=4000)
    half = norm.ppf(0.975) * scores.std() * np.sqrt(2 / 200)
    assert float(interval.value) == 0.0
    assert float(interval.high) == pytest.approx(half, abs=0.02)


def test_one_run_has_no_interval_and_says_so() -> None:
    interval = bootstrap(iqm, [np.array([2.0])])
    assert float(interval.value) == 2.0
    assert np.isnan(interval.low)
    assert np.isnan(interval.high)
    assert interval.text() == "2.00 [no interval]"


@pytest.mark.parametrize("scores", [[1.0, np.nan], [np.inf, 0.0], []])
def test_scores_that_are_not_finite_are_refused(scores: list[float]) -> None:
    with pytest.raises(UsageError, match="finite"):
        bootstrap(iqm, [np.array(scores, dtype=np.float64)])


def test_curve_equals_the_bootstrap_of_each_evaluation() -> None:
    strata = [RNG.normal(size=(7, 4)), RNG.normal(size=(7, 4))]
    drawn = curve(strata, repetitions=200)
    for at in range(7):
        single = bootstrap(iqm, [scores[at] for scores in strata], repetitions=200)
        assert float(drawn.value[at]) == pytest.approx(float(single.value))
        assert float(drawn.low[at]) == pytest.approx(float(single.low))
        assert float(drawn.high[at]) == pytest.approx(float(single.high))


def test_reaching_needs_the_mean_of_three_evaluations() -> None:
    steps = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    assert first_reach(steps, np.array([9.0, 0.0, 0.0, 9.0, 9.0]), 6.0) == 50.0
    assert first_reach(steps, np.array([6.0, 6.0, 6.0, 0.0, 0.0]), 6.0) == 30.0
    assert first_reach(steps, np.zeros(5), 6.0) == np.inf
    assert first_reach(steps[:2], np.full(2, 9.0), 6.0) == np.inf


def test_failed_runs_add_their_whole_budget_to_the_cost() -> None:
    reached, budgets = np.array([20.0, np.inf, 40.0]), np.array([100.0, 100.0, 100.0])
    assert success_rate(reached) == pytest.approx(2 / 3)
    assert failure_adjusted_cost(reached, budgets) == 80.0
    assert failure_adjusted_cost(np.array([np.inf]), np.array([100.0])) == np.inf


def test_interval_reads_as_a_cell() -> None:
    interval = Interval(np.array(1234.5), np.array(-1.0), np.array(2000.25))
    assert interval.text(1) == "1,234.5 [-1.0, 2,000.2]"
    assert interval.width == 2001.25
