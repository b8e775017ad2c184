"""Parameters of the published configurations, and products counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sna_rl.vision.config import ModelConfig
from sna_rl.vision.counts import n_flops, n_parameters
from sna_rl.vision.model import class_model, sudoku_model, symbol_mask_model
from sna_rl.vision.steps import ConditionedSteps

SUDOKU: dict[str, Any] = {"width": 768, "n_heads": 12, "hidden": 3072, "n_iterations": 1, "places": "cells"}
IMAGE: dict[str, Any] = {"n_heads": 8, "n_iterations": 12, "steps": "current", "step_time": "normed"}
PLAIN: dict[str, Any] = {"n_heads": 8, "steps": "fixed", "plain_patches": True}
MASK: dict[str, Any] = {"width": 768, "n_heads": 12}


@pytest.mark.parametrize(
    ("config", "published"),
    [
        ({}, 5_195_584),
        ({"model": "transformer", "steps": "fixed"}, 7_156_992),
        ({"model": "crate", "steps": "fixed"}, 1_850_880),
        ({"model": "energy-transformer", "steps": "fixed"}, 3_617_281),
    ],
)
def test_sudoku(config: dict[str, Any], published: int) -> None:
    assert n_parameters(sudoku_model(ModelConfig(**SUDOKU, **config))) == published


def test_sudoku_step_network() -> None:
    assert n_parameters(sudoku_model(ModelConfig(**SUDOKU)).body.steps) == 2_165_760


@pytest.mark.parametrize(
    ("width", "layers", "side", "patches", "classes", "ours", "published"),
    [
        (512, 1, 224, 16, 100, 1_934_140, 1_934_268),
        (512, 1, 224, 16, 1000, 2_395_840, 2_395_968),
        (640, 1, 224, 16, 1000, 3_403_840, 3_403_968),
        (512, 12, 224, 16, 1000, 8_169_344, 8_170_880),
        (768, 12, 224, 16, 1000, 17_560_960, 17_562_496),
        (512, 1, 32, 8, 100, 1_656_580, 1_656_708),
    ],
)
def test_images_have_two_gains_of_a_head_less_in_each_layer_than_published(
    width: int, layers: int, side: int, patches: int, classes: int, ours: int, published: int
) -> None:
    """The published layers have a gain of 64 numbers each for queries, keys and values; here is one for all.

    With three that differ, the update would be no energy's gradient.
    """
    config = ModelConfig(width=width, hidden=width, n_layers=layers, **IMAGE | {"n_heads": width // 64})
    model = class_model(config, (3, side, side), patches, classes)
    assert n_parameters(model) == ours
    assert published - ours == layers * 2 * 64


def test_images_step_network_counts_the_norm_of_its_signal_too() -> None:
    """1,052,160 published; the 512 gains of x_t's norm stand outside of that network there, inside here.

    The whole models agree but for the gains of the heads, so nothing else differs.
    """
    model = class_model(ModelConfig(width=512, hidden=512, **IMAGE), (3, 224, 224), 16, 100)
    steps = model.body.steps
    assert isinstance(steps, ConditionedSteps)
    assert n_parameters(steps) == 1_052_672
    assert n_parameters(steps) - n_parameters(steps.signal) == 1_052_160


@pytest.mark.parametrize(
    ("config", "published"),
    [
        ({"model": "transformer", "norm": "layer", "width": 384, "hidden": 1536}, 2_383_336),
        ({"model": "energy-transformer", "width": 512, "hidden": 2048}, 2_389_481),
        ({"model": "crate", "width": 768}, 2_996_968),
        ({"model": "crate-t", "width": 896}, 3_036_648),
    ],
)
def test_image_baselines(config: dict[str, Any], published: int) -> None:
    model = class_model(ModelConfig(**PLAIN, **config), (3, 224, 224), 16, 1000)
    assert n_parameters(model) == published


@pytest.mark.parametrize(
    ("config", "published"),
    [
        ({"hidden": 768, "step_time": "sinusoid"}, 3_937_856),
        ({"hidden": 6144, "step_time": "sinusoid"}, 8_072_000),
        ({"model": "transformer", "hidden": 3072, "steps": "fixed"}, 8_654_848),
    ],
)
def test_masked_images(config: dict[str, Any], published: int) -> None:
    assert n_parameters(symbol_mask_model(ModelConfig(**MASK, **config), 1024, 256)) == published


@pytest.mark.parametrize(("rank", "millions"), [(4, 2.03), (8, 2.13), (16, 2.33), (32, 2.72)])
def test_deltas(rank: int, millions: float) -> None:
    config = ModelConfig(width=512, hidden=512, lora_rank=rank, **IMAGE)
    assert round(n_parameters(class_model(config, (3, 224, 224), 16, 100)) / 1e6, 2) == millions


def test_a_vector_a_step_costs_no_product() -> None:
    tokens = torch.zeros(2, 81, dtype=torch.int64)
    small: dict[str, Any] = {"width": 8, "n_heads": 2, "hidden": 16, "n_iterations": 2}
    vector, number = (sudoku_model(ModelConfig(**small, steps=steps)) for steps in ("iteration", "fixed"))
    assert n_flops(vector, tokens) == n_flops(number, tokens)
    assert all(each.requires_grad for each in vector.parameters())


@pytest.mark.parametrize("own", [{"step_time": "sinusoid"}, {"model": "transformer", "steps": "fixed"}])
def test_products_of_a_token_and_iteration(own: dict[str, Any]) -> None:
    """2 d² + 2 N d + 2 d M + 2 d² for Hyper-SET, 4 d² + 2 N d + 2 d M for the transformer, N = 81."""
    width, hidden, tokens = 32, 128, 81
    tokens_in = torch.zeros(2, tokens, dtype=torch.int64)
    counts = []
    for n in (1, 2):
        config = ModelConfig(width=width, hidden=hidden, n_iterations=n, **own)
        counts.append(n_flops(sudoku_model(config), tokens_in))
    products = 4 * width**2 + 2 * tokens * width + 2 * width * hidden
    assert counts[1] - counts[0] == 2 * 2 * tokens * products
