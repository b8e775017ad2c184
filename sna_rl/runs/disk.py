"""A full disk ends no run: what can't be written is told once and left out."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sna_rl.errors import SnaError

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


@contextmanager
def no_room_is_an_error(folder: Path) -> Iterator[None]:
    """Fail in one sentence where the end of a run can't be written.

    Args:
        folder: the run folder, named in the message.

    Yields:
        Nothing.

    Raises:
        SnaError: for an OSError in the block.
    """
    try:
        yield
    except OSError as error:
        raise SnaError(
            f"the end of the run can't be written to {str(folder)!r} ({error.strerror or error}); "
            "make room, and train -i on that folder ends it"
        ) from error
