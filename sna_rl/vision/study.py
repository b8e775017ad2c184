"""Studies over any number of sittings: runs are trained to their end once, settings kept beside the rows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from sna_rl.config import dump_yaml, read_yaml
from sna_rl.errors import UsageError
from sna_rl.runs.atomic import atomic_write, write_json
from sna_rl.runs.files import read_json
from sna_rl.runs.fit_folder import open_run
from sna_rl.vision.run import Data, Run, go_on, train
from sna_rl.vision.settings import VisionConfig

SECONDS = "cpu_seconds.json"


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
    if path.exists() and VisionConfig.of(open_run(path)).absolute() != config.absolute():
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
