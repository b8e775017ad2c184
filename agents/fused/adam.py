"""Adam as tensor operations on the state of a `torch.optim.Adam`, which stays in its own format."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam

from sna_rl.agents.optimizer import ClippedAdam

MOMENTS = ("exp_avg", "exp_avg_sq")
UNSUPPORTED = ("amsgrad", "maximize", "capturable", "differentiable", "decoupled_weight_decay")


def is_plain_adam(optimizer: torch.optim.Optimizer) -> bool:
    """Whether `FusedAdam` takes the same step: Adam or `ClippedAdam` without one of Adam's variants."""
    return type(optimizer) in (Adam, ClippedAdam) and not any(
        group.get(option) for group in optimizer.param_groups for option in UNSUPPORTED
    )


class FusedAdam:
    """One optimizer's step on tensors given by name.

    m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², p ← p − lr/(1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε),
    with the gradient's norm clipped first where the optimizer does that. Bias corrections are taken in Python
    floats: in float32, 1 − 0.999ᵗ is off by 1e-5.

    Args:
        optimizer: an optimizer for which `is_plain_adam` holds; missing state is added to it.
        names: name of each parameter to update, by the parameter's identity; others of the optimizer's
            parameters are left alone.

    Source:
        Kingma and Ba 2015, arXiv 1412.6980.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> None:
        self.optimizer = optimizer
        self.max_grad_norm = getattr(optimizer, "max_grad_norm", None)
        self.groups: list[dict[str, Any]] = []
        self.parameters: list[Tensor] = []
        for group in optimizer.param_groups:
            chosen = [parameter for parameter in group["params"] if id(parameter) in names]
            self.parameters += chosen
            self.groups.append({**group, "names": [names[id(parameter)] for parameter in chosen]})
        self.names = [name for group in self.groups for name in group["names"]]
        states = [optimizer.state[parameter] for parameter in self.parameters]
        self.counts = torch.tensor([float(state.get("step", 0.0)) for state in states])
        for parameter, state, count in zip(self.parameters, states, self.counts, strict=True):
            state["step"] = count
            for moment in MOMENTS:
                if moment not in state:
                    state[moment] = torch.zeros_like(parameter, memory_format=torch.preserve_format)

    def moments(self) -> dict[str, dict[str, Tensor]]:
        """The state's tensors by moment and name; they are the optimizer's own."""
        states = [self.optimizer.state[parameter] for parameter in self.parameters]
        return {
            moment: {name: state[moment] for name, state in zip(self.names, states, strict=True)}
            for moment in MOMENTS
        }

    def steps(self) -> int:
        """Number of steps taken so far."""
        return int(self.counts[0].item())

    def advance(self, n_steps: int) -> None:
        """Count steps taken by `step` in the optimizer's state, whose counts are views of one tensor."""
        self.counts += n_steps

    def scalars(self, n_steps: int) -> list[float]:
        """For each group the step size lr/(1 − β₁ᵗ) and √(1 − β₂ᵗ) of step number t = `n_steps`."""
        values = []
        for ours, group in zip(self.groups, self.optimizer.param_groups, strict=True):
            first, second = ours["betas"]
            rate = group["lr"] * ours.get("lr_ratio", 1.0)
            values += [rate / (1.0 - first**n_steps), math.sqrt(1.0 - second**n_steps)]
        return values

    def step(
        self,
        parameters: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        moments: Mapping[str, Mapping[str, Tensor]],
        scalars: Sequence[Tensor],
    ) -> None:
        """Update parameters and moments in place; along a gradient that is not finite no parameter moves.

        The moments then hold the NaN or infinity: that is how a training loop learns of it.

        Args:
            parameters: tensors by name.
            gradients: their gradients.
            moments: what `moments` returns.
            scalars: what `scalars` returns, as 0-dim tensors.
        """
        grads = [gradients[name] for name in self.names]
        is_finite = torch.stack([gradient.sum() for gradient in grads]).sum().isfinite()
        if self.max_grad_norm is not None:
            grads = clipped(grads, self.max_grad_norm)
        by_name = dict(zip(self.names, grads, strict=True))
        for group, size, root in zip(self.groups, scalars[::2], scalars[1::2], strict=True):
            names = group["names"]
            if not names:
                continue
            values = [parameters[name] for name in names]
            grads = [by_name[name] for name in names]
            first, second = ([moments[moment][name] for name in names] for moment in MOMENTS)
            if group["weight_decay"]:
                grads = list(torch._foreach_add(grads, values, alpha=group["weight_decay"]))
            torch._foreach_lerp_(first, grads, 1.0 - group["betas"][0])
            torch._foreach_mul_(second, group["betas"][1])
            torch._foreach_addcmul_(second, grads, grads, 1.0 - group["betas"][1])
            scales = torch._foreach_sqrt(second)
            torch._foreach_div_(scales, root)
            torch._foreach_add_(scales, group["eps"])
            changes = torch._foreach_div(first, scales)
            torch._foreach_mul_(changes, size)
            torch._foreach_sub_(values, [torch.where(is_finite, change, 0.0) for change in changes])


def clipped(gradients: Sequence[Tensor], max_norm: float | Tensor) -> list[Tensor]:
    """Gradients scaled down together to at most `max_norm`, as `torch.nn.utils.clip_grad_norm_` does.

    Args:
        gradients: any shapes.
        max_norm: largest norm over all of them.

    Returns:
        g · min(1, max_norm / (‖g‖₂ + 1e-6)).

    Example:
        >>> clipped([torch.tensor([3.0]), torch.tensor([4.0])], 1.0)
        [tensor([0.6000]), tensor([0.8000])]
    """
    norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    return [gradient * scale for gradient in gradients]


def polyak(parameters: Mapping[str, Tensor], targets: Mapping[str, Tensor], tau: Tensor) -> None:
    """Move targets towards parameters in place: target ← (1 − τ) target + τ parameter."""
    sources = [parameters[name] for name in targets]
    values = list(targets.values())
    torch._foreach_mul_(values, 1.0 - tau)
    torch._foreach_add_(values, torch._foreach_mul(sources, tau))
