"""Units of work, each in a process of its own: on this machine, or unchanged on a Ray cluster.

A unit is the dotted name of a function with JSON arguments. The process that runs it has one thread for
mathematics, writes what it prints to a log, and ends when the one that started it does, however that ended.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from sna_rl.errors import SnaError, UsageError


@dataclass(frozen=True)
class Unit:
    """One call, to be made in another process.

    Args:
        name: shown to the user.
        call: `module:function`; the function takes `arguments` as keywords and returns what JSON can hold.
        arguments: what JSON can hold.
        log: file for the output; its folder exists.
        timeout: seconds after which the process is ended; None waits for ever.
    """

    name: str
    call: str
    arguments: Mapping[str, Any]
    log: Path
    timeout: float | None = None


@dataclass(frozen=True)
class Outcome:
    """How a unit ended.

    Args:
        unit: what was run.
        value: what the function returned, None where it failed.
        reason: why it failed, None where it did not.
        seconds: wall-clock time.
        died: whether its process ended without an answer, so that another try may succeed.
    """

    unit: Unit
    value: Any
    reason: str | None
    seconds: float
    died: bool = False


@runtime_checkable
class Pool(Protocol):
    """Where units run."""

    slots: int

    def run(self, units: Iterator[Unit]) -> Iterator[Outcome]:
        """Run units, the next one taken only when a slot is free; outcomes come as they end."""

    def close(self) -> None:
        """End what still runs."""


class LocalPool:
    """Processes on this machine.

    Args:
        slots: how many run at once.

    Raises:
        UsageError: if `slots` is not at least 1.
    """

    def __init__(self, slots: int) -> None:
        if slots < 1:
            raise UsageError(f"number of jobs must be at least 1, not {slots}")
        self.slots = slots
        self._running: set[subprocess.Popen[bytes]] = set()

    def run(self, units: Iterator[Unit]) -> Iterator[Outcome]:
        """Run units in at most `slots` processes at once.

        Args:
            units: taken one by one, the next only when a slot is free.

        Yields:
            Outcomes, in the order in which units end.
        """
        with ThreadPoolExecutor(self.slots) as threads:
            futures: set[Future[Outcome]] = set()
            exhausted = False
            try:
                while futures or not exhausted:
                    while not exhausted and len(futures) < self.slots:
                        unit = next(units, None)
                        if unit is None:
                            exhausted = True
                        else:
                            futures.add(threads.submit(run_unit, unit, self._running))
                    done, futures = wait(futures, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            except BaseException:
                while futures:
                    self.close()
                    _, futures = wait(futures, timeout=0.1)
                raise

    def close(self) -> None:
        """End the processes that still run."""
        for process in list(self._running):
            _kill(process)


def run_unit(unit: Unit, running: set[subprocess.Popen[bytes]] | None = None) -> Outcome:
    """Run one unit in a new process and wait for it.

    Args:
        unit: what to run.
        running: set that holds the process while it runs.

    Returns:
        Its outcome; a failure is told, not raised.
    """
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="sna-rl-") as folder, unit.log.open("ab") as log:
            answer = Path(folder, "answer.json")
            request = json.dumps({"call": unit.call, "arguments": unit.arguments, "answer": str(answer)})
            process = subprocess.Popen(
                [sys.executable, "-m", "sna_rl.training.studies.workers"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
            with _remembered(process, running), process:
                assert process.stdin is not None
                try:
                    process.stdin.write(request.encode() + b"\n")
                    process.stdin.flush()  # kept open: its end tells the process that this one has ended
                    process.wait(unit.timeout)
                except subprocess.TimeoutExpired:
                    _kill(process)
                    return Outcome(
                        unit, None, f"took longer than {unit.timeout:g} s", time.monotonic() - began
                    )
                except BrokenPipeError:
                    process.wait()
            seconds = time.monotonic() - began
            if answer.is_file():
                told = json.loads(answer.read_text(encoding="utf-8"))
                return Outcome(unit, told.get("value"), told.get("reason"), seconds)
            return Outcome(unit, None, _ending(process.returncode), seconds, died=True)
    except OSError as error:
        return Outcome(unit, None, f"could not be started: {error}", time.monotonic() - began)


@contextlib.contextmanager
def _remembered(
    process: subprocess.Popen[bytes], running: set[subprocess.Popen[bytes]] | None
) -> Iterator[None]:
    """Keep a process in a set while it runs; end it if this block is left early."""
    if running is not None:
        running.add(process)
    try:
        yield
    except BaseException:
        _kill(process)
        raise
    finally:
        if running is not None:
            running.discard(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started."""
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _ending(code: int) -> str:
    """Why a process ended without an answer."""
    if code < 0:
        return f"process was ended by {signal.Signals(-code).name}"
    return f"process ended with code {code} and no answer"


def main() -> None:
    """Serve one request, read from standard input, in a process started by `run_unit`."""
    request = json.loads(_read_line())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    module, _, function = request["call"].partition(":")
    try:
        value = getattr(importlib.import_module(module), function)(**request["arguments"])
        answer = json.dumps({"value": value})
    except Exception as error:
        if not isinstance(error, SnaError):
            traceback.print_exc()
        reason = str(error) if isinstance(error, SnaError) else f"{type(error).__name__}: {error}"
        answer = json.dumps({"reason": reason})
    path = Path(request["answer"])
    path.with_suffix(".part").write_text(answer, encoding="utf-8")
    os.replace(path.with_suffix(".part"), path)


def _read_line() -> bytes:
    """First line of standard input, unbuffered: a thread that waits in Python's buffer would bar the exit."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 65_536)
        if not part:
            sys.exit(3)
        line += part
    return line


def _end_with_parent() -> None:
    """Wait for the end of standard input, which only the parent's death brings about, and leave at once."""
    while os.read(0, 1):
        continue
    if hasattr(os, "killpg") and os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(3)


if __name__ == "__main__":
    main()
