"""One setting changed at a time: names, rows, continuation; intervals; tables that survive."""

from __future__ import annotations

import csv
from pathlib import Path
from signal import Signals

import numpy as np
import pytest

from sna_rl.cli import main
from sna_rl.errors import UsageError
from sna_rl.runs.interruption import Interrupted
from sna_rl.vision import study
from sna_rl.vision.ablation import parse_variants
from sna_rl.vision.run import Run
from sna_rl.vision.scores import interval, scores
from sna_rl.vision.settings import VisionConfig
from sna_rl.vision.study import cpu_seconds, keep_settings, run_folder, trained
from sna_rl.vision.sudoku import accuracies
from sna_rl.vision.sudoku_data import Splits
from tests.vision.conftest import BOARDS, TINY


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_variant_changes_one_setting() -> None:
    assert parse_variants(["feed:gated", "gain:none", "step_size:0.5"]) == {
        "as given": {},
        "feed:gated": {"feed": "gated"},
        "gain:none": {"gain": "none"},
        "step_size:0.5": {"step_size": 0.5},
    }
    with pytest.raises(UsageError, match="--vary gives 'feed:relu' twice"):
        parse_variants(["feed:relu,relu"])
    for group in ("", "attention", "attention:", "attention:sigmoid,"):
        with pytest.raises(UsageError, match=f"--vary takes a setting and its values, .*, not '{group}'"):
            parse_variants([group])
    with pytest.raises(UsageError, match="--vary takes key:value, not ':relu'"):
        parse_variants([":relu"])


def test_the_table_is_filled_once_and_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, logs = tmp_path / "out", tmp_path / "logs"
    words = ["vision", "ablate", "--task", "sudoku", "-n", "2", "--iterations", "2", "--vary", "feed:gated"]
    words += ["--vary", "lora_rank:3", "-o", str(out), "-f", str(logs), "-params", *TINY, *BOARDS]
    assert main([*words, "--seeds", "1"]) == 0
    first = (out / "table.csv").read_text()
    assert [row["variant"] for row in rows_of(out / "table.csv")] == ["as given", "feed:gated", "lora_rank:3"]
    assert main([*words, "--seeds", "2"]) == 0
    rows = rows_of(out / "table.csv")
    assert (out / "table.csv").read_text().startswith(first)
    assert [row["seed"] for row in rows] == ["0"] * 3 + ["1"] * 3
    # two deltas (8 × 8 and 16 × 8) of rank 3 for each of two iterations
    extra = 2 * 3 * (8 + 8 + 16 + 8)
    assert int(rows[2]["parameters"]) == int(rows[0]["parameters"]) + extra
    assert "lora_rank:3: 2 seeds" in capsys.readouterr().out
    run = Run.open(logs / "feed-gated" / "sudoku" / "hyper-set" / "seed-1")
    assert isinstance(run.data, Splits)
    (found,) = accuracies(run.model, run.data.test, [2])
    assert float(rows[4]["cells"]) == pytest.approx(found.cells, abs=1e-4)
    assert float(rows[4]["cells_low"]) <= found.cells <= float(rows[4]["cells_high"])
    assert main([*words, "steps:current"]) == 2
    assert (
        "settings.yml' has steps at its default, not 'current'; rows of other settings"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("varied", "message"),
    [
        ("attention", "--vary takes a setting and its values"),
        ("attention:sigmod", "unknown attention 'sigmod'; did you mean 'sigmoid'?"),
        ("feeds:relu", "unknown key 'feeds'; did you mean 'feed'?"),
        ("max_givens:70", "a variant changes the model or its learning alone, and 'max_givens' is neither"),
        ("seed:3", "and 'seed' is neither"),
        ("n_steps:9", "and 'n_steps' is neither"),
        ("n_heads:3", "n_heads must divide the width 8, not 3"),
        ("lora_rank:9", "rank must be at most 8"),
        ("batch_size:13", "batch_size must be from 1 to the 12 rows there are, not 13"),
    ],
)
def test_a_variant_that_can_t_be_trained_is_refused_before_any_is(
    varied: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, logs = tmp_path / "out", tmp_path / "logs"
    words = ["vision", "ablate", "--task", "sudoku", "-n", "2", "--iterations", "2", "--vary", "feed:gated"]
    words += ["--vary", varied, "-o", str(out), "-f", str(logs), "-params", *TINY, *BOARDS]
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()
    assert not logs.exists()


def test_mask_has_no_accuracy_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["vision", "ablate", "--task", "mask", "--data", str(tmp_path), "-o", str(tmp_path / "out")]
    assert main(words) == 2
    assert "ablate compares accuracies, of sudoku or classify" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


SMALL = {"width": 8, "n_heads": 2, "hidden": 16, "n_iterations": 2, "n_train": 12, "n_valid": 4, "n_test": 6}
CONFIG = VisionConfig().changed(
    {**SMALL, "n_bases": 3, "min_givens": 60, "max_givens": 60, "batch_size": 4, "n_steps": 2}
)


def test_a_run_of_a_study_goes_on_and_is_opened_when_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        (run_folder(CONFIG, tmp_path)).mkdir(parents=True)
        raise Interrupted("stopped", Signals.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(study, "train", stopped)
        with pytest.raises(Interrupted):
            trained(CONFIG, tmp_path, "")
    before = cpu_seconds(run_folder(CONFIG, tmp_path))
    assert before > 0.0
    with pytest.raises(UsageError, match="is not a run folder"):
        trained(CONFIG, tmp_path, "")
    other = tmp_path / "other"
    trained(CONFIG, other, "")
    took = cpu_seconds(run_folder(CONFIG, other))
    (run_folder(CONFIG, other) / "summary.json").unlink()
    trained(CONFIG, other, "")
    assert cpu_seconds(run_folder(CONFIG, other)) > took
    took = cpu_seconds(run_folder(CONFIG, other))
    run = trained(CONFIG, other, "")
    assert cpu_seconds(run_folder(CONFIG, other)) == took
    assert not run.model.training
    with pytest.raises(UsageError, match="was trained with other settings; give another log folder"):
        trained(CONFIG.changed({"width": 16}), other, "")


def test_a_study_knows_its_run_by_a_relative_path(
    sudoku_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sudoku_run)
    config = CONFIG.changed({"data": "boards", "n_steps": 1})
    assert trained(config, tmp_path, "").config == config.absolute()
    assert config.absolute().task.data == str(sudoku_run / "boards")
    assert trained(config, tmp_path, "").config == config.absolute()


def test_scores_are_one_number_an_input(sudoku_run: Path) -> None:
    run = Run.open(sudoku_run)
    assert isinstance(run.data, Splits)
    found = scores(run, 2)
    (expected,) = accuracies(run.model, run.data.test, [2])
    assert found["cells"].shape == found["boards"].shape == (6,)
    assert found["cells"].mean() == pytest.approx(expected.cells)
    assert found["boards"].mean() == expected.boards


def test_the_interval_is_that_of_the_mean() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, 400)
    found = interval(values)
    half = 1.96 * values.std() / 20
    assert found.mean == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.03)
    assert found.high == pytest.approx(values.mean() + half, abs=0.03)
    assert interval(values) == found


def test_settings_of_another_study_are_refused(tmp_path: Path) -> None:
    keep_settings(tmp_path / "settings.yml", {"width": 8})
    keep_settings(tmp_path / "settings.yml", {"width": 8})
    with pytest.raises(UsageError, match="has width 8, not 9"):
        keep_settings(tmp_path / "settings.yml", {"width": 9})
