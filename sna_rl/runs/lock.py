"""One process at a time: a lock of the operating system on a file, which ends with its holder."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sna_rl.errors import UsageError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK = ".lock"
"""File in a run folder while a process trains in it."""


@contextmanager
def locked(path: Path, what: str, wait: bool = False) -> Iterator[None]:
    """Hold a lock while the block runs.

    Args:
        path: the lock file, in a folder that exists; it stays, only the lock on it comes and goes.
        what: what the lock guards, for the message.
        wait: wait for the other holder instead of refusing.

    Raises:
        UsageError: if another process holds it and `wait` is False.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        while not _taken(descriptor):
            if not wait:
                holder = os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"
                raise UsageError(f"{what} is in use by {holder}; wait for it to end, or end it")
            time.sleep(0.02)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    """Try to take the lock; False where another process holds it."""
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, 1 << 20, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
