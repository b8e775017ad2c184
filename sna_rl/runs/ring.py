"""A ring of rows on disk: append-only files, so that a save costs only the rows that are new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sna_rl.errors import SnaError
from sna_rl.runs.atomic import atomic_write, remove_leftovers
from sna_rl.runs.files import check_file
from sna_rl.runs.tree import arrays_to_bytes, read_arrays

MAX_ROWS = 65_536
DIGEST_BYTES = 16


@runtime_checkable
class Rows(Protocol):
    """What a ring is made of: arrays, or tensors, whose first axis counts rows."""

    def __getitem__(self, rows: slice, /) -> Any:
        """Some of the rows."""

    def __setitem__(self, rows: slice, values: Any, /) -> None:
        """Overwrite some of the rows."""


def digest(path: Path) -> str:
    """Checksum of a file (BLAKE2b, 128 bits, hexadecimal).

    Args:
        path: the file.

    Raises:
        SnaError: if it is missing, no regular file, or larger than 8 GiB.
        OSError: if it can't be read.
    """
    check_file(path)
    checksum = blake2b(digest_size=DIGEST_BYTES)
    with open(path, "rb") as file:
        while block := file.read(2**20):
            checksum.update(block)
    return checksum.hexdigest()


@dataclass(frozen=True)
class Segment:
    """One file of consecutive rows, never changed once it is written.

    Args:
        file: its name.
        digest: its checksum.
        start: slot of its first row in the ring.
        rows: number of rows.
    """

    file: str
    digest: str
    start: int
    rows: int


class RingLog:
    """The rows of a ring of `capacity` slots as files that are only ever added.

    Args:
        folder: where the files lie; made by the first `append`.
        capacity: slots of the ring.
        segments: those that hold the ring so far, oldest first.
    """

    def __init__(self, folder: Path, capacity: int, segments: Sequence[Segment] = ()) -> None:
        self.folder = folder
        self.capacity = capacity
        self.segments = list(segments)

    @classmethod
    def from_plain(cls, folder: Path, capacity: int, plain: Sequence[Mapping[str, Any]]) -> RingLog:
        """Inverse of `plain`.

        Raises:
            SnaError: if an entry is no segment of this ring; no name may leave the folder.
        """
        if not isinstance(capacity, int) or not isinstance(plain, list):
            raise SnaError(f"a saved replay buffer has {capacity!r} slots and lists {plain!r}")
        segments = []
        for entry in plain:
            try:
                segment = Segment(**entry)
                inside = 0 <= segment.start < segment.start + segment.rows <= capacity
                named = Path(segment.file).name == segment.file and segment.file.endswith(".safetensors")
            except TypeError as error:
                raise SnaError(f"a saved replay buffer lists {entry!r}, which is no file of rows") from error
            if not (inside and named):
                raise SnaError(f"a saved replay buffer lists {entry!r}, which is no file of its rows")
            segments.append(segment)
        return cls(folder, capacity, segments)

    def plain(self) -> list[dict[str, Any]]:
        """The list of segments as JSON can hold it."""
        return [asdict(segment) for segment in self.segments]

    def append(self, step: int, arrays: Mapping[str, Rows], start: int, rows: int) -> int:
        """Write rows `start … start + rows − 1` (modulo the capacity) as new files.

        Args:
            step: environment steps so far, the first part of the files' names.
            arrays: name → rows, each of `capacity` rows.
            start: first slot.
            rows: number of slots, at most the capacity.

        Returns:
            Bytes written.

        Raises:
            OSError: if the disk is full or the folder can't be written; `segments` is then as before.

        Cost:
            The bytes of those rows, copied 65,536 rows at a time.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        written: list[Segment] = []
        n_bytes = 0
        position = start % self.capacity
        while rows > 0:
            count = min(rows, MAX_ROWS, self.capacity - position)
            path = self.folder / f"{step:09d}-{position:09d}.safetensors"
            chunk = {name: _to_array(values[position : position + count]) for name, values in arrays.items()}
            content = arrays_to_bytes(chunk)
            with atomic_write(path) as file:
                n_bytes += file.write(content)
            checksum = blake2b(content, digest_size=DIGEST_BYTES).hexdigest()
            written.append(Segment(path.name, checksum, position, count))
            rows -= count
            position = (position + count) % self.capacity
        self.segments = self._needed([*self.segments, *written])
        return n_bytes

    def load(self, arrays: Mapping[str, Rows]) -> None:
        """Write every saved row into its slot.

        Args:
            arrays: the ring's arrays.

        Raises:
            SnaError: if a file does not hold exactly these arrays.
        """
        for segment in self.segments:
            saved = read_arrays(self.folder / segment.file)
            if saved.keys() != arrays.keys() or any(len(rows) != segment.rows for rows in saved.values()):
                raise SnaError(
                    f"{str(self.folder / segment.file)!r} holds {sorted(saved)}, not {segment.rows} rows "
                    f"each of {sorted(arrays)}; the replay buffer is of another kind now"
                )
            for name, rows in saved.items():
                target = arrays[name]
                slots = slice(segment.start, segment.start + segment.rows)
                if target[slots].shape != rows.shape:
                    raise SnaError(
                        f"{name!r} was saved with rows of shape {rows.shape[1:]}, the replay buffer now has "
                        f"{tuple(target[slots].shape[1:])}"
                    )
                target[slots] = rows if isinstance(target, np.ndarray) else _like(rows, target)

    def damaged(self) -> str | None:
        """Name of the first file that is missing or altered; None where all are whole."""
        for segment in self.segments:
            path = self.folder / segment.file
            try:
                whole = not path.is_symlink() and digest(path) == segment.digest
            except (SnaError, OSError):
                whole = False
            if not whole:
                return segment.file
        return None

    def _needed(self, segments: Sequence[Segment]) -> list[Segment]:
        """Those segments that newer ones don't wholly overwrite."""
        covered = np.zeros(self.capacity, dtype=bool)
        needed = []
        for segment in reversed(segments):
            slots = covered[segment.start : segment.start + segment.rows]
            if not slots.all():
                needed.append(segment)
                slots[:] = True
        return needed[::-1]


def remove_unused(folder: Path, used: set[str]) -> None:
    """Delete the files of rows that no checkpoint names any more.

    Args:
        folder: where the files lie; may be missing.
        used: names to keep.
    """
    if folder.is_dir():
        remove_leftovers(folder)
        for path in folder.glob("*.safetensors"):
            if path.name not in used:
                path.unlink()


def _to_array(rows: Any) -> NDArray[Any]:
    """Rows of an array, or of a tensor on any device, as an array."""
    return rows if isinstance(rows, np.ndarray) else rows.detach().cpu().numpy()


def _like(rows: NDArray[Any], target: Any) -> Any:
    """Rows as a tensor on the device of `target`."""
    return target.new_tensor(rows)
