"""A report's tables, and the same numbers unrounded as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from sna_rl.training.studies.analysis import Analysis
from sna_rl.training.studies.arms import COSTS, Arm, Run
from sna_rl.training.studies.axis import Axis
from sna_rl.training.studies.statistics import Array, Strata, mean, median, optimality_gap


@dataclass(frozen=True)
class Table:
    """Text in rows; the first column names the row.

    Args:
        title: heading.
        note: how to read it, one sentence; may be empty.
        header: name of each column.
        rows: cells, as many as columns.
    """

    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table with heading and note as Markdown."""
        lines = [self.header, ["---"] + ["---:"] * (len(self.header) - 1), *self.rows]
        body = "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
        )
        return f"## {self.title}\n\n{self.note}\n\n{body}\n"

    def html(self) -> str:
        """The table with heading and note as HTML; a narrow page scrolls it sideways."""
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in self.header)
        body = "".join(
            f'<tr><th scope="row">{escape(row[0])}</th>'
            + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in self.rows
        )
        return (
            f"<section><h2>{escape(self.title)}</h2><p>{escape(self.note)}</p>"
            f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(self.title)}">'
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
        )


def tables(analysis: Analysis, measured: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[Table]:
    """Every table of a report.

    Args:
        analysis: the arms.
        measured: what `cell.measure` gave, by arm and environment; may be empty.

    Returns:
        Aggregate, one an environment, costs, and what the arms differ in.
    """
    return [
        _aggregate(analysis),
        *(_environment(analysis, env) for env in analysis.envs),
        _costs(analysis, measured),
        _differences(analysis),
    ]


def _aggregate(analysis: Analysis) -> Table:
    """All environments together."""
    rows, digits = [], analysis.digits
    for arm in analysis.arms:
        strata = analysis.strata[arm.name]
        is_base = arm.name == analysis.baseline
        rows.append(
            [
                arm.name,
                str(len(arm.runs)),
                analysis.aggregate[arm.name].text(digits),
                plus_minus(float(mean(strata)), _pooled_deviation(strata), digits),
                f"{float(median(strata)):,.{digits}f}",
                f"{float(optimality_gap(strata)):,.2f}" if analysis.scales else "–",
                "baseline" if is_base else analysis.difference[arm.name].text(digits),
                "baseline" if is_base else analysis.improvement[arm.name].text(),
            ]
        )
    unit = "score: 0 is a random policy, 1 the reference" if analysis.scales else "return"
    return Table(
        "Final performance",
        f"Unit: {unit}. Final: mean of the last three evaluations. IQM: interquartile mean. In brackets: "
        f"95 % stratified bootstrap intervals. ±: deviation over seeds. Difference and chance are against "
        f"{analysis.baseline}.",
        [
            "arm",
            "runs",
            "IQM",
            "mean",
            "median",
            "optimality gap",
            "difference of IQM",
            "chance to do better",
        ],
        rows,
    )


def _environment(analysis: Analysis, env: str) -> Table:
    """Returns and the cost of reaching the baseline's in one environment."""
    rows = []
    for arm in analysis.arms:
        finals = analysis.finals(arm, env)
        costs = analysis.costs(arm, env)
        rows.append(
            [
                arm.name,
                str(len(finals)),
                plus_minus(finals.mean(), deviation(finals), 1),
                f"{100 * costs.success_rate:.0f} %",
                _amount(costs.steps),
                _amount(costs.seconds),
            ]
        )
    return Table(
        f"{env} at {analysis.horizons[env]:,.0f} {analysis.axis.unit}",
        f"Return ± deviation over seeds. Success: share of runs that reach {analysis.baseline}'s final IQM "
        f"(crashed runs count as not reaching it); steps and CPU seconds are expected costs until one does, "
        f"failed runs started anew.",
        ["arm", "runs", "final return", "success", "steps to reach", "seconds to reach"],
        rows,
    )


def _costs(analysis: Analysis, measured: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Table:
    """Sizes and times, mean over environments and runs."""
    rows = []
    for arm in analysis.arms:
        costs = measured.get(arm.name, {}).values()
        flops = [cost["flops_per_update"] for cost in costs if "flops_per_update" in cost]
        rows.append(
            [
                arm.name,
                _spread(arm, "actor_parameters", 0),
                _spread(arm, "critic_parameters", 0),
                f"{np.mean(flops) / 1e6:,.1f}" if flops else "–",
                _spread(arm, "steps_per_second", 1),
                _spread(arm, "cpu_seconds", 1),
                _spread(arm, "wall_seconds", 1),
            ]
        )
    return Table(
        "Cost",
        "Mean ± deviation over all runs. MFLOP: matrix products of one update as Stable-Baselines3 does it.",
        [
            "arm",
            "actor parameters",
            "critic parameters",
            "MFLOP/update",
            "steps/s",
            "CPU seconds",
            "wall seconds",
        ],
        rows,
    )


def _differences(analysis: Analysis) -> Table:
    """What sets the arms apart."""
    return Table(
        "Differs in",
        f"All else is equal: seeds, environments, budget in {analysis.axis.unit}, evaluation, network of the "
        f"actor, tuning.",
        ["arm", "differs in"],
        [
            [arm.name, str(arm.settings.get("differs in", "not known: read from files"))]
            for arm in analysis.arms
        ],
    )


def runs_csv(analysis: Analysis) -> str:
    """One line a run, unrounded."""
    rows = [
        {
            "arm": arm.name,
            "env": run.env,
            "seed": run.seed,
            "final_return": run.final,
            "final_score": float(analysis.scored(run.env, np.array(run.final))) if analysis.scales else None,
            **{key: run.summary.get(key) for key in COSTS},
            "measure": run.measure,
        }
        for arm in analysis.arms
        for run in arm.runs
    ]
    return _csv(rows)


def table_csv(analysis: Analysis) -> str:
    """One line an arm and environment, "all" for the aggregate, unrounded."""
    rows: list[dict[str, Any]] = []
    for arm in analysis.arms:
        interval = analysis.aggregate[arm.name]
        row = {"arm": arm.name, "env": "all", "unit": analysis.unit, "runs": len(arm.runs)}
        row |= {"iqm": float(interval.value), "low": float(interval.low), "high": float(interval.high)}
        row |= {"mean": float(mean(analysis.strata[arm.name]))}
        row |= {"deviation": _pooled_deviation(analysis.strata[arm.name])}
        if arm.name in analysis.difference:
            gap, chance = analysis.difference[arm.name], analysis.improvement[arm.name]
            row |= {
                "difference": float(gap.value),
                "difference_low": float(gap.low),
                "difference_high": float(gap.high),
            }
            row |= {"improvement": float(chance.value), "improvement_low": float(chance.low)}
            row |= {"improvement_high": float(chance.high)}
        rows.append(row)
        for env in analysis.envs:
            finals, costs = analysis.finals(arm, env), analysis.costs(arm, env)
            row = {"arm": arm.name, "env": env, "unit": "return", "runs": len(finals)}
            row |= {"mean": float(finals.mean()), "deviation": deviation(finals)}
            row |= {"success_rate": costs.success_rate, "steps_to_reach": costs.steps}
            rows.append(row | {"seconds_to_reach": costs.seconds})
    return _csv(rows)


def curves_csv(analysis: Analysis) -> str:
    """One line a point of a learning curve: interquartile mean of the return and its interval."""
    column = "step" if analysis.axis is Axis.STEPS else "cpu_seconds"
    rows = [
        {"arm": arm, "env": env, column: step, "iqm": value, "low": low, "high": high}
        for env, (steps, curves) in analysis.curves.items()
        for arm, curve in curves.items()
        for step, value, low, high in zip(steps, curve.value, curve.low, curve.high, strict=True)
    ]
    return _csv(rows)


def _csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows under the union of their keys."""
    rows = list(rows)
    stream = io.StringIO()
    writer = csv.DictWriter(
        stream, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def plus_minus(value: float, spread: float, digits: int) -> str:
    """A mean and its deviation, the mean alone where one run has none.

    Example:
        >>> plus_minus(3523.04, 67.0, 1), plus_minus(3523.04, math.nan, 1)
        ('3,523.0 ± 67.0', '3,523.0')
    """
    return f"{value:,.{digits}f}" + ("" if math.isnan(spread) else f" ± {spread:,.{digits}f}")


def deviation(values: Array) -> float:
    """Standard deviation over seeds, NaN for one.

    Example:
        >>> deviation(np.array([1.0, 3.0])), deviation(np.array([1.0]))
        (1.4142135623730951, nan)
    """
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def _pooled_deviation(strata: Strata) -> float:
    """Deviation over seeds, environments' own variances averaged."""
    return math.sqrt(float(np.mean([deviation(scores) ** 2 for scores in strata])))


def _spread(arm: Arm, key: str, digits: int) -> str:
    """Mean and deviation of something that each run tells, a dash where none does."""
    values = np.array([run.summary[key] for run in _telling(arm, key)], dtype=np.float64)
    if not len(values):
        return "–"
    if len(values) == 1 or np.ptp(values) == 0:
        return f"{values[0]:,.{digits}f}"
    return plus_minus(values.mean(), deviation(values), digits)


def _telling(arm: Arm, key: str) -> list[Run]:
    """Runs whose summary has a key."""
    return [run for run in arm.runs if run.summary.get(key) is not None]


def _amount(value: float) -> str:
    """A cost in a cell."""
    return "never" if math.isinf(value) else "–" if math.isnan(value) else f"{value:,.0f}"
