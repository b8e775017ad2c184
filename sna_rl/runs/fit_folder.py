"""The folder of a supervised run: made, opened again, and its weights written and read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sna_rl.config import dump_yaml, read_yaml
from sna_rl.errors import SnaError, UsageError
from sna_rl.runs.atomic import atomic_write, write_json
from sna_rl.runs.checkpoints import Checkpoints
from sna_rl.runs.files import read_record, refuse_links
from sna_rl.runs.folder import RunFolder, add_command
from sna_rl.runs.tree import arrays_to_bytes, read_arrays
from sna_rl.runs.versions import versions

WEIGHTS = "model.safetensors"
BEST_WEIGHTS = "best_model.safetensors"


def new_run(folder: Path | str, task: str, name: str, config: Mapping[str, Any], command: str) -> Path:
    """Make the folder `<folder>/<task>/<name>/seed-<s>[-n]` of a new run.

    Args:
        folder: the log folder.
        task: what is learned, such as "sudoku".
        name: the model's name.
        config: all that repeats the run, plain values; its "seed" names the folder.
        command: the command line that starts it.

    Returns:
        The new folder, with `config.yml`, `command.txt` and `versions.json`.

    Raises:
        UsageError: if the log folder can't be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as logs:
        ...     run = new_run(logs, "sudoku", "hyper-set", {"seed": 3}, "sna-rl vision train")
        ...     run.name, open_run(run)
        ('seed-3', {'seed': 3})
    """
    path = RunFolder.create(folder, task, name, config["seed"]).path
    with atomic_write(path / "config.yml", "w") as file:
        file.write(dump_yaml(dict(config)))
    add_command(path, command)
    write_json(path / "versions.json", versions())
    return path


def open_run(path: Path | str) -> dict[str, Any]:
    """Configuration of a run.

    Args:
        path: its folder.

    Raises:
        UsageError: if there is no run at `path`.
        SnaError: if its configuration is damaged.
    """
    file = Path(path) / "config.yml"
    if not file.is_file():
        raise UsageError(f"{str(path)!r} is not a run folder, which holds a config.yml")
    return read_yaml(file)


def go_on_in(path: Path, command: str) -> None:
    """Begin to write in the folder of a run that goes on.

    Args:
        path: the run folder.
        command: the command line, added to those before.

    Raises:
        UsageError: if something in it is a link, since another file would be written.
    """
    refuse_links(path, path / "checkpoints")
    add_command(path, command)


def check_unfinished(path: Path, n_steps: int) -> None:
    """See that a run has steps left to do, or at least its end to write.

    Args:
        path: the run folder.
        n_steps: steps it is to have.

    Raises:
        UsageError: if it has come to its end with them, or is past them.
        SnaError: if its summary is damaged.
    """
    summary = path / "summary.json"
    ended = read_record(summary, ["n_steps"]).get("n_steps") or 0 if summary.exists() else 0
    saved = max((each.step for each in Checkpoints(path / "checkpoints").all()), default=0)
    if ended >= n_steps or saved > n_steps:
        raise UsageError(f"run {str(path)!r} has its {max(ended, saved):,} steps; more need -n above that")


def arrays_of(module: nn.Module) -> dict[str, np.ndarray[Any, Any]]:
    """Every parameter and saved buffer of a module as an array on the CPU.

    Args:
        module: the module.
    """
    return {name: value.detach().cpu().numpy() for name, value in module.state_dict().items()}


def load_arrays(module: nn.Module, arrays: Mapping[str, np.ndarray[Any, Any]], where: str) -> None:
    """Copy arrays into a module's parameters and buffers; nothing changes unless all fit.

    Args:
        module: the module.
        arrays: what `arrays_of` gave.
        where: file they come from, for the message.

    Raises:
        UsageError: if a name or a shape differs; the first one is named.
    """
    state = module.state_dict()
    now = {name: tuple(value.shape) for name, value in state.items()}
    saved = {name: tuple(value.shape) for name, value in arrays.items()}
    for name in sorted({*saved, *now}):
        if saved.get(name) != now.get(name):
            raise UsageError(
                f"{where!r} is of another model: {name} has shape {saved.get(name)} there "
                f"and {now.get(name)} here"
            )
    module.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in arrays.items()})


def save_weights(module: nn.Module, path: Path) -> None:
    """Write a module's parameters as a safetensors file, whole or not at all.

    Args:
        module: the module.
        path: the file.

    Raises:
        OSError: if it can't be written.
    """
    with atomic_write(path) as file:
        file.write(arrays_to_bytes(arrays_of(module)))


def load_weights(module: nn.Module, path: Path) -> None:
    """Read what `save_weights` wrote; runs nothing that the file holds.

    Args:
        module: a module of the same parameters.
        path: the file.

    Raises:
        SnaError: if the file is missing or damaged.
        UsageError: if it is of another model.
    """
    if not path.exists():
        raise SnaError(f"{str(path.parent)!r} holds no {path.name}; the run has not saved yet")
    load_arrays(module, read_arrays(path), str(path))
