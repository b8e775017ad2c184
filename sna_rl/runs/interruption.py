"""Ctrl-C and SIGTERM end a run between two rollouts, so that what is saved is whole."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

from sna_rl.errors import SnaError


class Interrupted(SnaError):
    """A run that a signal ended early; the exit code is the shell's, 128 + the signal's number.

    Args:
        message: what was saved, and how to go on.
        received: the signal.
    """

    def __init__(self, message: str, received: signal.Signals) -> None:
        super().__init__(message)
        self.exit_code = 128 + received


class StopOnSignal:
    """Remembers that SIGINT or SIGTERM came, for the run to end where it can; a second interrupts at once.

    Use it as a context manager around `learn`; the former handlers come back at its end. Outside the main
    thread, where Python can't handle signals, it does nothing.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._former: dict[signal.Signals, object] = {}

    def __enter__(self) -> StopOnSignal:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._former[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        """Remember the signal; the next one takes its usual way."""
        self.received = signal.Signals(number)
        self._restore()

    def _restore(self) -> None:
        """Give the signals back to who handled them before."""
        for number, handler in self._former.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._former = {}
