"""Write a report: an HTML page, Markdown with PNG charts, and CSV files of the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sna_rl.errors import SnaError
from sna_rl.runs import atomic_write
from sna_rl.runs.files import read_json
from sna_rl.training.studies.analysis import Analysis
from sna_rl.training.studies.arms import Arm
from sna_rl.training.studies.figures import charts, styles
from sna_rl.training.studies.page import page
from sna_rl.training.studies.study_folder import Costs, read_spectrum
from sna_rl.training.studies.tables import curves_csv, runs_csv, table_csv, tables


@dataclass(frozen=True)
class Origin:
    """Where the numbers of a report come from.

    Args:
        title: heading of the report.
        commands: command lines that made the runs.
        study: the study file's text; empty for runs found in folders.
        measured: what `cell.measure` gave, by arm and environment.
    """

    title: str
    commands: Sequence[str] = ()
    study: str = ""
    measured: Costs = field(default_factory=dict)


def write_report(analysis: Analysis, folder: Path, origin: Origin) -> Path:
    """Write every file of a report; an older report in the folder is replaced.

    Args:
        analysis: the arms.
        folder: where to; made if need be.
        origin: commands, study and measured costs.

    Returns:
        The page, `index.html`; beside it `report.md`, a PNG a chart, `table.csv`, `runs.csv`, `curves.csv`.

    Raises:
        OSError: if the folder can't be written.

    Cost:
        About half a second a chart, and the bootstrap samples of `analysis`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    looks = styles(analysis.arms)
    drawn = charts(analysis, _spectra(analysis.arms))
    shown = tables(analysis, origin.measured)
    warnings = list(analysis.warnings())
    details = _details(analysis, origin)
    for chart in drawn:
        with atomic_write(folder / f"{chart.name}.png") as file:
            file.write(chart.png(looks))
    lines = [
        f"# {origin.title}\n",
        f"**{analysis.verdict()}**\n",
        *(f"- {warning}" for warning in warnings),
        "",
    ]
    lines += [f"![{chart.text}]({chart.name}.png)\n" for chart in drawn]
    lines += [table.markdown() for table in shown]
    lines += [f"## {heading}\n\n```\n{text.rstrip()}\n```\n" for heading, text in details.items()]
    texts = {
        "report.md": "\n".join(lines),
        "table.csv": table_csv(analysis),
        "runs.csv": runs_csv(analysis),
        "curves.csv": curves_csv(analysis),
        "index.html": page(origin.title, analysis.verdict(), warnings, looks, drawn, shown, details),
    }
    for name, text in texts.items():
        with atomic_write(folder / name, "w") as file:
            file.write(text)
    return folder / "index.html"


def _spectra(arms: Sequence[Arm]) -> dict[str, list[list[float]]]:
    """Singular values of trained critics by arm, those arms alone that have some."""
    found = {arm.name: [values for run in arm.runs if (values := read_spectrum(run.folder))] for arm in arms}
    return {name: runs for name, runs in found.items() if runs}


def _details(analysis: Analysis, origin: Origin) -> dict[str, str]:
    """Text blocks that let a reader repeat the study."""
    details = {}
    if origin.commands:
        details["Commands"] = "\n".join(dict.fromkeys(origin.commands))
    if origin.study:
        details["Study file"] = origin.study
    versions = _versions(analysis.arms)
    if versions:
        details["Versions"] = versions
    details["Folders"] = "\n".join(f"{arm.name}: {run.folder}" for arm in analysis.arms for run in arm.runs)
    return details


def _versions(arms: Sequence[Arm]) -> str:
    """What the runs ran on; where they differ, every value."""
    values: dict[str, dict[str, None]] = {}
    for run in (run for arm in arms for run in arm.runs):
        try:
            told: Mapping[str, Any] = dict(read_json(run.folder / "versions.json"))
        except (SnaError, TypeError, ValueError):
            continue
        for key, value in told.items():
            values.setdefault(key, {})[str(value)] = None
    return "\n".join(f"{key}: {' | '.join(found)}" for key, found in values.items())
