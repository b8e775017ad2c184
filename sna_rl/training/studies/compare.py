"""Run a study cell by cell: what is finished stays, what fails is listed, and the budget is told first."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sna_rl.config import RunConfig
from sna_rl.config.plain import differences
from sna_rl.errors import UsageError
from sna_rl.runs import Progress, atomic_write, versions, write_json
from sna_rl.runs.files import refuse_links
from sna_rl.runs.folder import add_command, writing_below
from sna_rl.runs.interruption import Interrupted
from sna_rl.runs.lock import locked
from sna_rl.training.environments import register
from sna_rl.training.studies.arms import read_arms, read_run
from sna_rl.training.studies.study import Cell, Study, comparable
from sna_rl.training.studies.study_folder import MEASURED, STUDY, Costs, StudyFolder, is_finished
from sna_rl.training.studies.workers import Outcome, Pool, Unit


def compare(
    study: Study,
    folder: Path,
    pool: Pool,
    *,
    command: str = "",
    say: Callable[[str], None] = print,
    progress: bool = True,
) -> tuple[StudyFolder, int]:
    """Run every cell of a study that is not finished yet.

    Args:
        study: what to compare.
        folder: log folder; the study gets its own folder there, and goes on where an earlier call left it.
        pool: where cells run.
        command: the command line, kept in `command.txt` and in each run folder.
        say: called with each line for the user.
        progress: show a bar, or lines where stderr is no terminal.

    Returns:
        The study's folder, and the number of cells that failed; the same call tries those again.

    Raises:
        UsageError: if an environment is unknown, a finished run is of another study, or this one is running.
        Interrupted: after Ctrl-C; what runs is ended, what is finished stays.
    """
    cells = study.cells()
    for env in study.env:
        register(env, cells[0].config.gym_packages)
    for name, existing in study.existing.items():
        read_arms(Path(existing), name)
    place = StudyFolder(folder / study.name)
    with writing_below(folder):
        (place.path / "logs").mkdir(parents=True, exist_ok=True)
    refuse_links(place.path, place.path / "logs")
    with locked(place.path / "lock", f"study {study.name!r}"):
        for cell in cells:
            if is_finished(cell.path(place.runs)):
                _check_finished(cell.path(place.runs), _placed(cell, place))
        with atomic_write(place.path / STUDY, "w") as file:
            file.write(study.to_yaml())
        add_command(place.path, command)
        write_json(place.path / "versions.json", versions())
        todo = [cell for cell in cells if not is_finished(cell.path(place.runs))]
        if todo:
            say(_budget(cells, todo, _measure(place, todo, pool), pool.slots))
        return place, _run(place, cells, todo, pool, command, progress)


def _run(
    place: StudyFolder, cells: Sequence[Cell], todo: Sequence[Cell], pool: Pool, command: str, progress: bool
) -> int:
    """Run cells; how many failed."""
    total = sum(cell.config.n_timesteps for cell in cells)
    done = total - sum(cell.config.n_timesteps for cell in todo)
    by_name = {cell.name: cell for cell in todo}
    failed = 0
    try:
        with Progress(total, start=done, shown=progress) as bar:
            for outcome in pool.run(_units(place, todo, command)):
                cell = by_name[outcome.unit.name]
                done += cell.config.n_timesteps
                bar.say(_line(place, cell, outcome))
                bar.update(done)
                failed += outcome.reason is not None
                _record(place, cell, outcome)
    except KeyboardInterrupt:
        raise Interrupted(
            "stopped; finished cells stay, and the same command goes on", signal.SIGINT
        ) from None
    return failed


def _units(place: StudyFolder, todo: Sequence[Cell], command: str) -> Iterator[Unit]:
    """One unit a cell."""
    for cell in todo:
        arguments = {
            "config": _placed(cell, place).to_dict(),
            "arm": cell.arm,
            "root": str(place.runs),
            "command": command,
        }
        yield Unit(cell.name, "sna_rl.training.studies.cell:run_cell", arguments, place.log(cell))


def _placed(cell: Cell, place: StudyFolder) -> RunConfig:
    """A cell's configuration with its folder in the study."""
    return cell.config.replace(folder=str(place.runs))


def _record(place: StudyFolder, cell: Cell, outcome: Outcome) -> None:
    """Keep why a cell failed, or forget that it once did; a full disk must not stop the others."""
    path = place.failure(cell)
    try:
        path.unlink(missing_ok=True)
        if outcome.reason is not None:
            write_json(path, {"reason": outcome.reason, "log": str(outcome.unit.log)})
    except OSError:
        return


def _line(place: StudyFolder, cell: Cell, outcome: Outcome) -> str:
    """What the user sees when a cell ends."""
    if outcome.reason is not None:
        return f"{cell.name}: failed: {outcome.reason} (see {outcome.unit.log})"
    run = read_run(cell.path(place.runs))
    speed = float(run.summary.get("steps_per_second", 0))
    return f"{cell.name}: return {run.final:,.1f}, {speed:,.0f} steps/s, {outcome.seconds:,.0f} s"


def _measure(place: StudyFolder, todo: Sequence[Cell], pool: Pool) -> Costs:
    """Costs of every arm and environment still to run, measured once and kept."""
    costs = place.measured()
    wanted = {
        (cell.arm, cell.config.env): cell for cell in todo if cell.config.env not in costs.get(cell.arm, {})
    }
    if wanted:
        unit = Unit(
            "measure speed",
            "sna_rl.training.studies.cell:measure",
            {"configs": [cell.config.to_dict() for cell in wanted.values()]},
            place.path / "logs" / "measure.txt",
        )
        (outcome,) = pool.run(iter([unit]))
        for (arm, env), cost in zip(wanted, outcome.value or [], strict=False):
            costs.setdefault(arm, {})[env] = cost
        write_json(place.path / MEASURED, costs)
    return costs


def _budget(cells: Sequence[Cell], todo: Sequence[Cell], costs: Costs, slots: int) -> str:
    """Core-hours still to spend, in a sentence."""
    known = [costs.get(cell.arm, {}).get(cell.config.env, {}) for cell in todo]
    seconds = [float(cost["seconds"]) for cost in known if "seconds" in cost]
    speeds = {
        f"{cell.arm} {cost['steps_per_second']:,.0f}"
        for cell, cost in zip(todo, known, strict=True)
        if "seconds" in cost
    }
    unknown = len(todo) - len(seconds)
    more = f"; {unknown} cells can't be measured" if unknown else ""
    hours = sum(seconds) / 3600
    return (
        f"budget: {len(todo)} of {len(cells)} cells to run, {hours:,.2f} core-hours, about "
        f"{hours / min(slots, max(len(todo), 1)):,.2f} h with {slots} jobs "
        f"(steps/s: {', '.join(sorted(speeds))}){more}"
    )


def _check_finished(path: Path, config: RunConfig) -> None:
    """Refuse a finished run that was made from another configuration."""
    ran = RunConfig.from_yaml(path / "config.yml", config.gym_packages)
    update = ran.update if config.update == "auto" else config.update
    changed = differences(comparable(ran), comparable(config.replace(update=update)))
    if changed:
        key, (before, now) = next(iter(changed.items()))
        raise UsageError(
            f"{str(path)!r} was run with {key} {before}, and the study now wants {now}; "
            f"give the study another name, or remove that folder"
        )
