"""Separable attention beside PyTorch's fused causal and plain attention; generation of 2,000 tokens.

Run it as `python tests/benchmarks/language_speed.py`. One thread; the three forms take turns, processor time,
medians. Peak memory is the process's own, one fresh process a form and length.
"""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from sna_rl.language.config import LMConfig
from sna_rl.language.model import SeparableLM
from sna_rl.runs import write_json
from sna_rl.runs.versions import versions
from sna_rl.separable.attention import causal_attention, positive_features

FOLDER = Path(__file__).parents[2] / "results" / "language" / "speed"
HEADS, SIZE, RANK = 4, 64, 64
TIMES = {256: 61, 2048: 9, 4096: 5}
MEMORY_TIMES = (1024, 2048, 4096, 8192)
TOKENS, PART = 2000, 100


def separable(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Rank-64 attention, its features included."""
    return causal_attention(positive_features(q), positive_features(k), v)


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """PyTorch's fused causal attention."""
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The definition, with the whole table."""
    scores = q @ k.mT / SIZE**0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    output: Tensor = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v
    return output


FORMS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "separable": separable, "fused": fused, "plain": plain
}  # fmt: skip


def inputs(time_steps: int) -> list[Tensor]:
    """Queries, keys and values that want gradients."""
    torch.manual_seed(0)
    return [torch.randn(1, HEADS, time_steps, SIZE, requires_grad=True) for _ in range(3)]


def speed() -> list[dict[str, float]]:
    """Milliseconds of forward and backward, medians of turns."""
    rows = []
    for length, turns in TIMES.items():
        leaves = inputs(length)
        upstream = torch.randn_like(leaves[2])
        taken: dict[str, list[float]] = {name: [] for name in FORMS}
        for turn in range(turns + 1):
            for name, form in FORMS.items():
                began = time.process_time()
                form(*leaves).backward(upstream)  # type: ignore[no-untyped-call]
                if turn:
                    taken[name].append(1e3 * (time.process_time() - began))
        medians = {name: statistics.median(each) for name, each in taken.items()}
        ratios = {
            f"{name}_over_separable": statistics.median(
                [a / b for a, b in zip(taken[name], taken["separable"], strict=True)]
            )
            for name in ("fused", "plain")
        }
        rows.append({"time": length, "turns": turns, **{f"{k}_ms": v for k, v in medians.items()}, **ratios})
    return rows


def peak(name: str, length: int) -> float:
    """Mebibytes that forward and backward add to this process's peak."""
    leaves = inputs(length)
    FORMS[name](*(leaf[:, :, :64] for leaf in leaves)).sum().backward()  # type: ignore[no-untyped-call]  # loads what is loaded once
    before = _kibibytes("VmRSS")
    FORMS[name](*leaves).sum().backward()  # type: ignore[no-untyped-call]
    return (_kibibytes("VmHWM") - before) / 1024


def _kibibytes(name: str) -> int:
    """A number of this process's memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def memory() -> list[dict[str, float]]:
    """Peak memory over time, each in a process of its own."""
    rows = []
    for length in MEMORY_TIMES:
        row: dict[str, float] = {"time": length}
        for name in FORMS:
            call = [sys.executable, __file__, "--peak", name, "--time", str(length)]
            done = subprocess.run(call, capture_output=True, text=True, check=True)
            row[f"{name}_MiB"] = float(done.stdout)
        rows.append(row)
    return rows


@torch.no_grad()
def generation(attention: str) -> list[dict[str, float]]:
    """Milliseconds and remembered numbers for each hundred tokens of 2,000."""
    torch.manual_seed(0)
    model = SeparableLM(LMConfig(256, TOKENS + 1, 128, 4, 4, rank=32, attention=attention)).eval()
    logits, cache = model.start(torch.zeros(1, 1, dtype=torch.long))
    rows = []
    for start in range(0, TOKENS, PART):
        taken = []
        for _ in range(PART):
            began = time.process_time()
            logits, cache = model.step(logits.argmax(-1), cache)
            taken.append(1e3 * (time.process_time() - began))
        numbers = sum(part.numel() for layer in cache.layers for part in layer)
        rows.append({"tokens": start + PART, "ms_a_token": statistics.median(taken), "remembered": numbers})
    return rows


def write(path: Path, rows: list[dict[str, float]]) -> None:
    """A table as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows([{k: round(v, 4) for k, v in row.items()} for row in rows])


def draw(tables: dict[str, list[dict[str, float]]], path: Path) -> None:
    """Time and memory over length, and time a token."""
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    colours = {"separable": "#2a6f97", "fused": "#c1121f", "plain": "#6c757d"}
    for name, colour in colours.items():
        for axis, table, unit in ((axes[0], "speed", "ms"), (axes[1], "memory", "MiB")):
            rows = tables[table]
            x, y = [row["time"] for row in rows], [row[f"{name}_{unit}"] for row in rows]
            axis.loglog(x, y, "o-", color=colour, label=name)
            axis.set_xticks(x, [f"{length:,.0f}" for length in x], minor=False)
            axis.set_xticks([], minor=True)
    lines = (("separable", "separable", "separable"), ("softmax with its cache", "softmax", "fused"))
    for label, table, colour in lines:
        rows = tables[f"generation_{table}"]
        x, y = [row["tokens"] for row in rows], [row["ms_a_token"] for row in rows]
        axes[2].plot(x, y, color=colours[colour], label=label)
    titles = ("forward + backward (ms)", "peak memory added (MiB)", "generation (ms a token)")
    labels = ("positions", "positions", "tokens generated")
    for axis, title, label in zip(axes, titles, labels, strict=True):
        axis.set_title(title)
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
        axis.legend()
    axes[2].set_ylim(bottom=0.0)
    figure.suptitle(f"{HEADS} heads of {SIZE}, rank {RANK}, one thread")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    parser.add_argument("--peak", choices=list(FORMS))
    parser.add_argument("--time", type=int)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.peak:
        print(peak(given.peak, given.time))
        return
    given.output.mkdir(parents=True, exist_ok=True)
    tables = {
        "speed": speed(),
        "memory": memory(),
        "generation_separable": generation("separable"),
        "generation_softmax": generation("softmax"),
    }
    for name, rows in tables.items():
        write(given.output / f"{name}.csv", rows)
    draw(tables, given.output / "speed.png")
    (given.output / "command").write_text(shlex.join(["python", *sys.argv]) + "\n")
    write_json(given.output / "versions.json", versions())
    print(json.dumps(tables["speed"], indent=1))


if __name__ == "__main__":
    main()
