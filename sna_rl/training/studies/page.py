"""The report as one HTML page that needs no network, no script and no other file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from sna_rl.training.palette import COLOURS, GREYS, INK, LINE
from sna_rl.training.studies.figures import Chart, Style
from sna_rl.training.studies.tables import Table

DARK_GREYS: Final = ("#d5d9e0", "#9aa1ac")
DARK_COLOURS: Final = ("#5cb3f0", "#ff8f4a", "#2fc79a", "#e79ac6", "#9bd4f5", "#f3c14b")
DASH_ARRAYS: Final = {"-": "none", "--": "6 3", "-.": "7 3 2 3", ":": "2 2"}


def _variables(ink: str, line: str, greys: Sequence[str], colours: Sequence[str]) -> str:
    named = {"--ink": ink, "--line": line}
    named |= {f"--grey-{n}": colour for n, colour in enumerate(greys)}
    named |= {f"--colour-{n}": colour for n, colour in enumerate(colours)}
    return ";".join(f"{name}:{colour}" for name, colour in named.items())


STYLE: Final = f"""
:root {{
  color-scheme: light dark;
  --page: #ffffff; --card: #f5f6f8; --accent: #0b57a4; --warn: #8a4b00;
  {_variables(INK, LINE, GREYS, COLOURS)}
}}
@media (prefers-color-scheme: dark) {{
  :root {{
    --page: #14171c; --card: #1e232b; --accent: #7ab8ff; --warn: #ffb866;
    {_variables("#e6e8ec", "#3b424d", DARK_GREYS, DARK_COLOURS)}
  }}
}}
@media (prefers-reduced-motion: no-preference) {{ html {{ scroll-behavior: smooth; }} }}
* {{ box-sizing: border-box; }}
body {{
  margin: 0 auto; max-width: 1500px; padding: 1rem clamp(0.75rem, 3vw, 3rem) 4rem;
  background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
}}
h1, h2, p, li, figcaption {{ overflow-wrap: anywhere; }}
h1 {{ font-size: 1.5rem; margin: 0.5rem 0; }}
h2 {{ font-size: 1.15rem; margin: 2rem 0 0.25rem; }}
p {{ margin: 0.25rem 0 0.75rem; max-width: 75ch; }}
.verdict {{
  font-size: 1.15rem; max-width: none; padding: 0.75rem 1rem; background: var(--card);
  border-left: 4px solid var(--accent); border-radius: 0 6px 6px 0;
}}
.warnings {{ color: var(--warn); padding-left: 1.25rem; }}
.legend {{
  display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; padding: 0.5rem 0; margin: 0; list-style: none;
  position: sticky; top: 0; z-index: 1; max-height: 30vh; overflow-y: auto; font-size: 0.9rem;
  background: var(--page); border-bottom: 1px solid var(--line);
}}
.legend svg {{ width: 2.2rem; height: 0.8rem; vertical-align: middle; margin-right: 0.4rem; }}
.charts {{
  display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr));
}}
figure {{ margin: 0; background: var(--card); border-radius: 6px; padding: 0.5rem 0.75rem; }}
figure svg {{ width: 100%; height: auto; display: block; }}
figure text {{ font-family: system-ui, sans-serif !important; }}
figcaption {{ font-weight: 600; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }}
th, td {{
  padding: 0.3rem 0.75rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap;
}}
th:first-child, th:last-child:nth-child(2), td:last-child:nth-child(2) {{ text-align: left; }}
pre {{
  background: var(--card); padding: 0.75rem; overflow-x: auto; border-radius: 6px; font-size: 0.85rem;
}}
summary {{ cursor: pointer; font-weight: 600; margin-top: 1rem; }}
:focus-visible {{ outline: 2px solid var(--accent); }}
"""


def page(
    title: str,
    verdict: str,
    warnings: Iterable[str],
    looks: Mapping[str, Style],
    charts: Iterable[Chart],
    tables: Iterable[Table],
    details: Mapping[str, str],
) -> str:
    """Put a report together, the verdict first.

    Args:
        title: heading.
        verdict: the answer in one sentence.
        warnings: what to know before believing it.
        looks: arms of the legend.
        charts: drawn in this order.
        tables: shown in this order.
        details: text blocks by heading (commands, versions), folded.

    Returns:
        The page.
    """
    listed = "".join(f"<li>{escape(warning)}</li>" for warning in warnings)
    legend = "".join(f"<li>{_swatch(look)}{escape(name)}</li>" for name, look in looks.items())
    figures = "".join(
        f"<figure><figcaption>{escape(chart.title)}</figcaption>{chart.svg()}</figure>" for chart in charts
    )
    folded = "".join(
        f"<details><summary>{escape(heading)}</summary><pre>{escape(text)}</pre></details>"
        for heading, text in details.items()
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{STYLE}</style></head><body>'
        f'<header><h1>{escape(title)}</h1><p class="verdict">{escape(verdict)}</p>'
        f"{f'<ul class=warnings>{listed}</ul>' if listed else ''}</header>"
        f'<main><ul class="legend" aria-label="arms">{legend}</ul><h2>Charts</h2>'
        "<p>Bands and bars are 95 % stratified bootstrap intervals; lines are interquartile means.</p>"
        f'<div class="charts">{figures}</div>{"".join(table.html() for table in tables)}{folded}</main>'
        "</body></html>\n"
    )


def _swatch(look: Style) -> str:
    """Piece of an arm's line for the legend."""
    shades = [*((colour, f"--grey-{n}") for n, colour in enumerate(GREYS))]
    shades += [(colour, f"--colour-{n}") for n, colour in enumerate(COLOURS)]
    return (
        '<svg viewBox="0 0 36 12" aria-hidden="true"><line x1="0" y1="6" x2="36" y2="6" stroke-width="3" '
        f'stroke="var({dict(shades)[look.colour]})" stroke-dasharray="{DASH_ARRAYS[look.dash]}"/></svg>'
    )
