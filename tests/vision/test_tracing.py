"""Ranks and angles with known answers; traces of models; when iterating ends."""

from __future__ import annotations

import csv
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from sna_rl.cli import main
from sna_rl.errors import UsageError
from sna_rl.separable.principal import principal_directions
from sna_rl.vision import evaluation, tracing
from sna_rl.vision.config import ModelConfig
from sna_rl.vision.descent import Descent, descent
from sna_rl.vision.diagnostics import average_angle, effective_rank, rank
from sna_rl.vision.images import Images
from sna_rl.vision.layers import HyperSetLayer
from sna_rl.vision.model import IterativeModel, sudoku_model
from sna_rl.vision.run import Run
from sna_rl.vision.settings import VisionConfig
from sna_rl.vision.settling import until_settled
from sna_rl.vision.sudoku_data import Splits
from sna_rl.vision.symbols import Symbols
from sna_rl.vision.trace_pictures import curves
from sna_rl.vision.tracing import Moment, first_inputs, trace

SMALL: dict[str, Any] = {"width": 12, "n_heads": 3, "hidden": 20, "n_iterations": 4}
PUZZLE = torch.randint(0, 10, (3, 81), generator=torch.Generator().manual_seed(0))


def model_of(seed: int = 0, scale: float = 0.3, **changes: Any) -> IterativeModel:
    torch.manual_seed(seed)
    model = sudoku_model(ModelConfig(**SMALL | changes))
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter) * scale
    return model.eval()


def test_equal_tokens_have_angle_0_and_rank_1() -> None:
    z = torch.randn(2, 1, 5).expand(2, 7, 5)
    torch.testing.assert_close(average_angle(z), torch.zeros(2), atol=1e-4, rtol=0)
    torch.testing.assert_close(effective_rank(z), torch.ones(2))
    assert rank(z).tolist() == [1, 1]


def test_orthogonal_tokens_have_angle_90_and_full_rank() -> None:
    z = 3 * torch.eye(5)[None]
    torch.testing.assert_close(average_angle(z), torch.tensor([90.0]))
    torch.testing.assert_close(effective_rank(z), torch.tensor([5.0]))
    assert rank(z).item() == 5


def test_opposite_and_zero_tokens_give_numbers() -> None:
    assert average_angle(torch.tensor([[1.0, 0.0], [-2.0, 0.0]])).item() == pytest.approx(180.0)
    zeros = torch.zeros(4, 3)
    assert [each(zeros).item() for each in (average_angle, effective_rank, rank)] == [0.0, 0.0, 0.0]
    half = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    assert average_angle(half).item() == pytest.approx(90.0)


