"""Units of work in processes of their own: answers, failures, time-outs, and no orphan."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sna_rl.errors import UsageError
from sna_rl.training.studies.workers import LocalPool, Outcome, Unit, run_unit


def unit(tmp_path: Path, call: str, timeout: float | None = None, **arguments: Any) -> Unit:
    return Unit(call, call, arguments, tmp_path / "log.txt", timeout)


def test_value_comes_back_and_output_goes_to_the_log(tmp_path: Path) -> None:
    outcome = run_unit(unit(tmp_path, "json:loads", s='{"a": [1, 2.5]}'))
    assert (outcome.value, outcome.reason, outcome.died) == ({"a": [1, 2.5]}, None, False)
    run_unit(unit(tmp_path, "logging:warning", msg="so be it"))
    assert "so be it" in (tmp_path / "log.txt").read_text()


def test_process_has_one_thread_for_mathematics(tmp_path: Path) -> None:
    assert run_unit(unit(tmp_path, "os:getenv", key="OMP_NUM_THREADS")).value == "1"


@pytest.mark.parametrize(
    ("call", "arguments", "reason", "died"),
    [
        ("json:loads", {"s": "{"}, "JSONDecodeError: Expecting property name", False),
        ("sna_rl.runs:RunFolder.open", {}, "AttributeError", False),
        ("sna_rl.config:read_yaml", {"path": "/absent.yml"}, "can't read /absent.yml", False),
        ("subprocess:run", {"args": ["true"]}, "TypeError: Object of type CompletedProcess", False),
        ("os:_exit", {"status": 5}, "process ended with code 5 and no answer", True),
        ("subprocess:call", {"args": ["sh", "-c", "kill -9 $PPID"]}, "process was ended by SIGKILL", True),
    ],
)
def test_failure_is_told_with_its_reason(
    tmp_path: Path, call: str, arguments: dict[str, Any], reason: str, died: bool
) -> None:
    outcome = run_unit(unit(tmp_path, call, **arguments))
    assert outcome.value is None
    assert outcome.reason is not None
    assert outcome.reason.startswith(reason)
    assert outcome.died is died


def test_unit_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    outcome = run_unit(unit(tmp_path, "subprocess:call", timeout=0.5, args=["sleep", "60"]))
    assert outcome.reason == "took longer than 0.5 s"
    assert outcome.seconds < 10


def test_log_that_cannot_be_written_is_a_failure_not_a_crash(tmp_path: Path) -> None:
    outcome = run_unit(Unit("a", "json:loads", {"s": "1"}, tmp_path / "absent" / "log.txt"))
    assert outcome.reason is not None
    assert "could not be started" in outcome.reason


def test_pool_takes_a_unit_only_when_a_slot_is_free(tmp_path: Path) -> None:
    taken: list[int] = []

    def units() -> Iterator[Unit]:
        for number in range(4):
            taken.append(number)
            yield unit(tmp_path, "json:loads", s=str(number))

    ended: list[Outcome] = []
    for outcome in LocalPool(1).run(units()):
        ended.append(outcome)
        assert len(taken) == len(ended)
    assert [outcome.value for outcome in ended] == [0, 1, 2, 3]
    with pytest.raises(UsageError, match="at least 1, not 0"):
        LocalPool(0)


def test_failure_between_outcomes_ends_what_runs(tmp_path: Path) -> None:
    marker = tmp_path / "alive"
    script = f"while true; do touch {marker}; sleep 0.05; done"
    units = iter(
        [
            unit(tmp_path, "json:loads", s="1"),
            unit(tmp_path, "subprocess:call", args=["sh", "-c", f"exec 0<&-; {script}"]),
        ]
    )
    pool = LocalPool(2)
    outcomes = pool.run(units)
    assert next(outcomes).value == 1
    outcomes.close()  # type: ignore[attr-defined]
    assert not pool._running


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    command = f"echo $PPID > {told}.part; mv {told}.part {told}; exec sleep 60"
    program = (
        "from pathlib import Path; from sna_rl.training.studies.workers import *; "
        f"arguments = {{'args': ['sh', '-c', {command!r}]}}; "
        f"run_unit(Unit('a', 'subprocess:call', arguments, Path({str(tmp_path / 'log')!r})))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    try:
        deadline = time.monotonic() + 30
        while not told.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        child = json.loads(told.read_text())
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        while _lives(child):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        parent.kill()
        parent.wait()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
