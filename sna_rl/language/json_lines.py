"""Files of problems: a JSON object a line, plain or gzipped; the line that is wrong is named."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sna_rl.errors import UsageError
from sna_rl.runs.files import check_file

T = TypeVar("T")


def read_lines(path: Path, parse: Callable[[dict[str, Any]], T], fields: tuple[str, ...]) -> list[T]:
    """Read a file of problems.

    Args:
        path: the file, plain or gzipped.
        parse: makes a problem of a line's object; a ValueError of its says what is wrong with it.
        fields: what every object has, as text.

    Returns:
        At least one problem.

    Raises:
        UsageError: if the file can't be read or a line is no such object; its number is named.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.jsonl"
        ...     _ = path.write_text('{"question": "1 + 1?"}')
        ...     read_lines(path, lambda entry: entry["question"], ("question",))
        ['1 + 1?']
    """
    check_file(path)
    opened = gzip.open if path.suffix == ".gz" else open
    read = []
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                read.append(_parsed(line, parse, fields, f"{str(path)!r}, line {number:,}"))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UsageError(f"{str(path)!r} can't be read as lines of JSON: {error}") from error
    if not read:
        raise UsageError(f"{str(path)!r} holds no problem")
    return read


def _parsed(line: str, parse: Callable[[dict[str, Any]], T], fields: tuple[str, ...], where: str) -> T:
    """One line's problem."""
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or not all(isinstance(entry.get(name), str) for name in fields):
        raise UsageError(f"{where} is no JSON object with {' and '.join(fields)}")
    try:
        return parse(entry)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error
