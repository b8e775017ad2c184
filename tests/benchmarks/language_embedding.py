"""The separable token embedding against the table: byte pairs, equal tokens, equal tuning, paired seeds.

Run it as `python tests/benchmarks/language_embedding.py [--text PATH]`. Learning rates are chosen for each
side on seed 100; rows that stand in table.csv are not computed again, so that a stopped study goes on.
"""

from __future__ import annotations

import argparse
import math
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from sna_rl.language.corpus import Corpus, cut, read_text
from sna_rl.language.model import SeparableLM
from sna_rl.language.running import make_model, make_optimizer
from sna_rl.language.scoring import perplexity, rare_tokens
from sna_rl.language.settings import LMSettings
from sna_rl.language.study import in_turns, paired
from sna_rl.language.tasks import TextTask
from sna_rl.language.tokens import BPETokens
from sna_rl.runs import write_json
from sna_rl.runs.fit import fit
from sna_rl.runs.rows import Rows
from sna_rl.runs.versions import versions

FOLDER = Path(__file__).parents[2] / "results" / "language" / "embedding"
COMMON: dict[str, Any] = {
    "model": "separable", "vocab_size": 8192, "width": 192, "n_layers": 5, "n_heads": 4, "rank": 32,
    "n_positions": 128, "batch_size": 4, "embedding_rank": 256, "n_warmup": 50, "eval_freq": 0,
    "save_freq": 0,
}  # fmt: skip
ARMS = ("separable", "table")
RATES, CHOICE_SEED, SEEDS = (2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3), 100, range(8)
SCORES = ("loss", "perplexity", "rare_perplexity", "bits_per_byte", "n_tokens")
BLOCKS = 256  # of the held-out text that are scored
MARGIN = 1.0  # per cent of perplexity that a side which is not worse may lose
TURNS = 30


class Study:
    """The corpus, encoded once, and runs on it.

    Args:
        text: file or folder; None for the standard library's source.
        n_steps: of a run of the table; runs of the choice have half of them.
    """

    def __init__(self, text: Path | None, n_steps: int) -> None:
        whole = read_text(text)
        self.n_steps = n_steps
        self.tokens = BPETokens.train(cut(whole)[0], COMMON["vocab_size"])
        self.corpus = Corpus.of(whole, self.tokens, COMMON["n_positions"])
        self.rare = rare_tokens(self.corpus.train, self.tokens.vocab_size)

    def task(self, arm: str, rate: float, seed: int, n_steps: int) -> tuple[TextTask, Any, LMSettings]:
        """Model, data and optimizer of a run."""
        changes = {"embedding": arm, "learning_rate": rate, "seed": seed, "n_steps": n_steps}
        settings = LMSettings().changed(COMMON | changes)
        model = make_model(settings)
        task = TextTask(model, self.corpus, self.tokens, settings.fit, settings.learn.batch_size)
        return task, make_optimizer(model, settings.learn), settings

    def row(self, arm: str, rate: float, seed: int, n_steps: int) -> dict[str, float]:
        """Train one model and score it."""
        task, optimizer, settings = self.task(arm, rate, seed, n_steps)
        model = task.model
        assert isinstance(model, SeparableLM)
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            fit(model, optimizer, task, settings.fit, Path(folder), progress=False)
        seconds = time.process_time() - began
        scores = perplexity(
            model.eval(), self.corpus.held_out, task.n_bytes, task.n_positions, self.rare, BLOCKS
        )
        sizes = {
            "n_embedding": sum(p.numel() for p in model.embedding.tokens.parameters()),
            "n_blocks": sum(p.numel() for p in model.blocks.parameters()),
            "n_parameters": sum(p.numel() for p in model.parameters()),
        }
        learned = n_steps * settings.learn.batch_size * task.n_positions
        return {**{name: round(scores[name], 5) for name in SCORES}, **sizes, "n_learned": learned,
                "cpu_seconds": round(seconds, 1)}  # fmt: skip

    def cost(self) -> dict[str, float]:
        """Processor milliseconds of a training step of both, in turns."""
        works: list[Callable[[], None]] = []
        for arm in ARMS:
            task, optimizer, _ = self.task(arm, RATES[0], 0, TURNS)
            batch = task.batch(0)

            def step(task: TextTask = task, optimizer: Any = optimizer, batch: Any = batch) -> None:
                loss, _ = task.loss(batch)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()

            works.append(step)
        times = in_turns(works, TURNS)
        said = {f"{arm}_ms_a_step": statistics.median(each) for arm, each in zip(ARMS, times, strict=True)}
        return {**said, "ratio": statistics.median(a / b for a, b in zip(*times, strict=True))}


def best_rate(table: Rows, arm: str) -> float:
    """The learning rate of an arm's lowest loss in the choice."""
    tried = [row for row in table.rows if row["arm"] == arm]
    return float(min(tried, key=lambda row: float(row["loss"]))["learning_rate"])


def per_cent(table: Rows, column: str) -> str:
    """Difference of the separable embedding's perplexity to the table's, with its interval."""
    logs = {arm: [math.log(float(row[column])) for row in table.rows if row["arm"] == arm] for arm in ARMS}
    if len(logs["table"]) != len(logs["separable"]) or len(logs["table"]) < 2:
        return f"{column}: too few pairs"
    found = paired(logs["separable"], logs["table"])
    mean, low, high = (100 * math.expm1(value) for value in (found.mean, found.low, found.high))
    words = "not worse" if high <= MARGIN else "worse" if low > MARGIN else "undecided"
    return f"{column}: {mean:+.2f} % ({low:+.2f} to {high:+.2f}), {found.n} pairs, margin {MARGIN} %: {words}"


def main() -> None:
    """Fill the tables, print the differences."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, help="UTF-8 file or folder; by default Python's own source")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    given = parser.parse_args()
    torch.set_num_threads(1)
    ran_on = versions()
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "command").write_text(shlex.join(["python", *sys.argv]) + "\n")
    write_json(given.output / "versions.json", ran_on)
    study = Study(given.text, given.steps)
    choice = Rows(given.output / "choice.csv", ["arm", "learning_rate"])
    for rate in RATES:
        for arm in ARMS:
            if choice.find(arm=arm, learning_rate=rate) is None:
                scores = study.row(arm, rate, CHOICE_SEED, given.steps // 2)
                choice.add({"arm": arm, "learning_rate": rate, **scores})
    table = Rows(given.output / "table.csv", ["arm", "seed"])
    for seed in given.seeds:
        for arm in ARMS:
            if table.find(arm=arm, seed=seed) is None:
                rate = best_rate(choice, arm)
                scores = study.row(arm, rate, seed, given.steps)
                table.add({"arm": arm, "seed": seed, "learning_rate": rate, **scores})
    write_json(given.output / "cost.json", study.cost())
    said = "\n".join(per_cent(table, column) for column in ("perplexity", "rare_perplexity"))
    (given.output / "differences.txt").write_text(said + "\n")
    print(said)


if __name__ == "__main__":
    main()
