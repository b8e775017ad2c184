"""What each part is worth: one setting changed at a time, everything else as it was, one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from statistics import fmean

from sna_rl.config import parse_pairs
from sna_rl.errors import UsageError
from sna_rl.runs.atomic import write_json
from sna_rl.runs.rows import Rows
from sna_rl.runs.versions import versions
from sna_rl.vision.counts import n_parameters
from sna_rl.vision.run import Data, Run, load_data
from sna_rl.vision.scores import interval, scores
from sna_rl.vision.settings import VisionConfig, with_none_named
from sna_rl.vision.study import cpu_seconds, keep_settings, run_folder, trained

AS_GIVEN = "as given"
VARIED = (
    "attention:sigmoid,linear,relu",
    "feed:softmax,gated",
    "steps:iteration,current,fixed",
    "positive_steps:true",
    "jacobian:exact",
    "lora_rank:2,8",
)
"""What is changed where nothing else is asked for."""


def parse_variants(groups: Iterable[str]) -> dict[str, dict[str, object]]:
    """Variants by name, the configuration as it is given first.

    Args:
        groups: settings with the values that are tried, `attention:sigmoid,linear`.

    Raises:
        UsageError: if a word is no such thing, has no value, or a variant comes twice.

    Example:
        >>> parse_variants(["lora_rank:2,8"])
        {'as given': {}, 'lora_rank:2': {'lora_rank': 2}, 'lora_rank:8': {'lora_rank': 8}}
    """
    variants: dict[str, dict[str, object]] = {AS_GIVEN: {}}
    for group in groups:
        name, _, values = group.partition(":")
        for value in map(str.strip, values.split(",")):
            if not value:
                raise UsageError(f"--vary takes a setting and its values, K:V or K:V,V…, not {group!r}")
            word = f"{name}:{value}"
            if word in variants:
                raise UsageError(f"--vary gives {word!r} twice")
            variants[word] = with_none_named(parse_pairs([word], "--vary"))
    return variants


def ablate(
    config: VisionConfig,
    variants: dict[str, dict[str, object]],
    seeds: Sequence[int],
    output: Path,
    logs: Path,
    command: str,
    *,
    device: str = "auto",
    say: Callable[[str], None] = print,
) -> list[str]:
    """Train every variant with every seed on the same data and batches, and tabulate.

    Rows that stand in the table are not computed again, and a run that was stopped goes on. Every variant's
    model is made once before the first is trained.

    Args:
        config: of Sudoku or of classification; what all variants have in common.
        variants: name → changed settings, of the model and of learning alone.
        seeds: of weights, batches and data.
        output: gets `table.csv` (a row a variant and seed), `settings.yml` and `versions.json`.
        logs: gets the runs.
        command: the command line, kept in the run folders.
        device: auto, cpu or cuda.
        say: is told each row.

    Returns:
        A line a variant: means over the seeds, and the lowest and highest of them.

    Raises:
        UsageError: if a setting or value is unknown or would change more than the model and its learning, a
            model can't be made, or the table there is of other settings.
    """
    configs = {name: _changed(config, changes) for name, changes in variants.items()}
    if config.task.task == "mask":
        raise UsageError("ablate compares accuracies, of sudoku or classify, and mask has none")
    plain, default = config.plain(), VisionConfig().plain()
    changed = {name: value for name, value in plain.items() if name != "seed" and value != default[name]}
    table = Rows(output / "table.csv", ["variant", "seed"])
    missing = [(seed, name) for seed in seeds for name in configs if not table.find(variant=name, seed=seed)]

    @lru_cache(maxsize=1)
    def load(seed: int) -> Data:
        """What all variants of a seed learn from."""
        return load_data(config.changed({"seed": seed}))

    for seed, _ in missing[:1]:
        for variant in configs.values():
            Run.new(variant.changed({"seed": seed}), device, load(seed)).task()
    keep_settings(output / "settings.yml", changed)
    write_json(output / "versions.json", versions())
    for seed, name in missing:
        seeded = configs[name].changed({"seed": seed})
        folder = logs / name.replace(":", "-").replace(" ", "-")
        run = trained(seeded, folder, command, device=device, data=load(seed))
        row: dict[str, object] = {
            "variant": name,
            "seed": seed,
            "parameters": n_parameters(run.model),
            "cpu_seconds": round(cpu_seconds(run_folder(seeded, folder)), 1),
        }
        for measure, values in scores(run).items():
            found = interval(values)
            row |= {measure: f"{found.mean:.4f}"}
            row |= {f"{measure}_low": f"{found.low:.4f}", f"{measure}_high": f"{found.high:.4f}"}
        table.add(row)
        say("  ".join(f"{column} {value}" for column, value in row.items()))
    return summary(table.rows)


def _changed(config: VisionConfig, changes: dict[str, object]) -> VisionConfig:
    """The configuration of a variant; data and training loop are those of all."""
    own = {each.name for part in (config.model, config.learn) for each in fields(part)}
    for name in changes:
        if name in config.plain() and name not in own:
            raise UsageError(
                f"a variant changes the model or its learning alone, and {name!r} is neither: "
                "give it to all variants with -params"
            )
    return config.changed(changes)


def summary(rows: Sequence[dict[str, str]]) -> list[str]:
    """A line a variant, from the rows of all its seeds.

    Args:
        rows: of the table.

    Example:
        >>> row = {"variant": "feed:relu", "parameters": "10", "cpu_seconds": "3", "boards": "0.5"}
        >>> summary([{**row, "seed": "0"}, {**row, "seed": "1", "boards": "0.7"}])[0]
        'feed:relu: 2 seeds, 10 parameters, 3 s, boards 60.0 % (50.0 to 70.0)'
    """
    lines = []
    for name in dict.fromkeys(row["variant"] for row in rows):
        own = [row for row in rows if row["variant"] == name]
        parts = [f"{len(own)} seeds", f"{int(own[0]['parameters']):,} parameters"]
        parts.append(f"{fmean(float(row['cpu_seconds']) for row in own):.0f} s")
        for measure in ("boards", "cells", "accuracy"):
            values = [100 * float(row[measure]) for row in own if measure in row]
            if values:
                parts.append(f"{measure} {fmean(values):.1f} % ({min(values):.1f} to {max(values):.1f})")
        lines.append(f"{name}: {', '.join(parts)}")
    return lines
