"""Whole training loops side by side: sna_rl per critic, Stable-Baselines3, SBX; one thread each.

    python -m venv sbx && sbx/bin/pip install -c constraints.txt sbx-rl jax 'gymnasium[mujoco]'
    python tests/benchmarks/throughput.py --sbx-python sbx/bin/python

Every arm is a process that waits while others train; they take turns, round by round, on one core, so that
a disturbance meets all alike. Ratios of steps a CPU second are taken within a round. Nothing is printed
unless the fused updates pass their equality tests. The figures go to results/throughput/.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from sna_rl.runs.versions import versions

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).with_name("throughput_worker.py")
EQUALITY = ["tests/agents/fused/test_equality.py", "tests/agents/fused/test_options.py"]
CHEETAH, CARTPOLE = "HalfCheetah-v5", "CartPole-v1"


def arm(
    library: str,
    algo: str,
    critic: dict[str, Any] | None = None,
    first_run: str = "",
    **options: Any,
) -> dict[str, Any]:
    """An arm as its worker reads it; `first_run` is the row of results/first_runs with this critic."""
    return {
        "library": library,
        "algo": algo,
        "env": CARTPOLE if algo == "dqn" else CHEETAH,
        "policy_kwargs": critic or {},
        "options": options,
        "first_run": first_run,
    }


CP: dict[str, Any] = {"critic": "cp", "rank": 32, "factor": "mlp", "layer_norm": True}
BASIC: dict[str, Any] = {"critic": "cp", "rank": 32, "factor": "linear"}
MLP: dict[str, Any] = {"critic": "mlp"}
ARMS = {
    "Stable-Baselines3 SAC": arm("sb3", "sac", first_run="sac mlp"),
    "SBX SAC": arm("sbx", "sac"),
    "SAC mlp": arm("ours", "sac", MLP, "sac mlp"),
    "SAC mlp, bf16": arm("ours", "sac", MLP, precision="bf16"),
    "SAC cp, basic form": arm("ours", "sac", BASIC, "sac cp linear, scaled"),
    "SAC cp, two layers": arm("ours", "sac", CP, "sac cp mlp, LayerNorm"),
    "SAC cp, two layers, bf16": arm("ours", "sac", CP, precision="bf16"),
    "SAC cp, 8 target actions": arm("ours", "sac", CP, n_target_actions=8),
    "SAC mlp, 8 target actions": arm("ours", "sac", MLP, n_target_actions=8),
    "Stable-Baselines3 TD3": arm("sb3", "td3"),
    "TD3 cp, two layers": arm("ours", "td3", CP, "td3 cp mlp, LayerNorm"),
    "Stable-Baselines3 DQN": arm("sb3", "dqn"),
    "DQN mlp": arm("ours", "dqn", MLP),
    "DQN cp": arm("ours", "dqn", CP, "dqn cp, CartPole-v1"),
}
TWIN = "SAC cp, two layers"
"""The arm whose second copy runs beside it on another core."""


class Worker:
    """A process that trains one arm when asked to.

    Args:
        description: of the arm.
        python: interpreter to run it with.
        core: processor to stay on, or None.
        errors: file that takes what the worker writes to its standard error.
    """

    def __init__(self, description: dict[str, Any], python: Path, core: int | None, errors: Path) -> None:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
            "JAX_PLATFORMS": "cpu",
        }
        with errors.open("a") as log:
            self.process = subprocess.Popen(
                [python, WORKER, json.dumps({**description, "core": core})],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
            )
        self.errors = errors

    def read(self) -> dict[str, Any]:
        """The worker's next line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"a worker ended early; see {self.errors}")
        figures: dict[str, Any] = json.loads(line)
        return figures

    def ask(self, **request: Any) -> None:
        """Start a round."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def round(self, **request: Any) -> dict[str, Any]:
        """One round's figures."""
        self.ask(**request)
        return self.read()

    def close(self) -> None:
        """Let the process end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def correct() -> bool:
    """Whether the fused updates equal the reference."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not compiled", *EQUALITY]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print("equality tests:", done.stdout.strip().splitlines()[-1], flush=True)
    return done.returncode == 0


