"""`sna-rl report`: a page with the verdict first, from a study or any folder of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sna_rl.errors import UsageError
from sna_rl.training.studies.axis import Axis


def command(
    study: Annotated[
        str, typer.Argument(metavar="STUDY", help="A study's name or folder, or a folder of runs.")
    ],
    folder: Annotated[
        Path, typer.Option("--log-folder", "--folder", "-f", help="Folder of all runs.")
    ] = Path("logs"),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to; by default the study's own folder.")
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FOLDER", help="Runs from elsewhere (RL Zoo, Monitor, CleanRL) as another arm."
        ),
    ] = None,
    x_axis: Annotated[
        Axis,
        typer.Option("--x-axis", "-x", help="Equal budgets in environment steps, or in CPU time."),
    ] = Axis.STEPS,
) -> None:
    """Write HTML, Markdown, PNG and CSV of a study or of runs found in a folder."""
    from sna_rl.training.studies.results import report_folder, report_study
    from sna_rl.training.studies.study_folder import STUDY, StudyFolder

    further: dict[str, Path] = {}
    for entry in add or ():
        name, equals, place = entry.partition("=")
        if not (name and equals and place):
            raise UsageError(f"--add takes NAME=FOLDER, not {entry!r}")
        further[name] = Path(place)
    path = folder / study if (folder / study / STUDY).is_file() else Path(study)
    if (path / STUDY).is_file():
        page = report_study(StudyFolder(path), typer.echo, output, further, x_axis)
    else:
        output = output or Path(f"report-{path.resolve().name}")
        page = report_folder(path, typer.echo, output, further, x_axis)
    typer.echo(f"report: {page}")
