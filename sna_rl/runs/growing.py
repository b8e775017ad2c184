"""How far a run's growing files were at a save, and cutting them back to it: no row and no step twice."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PATTERNS = ("events.out.tfevents.*", "*.monitor.csv")


def log_positions(*folders: Path) -> dict[str, int]:
    """Size of each event and monitor file, which only ever grow.

    Args:
        *folders: where they lie; one may stand twice.

    Returns:
        Name of the file → bytes.
    """
    return {file.name: file.stat().st_size for file in _growing(folders)}


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
