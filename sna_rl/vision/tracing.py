"""What happens inside Hyper-SET, iteration by iteration, as a table and as pictures."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from sna_rl.errors import UsageError
from sna_rl.runs.atomic import atomic_write
from sna_rl.separable.principal import principal_directions
from sna_rl.vision.descent import along, states_from_start
from sna_rl.vision.diagnostics import average_angle, effective_rank, rank
from sna_rl.vision.layers import HyperSetLayer
from sna_rl.vision.model import IterativeModel
from sna_rl.vision.run import Run

DRAWN = 6  # iterations whose tokens are drawn


@dataclass(frozen=True)
class Moment:
    """Means over the inputs, and over the heads, after an iteration; 0 is the embedded input.

    Args:
        iteration: number, counted through all layers.
        attention: energy of the attention.
        feed_forward: energy of the feed-forward part.
        energy: their sum.
        fell: share of the inputs whose energy did not rise since the iteration before; 1 at the start.
        accepted: share of the proposed step that was taken.
        effective_rank: of a head's tokens.
        rank: directions that a head's tokens span.
        angle: mean angle between two tokens of a head, degrees.
    """

    iteration: int
    attention: float
    feed_forward: float
    energy: float
    fell: float
    accepted: float
    effective_rank: float
    rank: float
    angle: float


@dataclass(frozen=True)
class Trace:
    """All moments, and the points that are drawn.

    Args:
        moments: one an iteration.
        monotone: share of the inputs whose energy never rose.
        points: components of the first input's tokens in the first head, one matrix a moment.
    """

    moments: Sequence[Moment]
    monotone: float
    points: Sequence[Float[Tensor, "tokens size"]]


@torch.no_grad()
def trace(model: IterativeModel, *inputs: Any, n_iterations: int | None = None) -> Trace:
    """Follow inputs through the iterations.

    Args:
        model: a Hyper-SET in evaluation mode.
        *inputs: what its embedding takes.
        n_iterations: of each layer; those of training by default.

    Raises:
        UsageError: if the model is another.

    Example:
        >>> from sna_rl.vision.config import ModelConfig
        >>> from sna_rl.vision.model import sudoku_model
        >>> model = sudoku_model(ModelConfig(width=8, n_heads=2, hidden=16, n_iterations=3))
        >>> len(trace(model, torch.zeros(2, 81, dtype=torch.int64)).moments)
        4
    """
    if model.body.config.model != "hyper-set":
        raise UsageError(f"trace follows hyper-set's spheres, and {model.body.config.model} has none")
    moments: list[Moment] = []
    points: list[Tensor] = []
    states = states_from_start(model, *inputs, n_iterations=n_iterations)
    found = along(model, states)
    for number, state in enumerate(states):
        layer = model.body.layers[state.layer]
        assert isinstance(layer, HyperSetLayer)
        z = layer.components(state.x, state.t)
        points.append(z[0, 0].cpu())
        parts = (found.attention, found.feed_forward, found.energy, found.fell.float(), found.accepted)
        means = (*(part[number] for part in parts), effective_rank(z), rank(z), average_angle(z))
        moments.append(Moment(number, *(each.mean().item() for each in means)))
    return Trace(moments, found.monotone.float().mean().item(), points)


def trace_run(run: Run, folder: Path, n_inputs: int, n_iterations: int | None = None) -> list[str]:
    """Trace the first inputs of a run's training order; write `trace.csv`, `trace.png` and `sphere.png`.

    Args:
        run: a trained run of Hyper-SET.
        folder: where to write.
        n_inputs: inputs, at most those of a batch.
        n_iterations: of each layer; those of training by default.

    Returns:
        Lines for the user.

    Raises:
        UsageError: if the model is another.
    """
    inputs = [part[:n_inputs] for part in run.task().batch(0)[: run.n_inputs]]
    found = trace(run.model, *inputs, n_iterations=n_iterations)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [asdict(moment) for moment in found.moments]
    with atomic_write(folder / "trace.csv", "w") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for name, figure in (("trace.png", _curves(rows)), ("sphere.png", _spheres(found.points))):
        with atomic_write(folder / name) as file:
            figure.savefig(file, format="png")
    first, last = found.moments[0], found.moments[-1]
    accepted = fmean(moment.accepted for moment in found.moments[1:])
    return [
        f"{len(inputs[0])} inputs, {last.iteration} iterations: "
        f"energy {first.energy:,.1f} to {last.energy:,.1f}, "
        f"effective rank {first.effective_rank:.2f} to {last.effective_rank:.2f}, "
        f"angle {first.angle:.1f} to {last.angle:.1f} degrees",
        f"energy never rose for {100 * found.monotone:.1f} % of the inputs; "
        f"{100 * accepted:.1f} % of the proposed steps were taken",
        f"written: {folder}/trace.csv, trace.png, sphere.png",
    ]


def _curves(rows: Sequence[Mapping[str, int | float]]) -> Figure:
    """Energies, their fall, ranks and angles over the iterations."""
    figure = Figure(figsize=(9, 6), dpi=120, layout="constrained")
    panels = [
        ("energy", ["attention", "feed_forward", "energy"], "energy"),
        ("energy not risen, step accepted", ["fell", "accepted"], "share"),
        ("rank of a head's tokens", ["effective_rank", "rank"], "directions"),
        ("angle between tokens", ["angle"], "degrees"),
    ]
    steps = [row["iteration"] for row in rows]
    for axes, (title, names, unit) in zip(figure.subplots(2, 2).flat, panels, strict=True):
        for name in names:
            axes.plot(steps, [row[name] for row in rows], marker=".", label=name.replace("_", " "))
        axes.set(title=title, xlabel="iteration", ylabel=unit)
        if len(names) > 1:
            axes.legend()
    return figure


def _spheres(points: Sequence[Float[Tensor, "tokens size"]]) -> Figure:
    """Tokens of some iterations along the last iteration's first three principal directions."""
    axes_of = principal_directions(points[-1], min(3, *points[-1].shape))
    chosen = sorted({round(index * (len(points) - 1) / (DRAWN - 1)) for index in range(DRAWN)})
    figure = Figure(figsize=(9, 6.4), dpi=120, layout="constrained")
    around, up = torch.meshgrid(
        torch.linspace(0, 2 * torch.pi, 25), torch.linspace(0, torch.pi, 13), indexing="ij"
    )
    ball = (around.cos() * up.sin(), around.sin() * up.sin(), up.cos())
    for place, index in enumerate(chosen):
        axes = figure.add_subplot(2, DRAWN // 2, place + 1, projection="3d")
        length = points[index].norm(dim=-1, keepdim=True).clamp_min(1e-12)
        seen = torch.nn.functional.pad(points[index] / length @ axes_of, (0, 3 - axes_of.shape[1]))
        axes.plot_wireframe(*(part.numpy() for part in ball), color="lightgrey", linewidth=0.4)
        axes.scatter(*seen.T.numpy(), c=range(len(seen)), cmap="viridis", s=12)
        axes.set(title=f"iteration {index}", xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
        axes.set(xticks=(-1, 0, 1), yticks=(-1, 0, 1), zticks=(-1, 0, 1))
        axes.set_box_aspect((1, 1, 1))
    figure.suptitle("tokens of the first input in the first head, along three principal directions")
    return figure
