"""Studies that go on: a table whose finished rows are never computed again, paired differences, turns."""

from __future__ import annotations

import csv
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from scipy.stats import ttest_rel

from sna_rl.errors import UsageError
from sna_rl.runs.atomic import atomic_write

UNTOLD = 3  # turns that are not timed, while caches fill


class Table:
    """Rows in a CSV file, each known by its key; the file is whole after every row.

    Args:
        path: the file; made with the first row.
        keys: columns that tell rows apart.
        columns: all others; one that a row does not have stays empty.

    Raises:
        UsageError: if the file has other columns.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table = Table(Path(folder) / "table.csv", ["arm", "seed"], ["score"])
        ...     table.add({"arm": "plain", "seed": 0, "score": 0.5})
        ...     ("plain", 0) in table, ("plain", 1) in table, table.rows()
        (True, False, [{'arm': 'plain', 'seed': '0', 'score': '0.5'}])
    """

    def __init__(self, path: Path, keys: Sequence[str], columns: Sequence[str]) -> None:
        self.path, self.keys, self.columns = path, tuple(keys), (*keys, *columns)
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                found = tuple(csv.DictReader(file).fieldnames or ())
            if found != self.columns:
                raise UsageError(
                    f"{str(path)!r} has the columns {', '.join(found)}, and this study writes "
                    f"{', '.join(self.columns)}; name another folder"
                )

    def rows(self) -> list[dict[str, str]]:
        """Finished rows, as text."""
        if not self.path.exists():
            return []
        with self.path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def __contains__(self, key: Sequence[object]) -> bool:
        """Whether the row of a key is finished."""
        wanted = [str(part) for part in key]
        return any([row[name] for name in self.keys] == wanted for row in self.rows())

    def add(self, row: Mapping[str, object]) -> None:
        """Write a row more.

        Args:
            row: name → value; every name is a column's.
        """
        rows: list[Mapping[str, object]] = [*self.rows(), row]
        with atomic_write(self.path, "w") as file:
            writer = csv.DictWriter(file, self.columns, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


class Paired(NamedTuple):
    """Mean of paired differences with its interval.

    Args:
        mean: of arm − base.
        low: lower end.
        high: upper end.
        n: pairs.
    """

    mean: float
    low: float
    high: float
    n: int

    @property
    def half_width(self) -> float:
        """Half of the interval's length."""
        return (self.high - self.low) / 2.0


def paired(arm: Sequence[float], base: Sequence[float], confidence: float = 0.95) -> Paired:
    """Student's interval of the mean difference of pairs, such as runs of the same seed.

    d̄ ± t(n − 1) · s / √n, s the standard deviation of the differences

    Args:
        arm: a value for each pair.
        base: what it is compared with, in the same order.
        confidence: share of such intervals that hold the true mean difference, if differences are normal.

    Raises:
        UsageError: if there are not two pairs.

    Example:
        >>> found = paired([3.0, 5.0], [1.0, 1.0])
        >>> found.mean, round(found.low, 2), round(found.high, 2)
        (3.0, -9.71, 15.71)
    """
    if len(arm) != len(base) or len(arm) < 2:
        raise UsageError(f"an interval needs pairs, two or more, not {len(arm)} and {len(base)} values")
    differences = [a - b for a, b in zip(arm, base, strict=True)]
    mean = statistics.fmean(differences)
    if max(differences) == min(differences):
        return Paired(mean, mean, mean, len(differences))
    low, high = ttest_rel(arm, base).confidence_interval(confidence)
    return Paired(mean, float(low), float(high), len(differences))


def in_turns(works: Sequence[Callable[[], object]], n_turns: int) -> list[list[float]]:
    """Processor milliseconds of several works done in turn in one process.

    Args:
        works: what is timed.
        n_turns: turns that count, after three that don't.

    Returns:
        A list of times for each work.
    """
    taken: list[list[float]] = [[] for _ in works]
    for turn in range(UNTOLD + n_turns):
        for times, work in zip(taken, works, strict=True):
            began = time.process_time()
            work()
            if turn >= UNTOLD:
                times.append(1e3 * (time.process_time() - began))
    return taken
