"""Losses of the two kinds of model on a batch of texts or of prompts with answers."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from sna_rl.language.arcade import ArcadeLM
from sna_rl.language.model import SeparableLM
from sna_rl.language.penalty import decoupling_penalty
from sna_rl.separable.decoupling import subspace_similarity, unit_rank

LanguageModel = SeparableLM | ArcadeLM


class Batch(NamedTuple):
    """What a step trains on.

    Args:
        tokens: inputs.
        targets: the token after each input.
        scored: True where the target counts; None for all. Never inside a prompt that is looked ahead in.
        prompt: lengths of the prompts; None for plain text.
        strength: λ of this step.
    """

    tokens: Int[Tensor, "batch time"]
    targets: Int[Tensor, "batch time"]
    scored: Bool[Tensor, "batch time"] | None = None
    prompt: Int[Tensor, " batch"] | None = None
    strength: float = 0.0


def token_loss(logits: Float[Tensor, "batch time vocab"], batch: Batch) -> Float[Tensor, ""]:
    """Mean cross-entropy of the targets that count, in nats.

    Args:
        logits: of each position.
        batch: its targets, and which count.

    Example:
        >>> tokens = torch.tensor([[0, 1]])
        >>> batch = Batch(tokens, tokens, scored=torch.tensor([[True, False]]))
        >>> token_loss(torch.zeros(1, 2, 4), batch)
        tensor(1.3863)
    """
    if batch.scored is None:
        return cross_entropy(logits.flatten(0, 1).float(), batch.targets.flatten())
    return cross_entropy(logits[batch.scored].float(), batch.targets[batch.scored])


def model_loss(model: LanguageModel, batch: Batch) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
    """Loss of a batch, and its parts for the log.

    Plain decoder: cross-entropy. Arcade: cross-entropy through [S, stopgrad(C)] + λ · penalty, and where the
    batch has answers the task's cross-entropy on them through [S, C] besides.

    Args:
        model: either kind.
        batch: what it is trained on.

    Returns:
        The loss in nats, and "cross_entropy", "task", "penalty" as far as they exist.
    """
    if isinstance(model, SeparableLM):
        loss = token_loss(model(batch.tokens), batch)
        return loss, {"cross_entropy": loss.detach()}
    halves = model.halves(batch.tokens, batch.prompt)
    parts = {"cross_entropy": token_loss(model.logits(halves, stopped=True), batch)}
    loss = parts["cross_entropy"]
    if batch.prompt is not None:
        parts["task"] = token_loss(model.logits(halves, stopped=False), batch)
        loss = loss + parts["task"]
    if batch.strength:
        parts["penalty"] = decoupling_penalty(torch.cat(halves, -1), model.arcade)
        loss = loss + batch.strength * parts["penalty"]
    return loss, {name: part.detach() for name, part in parts.items()}


@torch.no_grad()
def constraint_report(model: ArcadeLM, batch: Batch) -> dict[str, float]:
    """What became of the constraint half; a collapse shows as an RMS or a rank near 0.

    Args:
        model: the model.
        batch: texts to look at it with.

    Returns:
        constraint_rms and state_rms (root mean squares), constraint_rank (effective rank of the centred
        units), subspace_similarity (mean squared canonical correlation of the halves).

    Cost:
        One forward pass, three singular value decompositions of tokens × half the width.
    """
    state, constraint = (half.flatten(0, 1).float() for half in model.halves(batch.tokens, batch.prompt))
    return {
        "constraint_rms": float(constraint.square().mean().sqrt()),
        "state_rms": float(state.square().mean().sqrt()),
        "constraint_rank": unit_rank(constraint),
        "subspace_similarity": subspace_similarity(state, constraint),
    }
