"""A trace drawn: curves over the iterations, and tokens on the sphere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from sna_rl.separable.principal import principal_directions

DRAWN = 6  # iterations whose tokens are drawn


def curves(rows: Sequence[Mapping[str, int | float]]) -> Figure:
    """Energies, their fall, ranks and angles over the iterations, each kind along an axis of its own.

    Args:
        rows: of trace.csv.
    """
    figure = Figure(figsize=(12, 6), dpi=120, layout="constrained")
    panels = [
        ("energy of the attention", ["attention"], "energy"),
        ("energy of the feed-forward part", ["feed_forward"], "energy"),
        ("total energy", ["energy"], "energy"),
        ("energy not risen, step accepted", ["fell", "never_rose", "accepted"], "share"),
        ("rank of a head's tokens", ["effective_rank", "rank"], "directions"),
        ("angle between tokens", ["angle"], "degrees"),
    ]
    steps = [row["iteration"] for row in rows]
    for axes, (title, names, unit) in zip(figure.subplots(2, 3).flat, panels, strict=True):
        for name in names:
            axes.plot(steps, [row[name] for row in rows], marker=".", label=name.replace("_", " "))
        axes.set(title=title, xlabel="iteration", ylabel=unit)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if len(names) > 1:
            axes.legend()
    return figure


def spheres(points: Sequence[Float[Tensor, "tokens size"]]) -> Figure:
    """Tokens of some iterations along the last iteration's first three principal directions.

    Args:
        points: one matrix an iteration.
    """
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
