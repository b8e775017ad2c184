"""Numbers that aren't finite stop a run before an optimizer steps on them; Q out of bounds is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from torch.optim import Optimizer

from sna_rl.agents.optimizer import optimizers
from sna_rl.agents.probe import batch_values
from sna_rl.errors import SnaError
from sna_rl.runs import write_json
from sna_rl.training.failure import Suspicion, batch_arrays, branch_norms, likely_cause, write_batch

CHECK_Q_EVERY = 1_000
ALARM_AFTER = 3


class NumericalError(SnaError):
    """Training met a NaN or an infinity; what was saved before is untouched.

    Args:
        message: what happened and why, most likely.
        folder: the run folder.
    """

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message)
        self.folder = folder


class NumericalGuard(BaseCallback):
    """Stops a run at the first gradient or parameter that is not finite, and watches the scale of Q.

    Every optimizer is asked before its step (Stable-Baselines3's own update) or looked at after each call of
    `train` (fused updates). The offending batch and the gradient norms go into the run folder. Every 1,000
    steps |Q| on the last batch is held against the largest return that the rewards allow,

        |Q| ≤ (max |r| + α d) / (1 − γ),

    with γⁿ for γ where rewards are sums over n steps, and α d, d the dimension of the action, for SAC's
    entropy. Three times in a row above it is told once.

    Args:
        folder: the run folder.
        say: is told of the alarm in one line.
    """

    def __init__(self, folder: Path, say: Callable[[str], None] = print) -> None:
        super().__init__()
        self.folder = folder
        self.say = say
        self.model: OffPolicyAlgorithm
        self._batch: Any = None
        self._handles: list[Any] = []
        self._largest_reward = 0.0
        self._n_above = 0

    def _on_training_start(self) -> None:
        buffer: Any = self.model.replay_buffer
        sample = buffer.sample

        def sample_and_keep(*args: Any, **kwargs: Any) -> Any:
            self._batch = sample(*args, **kwargs)
            if not math.isfinite(self._batch.rewards.sum().item()):
                self._fail(self._critic_name())  # Huber's gradient of an infinite loss is finite
            return self._batch

        buffer.sample = sample_and_keep
        for optimizer in optimizers(self.model).values():
            self._handles.append(optimizer.register_step_pre_hook(self._before_step))

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Refuse a step along a gradient that is not finite."""
        gradients = [
            parameter.grad
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        if gradients and not math.isfinite(torch.stack(torch._foreach_norm(gradients)).sum().item()):
            self._fail(next(name for name, each in optimizers(self.model).items() if each is optimizer))

    def _on_rollout_start(self) -> None:
        """A fused update leaves no gradients to ask for, but a NaN stays in Adam's mean of them."""
        for name, optimizer in optimizers(self.model).items():
            last = optimizer.param_groups[-1]["params"][-1]
            for value in (last, optimizer.state[last].get("exp_avg", last)):
                if not torch.isfinite(value).all():
                    self._fail(name)
        for key, value in self.logger.name_to_value.items():
            if key.startswith("train/") and key.endswith("loss") and not math.isfinite(value):
                self._fail("actor" if "actor" in key else self._critic_name())

    def _on_training_end(self) -> None:
        self._on_rollout_start()

    def _on_step(self) -> bool:
        before = self.num_timesteps - self.training_env.num_envs
        if self._batch is not None and self.num_timesteps // CHECK_Q_EVERY > before // CHECK_Q_EVERY:
            self._check_scale()
        return True

    def close(self) -> None:
        """Leave optimizers and replay buffer as they were."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        vars(self.model.replay_buffer).pop("sample", None)

    @torch.no_grad()
    def _check_scale(self) -> None:
        """Log |Q| relative to its bound, and tell when it stays above."""
        largest, bound = self._largest_q(), self._bound()
        self.logger.record("train/q_bound_ratio", largest / bound if bound > 0 else 0.0)
        self._n_above = self._n_above + 1 if largest > bound > 0 else 0
        if self._n_above == ALARM_AFTER:
            self.say(
                f"|Q| reaches {largest:.3g}, but rewards of at most {self._largest_reward:.3g} and "
                f"gamma {self.model.gamma:g} bound it by {bound:.3g}: the critic overestimates; "
                "lower learning_rate, or clip gradients with max_grad_norm"
            )

    def _largest_q(self) -> float:
        """Largest |Q| on the last batch."""
        values = batch_values(self.model, self._batch.observations, self._batch.actions)
        return float(values.abs().max())

    def _bound(self) -> float:
        """Largest return that the rewards seen so far allow."""
        self._largest_reward = max(self._largest_reward, float(self._batch.rewards.abs().max()))
        discounts = self._batch.discounts
        discount = self.model.gamma if discounts is None else float(discounts.min())
        entropy = 0.0
        if (log_alpha := getattr(self.model, "log_ent_coef", None)) is not None:
            entropy = float(log_alpha.detach().exp()) * self._batch.actions.shape[1]
        elif (alpha := getattr(self.model, "ent_coef_tensor", None)) is not None:
            entropy = float(alpha) * self._batch.actions.shape[1]
        return math.inf if discount >= 1.0 else (self._largest_reward + entropy) / (1.0 - discount)

    def _critic_name(self) -> str:
        """What the critic's optimizer is called."""
        return "Q-network" if hasattr(self.model, "q_net") else "critic"

    def _fail(self, name: str) -> None:
        """Write what was there, and stop.

        Raises:
            NumericalError: always.
        """
        model = self.model
        arrays = {} if self._batch is None else batch_arrays(self._batch)
        suspicion = Suspicion.of(model, arrays, self._bound() if self._batch is not None else math.inf)
        cause = likely_cause(suspicion)
        report = {
            "n_timesteps": model.num_timesteps,
            "n_updates": model._n_updates,
            "optimizer": name,
            "likely_cause": cause,
            "gradient_norms": branch_norms(model, self._batch),
            **suspicion.plain(),
        }
        write_json(self.folder / "numerical_failure.json", report)
        write_batch(self.folder / "failed_batch.safetensors", arrays)
        raise NumericalError(
            f"NaN or infinity in the {name}'s update at step {model.num_timesteps:,}; likely cause: {cause}; "
            f"batch and gradient norms are in {str(self.folder)!r}",
            self.folder,
        )
