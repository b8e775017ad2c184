from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sna_rl.errors import SnaError
from sna_rl.runs.files import read_json
from sna_rl.runs.tree import read_arrays, read_tree, write_tree

KEYS = st.text(max_size=5).filter(lambda key: not key.startswith("$"))
DTYPES = st.sampled_from([np.float32, np.float64, np.uint8, np.uint32, np.int64, np.bool_])
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | ARRAYS
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=12,
)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return bool(
            left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
        )
    if isinstance(left, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)


@given(tree=TREES)
def test_what_is_read_is_what_was_written(tree: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tree")
    write_tree(folder, "state", tree)
    assert same(tree, read_tree(folder, "state"))


def test_generators_come_back(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    generator.normal(size=7)
    state = {"numpy": generator.bit_generator.state, "python": random.getstate()}
    write_tree(tmp_path, "state", state)
    read = read_tree(tmp_path, "state")
    other = np.random.default_rng()
    other.bit_generator.state = read["numpy"]
    assert other.normal() == generator.normal()
    assert read["python"] == random.getstate()


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": {1: 2}}, "state/a has keys that are no texts"),
        ({"$array": 1}, "begin with"),
        ([object()], "state/0 is a object"),
        ({"a": np.array([object()])}, "state/a is an array of object"),
    ],
)
def test_what_needs_pickle_is_refused(tree: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=message):
        write_tree(tmp_path, "state", tree)


@pytest.mark.parametrize("content", [b"", b"\x80\x04.", b"\xff" * 64, (2**62).to_bytes(8, "little") + b"{}"])
def test_a_damaged_file_of_arrays_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(SnaError, match="can't be read as safetensors"):
        read_arrays(path)


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, "\x00"])
def test_a_damaged_json_is_one_sentence(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(SnaError, match="can't be read as JSON"):
        read_json(path)


def test_a_huge_json_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "a.json", "wb") as file:
        file.truncate(65 * 2**20)
    with pytest.raises(SnaError, match="larger than 64 MiB"):
        read_json(tmp_path / "a.json")


DEEP: Any = 0
for _ in range(40):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "structure", [{"$array": "nowhere"}, {"$array": [1]}, {"$tuple": 3}, {"$float": {}}, DEEP]
)
def test_a_structure_that_was_not_written_here_is_one_sentence(structure: Any, tmp_path: Path) -> None:
    write_tree(tmp_path, "state", {})
    (tmp_path / "state.json").write_text(json.dumps(structure))
    with pytest.raises(SnaError, match="does not hold a saved state"):
        read_tree(tmp_path, "state")
