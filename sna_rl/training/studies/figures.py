"""A report's charts: one idea each, colours safe for colour-blind readers, dashes and markers besides."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import cycle
from typing import Any, Final

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from sna_rl.training.palette import COLOURS, GREYS, INK, LINE, RC
from sna_rl.training.studies.analysis import MLPS, Analysis
from sna_rl.training.studies.arms import Arm
from sna_rl.training.studies.statistics import Array, Interval

DASHES: Final = ("-", "--", "-.", ":")
MARKERS: Final = "osD^v<>P"
VARIABLES: Final = {
    INK: "--ink",
    LINE: "--line",
    **{colour: f"--grey-{n}" for n, colour in enumerate(GREYS)},
    **{colour: f"--colour-{n}" for n, colour in enumerate(COLOURS)},
}
"""CSS variables that stand for the colours in a page, so that dark mode can change them."""
_RC: Any = {
    **RC,
    "svg.fonttype": "none",
    "axes.grid": True,
    "grid.color": LINE,
    "grid.linewidth": 0.5,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.6,
}


@dataclass(frozen=True)
class Style:
    """How an arm is drawn everywhere.

    Args:
        colour: one of this module's.
        dash: Matplotlib's line style.
        marker: Matplotlib's marker.
    """

    colour: str
    dash: str
    marker: str


@dataclass(frozen=True)
class Chart:
    """A chart that can be drawn for a page or a file.

    Args:
        name: file name without extension.
        title: heading.
        text: what the chart shows, for readers who don't see it.
        draw: draws on axes.
        rows: entries stacked along the vertical axis, which make it taller.
    """

    name: str
    title: str
    text: str
    draw: Callable[[Axes], None]
    rows: int = 0

    def svg(self) -> str:
        """The chart as an SVG element whose colours are CSS variables."""
        stream = io.StringIO()
        with rc_context({**_RC, "svg.hashsalt": self.name}):
            self._figure().savefig(stream, format="svg", transparent=True, metadata={"Date": None})
        text = stream.getvalue()
        text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
        text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{self.name}-", text)
        text = re.sub(r'^<svg[^>]*viewBox="([^"]*)"[^>]*>', self._opening, text, count=1)
        for colour, variable in VARIABLES.items():
            text = text.replace(colour, f"var({variable})")
        return text

    def png(self, styles: Mapping[str, Style]) -> bytes:
        """The chart as a PNG with its legend.

        Args:
            styles: arms in the legend; none where names stand at the axis.
        """
        stream = io.BytesIO()
        with rc_context(_RC):
            figure = self._figure(0.0 if self.rows else 0.18 * len(styles))
            if not self.rows:
                handles = [
                    figure.axes[0].plot([], [], style.dash, color=style.colour, label=name)[0]
                    for name, style in styles.items()
                ]
                figure.legend(handles=handles, loc="outside lower left", fontsize=7, ncols=2)
            figure.savefig(stream, format="png", dpi=150, facecolor="white")
        return stream.getvalue()

    def _figure(self, more_height: float = 0.0) -> Figure:
        """The drawn figure; with rows it grows by their number."""
        height = max(2.0, 0.8 + 0.26 * self.rows) if self.rows else 3.0
        figure = Figure(figsize=(4.4, height + more_height))
        self.draw(figure.subplots())
        return figure

    def _opening(self, match: re.Match[str]) -> str:
        """Opening tag that scales with the page and tells what is drawn."""
        space = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        return f'<svg {space} viewBox="{match[1]}" role="img" aria-label="{escape(self.text)}">'


def styles(arms: Sequence[Arm]) -> dict[str, Style]:
    """A look for every arm: greys for MLP critics, colours for the others.

    Args:
        arms: in the order in which looks are given.

    Returns:
        Looks by name of arm.
    """
    greys = [Style(colour, dash, "o") for dash in DASHES for colour in GREYS]
    colours = [
        Style(colour, dash, marker)
        for dash, marker in zip(DASHES, MARKERS[1:], strict=False)
        for colour in COLOURS
    ]
    own = {True: cycle(greys), False: cycle(colours)}
    return {arm.name: next(own[arm.settings.get("critic") in MLPS]) for arm in arms}


def charts(analysis: Analysis, spectra: Mapping[str, Sequence[Sequence[float]]]) -> list[Chart]:
    """Every chart that the arms give rise to.

    Args:
        analysis: the arms.
        spectra: singular values of trained critics by arm, one list a run.

    Returns:
        The charts, the most telling first.
    """
    look = styles(analysis.arms)
    found = [
        _forest(
            "aggregate", "Final performance", f"interquartile mean, {analysis.unit}", analysis.aggregate, look
        )
    ]
    axes = (analysis.axis.unit, "return")
    found += [_bands(f"curve-{_slug(env)}", env, axes, analysis.curves[env], look) for env in analysis.envs]
    if len(analysis.envs) > 1:
        axes = ("share of the budget", analysis.unit)
        found.append(_bands("efficiency", "All environments", axes, analysis.efficiency, look))
    profile = ("final " + analysis.unit, "share of runs above")
    found.append(_bands("profile", "Performance profile", profile, analysis.profiles, look))
    if analysis.improvement:
        title = f"Chance to beat {analysis.baseline}"
        found.append(
            _forest("improvement", title, "probability of improvement", analysis.improvement, look, half=True)
        )
    ranks = _by_rank(analysis)
    if ranks:
        found.append(_ranks(analysis, ranks, look))
    if spectra:
        found.append(_spectra(spectra, look))
    return found


def _bands(
    name: str,
    title: str,
    axes: tuple[str, str],
    curves: tuple[Array, Mapping[str, Interval]],
    look: Mapping[str, Style],
) -> Chart:
    """Lines with their intervals as bands."""

    def draw(ax: Axes) -> None:
        for arm, interval in curves[1].items():
            style = look[arm]
            ax.fill_between(
                curves[0], interval.low, interval.high, color=style.colour, alpha=0.18, linewidth=0
            )
            ax.plot(curves[0], interval.value, style.dash, color=style.colour)
        ax.set(xlabel=axes[0], ylabel=axes[1])
        ax.locator_params(axis="x", nbins=5)
        if curves[0][-1] >= 1000:
            ax.xaxis.set_major_formatter(EngFormatter(sep=""))

    return Chart(name, title, f"{title}: {axes[1]} against {axes[0]} with 95 percent intervals", draw)


def _forest(
    name: str,
    title: str,
    label: str,
    intervals: Mapping[str, Interval],
    look: Mapping[str, Style],
    half: bool = False,
) -> Chart:
    """One interval a row, names at the axis."""

    def draw(ax: Axes) -> None:
        for row, (arm, interval) in enumerate(intervals.items()):
            style = look[arm]
            ax.plot([interval.low, interval.high], [row, row], color=style.colour, linewidth=4, alpha=0.35)
            ax.plot(interval.value, row, style.marker, color=style.colour)
        if half:
            ax.axvline(0.5, color=INK, linewidth=0.8, linestyle=":")
            ax.set_xlim(-0.03, 1.03)
        ax.set_yticks(range(len(intervals)), list(intervals))
        ax.set_ylim(len(intervals) - 0.4, -0.6)
        ax.locator_params(axis="x", nbins=5)
        ax.set(xlabel=label)

    return Chart(name, title, f"{title}: {label} of each arm with 95 percent intervals", draw, len(intervals))


def _by_rank(analysis: Analysis) -> dict[str, list[tuple[int, str]]]:
    """Ranks and arms of each kind of separable arm."""
    families: dict[str, list[tuple[int, str]]] = {}
    for arm in analysis.arms:
        rank, critic = arm.settings.get("rank"), arm.settings.get("critic")
        if isinstance(rank, int) and critic in ("cp", "tucker", "spline-joint"):
            family = re.sub(r"-?r\d+", "", arm.name)
            families.setdefault(family, []).append((rank, arm.name))
    return {family: sorted(arms) for family, arms in families.items()}


def _ranks(
    analysis: Analysis, families: Mapping[str, Sequence[tuple[int, str]]], look: Mapping[str, Style]
) -> Chart:
    """Final performance against rank, the baseline as a band across."""

    def draw(ax: Axes) -> None:
        base = analysis.aggregate[analysis.baseline]
        ax.axhline(float(base.value), color=GREYS[0], linestyle="--", linewidth=1.2)
        if np.isfinite(base.low):
            ax.axhspan(float(base.low), float(base.high), color=GREYS[0], alpha=0.15, linewidth=0)
        for arms in families.values():
            colour = look[arms[0][1]].colour
            values = [analysis.aggregate[name] for _, name in arms]
            ax.plot(
                [rank for rank, _ in arms], [float(each.value) for each in values], color=colour, linewidth=1
            )
            for (rank, name), each in zip(arms, values, strict=True):
                ax.plot([rank, rank], [each.low, each.high], color=look[name].colour, linewidth=4, alpha=0.35)
                ax.plot(rank, each.value, look[name].marker, color=look[name].colour)
        ax.set_xscale("log", base=2)
        ticks = sorted({rank for arms in families.values() for rank, _ in arms})
        ax.set_xticks(ticks, [str(rank) for rank in ticks])
        ax.minorticks_off()
        ax.set(xlabel="rank", ylabel=f"interquartile mean, {analysis.unit}")

    text = f"final performance against rank; dashed line: {analysis.baseline}"
    return Chart("rank", f"Rank (dashed: {analysis.baseline})", text, draw)


def _spectra(spectra: Mapping[str, Sequence[Sequence[float]]], look: Mapping[str, Style]) -> Chart:
    """Singular values of the trained critics' interaction, median over runs."""

    def draw(ax: Axes) -> None:
        for name, runs in spectra.items():
            length = min(len(values) for values in runs)
            shares = np.array([np.array(values[:length]) / max(values[0], 1e-300) for values in runs])
            ax.plot(
                np.arange(1, length + 1), np.median(shares, axis=0), look[name].dash, color=look[name].colour
            )
        ax.set_yscale("log")
        ax.set_ylim(1e-6, 1.5)
        ax.set_xlim(1, 64)
        ax.set(xlabel="component", ylabel="singular value / largest")

    return Chart(
        "spectrum",
        "Rank spectra of the trained critics",
        "singular values of the value table's interaction, relative to the largest, median over runs",
        draw,
    )


def _slug(env: str) -> str:
    """Environment's id as a file name."""
    return re.sub(r"[^\w.-]", "-", env.rpartition(":")[2])
