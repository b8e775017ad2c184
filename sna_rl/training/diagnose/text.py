"""A diagnosis as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from sna_rl.training.diagnose.records import Diagnosis
from sna_rl.training.diagnose.table import Estimate, TableReport

_SHOWN_RANKS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_COLUMNS = (
    "critic",
    "actions",
    "state",
    "action",
    "inter.",
    "effective",
    "stable",
    "90 %",
    "99 %",
    "σ over floor",
)


def describe(diagnosis: Diagnosis) -> list[str]:
    """The table, what else was measured, and the verdict.

    Args:
        diagnosis: what was read off a critic.

    Returns:
        Lines of at most about 110 characters.
    """
    first = diagnosis.heads[0].supported
    bound = "no rank of its own" if diagnosis.rank is None else f"rank {diagnosis.rank}"
    lines = [
        f"{diagnosis.algorithm} after {diagnosis.n_timesteps:,} steps: {diagnosis.critic}, {bound}; "
        f"value tables of {first.states} states × {first.actions} actions",
        *(f"note: {note}" for note in diagnosis.notes),
        "",
        *_table(diagnosis),
        "",
        "state, action, inter.: shares of the variance in %; then ranks of the interaction, with 95 %",
        "bootstrap intervals over states; σ over floor: singular values above what two heads don't agree on",
        "",
    ]
    for index, tables in enumerate(diagnosis.heads):
        lines += [f"head {index + 1}: {line}" for line in _details(tables.supported)]
    lines += _measures(diagnosis)
    return [*lines, "", f"verdict: {diagnosis.verdict}"]


def _table(diagnosis: Diagnosis) -> list[str]:
    """Both tables of every head and every null, columns aligned."""
    named = [(f"head {index + 1}", tables) for index, tables in enumerate(diagnosis.heads)]
    rows = [list(_COLUMNS)]
    for name, tables in (*named, *diagnosis.nulls.items()):
        kinds = ("all", "") if tables.uniform is None else ("taken", "uniform")
        for kind, report in zip(kinds, (tables.supported, tables.uniform), strict=True):
            if report is not None:
                rows.append([name, kind, *_numbers(report)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _numbers(report: TableReport) -> list[str]:
    """The numeric columns of one row."""
    shares = [f"{100.0 * report.shares[name].value:.1f}" for name in ("state", "action", "interaction")]
    above = "–" if report.above_floor is None else str(report.above_floor)
    return [
        *shares,
        _with_interval(report.effective_rank, ".1f"),
        _with_interval(report.stable_rank, ".1f"),
        _with_interval(report.energy_rank_90, ".0f"),
        _with_interval(report.energy_rank_99, ".0f"),
        above,
    ]


def _with_interval(estimate: Estimate, form: str) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:{form}}"
    return f"{estimate.value:{form}} ({estimate.low:{form}}–{estimate.high:{form}})"


def _details(report: TableReport) -> Iterator[str]:
    """Regret and components of one head over supported actions."""
    shown = [rank for rank in _SHOWN_RANKS if rank < len(report.regret)]
    losses = "  ".join(f"{rank}: {100.0 * report.regret[rank]:.2g} %" for rank in shown)
    yield f"regret by rank, in % of the row range  {losses}"
    if report.components is not None:
        parts = report.components
        yield (
            f"{parts.n_components} components: {parts.dead} dead, {parts.idle} idle (the dead included), "
            f"{parts.same} pairs that are one"
        )


def _measures(diagnosis: Diagnosis) -> Iterator[str]:
    """Measures of the whole critic."""
    agreement = diagnosis.heads[0].supported.agreement
    if agreement is not None:
        yield f"agreement of the heads' interactions (cosine): {agreement:.2f}"
    if diagnosis.branch_gradients is not None:
        yield f"gradients of the interaction over the additive branches': {diagnosis.branch_gradients:.3g}"
    if diagnosis.fit is not None:
        yield f"squared Bellman error over a re-initialised critic's: {diagnosis.fit:.3g}"
    if diagnosis.loss_ratio is not None:
        yield f"critic loss over the other agent's on the same transitions: {diagnosis.loss_ratio:.3g}"
    for head, spectrum in enumerate(diagnosis.weight_spectra or ()):
        values = ", ".join(f"{value:.2g}" for value in spectrum[:12])
        yield f"weight spectrum of head {head + 1} (not the table's): {values}"
