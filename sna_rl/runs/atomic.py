"""Files and folders that are complete or absent: written beside, synced, then renamed."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power cut.

    Args:
        path: the folder.

    Raises:
        OSError: if the folder can't be opened or synced.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_write(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a file that appears under its name only when it is whole.

    Args:
        path: final name; an older file there is replaced.
        mode: "wb" for bytes, "w" for UTF-8 text.

    Yields:
        A file open for writing; a temporary name beside `path` until the block ends without an exception.

    Raises:
        OSError: if it can't be written; nothing new then stands under `path`.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with atomic_write(Path(folder, "a.txt"), "w") as file:
        ...         _ = file.write("whole")
        ...     Path(folder, "a.txt").read_text()
        'whole'
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Fill a folder that appears under its name only when everything in it is on the disk.

    Args:
        path: final name; an older folder there is replaced.

    Yields:
        A hidden folder beside `path`, removed if the block raises.

    Raises:
        OSError: if it can't be written; nothing new then stands under `path`.
    """
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    try:
        yield temporary
        for file in temporary.iterdir():
            with open(file, "rb+") as written:
                os.fsync(written.fileno())
        sync_folder(temporary)
        os.chmod(temporary, 0o777 & ~_umask())
        if path.exists():
            shutil.rmtree(path)
        os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(path.parent)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a mapping as indented JSON, whole or not at all.

    Args:
        path: final name.
        data: what JSON can hold.

    Raises:
        OSError: if it can't be written.
    """
    with atomic_write(path, "w") as file:
        json.dump(data, file, indent=2)
        file.write("\n")


def remove_leftovers(path: Path) -> None:
    """Remove what an interrupted write left beside its final name.

    Args:
        path: the folder to clean; its other contents stay.
    """
    for leftover in path.glob(".*.tmp"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def _umask() -> int:
    """Permission bits this process withholds from new files."""
    current = os.umask(0)
    os.umask(current)
    return current
