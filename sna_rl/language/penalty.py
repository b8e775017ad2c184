"""The decoupling penalty of a hidden state: for `ArcadeLM`, and by a forward hook for any other model."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sna_rl.errors import SnaError
from sna_rl.language.config import ArcadeConfig
from sna_rl.separable.decoupling import cross_moment, per_token

PENALTY_OF = {"cross-moment": cross_moment, "per-token": per_token}
SHARE_WITHOUT = 0.1  # of the steps of the first phase that have no penalty


def decoupling_penalty(hidden: Float[Tensor, "*tokens width"], arcade: ArcadeConfig) -> Float[Tensor, ""]:
    """Penalty of hidden states' halves, without its factor λ.

    Args:
        hidden: hidden states, state half first.
        arcade: ratio, kind of penalty, and whether the halves are drawn at random (always the same ones).

    Raises:
        UsageError: if the ratio does not divide the width.

    Example:
        >>> decoupling_penalty(torch.tensor([[1.0, 0.0, 3.0, 4.0]]), ArcadeConfig())
        tensor(1.)
    """
    size, _ = arcade.sizes(hidden.shape[-1])
    if arcade.shuffled:
        order = torch.randperm(hidden.shape[-1], generator=torch.Generator().manual_seed(0))
        hidden = hidden[..., order.to(hidden.device)]
    penalty = PENALTY_OF[arcade.penalty]
    return penalty(hidden[..., :size], hidden[..., size:], scale_free=arcade.scale_free)


def strength_at(arcade: ArcadeConfig, progress: float) -> float:
    """λ in the first phase: 0 for the first tenth of the steps, then linearly up to its full size.

    Args:
        arcade: the full size.
        progress: share of the phase's steps done, from 0 to 1.

    Example:
        >>> [round(strength_at(ArcadeConfig(strength=0.3), t), 3) for t in (0.0, 0.1, 0.55, 1.0)]
        [0.0, 0.0, 0.15, 0.3]
    """
    return arcade.strength * max(0.0, (progress - SHARE_WITHOUT) / (1.0 - SHARE_WITHOUT))


class HiddenPenalty:
    """λ times the penalty of what a layer of any model puts out: one hook, one call in the loss.

    The layer's output may be a tensor, a tuple that begins with one, or an object with `last_hidden_state`,
    as Hugging Face's models have it.

    Args:
        layer: module whose output is the hidden state, such as `model.model.layers[-1]`.
        arcade: ratio, kind and strength of the penalty.

    Example:
        >>> model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 4), nn.Linear(4, 10))
        >>> with HiddenPenalty(model[1], ArcadeConfig(strength=0.1)) as penalty:
        ...     logits = model(torch.tensor([[1, 2, 3]]))
        ...     loss = nn.functional.cross_entropy(logits[0], torch.tensor([2, 3, 4])) + penalty.loss()
        >>> loss.backward()
    """

    def __init__(self, layer: nn.Module, arcade: ArcadeConfig) -> None:
        self.arcade = arcade
        self._hidden: Tensor | None = None
        self._handle = layer.register_forward_hook(self._keep)

    def loss(self) -> Float[Tensor, ""]:
        """λ · penalty of the last forward pass, once.

        Raises:
            SnaError: if the layer has not run since the last call.
        """
        if self._hidden is None:
            raise SnaError(
                "the hooked layer has not run since the last penalty; call the model before loss()"
            )
        hidden, self._hidden = self._hidden, None
        return self.arcade.strength * decoupling_penalty(hidden, self.arcade)

    def remove(self) -> None:
        """Take the hook off."""
        self._handle.remove()

    def __enter__(self) -> HiddenPenalty:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def _keep(self, layer: nn.Module, inputs: Any, output: Any) -> None:
        """Remember the hidden state of a forward pass."""
        output = getattr(output, "last_hidden_state", output)
        self._hidden = output[0] if isinstance(output, tuple) else output
