"""Instructions for agents: a plain module with `features_dim` over tokens, and the words as tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Num
from numpy.typing import NDArray
from torch import Tensor, nn

from sna_rl.errors import UsageError
from sna_rl.language.config import LMConfig
from sna_rl.language.model import Block, TokenEmbedding
from sna_rl.separable.checks import check_int

PADDING, UNKNOWN = 0, 1


class Words:
    """Short texts as rows of word numbers: 0 fills up, 1 is a word not known.

    Args:
        texts: whose words are known.
        length: numbers of a row; longer texts are refused.

    Example:
        >>> Words(["go to the red door"], length=6)("Go to the blue door").tolist()
        [3, 6, 5, 1, 2, 0]
    """

    def __init__(self, texts: Sequence[str], length: int) -> None:
        self.length = check_int("length", length, 1)
        words = sorted({word for text in texts for word in _split(text)})
        self.numbers = {word: number for number, word in enumerate(words, UNKNOWN + 1)}

    @property
    def vocab_size(self) -> int:
        """Words known, with the two numbers besides."""
        return len(self.numbers) + UNKNOWN + 1

    def __call__(self, text: str) -> NDArray[np.int64]:
        """Row of a text.

        Raises:
            UsageError: if it has more words than a row.
        """
        words = _split(text)
        if len(words) > self.length:
            raise UsageError(f"{text!r} has {len(words)} words, and a row has room for {self.length}")
        row = np.full(self.length, PADDING, dtype=np.int64)
        row[: len(words)] = [self.numbers.get(word, UNKNOWN) for word in words]
        return row


class TextEncoder(nn.Module):
    """Mean over a text's tokens of a separable decoder's hidden states.

    With a `key` it reads that entry of a dict of observations and lays the others, flattened, beside it.

    Args:
        config: sizes; `vocab_size` and `n_positions` as `Words` has them.
        key: entry of the text in a dict of observations; None for observations that are the text alone.
        n_others: numbers in the other entries.

    Example:
        >>> encoder = TextEncoder(LMConfig(vocab_size=12, n_positions=6, width=16, n_heads=2, n_layers=1))
        >>> encoder(torch.tensor([[3.0, 6.0, 5.0, 1.0, 2.0, 0.0]])).shape
        torch.Size([1, 16])
    """

    def __init__(self, config: LMConfig, key: str | None = None, n_others: int = 0) -> None:
        super().__init__()
        self.key = key
        self.features_dim = config.width + check_int("n_others", n_others, 0)
        self.embedding = TokenEmbedding(config)
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.n_layers)))
        self.norm = nn.LayerNorm(config.width)

    def forward(self, observations: Tensor | dict[str, Tensor]) -> Float[Tensor, "batch features"]:
        """Features of preprocessed observations: whole numbers, as floats or ints."""
        if isinstance(observations, Tensor):
            return self.read(observations)
        others = [value.flatten(1) for name, value in observations.items() if name != self.key]
        return torch.cat([self.read(observations[str(self.key)]), *others], 1)

    def read(self, tokens: Num[Tensor, "batch time"]) -> Float[Tensor, "batch width"]:
        """Features of the text alone; its padding counts nothing."""
        numbers = tokens.long()
        hidden = self.norm(self.blocks(self.embedding(numbers)))
        given = (numbers != PADDING).unsqueeze(-1).to(hidden.dtype)
        mean: Tensor = (hidden * given).sum(1) / given.sum(1).clamp_min(1.0)
        return mean


def _split(text: str) -> list[str]:
    """Words of a text in small letters, signs left out."""
    return re.findall(r"[a-z0-9]+", text.lower())
