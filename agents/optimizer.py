"""Adam that clips its gradient and keeps learning-rate ratios, under Stable-Baselines3's own `train`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, overload

import torch
from torch import Tensor


class ClippedAdam(torch.optim.Adam):
    """Adam whose step clips the gradient's norm first and scales the learning rate of each group.

    g ← g · min(1, max_grad_norm / ‖g‖₂) over all parameters together, then Adam with lr · lr_ratio.
    Stable-Baselines3 writes one learning rate into every group at each `train()`: the ratio lies beside it in
    the group, so that groups keep their proportions and a schedule scales them all. Without clipping and with
    ratios of 1 the step is Adam's, bit for bit.

    Args:
        params: parameters or groups. A group with an own "lr" gets its ratio to `lr` as a further factor.
        lr: learning rate that the ratios refer to.
        max_grad_norm: largest norm of the gradient; None does not clip.
        lr_ratio: ratio of every group that brings no own "lr_ratio".
        **kwargs: Adam's other arguments.

    Source: Kingma and Ba 2015, arXiv 1412.6980.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(2))
        >>> optimizer = ClippedAdam([{"params": [weight], "lr": 1e-4}], lr=1e-3, max_grad_norm=1.0)
        >>> round(optimizer.param_groups[0]["lr_ratio"], 6)
        0.1
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        max_grad_norm: float | None = None,
        lr_ratio: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(params, lr=lr, **kwargs)
        self.defaults["max_grad_norm"] = max_grad_norm
        for group in self.param_groups:
            group.setdefault("lr_ratio", lr_ratio * (group["lr"] / lr if lr else 1.0))
            group["lr"] = lr

    @property
    def max_grad_norm(self) -> float | None:
        """Largest norm of the gradient, None where it is not clipped."""
        return cast(float | None, self.defaults["max_grad_norm"])

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Clip the gradient, then take Adam's step with each group's own learning rate.

        Args:
            closure: recomputes the loss, as in torch; the gradient is clipped after it ran.

        Returns:
            The closure's loss, None without one.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters(), self.max_grad_norm)
        rates = [group["lr"] for group in self.param_groups]
        for group, rate in zip(self.param_groups, rates, strict=True):
            group["lr"] = rate * group["lr_ratio"]
        super().step()
        for group, rate in zip(self.param_groups, rates, strict=True):
            group["lr"] = rate
        return loss

    def parameters(self) -> list[Tensor]:
        """Every parameter of every group, in order."""
        return [parameter for group in self.param_groups for parameter in group["params"]]


def optimizers(model: Any) -> dict[str, torch.optim.Optimizer]:
    """A model's optimizers by what they train.

    Args:
        model: SAC, TD3, DDPG or DQN.

    Returns:
        In Stable-Baselines3's order: actor, critic or Q-network, entropy coefficient; those there are.

    Example:
        >>> from sna_rl.agents import SAC
        >>> list(optimizers(SAC("MlpPolicy", "Pendulum-v1")))
        ['actor', 'critic', 'entropy coefficient']
    """
    policy = model.policy
    named = {
        "actor": getattr(getattr(policy, "actor", None), "optimizer", None),
        "critic": getattr(getattr(policy, "critic", None), "optimizer", None),
        "Q-network": getattr(policy, "optimizer", None) if hasattr(policy, "q_net") else None,
        "entropy coefficient": getattr(model, "ent_coef_optimizer", None),
    }
    return {name: optimizer for name, optimizer in named.items() if optimizer is not None}
