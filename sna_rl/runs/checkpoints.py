"""Checkpoints of a run: each a folder that is whole or absent, checked by its checksums before it is used."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sna_rl.errors import SnaError
from sna_rl.runs.atomic import atomic_folder, remove_leftovers, write_json
from sna_rl.runs.files import read_json
from sna_rl.runs.ring import RingLog, digest, remove_unused
from sna_rl.runs.tree import read_tree, write_tree

STATE = "state"
CHECKSUMS = "checksums.json"


@dataclass(frozen=True)
class Checkpoint:
    """One save.

    Args:
        path: its folder, `step-<steps>`.
    """

    path: Path

    @property
    def step(self) -> int:
        """Steps done when it was saved."""
        return int(self.path.name.removeprefix("step-"))

    @property
    def rows_folder(self) -> Path:
        """Folder of the replay buffer's rows, shared by all checkpoints of a run."""
        return self.path.parent / "replay"

    def read(self) -> dict[str, Any]:
        """The saved state.

        Raises:
            SnaError: if a file is damaged or missing.
        """
        state = read_tree(self.path, STATE)
        if not isinstance(state, dict):
            raise SnaError(f"{str(self.path)!r} holds no state of a run")
        return state

    def ring(self, state: Mapping[str, Any]) -> RingLog:
        """Files of the replay buffer's rows.

        Args:
            state: what `read` gave.

        Raises:
            SnaError: if the list of files is damaged.
        """
        rows = state.get("rows", {"capacity": 1, "segments": []})
        return RingLog.from_plain(self.rows_folder, rows["capacity"], rows["segments"])

    def damage(self) -> str | None:
        """What is wrong with it, as part of a sentence; None where every checksum holds."""
        try:
            sums = read_json(self.path / CHECKSUMS)
            for name in (f"{STATE}.json", f"{STATE}.safetensors"):
                file = self.path / name
                if file.is_symlink() or digest(file) != sums[name]:
                    return f"{name} does not have its checksum"
            damaged = self.ring(self.read()).damaged()
        except (SnaError, OSError, KeyError, TypeError) as error:
            return str(error) or type(error).__name__
        return None if damaged is None else f"the replay buffer's file {damaged} is missing or altered"


class Checkpoints:
    """The checkpoints of one run: the last `keep` and the best.

    Args:
        folder: the run's `checkpoints/`; made by the first save.
        keep: how many of the newest stay, at least 1.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder = folder
        self.keep = keep
        self._used: dict[Path, set[str]] = {}
        self._best: Path | None = None

    def save(
        self, step: int, state: dict[str, Any], ring: RingLog | None = None, *, best: bool = False
    ) -> Checkpoint:
        """Write a checkpoint, then remove those that are no longer kept.

        Args:
            step: steps done: of environments, or of an optimizer.
            state: everything but the replay buffer's rows.
            ring: the replay buffer's rows, already on the disk; None where the run has none.
            best: keep this one until a better one is saved.

        Returns:
            The checkpoint.

        Raises:
            OSError: if the disk is full; the older checkpoints then stand as before.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"step-{step:09d}"
        rows = {"rows": {"capacity": ring.capacity, "segments": ring.plain()}} if ring else {}
        with atomic_folder(path) as folder:
            write_tree(folder, STATE, {**state, "best": best, **rows})
            names = (f"{STATE}.json", f"{STATE}.safetensors")
            write_json(folder / CHECKSUMS, {name: digest(folder / name) for name in names})
        self._used[path] = {segment.file for segment in ring.segments} if ring else set()
        if best:
            self._best = path
        self._prune()
        return Checkpoint(path)

    def all(self) -> list[Checkpoint]:
        """Every checkpoint on the disk, oldest first, whole or not."""
        named = [path for path in self.folder.glob("step-*") if path.name[5:].isdigit() and path.is_dir()]
        return [Checkpoint(path) for path in sorted(named)]

    def newest(self, say: Callable[[str], None]) -> Checkpoint | None:
        """Newest checkpoint whose every checksum holds.

        Args:
            say: is told, in a line, of each damaged one that is passed over.

        Returns:
            The checkpoint, None where there is no whole one.
        """
        for checkpoint in reversed(self.all()):
            damage = checkpoint.damage()
            if damage is None:
                return checkpoint
            say(f"checkpoint {checkpoint.path.name} is damaged ({damage}); the one before it is used")
        return None

    def go_back_to(self, checkpoint: Checkpoint | None) -> None:
        """Forget every checkpoint after this one, and what interrupted saves left behind.

        Args:
            checkpoint: the one that a run goes on from; None removes all.
        """
        remove_leftovers(self.folder)
        self._used, self._best = {}, None
        for found in self.all():
            if checkpoint is None or found.step > checkpoint.step:
                shutil.rmtree(found.path, ignore_errors=True)
                continue
            try:
                state = found.read()
                self._used[found.path] = {segment.file for segment in found.ring(state).segments}
            except (SnaError, KeyError, TypeError):
                shutil.rmtree(found.path, ignore_errors=True)
                continue
            if state.get("best"):
                self._best = found.path
        self._prune()

    def _prune(self) -> None:
        """Remove all but the newest `keep` and the best, and the rows that none of them needs."""
        kept = set(sorted(self._used)[-self.keep :])
        if self._best is not None:
            kept.add(self._best)
        for path in set(self._used) - kept:
            shutil.rmtree(path, ignore_errors=True)
            del self._used[path]
        remove_unused(self.folder / "replay", set().union(*self._used.values()))
