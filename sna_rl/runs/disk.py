"""A full disk ends no run: what can't be written is told once and left out."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_told: set[Path] = set()


@contextmanager
def tolerate_full_disk(folder: Path) -> Iterator[None]:
    """Go on where a write fails; the user is told the first time for each folder, by the main process.

    Args:
        folder: the run folder, named in the message.

    Yields:
        Nothing; an OSError in the block ends the block alone.

    Example:
        >>> with tolerate_full_disk(Path("logs")):
        ...     raise OSError(28, "No space left on device")
    """
    try:
        yield
    except OSError as error:
        if folder not in _told and multiprocessing.parent_process() is None:
            _told.add(folder)
            print(
                f"{str(folder)!r} can't be written ({error.strerror or error}); "
                "the run goes on, and its last good checkpoint stands",
                file=sys.stderr,
                flush=True,
            )
