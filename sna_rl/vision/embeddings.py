"""From symbols or pixels to tokens, with the places they stand at; and from tokens to answers."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int
from sna_rl.vision.normaliser import Normaliser
from sna_rl.vision.steps import check_width, sinusoid

INITIAL_STD = 0.02


class SymbolEmbedding(nn.Module):
    """x(0) of a sequence of symbols: their vectors plus those of their places.

    Args:
        n_symbols: how many there are.
        n_tokens: length of the sequence.
        width: size of a token.
        learned: places are learned; otherwise a fixed sinusoid of row and column, for a square sequence.
        dropout: share of the numbers left out in training.
        groups: the group that each token belongs to, a row of numbers for each way of grouping; a place is
            then the sum of a learned vector a group.

    Raises:
        UsageError: if a fixed place is wanted in a sequence that is not square, or does not fill the width.

    Example:
        >>> SymbolEmbedding(10, 81, 16)(torch.zeros(2, 81, dtype=torch.int64)).shape
        torch.Size([2, 81, 16])
    """

    def __init__(
        self,
        n_symbols: int,
        n_tokens: int,
        width: int,
        learned: bool = True,
        dropout: float = 0.0,
        groups: Int[Tensor, "ways tokens"] | None = None,
    ) -> None:
        super().__init__()
        self.symbols = nn.Embedding(n_symbols, width)
        self.groups: Tensor | None
        self.register_buffer("groups", groups, persistent=False)
        if groups is not None:
            self.places = nn.Parameter(torch.randn(len(groups), int(groups.max()) + 1, width) * INITIAL_STD)
        elif learned:
            self.places = nn.Parameter(torch.randn(n_tokens, width) * INITIAL_STD)
        else:
            side = round(n_tokens**0.5)
            if side**2 != n_tokens:
                raise UsageError(f"fixed places are those of a square of tokens, and {n_tokens} are none")
            self.register_buffer("places", square_places(side, width), persistent=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, symbols: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens width"]:
        """Embed."""
        places: Tensor = self.places
        if self.groups is not None:
            ways = torch.arange(len(places), device=places.device)
            places = places[ways.unsqueeze(1), self.groups].sum(0)
        x: Tensor = self.dropout(self.symbols(symbols) + places)
        return x


class PatchEmbedding(nn.Module):
    """x(0) of an image: square patches mapped linearly, plus a sinusoid of their number.

    Args:
        shape: channels, height and width of the image, pixels.
        n_side: patches along each side; a divisor of height and width.
        width: size of a token.
        normed: a layer norm before and behind the linear map.
        has_class_token: a learned token comes first.
        n_masks: 1 adds a learned vector for patches that are hidden.
        dropout: share of the numbers left out in training.

    Raises:
        UsageError: if patches don't fill the image, or a place does not fill the width.

    Example:
        >>> PatchEmbedding((3, 32, 32), 8, 16)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 65, 16])
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_side: int,
        width: int,
        *,
        normed: bool = True,
        has_class_token: bool = True,
        n_masks: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        channels, height, across = shape
        if height % check_int("n_side", n_side, 1) or across % n_side:
            raise UsageError(f"n_side must divide the image's {height} × {across} pixels, not {n_side}")
        self.patch = (height // n_side, across // n_side)
        size = channels * self.patch[0] * self.patch[1]
        around = [nn.LayerNorm(size), nn.LayerNorm(width)] if normed else [nn.Identity(), nn.Identity()]
        self.map = nn.Sequential(around[0], nn.Linear(size, width), around[1])
        self.first = nn.Parameter(torch.randn(1, 1, width)) if has_class_token else None
        self.mask = nn.Parameter(torch.randn(n_masks, width) * INITIAL_STD) if n_masks else None
        n_tokens = n_side**2 + has_class_token
        places = torch.stack([sinusoid(place, check_width(width)) for place in range(n_tokens)])
        self.register_buffer("places", places, persistent=False)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        images: Float[Tensor, "batch channels height across"],
        hidden: Tensor | None = None,
    ) -> Float[Tensor, "batch tokens width"]:
        """Embed.

        Args:
            images: pixels.
            hidden: (batch, patches), True where a patch is replaced by the learned vector.
        """
        x: Tensor = self.map(to_patches(images, self.patch))
        if hidden is not None and self.mask is not None:
            x = torch.where(hidden.unsqueeze(-1), self.mask[0].to(x.dtype), x)
        if self.first is not None:
            x = torch.cat([self.first.expand(len(x), -1, -1).to(x.dtype), x], 1)
        embedded: Tensor = self.dropout(x + self.get_buffer("places"))
        return embedded


class SymbolHead(nn.Module):
    """An answer for every token: norm, then a linear map.

    Args:
        width: size of a token.
        n_out: numbers of an answer.
        bias: whether the map has one.
        eps: of the norm.
    """

    def __init__(self, width: int, n_out: int, bias: bool = False, eps: float = 1e-6) -> None:
        super().__init__()
        self.norm = Normaliser(width, eps=eps)
        self.map = nn.Linear(width, n_out, bias=bias)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens out"]:
        """Read out every token."""
        answer: Tensor = self.map(self.norm(x))
        return answer


class ClassHead(nn.Module):
    """An answer for the image, read from its first token: layer norm, then a linear map.

    Args:
        width: size of a token.
        n_classes: numbers of the answer.
    """

    def __init__(self, width: int, n_classes: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.map = nn.Linear(width, n_classes)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch classes"]:
        """Read out the first token."""
        answer: Tensor = self.map(self.norm(x[:, 0]))
        return answer


def to_patches(
    images: Float[Tensor, "batch channels height across"], patch: tuple[int, int]
) -> Float[Tensor, "batch patches size"]:
    """Cut images into patches, row by row; in a patch, rows, then columns, then channels.

    Args:
        images: pixels.
        patch: height and width of a patch, pixels.

    Example:
        >>> to_patches(torch.arange(4.0).view(1, 1, 2, 2), (1, 2))
        tensor([[[0., 1.],
                 [2., 3.]]])
    """
    batch, channels, height, across = images.shape
    rows, columns = height // patch[0], across // patch[1]
    cut = images.reshape(batch, channels, rows, patch[0], columns, patch[1])
    return cut.permute(0, 2, 4, 3, 5, 1).reshape(batch, rows * columns, -1)


def from_patches(
    patches: Float[Tensor, "batch patches size"], patch: tuple[int, int], shape: tuple[int, int, int]
) -> Float[Tensor, "batch channels height across"]:
    """Inverse of `to_patches`.

    Args:
        patches: what it gave.
        patch: height and width of a patch, pixels.
        shape: channels, height and width of an image.
    """
    channels, height, across = shape
    rows, columns = height // patch[0], across // patch[1]
    cut = patches.reshape(-1, rows, columns, *patch, channels)
    return cut.permute(0, 5, 1, 3, 2, 4).reshape(-1, *shape)


def square_places(side: int, width: int) -> Float[Tensor, "places width"]:
    """Fixed vectors of the places of a square, one half of each from the row, the other from the column.

    Args:
        side: places along a side.
        width: numbers of a vector.

    Raises:
        UsageError: if two sinusoids don't fill it.

    Example:
        >>> square_places(2, 8).shape
        torch.Size([4, 8])
    """
    half = check_width(width, n_sinusoids=2) // 2
    line = torch.stack([sinusoid(place, half) for place in range(side)])
    rows = line[:, None].expand(side, side, -1)
    return torch.cat([rows, rows.transpose(0, 1)], -1).flatten(0, 1)
