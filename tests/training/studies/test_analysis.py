"""Scores, costs and verdicts of made-up runs, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sna_rl.errors import UsageError
from sna_rl.training.studies.analysis import analyse
from sna_rl.training.studies.arms import Arm, Failure, Run
from sna_rl.training.studies.axis import Axis
from sna_rl.training.studies.scores import Scale, scales


def run(env: str, seed: int, returns: list[float], every: int = 10, **summary: float) -> Run:
    steps = every * np.arange(1, len(returns) + 1, dtype=np.float64)
    return Run(env, seed, steps, np.array(returns), Path("nowhere"), summary=summary)


def arm(
    name: str, critic: str | None, finals: dict[str, list[float]], failed: tuple[Failure, ...] = ()
) -> Arm:
    runs = tuple(
        run(env, seed, [0.0, final, final, final], cpu_seconds=80.0, n_timesteps=40)
        for env, values in finals.items()
        for seed, final in enumerate(values)
    )
    return Arm(name, runs, failed, {"critic": critic} if critic else {})


FIVE = [0.0, 1.0, 2.0, 3.0, 4.0]


def test_score_is_zero_for_random_and_one_for_the_reference() -> None:
    scale = scales(["sna_rl.envs:Pendulum-v1"])["sna_rl.envs:Pendulum-v1"]
    np.testing.assert_allclose(scale.score(np.array([scale.random, scale.reference])), [0.0, 1.0])
    assert scales(["New-v0"], {"New-v0": {"random": 0.0, "reference": 10.0}})["New-v0"] == Scale(0.0, 10.0)
    with pytest.raises(UsageError, match="'random' and 'reference'"):
        scales(["New-v0"], {"New-v0": {"random": 0.0}})


def test_one_environment_without_a_scale_is_compared_by_return() -> None:
    analysis = analyse([arm("sac-mlp", "mlp", {"New-v0": FIVE}), arm("sac-cp", "cp", {"New-v0": [9.0] * 5})])
    assert analysis.unit == "return"
    assert float(analysis.aggregate["sac-mlp"].value) == 2.0
    assert float(analysis.difference["sac-cp"].value) == 7.0
    assert float(analysis.improvement["sac-cp"].value) == 1.0
    assert analysis.verdict().startswith("sac-cp, best of 1 separable arm, beats sac-mlp, best of 1 MLP arm")


def test_several_environments_are_pooled_as_scores() -> None:
    given = {"A-v0": {"random": 0.0, "reference": 4.0}, "B-v0": {"random": 10.0, "reference": 20.0}}
    analysis = analyse([arm("x", None, {"A-v0": FIVE, "B-v0": [20.0] * 5})], given)
    assert analysis.unit == "score"
    np.testing.assert_allclose(analysis.strata["x"][0], np.array(FIVE) / 4)
    in_order = np.sort([0, 0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 1])
    assert float(analysis.aggregate["x"].value) == pytest.approx(in_order[2:-2].mean())
    with pytest.raises(UsageError, match="no score is fixed for 'B-v0'"):
        analyse([arm("x", None, {"A-v0": FIVE, "B-v0": FIVE})], {"A-v0": given["A-v0"]})


def test_arms_are_compared_at_the_shortest_budget() -> None:
    short = Arm("short", tuple(run("E-v0", s, [1.0, 1.0, 1.0]) for s in range(5)))
    long = Arm("long", tuple(run("E-v0", s, [0.0, 0.0, 3.0, 99.0, 99.0]) for s in range(5)))
    analysis = analyse([short, long])
    assert analysis.horizons == {"E-v0": 30.0}
    assert float(analysis.aggregate["long"].value) == 1.0


def test_curves_of_unequal_evaluation_steps_are_interpolated() -> None:
    coarse = Arm("coarse", tuple(run("E-v0", s, [0.0, 10.0], every=20) for s in range(2)))
    fine = Arm("fine", tuple(run("E-v0", s, [0.0, 1.0, 2.0, 3.0]) for s in range(2)))
    steps, curves = analyse([coarse, fine]).curves["E-v0"]
    np.testing.assert_allclose(steps, [20.0, 40.0])
    np.testing.assert_allclose(curves["coarse"].value, [0.0, 10.0])
    np.testing.assert_allclose(curves["fine"].value, [1.0, 3.0])


def test_cost_to_reach_the_baseline_counts_failed_and_crashed_runs() -> None:
    base = arm("sac-mlp", "mlp", {"E-v0": [3.0] * 5})
    crashed = Failure("E-v0", 5, "out of memory")
    other = arm("sac-cp", "cp", {"E-v0": [3.0, 3.0, 3.0, 0.0]}, (crashed,))
    costs = analyse([base, other]).costs(other, "E-v0")
    assert costs.success_rate == pytest.approx(3 / 5)
    assert costs.steps == pytest.approx((3 * 40 + 2 * 40) / 3)
    assert costs.seconds == pytest.approx(2 * (3 * 40 + 2 * 40) / 3)


def test_equal_cpu_time_gives_the_faster_arm_more_steps() -> None:
    returns = [0.0, 3.0, 6.0, 9.0]
    slow = Arm("slow", tuple(run("E-v0", s, returns, cpu_seconds=80.0, n_timesteps=40) for s in range(5)))
    fast = Arm("fast", tuple(run("E-v0", s, returns, cpu_seconds=40.0, n_timesteps=40) for s in range(5)))
    analysis = analyse([slow, fast], axis=Axis.TIME)
    assert analysis.horizons == {"E-v0": 40.0}
    assert float(analysis.aggregate["slow"].value) == pytest.approx((0 + 3) / 2)
    assert float(analysis.aggregate["fast"].value) == pytest.approx((3 + 6 + 9) / 3)
    seconds, curves = analysis.curves["E-v0"]
    np.testing.assert_allclose(seconds, [20.0, 40.0])
    np.testing.assert_allclose(curves["slow"].value, [0.0, 3.0])
    np.testing.assert_allclose(curves["fast"].value, [3.0, 9.0])


def test_cost_by_time_is_told_in_steps_and_seconds() -> None:
    base = arm("sac-mlp", "mlp", {"E-v0": [3.0] * 5})
    other = arm("sac-cp", "cp", {"E-v0": [3.0, 3.0, 3.0, 0.0]})
    both = (analyse([base, other], axis=axis) for axis in Axis)
    by_steps, by_time = (analysis.costs(analysis.arms[1], "E-v0") for analysis in both)
    assert by_steps.steps == pytest.approx((3 * 40 + 40) / 3)
    assert (by_time.steps, by_time.seconds) == pytest.approx((by_steps.steps, by_steps.seconds))


def test_runs_that_do_not_tell_their_time_are_not_compared_by_it() -> None:
    silent = Arm("silent", tuple(run("E-v0", seed, FIVE) for seed in range(5)))
    with pytest.raises(UsageError, match="'nowhere' does not tell its CPU seconds"):
        analyse([silent], axis=Axis.TIME)


@pytest.mark.parametrize("axis", Axis)
def test_a_run_that_ends_before_anothers_first_evaluation_is_refused(axis: Axis) -> None:
    late = Arm("late", (run("E-v0", 0, FIVE, every=20, cpu_seconds=100.0, n_timesteps=100),))
    short = Arm("short", (run("E-v0", 0, [1.0], cpu_seconds=10.0, n_timesteps=10),))
    with pytest.raises(UsageError, match=f"late has no evaluation in the first 10 {axis.unit} on E-v0"):
        analyse([late, short], axis=axis)


def test_verdict_does_not_tell_apart_what_overlaps() -> None:
    analysis = analyse(
        [arm("sac-mlp", "mlp", {"E-v0": FIVE}), arm("sac-cp", "cp", {"E-v0": [0.5, 1.5, 2.5, 3.5, 4.5]})]
    )
    assert "can't be told from" in analysis.verdict()
    assert not list(analysis.warnings())


def test_few_seeds_failures_and_missing_environments_are_told() -> None:
    failure = Failure("E-v0", 1, "ValueError: loc")
    arms = [
        arm("sac-mlp", "mlp", {"E-v0": FIVE, "F-v0": FIVE}),
        arm("sac-cp", "cp", {"E-v0": [1.0, 2.0]}, (failure,)),
        Arm("lost", (), (Failure("E-v0", 0, "killed"),)),
    ]
    warnings = list(analyse(arms).warnings())
    assert any("fewer than 5 seeds (as few as 2)" in text and "sac-cp are up to" in text for text in warnings)
    assert "failed: sac-cp on E-v0, seed 1: ValueError: loc" in warnings
    assert "failed: lost on E-v0, seed 0: killed" in warnings
    assert "F-v0 is left out: not every arm has runs there" in warnings


def test_nothing_to_compare_is_said() -> None:
    with pytest.raises(UsageError, match="no run has finished; the first failed: killed"):
        analyse([Arm("lost", (), (Failure("E-v0", 0, "killed"),))])
    with pytest.raises(UsageError, match=r"share no environment: a has E-v0; b has F-v0"):
        analyse([arm("a", None, {"E-v0": FIVE}), arm("b", None, {"F-v0": FIVE})])
