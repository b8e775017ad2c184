"""Why an update gave a NaN: the offending batch, the gradients of each branch, and the likeliest cause."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from sna_rl.agents.probe import batch_values, critic_loss, undisturbed
from sna_rl.agents.value_table import critic_of
from sna_rl.runs import atomic_write
from sna_rl.runs.tree import arrays_to_bytes

LARGE_REWARD = 1e3
LARGE_RATE = 3e-3


@dataclass(frozen=True)
class Suspicion:
    """What is looked at to name a cause.

    Args:
        non_finite: fields of the batch that hold NaN or infinity.
        largest_reward: largest finite |r| of the batch.
        largest_q: largest finite |Q| on the batch, NaN where there is none.
        q_bound: largest |Q| that rewards and gamma allow.
        learning_rate: the rate in use.
        is_clipped: whether the critic's gradient is clipped.
        init: initial scale of a separable critic, None for others.
        rank: its rank, None for others.
    """

    non_finite: tuple[str, ...]
    largest_reward: float
    largest_q: float
    q_bound: float
    learning_rate: float
    is_clipped: bool
    init: str | None = None
    rank: Any = None

    @classmethod
    def of(cls, model: OffPolicyAlgorithm, arrays: Mapping[str, NDArray[Any]], q_bound: float) -> Suspicion:
        """Look at a model and the batch it failed on.

        Args:
            model: the model.
            arrays: the batch, as `batch_arrays` gives it.
            q_bound: largest |Q| that rewards and gamma allow.
        """
        config: Any = getattr(model.policy, "critic_config", None)
        is_separable = config is not None and config.is_separable
        return cls(
            non_finite=tuple(name for name, array in arrays.items() if not np.isfinite(array).all()),
            largest_reward=_largest(arrays.get("rewards")),
            largest_q=_largest_q(model, arrays),
            q_bound=q_bound,
            learning_rate=float(model.lr_schedule(model._current_progress_remaining)),
            is_clipped=config is not None and config.clip_norm is not None,
            init=config.init if is_separable else None,
            rank=config.rank if is_separable else None,
        )

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it; what isn't finite becomes text."""
        return {
            key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in asdict(self).items()
        }


def likely_cause(found: Suspicion) -> str:
    """The likeliest cause, with what would do about it.

    Args:
        found: what was looked at.

    Returns:
        Part of a sentence.

    Example:
        >>> likely_cause(Suspicion((), 5e6, 10.0, 1e9, 3e-4, True))
        'reward scale (|r| up to 5e+06); normalize rewards or scale them to about 1'
    """
    if found.non_finite:
        return (
            f"the replay buffer gave NaN or infinity in {', '.join(found.non_finite)}; check the environment"
        )
    if found.largest_reward > LARGE_REWARD:
        return (
            f"reward scale (|r| up to {found.largest_reward:.3g}); normalize rewards or scale them to about 1"
        )
    if found.learning_rate > LARGE_RATE:
        return f"learning rate ({found.learning_rate:.3g}); 3e-4 is usual"
    if found.init == "paper":
        return f"rank scaling (init 'paper' grows with rank {found.rank}); init 'scaled' does not"
    if not found.is_clipped:
        return "gradients that are not clipped; max_grad_norm: 1.0 clips them"
    if found.largest_q > found.q_bound:
        return (
            f"overestimated values (|Q| {found.largest_q:.3g} above {found.q_bound:.3g}); lower learning_rate"
        )
    return "none stands out; lower learning_rate, or look at the batch"


def batch_arrays(batch: Any) -> dict[str, NDArray[Any]]:
    """A replay buffer's samples as arrays by name; observations of a Dict as `observations/key`."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, field in batch._asdict().items():
        parts = (
            {f"{name}/{key}": part for key, part in field.items()}
            if isinstance(field, dict)
            else {name: field}
        )
        arrays |= {key: part.detach().cpu().numpy() for key, part in parts.items() if part is not None}
    return arrays


def write_batch(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a batch as safetensors.

    Args:
        path: the file.
        arrays: the batch.

    Raises:
        OSError: if it can't be written.
    """
    with atomic_write(path) as file:
        file.write(arrays_to_bytes(arrays))


def branch_norms(model: OffPolicyAlgorithm, batch: Any) -> dict[str, str]:
    """Norm of the critic loss's gradient for each branch of the critic.

    Args:
        model: SAC, TD3 or DQN.
        batch: transitions; None gives nothing, nor does an actor that gives no numbers any more.

    Returns:
        Branch ("interaction" and "main effects" of a separable critic, else the module's name) → norm as
        text, since it may be no number.
    """
    if batch is None:
        return {}
    critic = critic_of(model)
    parameters = {name: value for name, value in critic.named_parameters() if value.requires_grad}
    try:
        with undisturbed(0, model.device), torch.enable_grad():
            loss = critic_loss(model, batch)
            gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    except ValueError:  # torch refuses a distribution with a NaN for its mean
        return {}
    branches = _branches(critic)
    squares: dict[str, float] = {}
    for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
        if gradient is not None:
            branch = branches.get(id(parameter), name.rpartition(".")[0] or name)
            squares[branch] = squares.get(branch, 0.0) + float(gradient.double().square().sum())
    return {branch: f"{math.sqrt(square):.6g}" for branch, square in squares.items()}


def _branches(critic: Any) -> dict[int, str]:
    """Branch of each parameter of a separable critic, by the parameter's identity."""
    network = getattr(critic, "network", None)
    if network is None:
        return {}
    interaction = {id(parameter): "interaction" for parameter in network.interaction_parameters()}
    return interaction | {id(parameter): "main effects" for parameter in network.branch_parameters()}


def _largest(array: NDArray[Any] | None) -> float:
    """Largest finite absolute value; NaN without one."""
    finite = np.abs(array[np.isfinite(array)]) if array is not None else np.empty(0)
    return float(finite.max()) if finite.size else math.nan


@torch.no_grad()
def _largest_q(model: OffPolicyAlgorithm, arrays: Mapping[str, NDArray[Any]]) -> float:
    """Largest finite |Q| on the batch's observations and actions."""
    if "observations" not in arrays:
        return math.nan
    observations, actions = (
        torch.from_numpy(arrays[name]).to(model.device) for name in ("observations", "actions")
    )
    return _largest(batch_values(model, observations, actions).cpu().numpy())
