"""The verbs from the command line: runs, their continuation, and everything a user may get wrong."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from subprocess import run as run_process

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sna_rl.cli import main
from sna_rl.config import parse_pairs
from sna_rl.runs.fit_folder import open_run
from sna_rl.runs.tree import read_arrays
from sna_rl.vision.boards import make_splits
from sna_rl.vision.counts import n_flops, n_parameters
from sna_rl.vision.evaluation import parse_iterations
from sna_rl.vision.run import Run
from sna_rl.vision.settings import VisionConfig, with_none_named
from sna_rl.vision.sudoku import right_cells
from sna_rl.vision.sudoku_data import Splits
from tests.vision.conftest import BOARDS, TINY

PUZZLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"


def fails(words: list[str], capsys: pytest.CaptureFixture[str], code: int = 2) -> str:
    assert main(["vision", *words]) == code
    error = capsys.readouterr().err.strip()
    assert error.count("\n") == 0
    return error


def test_a_run_leaves_its_configuration_boards_and_weights(sudoku_run: Path) -> None:
    assert {"config.yml", "command.txt", "versions.json", "summary.json", "model.safetensors"} <= {
        path.name for path in sudoku_run.iterdir()
    }
    config = open_run(sudoku_run)
    assert (config["task"], config["width"], config["seed"]) == ("sudoku", 8, 1)
    assert len((sudoku_run / "boards" / "test.csv").read_text().splitlines()) == 6
    assert json.loads((sudoku_run / "summary.json").read_text())["n_steps"] == 3


def test_what_a_model_costs_stands_in_the_log(sudoku_run: Path) -> None:
    run = Run.open(sudoku_run)
    expected = {
        "model/parameters": n_parameters(run.model),
        "model/step_parameters": n_parameters(run.model.body.steps),
        "model/flops": n_flops(run.model, torch.zeros(1, 81, dtype=torch.int64)),
    }
    assert run.costs() == expected
    found = EventAccumulator(str(sudoku_run)).Reload()
    for name, value in expected.items():
        (point,) = found.Scalars(name)
        assert (point.step, point.value) == (0, value)
    assert run.description(expected)[1:3] == [
        f"parameters: {expected['model/parameters']:,} (steps {expected['model/step_parameters']:,})",
        f"{expected['model/flops'] / 1e6:,.1f} MFLOP forward an input, over 3 iterations",
    ]


def test_the_same_seed_repeats_a_run_and_i_goes_on_with_it(sudoku_run: Path, tmp_path: Path) -> None:
    words = ["vision", "train", "--no-progress"]
    same = ["--task", "sudoku", "-n", "2", "--iterations", "3", "--seed", "1", "-f", str(tmp_path)]
    params = ["-params", *TINY, *BOARDS, "schedule:constant"]
    assert main([*words, *same, *params]) == 0
    run = tmp_path / "sudoku" / "hyper-set" / "seed-1"
    assert main([*words, "-i", str(run), "-n", "5"]) == 0
    whole = tmp_path / "whole"
    same[3], same[-1] = "5", str(whole)
    assert main([*words, *same, *params]) == 0
    left = read_arrays(run / "model.safetensors")
    right = read_arrays(whole / "sudoku" / "hyper-set" / "seed-1" / "model.safetensors")
    for name, value in left.items():
        np.testing.assert_array_equal(value, right[name])
    assert len((run / "command.txt").read_text().splitlines()) == 2


def test_a_run_that_has_its_steps_is_not_gone_on_with(
    sudoku_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["-n", "2"], ["-n", "3"], []):
        error = fails(["train", "-i", str(sudoku_run), *words], capsys)
        assert error.endswith(f"run {str(sudoku_run)!r} has its 3 steps; more need -n above that")
    assert len((sudoku_run / "command.txt").read_text().splitlines()) == 1
    run = tmp_path / "run"
    shutil.copytree(sudoku_run, run)
    (run / "summary.json").unlink()  # killed between its last checkpoint and its end
    assert "has its 3 steps; more need -n above" in fails(["train", "-i", str(run), "-n", "2"], capsys)
    assert main(["vision", "train", "-i", str(run), "--no-progress"]) == 0
    assert json.loads((run / "summary.json").read_text())["n_steps"] == 3


def test_data_are_found_from_another_folder(
    image_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(image_folder.parent)
    words = ["--task", "classify", "--data", image_folder.name, "-n", "1", "--seed", "0", "-f", str(tmp_path)]
    params = [*TINY, "n_train:0", "n_valid:4", "n_side:4", "n_iterations:1"]
    assert main(["vision", "train", *words, "--no-progress", "-params", *params]) == 0
    run = tmp_path / "classify" / "hyper-set" / "seed-0"
    assert open_run(run)["data"] == str(image_folder)
    monkeypatch.chdir(tmp_path)
    assert main(["vision", "evaluate", str(run)]) == 0


def test_a_run_with_a_link_in_it_is_not_gone_on_with(
    sudoku_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    shutil.copytree(sudoku_run, run)
    other.write_text("mine")
    (run / "command.txt").unlink()
    (run / "command.txt").symlink_to(other)
    assert "command.txt' is a link" in fails(["train", "-i", str(run), "-n", "5"], capsys)
    assert other.read_text() == "mine"


def test_evaluate_prints_the_curve_beyond_training(
    sudoku_run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["vision", "evaluate", str(sudoku_run), "--iterations", "2…6:2", "-o", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "last weights; 6 boards of the run's test set (our own, generated, no published set), by givens 60: 6"
    )
    assert [line.split()[1] for line in lines[1:4]] == ["2", "4", "6"]
    assert (tmp_path / "evaluation.csv").read_text().splitlines()[0] == "iteration,boards,cells"
    assert (tmp_path / "evaluation.png").exists()


def test_every_board_of_one_file_is_scored_in_a_folder_of_its_own(
    sudoku_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(sudoku_run, run, ignore=shutil.ignore_patterns("evaluation"))
    boards = run / "boards" / "train.csv"
    n_boards = len(boards.read_text().splitlines())
    assert main(["vision", "evaluate", str(run)]) == 0
    own = (run / "evaluation" / "evaluation.csv").read_text()
    capsys.readouterr()
    for best in ([], ["--best"]):
        assert main(["vision", "evaluate", str(run), "--data", str(boards), *best]) == 0
        first = capsys.readouterr().out.splitlines()[0]
        weights = "best" if best else "last"
        assert first == f"{weights} weights; {n_boards} boards from {str(boards)!r}, by givens 60: {n_boards}"
    assert main(["vision", "evaluate", str(run), "--best"]) == 0
    folders = {path.name for path in run.glob("evaluation*") if path.is_dir()}
    assert folders == {"evaluation", "evaluation-best", "evaluation-train", "evaluation-train-best"}
    assert (run / "evaluation" / "evaluation.csv").read_text() == own


def test_share_and_rounds_are_about_masks(
    sudoku_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--share", "0.3"], ["--rounds", "1"]):
        error = fails(["evaluate", str(sudoku_run), *words], capsys)
        assert error.endswith("--share and --rounds are about masked images; the run was trained on sudoku")
    run = tmp_path / "run"
    run.mkdir()
    config = run / "config.yml"
    config.write_text("task: mask\ndata: nowhere\n")
    assert "hidden share must be over 0" in fails(["evaluate", str(run), "--share", "1"], capsys)


def test_train_says_where_boards_come_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["vision", "train", "-n", "1", "--iterations", "1", "--seed", "0", "--no-progress"]
    assert main([*words, "-f", str(tmp_path), "-params", *TINY, *BOARDS]) == 0
    assert "boards: our own, generated, no published set" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("verb", ["train", "ablate"])
def test_a_flag_and_params_may_not_contradict_each_other(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [verb, "--iterations", "2", "-n", "1", "-f", str(tmp_path / "logs")]
    assert fails([*words, "-params", "n_iterations:4"], capsys).endswith(
        "--iterations 2 and -params n_iterations:4 contradict each other; give one of them"
    )
    assert "--n-steps 1 and -params n_steps:3" in fails([*words, "-params", "n_steps:3"], capsys)
    assert "--task mask and -params task:sudoku" in fails(
        [*words, "--task", "mask", "-params", "task:sudoku"], capsys
    )
    assert "needs images" in fails([*words, "--task", "mask", "-params", "task:mask"], capsys)
    assert not (tmp_path / "logs").exists()


def test_solve_prints_the_grid_that_evaluate_scores(
    sudoku_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.open(sudoku_run)
    assert isinstance(run.data, Splits)
    board = run.data.test.puzzles[0].tolist()
    right = right_cells(run.model, run.data.test, [3])[3][0]
    empty = sum(digit == 0 for digit in board)
    n_wrong = int((~right).sum())
    assert main(["vision", "solve", "".join(map(str, board)), "--run", str(sudoku_run)]) == 0
    *_, count, verdict = capsys.readouterr().out.splitlines()
    assert count == "after 3 iterations"
    assert verdict == f"not valid: {n_wrong} of {empty} empty cells are filled wrongly"


def test_solve_prints_the_grid_and_whether_it_is_valid(
    sudoku_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = make_splits([1], 1, (80, 80), seed=0)[0].puzzles[0].tolist()
    assert main(["vision", "solve", "".join(map(str, board)), "--run", str(sudoku_run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 13
    assert lines[11].startswith("after ")
    assert "valid" in lines[12]


@pytest.mark.parametrize(
    ("puzzle", "message"),
    [
        (PUZZLE[1:], "this one has 80"),
        (PUZZLE + "0", "this one has 82"),
        (PUZZLE.replace("9", "x"), "not 'x'"),
        ("55" + 79 * "0", "has no solution"),
        (81 * "0", "has more than one solution"),
    ],
)
def test_bad_puzzles(puzzle: str, message: str, sudoku_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in fails(["solve", puzzle, "--run", str(sudoku_run)], capsys)


def test_classify_and_mask_from_a_folder(
    image_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for task, model in (("classify", "transformer"), ("mask", "hyper-set")):
        words = ["train", "--task", task, "--model", model, "--data", str(image_folder), "-n", "2"]
        params = [
            *TINY,
            "n_train:0",
            "n_valid:4",
            "n_side:4",
            "augment:flip",
            "loss_on:random",
            "precision:bf16",
        ]
        assert (
            main(["vision", *words, "--seed", "0", "-f", str(tmp_path), "--no-progress", "-params", *params])
            == 0
        )
        run = tmp_path / task / model / "seed-0"
        assert main(["vision", "evaluate", str(run)]) == 0
        assert (run / "evaluation" / "evaluation.csv").exists()
    picture = run / "evaluation" / "filled.png"
    assert picture.stat().st_size > 1_000
    before = picture.read_bytes()
    capsys.readouterr()
    assert main(["vision", "evaluate", str(run), "--iterations", "2,40"]) == 0
    assert "filled.png (image, what was seen, what 40 iterations filled in)" in capsys.readouterr().out
    assert picture.read_bytes() != before
    shutil.copytree(image_folder / "test", tmp_path / "other" / "test")
    for task, model in (("classify", "transformer"), ("mask", "hyper-set")):
        words = ["vision", "evaluate", str(tmp_path / task / model / "seed-0")]
        assert main([*words, "--data", str(tmp_path / "other")]) == 0
        first = capsys.readouterr().out.splitlines()[0]
        assert first == f"last weights; 8 images from {str(tmp_path / 'other')!r}"
    assert main(["vision", "trace", str(run), "-n", "2"]) == 0
    capsys.readouterr()
    for share in ("0", "1"):
        assert "hidden share must be over 0" in fails(["evaluate", str(run), "--share", share], capsys)
    assert "was trained on mask, not on sudoku" in fails(["solve", PUZZLE, "--run", str(run)], capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task", "sudok"], "unknown task 'sudok'; did you mean 'sudoku'?"),
        (["--model", "hyperset"], "unknown model 'hyperset'; did you mean 'hyper-set'?"),
        (["--task", "classify"], "needs images: give their folder with --data"),
        (["--task", "classify", "--data", "nowhere"], "image folder 'nowhere' does not exist"),
        (["--data", "nowhere.csv"], "'nowhere.csv' is missing"),
        (["-n", "0"], "n_steps must be an int of at least 1, not 0"),
        (["-params", "widht:64"], "unknown key 'widht'; did you mean 'width'?"),
        (["-params", "width:wide"], "width must be of kind int, not 'wide'"),
        (["-params", "loss_on:first"], "unknown loss_on 'first'"),
        (["-params", "max_hidden:1.0"], "the hidden share must be over 0 and under 1, not 0.1 to 1"),
        (["--device", "tpu"], "device must be auto, cpu or cuda, not 'tpu'"),
    ],
)
def test_bad_settings_leave_nothing_behind(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "logs"
    small = ["-params", *TINY, *BOARDS] if "-params" not in words else []
    code = 1 if "missing" in message else 2
    assert message in fails(["train", *words, "-f", str(folder), *small], capsys, code)
    assert not folder.exists()


def test_weights_of_another_model_and_deltas_of_fewer_iterations(
    sudoku_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(sudoku_run, run)
    config = run / "config.yml"
    text = config.read_text()
    config.write_text(text.replace("model: hyper-set", "model: transformer"))
    assert "is of another model: body.layers.0" in fails(["evaluate", str(run)], capsys)
    config.write_text(text.replace("lora_rank: 0", "lora_rank: 2"))
    assert "is of another model: body.layers.0.feed_delta.left" in fails(["evaluate", str(run)], capsys)
    config.write_text(text)
    weights = run / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    assert "can't be read as safetensors" in fails(["evaluate", str(run)], capsys, code=1)
    assert "is not a run folder" in fails(["trace", str(tmp_path)], capsys)
    assert "keeps its configuration" in fails(["train", "-i", str(sudoku_run), "-params", "width:16"], capsys)


def test_none_is_a_name_on_the_command_line_too() -> None:
    changed = VisionConfig().changed(
        with_none_named(parse_pairs(["gain:none", "jacobian:none", "lora_scale:none"]))
    )
    assert (changed.model.gain, changed.model.jacobian, changed.model.lora_scale) == ("none", "none", None)


def test_deltas_can_t_go_beyond_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["vision", "train", "-n", "1", "--iterations", "3", "--seed", "0", "-f", str(tmp_path)]
    assert main([*words, "--no-progress", "-params", *TINY, *BOARDS, "lora_rank:2"]) == 0
    capsys.readouterr()
    run = tmp_path / "sudoku" / "hyper-set" / "seed-0"
    error = fails(["evaluate", str(run), "--iterations", "4"], capsys)
    assert "low-rank deltas for 3 iterations, so it can't do 4" in error


@pytest.mark.parametrize(
    "text", ["", "0", "a", "9…4", "4,0", "-3", "²", "4,²", "8…²", "10001", "8…999999999:1", "9" * 5_000]
)
def test_iterations_that_are_none(text: str, sudoku_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--iterations takes 16, 8,16,32 or 8…64" in fails(
        ["evaluate", str(sudoku_run), f"--iterations={text}"], capsys
    )
    assert parse_iterations("8-16") == [8, 12, 16]
    assert parse_iterations("10000") == [10_000]


def test_help_loads_no_torch() -> None:
    code = "import sys; from sna_rl.cli import main; main(['vision', '-h']); sys.exit('torch' in sys.modules)"
    assert run_process([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
