"""The decoder: tokens to logits, all positions at once or one at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from sna_rl.errors import UsageError
from sna_rl.language.attention import make_attention
from sna_rl.language.config import LMConfig
from sna_rl.separable.token_embedding import SeparableEmbedding

EMBEDDING_STD = (
    0.02  # of tokens and positions at the start, with a tied head; the blocks normalise what they read
)


class Cache(NamedTuple):
    """What a model remembers between two tokens.

    Args:
        position: number of the next token's position.
        layers: each attention layer's state.
    """

    position: int
    layers: tuple[Any, ...]


class TokenEmbedding(nn.Module):
    """Tokens and positions as vectors.

    Args:
        config: vocabulary, positions, width, kind of embedding.

    Example:
        >>> import torch
        >>> TokenEmbedding(LMConfig(vocab_size=50, width=8))(torch.tensor([[3, 4]])).shape
        torch.Size([1, 2, 8])
    """

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.tokens: SeparableEmbedding | nn.Embedding
        if config.embedding == "separable":
            self.tokens = SeparableEmbedding(
                config.vocab_size, config.width, config.embedding_rank, std=EMBEDDING_STD
            )
        else:
            self.tokens = nn.Embedding(config.vocab_size, config.width)
            nn.init.normal_(self.tokens.weight, std=EMBEDDING_STD)
        self.positions = nn.Embedding(config.n_positions, config.width)
        nn.init.normal_(self.positions.weight, std=EMBEDDING_STD)

    def forward(self, tokens: Int[Tensor, "batch time"], first: int = 0) -> Float[Tensor, "batch time width"]:
        """Sum of token's and position's vector.

        Args:
            tokens: token numbers.
            first: position of the first of them.

        Raises:
            UsageError: if there are more positions than were made.
        """
        end, most = first + tokens.shape[1], len(self.positions.weight)
        if end > most:
            raise UsageError(
                f"{end:,} tokens are more than the {most:,} positions of this model; give it fewer"
            )
        embedded: Tensor = self.tokens(tokens) + self.positions.weight[first:end]
        return embedded

    def table(self) -> Float[Tensor, "tokens width"]:
        """Vectors of all tokens, for a tied head."""
        return self.tokens.table() if isinstance(self.tokens, SeparableEmbedding) else self.tokens.weight


class FeedForward(nn.Sequential):
    """Linear, GELU, linear; no biases.

    Args:
        size: of input and output.
        hidden: units between.
    """

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__(nn.Linear(size, hidden, bias=False), nn.GELU(), nn.Linear(hidden, size, bias=False))


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)).

    Args:
        config: sizes and kind of attention.
    """

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width)
        self.attention = make_attention(
            config.attention, config.width, config.width, config.n_heads, config.rank
        )
        self.feed_forward_norm = nn.LayerNorm(config.width)
        self.feed_forward = FeedForward(config.width, config.hidden)

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        """All positions at once."""
        return self._fed(x + self.attention(self.attention_norm(x)))

    def start(self, x: Float[Tensor, "batch time width"]) -> tuple[Float[Tensor, "batch time width"], Any]:
        """As `forward`, with the attention's state."""
        y, state = self.attention.start(self.attention_norm(x))
        return self._fed(x + y), state

    def step(
        self, x: Float[Tensor, "batch 1 width"], state: Any
    ) -> tuple[Float[Tensor, "batch 1 width"], Any]:
        """One position more."""
        y, state = self.attention.step(self.attention_norm(x), state)
        return self._fed(x + y), state

    def _fed(self, x: Tensor) -> Tensor:
        """After the feed-forward part."""
        fed: Tensor = x + self.feed_forward(self.feed_forward_norm(x))
        return fed


class Decoder(nn.Module):
    """What every decoder here shares: blocks with states, read one token or one prompt at a time.

    Subclasses set `embedding` and `blocks`, and say what the blocks pass on (`_enter`) and how the last
    position is answered (`_answer`).
    """

    embedding: TokenEmbedding
    blocks: nn.ModuleList

    def step(self, tokens: Int[Tensor, " batch"], cache: Cache) -> tuple[Float[Tensor, "batch vocab"], Cache]:
        """Read one token more.

        Args:
            tokens: one for each sequence.
            cache: of the tokens before.

        Returns:
            Logits of the next token, and the cache after this one.

        Raises:
            UsageError: if all positions are used.
        """
        return self._through(
            tokens.unsqueeze(1), cache.position, lambda index, block, x: block.step(x, cache.layers[index])
        )

    def _through(
        self, tokens: Tensor, first: int, advance: Callable[[int, Any, Any], tuple[Any, Any]]
    ) -> tuple[Tensor, Cache]:
        """Logits after the last token, all blocks' states collected."""
        x, states = self._enter(self.embedding(tokens, first)), []
        for index, block in enumerate(self.blocks):
            x, state = advance(index, block, x)
            states.append(state)
        return self._answer(x), Cache(first + tokens.shape[1], tuple(states))

    @abstractmethod
    def _enter(self, x: Tensor) -> Any:
        """What the first block reads."""

    @abstractmethod
    def _answer(self, x: Any) -> Tensor:
        """Logits at the last position of what the last block gave, (batch, vocab)."""


class SeparableLM(Decoder):
    """Causal decoder with rank-R attention; with `attention="softmax"` the Transformer it is compared with.

    Args:
        config: its sizes.

    Cost:
        A token costs the same wherever it stands, in training and in generation (separable attention).

    Example:
        >>> import torch
        >>> model = SeparableLM(LMConfig(vocab_size=50, width=8, n_heads=2, n_layers=1))
        >>> model(torch.tensor([[1, 2, 3]])).shape
        torch.Size([1, 3, 50])
    """

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = None if config.tied else nn.Linear(config.width, config.vocab_size, bias=False)

    def forward(
        self, tokens: Int[Tensor, "batch time"], prompt: Int[Tensor, " batch"] | None = None
    ) -> Float[Tensor, "batch time vocab"]:
        """Logits of the token after each position.

        Args:
            tokens: token numbers.
            prompt: length of each prompt; nothing looks ahead here, so it changes nothing.

        Raises:
            UsageError: if there are more tokens than positions.
        """
        return self._logits(self.hidden(tokens))

    def hidden(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time width"]:
        """Normalised hidden states, what the head reads."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        hidden: Tensor = self.norm(x)
        return hidden

    def start(
        self, tokens: Int[Tensor, "batch time"], *, look_ahead: bool = False
    ) -> tuple[Float[Tensor, "batch vocab"], Cache]:
        """Read a prompt.

        Args:
            tokens: the prompts, of one length.
            look_ahead: let halves that may see ahead do so in the prompt; this model has none.

        Returns:
            Logits of the next token, and what to go on from.
        """
        return self._through(tokens, 0, lambda index, block, x: block.start(x))

    def _enter(self, x: Tensor) -> Tensor:
        return x

    def _answer(self, x: Tensor) -> Tensor:
        return self._logits(self.norm(x[:, -1]))

    def _logits(self, hidden: Tensor) -> Tensor:
        """The head, tied or not."""
        logits: Tensor = hidden @ self.embedding.table().mT if self.head is None else self.head(hidden)
        return logits