def measure(arguments: argparse.Namespace, errors: Path) -> dict[str, Any]:
    """Figures of every arm: its start, its rounds, its shares of time."""
    chosen = {
        name: each
        for name, each in ARMS.items()
        if (not arguments.arms or name in arguments.arms)
        and (each["library"] != "sbx" or arguments.sbx_python)
    }
    workers: dict[str, Worker] = {}
    figures: dict[str, Any] = {}

    def start(name: str, core: int) -> Worker:
        python = arguments.sbx_python if chosen[name]["library"] == "sbx" else Path(sys.executable)
        return Worker(chosen[name], python, core, errors)

    for name in chosen:
        workers[name] = start(name, arguments.core)
        figures[name] = {"start": workers[name].read(), "rounds": []}
        print(f"{name}: ready after {figures[name]['start']['first_seconds']:.0f} s", flush=True)
    take_turns(workers, figures, arguments.rounds, arguments.steps)
    if TWIN in workers and len(os.sched_getaffinity(0)) > 1:
        figures[TWIN]["twin"] = side_by_side(
            workers[TWIN], start(TWIN, arguments.other_core), arguments.steps
        )
    for name, worker in workers.items():
        figures[name]["shares"] = worker.round(steps=arguments.steps, profile=True)["shares"]
        worker.close()
    return figures


def take_turns(workers: dict[str, Worker], figures: dict[str, Any], n_rounds: int, n_steps: int) -> None:
    """Let every arm train in each round, another one first each time."""
    names = list(workers)
    for index in range(n_rounds):
        first = index % len(names)
        for name in names[first:] + names[:first]:
            figures[name]["rounds"].append(workers[name].round(steps=n_steps))
        print(f"round {index + 1} of {n_rounds}", flush=True)


def side_by_side(first: Worker, second: Worker, steps: int) -> dict[str, float]:
    """Steps/s of two runs on two cores, each alone and both at once."""
    second.read()
    alone = [worker.round(steps=steps)["seconds"] for worker in (first, second)]
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda worker: worker.round(steps=steps)["seconds"], (first, second)))
    second.close()
    losses = [1.0 - before / after for before, after in zip(alone, both, strict=True)]
    return {"loss_first": losses[0], "loss_second": losses[1]}


def speeds(figures: dict[str, Any], seconds: str = "seconds") -> np.ndarray:
    """Steps per second of an arm, one a round."""
    return np.array([each["steps"] / each[seconds] for each in figures["rounds"]])


def ratio(ours: dict[str, Any], theirs: dict[str, Any] | None, seconds: str = "cpu_seconds") -> str:
    """Median and quartiles, over rounds, of one arm's steps a CPU second, or a second, by another's."""
    if theirs is None:
        return "not measured"
    ratios = speeds(ours, seconds) / speeds(theirs, seconds)
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def learned(path: Path) -> dict[str, dict[str, str]]:
    """Rows of the study of first runs by name, if it is there."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {row["row"]: row for row in csv.DictReader(file)}


def steps_to(row: dict[str, str], goal: float) -> int | None:
    """Environment steps at which a run's curve first reaches a return."""
    points = {key: value for key, value in row.items() if key.endswith("k") and key[:-1].isdigit() and value}
    reached = [int(key[:-1]) * 1000 for key, value in points.items() if float(value) >= goal]
    return min(reached, default=None)


def tabulate(figures: dict[str, Any], first_runs: dict[str, dict[str, str]]) -> list[dict[str, Any]]:
    """One line an arm, as table.csv holds them."""
    goal = first_runs.get("sac mlp", {}).get("100k")
    lines = []
    for name, found in figures.items():
        each = ARMS[name]
        algo = each["algo"].upper()
        row = first_runs.get(each["first_run"], {})
        seconds_a_step = 1.0 / float(np.median(speeds(found, "cpu_seconds")))
        reached = steps_to(row, float(goal)) if goal and algo == "SAC" and row else None
        lines.append(
            {
                "arm": name,
                "form": found["start"]["form"],
                "critic_parameters": found["start"]["parameters"],
                "steps_per_second": round(float(np.median(speeds(found))), 1),
                "cpu_ms_per_step": round(1000.0 * seconds_a_step, 2),
                "by_stable_baselines3": ratio(found, figures.get(f"Stable-Baselines3 {algo}")),
                "by_sbx": ratio(found, figures.get("SBX SAC")) if algo == "SAC" else "not measured",
                "first_seconds": round(found["start"]["first_seconds"], 1),
                **{f"share_{key}": round(value, 3) for key, value in found["shares"].items()},
                "return_at_100k": row.get("100k") or "not measured",
                "cpu_minutes_to_the_mlp_s_100k": (
                    round(reached * seconds_a_step / 60.0, 1)
                    if reached
                    else "not reached"
                    if row
                    else "not measured"
                ),
            }
        )
    return lines


