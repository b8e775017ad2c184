"""Steps a second of every critic against Stable-Baselines3 and SBX, interleaved on one core.

Run `python tests/benchmarks/throughput.py --sbx VENV` on a quiet machine, VENV an environment with the extra
`bench` alone. Contenders are processes that train in turn, one at a time, on one core, for several rounds; a
ratio is taken within each round and given as median with quartiles. No ratio is printed if the correctness
tests fail. `--device cuda --rounds 3` gives the ratios to Stable-Baselines3 on one card in a few minutes.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from contender import CONTENDERS  # type: ignore[import-not-found]

from sna_rl.runs import versions

HERE = Path(__file__).parent
RIVALS = {"sac": ("sb3 sac", "sbx sac"), "td3": ("sb3 td3",), "dqn": ("sb3 dqn",)}
WITHIN = {"sac cp K=8": "sac cp", "sac mlp K=8": "sac mlp", "sac cp": "sac mlp"}
"""Contenders that are also held against one of ours."""
SCORES = {"sac cp linear": "sac cp linear, scaled", "sac cp": "sac cp mlp, LayerNorm", "sac mlp": "sac mlp"}
"""Row of results/first_runs/table.csv that has a contender's return at 100k steps."""
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


class Contender:
    """A process that trains one agent on demand.

    Args:
        name: key of `CONTENDERS`.
        python: interpreter to run it with.
        core: processor core it keeps to.
        device: "cpu" or "cuda".
    """

    def __init__(self, name: str, python: str, core: int, device: str) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [python, str(HERE / "contender.py"), name, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ONE_THREAD},
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
        self.facts = self.answer()

    def ask(self, command: str, n_steps: int) -> None:
        """Have it train."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command} {n_steps}\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Wait for what it says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with code {self.process.wait()}")
        values: dict[str, Any] = json.loads(line)
        return values

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def quartiles(values: list[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high}


def measure(contenders: list[Contender], rounds: int, n_steps: int, clock: str) -> dict[str, list[float]]:
    """Steps a second of each contender in each round; each round begins with another one."""
    rates: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for index in range(rounds):
        start = index % len(contenders)
        for contender in contenders[start:] + contenders[:start]:
            contender.ask("train", n_steps)
            rates[contender.name].append(n_steps / contender.answer()[clock])
    return rates


def ratios(rates: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Ratio of each of our contenders to its rivals, round by round."""
    rows = []
    for name in rates:
        rivals = RIVALS.get(name.split()[0], ())
        for rival in (*rivals, *([WITHIN[name]] if name in WITHIN else [])):
            if rival in rates:
                each = [mine / theirs for mine, theirs in zip(rates[name], rates[rival], strict=True)]
                rows.append({"contender": name, "against": rival, **quartiles(each)})
    return rows


def side_by_side(name: str, device: str, n_steps: int, rounds: int) -> dict[str, float]:
    """What two runs on two cores lose each against one alone."""
    pair = [Contender(name, sys.executable, core, device) for core in (0, 1)]
    losses = []
    for _ in range(rounds):
        pair[0].ask("train", n_steps)
        alone = pair[0].answer()["wall_seconds"]
        for contender in pair:
            contender.ask("train", n_steps)
        losses += [1.0 - alone / contender.answer()["wall_seconds"] for contender in pair]
    for contender in pair:
        contender.close()
    return quartiles(losses)


def scores(table: Path) -> dict[str, dict[str, str]]:
    """Return at 100k steps of one seed and CPU seconds for it, by contender, where they were measured."""
    if not table.exists():
        return {}
    with table.open() as file:
        rows = {row["row"]: row for row in csv.DictReader(file)}
    found = {name: rows.get(row, {}) for name, row in SCORES.items()}
    return {
        name: {"return_at_100k": row["100k"], "cpu_seconds_at_100k": row["cpu_seconds"]}
        for name, row in found.items()
        if row.get("100k")
    }


