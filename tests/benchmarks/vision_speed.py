"""Hyper-SET's layer against the transformer's of equal width, memory-linear attention against the plain.

Both sides of a ratio are timed in turn in one process, on one thread; medians over the rounds.

    python tests/benchmarks/vision_speed.py -o results/vision
"""

from __future__ import annotations

import argparse
import csv
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from sna_rl.runs import versions, write_json
from sna_rl.runs.allocator import keep_freed_memory
from sna_rl.vision.bisoftmax import memory_linear
from sna_rl.vision.config import ModelConfig
from sna_rl.vision.energies import plain_bisoftmax
from sna_rl.vision.recurrence import Recurrence


def seconds_in_turn(first: Callable[[], object], second: Callable[[], object], rounds: int) -> list[float]:
    """Median processor seconds of both, and of the ratio of each round's pair."""
    pairs = []
    for index in range(rounds + 2):
        pair = []
        for work in (first, second):
            began = time.process_time()
            work()
            pair.append(time.process_time() - began)
        if index > 1:
            pairs.append(pair)
    ratios = [left / right for left, right in pairs]
    return [statistics.median(column) for column in (*zip(*pairs, strict=True), ratios)]


def layer_work(model: str, width: int, tokens: int, batch: int) -> tuple[Callable[[], object], ...]:
    """One pass of four iterations forward, and one forward and backward."""
    torch.manual_seed(0)
    body = Recurrence(ModelConfig(model=model, width=width, hidden=4 * width, n_iterations=4))
    x = torch.randn(batch, tokens, width)

    def forward() -> None:
        with torch.no_grad():
            for _ in body.states(x):
                pass

    def both() -> None:
        *_, last = body.states(x)
        torch.autograd.backward(last.x.square().mean())

    return forward, both


def attention_work(form: Callable[[Tensor, float], Tensor], tokens: int) -> tuple[Callable[[], object], ...]:
    """The bi-softmax of eight heads of 32, forward, and forward and backward."""
    torch.manual_seed(0)
    z = torch.nn.functional.rms_norm(torch.randn(2, 4, tokens, 32), (32,)).requires_grad_()

    def forward() -> None:
        with torch.no_grad():
            form(z, 32**-0.5)

    def both() -> None:
        torch.autograd.backward(form(z, 32**-0.5).square().sum())

    return forward, both


def peak_mib(form: str, tokens: int) -> float:
    """Memory that one forward and backward pass adds to a process of its own, MiB."""
    answer = subprocess.run(
        [sys.executable, __file__, "--peak", form, str(tokens)], capture_output=True, text=True, check=True
    )
    return float(answer.stdout)


def print_peak(form: str, tokens: int) -> None:
    """Measure in this process."""
    attention_work(FORMS[form], 16)[1]()
    work = attention_work(FORMS[form], tokens)[1]
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = peak_kib()
    work()
    print((peak_kib() - before) / 1024)


def peak_kib() -> int:
    """Peak resident memory of this process, KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


FORMS: dict[str, Callable[[Tensor, float], Tensor]] = {"plain": plain_bisoftmax, "linear": memory_linear}


def main() -> None:
    """Write speed.csv, memory.csv and versions.json."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=Path, default=Path("results/vision"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peak", nargs=2, metavar=("FORM", "TOKENS"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.peak:
        print_peak(given.peak[0], int(given.peak[1]))
        return
    keep_freed_memory()  # as training does
    given.output.mkdir(parents=True, exist_ok=True)
    rows = []
    for width in (128, 256):
        sides = [layer_work(model, width, 81, 16) for model in ("hyper-set", "transformer")]
        for what, ours, theirs in zip(("forward", "forward and backward"), *sides, strict=True):
            seconds = seconds_in_turn(ours, theirs, given.rounds)
            rows.append([f"hyper-set / transformer, width {width}, 81 tokens", what, *seconds])
    for tokens in (256, 512, 1024):
        sides = [attention_work(FORMS[form], tokens) for form in ("linear", "plain")]
        for what, ours, theirs in zip(("forward", "forward and backward"), *sides, strict=True):
            seconds = seconds_in_turn(ours, theirs, given.rounds)
            rows.append([f"memory-linear / plain bi-softmax, {tokens} tokens", what, *seconds])
    with (given.output / "speed.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["pair", "pass", "first_seconds", "second_seconds", "ratio"])
        writer.writerows([*row[:2], *(f"{value:.4g}" for value in row[2:])] for row in rows)
    with (given.output / "memory.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["form", "tokens", "peak_mib"])
        for form in FORMS:
            for tokens in (512, 1024, 2048, 4096):
                if form == "linear" or tokens <= 2048:
                    writer.writerow([form, tokens, f"{peak_mib(form, tokens):.1f}"])
    write_json(given.output / "versions.json", versions())


if __name__ == "__main__":
    main()
