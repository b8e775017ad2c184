"""How far a run's growing files were at a save, and cutting them back to it: no row and no step twice."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from stable_baselines3.common.logger import KVWriter, Logger, TensorBoardOutputFormat

from sna_rl.config import RunConfig
from sna_rl.runs import RunFolder

PATTERNS = ("events.out.tfevents.*", "*.monitor.csv")


class OnceLogger(Logger):
    """A logger that gives a curve one value a step: the first, where evaluation and episode end together.

    Args:
        folder: where its outputs write.
        output_formats: the outputs.
    """

    def __init__(self, folder: str | None, output_formats: list[KVWriter]) -> None:
        super().__init__(folder, output_formats)
        self._step = -1
        self._given: set[str] = set()

    def dump(self, step: int = 0) -> None:
        """Write what was recorded since the last dump, but for what this step has already.

        Args:
            step: environment steps.
        """
        if step != self._step:
            self._step, self._given = step, set()
        for name in self._given & self.name_to_value.keys():
            del self.name_to_value[name], self.name_to_excluded[name]
        self._given |= self.name_to_value.keys()
        super().dump(step)


def events_folder(config: RunConfig, folder: RunFolder) -> Path:
    """Where a run's TensorBoard events lie.

    Args:
        config: the run's configuration.
        folder: its run folder.
    """
    return Path(config.tensorboard_log, *folder.path.parts[-3:]) if config.tensorboard_log else folder.path


def log_positions(*folders: Path) -> dict[str, int]:
    """Size of each event and monitor file, which only ever grow.

    Args:
        *folders: where they lie; one may stand twice.

    Returns:
        Name of the file → bytes.
    """
    return {file.name: file.stat().st_size for file in _growing(folders)}


def flush(logger: Logger) -> None:
    """Bring every TensorBoard event logged so far to the file.

    Args:
        logger: the agent's logger.
    """
    for output in logger.output_formats:
        if isinstance(output, TensorBoardOutputFormat):
            output.writer.flush()


def cut_logs(positions: Mapping[str, int], *folders: Path) -> None:
    """Cut event and monitor files back to where they were; those that came later are removed.

    Args:
        positions: what `log_positions` gave.
        *folders: the same folders.

    Raises:
        OSError: if a file can't be changed.
    """
    for file in _growing(folders):
        size = positions.get(file.name)
        if size is None:
            file.unlink()
        elif file.stat().st_size > size:
            os.truncate(file, size)


def _growing(folders: tuple[Path, ...]) -> list[Path]:
    """Event and monitor files in the folders, links left out."""
    found = {file for folder in folders for pattern in PATTERNS for file in folder.glob(pattern)}
    return sorted(file for file in found if file.is_file() and not file.is_symlink())
