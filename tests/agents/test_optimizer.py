"""ClippedAdam against torch's Adam."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from stable_baselines3.common.utils import update_learning_rate
from torch import Tensor, nn

from sna_rl.agents.optimizer import ClippedAdam


def parameters() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(size, generator=generator)) for size in (3, 5)]


def train(optimizer: torch.optim.Optimizer, values: list[nn.Parameter], scale: float = 1.0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        for value in values:
            value.grad = scale * torch.randn(value.shape, generator=generator)
        optimizer.step()
    return [value.detach().clone() for value in values]


def test_without_clipping_and_ratio_it_is_adam_bit_for_bit() -> None:
    plain, own = parameters(), parameters()
    expected = train(torch.optim.Adam(plain, lr=1e-2, betas=(0.8, 0.9)), plain)
    given = train(ClippedAdam(own, lr=1e-2, betas=(0.8, 0.9)), own)
    assert all(torch.equal(a, b) for a, b in zip(expected, given, strict=True))


def test_it_clips_the_norm_over_all_groups_together() -> None:
    plain, own = parameters(), parameters()
    groups: Any = [{"params": [own[0]]}, {"params": [own[1]]}]
    optimizer = ClippedAdam(groups, lr=1e-2, max_grad_norm=0.1)
    reference = torch.optim.Adam(plain, lr=1e-2)
    for value, mirror in zip(own, plain, strict=True):
        value.grad = torch.full_like(value, 2.0)
        norm = 2.0 * 8**0.5
        mirror.grad = torch.full_like(mirror, 2.0 * 0.1 / (norm + 1e-6))
    optimizer.step()
    reference.step()
    for value, mirror in zip(own, plain, strict=True):
        torch.testing.assert_close(value, mirror, rtol=0, atol=1e-7)
        assert value.grad is not None
        assert mirror.grad is not None
        torch.testing.assert_close(value.grad, mirror.grad)


def test_groups_keep_their_ratio_under_the_schedule() -> None:
    """R19: one learning rate is written into all groups; the ratio stays."""
    plain, own = parameters(), parameters()
    optimizer = ClippedAdam([{"params": [own[0]], "lr": 1e-4}, {"params": [own[1]], "lr": 1e-2}], lr=1e-3)
    assert [group["lr_ratio"] for group in optimizer.param_groups] == pytest.approx([0.1, 10.0])
    update_learning_rate(optimizer, 5e-4)
    reference = torch.optim.Adam([{"params": [plain[0]], "lr": 5e-5}, {"params": [plain[1]], "lr": 5e-3}])
    for expected, given in zip(train(reference, plain), train(optimizer, own), strict=True):
        torch.testing.assert_close(given, expected)
    assert [group["lr"] for group in optimizer.param_groups] == [5e-4, 5e-4]


def test_one_ratio_for_all_groups_and_copies_keep_the_clipping() -> None:
    own = parameters()
    optimizer = ClippedAdam(own, lr=1e-3, max_grad_norm=2.0, lr_ratio=3.0)
    assert optimizer.param_groups[0]["lr_ratio"] == 3.0
    assert copy.deepcopy(optimizer).max_grad_norm == 2.0
    assert ClippedAdam(parameters(), lr=0.0).param_groups[0]["lr_ratio"] == 1.0


def test_a_closure_runs_once_and_its_loss_comes_back() -> None:
    value = nn.Parameter(torch.ones(1))
    optimizer = ClippedAdam([value], lr=0.1, max_grad_norm=1.0)
    calls = []

    def closure() -> float:
        calls.append(1)
        value.grad = torch.ones(1)
        return 7.0

    assert optimizer.step(closure) == 7.0
    assert len(calls) == 1
    assert value.item() == pytest.approx(0.9)
