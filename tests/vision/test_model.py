"""Layers against plain references, steps, recurrence, read-outs, backtracking."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from sna_rl.errors import UsageError
from sna_rl.vision.baselines import CrateLayer, EnergyTransformerLayer, TransformerLayer, make_layer
from sna_rl.vision.config import MODELS, ModelConfig
from sna_rl.vision.embeddings import PatchEmbedding, SymbolEmbedding, from_patches, to_patches
from sna_rl.vision.layers import HyperSetLayer
from sna_rl.vision.model import IterativeModel, class_model, mask_model, sudoku_model, symbol_mask_model
from sna_rl.vision.objective import readout_loss
from sna_rl.vision.recurrence import Recurrence
from sna_rl.vision.steps import ConditionedSteps, make_steps, sinusoid

SMALL: dict[str, Any] = {"places": "cells", "width": 12, "n_heads": 3, "hidden": 20, "n_iterations": 4}


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


def config(**changes: Any) -> ModelConfig:
    return ModelConfig(**SMALL | changes)


def spread(module: torch.nn.Module) -> None:
    """Give every parameter values that no special case hides."""
    for parameter in module.parameters():
        parameter.data = torch.randn_like(parameter) * 0.3 + 0.1


# Hyper-SET ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lora_rank", [0, 2])
@pytest.mark.parametrize("attention", ["bisoftmax", "sigmoid", "linear", "relu"])
@pytest.mark.parametrize("feed", ["relu", "softmax", "gated"])
def test_with_the_exact_jacobian_updates_are_the_energys_descent(
    attention: str, feed: str, lora_rank: int
) -> None:
    layer = HyperSetLayer(config(attention=attention, feed=feed, jacobian="exact", lora_rank=lora_rank))
    spread(layer)
    x = torch.randn(2, 7, 12, requires_grad=True)
    energies = layer.energy(x, 1)
    for which, energy in enumerate(energies):
        (gradient,) = torch.autograd.grad(energy.sum(), x, retain_graph=True)
        torch.testing.assert_close(layer.update(x, which, 1), -gradient)
    torch.testing.assert_close(energies.total, energies.attention + energies.feed_forward)


def test_the_published_layer_written_out() -> None:
    layer = HyperSetLayer(config(eps=1e-7))
    spread(layer)
    x = torch.randn(2, 7, 12)
    gain, matrix, directions = layer.head_norm.weight, layer.heads.weight, layer.directions
    assert gain is not None
    expected = torch.zeros(2, 7, 12)
    for head in range(3):
        rows = matrix[4 * head : 4 * head + 4]
        v = x @ rows.T
        z = gain * v / (v.square().mean(-1, keepdim=True) + 1e-7).sqrt()
        scores = z @ z.mT / 2.0
        expected += (scores.softmax(-1) + scores.softmax(-2)) @ z @ rows
    torch.testing.assert_close(layer.update(x, 0, 0), -expected)
    v = x @ directions.T
    assert layer.feed_norm.weight is not None
    h = layer.feed_norm.weight * v / (v.square().mean(-1, keepdim=True) + 1e-7).sqrt()
    torch.testing.assert_close(layer.update(x, 1, 0), h.relu() @ directions)


def test_components_lie_on_spheres() -> None:
    layer = HyperSetLayer(config(gain="none"))
    z = layer.components(torch.randn(2, 7, 12) * 50, 0)
    torch.testing.assert_close(z.norm(dim=-1), torch.full((2, 3, 7), 2.0), rtol=1e-3, atol=1e-3)


# baselines ------------------------------------------------------------------------------------------------


def test_the_energy_transformers_update_is_its_energys_descent_in_g() -> None:
    layer = EnergyTransformerLayer(config(model="energy-transformer"))
    spread(layer)
    x = torch.randn(2, 7, 12)
    g = layer.normalise(x).detach().requires_grad_()
    layer.normalise = lambda x: x  # type: ignore[method-assign]
    (gradient,) = torch.autograd.grad(layer.energy(g, 0).total.sum(), g)
    torch.testing.assert_close(layer.update(g, 0, 0), -gradient)


def test_crate_written_out_and_crate_t_with_the_true_transpose() -> None:
    for name in ("crate", "crate-t"):
        layer = CrateLayer(config(model=name))
        spread(layer)
        x = torch.randn(2, 7, 12)
        y = layer.norms[0](x)
        z = (y @ layer.heads.weight.T).view(2, 7, 3, 4).transpose(1, 2)
        attended = ((z @ z.mT / 2.0).softmax(-1) @ z).transpose(1, 2).reshape(2, 7, 12)
        expected = attended @ layer.heads.weight if layer.out is None else layer.out(attended)
        torch.testing.assert_close(layer.update(x, 0, 0), expected)
        y, code = layer.norms[1](x), layer.dictionary
        sparse = F.relu(y + 0.1 * (y @ code - y @ code.T @ code) - 0.01)
        torch.testing.assert_close(x + layer.update(x, 1, 0), sparse)


def test_the_transformer_written_out() -> None:
    layer = TransformerLayer(config(model="transformer"))
    spread(layer)
    x = torch.randn(2, 7, 12)
    y = layer.norms[0](x)
    q, k, v = (part.view(2, 7, 3, 4).transpose(1, 2) for part in layer.qkv(y).chunk(3, -1))
    attended = (q @ k.mT / 2.0).softmax(-1) @ v
    torch.testing.assert_close(layer.update(x, 0, 0), layer.out(attended.transpose(1, 2).flatten(2)))
    hidden = layer.norms[1](x) @ layer.up.weight.T
    torch.testing.assert_close(layer.update(x, 1, 0), hidden.relu() @ layer.down.weight.T)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_permutes_with_its_tokens(model: str) -> None:
    layer = make_layer(config(model=model))
    spread(layer)
    x, order = torch.randn(1, 7, 12), torch.randperm(7)
    for which in range(layer.n_updates):
        torch.testing.assert_close(layer.update(x[:, order], which, 0), layer.update(x, which, 0)[:, order])


# steps ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time", ["mlp", "normed", "sinusoid"])
@pytest.mark.parametrize("on", ["start", "current"])
def test_only_the_last_map_is_zero_and_steps_learn_to_differ_between_iterations(on: str, time: str) -> None:
    model = sudoku_model(config(steps=on, step_time=time))
    policy = model.body.steps
    assert isinstance(policy, ConditionedSteps)
    zero = [name for name, each in policy.named_parameters() if not each.any() and "weight" in name]
    assert zero == ["out.weight"]
    x = model.embed(PUZZLE).detach()
    assert all(not step.any() for step in policy(0, x, x))
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.03)
    targets = [0.3, -0.2, 0.1, 0.4]
    for _ in range(150):
        errors = [(policy(t, x, x)[0] - target).square().mean() for t, target in enumerate(targets)]
        loss = torch.stack(errors).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    steps = torch.stack([policy(t, x, x)[0].mean() for t in range(4)])
    assert steps.std() > 0.15


def test_training_a_model_makes_its_steps_differ_between_iterations() -> None:
    """At the start all are zero; in the published code they never differ."""
    model = sudoku_model(config(width=8, n_heads=2, hidden=16, n_iterations=3))
    digits = torch.randint(0, 9, PUZZLE.shape)

    def steps() -> Tensor:
        x = model.embed(PUZZLE)
        return torch.stack([torch.stack(model.body.steps(t, x, x)) for t in range(3)])

    def cross_entropy(answer: Tensor) -> Tensor:
        return F.cross_entropy(answer.flatten(0, 1), digits.flatten())

    assert not steps().any()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(20):
        loss, _ = readout_loss(model, (PUZZLE,), cross_entropy, "all")
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    found = steps()
    apart = found.diff(dim=0).abs().mean((1, 2, 3, 4))
    assert (apart > 1e-3).all()


def test_steps_follow_x0_or_xt_as_they_are_told() -> None:
    x, y = torch.randn(1, 5, 12), torch.randn(1, 5, 12)
    for on, same in (("start", True), ("current", False)):
        policy = make_steps(config(steps=on), 2)
        spread(policy)
        assert torch.equal(policy(0, x, x)[1], policy(0, x, y)[1]) is same
        assert torch.equal(policy(0, x, x)[1], policy(0, y, x)[1]) is not same


def test_positive_steps_begin_at_the_step_size_and_stay_positive() -> None:
    model = sudoku_model(config(positive_steps=True, step_size=0.2))
    x = torch.randn(1, 5, 12)
    torch.testing.assert_close(model.body.steps(0, x, x)[0], torch.full((1, 5, 12), 0.2))
    spread(model.body.steps)
    assert all((step > 0).all() for step in model.body.steps(3, 9 * x, x))


def test_positive_steps_of_each_iteration_begin_at_the_step_size_too() -> None:
    x = torch.randn(1, 5, 12)
    for size in (0.2, 1_000.0):
        policy = make_steps(config(steps="iteration", positive_steps=True, step_size=size), 2)
        torch.testing.assert_close(torch.stack(policy(3, x, x)), torch.full((2, 12), size))
    (steps,) = policy.parameters()
    steps.data.fill_(-2.0)
    expected = torch.log1p(torch.exp(torch.tensor(-2.0)))
    torch.testing.assert_close(torch.stack(policy(0, x, x)), expected.expand(2, 12))


def test_fixed_and_iteration_steps() -> None:
    x = torch.randn(1, 5, 12)
    assert [float(step) for step in make_steps(config(steps="fixed", step_size=0.5), 2)(7, x, x)] == [
        0.5,
        0.5,
    ]
    policy = make_steps(config(steps="iteration"), 2)
    spread(policy)
    assert not torch.equal(policy(0, x, x)[0], policy(3, x, x)[0])
    assert torch.equal(policy(3, x, x)[0], policy(9, x, x)[0])


def test_a_sinusoid_by_hand() -> None:
    expected = [torch.sin(torch.tensor(3.0)), torch.sin(torch.tensor(3e-4))]
    torch.testing.assert_close(sinusoid(3, 4)[:2], torch.stack(expected), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(sinusoid(3, 4).view(2, 2).square().sum(0), torch.ones(2))


# recurrence -----------------------------------------------------------------------------------------------


def trained(**changes: Any) -> IterativeModel:
    model = sudoku_model(config(**changes))
    spread(model)
    return model.eval()


def gradients(model: IterativeModel, puzzle: Tensor) -> list[Tensor]:
    model.zero_grad()
    model(puzzle).square().sum().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


PUZZLE = torch.randint(0, 10, (2, 81), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("model", MODELS)
def test_the_whole_stack_is_the_identity_at_the_start(model: str) -> None:
    net = sudoku_model(config(model=model)).eval()
    start = net.embed(PUZZLE)
    for state in net.states(PUZZLE):
        assert torch.equal(state.x, start)


def test_states_are_those_of_a_plain_loop_and_go_on_beyond_training() -> None:
    model = trained()
    start = x = model.embed(PUZZLE)
    layer = make_layer(model.body.config)
    layer.load_state_dict(model.body.layers[0].state_dict())
    for t, state in enumerate(model.states(PUZZLE, n_iterations=6)):
        alpha, gamma = model.body.steps(t, start, x)
        x = x + alpha * layer.update(x, 0, t)
        x = x + gamma * layer.update(x, 1, t)
        torch.testing.assert_close(state.x, x)
        torch.testing.assert_close(model.read(state), model.head(x))
    assert t == 5
    torch.testing.assert_close(model(PUZZLE, n_iterations=6), model.head(x))


def test_layers_are_iterated_one_after_the_other() -> None:
    model = trained(n_layers=2, n_iterations=3)
    assert [(state.layer, state.t) for state in model.states(PUZZLE)] == [
        (layer, t) for layer in range(2) for t in range(3)
    ]


@pytest.mark.parametrize(("loss_on", "read_at"), [("last", {2}), ("random", {0, 1, 2})])
def test_of_several_layers_the_last_ones_iterations_are_read(
    loss_on: str, read_at: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = trained(n_layers=2, n_iterations=3)
    losses = {
        (state.layer, state.t): model.read(state).square().mean().item() for state in model.states(PUZZLE)
    }
    done: list[tuple[int, int]] = []
    advance = model.body._advance

    def watched(index: int, t: int, *rest: Tensor) -> tuple[Tensor, Tensor]:
        done.append((index, t))
        return advance(index, t, *rest)

    monkeypatch.setattr(model.body, "_advance", watched)
    seen = set()
    for _ in range(15):
        loss, _ = readout_loss(model, (PUZZLE,), lambda answer: answer.square().mean(), loss_on)
        assert loss.item() == losses[done[-1]]  # nothing is computed after it
        seen.add(done[-1])
    assert seen == {(1, t) for t in read_at}


def test_recomputed_gradients_are_the_same() -> None:
    plain, again = trained(), trained(recompute=True)
    again.load_state_dict(plain.state_dict())
    for left, right in zip(gradients(plain, PUZZLE), gradients(again, PUZZLE), strict=True):
        torch.testing.assert_close(left, right)


def test_truncated_gradients_are_those_from_a_cut_state() -> None:
    model = trained(truncate=2, steps="fixed")
    start = model.embed(PUZZLE)
    states = list(model.body.states(start))
    (through,) = torch.autograd.grad(states[1].x.sum(), start, retain_graph=True)
    assert through.any()
    assert torch.autograd.grad(states[3].x.sum(), start, allow_unused=True) == (None,)
    whole = trained(steps="fixed")
    whole.load_state_dict(model.state_dict())
    torch.testing.assert_close(list(whole.states(PUZZLE))[3].x, states[3].x)


def test_with_halvings_the_energy_never_rises() -> None:
    changes: dict[str, Any] = {"steps": "fixed", "step_size": 40.0}
    plain, careful = trained(**changes), trained(**changes, n_halvings=8)
    careful.load_state_dict(plain.state_dict())
    curves = []
    for net in (plain, careful):
        states = list(net.states(PUZZLE, n_iterations=6))
        curves.append(torch.stack([net.body.energy(state).total for state in states]))
        accepted = torch.stack([state.accepted for state in states])
    assert (curves[0].diff(dim=0) > 0).any()
    assert (curves[1].diff(dim=0) <= 1e-9).all()
    assert ((accepted < 1) & (accepted >= 0)).any()
    halvings = accepted[accepted > 0].log2()
    torch.testing.assert_close(halvings, halvings.round())


def test_small_steps_along_the_exact_gradient_lower_the_energy_for_all() -> None:
    model = trained(steps="fixed", step_size=1e-3, jacobian="exact", n_halvings=4)
    states = list(model.states(PUZZLE))
    energy = torch.stack([model.body.energy(state).total for state in states])
    assert (energy.diff(dim=0) < 0).all()
    assert all((state.accepted == 1).all() for state in states)


def test_low_rank_deltas_change_nothing_at_first_and_have_no_iteration_to_spare() -> None:
    plain, deltas = trained(), sudoku_model(config(lora_rank=2)).eval()
    missing = deltas.load_state_dict(plain.state_dict(), strict=False).missing_keys
    assert all("delta" in name for name in missing)
    torch.testing.assert_close(deltas(PUZZLE), plain(PUZZLE))
    with pytest.raises(UsageError, match="low-rank deltas for 4 iterations, so it can't do 5"):
        deltas(PUZZLE, n_iterations=5)


def test_a_model_without_energy_says_so() -> None:
    model = sudoku_model(config(model="transformer"))
    (state, *_) = model.states(PUZZLE)
    with pytest.raises(UsageError, match="transformer has no energy"):
        model.body.energy(state)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_heads": 5}, "n_heads must divide the width 12, not 5"),
        ({"n_iterations": 0}, "n_iterations must be an int of at least 1, not 0"),
        ({"dropout": 1.0}, "dropout must be from 0"),
        ({"steps": "learned"}, "unknown steps 'learned'"),
        ({"feed": "rel"}, "unknown feed 'rel'; did you mean 'relu'"),
        ({"attention": "linear", "kernel": "gelo"}, "unknown kernel 'gelo'; did you mean 'gelu'"),
        ({"kernel": "cosine"}, "unknown kernel 'cosine'"),
        ({"steps": "fixed", "step_size": math.inf}, "step_size must be over 0 and finite, not inf"),
        ({"steps": "fixed", "step_size": 0.0}, "step_size must be over 0 and finite, not 0.0"),
        ({"lora_rank": 2, "lora_scale": math.nan}, "lora_scale must be over 0 and finite, not nan"),
    ],
)
def test_bad_configurations(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Recurrence(config(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "transformer", "attention": "relu"}, "attention 'relu' .* with model hyper-set alone"),
        ({"model": "crate", "feed": "gated"}, "feed 'gated' .* with model hyper-set alone"),
        ({"model": "crate-t", "gain": "none"}, "gain 'none' .* with model hyper-set alone"),
        ({"model": "energy-transformer", "jacobian": "exact"}, "jacobian 'exact' .* with model hyper-set"),
        ({"model": "crate", "lora_rank": 2}, "lora_rank 2 .* with model hyper-set alone"),
        ({"model": "crate", "n_halvings": 2}, "n_halvings 2 .* with model hyper-set or energy-transformer"),
        ({"norm": "layer"}, "norm 'layer' .* with model transformer alone"),
        ({"kernel": "relu"}, "kernel 'relu' .* with attention linear alone"),
        ({"lora_scale": 2.0}, "lora_scale 2.0 .* with a lora_rank alone"),
        ({"steps": "fixed", "step_time": "normed"}, "step_time 'normed' .* with steps start or current"),
        ({"steps": "fixed", "positive_steps": True}, "positive_steps True .* with steps iteration, start or"),
        ({"step_size": 0.5}, "step_size 0.5 .* with steps fixed or positive_steps alone"),
    ],
)
def test_settings_that_nothing_would_read_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace(" .* ", " would change nothing: it is read ")):
        config(**changes)


# embeddings -----------------------------------------------------------------------------------------------


def test_patches_and_back() -> None:
    images = torch.randn(2, 3, 8, 6)
    patches = to_patches(images, (4, 2))
    assert patches.shape == (2, 6, 24)
    torch.testing.assert_close(patches[0, 4].view(4, 2, 3).permute(2, 0, 1), images[0, :, 4:, 2:4])
    assert torch.equal(from_patches(patches, (4, 2), (3, 8, 6)), images)
    with pytest.raises(UsageError, match="n_side must divide the image's 8 × 6 pixels, not 4"):
        PatchEmbedding((3, 8, 6), 4, 8)


def test_every_models_embedding_leaves_numbers_out_in_training_alone() -> None:
    half = config(width=16, n_heads=2, dropout=0.5)
    images, symbols = torch.randn(8, 1, 8, 8), torch.zeros(8, 16, dtype=torch.int64)
    boards = torch.zeros(8, 81, dtype=torch.int64)
    for model, given in (
        (class_model(half, (1, 8, 8), 4, 5), images),
        (mask_model(half, (1, 8, 8), 4), images),
        (symbol_mask_model(half, 5, 16), symbols),
        (sudoku_model(half), boards),
    ):
        whole = model.eval().embed(given)
        some = model.train().embed(given)
        kept = some != 0.0
        assert kept.float().mean().item() == pytest.approx(0.5, abs=0.05)
        torch.testing.assert_close(some[kept], 2 * whole[kept])


def test_hidden_patches_tell_nothing_of_their_pixels() -> None:
    embed = PatchEmbedding((1, 4, 4), 2, 8, has_class_token=False, n_masks=1)
    images, hidden = torch.randn(1, 1, 4, 4), torch.tensor([[True, False, False, False]])
    other = images.clone()
    other[..., :2, :2] = torch.randn(2, 2)
    assert torch.equal(embed(images, hidden), embed(other, hidden))
    assert not torch.equal(embed(images), embed(other))


def test_places_by_lines_are_those_of_row_column_and_box() -> None:
    model = sudoku_model(ModelConfig(width=12, n_heads=3, hidden=20, places="lines"))
    assert isinstance(model.embed, SymbolEmbedding)
    places = model.embed.places.data
    assert places.shape == (3, 9, 12)
    x = model.embed(torch.zeros(1, 81, dtype=torch.int64)) - model.embed.symbols.weight[0]
    for cell, (row, column, box) in {0: (0, 0, 0), 40: (4, 4, 4), 33: (3, 6, 5), 80: (8, 8, 8)}.items():
        torch.testing.assert_close(x[0, cell], places[0, row] + places[1, column] + places[2, box])


def test_fixed_places_want_a_square() -> None:
    with pytest.raises(UsageError, match="square of tokens, and 80 are none"):
        SymbolEmbedding(10, 80, 8, learned=False)


def test_widths_that_sinusoids_do_not_fill_are_named() -> None:
    def of(width: int, **changes: Any) -> ModelConfig:
        return ModelConfig(width=width, n_heads=1, hidden=16, **changes)

    for width in (9, 2):
        message = f"width must be a multiple of 2 from 4 on, to be filled by sinusoids, not {width}"
        with pytest.raises(UsageError, match=message):
            class_model(of(width), (1, 8, 8), 4, 5)
        with pytest.raises(UsageError, match=message):
            mask_model(of(width), (1, 8, 8), 4)
        with pytest.raises(UsageError, match=message):
            sudoku_model(of(width, step_time="sinusoid"))
    for width in (10, 6, 4):
        with pytest.raises(UsageError, match=f"width must be a multiple of 4 from 8 on, .*, not {width}"):
            symbol_mask_model(of(width), 5, 16)
    assert sudoku_model(of(9)).body.config.width == 9
    assert symbol_mask_model(of(8), 5, 16)(torch.zeros(1, 16, dtype=torch.int64)).shape == (1, 16, 5)
    assert class_model(of(6), (1, 8, 8), 4, 5)(torch.zeros(1, 1, 8, 8)).shape == (1, 5)


def test_classes_are_read_from_the_first_token() -> None:
    model = class_model(config(), (1, 8, 8), 4, 5)
    images = torch.randn(2, 1, 8, 8)
    *_, last = model.states(images)
    torch.testing.assert_close(model(images), model.head(last.x[:, :1]))


def test_singular_values_come_from_the_core() -> None:
    folder = Path(__file__).parents[2] / "sna_rl" / "vision"
    for file in folder.glob("*.py"):
        text = file.read_text()
        assert "linalg" not in text, file
        assert "def svd" not in text, file
        assert ".svd" not in text, file
