"""Finished runs as curves, whoever made them: ours, the RL Zoo's, any Monitor's, CleanRL's."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sna_rl.config import read_yaml
from sna_rl.config.keys import RUN_RULES
from sna_rl.config.plain import located
from sna_rl.errors import SnaError, UsageError
from sna_rl.runs.files import MAX_NPZ_BYTES, check_file, read_lines, read_npz, read_record
from sna_rl.training.studies.statistics import Array

N_BINS = 50
FINAL = 3
COSTS = (
    "n_timesteps",
    "steps_per_second",
    "cpu_seconds",
    "wall_seconds",
    "actor_parameters",
    "critic_parameters",
)
"""What a run's summary tells of its cost, all numbers."""


@dataclass(frozen=True)
class Run:
    """One seed's learning curve.

    Args:
        env: id of the environment.
        seed: seed, or None where the files don't tell.
        steps: environment steps at each point, "points", ascending; CPU seconds after `by_time`.
        returns: mean return there, "points".
        folder: where it was read from.
        measure: "evaluation" (the policy without exploration) or "training" (episodes of training itself).
        summary: what `summary.json` tells of its cost (`cpu_seconds`, `wall_seconds`, …); may be empty.
    """

    env: str
    seed: int | None
    steps: Array
    returns: Array
    folder: Path
    measure: str = "evaluation"
    summary: Mapping[str, Any] = field(default_factory=dict)

    def until(self, step: float) -> Run:
        """The run cut at a step."""
        kept = self.steps <= step
        return replace(self, steps=self.steps[kept], returns=self.returns[kept])

    @property
    def seconds_per_step(self) -> float:
        """Processor seconds of a step, mean over the run; NaN where the run doesn't tell."""
        seconds, steps = (float(self.summary.get(key) or 0) for key in ("cpu_seconds", "n_timesteps"))
        return seconds / steps if min(seconds, steps) > 0 else math.nan

    def by_time(self) -> Run:
        """The run with CPU seconds in the place of steps, t = steps · seconds_per_step.

        Raises:
            UsageError: if the run doesn't tell its CPU seconds.
        """
        if math.isnan(self.seconds_per_step):
            raise UsageError(
                f"{str(self.folder)!r} does not tell its CPU seconds, and can't be compared by time; "
                f"leave it out, or compare by steps"
            )
        return replace(self, steps=self.steps * self.seconds_per_step)

    @property
    def final(self) -> float:
        """Mean of the last three points."""
        return float(self.returns[-FINAL:].mean())


@dataclass(frozen=True)
class Failure:
    """A run that did not finish.

    Args:
        env: id of the environment.
        seed: seed of the run.
        reason: why, in words.
    """

    env: str
    seed: int
    reason: str


