"""Where a tuning study is kept: a journal file, or any database that Optuna knows, for several machines."""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import optuna
from optuna.storages import BaseStorage, GrpcStorageProxy, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalFileSymlinkLock
from optuna.storages.journal._file import get_lock_file
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from sna_rl.errors import MissingExtraError, SnaError, UsageError
from sna_rl.runs.files import check_file
from sna_rl.runs.lock import locked

JOURNAL: Final = "journal.log"
DRIVERS: Final = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
LOCKS: Final = {
    "postgresql": ("SELECT pg_advisory_lock(:key)", "SELECT pg_advisory_unlock(:key)"),
    "mysql": ("SELECT GET_LOCK(:key, -1)", "SELECT RELEASE_LOCK(:key)"),
}
TRIES: Final = 5
MAX_JOURNAL_BYTES: Final = 2**30


@dataclass(frozen=True)
class Storage:
    """An open storage.

    Args:
        backend: Optuna's storage.
        lock: file that processes lock among each other; None where the database does it.
    """

    backend: BaseStorage
    lock: Path | None

    @contextmanager
    def exclusive(self, name: str) -> Iterator[bool]:
        """Keep every other process that tunes the same study out while the block runs.

        Args:
            name: name of the study.

        Yields:
            Whether the storage can do it; a gRPC proxy can't.
        """
        if self.lock is not None:
            with locked(self.lock, name, wait=True):
                yield True
        elif isinstance(self.backend, RDBStorage) and self.backend.engine.dialect.name in LOCKS:
            take, release = LOCKS[self.backend.engine.dialect.name]
            key = {"key": zlib.crc32(f"sna-rl {name}".encode())}
            with self.backend.engine.connect() as connection:
                connection.execute(text(take), key)
                try:
                    yield True
                finally:
                    connection.execute(text(release), key)
        else:
            yield False


def open_storage(given: str | None, folder: Path) -> Storage:
    """Open a storage, new or existing.

    Args:
        given: None for a journal file in `folder`; a path that ends in `.log`; a database's URL
            (`postgresql://…`, `mysql://…`, `sqlite:///…`); or `grpc://host:port` of an Optuna proxy.
        folder: folder of the study.

    Returns:
        The storage.

    Raises:
        UsageError: if it is none of these.
        MissingExtraError: if the database's driver is not installed.
        SnaError: if it can't be reached.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if given is None or given.endswith(".log"):
        return _journal(folder / JOURNAL if given is None else Path(given))
    if "://" not in given:
        raise UsageError(
            f"--storage takes a path ending in .log or a URL such as postgresql://…, not {given!r}"
        )
    if given.startswith("grpc://"):
        host, _, port = given.removeprefix("grpc://").partition(":")
        if not port.isdigit():
            raise UsageError(f"--storage needs host and port, as in grpc://localhost:13000, not {given!r}")
        return Storage(GrpcStorageProxy(host=host, port=int(port)), None)
    return _database(given)


def _journal(path: Path) -> Storage:
    """Journal file with a lock that works on its system: links need a privilege on Windows."""
    if path.exists():
        check_file(path, MAX_JOURNAL_BYTES)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = JournalFileOpenLock if sys.platform == "win32" else JournalFileSymlinkLock
        if path.exists() and path.stat().st_size:
            with get_lock_file(lock(str(path))):
                _check_last_line(path)
        backend = JournalStorage(JournalFileBackend(str(path), lock_obj=lock(str(path))))
        backend.get_all_studies()  # reads the file, so that damage shows here
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SnaError(f"storage {str(path)!r} can't be opened: {error}") from error
    return Storage(backend, path.with_suffix(".lock"))


def _check_last_line(path: Path) -> None:
    """Refuse half a line at the end: Optuna would write its next one behind it and lose both.

    Raises:
        ValueError: if the file doesn't end with a whole line.
    """
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            raise ValueError("it ends in half a line; if it is a journal of Optuna, cut that line off")


def _database(given: str) -> Storage:
    """A database; tables that two processes make at the same moment are tried again."""
    try:
        url = make_url(given)
    except ArgumentError as error:
        raise UsageError(
            f"--storage {given!r} is not a database's URL; an example is sqlite:///study.db"
        ) from error
    url = url.set(drivername=DRIVERS.get(url.drivername, url.drivername))
    options = {"pool_pre_ping": True}
    for n_left in reversed(range(TRIES)):
        try:
            backend = RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=options)
            break
        except ImportError as error:
            raise MissingExtraError(
                f"the driver of {url.drivername} is not installed; PostgreSQL's comes with the extra "
                f"'postgres': pip install 'sna-rl[postgres]'"
            ) from error
        except SQLAlchemyError as error:
            if not n_left:
                reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
                raise SnaError(f"storage {url.render_as_string()!r} can't be reached: {reason}") from error
            time.sleep(0.2)
    is_sqlite = url.get_backend_name() == "sqlite"
    return Storage(backend, Path(f"{url.database}.lock") if is_sqlite else None)
