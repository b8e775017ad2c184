"""Arcade: a hidden state cut into a state half (the next token) and a constraint half (what persists)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sna_rl.language.attention import Prompt, make_attention
from sna_rl.language.config import FF_FACTOR, ArcadeConfig, LMConfig
from sna_rl.language.model import Cache, Decoder, FeedForward, TokenEmbedding

CONSTRAINT = "constraint."  # in the names of the constraint half's own parameters


class Halves(NamedTuple):
    """The two parts of a hidden state."""

    state: Float[Tensor, "batch time state"]
    constraint: Float[Tensor, "batch time constraint"]


class HalfBlock(nn.Module):
    """What a block does to one half: attention that reads both, a feed-forward part that reads its own.

    Args:
        size: of the half.
        n_heads: its attention heads.
        config: width, rank and kind of attention.
    """

    def __init__(self, size: int, n_heads: int, config: LMConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(size)
        self.attention = make_attention(config.attention, config.width, size, n_heads, config.rank)
        self.feed_forward_norm = nn.LayerNorm(size)
        self.feed_forward = FeedForward(size, FF_FACTOR * config.width)

    def fed(self, x: Float[Tensor, "batch time size"]) -> Float[Tensor, "batch time size"]:
        """After the feed-forward part."""
        fed: Tensor = x + self.feed_forward(self.feed_forward_norm(x))
        return fed


class ArcadeBlock(nn.Module):
    """A block of two halves; with routing the state half reads the constraint half without a gradient.

    Args:
        config: sizes.
        arcade: ratio and routing.

    Raises:
        UsageError: if the ratio does not divide width and heads.
    """

    def __init__(self, config: LMConfig, arcade: ArcadeConfig) -> None:
        super().__init__()
        self.routed = arcade.routed
        sizes, heads = arcade.sizes(config.width), arcade.sizes(config.n_heads, "heads")
        self.state = HalfBlock(sizes[0], heads[0], config)
        self.constraint = HalfBlock(sizes[1], heads[1], config)

    def forward(self, halves: Halves, prompt: Prompt | None) -> Halves:
        """All positions at once; the constraint half sees ahead inside the prompt."""
        reads = self._reads(halves)
        return self._fed(
            halves, self.state.attention(reads.state), self.constraint.attention(reads.constraint, prompt)
        )

    def start(self, halves: Halves, prompt: Prompt | None) -> tuple[Halves, tuple[Any, Any]]:
        """As `forward`, with both attentions' states."""
        reads = self._reads(halves)
        s, state = self.state.attention.start(reads.state)
        c, constraint = self.constraint.attention.start(reads.constraint, prompt)
        return self._fed(halves, s, c), (state, constraint)

    def step(self, halves: Halves, states: tuple[Any, Any]) -> tuple[Halves, tuple[Any, Any]]:
        """One position more."""
        reads = self._reads(halves)
        s, state = self.state.attention.step(reads.state, states[0])
        c, constraint = self.constraint.attention.step(reads.constraint, states[1])
        return self._fed(halves, s, c), (state, constraint)

    def _reads(self, halves: Halves) -> Halves:
        """What each half's attention reads, both of the whole width."""
        state = self.state.attention_norm(halves.state)
        constraint = self.constraint.attention_norm(halves.constraint)
        stopped = constraint.detach() if self.routed else constraint
        return Halves(torch.cat([state, stopped], -1), torch.cat([state, constraint], -1))

    def _fed(self, halves: Halves, s: Tensor, c: Tensor) -> Halves:
        """Halves after attention's outputs are added and the feed-forward parts have run."""
        return Halves(self.state.fed(halves.state + s), self.constraint.fed(halves.constraint + c))


