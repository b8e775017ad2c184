"""One process at a time: a file that names its holder and outlives nobody."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sna_rl.errors import UsageError


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file while the block runs; one whose holder has died is taken over.

    Args:
        path: the lock file, in a folder that exists.
        what: what the lock guards, for the message.

    Raises:
        UsageError: if a living process holds it, or one on another machine.
    """
    mine = json.dumps({"host": socket.gethostname(), "pid": os.getpid()})
    for _ in range(2):
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(mine)
            break
        except FileExistsError:
            _remove_if_dead(path, what)
    else:
        raise UsageError(f"{what} was taken by another process just now; wait for it")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def is_alive(host: str, pid: int) -> bool:
    """Whether a process lives; on another machine it is taken to."""
    if host != socket.gethostname():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _remove_if_dead(path: Path, what: str) -> None:
    """Remove a lock file whose holder has died or never finished writing it."""
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        host, pid = str(holder["host"]), int(holder["pid"])
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError):
        path.unlink(missing_ok=True)
        return
    if is_alive(host, pid):
        raise UsageError(
            f"{what} is in use by process {pid} on {host}; wait for it, or remove {str(path)!r} if it is gone"
        )
    path.unlink(missing_ok=True)
