"""Adam on named tensors against PyTorch's and this package's optimizers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from sna_rl.agents.fused.adam import FusedAdam, is_plain_adam, polyak
from sna_rl.agents.optimizer import ClippedAdam


def pair(make: Any) -> tuple[list[Tensor], Optimizer, FusedAdam, dict[str, Tensor]]:
    """Parameters with PyTorch's optimizer, and copies of them with the fused one."""
    torch.manual_seed(0)
    plain = [torch.randn(3, 2, dtype=torch.float64, requires_grad=True), torch.randn(4, dtype=torch.float64)]
    plain[1].requires_grad_()
    copies = [tensor.detach().clone().requires_grad_() for tensor in plain]
    fused = FusedAdam(make(copies), {id(copy): f"p{i}" for i, copy in enumerate(copies)})
    return plain, make(plain), fused, {f"p{i}": copy.detach() for i, copy in enumerate(copies)}


def fused_step(fused: FusedAdam, named: dict[str, Tensor], gradients: list[Tensor]) -> None:
    scalars = [torch.tensor(value, dtype=torch.float64) for value in fused.scalars(fused.steps() + 1)]
    fused.step(named, {f"p{i}": gradient for i, gradient in enumerate(gradients)}, fused.moments(), scalars)
    fused.advance(1)


@pytest.mark.parametrize(
    "make",
    [
        lambda params: Adam(params, 1e-2),
        lambda params: Adam(params, 1e-2, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
        lambda params: ClippedAdam(params, 1e-2, max_grad_norm=0.5, lr_ratio=3.0),
        lambda params: Adam([{"params": params[:1], "lr": 0.1}, {"params": params[1:]}], 1e-2),
    ],
)
def test_thirty_steps_equal_the_optimizer_s_own(make: Any) -> None:
    plain, optimizer, fused, named = pair(make)
    for _ in range(30):
        gradients = [torch.randn_like(tensor) for tensor in plain]
        for tensor, gradient in zip(plain, gradients, strict=True):
            tensor.grad = gradient.clone()
        optimizer.step()
        fused_step(fused, named, gradients)
    for ours, theirs in zip(named.values(), plain, strict=True):
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-12, atol=0.0)
    assert fused.steps() == 30
    ours_state, theirs_state = fused.optimizer.state_dict(), optimizer.state_dict()
    assert ours_state["param_groups"] == theirs_state["param_groups"]
    for index, state in theirs_state["state"].items():
        for key, value in state.items():
            torch.testing.assert_close(ours_state["state"][index][key], value, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_no_parameter_moves_along_a_gradient_that_is_not_finite(bad: float) -> None:
    plain, _, fused, named = pair(lambda params: Adam(params, 1e-2))
    gradients = [torch.ones_like(tensor) for tensor in plain]
    gradients[1][2] = bad
    fused_step(fused, named, gradients)
    for ours, theirs in zip(named.values(), plain, strict=True):
        assert torch.equal(ours, theirs.detach())
    assert not fused.moments()["exp_avg"]["p1"].isfinite().all()


def test_variants_of_adam_are_told_apart() -> None:
    parameter = [torch.zeros(1, requires_grad=True)]
    assert is_plain_adam(Adam(parameter))
    assert not is_plain_adam(Adam(parameter, amsgrad=True))
    assert not is_plain_adam(torch.optim.AdamW(parameter))


def test_polyak_moves_targets_by_tau() -> None:
    target = {"a": torch.tensor([1.0, 2.0])}
    polyak({"a": torch.tensor([3.0, 2.0]), "b": torch.zeros(1)}, target, torch.tensor(0.25))
    assert target["a"].tolist() == [1.5, 2.0]
