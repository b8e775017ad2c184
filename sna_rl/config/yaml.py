"""YAML 1.2 in, safely: nothing is evaluated, everything is bounded. YAML out that 1.1 readers read alike."""

from __future__ import annotations

import re
import stat
from io import StringIO, TextIOBase
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from sna_rl.config.plain import MAX_PATH, Data, label, located, plain, shown
from sna_rl.config.survey import TAG_PREFIX, survey
from sna_rl.errors import UsageError

MAX_BYTES: Final = 262_144
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
    name = label(path, MAX_PATH)
    content = _read_bytes(Path(path), name)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    return parse_yaml(text, name)


def _read_bytes(path: Path, name: str) -> bytes:
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
        content = path.read_bytes() if is_file and path.stat().st_size <= MAX_BYTES else None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"can't read {name}: {reason}") from None
    if not is_file:
        raise UsageError(f"{name} is not a file; give a YAML file")
    if content is None:
        raise UsageError(f"{name} is larger than {MAX_BYTES // 1024} KiB; a configuration is a few lines")
    return content


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
    try:
        survey(YAML(typ="safe", pure=True).parse(text), where)
        data = YAML(typ="safe", pure=True).load(text)
    except UsageError:
        raise
    except MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = " ".join(str(error.problem or error.context).split())
        raise UsageError(f"{where}{line} is not valid YAML: {problem}") from None
    except (KeyError, ValueError) as error:
        raise UsageError(f"{where} has a value that its tag does not fit: {shown(str(error))}") from None
    except Exception as error:  # the parser meets malformed text with errors of many kinds
        raise UsageError(f"{where} is not valid YAML: {shown(' '.join(str(error).split()))}") from None
    if not isinstance(data, dict):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise UsageError(f"{where} must hold a mapping (lines of `key: value`), but holds {found}")
    with located(where):
        return plain(data)  # type: ignore[return-value]


class _Representer(SafeRepresenter):
    """Scalars that YAML 1.1 and 1.2 read alike; no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, data: str) -> ScalarNode:
        is_bare = _BARE.fullmatch(data) is not None and data.lower() not in _WORDS_OF_1_1
        return self.represent_scalar(TAG_PREFIX + "str", data, style=None if is_bare else '"')

    def number(self, data: float) -> ScalarNode:
        digits = repr(data).replace("inf", ".inf")
        mantissa, mark, exponent = digits.partition("e")
        if mark and "." not in mantissa:
            digits = f"{mantissa}.0e{exponent}"
        return self.represent_scalar(TAG_PREFIX + "float", digits)


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


def write_yaml(target: str | Path | TextIOBase, data: Data) -> None:
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
