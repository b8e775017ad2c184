"""What the core asks of its numbers, said once."""

from __future__ import annotations

from collections.abc import Iterable

from sna_rl.errors import UsageError, suggestion


def check_int(name: str, value: object, minimum: int) -> int:
    """`value` itself where it is an int of at least `minimum` (a bool is not).

    Raises:
        UsageError: otherwise, naming what was given and what would do.

    Example:
        >>> check_int("rank", 1.0, 1)
        Traceback (most recent call last):
        sna_rl.errors.UsageError: rank must be an int of at least 1, not 1.0 (float)
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise UsageError(
            f"{name} must be an int of at least {minimum}, not {value!r} ({type(value).__name__})"
        )
    return value


def check_name(what: str, value: object, known: Iterable[str]) -> None:
    """Refuse a name that is not among `known`, offering the closest.

    Raises:
        UsageError: if the name is unknown.

    Example:
        >>> check_name("form", "additve", ("additive", "cp"))
        Traceback (most recent call last):
        sna_rl.errors.UsageError: unknown form 'additve'; did you mean 'additive'?
    """
    if value not in (choices := tuple(known)):
        raise UsageError(f"unknown {what} {value!r}{suggestion(str(value), choices)}")
