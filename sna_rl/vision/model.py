"""A whole model: embedding, recurrence, head; answers at any iteration."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sna_rl.vision.config import ModelConfig
from sna_rl.vision.embeddings import (
    INITIAL_STD,
    ClassHead,
    PatchEmbedding,
    SymbolEmbedding,
    SymbolHead,
)
from sna_rl.vision.recurrence import Recurrence, State

N_CELLS, N_DIGITS = 81, 9
LINES = [(row, column, 3 * (row // 3) + column // 3) for row in range(9) for column in range(9)]
"""Row, column and box of every cell."""


class IterativeModel(nn.Module):
    """head(x(t)), x(0) the embedded input; linear maps begin normal, standard deviation 0.02.

    Those of the step policy keep torch's own initial values: with 0.02 the iteration's number would hardly
    reach the steps.

    Args:
        embed: from an input to tokens.
        body: iterates them.
        head: from tokens to answers.
    """

    def __init__(self, embed: nn.Module, body: Recurrence, head: nn.Module) -> None:
        super().__init__()
        self.embed, self.body, self.head = embed, body, head
        for module in (each for part in (embed, body.layers, head) for each in part.modules()):
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=INITIAL_STD)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, *inputs: Any, n_iterations: int | None = None) -> Tensor:
        """Answer after the last iteration.

        Args:
            *inputs: what `embed` takes.
            n_iterations: of each layer; those of training by default.
        """
        *_, last = self.states(*inputs, n_iterations=n_iterations)
        return self.read(last)

    def states(self, *inputs: Any, n_iterations: int | None = None) -> Iterator[State]:
        """Tokens after every iteration.

        Args:
            *inputs: what `embed` takes.
            n_iterations: of each layer; those of training by default.
        """
        return self.body.states(self.embed(*inputs), n_iterations)

    def read(self, state: State) -> Tensor:
        """Answer at a state.

        Args:
            state: what `states` gave.
        """
        answer: Tensor = self.head(state.x)
        return answer

    def readouts(self, *inputs: Any, iterations: Collection[int]) -> Iterator[tuple[int, Tensor]]:
        """Answers after some iterations of the last layer, from one pass.

        Args:
            *inputs: what `embed` takes.
            iterations: where it is read.

        Yields:
            Number of the iteration, from 1, and the answer.
        """
        last_layer = self.body.config.n_layers - 1
        for state in self.states(*inputs, n_iterations=max(iterations)):
            if state.layer == last_layer and state.t + 1 in iterations:
                yield state.t + 1, self.read(state)


def sudoku_model(config: ModelConfig) -> IterativeModel:
    """Digits 0 (empty) to 9 in 81 cells → a score of each digit for each cell.

    Args:
        config: the architecture.

    Example:
        >>> model = sudoku_model(ModelConfig(width=8, n_heads=2, hidden=16, n_iterations=2))
        >>> model(torch.zeros(1, 81, dtype=torch.int64)).shape
        torch.Size([1, 81, 9])
    """
    groups = torch.tensor(LINES).T if config.places == "lines" else None
    embed = SymbolEmbedding(N_DIGITS + 1, N_CELLS, config.width, dropout=config.dropout, groups=groups)
    return IterativeModel(embed, Recurrence(config), SymbolHead(config.width, N_DIGITS, eps=config.eps))


def class_model(
    config: ModelConfig, shape: tuple[int, int, int], n_side: int, n_classes: int
) -> IterativeModel:
    """An image → a score of each class.

    Args:
        config: the architecture.
        shape: channels, height and width of an image, pixels.
        n_side: patches along a side.
        n_classes: classes.
    """
    embed = PatchEmbedding(
        shape, n_side, config.width, normed=not config.plain_patches, dropout=config.dropout
    )
    return IterativeModel(embed, Recurrence(config), ClassHead(config.width, n_classes))


def mask_model(config: ModelConfig, shape: tuple[int, int, int], n_side: int) -> IterativeModel:
    """An image with hidden patches → the pixels of every patch.

    Args:
        config: the architecture.
        shape: channels, height and width of an image, pixels.
        n_side: patches along a side.
    """
    embed = PatchEmbedding(
        shape, n_side, config.width, normed=not config.plain_patches, has_class_token=False, n_masks=1,
        dropout=config.dropout,
    )  # fmt: skip
    n_pixels = shape[0] * embed.patch[0] * embed.patch[1]
    head = SymbolHead(config.width, n_pixels, bias=True, eps=config.eps)
    return IterativeModel(embed, Recurrence(config), head)


def symbol_mask_model(config: ModelConfig, n_symbols: int, n_tokens: int) -> IterativeModel:
    """A square of a tokenizer's symbols, some hidden → a score of each symbol at each place.

    Args:
        config: the architecture.
        n_symbols: symbols of the tokenizer; the number after the last one stands for a hidden place.
        n_tokens: places.
    """
    embed = SymbolEmbedding(n_symbols + 1, n_tokens, config.width, learned=False, dropout=config.dropout)
    head = SymbolHead(config.width, n_symbols, bias=True, eps=config.eps)
    return IterativeModel(embed, Recurrence(config), head)


class ImageEncoder(nn.Module):
    """Features of an image for an agent: the first token after the last iteration.

    Args:
        shape: channels, height and width of the observation, pixels in [0, 1].
        n_side: patches along a side.
        config: the architecture; `n_iterations` is the dial.

    Example:
        >>> config = ModelConfig(width=8, n_heads=2, hidden=16, n_iterations=2)
        >>> encoder = ImageEncoder((3, 56, 56), 7, config)
        >>> encoder.features_dim, encoder(torch.zeros(4, 3, 56, 56)).shape
        (8, torch.Size([4, 8]))
    """

    def __init__(self, shape: tuple[int, int, int], n_side: int, config: ModelConfig) -> None:
        super().__init__()
        self.features_dim = config.width
        self.model = class_model(config, shape, n_side, config.width)
        self.model.head.map = nn.Identity()

    def forward(
        self, images: Float[Tensor, "batch channels height across"]
    ) -> Float[Tensor, "batch features"]:
        """Encode."""
        features: Tensor = self.model(images)
        return features
