"""Studies over any number of sittings: runs are trained to their end once, rows kept in a table."""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping
from pathlib import Path

from sna_rl.config import dump_yaml, read_yaml
from sna_rl.errors import SnaError, UsageError
from sna_rl.runs.atomic import atomic_write, write_json
from sna_rl.runs.files import read_json
from sna_rl.runs.fit_folder import open_run
from sna_rl.vision.run import Data, Run, go_on, train
from sna_rl.vision.settings import VisionConfig

SECONDS = "cpu_seconds.json"


class Table:
    """Rows of a CSV file; the file is whole after every row.

    Args:
        path: the file, made by the first row.
        keys: columns that tell rows apart.

    Raises:
        SnaError: if a file is there that lacks one of those columns.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Table(Path(folder, "table.csv"), ["seed"]).add({"seed": 0, "accuracy": 0.5})
        ...     Table(Path(folder, "table.csv"), ["seed"]).find(seed=0)
        {'seed': '0', 'accuracy': '0.5'}
    """

    def __init__(self, path: Path, keys: list[str]) -> None:
        self.path, self.keys = path, keys
        self.rows: list[dict[str, str]] = []
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                self.rows = list(csv.DictReader(file))
        for key in keys:
            if any(not row.get(key) for row in self.rows):
                raise SnaError(
                    f"{str(path)!r} has a row without {key!r}; remove it, and it is computed again"
                )

    def find(self, **values: object) -> dict[str, str] | None:
        """The row of some values of all keys, None where it is still missing.

        Args:
            **values: key → value.
        """
        wanted = {key: str(values[key]) for key in self.keys}
        return next((row for row in self.rows if wanted.items() <= row.items()), None)

    def add(self, row: Mapping[str, object]) -> None:
        """Add a row, and write the file.

        Args:
            row: column → value; numbers are written as they print.
        """
        self.rows.append({name: str(value) for name, value in row.items()})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.path, "w") as file:
            writer = csv.DictWriter(file, list(self.rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)


def keep_settings(path: Path, settings: Mapping[str, object]) -> None:
    """Write what the rows of a table have in common, or see that it is what was written before.

    Args:
        path: a YAML file beside the table.
        settings: plain values; those left at their default need not be told.

    Raises:
        UsageError: if they differ from those of the rows that are there.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path, "w") as file:
            file.write(dump_yaml(dict(settings)))
        return
    before = read_yaml(path)
    for name in sorted({*before, *settings}):
        there, here = (repr(each[name]) if name in each else "at its default" for each in (before, settings))
        if there != here:
            raise UsageError(
                f"{str(path)!r} has {name} {there}, not {here}; "
                "rows of other settings belong in another folder"
            )


def trained(
    config: VisionConfig,
    folder: Path,
    command: str,
    *,
    device: str = "auto",
    progress: bool = False,
    data: Data | None = None,
) -> Run:
    """The finished run of a configuration: begun, gone on with from its checkpoint, or opened.

    Args:
        config: what to train.
        folder: log folder that this configuration alone is trained in, once a seed.
        command: the command line, kept in the run folder.
        device: auto, cpu or cuda.
        progress: show how far it is.
        data: loaded already; by default the configuration's.

    Returns:
        The run with its last weights, in evaluation mode; `cpu_seconds` tells what it took.

    Raises:
        UsageError: if the folder holds a run of another configuration.
        Interrupted: if a signal ended it; it is saved then.
    """
    path = run_folder(config, folder)
    if path.exists() and VisionConfig.of(open_run(path)) != config:
        raise UsageError(f"{str(path)!r} was trained with other settings; give another log folder")
    if not (path / "summary.json").exists():
        began = time.process_time()
        try:
            if path.exists():
                go_on(path, {}, command, device=device, progress=progress)
            else:
                train(config, folder, command, device=device, say=_nothing, progress=progress, data=data)
        finally:
            if path.exists():
                spent = cpu_seconds(path) + time.process_time() - began
                write_json(path / SECONDS, {"cpu_seconds": spent})
    return Run.open(path, device=device, data="" if data is None else data)


def run_folder(config: VisionConfig, folder: Path) -> Path:
    """Where `trained` keeps a run.

    Args:
        config: what is trained.
        folder: its log folder.
    """
    return folder / config.task.task / config.model.model / f"seed-{config.fit.seed}"


def cpu_seconds(run: Path) -> float:
    """Processor seconds that training took in all sittings that ended in order; 0 before the first did.

    Args:
        run: the folder of a run that `trained` made.
    """
    path = run / SECONDS
    return float(read_json(path)["cpu_seconds"]) if path.exists() else 0.0


def _nothing(line: str) -> None:
    """Where a run's description goes in a study, which prints a line a row instead."""
