"""The reader takes plain YAML and nothing else; what the writer writes, YAML 1.1 and 1.2 read alike."""

from __future__ import annotations

import importlib
import math
import os
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sna_rl.config import dump_yaml, parse_yaml, read_yaml, write_yaml
from sna_rl.errors import UsageError

PYYAML: Any = importlib.import_module("yaml")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        *(
            "yes",
            "on",
            "No",
            "y",
            "null",
            "~",
            "010",
            "1e6",
            "3e-4",
            "1:30",
            "0x1f",
            "1_000",
            ".inf",
            "=",
            "<<",
        ),
        *(
            "2001-01-01",
            "- a",
            "a: b",
            "#",
            "",
            " ",
            "lin_3e-4",
            "nn.ReLU",
            "true",
            "\u2028",
            "\x85",
            "\ufeff",
        ),
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.sampled_from([1e-10, 1e16, 5e-324, -0.0, math.inf, -math.inf])
    | TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_what_is_written_reads_the_same_in_yaml_1_2_and_1_1(data: dict[str, object]) -> None:
    text = dump_yaml(data)
    assert repr(parse_yaml(text, "file")) == repr(data)
    assert repr(PYYAML.safe_load(text)) == repr(data)


def test_writing_to_a_path_and_to_a_stream_gives_the_same(tmp_path: Path) -> None:
    shared = [256, 256]
    data: dict[str, object] = {"pi": shared, "qf": shared, "tol": 1e-10, "on": "010"}
    stream = StringIO()
    write_yaml(stream, data)
    write_yaml(tmp_path / "a.yml", data)
    assert stream.getvalue() == 'pi: [256, 256]\nqf: [256, 256]\ntol: 1.0e-10\n"on": "010"\n'
    assert (tmp_path / "a.yml").read_text() == stream.getvalue()
    assert read_yaml(tmp_path / "a.yml") == data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3e-4", 3e-4),
        ("1e6", 1e6),
        ("!!float 3e-4", 3e-4),
        ("!!float 5", 5.0),
        ("!!str 5", "5"),
        ("yes", "yes"),
        ("on", "on"),
        ("True", True),
        ("~", None),
        ("010", 10),
        ("1:30", "1:30"),
        (".inf", math.inf),
        ("lin_3e-4", "lin_3e-4"),
        ("[1, episode]", [1, "episode"]),
        ('"dict(\n  a=1)"', "dict( a=1)"),
    ],
)
def test_scalars(text: str, value: object) -> None:
    data = parse_yaml(f"k: {text}", "file")
    assert data == {"k": value}
    assert type(data["k"]) is type(value)


def test_anchors_and_merge_keys_give_separate_copies() -> None:
    data = parse_yaml("a: &a {x: [1], y: 2}\nb: *a\nc: {<<: *a, y: 3}\nd: {<<: [*a, {z: 4}]}", "file")
    assert data["b"] == {"x": [1], "y": 2}
    assert data["c"] == {"x": [1], "y": 3}
    assert data["d"] == {"x": [1], "y": 2, "z": 4}
    first: Any = data["a"]
    first["x"].append(9)
    assert data["b"] == {"x": [1], "y": 2}


