"""How well a model predicts held-out text."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from sna_rl.language.losses import LanguageModel

MAX_BLOCKS = 64  # of held-out text that are looked at while training
BLOCKS_AT_ONCE = 8
RARE_SHARE = 0.05  # of the training text that the rare tokens make up together


@torch.no_grad()
def perplexity(
    model: LanguageModel,
    tokens: Int[Tensor, " n"],
    n_bytes: Int[Tensor, " vocab"],
    n_positions: int,
    rare: Bool[Tensor, " vocab"] | None = None,
    max_blocks: int = MAX_BLOCKS,
) -> dict[str, float]:
    """Perplexity and bits per byte of held-out tokens, in blocks that don't overlap.

    perplexity = exp(mean nats a token);  bits per byte = Σ nats / (ln 2 · Σ bytes of the predicted tokens)

    Args:
        model: either kind; strictly causal here.
        tokens: held-out tokens, more than one block.
        n_bytes: length of each token of the vocabulary in bytes.
        n_positions: tokens of a block.
        rare: True for the tokens whose perplexity is told apart.
        max_blocks: most blocks that are looked at, spread over the text.

    Returns:
        "loss" (nats a token), "perplexity", "bits_per_byte", "n_tokens" predicted, and "rare_perplexity"
        where rare tokens are named and occur.

    Cost:
        `max_blocks` forward passes of a block at most.
    """
    n_blocks = (len(tokens) - 1) // n_positions
    starts = torch.linspace(0, n_blocks - 1, min(n_blocks, max_blocks)).long() * n_positions
    windows = tokens[starts.unsqueeze(1) + torch.arange(n_positions + 1)]
    device = next(model.parameters()).device
    blocks = windows.split(BLOCKS_AT_ONCE)  # type: ignore[no-untyped-call]
    nats = torch.cat([token_nats(model, block.to(device)).double().cpu() for block in blocks])
    targets = windows[:, 1:]
    scores = {
        "loss": float(nats.mean()),
        "perplexity": float(nats.mean().exp()),
        "bits_per_byte": float(nats.sum() / n_bytes[targets].sum()) / math.log(2.0),
        "n_tokens": float(targets.numel()),
    }
    if rare is not None and (told_apart := rare[targets]).any():
        scores["rare_perplexity"] = float(nats[told_apart].mean().exp())
    return scores


def rare_tokens(train: Int[Tensor, " n"], vocab_size: int) -> Bool[Tensor, " vocab"]:
    """The rarest tokens of a text, as many as make up a twentieth of it; ties are taken by number.

    Args:
        train: the text.
        vocab_size: number of tokens.

    Example:
        >>> rare_tokens(torch.tensor([0] * 90 + [1] * 7 + [2] * 3), 4)
        tensor([False, False,  True,  True])
    """
    counts = torch.bincount(train, minlength=vocab_size)
    ordered, tokens = counts.sort(stable=True)
    few = ordered.cumsum(0) <= RARE_SHARE * len(train)
    return torch.zeros(vocab_size, dtype=torch.bool).scatter(0, tokens, few)


def token_nats(model: LanguageModel, block: Int[Tensor, "batch time"]) -> Float[Tensor, "batch before"]:
    """Surprise −ln p of each token of a block but its first.

    Args:
        model: either kind.
        block: token numbers.
    """
    logits = model(block[:, :-1]).float()
    return cross_entropy(logits.transpose(1, 2), block[:, 1:], reduction="none")
