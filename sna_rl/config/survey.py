"""A look through a YAML file before anything is built from it: tags, anchors, keys, depth and size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from sna_rl.config.plain import MAX_DEPTH, MAX_NODES, label, shown
from sna_rl.errors import UsageError

TAG_PREFIX: Final = "tag:yaml.org,2002:"
_TAGS: Final = {"!", *(TAG_PREFIX + name for name in ("str", "int", "float", "bool", "null", "seq", "map"))}


@dataclass
class _Frame:
    """A collection being surveyed: its size with anchors expanded, and where in it we are."""

    is_mapping: bool
    anchor: str | None
    size: int = 1
    key: str | None = None
    keys: set[str] = field(default_factory=set)


def survey(events: Iterator[Any], where: str) -> None:
    """Refuse what must not be built, from the parser's events alone.

    Args:
        events: the parser's events, read one by one: a file is refused as soon as it goes too far.
        where: what messages call the file.

    Raises:
        UsageError: for a tag, an old version, a key that is not text or stands twice, an anchor that is not
            defined or refers to itself, a second document, too deep or too large; with line and key.
    """
    stack = [_Frame(False, None)]
    sizes: dict[str, int] = {}
    for event in events:
        place = _Place(where, event.start_mark.line + 1, stack)
        if isinstance(event, DocumentStartEvent):
            if event.version not in (None, (1, 2)):
                raise place.error("declares an old version of YAML; remove the %YAML line")
            if stack[0].size > 1:
                raise place.error("a second document starts; keep one a file")
        if isinstance(event, SequenceStartEvent | MappingStartEvent | ScalarEvent):
            if event.tag is not None and event.tag not in _TAGS:
                raise place.error(
                    f"unknown tag {shown(event.tag.replace(TAG_PREFIX, '!!'))}; plain data only"
                )
            if event.anchor is not None:
                sizes.pop(event.anchor, None)
        if isinstance(event, SequenceStartEvent | MappingStartEvent):
            if _awaits_key(stack[-1]):
                raise place.error("a key must be text, not a list or mapping")
            if len(stack) > MAX_DEPTH:
                raise place.error(f"is nested deeper than {MAX_DEPTH} levels")
            stack.append(_Frame(isinstance(event, MappingStartEvent), event.anchor))
        elif isinstance(event, SequenceEndEvent | MappingEndEvent):
            done = stack.pop()
            _close(stack[-1], done.size, done.anchor, sizes, place)
        elif isinstance(event, ScalarEvent):
            if _awaits_key(stack[-1]):
                _open_key(stack[-1], event.value, place)
            else:
                _close(stack[-1], 1, event.anchor, sizes, place)
        elif isinstance(event, AliasEvent):
            if _awaits_key(stack[-1]):
                raise place.error("a key must be text, not an alias")
            if any(frame.anchor == event.anchor for frame in stack):
                raise place.error(f"anchor {shown(event.anchor)} refers to itself")
            if event.anchor not in sizes:
                raise place.error(f"anchor {shown(event.anchor)} is not defined before it is used")
            _close(stack[-1], sizes[event.anchor], None, sizes, place)


@dataclass
class _Place:
    """Where in a file the survey is, for messages."""

    where: str
    line: int
    stack: list[_Frame]

    def error(self, problem: str) -> UsageError:
        keys = label(".".join(label(frame.key) for frame in self.stack if frame.key is not None))
        return UsageError(f"{self.where}, line {self.line}{', ' + keys if keys else ''}: {problem}")


def _awaits_key(frame: _Frame) -> bool:
    return frame.is_mapping and frame.key is None


def _open_key(frame: _Frame, key: str, place: _Place) -> None:
    if key in frame.keys:
        raise place.error(f"key {shown(key)} stands twice")
    frame.keys.add(key)
    frame.key = key


def _close(frame: _Frame, size: int, anchor: str | None, sizes: dict[str, int], place: _Place) -> None:
    """Add a finished value to the collection it stands in."""
    frame.size += size
    if frame.size > MAX_NODES:
        raise place.error(f"holds more than {MAX_NODES} values once its anchors are expanded")
    if anchor is not None:
        sizes[anchor] = size
    frame.key = None
