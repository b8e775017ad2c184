"""A table that goes on: rows of a CSV file that are never computed again."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from sna_rl.errors import SnaError
from sna_rl.runs.atomic import atomic_write


class Rows:
    """Rows of a CSV file, each known by some of its columns; the file is whole after every row.

    Args:
        path: the file, made by the first row.
        keys: columns that tell rows apart.

    Raises:
        SnaError: if a file is there with a row that lacks one of those columns.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Rows(Path(folder, "table.csv"), ["seed"]).add({"seed": 0, "accuracy": 0.5})
        ...     Rows(Path(folder, "table.csv"), ["seed"]).find(seed=0)
        {'seed': '0', 'accuracy': '0.5'}
    """

    def __init__(self, path: Path, keys: Sequence[str]) -> None:
        self.path, self.keys = path, tuple(keys)
        self.rows: list[dict[str, str]] = []
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                self.rows = list(csv.DictReader(file))
        for key in self.keys:
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
        """Add a row, and write the file; a column that some rows lack is empty there.

        Args:
            row: column → value; numbers are written as they print.
        """
        self.rows.append({name: str(value) for name, value in row.items()})
        columns = dict.fromkeys(name for each in self.rows for name in each)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.path, "w") as file:
            writer = csv.DictWriter(file, list(columns), restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
