"""Does decoupling state and constraint help on word problems? Paired arms: same data, same seed, same steps.

    python tests/benchmarks/language_arcade.py choose    # difficulty, then λ × learning rate, on seed 100
    python tests/benchmarks/language_arcade.py           # all arms, five seeds, the first two 25; then report
    python tests/benchmarks/language_arcade.py report    # costs, and report.md of the rows that stand

Rows that stand in a table are not computed again, so that a study which was stopped goes on.
"""

from __future__ import annotations

import argparse
import copy
import re
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from sna_rl.language.arcade import ArcadeLM, Halves
from sna_rl.language.exact_match import exact_match, rows_of
from sna_rl.language.losses import LanguageModel, model_loss
from sna_rl.language.reasoning import KINDS, Problem, answer_of, problems
from sna_rl.language.running import TEST_SEED, make_model, make_optimizer
from sna_rl.language.selectivity import answering
from sna_rl.language.settings import LMSettings
from sna_rl.language.study import in_turns, paired
from sna_rl.language.tasks import ProblemTask
from sna_rl.language.tokens import BPETokens
from sna_rl.runs import write_json
from sna_rl.runs.fit import fit
from sna_rl.runs.rows import Rows
from sna_rl.runs.versions import versions

FOLDER = Path(__file__).parents[2] / "results" / "language" / "arcade"
N_STEPS, N_TUNING = 1000, 500  # steps on one kind of problem, then on the other
LARGEST, LEARNING_RATE = 50, 3e-3  # chosen on seed 100: difficulty.csv, grid.csv
CHOICE_SEED, SEEDS, MORE_SEEDS = 100, range(5), range(5, 25)  # more for the first two arms alone
LEVELS = (9, 20, 50)
STRENGTHS, RATES = (0.0, 0.1, 0.3, 1.0), (1.5e-3, 3e-3, 6e-3)
N_PROBLEMS, N_TEST, N_FEWER = 20_000, 2_000, 400
COMMON: dict[str, Any] = {
    "model": "arcade", "vocab_size": 400, "width": 64, "n_layers": 2, "rank": 16, "n_positions": 64,
    "embedding": "table", "batch_size": 32, "eval_freq": 0, "save_freq": 0,
}  # fmt: skip
BASE = "no penalty"
FIRST, SECOND = "arithmetic", "conditional"  # kinds: of every arm, of the arms of the transfer besides
ARMS: dict[str, dict[str, Any]] = {
    BASE: {"strength": 0.0},
    "cross-moment": {"strength": 0.3},
    "per-token": {"strength": 0.3, "penalty": "per-token"},
    "shuffled split": {"strength": 0.3, "shuffled": True},
    "no routing": {"strength": 0.3, "routed": False},
    "ratio 3:1": {"strength": 0.3, "ratio": "3:1"},
    "plain decoder": {"model": "separable"},
}
TRANSFER = (BASE, "cross-moment")  # arms that are tuned on the other kind afterwards
SCORES = [f"exact_{kind}{held}" for kind in KINDS for held in ("", "_held_out")]
TUNED = [f"tuned_{kind}" for kind in KINDS]
UNITS = ["units_state", "units_rule", "units_both"]
INSIDE = ["constraint_rms", "state_rms", "constraint_rank", "subspace_similarity"]
MOST = 3.0  # half width of an interval, in points, beyond which a table says "no power"
TURNS = 20


@cache
def vocabulary() -> BPETokens:
    """One for all runs: pairs of both kinds of problem."""
    drawn = [problem for kind in KINDS for problem in problems(kind, 4000, seed=0, largest=max(LEVELS))]
    return BPETokens.train("".join(each.prompt + each.completion for each in drawn), COMMON["vocab_size"])


def tests(seed: int, largest: int, kinds: Sequence[str]) -> dict[str, list[Problem]]:
    """Problems that no run of the seed learns from, many of these kinds, fewer of the others and held out."""
    return {
        f"{kind}{'_held_out' if held_out else ''}": problems(
            kind,
            N_TEST if kind in kinds and not held_out else N_FEWER,
            seed=seed + TEST_SEED,
            largest=largest,
            held_out=held_out,
        )
        for kind in KINDS
        for held_out in (False, True)
    }


def trained(
    changes: dict[str, Any], kind: str, seed: int, largest: int = LARGEST, start: LanguageModel | None = None
) -> tuple[LanguageModel, float]:
    """A model after its steps on one kind, or on the other after those; processor seconds of the steps."""
    n_steps = N_STEPS if start is None else N_TUNING
    settings = LMSettings().changed(COMMON | {"learning_rate": LEARNING_RATE} | changes
                                    | {"seed": seed, "n_steps": n_steps})  # fmt: skip
    model = make_model(settings) if start is None else copy.deepcopy(start)
    train = problems(kind, N_PROBLEMS, seed=seed, largest=largest)
    task = ProblemTask(model, train, {kind: train[:1]}, vocabulary(), settings.fit, settings.learn.batch_size)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        fit(model, make_optimizer(model, settings.learn), task, settings.fit, Path(folder), progress=False)
    return model.eval(), time.process_time() - began


