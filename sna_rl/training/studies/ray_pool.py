"""Units of work on a Ray cluster whose machines share the study's folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Final

from sna_rl.errors import SnaError, require
from sna_rl.training.studies.workers import Outcome, Unit, run_unit

MAX_RETRIES: Final = 3


class WorkerLost(Exception):
    """A unit's process ended without an answer: worth another try."""


class RayPool:
    """One unit a processor of a Ray cluster; one whose machine or process dies is tried again elsewhere.

    A task starts the same process that `LocalPool` starts, so that a unit behaves alike on both.

    Args:
        address: "auto" for the cluster this machine belongs to (a new one here if there is none), or
            `host:port` of a cluster's head.

    Raises:
        MissingExtraError: if Ray is not installed.
        SnaError: if the cluster can't be reached.
    """

    def __init__(self, address: str = "auto") -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray: Any = require("ray", "ray")
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            self._ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            if address != "auto":
                reason = str(error).strip().splitlines()[0]
                raise SnaError(f"Ray cluster {address!r} can't be reached: {reason}") from error
            self._ray.init(address="local", include_dashboard=False, **quiet)
        self.slots = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._pending: dict[Any, Unit] = {}

    def run(self, units: Iterator[Unit]) -> Iterator[Outcome]:
        """Run units, the next one taken only when a processor is free.

        Args:
            units: taken one by one.

        Yields:
            Outcomes, in the order in which units end; each unit once.
        """
        task = self._ray.remote(max_retries=MAX_RETRIES, retry_exceptions=[WorkerLost], num_cpus=1)(_run)
        exhausted = False
        try:
            while self._pending or not exhausted:
                while not exhausted and len(self._pending) < self.slots:
                    unit = next(units, None)
                    if unit is None:
                        exhausted = True
                    else:
                        self._pending[task.remote(unit)] = unit
                if not self._pending:
                    return
                (done,), _ = self._ray.wait(list(self._pending), num_returns=1)
                yield self._outcome(done, self._pending.pop(done))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Cancel what still runs."""
        for reference in self._pending:
            with contextlib.suppress(Exception):
                self._ray.cancel(reference, force=True)
        self._pending.clear()

    def _outcome(self, reference: Any, unit: Unit) -> Outcome:
        """Result of a task, also of one whose every try was lost."""
        try:
            outcome: Outcome = self._ray.get(reference)
        except Exception as error:
            lines = str(error).strip().splitlines()
            return Outcome(
                unit, None, f"lost {MAX_RETRIES + 1} times: {lines[-1] if lines else error!r}", 0.0, True
            )
        return outcome


def _run(unit: Unit) -> Outcome:
    """What a Ray worker does."""
    outcome = run_unit(unit)
    if outcome.died:
        raise WorkerLost(outcome.reason)
    return outcome
