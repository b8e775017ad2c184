"""What happens inside Hyper-SET, iteration by iteration, as a table and as pictures."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Tensor

from sna_rl.errors import UsageError
from sna_rl.runs.atomic import atomic_write
from sna_rl.runs.fit_config import step_generator
from sna_rl.vision.boards import Boards
from sna_rl.vision.classify import centred, scaled
from sna_rl.vision.descent import along, states_from_start
from sna_rl.vision.diagnostics import average_angle, effective_rank, rank
from sna_rl.vision.layers import HyperSetLayer
from sna_rl.vision.mask import TRIAL, hide
from sna_rl.vision.model import IterativeModel
from sna_rl.vision.run import Run
from sna_rl.vision.symbols import Symbols, covered
from sna_rl.vision.trace_pictures import curves, spheres

AT_ONCE = 64  # inputs followed at once


@dataclass(frozen=True)
class Moment:
    """Means over the inputs, and over the heads, after an iteration; 0 is the embedded input.

    Args:
        iteration: number, counted through all layers.
        attention: energy of the attention.
        feed_forward: energy of the feed-forward part.
        energy: their sum.
        fell: share of the inputs whose energy this iteration did not raise; 1 at the start.
        never_rose: share of those whose energy no iteration has raised so far.
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
    never_rose: float
    accepted: float
    effective_rank: float
    rank: float
    angle: float


@dataclass(frozen=True)
class Trace:
    """All moments, and the points that are drawn.

    Args:
        moments: one an iteration.
        points: components of the first input's tokens in the first head, one matrix a moment.
    """

    moments: Sequence[Moment]
    points: Sequence[Float[Tensor, "tokens size"]]

    @property
    def monotone(self) -> float:
        """Share of the inputs whose energy never rose."""
        return self.moments[-1].never_rose


@torch.no_grad()
def trace(model: IterativeModel, *inputs: Tensor, n_iterations: int | None = None) -> Trace:
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
    chunks = zip(*(torch.split(part, AT_ONCE) for part in inputs), strict=True)
    parts = [_followed(model, *chunk, n_iterations=n_iterations) for chunk in chunks]
    means = torch.cat([measures for measures, _ in parts], -1).mean(-1)
    return Trace([Moment(number, *row) for number, row in enumerate(means.T.tolist())], parts[0][1])


def _followed(
    model: IterativeModel, *inputs: Tensor, n_iterations: int | None
) -> tuple[Float[Tensor, "measures states batch"], list[Tensor]]:
    """A moment's numbers for every state and input, and the points of the first input."""
    states = states_from_start(model, *inputs, n_iterations=n_iterations)
    found = along(model, states)
    tokens = []
    for state in states:
        layer = model.body.layers[state.layer]
        assert isinstance(layer, HyperSetLayer)
        tokens.append(layer.components(state.x, state.t))
    lie = [
        torch.stack([measure(z).mean(1) for z in tokens]) for measure in (effective_rank, rank, average_angle)
    ]
    fell = found.fell.double()
    measures = [found.attention, found.feed_forward, found.energy, fell, fell.cumprod(0), found.accepted]
    return torch.stack([each.double() for each in measures + lie]), [z[0, 0].cpu() for z in tokens]


def trace_run(run: Run, folder: Path, n_inputs: int, n_iterations: int | None = None) -> list[str]:
    """Trace the first inputs of a run's test set; write `trace.csv`, `trace.png` and `sphere.png`.

    Args:
        run: a trained run of Hyper-SET.
        folder: where to write.
        n_inputs: inputs, as many as there are at most.
        n_iterations: of each layer; those of training by default.

    Returns:
        Lines for the user.

    Raises:
        UsageError: if the model is another.
    """
    inputs = first_inputs(run, n_inputs)
    found = trace(run.model, *inputs, n_iterations=n_iterations)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [asdict(moment) for moment in found.moments]
    with atomic_write(folder / "trace.csv", "w") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for name, figure in (("trace.png", curves(rows)), ("sphere.png", spheres(found.points))):
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


def first_inputs(run: Run, n_inputs: int) -> list[Tensor]:
    """What the model is given of the first inputs of the test set; of masks 40 % is hidden, as in evaluation.

    Args:
        run: of any task.
        n_inputs: as many as there are at most.
    """
    test, draw = run.data[-1], step_generator(0, 0)
    if isinstance(test, Boards):
        inputs = [test.puzzles[:n_inputs]]
    elif isinstance(test, Symbols):
        symbols = test.symbols[:n_inputs]
        hidden = hide(len(symbols), symbols.shape[1], (TRIAL, TRIAL), draw)
        inputs = [covered(symbols, hidden, test.n_symbols)[0]]
    else:
        inputs = [centred(scaled(test.pixels[:n_inputs]))]
        if run.config.task.task == "mask":
            inputs.append(hide(len(inputs[0]), run.config.task.n_side**2, (TRIAL, TRIAL), draw))
    device = next(run.model.parameters()).device
    return [part.to(device) for part in inputs]