def scored(
    model: LanguageModel, seed: int, kinds: Sequence[str] = (FIRST,), largest: int = LARGEST
) -> dict[str, float]:
    """Share of exact answers to each kind."""
    ahead = isinstance(model, ArcadeLM)
    return {
        f"exact_{name}": exact_match(model, each, vocabulary(), look_ahead=ahead)
        for name, each in tests(seed, largest, kinds).items()
    }


def rule(problem: Problem) -> int | None:
    """Which branch is taken, or which operation asked for; None where the answer does not tell."""
    if found := re.search(r"then \w = (\d+) else \w = (\d+)", problem.question):
        return None if found[1] == found[2] else int(found[1] == answer_of(problem.answer))
    return next(number for number, word in enumerate(("more", "lost", "boxes")) if word in problem.question)


@torch.no_grad()
def units(model: LanguageModel, asked: Sequence[Problem]) -> dict[str, float]:
    """Shares of the head's inputs that answer to the next token, to the rule, to both.

    They are looked at where the answer's number is predicted. A branch is independent of the number; an
    operation is not quite, so that some units of arithmetic answer to both in any model.
    """
    told = [(each, which) for each in asked if (which := rule(each)) is not None]
    rows = rows_of([each for each, _ in told], vocabulary(), model.config.n_positions)
    digits = torch.tensor(
        [any(map(str.isdigit, vocabulary().decode([t]))) for t in range(COMMON["vocab_size"])]
    )
    place = (rows.scored & digits[rows.tokens]).int().argmax(1)
    if isinstance(model, ArcadeLM):
        halves = model.halves(rows.tokens[:, :-1], rows.prompt)
        normed = Halves(*(model.norms[name](half) for name, half in halves._asdict().items()))
        hidden = torch.cat(normed, -1)
    else:
        hidden = model.hidden(rows.tokens[:, :-1])
    index = torch.arange(len(told))
    shares = answering(
        hidden[index, place - 1], rows.tokens[index, place], torch.tensor([which for _, which in told])
    )
    return dict(zip(UNITS, shares.values(), strict=True))


def inside(model: LanguageModel, changes: dict[str, Any], kind: str, seed: int) -> dict[str, float]:
    """What became of the halves."""
    if not isinstance(model, ArcadeLM):
        return {}
    settings = LMSettings().changed(COMMON | changes | {"seed": seed, "n_steps": 1})
    asked = problems(kind, 64, seed=seed + TEST_SEED, largest=LARGEST)
    task = ProblemTask(model, asked, {kind: asked[:1]}, vocabulary(), settings.fit, 32)
    return {name: value for name, value in task.evaluate().items() if name in INSIDE}


def row_of(arm: str, kind: str, seed: int) -> dict[str, float]:
    """One arm of one seed, on one kind of problem and, where asked, on the other afterwards."""
    changes = ARMS[arm]
    model, seconds = trained(changes, kind, seed)
    kinds = KINDS if arm in TRANSFER else (kind,)
    row = scored(model, seed, kinds) | inside(model, changes, kind, seed) | {"cpu_seconds": seconds}
    row |= {"n_parameters": sum(parameter.numel() for parameter in model.parameters())}
    row |= units(model, tests(seed, LARGEST, kinds)[kind])
    if arm in TRANSFER:
        other = next(each for each in KINDS if each != kind)
        after = scored(trained(changes, other, seed, start=model)[0], seed, KINDS)
        row |= {f"tuned_{each}": after[f"exact_{each}"] for each in KINDS}
    return {name: round(value, 4) for name, value in row.items()}


def choose(folder: Path) -> None:
    """Tables of the choices: difficulty without a penalty, then λ × learning rate at the chosen one."""
    difficulty = Rows(folder / "difficulty.csv", ["largest"])
    for largest in LEVELS:
        if difficulty.find(largest=largest) is None:
            model, _ = trained(ARMS[BASE], FIRST, CHOICE_SEED, largest)
            difficulty.add({"largest": largest, **scored(model, CHOICE_SEED, largest=largest)})
    grid = Rows(folder / "grid.csv", ["strength", "learning_rate"])
    for rate in RATES:
        for strength in STRENGTHS:
            if grid.find(strength=strength, learning_rate=rate) is None:
                changes = {"strength": strength, "learning_rate": rate}
                model, _ = trained(changes, FIRST, CHOICE_SEED)
                grid.add({**changes, **scored(model, CHOICE_SEED)})


