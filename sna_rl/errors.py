"""The errors a user can meet; every message says what is wrong, what was given, and what would do."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from difflib import get_close_matches
from types import ModuleType


class SnaError(Exception):
    """A failure the command line prints as one sentence; `exit_code` is what the process then returns."""

    exit_code = 1


class UsageError(SnaError, ValueError):
    """What the user gave can't be used; nothing has been started or written."""

    exit_code = 2


class MissingExtraError(SnaError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Closest known name to `name`, as the end of a sentence.

    Args:
        name: what the user wrote.
        known: every name that would do.

    Returns:
        "; did you mean 'x'?" where one is close, else the list of known names.

    Example:
        >>> suggestion("learnig_rate", ["learning_rate", "tau"])
        "; did you mean 'learning_rate'?"
        >>> suggestion("zzz", ["sac", "td3"])
        '; known are sac, td3'
    """
    choices = list(known)
    lowered = {choice.lower(): choice for choice in choices}
    close = get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {lowered[close[0]]!r}?"
    return f"; known are {', '.join(choices)}"


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, or say which extra of sna-rl installs it.

    Args:
        module: dotted name of the optional module.
        extra: name of the extra, as in `pip install "sna-rl[extra]"`.

    Returns:
        The imported module.

    Raises:
        MissingExtraError: if the module is not installed.

    Example:
        >>> require("json", "export").__name__
        'json'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{module} is not installed; it comes with the extra {extra!r}: pip install 'sna-rl[{extra}]'"
        ) from error
