"""Learning-rate schedules as text: `lin_3e-4` falls to 0, `lin_3e-4_1e-5` to 1e-5, a number stays."""

from __future__ import annotations

import math

from sna_rl.errors import UsageError


def parse_schedule(value: object, name: str = "learning_rate") -> tuple[float, float]:
    """Start and end of a schedule that is linear in the progress of training.

    value(p) = end + (start − end) · p, p the share of training that remains, from 1 to 0.

    Args:
        value: a number, or text: `lin_START`, `lin_START_END` or a number.
        name: key that it stands under, for the message.

    Returns:
        `(start, end)`, start positive, end not negative; equal for a constant.

    Raises:
        UsageError: if it is anything else.

    Example:
        >>> parse_schedule("lin_3e-4"), parse_schedule("lin_3e-4_1e-5"), parse_schedule(1e-3)
        ((0.0003, 0.0), (0.0003, 1e-05), (0.001, 0.001))
        >>> parse_schedule("foo_3e-4")
        Traceback (most recent call last):
        ...
        sna_rl.errors.UsageError: learning_rate must be a positive number, 'lin_START' (falls to 0) or \
'lin_START_END', not 'foo_3e-4'
    """
    try:
        if isinstance(value, str):
            word, *numbers = value.split("_")
            if word == "lin" and 1 <= len(numbers) <= 2:
                start, end = (_number(text) for text in [*numbers, "0"][:2])
            else:
                start = end = _number(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            start = end = float(value)
        else:
            raise ValueError
        if not (0 < start < math.inf and 0 <= end < math.inf):
            raise ValueError
    except (ValueError, OverflowError):
        raise UsageError(
            f"{name} must be a positive number, 'lin_START' (falls to 0) or 'lin_START_END', not {value!r}"
        ) from None
    return start, end


def _number(text: str) -> float:
    if not text.isascii() or text != text.strip():
        raise ValueError
    return float(text)
