"""What a tuning study leaves behind: the best configuration, a table, importance and slice plots."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import optuna
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from sna_rl.config import RunConfig, check_trusted
from sna_rl.config.importables import modules_named
from sna_rl.errors import SnaError, UsageError, suggestion
from sna_rl.runs import atomic_write
from sna_rl.training.palette import COLOURS, GREYS
from sna_rl.training.tuning.queue import best_trial
from sna_rl.training.tuning.storage import open_storage
from sna_rl.training.tuning.tune import Tuned

BEST: Final = "best.yml"
N_SHOWN: Final = 5
ENOUGH_TRIALS: Final = 4


def write_results(tuned: Tuned, say: Callable[[str], None], plots: bool = True) -> Path:
    """Write `best.yml`, `trials.csv` and, where wanted, `importance.png` and `slices.png`.

    Args:
        tuned: the study.
        say: called with each line of a table of the best trials.
        plots: draw the plots.

    Returns:
        The best trial's configuration, for `sna-rl train -conf`.

    Raises:
        SnaError: if no trial completed, with what became of them; `trials.csv` is written all the same.
    """
    trials = tuned.study.get_trials(deepcopy=False)
    with atomic_write(tuned.path / "trials.csv", "w") as file:
        file.write(trials_csv(trials))
    best = best_trial(trials)
    if best is None:
        raise SnaError(_nothing_completed(tuned, trials))
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    for line in _table(sorted(complete, key=lambda trial: trial.value or 0.0, reverse=True)[:N_SHOWN]):
        say(line)
    say(_counts(trials))
    with atomic_write(tuned.path / BEST, "w") as file:
        file.write(_config(best).to_yaml())
    if plots:
        for name, figure in _figures(tuned.study, complete).items():
            with atomic_write(tuned.path / f"{name}.png") as file:
                figure.savefig(file, format="png", dpi=150)
    return tuned.path / BEST


def trial_config(
    name: str,
    number: int | None = None,
    *,
    folder: Path = Path("logs"),
    storage: str | None = None,
    gym_packages: Iterable[str] = (),
) -> RunConfig:
    """Configuration of a trial, exactly as it was trained.

    Args:
        name: name of the study, or its folder.
        number: number of the trial, 0 included; None is the best.
        folder: log folder with the study's own.
        storage: what the study was tuned with; None is the journal file in its folder.
        gym_packages: modules the user trusts; a study may name no others, since importing runs code.

    Raises:
        UsageError: if there is no such study or trial, or none completed.

    Example:
        >>> trial_config("absent")
        Traceback (most recent call last):
        ...
        sna_rl.errors.UsageError: no tuning study 'absent' lies in 'logs'; give its folder, or its --storage
    """
    path = Path(name) if (Path(name) / "journal.log").is_file() else folder / name
    if storage is None and not (path / "journal.log").is_file():
        raise UsageError(
            f"no tuning study {name!r} lies in {str(folder)!r}; give its folder, or its --storage"
        )
    backend = open_storage(storage, path).backend
    known = optuna.get_all_study_names(backend)
    if path.name not in known:
        raise UsageError(f"the storage has no study {path.name!r}{suggestion(path.name, known)}")
    study = optuna.load_study(study_name=path.name, storage=backend)
    trial = _chosen(study, number)
    config = _config(trial)
    check_trusted(modules_named(config.env, config.gym_packages), gym_packages, f"study {path.name}")
    return config


def trials_csv(trials: Sequence[FrozenTrial]) -> str:
    """One line a trial: state, value, parameters, seconds, and why it failed.

    Args:
        trials: trials of a study.
    """
    names = dict.fromkeys(name for trial in trials for name in _values(trial))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["number", "state", "value", *names, "seconds", "reason"])
    for trial in trials:
        parameters = [_values(trial).get(name, "") for name in names]
        attributes = [trial.user_attrs.get(key, "") for key in ("seconds", "reason")]
        value = trial.value if trial.state == TrialState.COMPLETE else ""
        writer.writerow([trial.number, trial.state.name.lower(), value, *parameters, *attributes])
    return stream.getvalue()


def _values(trial: FrozenTrial) -> dict[str, Any]:
    """Values of the parameters as the configuration took them."""
    values = trial.user_attrs.get("values")
    return dict(values) if isinstance(values, Mapping) else {}


def _config(trial: FrozenTrial) -> RunConfig:
    """Configuration that a trial was trained with.

    Raises:
        UsageError: if the storage holds none, or no valid one.
    """
    data = trial.user_attrs.get("config")
    if not isinstance(data, Mapping):
        raise UsageError(f"trial {trial.number} holds no configuration; it was not made by sna-rl tune")
    return RunConfig.from_dict(data, f"trial {trial.number}")


def _chosen(study: optuna.study.Study, number: int | None) -> FrozenTrial:
    """The trial of a number, the best for None."""
    trials = study.get_trials(deepcopy=False)
    if number is None:
        best = best_trial(trials)
        if best is None:
            raise UsageError(f"study {study.study_name!r} has no completed trial; {_counts(trials)}")
        return best
    if not 0 <= number < len(trials):
        raise UsageError(f"study {study.study_name!r} has no trial {number}; it has 0 to {len(trials) - 1}")
    return trials[number]


def _counts(trials: Sequence[FrozenTrial]) -> str:
    """How many trials are in each state."""
    states = Counter(trial.state.name.lower() for trial in trials)
    return f"{len(trials)} trials: " + ", ".join(
        f"{count} {state}" for state, count in sorted(states.items())
    )


def _nothing_completed(tuned: Tuned, trials: Sequence[FrozenTrial]) -> str:
    """Why there is no result."""
    reasons = Counter(str(trial.user_attrs["reason"]) for trial in trials if trial.user_attrs.get("reason"))
    most = f"; most often: {reasons.most_common(1)[0][0]}" if reasons else ""
    return (
        f"no trial of study {tuned.study.study_name!r} completed ({_counts(trials)}){most}; see {tuned.path}"
    )


def _table(trials: Sequence[FrozenTrial]) -> list[str]:
    """The best trials in aligned columns."""
    names = list(dict.fromkeys(name for trial in trials for name in _values(trial)))
    rows = [["trial", "value", *names]]
    for trial in trials:
        cells = [_values(trial).get(name, "–") for name in names]
        shown = [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells]
        rows.append([str(trial.number), f"{trial.value:,.2f}", *shown])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _figures(study: optuna.study.Study, complete: Sequence[FrozenTrial]) -> dict[str, Figure]:
    """Slice plots of every parameter, and their importance where there are enough trials."""
    names = list(dict.fromkeys(name for trial in complete for name in trial.params))
    figures = {}
    if names:
        slices = Figure(figsize=(3.2 * len(names), 2.8), layout="constrained")
        for ax, name in zip(slices.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            _slice(ax, name, [trial for trial in complete if name in trial.params])
        figures["slices"] = slices
    importances = _importances(study, complete)
    if importances:
        importance = Figure(figsize=(5.0, 0.9 + 0.3 * max(len(importances), 2)), layout="constrained")
        ax = importance.subplots()
        ax.barh(list(importances), list(importances.values()), color=COLOURS[0])
        ax.invert_yaxis()
        ax.set_xlabel("importance (PED-ANOVA)")
        figures["importance"] = importance
    return figures


def _importances(study: optuna.study.Study, complete: Sequence[FrozenTrial]) -> dict[str, float]:
    """Importance of each parameter among those drawn in the same trials; none where there are too few.

    Trials of the second group hold the first at one value, so that the two groups are judged apart.
    """
    groups: dict[tuple[str, ...], list[FrozenTrial]] = {}
    for trial in complete:
        groups.setdefault(tuple(trial.params), []).append(trial)
    found: dict[str, float] = {}
    for names, trials in groups.items():
        varied = [name for name in names if len({trial.params[name] for trial in trials}) > 1]
        if len(trials) >= ENOUGH_TRIALS and varied and len({trial.value for trial in trials}) > 1:
            part = optuna.create_study(directions=study.directions)
            part.add_trials(trials)
            found |= {
                name: value
                for name, value in optuna.importance.get_param_importances(part, params=varied).items()
                if name not in found
            }
    return found


def _slice(ax: Axes, name: str, trials: Sequence[FrozenTrial]) -> None:
    """Values of the objective against one parameter, later trials darker."""
    distribution = trials[0].distributions[name]
    positions: list[Any] = [trial.params[name] for trial in trials]
    if isinstance(distribution, CategoricalDistribution):
        positions = [distribution.choices.index(position) for position in positions]
        ax.set_xticks(range(len(distribution.choices)), [str(choice) for choice in distribution.choices])
    elif getattr(distribution, "log", False):
        ax.set_xscale("log")
        ax.xaxis.set_minor_formatter(NullFormatter())
        if isinstance(distribution, IntDistribution):
            powers = [2**n for n in range(distribution.high.bit_length()) if 2**n >= distribution.low]
            ax.set_xticks(powers, [str(power) for power in powers])
    values = [float(trial.value or 0.0) for trial in trials]
    numbers = [trial.number for trial in trials]
    ax.scatter(positions, values, c=numbers, cmap="cividis_r", s=22, edgecolors=GREYS[0])
    is_complement = _values(trials[0])[name] != trials[0].params[name]
    ax.set_xlabel(f"1 − {name}" if is_complement else name)
    ax.set_ylabel("objective, later trials darker")