def costs(figures: dict[str, Any]) -> dict[str, Any]:
    """Cost of eight target actions, and what two runs side by side lose."""
    found = {}
    for critic, one in (("cp", TWIN), ("mlp", "SAC mlp")):
        eight = f"SAC {critic}, 8 target actions"
        if one in figures and eight in figures:
            found[f"{critic}_time_of_8_target_actions_by_1"] = ratio(figures[one], figures[eight])
    if "twin" in figures.get(TWIN, {}):
        found |= {f"side_by_side_{key}": round(value, 3) for key, value in figures[TWIN]["twin"].items()}
    return found


def write(out: Path, record: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    """Write throughput.json, table.csv, command and README.md."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "throughput.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    (out / "versions.json").write_text(json.dumps(record["versions"], indent=1) + "\n")
    (out / "command").write_text(record["command"] + "\n")
    with (out / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, max(lines, key=len).keys(), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    (out / "README.md").write_text(page(record, lines))


def page(record: dict[str, Any], lines: list[dict[str, Any]]) -> str:
    """The page beside the figures."""
    columns = {
        "arm": "arm",
        "critic_parameters": "critic's parameters",
        "steps_per_second": "steps/s",
        "cpu_ms_per_step": "CPU ms a step",
        "by_stable_baselines3": "× Stable-Baselines3",
        "by_sbx": "× SBX",
        "return_at_100k": "return at 100k, one seed",
        "cpu_minutes_to_the_mlp_s_100k": "CPU min to the MLP's score at 100k",
    }
    table = ["| " + " | ".join(columns.values()) + " |", "|---" * len(columns) + "|"]
    table += ["| " + " | ".join(str(line[key]) for key in columns) + " |" for line in lines]
    memory, on = record["memory"], record["versions"]
    return "\n".join(
        [
            "# Throughput",
            "",
            f"`{record['command']}`, commit {on['commit']}, {on['processor']}, one thread an arm.",
            "",
            f"Whole training loops, environment included: SAC and TD3 on {CHEETAH} (batch 256), DQN on "
            f"{CARTPOLE} (batch 64), one update a step; {record['rounds']} rounds of {record['steps']} steps "
            "in turn on one core. Ratios of steps a CPU second: median (quartiles) over rounds. A critic "
            "that learns less is not faster: its return stands beside it. Shares of time in environment, "
            "inference, sampling and "
            "update are in `table.csv`; SBX's are blurred by its asynchronous calls.",
            "",
            *table,
            "",
            *(f"- {key.replace('_', ' ')}: {value}" for key, value in record["costs"].items()),
            "- replay buffer, a million transitions of Humanoid-v5 in episodes of "
            f"{memory['episode']}: resident memory grew by {memory['growth_bytes'] / 1e9:.2f} GB; "
            f"Stable-Baselines3's arrays hold {memory['plain_bytes'] / 1e9:.2f} GB.",
            "- what bounds an update: `floor.csv`, by `python -m tests.benchmarks.update_floor`; what "
            "compiling takes: `compile.csv`, by `python tests/benchmarks/compile_seconds.py`.",
            "- GPU: not measured; `python -m tests.benchmarks.throughput_cuda` does it on a machine with a "
            "card.",
            "",
        ]
    )


def main() -> None:
    """Test, measure, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sbx-python", type=Path, help="interpreter of an environment that holds sbx-rl")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1000, help="environment steps a round and arm")
    parser.add_argument("--arms", nargs="*", choices=list(ARMS), help="these alone")
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    parser.add_argument("--other-core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--first-runs", type=Path, default=ROOT / "results/first_runs/table.csv")
    parser.add_argument("--out", type=Path, default=ROOT / "results/throughput")
    arguments = parser.parse_args()
    if not correct():
        sys.exit("the fused updates differ from the reference: no speed-up is measured")
    arguments.out.mkdir(parents=True, exist_ok=True)
    errors = arguments.out / "workers.log"
    memory = Worker({"memory": True}, Path(sys.executable), arguments.core, errors)
    filled = memory.read()
    memory.close()
    figures = measure(arguments, errors)
    errors.unlink()
    lines = tabulate(figures, learned(arguments.first_runs))
    record = {
        "command": " ".join(["python", "tests/benchmarks/throughput.py", *sys.argv[1:]]),
        "versions": versions(),
        "rounds": arguments.rounds,
        "steps": arguments.steps,
        "memory": filled,
        "costs": costs(figures),
        "arms": figures,
    }
    write(arguments.out, record, lines)
    print((arguments.out / "README.md").read_text())


if __name__ == "__main__":
    main()
