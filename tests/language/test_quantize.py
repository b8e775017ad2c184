"""Quantisation: which layer gets which type, the error of a byte, sizes; the loss hardly moves."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sna_rl.language.arcade import ArcadeLM
from sna_rl.language.config import ArcadeConfig, LMConfig
from sna_rl.language.losses import Batch, model_loss
from sna_rl.language.model import SeparableLM
from sna_rl.language.quantize import HalfLinear, Int8Linear, quantized, size_in_bytes

CONFIG = LMConfig(vocab_size=64, n_positions=32, width=32, n_layers=2, rank=8)


def test_weights_are_within_half_a_step_of_each_outputs_scale() -> None:
    torch.manual_seed(0)
    linear = nn.Linear(50, 20, bias=False)
    with torch.no_grad():
        linear.weight[3] *= 100.0  # an output of its own scale spoils no other
        linear.weight[4] = 0.0
    layer = Int8Linear(linear)
    step = linear.weight.abs().amax(1, keepdim=True) / 127
    restored = layer.weight * layer.scale[:, None]
    assert ((restored - linear.weight).abs() <= step / 2 + 1e-9).all()
    x = torch.randn(7, 50)
    torch.testing.assert_close(layer(x), x @ restored.T)


def test_the_constraint_half_and_the_head_have_16_bits() -> None:
    small = quantized(ArcadeLM(CONFIG, ArcadeConfig()))
    kinds = {name: type(module) for name, module in small.named_modules() if hasattr(module, "weight")}
    for name, kind in kinds.items():
        if kind in (Int8Linear, HalfLinear):
            assert (kind is HalfLinear) == (".constraint." in name or name == "head"), name
    assert nn.Linear not in kinds.values()
    assert {Int8Linear, HalfLinear} <= set(kinds.values())


@pytest.mark.parametrize("kind", ["separable", "arcade"])
def test_the_loss_of_a_trained_model_moves_by_less_than_a_hundredth(kind: str) -> None:
    torch.manual_seed(0)
    model = ArcadeLM(CONFIG, ArcadeConfig()) if kind == "arcade" else SeparableLM(CONFIG)
    steps = torch.randint(1, 4, (16, 33)).cumsum(1) % 64
    batch = Batch(steps[:, :-1], steps[:, 1:])
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(60):
        loss, _ = model_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    small = quantized(model)
    with torch.no_grad():
        before, after = (float(model_loss(each, batch)[0]) for each in (model, small))
    assert before < 3.0
    assert after == pytest.approx(before, rel=0.01)
    assert size_in_bytes(small) < 0.6 * size_in_bytes(model)
    assert all(parameter.requires_grad for parameter in model.parameters())
