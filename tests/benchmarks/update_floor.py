"""What bounds a compiled update: its matrix products alone beside the whole of it.

Run it as `python -m tests.benchmarks.update_floor`. Every product of an update's graph is timed by itself,
on tensors of the same shapes, strides and kinds; their sum is what no fusion and no compiler can take away.
The whole update and its products take turns in one process on one thread. Figures go to
results/throughput/floor.csv.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import fx

from sna_rl.agents import ALGORITHMS
from sna_rl.agents.fused import update
from sna_rl.agents.fused.graph import PRODUCTS
from tests.benchmarks.throughput import ARMS, CHEETAH, ROOT

CHOSEN = (
    "SAC mlp",
    "SAC mlp, bf16",
    "SAC cp, basic form",
    "SAC cp, two layers",
    "SAC cp, two layers, bf16",
    "TD3 cp, two layers",
)
STARTS = 300
CALLS = 20


Products = tuple[list[Callable[[], Any]], float]
"""Calls that repeat a graph's products, and their floating-point operations in units of 10^9."""


def prepared(name: str) -> tuple[Any, list[Products]]:
    """An agent with a compiled update and some transitions, and the products of its graphs."""
    found: list[Products] = []
    module: Any = update
    compile_ = module.compiled

    def remember(graph: fx.GraphModule, tensors: Any, label: str) -> Any:
        found.append(products(graph))
        return compile_(graph, tensors, label)

    module.compiled = remember
    arm = ARMS[name]
    agent = ALGORITHMS[arm["algo"]](
        "SNAPolicy",
        CHEETAH,
        update="compiled",
        policy_kwargs=arm["policy_kwargs"],
        batch_size=256,
        buffer_size=10_000,
        learning_starts=STARTS,
        seed=1,
        **arm["options"],
    )
    agent.learn(STARTS + 10)
    module.compiled = compile_
    return agent, found


def products(graph: fx.GraphModule) -> Products:
    """The products of a graph that has not been compiled yet."""
    calls: list[Callable[[], Any]] = []
    operations = 0.0
    for node in graph.graph.nodes:
        if node.target in PRODUCTS:
            tensors = [like(argument) for argument in node.args]
            calls.append(partial(node.target, *tensors))
            operations += 2e-9 * tensors[-2].numel() * tensors[-1].shape[-1]
    return calls, operations


def like(node: Any) -> torch.Tensor:
    """Numbers with a node's shape, strides and kind; what rounds a tensor is described by its source."""
    kind = node.kwargs.get("dtype")
    example = node.meta["val"] if "val" in node.meta else node.args[0].meta["val"]
    last = sum((size - 1) * stride for size, stride in zip(example.shape, example.stride(), strict=True))
    numbers = torch.randn(last + 1).to(kind or example.dtype)
    return numbers.as_strided(example.shape, example.stride())


def milliseconds(work: Callable[[], Any]) -> float:
    """Processor milliseconds of one call, the mean of several."""
    began = time.process_time()
    for _ in range(CALLS):
        work()
    return 1e3 * (time.process_time() - began) / CALLS


def measure(name: str, n_rounds: int) -> dict[str, Any]:
    """One row of the table: medians over rounds."""
    agent, parts = prepared(name)

    def repeat() -> None:
        for calls, _ in parts:
            for call in calls:
                call()

    with torch.no_grad():
        repeat()
        turns = [
            (milliseconds(lambda: agent.train(len(parts), 256)), milliseconds(repeat))
            for _ in range(n_rounds)
        ]
    whole, alone = np.median(np.array(turns), axis=0) / len(parts)
    operations = sum(each for _, each in parts) / len(parts)
    return {
        "arm": name,
        "update_ms": round(float(whole), 2),
        "products_ms": round(float(alone), 2),
        "products_share": round(float(alone / whole), 2),
        "gflop": round(operations, 3),
        "gflop_per_second": round(1e3 * operations / float(alone), 0),
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "results" / "throughput" / "floor.csv")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure(name, arguments.rounds) for name in CHOSEN]
    with arguments.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print(*row.values(), sep="\t")


if __name__ == "__main__":
    main()
