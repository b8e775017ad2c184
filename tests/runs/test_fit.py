from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn

from sna_rl.errors import SnaError, UsageError
from sna_rl.runs.checkpoints import Checkpoints
from sna_rl.runs.fit import FitResult, fit
from sna_rl.runs.fit_config import Batches, FitConfig, step_generator
from sna_rl.runs.fit_folder import load_weights, new_run, open_run
from sna_rl.runs.interruption import Interrupted
from sna_rl.runs.tree import read_arrays

pytestmark = pytest.mark.unhooked


class PowerCut(Exception):
    """The process ends here."""


class Line:
    """Fits y = 3x − 1 with noise from the step's generator; what it can do wrong happens at a step."""

    def __init__(self, model: nn.Module, *, cut_at: int = -1, kill_at: int = -1, nan_at: int = -1) -> None:
        self.model = model
        self.x = torch.linspace(-1, 1, 64)[:, None]
        self.batches = Batches(64, 16, seed=0)
        self.cut_at, self.kill_at, self.nan_at = cut_at, kill_at, nan_at

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        if step == self.cut_at:
            raise PowerCut
        if step == self.kill_at:
            os.kill(os.getpid(), signal.SIGTERM)
        x = self.x[self.batches.rows(step)]
        noise = torch.randn(x.shape, generator=step_generator(0, step))
        y = 3 * x - 1 + 0.01 * noise
        return x, y * math.nan if step == self.nan_at else y

    def loss(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Mapping[str, Tensor | float]]:
        x, y = batch
        prediction = self.model(x)
        error = (prediction - y).square().mean()
        return error, {"spread": prediction.std()}

    def evaluate(self) -> Mapping[str, float]:
        torch.rand(7)  # must not disturb training
        error = (self.model(self.x) - 3 * self.x + 1).square().mean()
        return {"error": float(error), "score": -float(error)}


def train(folder: Path, config: FitConfig, **wrong: int) -> FitResult:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(1, 8), nn.Dropout(0.1), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    task, facts = Line(model, **wrong), {"model/parameters": 25.0}
    return fit(model, optimizer, task, config, folder, progress=False, facts=facts)


