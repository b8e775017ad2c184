"""YAML 1.2 in, safely: nothing is evaluated, everything is bounded. YAML out that 1.1 readers read alike."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Final, TextIO

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from sna_rl.config.plain import MAX_DEPTH, MAX_NODES, Data, plain, shown
from sna_rl.errors import UsageError

MAX_BYTES: Final = 262_144
_PREFIX: Final = "tag:yaml.org,2002:"
_TAGS: Final = {"!", *(_PREFIX + name for name in ("str", "int", "float", "bool", "null", "seq", "map"))}
_BARE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*", re.ASCII)
_WORDS_OF_1_1: Final = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def read_yaml(path: str | Path) -> Data:
    """Read a YAML file whose top level is a mapping.

    Args:
        path: file to read.

    Returns:
        Its content as plain data; anchors and merge keys are resolved, `3e-4` is a number, `yes` is text.

    Raises:
        UsageError: if the file can't be read or is not such YAML; one sentence with file, line and key.
    """
    file = Path(path)
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise UsageError(f"{path} is not a file; give a YAML file")
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"can't read {shown(str(path))}: {reason}") from None
    if len(content) > MAX_BYTES:
        raise UsageError(f"{path} is larger than {MAX_BYTES // 1024} KiB; a configuration is a few lines")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> Data:
    """Read YAML text whose top level is a mapping.

    Args:
        text: the YAML.
        where: what messages call it, usually the file's path.

    Returns:
        Its content as plain data.

    Raises:
        UsageError: as `read_yaml`.

    Cost:
        Anchors are counted as expanded before anything is built: at most 10,000 values.

    Example:
        >>> parse_yaml("a: &x {lr: 3e-4}\\nb: {<<: *x, n: !!float 1e6}", "x.yml")
        {'a': {'lr': 0.0003}, 'b': {'lr': 0.0003, 'n': 1000000.0}}
        >>> parse_yaml("a: !!python/object:os.system ls", "x.yml")
        Traceback (most recent call last):
        ...
        sna_rl.errors.UsageError: x.yml, line 1, a: unknown tag '!!python/object:os.system'; plain data only
    """
    reader = YAML(typ="safe", pure=True)
    try:
        _survey(reader.parse(text), where)
        data = YAML(typ="safe", pure=True).load(text)
    except UsageError:
        raise
    except MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = " ".join(str(error.problem or error.context).split())
        raise UsageError(f"{where}{line} is not valid YAML: {problem}") from None
    except Exception as error:  # the parser meets malformed text with errors of many kinds
        raise UsageError(f"{where} is not valid YAML: {shown(' '.join(str(error).split()))}") from None
    if not isinstance(data, dict):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise UsageError(f"{where} must hold a mapping (lines of `key: value`), but holds {found}")
    return plain(data, where)  # type: ignore[return-value]


@dataclass
class _Frame:
    """A collection being surveyed: its size with anchors expanded, and where in it we are."""

    is_mapping: bool
    anchor: str | None
    size: int = 1
    key: str | None = None
    keys: set[str] = field(default_factory=set)


def _survey(events: Iterator[Any], where: str) -> None:
    """Refuse what must not be built, from the parser's events alone."""
    stack = [_Frame(False, None)]
    sizes: dict[str, int] = {}
    for event in events:
        place = _Place(where, event.start_mark.line + 1, stack)
        if isinstance(event, DocumentStartEvent) and event.version not in (None, (1, 2)):
            raise place.error("declares an old version of YAML; remove the %YAML line")
        if isinstance(event, SequenceStartEvent | MappingStartEvent | ScalarEvent):
            if event.tag is not None and event.tag not in _TAGS:
                raise place.error(f"unknown tag {shown(event.tag.replace(_PREFIX, '!!'))}; plain data only")
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
        keys = ".".join(frame.key for frame in self.stack if frame.key is not None)
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


class _Representer(SafeRepresenter):
    """Scalars that YAML 1.1 and 1.2 read alike; no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, data: str) -> ScalarNode:
        is_bare = _BARE.fullmatch(data) is not None and data.lower() not in _WORDS_OF_1_1
        return self.represent_scalar(_PREFIX + "str", data, style=None if is_bare else '"')

    def number(self, data: float) -> ScalarNode:
        digits = repr(data).replace("inf", ".inf")
        mantissa, mark, exponent = digits.partition("e")
        if mark and "." not in mantissa:
            digits = f"{mantissa}.0e{exponent}"
        return self.represent_scalar(_PREFIX + "float", digits)


_Representer.add_representer(str, _Representer.text)
_Representer.add_representer(float, _Representer.number)


def dump_yaml(data: Data) -> str:
    """Plain data as YAML that YAML 1.1 readers (PyYAML, hence RL Zoo) and ours read alike.

    Args:
        data: plain data.

    Returns:
        The text, keys in the order given; reading it gives `data` back exactly.

    Example:
        >>> print(dump_yaml({"tol": 1e-10, "name": "on", "net_arch": [256, 256]}), end="")
        tol: 1.0e-10
        name: "on"
        net_arch: [256, 256]
    """
    writer = YAML(typ="safe", pure=True)
    writer.Representer = _Representer
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.default_flow_style = None
    writer.width = 1_000_000
    stream = StringIO()
    writer.dump(data, stream)
    return stream.getvalue()


def write_yaml(target: str | Path | TextIO, data: Data) -> None:
    """Write `dump_yaml(data)` to a file or an open text stream.

    Args:
        target: path, or a stream open for writing text.
        data: plain data.
    """
    text = dump_yaml(data)
    if isinstance(target, str | Path):
        Path(target).write_text(text, encoding="utf-8")
    else:
        target.write(text)
