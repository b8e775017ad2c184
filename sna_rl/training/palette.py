"""Colours of every figure, safe for colour-blind readers, and settings that all figures share."""

from __future__ import annotations

from typing import Any, Final

INK: Final = "#1f2329"
LINE: Final = "#c9ced6"
GREYS: Final = ("#4a4f57", "#8b919b")
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#b45a93", "#56a8d8", "#c98600")
RC: Any = {
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