def laughs(level: str) -> str:
    """Nine levels of anchors, each with nine of the one before: 9^9 values."""
    lines = [f"{c}: &{c} {level.format(','.join([f'*{chr(ord(c) - 1)}'] * 9))}" for c in "bcdefghi"]
    return "\n".join(["a: &a {x: 1}", *lines])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a: !!python/object/apply:os.system ['x']",
            r"f\.yml, line 1, a: unknown tag '!!python/object/apply",
        ),
        ("a: {b: !!python/name:os.system }", r"f\.yml, line 1, a\.b: unknown tag"),
        ("%TAG ! tag:yaml.org,2002:python/\n---\na: !object:os.system x", "unknown tag '!!python/object:os"),
        ("a: !evil x", "unknown tag '!evil'"),
        ("a: !!binary aGk=", "unknown tag '!!binary'"),
        ("a: !!set {b}", "unknown tag '!!set'"),
        ("a: &a [1, *a]", "line 1, a: anchor 'a' refers to itself"),
        ("a: &a\n  b: {c: *a}", r"line 2, a\.b\.c: anchor 'a' refers to itself"),
        ("b: &a [1]\na: &a [*a]", "line 2, a: anchor 'a' refers to itself"),
        ("a: *b", "anchor 'b' is not defined"),
        (laughs("[{}]"), "line 5, e: holds more than 10000 values once its anchors are expanded"),
        (laughs("{{<<: [{}]}}"), r"line 5, e\.<<: holds more than 10000 values"),
        ("a: [" + "1," * 10_001 + "]", "line 1, a: holds more than 10000 values"),
        ("a: " + "[" * 5_000, "line 1, a: is nested deeper than 50 levels"),
        ("a: 1\nb: {c: 1, c: 2}", "line 2, b: key 'c' stands twice"),
        ("? [1]\n: 2", "a key must be text, not a list"),
        ("a: &x b\n*x : 1", "a key must be text, not an alias"),
        ("1: a", "key 1 must be text; put it in quotes"),
        ("a: {true: 1}", "a: key True must be text; put it in quotes"),
        ("a: 2001-01-01", "a must be plain data .* a date must be in quotes"),
        ("a: .nan", "a must be a number, not nan"),
        ("a: 1\n---\nb: 1", "line 2: a second document starts"),
        ("%YAML 1.1\n---\na: yes", "declares an old version of YAML; remove the %YAML line"),
        ("- 1", "must hold a mapping .* but holds a list"),
        ("", "but holds nothing"),
        ("a: b: c", "line 1 is not valid YAML: mapping values are not allowed here"),
        ("a:\n\tb: 1", "line 2 is not valid YAML: found character '.t'"),
        ("a: \0", "is not valid YAML"),
        ("a: !!int 1e6", "has a value that its tag does not fit"),
        ("a: " + "9" * 5_000, "has a value that its tag does not fit"),
        (f"a: {2**64}", "a must be an int below 2.64 in size"),
        ("a: =", "is not valid YAML"),
    ],
)
def test_each_bad_text_gets_one_sentence(text: str, message: str) -> None:
    start = time.process_time()
    with pytest.raises(UsageError, match=message) as caught:
        parse_yaml(text, "f.yml")
    assert str(caught.value).startswith("f.yml")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert time.process_time() - start < 5


def test_each_unreadable_file_gets_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "latin.yml").write_bytes(b"a: caf\xe9")
    (tmp_path / "huge.yml").write_bytes(b"#" * 300_000)
    os.mkfifo(tmp_path / "pipe.yml")
    for name, message in [
        ("latin.yml", "is not UTF-8 text .byte 6.; save it as UTF-8"),
        ("huge.yml", "is larger than 256 KiB"),
        ("pipe.yml", "is not a file"),
        (".", "is not a file"),
        ("none.yml", "can't read .*none.yml: No such file"),
        ("a\0b", "can't read"),
        ("x" * 5_000, "can't read"),
    ]:
        with pytest.raises(UsageError, match=message) as caught:
            read_yaml(tmp_path / name)
        assert "\n" not in str(caught.value)
    (tmp_path / "mark.yml").write_bytes(b"\xef\xbb\xbfa: 1")
    assert read_yaml(tmp_path / "mark.yml") == {"a": 1}


@given(st.text(st.sampled_from("ab:-[]{}&*!|>?%@,#'\"\n\t <~1.e\\"), max_size=60) | st.text(max_size=60))
def test_any_text_gives_a_mapping_or_one_sentence(text: str) -> None:
    try:
        data = parse_yaml(text, "f.yml")
    except UsageError as error:
        assert str(error).startswith("f.yml")  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert isinstance(data, dict)
