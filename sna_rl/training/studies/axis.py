"""Equal budgets: as many steps, or as much processor time."""

from __future__ import annotations

from enum import StrEnum


class Axis(StrEnum):
    """What equal budgets are measured in."""

    STEPS = "steps"
    TIME = "time"

    @property
    def unit(self) -> str:
        """What stands behind a number of it."""
        return "environment steps" if self is Axis.STEPS else "CPU seconds"
