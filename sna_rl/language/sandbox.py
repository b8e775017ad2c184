"""Runs a program that nobody has read: a process without network, limited in time and memory."""

from __future__ import annotations

import json
import os
import platform
import secrets
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from sna_rl.errors import SnaError, UsageError

INSIDE = Path(__file__).with_name("sandboxed.py")
WALL_FACTOR, WALL_SPARE = 10.0, 5.0  # real seconds are limited too, generously: the machine may be busy
KINDS = ("passed", "failed", "exited", "timeout", "memory")


class Verdict(NamedTuple):
    """What became of a program.

    Args:
        kind: passed (ran to its end), failed (an exception), exited (ended itself or crashed), timeout or
            memory.
        detail: the exception's first words, or the exit code.
    """

    kind: str
    detail: str


def check_platform() -> None:
    """Refuse where there is no such sandbox.

    Raises:
        UsageError: elsewhere than on Linux on an x86-64 processor.
    """
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Linux", "x86_64"):
        raise UsageError(
            f"programs are run only on Linux x86-64, whose kernel can shut them in, not on {system} {machine}"
        )


def run_sandboxed(program: str, *, seconds: float = 5.0, memory: int = 512 * 2**20) -> Verdict:
    """Run Python source in a process that can compute, allocate, read files and end, and nothing else.

    Args:
        program: the source; it sees the standard library alone.
        seconds: of processor time; ten times as much real time and five seconds besides.
        memory: bytes of address space, at least about 64 MiB for Python itself.

    Returns:
        The verdict; what the program prints is lost.

    Raises:
        UsageError: if a limit is not positive, or the system has no such sandbox.
        SnaError: if the kernel refuses the filter; nothing is run then.

    Cost:
        A start of Python.

    Example:
        >>> run_sandboxed("assert 1 + 1 == 2").kind, run_sandboxed("assert 1 + 1 == 3").kind
        ('passed', 'failed')
    """
    check_platform()
    if not (seconds > 0 and memory > 0):
        raise UsageError(f"seconds and memory must be over 0, not {seconds!r} and {memory!r}")
    token = secrets.token_hex(16)  # a program that ends itself, or prints, has not passed
    request = {"program": program, "seconds": seconds, "memory": memory, "token": token}
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(INSIDE)],
            stdin=subprocess.PIPE,
            stdout=answer,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={},
            start_new_session=True,
        )
        try:
            process.communicate(json.dumps(request).encode(), WALL_FACTOR * seconds + WALL_SPARE)
        except subprocess.TimeoutExpired:
            return Verdict("timeout", "real time")
        finally:
            _end(process)
        answer.seek(0)
        return _verdict(answer.read(), token, process.returncode)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is still running."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _verdict(answer: bytes, token: str, code: int) -> Verdict:
    """Read the answer; without a true one the program ended itself."""
    try:
        said, kind, detail = json.loads(answer)
    except ValueError:
        said, kind, detail = "", "", ""
    if said == token and kind == "unprotected":
        raise SnaError("this kernel refuses the filter that shuts a program in; nothing was run")
    if said == token:
        return Verdict(kind, detail)
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return Verdict("timeout", "processor time")
    return Verdict("exited", f"code {code}")
