"""All that repeats a supervised run, in parts; flat names on the command line and in the run's file."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Self

from sna_rl.errors import UsageError, suggestion


class Settings:
    """Base of a frozen dataclass whose fields are frozen dataclasses, all of whose names differ.

    Example:
        >>> from sna_rl.runs.fit_config import FitConfig
        >>> @dataclasses.dataclass(frozen=True)
        ... class Run(Settings):
        ...     fit: FitConfig = FitConfig(n_steps=10)
        >>> run = Run().changed({"n_steps": 20, "clip": 2})
        >>> run.fit.n_steps, run.fit.clip, Run.of(run.plain()) == run
        (20, 2.0, True)
        >>> run.changed({"n_stesp": 20})
        Traceback (most recent call last):
        sna_rl.errors.UsageError: unknown key 'n_stesp'; did you mean 'n_steps'?
    """

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """The settings that `plain` gave.

        Args:
            data: flat names and values.

        Raises:
            UsageError: as `changed` does.
        """
        return cls().changed(data)

    def plain(self) -> dict[str, Any]:
        """Every field of every part under its own name."""
        return {name: value for part in self._parts() for name, value in dataclasses.asdict(part).items()}

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Settings with some fields changed.

        Args:
            changes: flat names and values; a whole number stands for a float.

        Raises:
            UsageError: if a name is unknown, or a value of another kind or out of its range.
        """
        new = self.plain()
        for name in changes:
            if name not in new:
                raise UsageError(f"unknown key {name!r}{suggestion(name, new)}")
        parts = []
        for part in self._parts():
            kinds = typing.get_type_hints(type(part))
            fields = [each.name for each in dataclasses.fields(part)]
            own = {name: _of_kind(name, changes[name], kinds[name]) for name in fields if name in changes}
            parts.append(dataclasses.replace(part, **own))
        return type(self)(*parts)

    def _parts(self) -> list[Any]:
        return [getattr(self, each.name) for each in dataclasses.fields(typing.cast(Any, self))]


def _of_kind(name: str, value: Any, kind: Any) -> Any:
    """A value where it is of the field's kind, a whole number made a float for one."""
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if type(value) in kinds or (value is None and types.NoneType in kinds):
        return value
    if type(value) is int and float in kinds:
        return float(value)
    wanted = " or ".join("none" if each is types.NoneType else each.__name__ for each in kinds)
    raise UsageError(f"{name} must be of kind {wanted}, not {value!r}")
