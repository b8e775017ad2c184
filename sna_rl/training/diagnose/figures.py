"""Figures of a diagnosis: spectrum, value table, components, a rollout, and the actions' factors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from sna_rl.runs import atomic_write
from sna_rl.separable.decomposition import Decomposition
from sna_rl.training.diagnose.critic import Material
from sna_rl.training.diagnose.records import Diagnosis
from sna_rl.training.diagnose.states import first_episode
from sna_rl.training.palette import COLOURS, GREYS, INK, RC

Array = NDArray[np.float64]

N_COMPONENTS = 3
N_PANELS = 8
N_BINS = 12
N_SINGULAR = 64


def draw_figures(
    diagnosis: Diagnosis, material: Material, model: OffPolicyAlgorithm, folder: Path
) -> list[Path]:
    """Draw all figures of a diagnosis as PNG files; of several heads, the first.

    Args:
        diagnosis: what was read.
        material: what it was read from.
        model: the agent, its buffer filled.
        folder: where to; exists.

    Returns:
        The files.

    Raises:
        OSError: if one can't be written.
    """
    parts = Decomposition.of(material.supported[0])
    figures: dict[str, Callable[[], Figure]] = {
        "spectrum": lambda: _spectrum(diagnosis),
        "value_table": lambda: _value_table(material, parts),
        "components": lambda: _components(material, parts),
        "rollout": lambda: _rollout(material, model),
        "actions": lambda: _actions(material, parts),
    }
    files = []
    for name, draw in figures.items():
        path = folder / f"{name}.png"
        with rc_context(RC), atomic_write(path) as file:
            draw().savefig(file, format="png", dpi=130, bbox_inches="tight")
        files.append(path)
    return files


def _spectrum(diagnosis: Diagnosis) -> Figure:
    """Singular values of every head over their largest, with noise floor and nulls."""
    kinds = ["supported"] + (["uniform"] if diagnosis.heads[0].uniform is not None else [])
    figure = Figure(figsize=(5.2 * len(kinds), 3.6))
    axes = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    titles = {"supported": "actions that were taken", "uniform": "uniform actions"}
    for axis, kind in zip(axes, kinds, strict=True):
        for head, tables in enumerate(diagnosis.heads):
            report = getattr(tables, kind)
            if report.singular_values:
                largest = report.singular_values[0]
                values = np.array(report.singular_values[:N_SINGULAR]) / largest
                axis.plot(
                    _from_one(values), values, "o-", ms=3, color=COLOURS[head], label=f"head {head + 1}"
                )
                if head == 0 and report.noise_floor is not None:
                    label = "noise floor (heads disagree)"
                    axis.axhline(report.noise_floor / largest, color=INK, lw=1, ls=":", label=label)
        for (name, tables), colour, dash in zip(diagnosis.nulls.items(), GREYS, ("--", "-."), strict=True):
            values = np.array(getattr(tables, kind).singular_values[:N_SINGULAR])
            if len(values):
                axis.plot(_from_one(values), values / values[0], dash, color=colour, label=f"null: {name}")
        axis.set(xlabel="component", yscale="log", ylim=(1e-4, 1.5), title=titles[kind])
    axes[0].set_ylabel("singular value / largest")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def _value_table(material: Material, parts: Decomposition) -> Figure:
    """The value table by its main effects, and its interaction by the leading component."""
    figure = Figure(figsize=(10.0, 4.0))
    left, right = figure.subplots(1, 2)
    table = _array(material.supported[0])
    rows, columns = np.argsort(_array(parts.rows)), np.argsort(_array(parts.columns))
    image = left.imshow(table[np.ix_(rows, columns)], aspect="auto", cmap="viridis", interpolation="nearest")
    figure.colorbar(image, ax=left, label="Q")
    left.set(title="Q, sorted by mean value", xlabel="action", ylabel="state")
    interaction = _array(parts.left @ parts.right)
    if len(parts.values):
        rows, columns = np.argsort(_array(parts.left[:, 0])), np.argsort(_array(parts.right[0]))
    limit = float(np.quantile(np.abs(interaction), 0.99)) or 1.0
    image = right.imshow(
        interaction[np.ix_(rows, columns)],
        aspect="auto",
        cmap="RdBu_r",
        vmin=-limit,
        vmax=limit,
        interpolation="nearest",
    )
    figure.colorbar(image, ax=right, label="interaction")
    right.set(title="interaction, sorted by its leading component", xlabel="action", ylabel="state")
    return figure


def _components(material: Material, parts: Decomposition) -> Figure:
    """The leading components, each over the state and the action column that it depends on most."""
    n_rows = max(1, min(N_COMPONENTS, len(parts.values)))
    figure = Figure(figsize=(8.0, 2.4 * n_rows))
    axes = figure.subplots(n_rows, 2, squeeze=False)
    if not len(parts.values):
        for axis in axes[0]:
            axis.set_axis_off()
        figure.suptitle("no interaction: the table is additive")
        return figure
    energy = _array(parts.values.square() / parts.values.square().sum())
    sides = (("state", _array(material.features)), ("action", _action_columns(material)))
    for component, pair in enumerate(axes):
        both = (_array(parts.left[:, component]), _array(parts.right[component]) * len(parts.columns) ** 0.5)
        for axis, (name, columns), values in zip(pair, sides, both, strict=True):
            explained = [_explained(column, values) for column in columns.T]
            best = int(np.argmax(explained))
            _scatter(axis, columns[:, best], values)
            axis.set(xlabel=f"{name} {best} (explains {explained[best]:.0%})")
        pair[0].set_ylabel(f"component {component + 1}\n{energy[component]:.0%} of the energy")
    axes[0, 0].set_title("its factor over states")
    axes[0, 1].set_title("its factor over actions")
    return figure


def _rollout(material: Material, model: OffPolicyAlgorithm) -> Figure:
    """Value along an episode, and the rewards that came."""
    observations, actions, rewards = first_episode(model)
    features = material.heads.features(observations)
    values = _array(material.heads.tables(features, material.probe.supported)[0])
    taken = _array(material.heads.values(features, actions)[0])
    figure = Figure(figsize=(8.0, 4.2))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    steps = np.arange(len(taken))
    above.fill_between(
        steps, values.min(1), values.max(1), color=COLOURS[4], alpha=0.25, lw=0, label="range over actions"
    )
    above.plot(steps, values.mean(1), color=COLOURS[0], label="V: mean over actions")
    above.plot(steps, taken, color=COLOURS[1], lw=1, label="Q of the action taken")
    above.set(ylabel="value", title="one episode of the exploring policy")
    above.legend(loc="best")
    below.plot(steps, _array(rewards), color=INK, lw=1)
    below.set(xlabel="step", ylabel="reward")
    return figure


def _actions(material: Material, parts: Decomposition) -> Figure:
    """Main effect of the actions and the leading factor, over each action column."""
    columns = _action_columns(material)
    shown = columns[:, :N_PANELS]
    factors = [("A: main effect", _array(parts.columns))]
    if len(parts.values):
        scale = float(parts.values[0]) / (len(parts.rows) * len(parts.columns)) ** 0.5
        leading = _array(parts.right[0]) * len(parts.columns) ** 0.5 * scale
        factors.append(("leading factor of the interaction (RMS effect)", leading))
    n_columns = min(4, shown.shape[1])
    n_rows = -(-shown.shape[1] // n_columns)
    figure = Figure(figsize=(2.6 * n_columns + 0.6, 2.2 * n_rows + 0.6))
    axes = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False).ravel()
    for axis in axes[shown.shape[1] :]:
        axis.set_axis_off()
    for index, (axis, column) in enumerate(zip(axes, shown.T, strict=False)):
        for (label, values), colour in zip(factors, COLOURS, strict=False):
            _scatter(axis, column, values, colour, label)
        axis.set_xlabel(f"action {index}")
    axes[0].set_ylabel("Q")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    if columns.shape[1] > N_PANELS:
        figure.supxlabel(f"the first {N_PANELS} of {columns.shape[1]} action columns")
    return figure


def _scatter(axis: Axes, x: Array, y: Array, colour: str = COLOURS[0], label: str | None = None) -> None:
    """Points, and the mean of y in bins of x."""
    axis.plot(x, y, ".", ms=3, alpha=0.35, color=colour, mew=0)
    bins = _bins(x)
    means = [(x[bins == each].mean(), y[bins == each].mean()) for each in np.unique(bins)]
    axis.plot(*zip(*means, strict=True), color=colour, label=label)


def _bins(x: Array) -> NDArray[np.int64]:
    """Number of the bin of each value; bins hold about as many values each."""
    edges = np.unique(np.quantile(x, np.linspace(0.0, 1.0, N_BINS + 1)[1:-1]))
    return np.searchsorted(edges, x, side="right").astype(np.int64)


def _explained(x: Array, y: Array) -> float:
    """Share of the variance of y that lies between bins of x (correlation ratio)."""
    bins = _bins(x)
    means = np.array([y[bins == each].mean() for each in np.unique(bins)])[
        np.unique(bins, return_inverse=True)[1]
    ]
    return float(means.var() / y.var()) if y.var() > 0 else 0.0


def _action_columns(material: Material) -> Array:
    """Supported actions, one row each; a numbered action is one column."""
    actions = _array(material.probe.supported)
    return actions if actions.ndim == 2 else actions[:, None]


def _from_one(values: Array) -> Array:
    return np.arange(1.0, len(values) + 1.0)


def _array(tensor: Any) -> Array:
    array: Array = tensor.detach().double().cpu().numpy()
    return array
