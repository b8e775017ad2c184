"""Monitor files and TensorBoard events that leave out what a full disk doesn't take, and stay readable."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import TensorBoardOutputFormat
from stable_baselines3.common.monitor import ResultsWriter

from sna_rl.runs.disk import tolerate_full_disk


class PatientResults(ResultsWriter):
    """A monitor's writer of episodes.

    Args:
        writer: the writer that the monitor made.
        folder: the run folder.
    """

    def __init__(self, writer: ResultsWriter, folder: Path) -> None:
        self.writer = writer
        self.folder = folder

    def write_row(self, epinfo: dict[str, float]) -> None:
        """Write an episode's return, length and time."""
        with tolerate_full_disk(self.folder):
            self.writer.write_row(epinfo)

    def close(self) -> None:
        """Close the file."""
        with tolerate_full_disk(self.folder):
            self.writer.close()


class PatientTensorBoard(TensorBoardOutputFormat):
    """TensorBoard events, each whole in the file or absent.

    TensorBoard's own writer dies in its thread at the first failure, and half an event hides all after it.

    Args:
        folder: where the event file goes.

    Raises:
        OSError: if the folder can't be written at the start.
    """

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        writer: Any = self.writer
        events = writer._get_file_writer().event_writer
        events._async_writer._writer._writer = _EventFile(Path(events._file_name))


class _EventFile:
    """What TensorBoard's record writer needs of a file: each write is one event."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = path.stat().st_size

    def write(self, event: bytes) -> None:
        try:
            with open(self.path, "ab") as file:
                file.write(event)
            self._size += len(event)
        except OSError:
            with tolerate_full_disk(self.path.parent):
                os.truncate(self.path, self._size)
                raise

    def flush(self) -> None:
        """Every write is in the file already."""

    def close(self) -> None:
        """No file stays open."""
