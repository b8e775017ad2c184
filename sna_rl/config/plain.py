"""Plain data: what a YAML file holds, copied, checked, merged and compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from sna_rl.errors import UsageError

Data = dict[str, object]
"""A mapping of plain values: None, bool, int, float, str, lists and mappings of these."""

MAX_DEPTH: Final = 50
MAX_NODES: Final = 10_000
MAX_PATH: Final = 300
ABSENT: Final = "absent"
_SHOWN: Final = 60


def shown(value: object) -> str:
    """A value as a message shows it: its `repr`, cut where it gets long.

    Example:
        >>> shown("a" * 100)
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…"
    """
    text = repr(value) if not isinstance(value, str) else repr(value[: _SHOWN + 1])
    return text if len(text) <= _SHOWN + 2 else f"{text[:_SHOWN]}…"


def label(name: object, most: int = _SHOWN) -> str:
    """A key or path as a message shows it: bare, quoted where not printable, cut after `most` characters.

    Example:
        >>> label("gamma"), label("a\\nb"), label("gamma", most=3)
        ('gamma', "'a\\\\nb'", 'gam…')
    """
    text = str(name) if str(name).isprintable() else repr(str(name))
    return text if len(text) <= most else f"{text[:most]}…"


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put `where: ` before the message of a UsageError raised inside."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{where}: {error}" if where else str(error)) from None


def plain(value: object, name: str = "") -> object:
    """A deep copy of `value` made of plain values alone; tuples become lists.

    Args:
        value: what came from a file, a flag or a caller; never changed.
        name: how a message calls it; "" for a file's or record's top level.

    Returns:
        The copy, which shares nothing with `value`.

    Raises:
        UsageError: if something in it is not plain: another type, not-a-number, a key that is not text, text
            that UTF-8 can't hold, too deep or too large.

    Example:
        >>> plain({"train_freq": (1, "episode")}, "hyperparams")
        {'train_freq': [1, 'episode']}
    """
    return _copy(value, name, 0, [0])


def _copy(value: object, name: str, depth: int, count: list[int]) -> object:
    count[0] += 1
    if depth > MAX_DEPTH:
        raise UsageError(f"{label(name)} is nested deeper than {MAX_DEPTH} levels; flatten it")
    if count[0] > MAX_NODES:
        raise UsageError(f"{label(name)} holds more than {MAX_NODES} values; shorten it")
    if isinstance(value, Mapping):
        return {
            _key(key, name): _copy(item, _inner(name, key), depth + 1, count) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_copy(item, f"{name}[{index}]", depth + 1, count) for index, item in enumerate(value)]
    return _scalar(value, name)


def _inner(name: str, key: object) -> str:
    return f"{name}.{label(key)}" if name else label(key)


def _key(key: object, name: str) -> str:
    if not isinstance(key, str):
        place = f"{name}: " if name else ""
        raise UsageError(f"{place}key {shown(key)} must be text; put it in quotes")
    return str(_scalar(key, f"a key of {name}"))


def _scalar(value: object, name: str) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{name} holds characters that are not Unicode text: {value[:20]!a}") from None
        return str(value)
    if isinstance(value, int):
        if abs(value) >= 2**64:
            raise UsageError(f"{name} must be an int below 2^64 in size")
        return int(value)
    if isinstance(value, float):
        if math.isnan(value):
            raise UsageError(f"{name} must be a number, not nan")
        return float(value)
    raise UsageError(
        f"{name} must be plain data (number, text, true, false, null, list, mapping), "
        f"not {shown(value)} ({type(value).__name__}); a date must be in quotes"
    )


def merge(base: Mapping[str, object], over: Mapping[str, object]) -> Data:
    """Lay `over` onto `base`: values under keys that end in `_kwargs` merge key by key, all others replace.

    Args:
        base: what is there; not changed.
        over: what wins; not changed.

    Returns:
        A new mapping that shares its values with both.

    Example:
        >>> merge({"gamma": 0.9, "policy_kwargs": {"rank": 4}}, {"policy_kwargs": {"width": 64}})
        {'gamma': 0.9, 'policy_kwargs': {'rank': 4, 'width': 64}}
    """
    return _merge(base, over, deep=False)


def _merge(base: Mapping[str, object], over: Mapping[str, object], *, deep: bool) -> Data:
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if (deep or key.endswith("_kwargs")) and isinstance(below, Mapping) and isinstance(value, Mapping):
            result[key] = _merge(below, value, deep=True)
        else:
            result[key] = value
    return result


def differences(a: Mapping[str, object], b: Mapping[str, object]) -> dict[str, tuple[object, object]]:
    """What differs between two mappings.

    Args:
        a: before.
        b: after.

    Returns:
        `(value in a, value in b)` under each differing key, dotted where mappings nest; `ABSENT` where
        there is none.

    Example:
        >>> differences({"n": 1, "policy_kwargs": {"rank": 4}}, {"n": 1, "policy_kwargs": {"rank": 8}})
        {'policy_kwargs.rank': (4, 8)}
    """
    found: dict[str, tuple[object, object]] = {}
    for key in [*a, *(key for key in b if key not in a)]:
        before, after = a.get(key, ABSENT), b.get(key, ABSENT)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found |= {f"{key}.{inner}": pair for inner, pair in differences(before, after).items()}
        elif before != after or type(before) is not type(after):
            found[key] = (before, after)
    return found