def cost() -> dict[str, float]:
    """Processor milliseconds of a training step and of a greedy answer, with λ over without, in turns."""
    steps, answers = [], []
    asked = problems(FIRST, 500, seed=0, largest=LARGEST)
    for arm in (BASE, "cross-moment"):
        settings = LMSettings().changed(COMMON | ARMS[arm] | {"n_steps": 1})
        model = make_model(settings)
        task = ProblemTask(model, asked, {FIRST: asked[:1]}, vocabulary(), settings.fit, 32)
        optimizer, batch = make_optimizer(model, settings.learn), task.batch(0)

        def step(model: LanguageModel = model, optimizer: Any = optimizer, batch: Any = batch) -> None:
            loss, _ = model_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

        def answer(model: LanguageModel = model) -> None:
            exact_match(model, asked[:16], vocabulary(), look_ahead=True)

        steps.append(step)
        answers.append(answer)
    said: dict[str, float] = {}
    for name, works in (("training", steps), ("inference", answers)):
        without, penalised = in_turns(works, TURNS)
        said |= {
            f"{name}_ms_without": statistics.median(without),
            f"{name}_ms_with": statistics.median(penalised),
            f"{name}_ratio": statistics.median(b / a for a, b in zip(without, penalised, strict=True)),
        }
    return said


def difference(rows: list[dict[str, str]], column: str, arm: str, base: str) -> str:
    """Cell of a table: an arm's mean, its paired difference to another arm in points, what that is worth."""
    values = {
        name: {
            row["seed"]: 100 * float(row[column]) for row in rows if row["arm"] == name and row.get(column)
        }
        for name in (arm, base)
    }
    seeds = sorted(values[arm].keys() & values[base].keys())
    if arm == base or len(seeds) < 2:
        return "–"
    found = paired([values[arm][seed] for seed in seeds], [values[base][seed] for seed in seeds])
    middle = statistics.fmean(values[base][seed] for seed in seeds)
    power = found.half_width <= MOST and 20.0 <= middle <= 80.0
    clear = "differs" if found.low > 0 or found.high < 0 else "no difference seen"
    return f"{found.mean:+.1f} ({found.low:+.1f} to {found.high:+.1f}), {clear if power else 'no power'}"


def report(table: Rows) -> str:
    """Means and paired differences as Markdown, per cent and points."""
    lines = []
    for kind in (FIRST, SECOND):
        rows = [row for row in table.rows if row["trained_on"] == kind]
        other = next(each for each in KINDS if each != kind)
        columns = [f"exact_{kind}", f"exact_{other}", f"tuned_{other}", f"tuned_{kind}", *UNITS]
        lines += [f"## Trained on {kind} problems", "",
                  "| arm | seeds | " + " | ".join(columns) + " | against no penalty | against cross-moment |",
                  "|---" * (len(columns) + 4) + "|"]  # fmt: skip
        for arm in dict.fromkeys(row["arm"] for row in rows):
            own = [row for row in rows if row["arm"] == arm]
            means = [
                f"{100 * statistics.fmean(map(float, told)):.1f}"
                if (told := [r[c] for r in own if r.get(c)])
                else "–"
                for c in columns
            ]
            against = [difference(rows, f"exact_{kind}", arm, base) for base in (BASE, "cross-moment")]
            lines.append(f"| {arm} | {len(own)} | {' | '.join(means + against)} |")
        lines += ["", "Differences after tuning on the other kind, against no penalty:", ""]
        lines += [f"- {arm}, {column}: {difference(rows, column, arm, BASE)}"
                  for arm in TRANSFER[1:] for column in (f"tuned_{other}", f"tuned_{kind}")]  # fmt: skip
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Fill the tables, print what they say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=["choose", "arms", "report"], default="arms")
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    given = parser.parse_args()
    torch.set_num_threads(1)
    ran_on = versions()
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / f"command_{given.part}").write_text(shlex.join(["python", *sys.argv]) + "\n")
    write_json(given.output / f"versions_{given.part}.json", ran_on)
    if given.part == "choose":
        choose(given.output)
        return
    table = Rows(given.output / "table.csv", ["arm", "trained_on", "seed"])
    others = [arm for arm in ARMS if arm not in TRANSFER]
    parts = [(TRANSFER, FIRST), (others, FIRST), (TRANSFER, SECOND)]
    cells = [(arm, kind, seed) for arms, kind in parts for seed in SEEDS for arm in arms]
    cells += [(arm, FIRST, seed) for seed in MORE_SEEDS for arm in TRANSFER]
    for arm, kind, seed in cells if given.part == "arms" else []:
        if table.find(arm=arm, trained_on=kind, seed=seed) is None:
            table.add({"arm": arm, "trained_on": kind, "seed": seed, **row_of(arm, kind, seed)})
    write_json(given.output / "cost.json", cost())
    (given.output / "report.md").write_text(report(table))
    print(report(table))


if __name__ == "__main__":
    main()
