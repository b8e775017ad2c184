"""From finished runs to a written report, with the answer said aloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from sna_rl.runs.files import read_lines
from sna_rl.training.studies.analysis import Analysis, analyse
from sna_rl.training.studies.arms import Arm, read_arms
from sna_rl.training.studies.axis import Axis
from sna_rl.training.studies.overlay import write_overlay
from sna_rl.training.studies.report import Origin, write_report
from sna_rl.training.studies.study_folder import StudyFolder
from sna_rl.training.studies.tables import deviation, plus_minus


def report_study(
    place: StudyFolder,
    say: Callable[[str], None],
    output: Path | None = None,
    further: Mapping[str, Path] | None = None,
    axis: Axis = Axis.STEPS,
) -> Path:
    """Report a study, and bring its aggregates by steps to TensorBoard.

    Args:
        place: the study's folder.
        say: called with the verdict, each warning and the results.
        output: folder of the report; by default in the study's.
        further: folders of runs that enter as arms of their own, by name.
        axis: compare at equal steps, or at equal CPU seconds.

    Returns:
        The HTML page.

    Raises:
        UsageError: if no run has finished, or files are damaged.
    """
    study = place.study()
    arms = [*place.arms(study), *_named(further or {})]
    analysis = analyse(arms, study.scores, axis)
    n_missing = len(study.cells()) - sum(len(arm.runs) for arm in arms if arm.name in study.configs())
    commands = read_lines(place.path / "command.txt")
    title = (
        study.name if not n_missing else f"{study.name} ({n_missing} of {len(study.cells())} runs missing)"
    )
    _say(analysis, say)
    if axis is Axis.STEPS:
        write_overlay(analysis, place.runs)
    return write_report(
        analysis, output or place.report(axis), Origin(title, commands, study.to_yaml(), place.measured())
    )


def report_folder(
    folder: Path,
    say: Callable[[str], None],
    output: Path,
    further: Mapping[str, Path] | None = None,
    axis: Axis = Axis.STEPS,
) -> Path:
    """Report runs found below a folder, which is left as it is.

    Args:
        folder: where runs lie.
        say: called with the verdict, each warning and the results.
        output: folder of the report.
        further: folders of runs that enter as arms of their own, by name.
        axis: compare at equal steps, or at equal CPU seconds.

    Returns:
        The HTML page.

    Raises:
        UsageError: if there are no runs, or files are damaged.
    """
    analysis = analyse([*read_arms(folder), *_named(further or {})], axis=axis)
    _say(analysis, say)
    return write_report(analysis, output, Origin(folder.resolve().name))


def _named(folders: Mapping[str, Path]) -> list[Arm]:
    """One arm a folder."""
    return [arm for name, folder in folders.items() for arm in read_arms(folder, name)]


def _say(analysis: Analysis, say: Callable[[str], None]) -> None:
    """Verdict, warnings, and one line an arm."""
    width = max(len(arm.name) for arm in analysis.arms)
    for arm in analysis.arms:
        finals = {env: analysis.finals(arm, env) for env in analysis.envs}
        returns = ", ".join(
            f"{env} {plus_minus(values.mean(), deviation(values), 1)}" for env, values in finals.items()
        )
        aggregate = analysis.aggregate[arm.name].text(analysis.digits)
        differs = arm.settings.get("differs in", "read from files")
        say(f"{arm.name:<{width}}  {analysis.unit} IQM {aggregate}  {returns}  ({differs})")
    for warning in analysis.warnings():
        say(f"note: {warning}")
    say(analysis.verdict())
