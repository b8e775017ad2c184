"""Generation: one token at a time, the most likely or a sampled one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sna_rl.errors import UsageError
from sna_rl.language.losses import LanguageModel
from sna_rl.separable.checks import check_int


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen.

    Args:
        temperature: logits are divided by it; 0 takes the most likely token.
        top_k: only the k most likely tokens; None for all.
        top_p: only the fewest most likely tokens that hold this share of the probability.

    Raises:
        UsageError: if a number is out of its range.

    Example:
        >>> Sampling(temperature=0.0).choose(torch.tensor([[0.0, 2.0, 1.0]]), torch.Generator())
        tensor([1])
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < float("inf"):
            raise UsageError(f"temperature must be 0 or a finite number over 0, not {self.temperature!r}")
        if self.top_k is not None:
            check_int("top_k", self.top_k, 1)
        if not 0.0 < self.top_p <= 1.0:
            raise UsageError(f"top_p must be a share over 0 and at most 1, not {self.top_p!r}")

    def probabilities(self, logits: Float[Tensor, "batch vocab"]) -> Float[Tensor, "batch vocab"]:
        """Distribution that the next token is drawn from.

        Args:
            logits: of the next token.

        Example:
            >>> Sampling(top_p=0.5).probabilities(torch.tensor([[0.1, 0.6, 0.3]]).log())
            tensor([[0., 1., 0.]])
        """
        if self.temperature == 0.0:
            return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
        ordered, tokens = (logits / self.temperature).softmax(-1).sort(descending=True, stable=True)
        kept = ordered.cumsum(-1) - ordered < self.top_p
        if self.top_k is not None:
            kept[:, self.top_k :] = False
        ordered = torch.where(kept, ordered, 0.0)
        return torch.zeros_like(logits).scatter(-1, tokens, ordered / ordered.sum(-1, keepdim=True))

    def choose(
        self, logits: Float[Tensor, "batch vocab"], generator: torch.Generator
    ) -> Int[Tensor, " batch"]:
        """Draw the next token.

        Args:
            logits: of the next token.
            generator: what is drawn from.
        """
        return torch.multinomial(self.probabilities(logits), 1, generator=generator).squeeze(1)


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompt: Int[Tensor, "batch time"],
    n_tokens: int,
    sampling: Sampling,
    *,
    seed: int = 0,
    look_ahead: bool = False,
) -> Iterator[Int[Tensor, " batch"]]:
    """New tokens after prompts of one length.

    Args:
        model: either kind, in evaluation mode.
        prompt: at least one token each.
        n_tokens: new tokens.
        sampling: how each is chosen.
        seed: of the draws.
        look_ahead: let the constraint half see ahead inside the prompt (trained so on prompts with answers).

    Yields:
        The next token of each sequence.

    Raises:
        UsageError: if the prompt is empty, or prompt and new tokens need more positions than there are.

    Cost:
        With separable attention each token takes the same time and memory.
    """
    length, most = prompt.shape[1], model.config.n_positions
    check_int("n_tokens", n_tokens, 1)
    if not length:
        raise UsageError("the prompt is empty; give at least one token")
    if length + n_tokens - 1 > most:
        raise UsageError(
            f"a prompt of {length:,} tokens and {n_tokens:,} new ones are more than the {most:,} "
            "positions that this model was trained on; shorten either"
        )
    generator = torch.Generator(prompt.device).manual_seed(seed)
    logits, cache = model.start(prompt, look_ahead=look_ahead)
    for remaining in range(n_tokens - 1, -1, -1):
        token = sampling.choose(logits.float(), generator)
        yield token
        if remaining:
            logits, cache = model.step(token, cache)