def events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    found = EventAccumulator(str(folder)).Reload()
    return {
        tag: [(event.step, event.value) for event in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
        if not tag.endswith("per_second")
    }


def same_weights(one: Path, other: Path) -> None:
    left, right = read_arrays(one / "model.safetensors"), read_arrays(other / "model.safetensors")
    assert left.keys() == right.keys()
    for name, value in left.items():
        np.testing.assert_array_equal(value, right[name])


CONFIG = FitConfig(60, schedule="cosine", n_warmup=5, eval_freq=20, save_freq=10, log_freq=5)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    folder = tmp_path / "whole"
    folder.mkdir()
    train(folder, CONFIG)
    return folder


@pytest.mark.parametrize("wrong", [{"cut_at": 37}, {"kill_at": 36}, {"cut_at": 3}])
def test_a_run_that_goes_on_is_equal_to_the_bit(whole: Path, tmp_path: Path, wrong: dict[str, int]) -> None:
    folder = tmp_path / "stopped"
    folder.mkdir()
    with pytest.raises((PowerCut, Interrupted)):
        train(folder, CONFIG, **wrong)
    time.sleep(1.0 - time.time() % 1.0)  # TensorBoard orders one process's files by the second in their names
    result = train(folder, CONFIG)
    same_weights(folder, whole)
    assert events(folder) == events(whole)
    expected = json.loads((whole / "summary.json").read_text())
    assert result.loss == expected["loss"]
    assert result.final == expected["final"]
    assert (folder / "evaluations.json").read_text() == (whole / "evaluations.json").read_text()


def test_a_signal_saves_and_names_the_shells_exit_code(tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match="stopped at step 37 and saved; train with -i") as caught:
        train(tmp_path, CONFIG, kill_at=36)
    assert caught.value.exit_code == 143
    assert [each.step for each in Checkpoints(tmp_path / "checkpoints").all()] == [30, 37]


def test_it_learns_and_leaves_what_it_says(whole: Path) -> None:
    summary = json.loads((whole / "summary.json").read_text())
    assert summary["n_steps"] == 60
    assert summary["n_parameters"] == 25
    assert summary["final"]["error"] < 0.5
    scores = [each["score"] for each in json.loads((whole / "evaluations.json").read_text())["evaluations"]]
    assert summary["best_score"] == max(scores)
    curves = events(whole)
    assert curves["model/parameters"] == [(0, 25.0)]
    assert [step for step, _ in curves["train/loss"]] == list(range(5, 65, 5))
    assert curves["train/learning_rate"][0][1] == pytest.approx(0.02)
    assert {"train/gradient_norm", "train/spread", "eval/error", "eval/score"} <= curves.keys()
    assert [each.step for each in Checkpoints(whole / "checkpoints").all()] == [50, 60]


def test_evaluating_changes_no_draw_of_training(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "unwatched"
    folder.mkdir()
    train(folder, FitConfig(60, schedule="cosine", n_warmup=5))
    same_weights(folder, whole)


def test_a_finished_run_can_be_made_longer(whole: Path) -> None:
    result = train(whole, FitConfig(70, schedule="constant"))
    assert result.n_steps == 70


def test_nan_stops_before_the_weights_change(tmp_path: Path) -> None:
    with pytest.raises(SnaError, match="the loss is nan at step 31; the weights of the last save stand"):
        train(tmp_path, CONFIG, nan_at=31)
    assert all(np.isfinite(value).all() for value in read_arrays(tmp_path / "model.safetensors").values())


def test_a_checkpoint_of_another_model_is_refused(whole: Path) -> None:
    model = nn.Sequential(nn.Linear(1, 9), nn.Identity(), nn.ReLU(), nn.Linear(9, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    with pytest.raises(
        UsageError, match=r"is of another model: 0.bias has shape \(8,\) there and \(9,\) here"
    ):
        fit(model, optimizer, Line(model), CONFIG, whole, progress=False)
    with pytest.raises(UsageError, match="is of another model"):
        load_weights(model, whole / "model.safetensors")


def test_bf16_computes_products_in_bfloat16(tmp_path: Path) -> None:
    kinds: list[torch.dtype] = []
    model = nn.Linear(1, 1)
    model.register_forward_hook(lambda _, __, output: kinds.append(output.dtype))
    fit(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        Line(model),
        FitConfig(1, precision="bf16"),
        tmp_path,
        progress=False,
    )
    assert kinds == [torch.bfloat16, torch.float32]


@pytest.mark.parametrize(
    ("field", "value"),
    [("n_steps", 0), ("precision", "fp16"), ("schedule", "cosin"), ("clip", -1.0), ("lr_floor", 2.0)],
)
def test_bad_numbers_are_refused_at_once(field: str, value: Any) -> None:
    with pytest.raises(UsageError, match=str(value).replace(".", r"\.")):
        FitConfig(**{"n_steps": 10, field: value})


def test_batches_are_each_row_once_an_epoch_whatever_was_asked_before() -> None:
    batches = Batches(10, 3, seed=4)
    epochs = [torch.cat([batches.rows(3 * epoch + step) for step in range(3)]) for epoch in range(2)]
    assert all(len(set(rows.tolist())) == 9 for rows in epochs)
    assert not torch.equal(epochs[0], epochs[1])
    assert torch.equal(Batches(10, 3, seed=4).rows(4), epochs[1][3:6])
    with pytest.raises(UsageError, match="from 1 to the 10 rows"):
        Batches(10, 11, seed=0)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run folder"):
        open_run(tmp_path)
    run = new_run(tmp_path, "sudoku", "hyper-set", {"seed": 0, "lr": 1e-4}, "sna-rl vision train")
    assert run == tmp_path / "sudoku" / "hyper-set" / "seed-0"
    assert open_run(run) == {"seed": 0, "lr": 1e-4}
    with pytest.raises(SnaError, match=r"holds no model\.safetensors; the run has not saved yet"):
        load_weights(nn.Linear(1, 1), run / "model.safetensors")
