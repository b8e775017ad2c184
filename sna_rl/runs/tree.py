"""Nested states on disk without pickle: JSON for the structure, safetensors for the arrays."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from sna_rl.errors import SnaError
from sna_rl.runs.files import DAMAGE, check_file, read_json

ARRAY = "$array"
TUPLE = "$tuple"
MAX_DEPTH = 32


def arrays_to_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Content of a safetensors file.

    Args:
        arrays: name → array of numbers or booleans.
    """
    return save({name: np.asarray(array, order="C") for name, array in arrays.items()})


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read a safetensors file; runs nothing that it holds.

    Args:
        path: a safetensors file.

    Returns:
        Name → array.

    Raises:
        SnaError: if it is missing, truncated, or no safetensors file.
    """
    check_file(path)
    try:
        return load_file(path)
    except (*DAMAGE, SafetensorError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SnaError(f"{str(path)!r} can't be read as safetensors: {reason}") from error


def write_tree(folder: Path, name: str, tree: Any) -> None:
    """Write a nested state as `<name>.json` and `<name>.safetensors`.

    Args:
        folder: where to.
        name: stem of the two files.
        tree: dicts with text keys, lists, tuples, arrays, numbers, texts, None; nested at will.

    Raises:
        TypeError: if it holds anything else.
        OSError: if it can't be written.
    """
    arrays: dict[str, NDArray[Any]] = {}
    structure = _split(tree, name, arrays)
    (folder / f"{name}.json").write_text(json.dumps(structure), encoding="utf-8")
    (folder / f"{name}.safetensors").write_bytes(arrays_to_bytes(arrays))


def read_tree(folder: Path, name: str) -> Any:
    """Read what `write_tree` wrote.

    Args:
        folder: where the two files lie.
        name: their stem.

    Returns:
        The nested state, arrays as NumPy arrays.

    Raises:
        SnaError: if a file is missing, damaged, or not what `write_tree` writes.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_tree(Path(folder), "state", {"a": (1, 0.5), "b": [np.arange(3)]})
        ...     read_tree(Path(folder), "state")
        {'a': (1, 0.5), 'b': [array([0, 1, 2])]}
    """
    structure = read_json(folder / f"{name}.json")
    arrays = read_arrays(folder / f"{name}.safetensors")
    try:
        return _join(structure, arrays, MAX_DEPTH)
    except (KeyError, TypeError) as error:
        raise SnaError(f"{str(folder)!r} does not hold a saved state: {error}") from error


def _split(tree: Any, path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Structure of `tree` for JSON; its arrays go into `arrays` under their path."""
    if tree is None or isinstance(tree, bool | int | str):
        return tree
    if isinstance(tree, np.generic):
        return _split(tree.item(), path, arrays)
    if isinstance(tree, float):
        return tree if math.isfinite(tree) else {"$float": repr(tree)}
    if isinstance(tree, np.ndarray):
        if tree.dtype.kind not in "biuf":
            raise TypeError(
                f"{path} is an array of {tree.dtype}, which can't be saved; numbers and booleans can"
            )
        arrays[path] = tree
        return {ARRAY: path}
    if isinstance(tree, Mapping):
        if not all(isinstance(key, str) and not key.startswith("$") for key in tree):
            raise TypeError(f"{path} has keys that are no texts, or begin with '$'")
        return {key: _split(value, f"{path}/{key}", arrays) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        items = [_split(value, f"{path}/{index}", arrays) for index, value in enumerate(tree)]
        return {TUPLE: items} if isinstance(tree, tuple) else items
    raise TypeError(f"{path} is a {type(tree).__name__}, which can't be saved")


def _join(structure: Any, arrays: Mapping[str, NDArray[Any]], depth: int) -> Any:
    """Inverse of `_split`."""
    if depth == 0:
        raise TypeError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(structure, list):
        return [_join(value, arrays, depth - 1) for value in structure]
    if not isinstance(structure, dict):
        return structure
    if ARRAY in structure:
        return arrays[structure[ARRAY]]
    if "$float" in structure:
        return float(structure["$float"])
    if TUPLE in structure:
        return tuple(_join(value, arrays, depth - 1) for value in structure[TUPLE])
    return {key: _join(value, arrays, depth - 1) for key, value in structure.items()}
