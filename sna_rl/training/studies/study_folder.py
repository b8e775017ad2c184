"""A study on the disk: its runs, what failed, what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sna_rl.config import RunConfig
from sna_rl.errors import SnaError, UsageError
from sna_rl.runs.files import read_record
from sna_rl.runs.folder import env_name
from sna_rl.training.studies.arms import Arm, Failure, Run, read_arms, read_run
from sna_rl.training.studies.axis import Axis
from sna_rl.training.studies.study import Cell, Study

RUNS: Final = "runs"
STUDY: Final = "study.yml"
MEASURED: Final = "measured.json"
SUMMARY: Final = "summary.json"
SPECTRUM: Final = "spectrum.json"
Costs = dict[str, dict[str, dict[str, Any]]]
"""What `cell.measure` gave, by arm and environment."""


@dataclass(frozen=True)
class StudyFolder:
    """A study on the disk.

    Args:
        path: its folder; runs lie in `runs/<env>/<arm>/seed-<s>`, so that one TensorBoard shows them all.
    """

    path: Path

    @property
    def runs(self) -> Path:
        """Folder of all runs: the log root for TensorBoard."""
        return self.path / RUNS

    def report(self, axis: Axis = Axis.STEPS) -> Path:
        """Folder of the report by steps, or of the one by time."""
        return self.path / ("report" if axis is Axis.STEPS else f"report-{axis}")

    def study(self) -> Study:
        """The study as it was last run.

        Raises:
            UsageError: if no study lies there.
        """
        if not (self.path / STUDY).is_file():
            raise UsageError(f"{str(self.path)!r} is no study; a study's folder holds a {STUDY}")
        return Study.read(self.path / STUDY)

    def measured(self) -> Costs:
        """Measured costs, empty before the first measurement.

        Raises:
            SnaError: if the file is damaged.
        """
        path = self.path / MEASURED
        costs: Costs = read_record(path) if path.exists() else {}
        for each in costs.values():
            found = each.values() if isinstance(each, dict) else [None]
            if not all(isinstance(cost, dict) and _is_cost(cost) for cost in found):
                raise SnaError(f"{str(path)!r} is damaged; remove it, and costs are measured anew")
        return costs

    def log(self, cell: Cell) -> Path:
        """File with what the process of a cell printed."""
        return self.path / "logs" / f"{env_name(cell.config.env)}-{cell.arm}-{cell.config.seed}.txt"

    def failure(self, cell: Cell) -> Path:
        """File with the reason why a cell failed, while it has not succeeded."""
        return self.log(cell).with_suffix(".json")

    def arms(self, study: Study) -> list[Arm]:
        """Arms with the runs that are finished and the reasons of those that failed, then the existing ones.

        Args:
            study: the study of this folder.

        Raises:
            UsageError: if a run's files are damaged or an existing folder holds no run.
        """
        runs: dict[str, list[Run]] = {}
        failed: dict[str, list[Failure]] = {}
        for cell in study.cells():
            path = cell.path(self.runs)
            if is_finished(path):
                runs.setdefault(cell.arm, []).append(read_run(path))
            elif self.failure(cell).is_file():
                reason = str(read_record(self.failure(cell)).get("reason", "not known"))
                failed.setdefault(cell.arm, []).append(Failure(cell.config.env, cell.config.seed, reason))
        differs = study.differs_in()
        arms = [
            Arm(
                name,
                tuple(runs.get(name, ())),
                tuple(failed.get(name, ())),
                {**_settings(next(iter(configs.values()))), "differs in": differs[name]},
            )
            for name, configs in study.configs().items()
        ]
        for name, existing in study.existing.items():
            (found,) = read_arms(Path(existing), name)
            arms.append(Arm(name, found.runs, settings={"differs in": f"read from {existing}"}))
        return arms


def read_spectrum(path: Path) -> list[float]:
    """Singular values that a cell's process left in its run folder, none where it left none.

    Raises:
        SnaError: if the file is damaged.
    """
    spectrum = path / SPECTRUM
    values = read_record(spectrum).get("singular_values") if spectrum.exists() else []
    if not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
        raise SnaError(f"{str(spectrum)!r} is damaged: it holds no list of singular values")
    return values


def _is_cost(cost: Mapping[str, Any]) -> bool:
    """Whether a cost holds numbers, but for the reason why there are none."""
    return all(isinstance(value, int | float) or key == "reason" for key, value in cost.items())


def is_finished(path: Path) -> bool:
    """Whether a run folder holds a run that went to its end."""
    return (path / SUMMARY).is_file()


def _settings(config: RunConfig) -> Mapping[str, Any]:
    """What may differ between arms."""
    return {
        "algo": config.algo,
        "critic": config.critic,
        "rank": config.rank,
        "learning_rate": config.hyperparams.get("learning_rate", "default"),
    }
