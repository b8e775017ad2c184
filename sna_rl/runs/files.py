"""Reading files that a stranger may have written: bounded, regular files alone, nothing in them is run."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sna_rl.errors import SnaError, UsageError

if TYPE_CHECKING:
    import numpy as np

DAMAGE = (OSError, ValueError, EOFError, KeyError, TypeError, NotImplementedError, MemoryError, OverflowError)
MAX_BYTES = 2**33
MAX_JSON_BYTES = 2**26
MAX_NPZ_BYTES = 2**28


def check_file(path: Path, limit: int = MAX_BYTES) -> None:
    """Refuse what would never end or not fit: devices, pipes, folders, and files past a size.

    Args:
        path: the file.
        limit: largest size, bytes.

    Raises:
        SnaError: if it is missing, no regular file, or larger.

    Example:
        >>> check_file(Path("/dev/null"))
        Traceback (most recent call last):
        ...
        sna_rl.errors.SnaError: '/dev/null' is no regular file
    """
    if not path.exists():
        raise SnaError(f"{str(path)!r} is missing")
    if not path.is_file():
        raise SnaError(f"{str(path)!r} is no regular file")
    if path.stat().st_size > limit:
        raise SnaError(f"{str(path)!r} is larger than {limit >> 20:,} MiB; no such file was written here")


def read_json(path: Path) -> Any:
    """Read a JSON file of at most 64 MiB.

    Args:
        path: the file.

    Returns:
        What it holds.

    Raises:
        SnaError: if it is missing, too large, nested too deeply, or no JSON.
    """
    check_file(path, MAX_JSON_BYTES)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SnaError(f"{str(path)!r} can't be read as JSON: {_reason(error)}") from error


def read_record(path: Path, numbers: Iterable[str] = ()) -> dict[str, Any]:
    """Read a JSON file that holds a mapping.

    Args:
        path: the file.
        numbers: keys under which a number or null stands, where they stand at all.

    Returns:
        The mapping.

    Raises:
        SnaError: as `read_json`, or if it is no such mapping.
    """
    record = read_json(path)
    if not isinstance(record, dict):
        raise SnaError(f"{str(path)!r} is damaged: it holds no mapping")
    for key in numbers:
        value = record.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise SnaError(f"{str(path)!r} is damaged: {key} is no number")
    return record


def read_lines(path: Path) -> list[str]:
    """Lines of a text file of at most 64 MiB; bytes that are no UTF-8 are replaced.

    Args:
        path: the file.

    Raises:
        SnaError: if it is missing, no regular file, too large, or can't be read.
    """
    check_file(path, MAX_JSON_BYTES)
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise SnaError(f"{str(path)!r} can't be read: {_reason(error)}") from error


def refuse_links(*folders: Path) -> None:
    """Refuse links where files are written: what they point to would be changed.

    Args:
        folders: folders that are written in; those that don't exist yet hold none.

    Raises:
        UsageError: naming the first link.
    """
    for link in (entry for folder in folders if folder.is_dir() for entry in folder.iterdir()):
        if link.is_symlink():
            raise UsageError(f"{str(link)!r} is a link, and writing there changes another file; remove it")


def read_npz(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Read the arrays of an `.npz` file of at most 256 MiB unpacked; Python objects in it are refused.

    Args:
        path: the file.

    Returns:
        Name → array.

    Raises:
        SnaError: if it is missing, too large, damaged, or holds Python objects.
    """
    import numpy as np

    check_file(path, MAX_NPZ_BYTES)
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(item.file_size for item in archive.infolist())
        if unpacked > MAX_NPZ_BYTES:
            raise SnaError(f"{str(path)!r} unpacks to {unpacked:,} bytes; no such file was written here")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (*DAMAGE, zipfile.BadZipFile) as error:
        raise SnaError(f"{str(path)!r} can't be read as .npz: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """First line of an error's message, or its kind."""
    lines = (getattr(error, "strerror", None) or str(error)).splitlines()
    return lines[0] if lines else type(error).__name__