def check_correctness() -> None:
    """Refuse to go on where the fused updates don't equal the reference."""
    tests = ["tests/agents/fused", "-q", "-x", "-m", "not compiled and not slow", "--show-capture=no"]
    if subprocess.run([sys.executable, "-m", "pytest", *tests], cwd=HERE.parents[1], check=False).returncode:
        raise SystemExit("the correctness tests fail: no speed is reported")


def report(result: dict[str, Any]) -> str:
    """The result as Markdown tables."""
    lines = [
        "| contender | critic's parameters | steps/s | return at 100k, one seed | CPU s at 100k |",
        "|---|---|---|---|---|",
    ]
    for name, row in result["contenders"].items():
        rate, score = row["steps_per_second"], result["scores"].get(name, {})
        lines.append(
            f"| {name} | {row['critic_parameters'] or ''} | {rate['median']:.0f} "
            f"[{rate['low']:.0f}, {rate['high']:.0f}] | {score.get('return_at_100k', 'not measured')} "
            f"| {score.get('cpu_seconds_at_100k', 'not measured')} |"
        )
    lines += ["", "| contender | against | ratio of steps/s [quartiles] |", "|---|---|---|"]
    lines += [
        f"| {row['contender']} | {row['against']} "
        f"| {row['median']:.2f} [{row['low']:.2f}, {row['high']:.2f}] |"
        for row in result["ratios"]
    ]
    parts = ("environment", "inference", "sampling", "update", "loop")
    lines += ["", f"| share of CPU time | {' | '.join(parts)} |", "|---" * (len(parts) + 1) + "|"]
    for name, shares in result["shares"].items():
        lines.append(f"| {name} | {' | '.join(f'{shares.get(part, 0.0):.1%}' for part in parts)} |")
    if result["side_by_side"]:
        loss = result["side_by_side"]
        lines += [
            "",
            f"Two runs side by side lose {loss['median']:.1%} [{loss['low']:.1%}, {loss['high']:.1%}] each.",
        ]
    return "\n".join(lines)


def main() -> None:
    """Check, measure, write result.json and table.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1_000, help="environment steps a round and contender")
    parser.add_argument("--rows", nargs="*", default=list(CONTENDERS), choices=list(CONTENDERS))
    parser.add_argument("--sbx", type=Path, help="venv with the extra bench; without it SBX is not measured")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--scores", type=Path, default=Path("results/first_runs/table.csv"))
    parser.add_argument("--out", type=Path, default=Path("results/throughput"))
    arguments = parser.parse_args()
    check_correctness()
    on_card = arguments.device != "cpu"
    names = [
        name for name in arguments.rows if name != "sbx sac" or (arguments.sbx is not None and not on_card)
    ]
    contenders = []
    for name in names:
        python = str(arguments.sbx / "bin" / "python") if name == "sbx sac" else sys.executable
        contenders.append(Contender(name, python, 0, arguments.device))
        print(f"{name}: ready, {contenders[-1].facts}", file=sys.stderr, flush=True)
    clock = "wall_seconds" if on_card else "cpu_seconds"
    rates = measure(contenders, arguments.rounds, arguments.steps, clock)
    shares = {}
    for contender in contenders:
        contender.ask("shares", arguments.steps)
        shares[contender.name] = contender.answer()
        contender.close()
    pair = "sac cp" in names and not on_card and (os.cpu_count() or 1) > 1
    result = {
        "command": " ".join([Path(sys.executable).name, *sys.argv]),
        "versions": versions(),
        "device": arguments.device,
        "clock": clock,
        "contenders": {
            contender.name: {**contender.facts, "steps_per_second": quartiles(rates[contender.name])}
            for contender in contenders
        },
        "rates": rates,
        "ratios": ratios(rates),
        "shares": shares,
        "side_by_side": side_by_side("sac cp", "cpu", arguments.steps, arguments.rounds) if pair else None,
        "scores": scores(arguments.scores),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    suffix = "" if not on_card else f"-{arguments.device}"
    (arguments.out / f"result{suffix}.json").write_text(json.dumps(result, indent=1) + "\n")
    (arguments.out / f"table{suffix}.md").write_text(report(result) + "\n")
    print(report(result))


if __name__ == "__main__":
    main()