class ArcadeLM(Decoder):
    """Decoder with state–constraint decoupling, on separable or softmax attention.

    The head reads [S, stopgrad(C)] for the next token and [S, C] for a task's answers, so with routing
    next-token cross-entropy has a gradient of exactly 0 on the constraint half's parameters.

    Args:
        config: sizes of the decoder; its head is never tied, `ff_width` is not used: each half has 4 · width
            hidden units, 8 · width² weights in all, as many as a dense block.
        arcade: how the halves are cut and kept apart.

    Raises:
        UsageError: if the ratio does not divide width and heads.

    Source:
        Arcade-3B's model card and article; gradients routed as written above.

    Example:
        >>> model = ArcadeLM(LMConfig(vocab_size=50, width=8, n_heads=2, n_layers=1), ArcadeConfig())
        >>> model(torch.tensor([[1, 2, 3]])).shape
        torch.Size([1, 3, 50])
    """

    def __init__(self, config: LMConfig, arcade: ArcadeConfig) -> None:
        super().__init__()
        self.config = config
        self.arcade = arcade
        self.sizes = arcade.sizes(config.width)
        self.embedding = TokenEmbedding(config)
        self.blocks = nn.ModuleList(ArcadeBlock(config, arcade) for _ in range(config.n_layers))
        self.norms = nn.ModuleDict(
            {"state": nn.LayerNorm(self.sizes[0]), "constraint": nn.LayerNorm(self.sizes[1])}
        )
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)

    def forward(
        self, tokens: Int[Tensor, "batch time"], prompt: Int[Tensor, " batch"] | None = None
    ) -> Float[Tensor, "batch time vocab"]:
        """Logits of the token after each position.

        Args:
            tokens: token numbers.
            prompt: length of each prompt, inside which the constraint half sees ahead; None for strictly
                causal. Logits inside the prompt know later tokens of it then: never train or score on them.

        Raises:
            UsageError: if there are more tokens than positions.
        """
        return self.logits(self.halves(tokens, prompt), stopped=False)

    def halves(
        self, tokens: Int[Tensor, "batch time"], prompt: Int[Tensor, " batch"] | None = None
    ) -> Halves:
        """The last hidden state, cut: what the penalty is of, and what `logits` reads."""
        window = self._window(tokens, prompt)
        halves = self._enter(self.embedding(tokens))
        for block in self.blocks:
            halves = block(halves, window)
        return halves

    def logits(self, halves: Halves, *, stopped: bool) -> Float[Tensor, "batch time vocab"]:
        """The head's answer.

        Args:
            halves: what `halves` gave.
            stopped: cut the constraint half's gradient (next-token cross-entropy), where the model routes.
        """
        state, constraint = self.norms["state"](halves.state), self.norms["constraint"](halves.constraint)
        if stopped and self.arcade.routed:
            constraint = constraint.detach()
        logits: Tensor = self.head(torch.cat([state, constraint], -1))
        return logits

    def start(
        self, tokens: Int[Tensor, "batch time"], *, look_ahead: bool = False
    ) -> tuple[Float[Tensor, "batch vocab"], Cache]:
        """Read a prompt.

        Args:
            tokens: the prompts, of one length.
            look_ahead: let the constraint half see ahead in it, as in training with prompts.

        Returns:
            Logits of the next token, and what to go on from.
        """
        lengths = tokens.new_full((len(tokens),), tokens.shape[1]) if look_ahead else None
        window = self._window(tokens, lengths)
        return self._through(tokens, 0, lambda index, block, halves: block.start(halves, window))

    def constraint_parameters(self) -> Iterator[nn.Parameter]:
        """Parameters of the constraint half alone, for a learning rate of their own."""
        for name, parameter in self.named_parameters():
            if CONSTRAINT in name:
                yield parameter

    def _answer(self, x: Halves) -> Tensor:
        return self.logits(Halves(*(half[:, -1:] for half in x)), stopped=False)[:, 0]

    def _window(self, tokens: Tensor, prompt: Tensor | None) -> Prompt | None:
        """Where the constraint half may look ahead."""
        if prompt is None or not self.arcade.look_ahead:
            return None
        inside = torch.arange(tokens.shape[1], device=tokens.device) < prompt[:, None]
        return Prompt(inside, self.arcade.look_ahead)

    def _enter(self, x: Tensor) -> Halves:
        """The hidden state's two parts."""
        return Halves(x[..., : self.sizes[0]], x[..., self.sizes[0] :])