@given(st.integers(0, 2**16))
def test_ranks_and_angles_do_not_depend_on_order_or_axes(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    turn = principal_directions(torch.randn(4, 4, generator=generator, dtype=torch.float64), 4)
    moved = z[torch.randperm(6, generator=generator)] @ turn
    for measure in (effective_rank, rank, average_angle):
        torch.testing.assert_close(measure(moved), measure(z))
    assert 1 <= effective_rank(z) <= 4
    assert 0 <= average_angle(z) <= 180


def test_principal_directions_are_orthonormal_and_hold_the_length() -> None:
    torch.manual_seed(0)
    rows = torch.randn(20, 2, dtype=torch.float64) @ torch.randn(2, 6, dtype=torch.float64)
    directions = principal_directions(rows, 2)
    torch.testing.assert_close(directions.mT @ directions, torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close((rows @ directions).square().sum(), rows.square().sum())


def test_a_trace_holds_what_the_layer_says() -> None:
    model = model_of()
    found = trace(model, PUZZLE, n_iterations=5)
    assert [moment.iteration for moment in found.moments] == list(range(6))
    states = list(model.states(PUZZLE, n_iterations=5))
    for moment, state in zip(found.moments[1:], states, strict=True):
        energies = model.body.energy(state)
        assert moment.attention == pytest.approx(energies.attention.mean().item(), rel=1e-5)
        assert moment.feed_forward == pytest.approx(energies.feed_forward.mean().item(), rel=1e-5)
        assert moment.energy == pytest.approx(moment.attention + moment.feed_forward, rel=1e-5)
    totals = torch.stack([model.body.energy(state).total for state in states])
    fell = (totals.diff(dim=0) <= 0).float().mean(1).tolist()
    assert [moment.fell for moment in found.moments[2:]] == pytest.approx(fell)
    whole_way = descent(model, PUZZLE, n_iterations=5)
    assert [moment.never_rose for moment in found.moments] == pytest.approx(
        [whole_way.fell[: n + 1].all(0).float().mean().item() for n in range(6)]
    )
    assert whole_way.monotone.float().mean().item() == pytest.approx(found.monotone)
    assert found.points[0].shape == (81, 4)


def test_inputs_are_followed_a_few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of()
    whole = trace(model, PUZZLE)
    monkeypatch.setattr(tracing, "AT_ONCE", 2)
    parts = trace(model, PUZZLE)
    for one, other in zip(whole.moments, parts.moments, strict=True):
        assert astuple(other) == pytest.approx(astuple(one), rel=1e-5)
    torch.testing.assert_close(parts.points, whole.points)


def test_the_first_test_inputs_are_traced_as_they_are(
    sudoku_run: Path, image_folder: Path, tmp_path: Path
) -> None:
    run = Run.open(sudoku_run)
    assert isinstance(run.data, Splits)
    assert torch.equal(first_inputs(run, 4)[0], run.data.test.puzzles[:4])
    assert torch.equal(first_inputs(run, 64)[0], run.data.test.puzzles)
    changes = {**SMALL, "data": str(image_folder), "n_train": 0, "n_valid": 4, "n_side": 4, "augment": "flip"}
    for task, n_parts in (("classify", 1), ("mask", 2)):
        run = Run.new(VisionConfig().changed({"task": task, "batch_size": 2} | changes))
        inputs, test = first_inputs(run, 64), run.data[-1]
        assert isinstance(test, Images)
        assert len(inputs) == n_parts
        torch.testing.assert_close(inputs[0], test.pixels / 127.5 - 1.0)
        for hidden in inputs[1:]:
            assert hidden.sum(1).tolist() == [6] * 8  # 40 % of 16
    np.savez(tmp_path / "symbols.npz", symbols=np.arange(12)[:, None].repeat(16, 1) % 5)
    changes |= {"width": 24, "data": str(tmp_path / "symbols.npz"), "n_test": 3, "batch_size": 2}
    run = Run.new(VisionConfig().changed(changes | {"task": "mask"}))
    (seen,), symbols = first_inputs(run, 2), run.data[-1]
    assert isinstance(symbols, Symbols)
    assert (seen == 5).sum(1).tolist() == [6, 6]
    assert torch.equal(torch.where(seen == 5, symbols.symbols[:2], seen), symbols.symbols[:2])
    assert len(trace(run.model.eval(), seen).moments) == 5


def test_iterations_are_marked_by_whole_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    evaluation._write(tmp_path, [{"iteration": n, "accuracy": n / 4} for n in (1, 2, 3)], 2)
    names = [each.name for each in fields(Moment)]
    drawn.append(curves([dict.fromkeys(names, 0.5) | {"iteration": n} for n in range(3)]))
    assert [len(figure.axes) for figure in drawn] == [1, 6]
    for axes in (axes for figure in drawn for axes in figure.axes):
        assert all(tick == round(tick) for tick in axes.get_xticks())
    assert [axes.get_title() for axes in drawn[1].axes[:3]] == [
        "energy of the attention",
        "energy of the feed-forward part",
        "total energy",
    ]


def test_with_halvings_the_traced_energy_is_monotone() -> None:
    changes: dict[str, Any] = {"steps": "fixed", "step_size": 30.0}
    assert trace(model_of(**changes), PUZZLE, n_iterations=8).monotone < 1
    found = trace(model_of(**changes, n_halvings=8), PUZZLE, n_iterations=8)
    assert found.monotone == 1
    assert min(moment.accepted for moment in found.moments) < 1


@pytest.mark.parametrize("changes", [{"lora_rank": 2}, {"n_layers": 2}])
def test_with_halvings_every_iteration_lowers_its_own_energy(changes: dict[str, Any]) -> None:
    """Between two of them the energy is another, and may stand higher."""
    found = descent(model_of(steps="fixed", step_size=30.0, n_halvings=8, **changes), PUZZLE)
    assert found.monotone.all()
    assert (found.energy.diff(dim=0) > 0).any()
    assert not descent(model_of(steps="fixed", step_size=30.0, **changes), PUZZLE).monotone.any()


def test_before_is_the_energy_that_the_iteration_had_at_the_state_before() -> None:
    model = model_of(lora_rank=2, n_layers=2, n_iterations=2)
    found = descent(model, PUZZLE)
    states = list(model.states(PUZZLE))
    for row, (place, earlier) in enumerate(zip([(0, 1), (1, 0), (1, 1)], states, strict=False), start=2):
        layer = model.body.layers[place[0]]
        assert isinstance(layer, HyperSetLayer)
        torch.testing.assert_close(found.before[row], layer.energy(earlier.x, place[1]).total)


def test_a_descent_by_hand() -> None:
    """Energies 3, 2, 2, 1 never rise; 3, 2, 4, 1 rise once."""
    attention = torch.tensor([[1.0, 2.0], [1.0, 1.0], [0.0, 2.0], [1.0, 0.0]])
    feed_forward = torch.tensor([[2.0, 1.0], [1.0, 1.0], [2.0, 2.0], [0.0, 1.0]])
    before = torch.tensor([[3.0, 3.0], [3.0, 3.0], [2.0, 2.0], [2.0, 4.0]])
    found = Descent(attention, feed_forward, before, torch.ones(4, 2))
    assert found.fell.tolist() == [[True, True], [True, True], [True, False], [True, True]]
    assert found.monotone.tolist() == [True, False]


def test_a_descent_follows_the_energy_transformer_too() -> None:
    model = model_of(model="energy-transformer", steps="fixed", n_halvings=4)
    found = descent(model, PUZZLE)
    assert found.monotone.all()
    states = list(model.states(PUZZLE))
    expected = torch.stack([model.body.energy(state).total for state in states])
    torch.testing.assert_close(found.energy[1:], expected)
    assert found.accepted[0].tolist() == [1, 1, 1]


def test_only_hyper_set_has_spheres() -> None:
    with pytest.raises(UsageError, match="trace follows hyper-set's spheres, and transformer has none"):
        trace(model_of(model="transformer"), PUZZLE)


def test_iterating_ends_where_the_prediction_or_the_energy_rests() -> None:
    still = sudoku_model(ModelConfig(**SMALL)).eval()  # the identity at the start
    for on in ("prediction", "energy"):
        assert until_settled(still, PUZZLE, n_iterations=20, least=1, on=on).n_iterations == 3
    trained = still.body.config.n_iterations
    assert trained > 3
    for n, end in ((None, trained), (20, trained), (2, 2)):
        assert until_settled(still, PUZZLE, n_iterations=n).n_iterations == end
    layers = model_of(n_layers=2)
    ended = until_settled(layers, PUZZLE)
    assert ended.n_iterations == trained
    torch.testing.assert_close(ended.answer, layers(PUZZLE), rtol=0, atol=0)
    moving = model_of(scale=1.0)
    settled = until_settled(moving, PUZZLE, n_iterations=6, on="energy", tolerance=0.0)
    assert settled.n_iterations == 6
    torch.testing.assert_close(settled.answer, moving(PUZZLE, n_iterations=6))
    with pytest.raises(UsageError, match="unknown way to settle 'energies'; did you mean 'energy'"):
        until_settled(moving, PUZZLE, on="energies")


def test_the_command_writes_table_and_pictures(sudoku_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vision", "trace", str(sudoku_run), "--iterations", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("6 inputs, 5 iterations: energy ")  # all that the test set has
    with (sudoku_run / "trace" / "trace.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert lines[1].startswith(f"energy never rose for {100 * float(rows[-1]['never_rose']):.1f} % of the")
    assert all(torch.tensor([float(value) for value in row.values()]).isfinite().all() for row in rows)
    assert (sudoku_run / "trace" / "trace.png").stat().st_size > 10_000
    assert (sudoku_run / "trace" / "sphere.png").stat().st_size > 10_000