@dataclass(frozen=True)
class Arm:
    """What is compared: runs that differ in environment and seed alone.

    Args:
        name: shown in tables and charts.
        runs: finished runs.
        failed: runs that did not finish.
        settings: what may differ between arms (algorithm, critic, rank, …).
    """

    name: str
    runs: tuple[Run, ...]
    failed: tuple[Failure, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def envs(self) -> tuple[str, ...]:
        """Environments it has runs of, in order of appearance."""
        return tuple(dict.fromkeys(run.env for run in self.runs))

    def of(self, env: str) -> tuple[Run, ...]:
        """Its runs in one environment."""
        return tuple(run for run in self.runs if run.env == env)


def read_arms(folder: Path, name: str | None = None) -> list[Arm]:
    """Read every run below a folder.

    Known are run folders of this project and of the RL Zoo (`evaluations.npz`), folders of Monitor files
    (`*.monitor.csv`) and CleanRL's TensorBoard logs (`charts/episodic_return`). Nothing is changed there.

    Args:
        folder: a run folder or any folder above run folders.
        name: one name for all runs; by default runs are grouped by what their folders tell.

    Returns:
        The arms, in order of their names.

    Raises:
        UsageError: if there is no run below the folder, or a file is damaged.
    """
    if not folder.is_dir():
        raise UsageError(
            f"folder {str(folder)!r} does not exist; give a study's folder or one that holds runs"
        )
    groups: dict[str, list[Run]] = {}
    for own_name, run in _find(folder):
        groups.setdefault(name or own_name, []).append(run)
    if not groups:
        raise UsageError(
            f"no run with two evaluations or more lies below {str(folder)!r}; a run holds evaluations.npz, "
            f"a *.monitor.csv or CleanRL's TensorBoard events"
        )
    return [Arm(key, tuple(groups[key]), settings=_settings(groups[key])) for key in sorted(groups)]


def read_run(folder: Path) -> Run:
    """Read one run folder of this project.

    Args:
        folder: the run folder.

    Returns:
        Its curve and summary.

    Raises:
        UsageError: if it has no evaluations or they are damaged.
    """
    config = read_yaml(folder / "config.yml")
    with located(str(folder / "config.yml")):
        env, seed = (RUN_RULES[key].check(key, config.get(key)) for key in ("env", "seed"))
    steps, returns = _evaluations(folder / "evaluations.npz")
    return Run(str(env), int(str(seed)), steps, returns, folder, summary=_summary(folder))


def _find(folder: Path) -> Iterator[tuple[str, Run]]:
    """Runs below a folder, each with the name its place gives it."""
    for place in sorted({folder, *(path for path in folder.rglob("*") if path.is_dir())}):
        found: tuple[str, Run] | None
        if (place / "evaluations.npz").is_file():
            found = _own(place) if (place / "config.yml").is_file() else _zoo(place)
        elif files := sorted(place.glob("*monitor.csv")):
            found = _monitored(place, files)
        elif any(place.glob("events.out.tfevents.*")) and not (place / "config.yml").is_file():
            found = _cleanrl(place)
        else:
            continue
        if found is not None and len(found[1].steps) > 1:
            yield found


def _own(place: Path) -> tuple[str, Run]:
    run = read_run(place)
    return place.parent.name, run


def _zoo(place: Path) -> tuple[str, Run]:
    """A folder `<algo>/<env>_<n>` of the RL Zoo; the seed stands in `<env>/args.yml`."""
    steps, returns = _evaluations(place / "evaluations.npz")
    env, seed = re.sub(r"_\d+$", "", place.name), None
    for args in place.glob("*/args.yml"):
        env = args.parent.name
        match = re.search(r"- seed\s+- (\d+)", "\n".join(read_lines(args)))
        seed = int(match[1]) if match else None
    return place.parent.name, Run(env, seed, steps, returns, place)


def _monitored(place: Path, files: Iterable[Path]) -> tuple[str, Run] | None:
    """Training episodes of one or several monitors, in the order in which they ended."""
    episodes: list[tuple[float, float, float]] = []
    env = place.name
    for path in files:
        check_file(path, MAX_NPZ_BYTES)
        with path.open(encoding="utf-8", errors="replace") as file:
            header = file.readline()
            try:
                env = str(json.loads(header.removeprefix("#")).get("env_id") or env)
                episodes += map(_episode, csv.DictReader(file))
            except (KeyError, TypeError, ValueError, AttributeError, RecursionError, csv.Error) as error:
                raise UsageError(f"{str(path)!r} is not a Monitor file, or it is damaged: {error}") from error
    if not episodes:
        return None
    _, lengths, returns = np.array(sorted(episodes), dtype=np.float64).T
    steps, means = _binned(np.cumsum(lengths), returns)
    return place.parent.name, Run(env, None, steps, means, place, "training")


def _episode(row: Mapping[str, str]) -> tuple[float, float, float]:
    """Time, length and return of a monitor's row.

    Raises:
        ValueError: if it is no episode.
    """
    ended, length, gained = (float(row[key]) for key in ("t", "l", "r"))
    if not (math.isfinite(ended) and 1 <= length < math.inf):
        raise ValueError(f"an episode of length {length:g} ended at {ended:g}")
    return ended, length, gained


def _cleanrl(place: Path) -> tuple[str, Run] | None:
    """A CleanRL run, named `<env>__<script>__<seed>__<time>`; None for other TensorBoard logs."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    env, _, rest = place.name.partition("__")
    script, _, rest = rest.partition("__")
    seed = rest.partition("__")[0]
    for path in place.glob("events.out.tfevents.*"):
        check_file(path)
    events = EventAccumulator(str(place), size_guidance={"scalars": 0}).Reload()
    if "charts/episodic_return" not in events.Tags()["scalars"]:
        return None
    episodes = [(event.step, event.value) for event in events.Scalars("charts/episodic_return")]
    steps, returns = _binned(*np.array(sorted(episodes), dtype=np.float64).T)
    run = Run(env, int(seed) if seed.isdecimal() else None, steps, returns, place, "training")
    return script or place.parent.name, run


def _binned(ends: Array, returns: Array) -> tuple[Array, Array]:
    """Mean return of the episodes that ended in each of `N_BINS` stretches; empty ones repeat the last."""
    edges = np.linspace(0, ends[-1], N_BINS + 1)[1:]
    bins = np.searchsorted(edges, ends)
    counts = np.bincount(bins, minlength=N_BINS)
    sums = np.bincount(bins, weights=returns, minlength=N_BINS)
    filled = np.flatnonzero(counts)
    means = sums[filled] / counts[filled]
    latest = np.searchsorted(filled, np.arange(filled[0], N_BINS), side="right") - 1
    return edges[filled[0] :], means[latest]


def _evaluations(path: Path) -> tuple[Array, Array]:
    """Steps and mean returns of an `evaluations.npz`."""
    try:
        data = read_npz(path)
        steps = np.asarray(data["timesteps"], dtype=np.float64)
        if steps.ndim != 1 or not (np.isfinite(steps).all() and (np.diff(steps) >= 0).all()):
            raise ValueError("its steps don't ascend")
        return steps, np.asarray(data["results"], dtype=np.float64).reshape(len(steps), -1).mean(axis=1)
    except (SnaError, KeyError, ValueError, TypeError) as error:
        raise UsageError(
            f"evaluations {str(path)!r} can't be read; they are missing or damaged: {error}"
        ) from error


def _summary(folder: Path) -> dict[str, Any]:
    """What `summary.json` holds, nothing where there is none."""
    path = folder / "summary.json"
    return read_record(path, COSTS) if path.exists() else {}


def _settings(runs: Iterable[Run]) -> dict[str, Any]:
    """Algorithm, critic and rank of our own runs; what was measured, of others."""
    run = next(iter(runs))
    config = run.folder / "config.yml"
    if not config.is_file():
        return {"measure": run.measure}
    data = read_yaml(config)
    return {key: data[key] for key in ("algo", "critic", "rank") if key in data}
