"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress


class Progress:
    """Steps done, steps per second, time left, last and best return, or other numbers.

    Args:
        total: steps at the end.
        start: steps done before this process, left out of the speed.
        shown: False shows nothing.
        interval: seconds between two plain lines where the output is no terminal.
        console: where to write; the default is stderr.

    Example:
        >>> import io
        >>> console = Console(file=io.StringIO(), width=120)
        >>> with Progress(100, interval=0.0, console=console) as progress:
        ...     progress.update(50, last_return=-200.0)
        >>> console.file.getvalue().splitlines()[0].startswith("50/100 steps (50 %)")
        True
    """

    def __init__(
        self,
        total: int,
        *,
        start: int = 0,
        shown: bool = True,
        interval: float = 30.0,
        console: Console | None = None,
    ) -> None:
        self.total = total
        self.start = start
        self.done = start
        self.last_return: float | None = None
        self.best_return: float | None = None
        self.note = ""
        self._shown = shown
        self._interval = interval
        self._console = console or Console(stderr=True)
        self._began = self._printed = time.monotonic()
        self._printed_done: int | None = None
        self._bar: RichProgress | None = None

    def __enter__(self) -> Progress:
        if self._shown and self._console.is_terminal:
            self._bar = RichProgress(
                BarColumn(bar_width=None),
                TextColumn("{task.description}"),
                TimeRemainingColumn(compact=True, elapsed_when_finished=True),
                console=self._console,
                expand=True,
            )
            self._task = self._bar.add_task(self._text(), total=self.total, completed=self.start)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, description=self._text())
            self._bar.stop()
        elif self._shown and self._printed_done != self.done:
            self._print_line()

    def update(
        self,
        done: int,
        last_return: float | None = None,
        best_return: float | None = None,
        note: str | None = None,
    ) -> None:
        """Tell how far the work is.

        Args:
            done: steps done in all, those before `start` included.
            last_return: return of the last evaluation or episode; None keeps what was told before.
            best_return: best return so far; None keeps the larger of what was told before.
            note: other numbers, shown as they are; None keeps what was told before.
        """
        self.done = done
        if last_return is not None:
            self.last_return = last_return
            if best_return is None:
                best_return = last_return if self.best_return is None else max(self.best_return, last_return)
        if best_return is not None:
            self.best_return = best_return
        if note is not None:
            self.note = note
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=self._text())
        elif self._shown and time.monotonic() - self._printed >= self._interval:
            self._print_line()

    def say(self, text: str) -> None:
        """Print a line above the bar, or between the plain lines; a hidden progress prints it too.

        Args:
            text: one line, printed as it is.
        """
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @property
    def steps_per_second(self) -> float:
        """Mean speed of this process since it began."""
        return (self.done - self.start) / max(time.monotonic() - self._began, 1e-9)

    def _text(self) -> str:
        """Numbers of the bar or line."""
        parts = [f"{self.done:,}/{self.total:,} steps", f"{self.steps_per_second:,.0f}/s"]
        if self.last_return is not None:
            parts.append(f"last {self.last_return:,.1f}")
        if self.best_return is not None:
            parts.append(f"best {self.best_return:,.1f}")
        if self.note:
            parts.append(self.note)
        return "  ".join(parts)

    def _print_line(self) -> None:
        """Plain line for logs: share done, speed, time left, returns."""
        self._printed, self._printed_done = time.monotonic(), self.done
        steps, *rest = self._text().split("  ")
        speed = self.steps_per_second
        left = f"{max(self.total - self.done, 0) / speed:,.0f} s left" if speed > 0 else "time left unknown"
        share = 100 * self.done // max(self.total, 1)
        self.say("  ".join([f"{steps} ({share} %)", *rest, left]))
