"""How well a model predicts held-out text."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from sna_rl.language.losses import LanguageModel

MAX_BLOCKS = 64  # blocks of held-out text that are looked at, spread over all of it
BLOCKS_AT_ONCE = 8


@torch.no_grad()
def perplexity(
    model: LanguageModel, tokens: Int[Tensor, " n"], n_bytes: Int[Tensor, " vocab"], n_positions: int
) -> dict[str, float]:
    """Perplexity and bits per byte of held-out tokens, in blocks that don't overlap.

    perplexity = exp(mean nats a token);  bits per byte = Σ nats / (ln 2 · Σ bytes of the predicted tokens)

    Args:
        model: either kind; strictly causal here.
        tokens: held-out tokens, more than one block.
        n_bytes: length of each token of the vocabulary in bytes.
        n_positions: tokens of a block.

    Returns:
        "loss" (nats a token), "perplexity", "bits_per_byte", and "n_tokens" predicted.

    Cost:
        At most 64 blocks, spread over the text.
    """
    n_blocks = (len(tokens) - 1) // n_positions
    starts = torch.linspace(0, n_blocks - 1, min(n_blocks, MAX_BLOCKS)).long() * n_positions
    windows = tokens[starts.unsqueeze(1) + torch.arange(n_positions + 1)]
    device = next(model.parameters()).device
    nats = 0.0
    for block in windows.split(BLOCKS_AT_ONCE):  # type: ignore[no-untyped-call]
        block = block.to(device)
        nats += float(token_nats(model, block).double().sum())
    n_tokens = windows[:, 1:].numel()
    loss = nats / n_tokens
    return {
        "loss": loss,
        "perplexity": math.exp(min(loss, 700.0)),
        "bits_per_byte": nats / math.log(2.0) / float(n_bytes[windows[:, 1:]].sum()),
        "n_tokens": float(n_tokens),
    }


def token_nats(model: LanguageModel, block: Int[Tensor, "batch time"]) -> Float[Tensor, "batch before"]:
    """Surprise −ln p of each token of a block but its first.

    Args:
        model: either kind.
        block: token numbers.
    """
    logits = model(block[:, :-1]).float()
    return cross_entropy(logits.transpose(1, 2), block[:, 1:], reduction="none")
