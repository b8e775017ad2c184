"""Processor seconds that compiling an algorithm's graphs takes, with an empty cache and with a full one.

Run it as `python tests/benchmarks/compile_seconds.py`. Every measurement is a process of its own, the C++
compiler's time is counted, importing is not.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from sna_rl.agents import ALGORITHMS
from sna_rl.runs import versions, write_json

FOLDER = Path(__file__).parents[2] / "results" / "throughput"
ENVS = {"sac": "HalfCheetah-v5", "td3": "HalfCheetah-v5", "dqn": "CartPole-v1"}
CRITICS = ("mlp", "cp")


def spent() -> float:
    """Processor seconds of this process and of those it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measured(algo: str, critic: str) -> float:
    """Seconds to settle the form of the update."""
    agent = ALGORITHMS[algo]("SNAPolicy", ENVS[algo], update="compiled", policy_kwargs={"critic": critic})
    began = spent()
    assert agent.choose_update(100_000) == "compiled"
    return spent() - began


def main() -> None:
    """Measure and write the table; with --one, print one measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    parser.add_argument("--one", nargs=2, metavar=("ALGO", "CRITIC"))
    given = parser.parse_args()
    if given.one:
        print(measured(*given.one))
        return
    rows = []
    for algo in ENVS:
        for critic in CRITICS:
            with tempfile.TemporaryDirectory() as cache:
                environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
                command = [sys.executable, __file__, "--one", algo, critic]
                times = [
                    float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
                    for _ in range(2)
                ]
            rows.append([algo, critic, *(f"{seconds:.1f}" for seconds in times)])
            print(*rows[-1], flush=True)
    with (given.output / "compile.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["algo", "critic", "cold_cpu_seconds", "warm_cpu_seconds"])
        writer.writerows(rows)
    write_json(given.output / "compile_versions.json", versions())


if __name__ == "__main__":
    main()
