from __future__ import annotations

import io

import pytest
from rich.console import Console

from sna_rl.runs import Progress, progress


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_plain_lines_come_at_the_interval_and_at_the_end(clock: Clock) -> None:
    output = io.StringIO()
    with Progress(1000, interval=10.0, console=Console(file=output, width=100)) as bar:
        for second in range(1, 26):
            clock.now = float(second)
            bar.update(20 * second, last_return=-100.0 - second)
    assert output.getvalue().splitlines() == [
        "200/1,000 steps (20 %)  20/s  last -110.0  best -101.0  40 s left",
        "400/1,000 steps (40 %)  20/s  last -120.0  best -101.0  30 s left",
        "500/1,000 steps (50 %)  20/s  last -125.0  best -101.0  25 s left",
    ]


def test_speed_counts_this_process_only(clock: Clock) -> None:
    bar = Progress(1000, start=600, shown=False)
    clock.now = 4.0
    bar.update(800)
    assert bar.steps_per_second == 50.0


def test_a_terminal_gets_a_bar() -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=100)
    with Progress(10, console=console) as bar:
        bar.update(10, last_return=1.0, best_return=2.0)
        bar.say("[note] kept as it is")
    assert "10/10 steps" in output.getvalue()
    assert "last 1.0  best 2.0" in output.getvalue()
    assert "[note] kept as it is" in output.getvalue()


def test_hidden_progress_prints_nothing() -> None:
    output = io.StringIO()
    with Progress(10, shown=False, interval=0.0, console=Console(file=output)) as bar:
        bar.update(10)
    assert output.getvalue() == ""
