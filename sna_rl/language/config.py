"""Sizes of a language model, checked once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int, check_name

ATTENTIONS = ("separable", "softmax")
EMBEDDINGS = ("separable", "table")
PENALTIES = ("cross-moment", "per-token")
RATIOS = ("1:1", "3:1")
FF_FACTOR = 4  # hidden units of a feed-forward block for each unit of width


@dataclass(frozen=True)
class LMConfig:
    """A decoder's sizes.

    Args:
        vocab_size: V, number of tokens.
        n_positions: longest sequence.
        width: D, size of the hidden state.
        n_layers: blocks.
        n_heads: attention heads of a block.
        rank: R, features of a head's queries and keys (separable attention).
        attention: "separable", or "softmax" (PyTorch's fused attention).
        embedding: "separable" (digits and splines), or "table".
        embedding_rank: products of each head of the separable embedding.
        tied: the output layer multiplies with the embeddings; else it has weights of its own.
        ff_width: hidden units of a feed-forward block; None for four a unit of width.

    Raises:
        UsageError: if a count is too small, a name unknown, or the heads don't divide the width.

    Example:
        >>> LMConfig(vocab_size=256, width=64).hidden
        256
    """

    vocab_size: int
    n_positions: int = 256
    width: int = 128
    n_layers: int = 4
    n_heads: int = 4
    rank: int = 32
    attention: str = "separable"
    embedding: str = "separable"
    embedding_rank: int = 64
    tied: bool = False
    ff_width: int | None = None

    def __post_init__(self) -> None:
        for name, least in [("vocab_size", 2), ("n_positions", 2), ("width", 2), ("n_layers", 1),
                            ("n_heads", 1), ("rank", 1), ("embedding_rank", 1)]:  # fmt: skip
            check_int(name, getattr(self, name), least)
        if self.ff_width is not None:
            check_int("ff_width", self.ff_width, 1)
        check_name("attention", self.attention, ATTENTIONS)
        check_name("embedding", self.embedding, EMBEDDINGS)
        if self.width % self.n_heads:
            raise UsageError(f"n_heads must divide the width {self.width}, and {self.n_heads} does not")

    @property
    def hidden(self) -> int:
        """Hidden units of a feed-forward block."""
        return FF_FACTOR * self.width if self.ff_width is None else self.ff_width


@dataclass(frozen=True)
class ArcadeConfig:
    """How a hidden state is cut into state and constraint, and what keeps the two apart.

    Args:
        ratio: of the sizes state:constraint, "1:1" or "3:1".
        penalty: "cross-moment" or "per-token" (1:1 alone).
        strength: λ, factor of the penalty at its full size; 0 for none.
        scale_free: penalise directions alone; the raw penalty shrinks the constraint half to nothing.
        look_ahead: positions that the constraint half sees ahead inside the prompt; 0 for none.
        routed: next-token cross-entropy stops before the constraint half.
        shuffled: a control: the penalty acts between halves drawn at random.

    Raises:
        UsageError: if λ is negative, a name unknown, or the per-token penalty meets unequal halves.

    Example:
        >>> ArcadeConfig(ratio="3:1").sizes(64)
        (48, 16)
    """

    ratio: str = "1:1"
    penalty: str = "cross-moment"
    strength: float = 0.3
    scale_free: bool = True
    look_ahead: int = 20
    routed: bool = True
    shuffled: bool = False

    def __post_init__(self) -> None:
        check_name("ratio", self.ratio, RATIOS)
        check_name("penalty", self.penalty, PENALTIES)
        check_int("look_ahead", self.look_ahead, 0)
        if not 0.0 <= self.strength < float("inf"):
            raise UsageError(
                f"the penalty's strength λ must be 0 or a finite number over 0, not {self.strength!r}"
            )
        if self.penalty == "per-token" and self.ratio != "1:1":
            raise UsageError(
                f"the per-token penalty pairs coordinates and needs the ratio 1:1, not {self.ratio}; take "
                "cross-moment"
            )

    def sizes(self, whole: int, what: str = "width") -> tuple[int, int]:
        """State's and constraint's share of a number of units.

        Args:
            whole: what is cut.
            what: its name, for the message.

        Raises:
            UsageError: if the ratio does not divide it.
        """
        state, constraint = map(int, self.ratio.split(":"))
        if whole % (state + constraint):
            raise UsageError(
                f"the ratio {self.ratio} must divide the {what} into whole parts, and {whole} is no "
                f"multiple of {state + constraint}"
            )
        part = whole // (state + constraint)
        return state * part, constraint * part


def softmax_baseline(config: LMConfig) -> LMConfig:
    """The softmax Transformer with exactly as many parameters as a separable decoder.

    Its heads have width / n_heads features in place of R; what that saves or costs goes to the hidden units.

    Args:
        config: of the separable decoder.

    Raises:
        UsageError: if the rank is so small that no hidden unit is left.

    Example:
        >>> softmax_baseline(LMConfig(vocab_size=256, width=128, n_heads=4, rank=64)).ff_width
        640
    """
    hidden = config.hidden + config.n_heads * config.rank - config.width
    if hidden < 1:
        raise UsageError(
            f"no softmax baseline has as few parameters as rank {config.rank} with ff_width {config.hidden}"
        )
    return replace(config, attention="softmax", ff_width=hidden)
