"""Word problems as rows of tokens, and the share of them that a model answers exactly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from sna_rl.errors import UsageError
from sna_rl.language.losses import LanguageModel
from sna_rl.language.reasoning import Problem, answer_of
from sna_rl.language.sampling import Sampling, generate
from sna_rl.language.tokens import Tokens

AT_ONCE = 64


class Rows(NamedTuple):
    """Problems of unequal length side by side, filled up with token 0.

    Args:
        tokens: question and answer.
        prompt: length of each question.
        scored: True at the tokens of the answers.
    """

    tokens: Int[Tensor, "n time"]
    prompt: Int[Tensor, " n"]
    scored: Bool[Tensor, "n time"]


def rows_of(problems: Sequence[Problem], tokens: Tokens, n_positions: int) -> Rows:
    """Encode problems.

    Args:
        problems: at least one.
        tokens: the vocabulary.
        n_positions: most tokens that the model reads.

    Raises:
        UsageError: if a problem with its answer is longer; it is named.

    Example:
        >>> from sna_rl.language.tokens import ByteTokens
        >>> rows = rows_of([Problem("1+1?", "#### 2"), Problem("2?", "#### 2")], ByteTokens(), 20)
        >>> rows.prompt.tolist(), rows.scored.sum(1).tolist()
        ([5, 3], [7, 7])
    """
    encoded = [
        [torch.from_numpy(tokens.encode(part)) for part in (each.prompt, each.completion)]
        for each in problems
    ]
    rows = [torch.cat(parts) for parts in encoded]
    for problem, row in zip(problems, rows, strict=True):
        if len(row) - 1 > n_positions:
            raise UsageError(
                f"the problem {problem.question[:40]!r}… with its answer has {len(row):,} tokens, more "
                f"than the {n_positions:,} positions of the model"
            )
    prompt = torch.tensor([len(parts[0]) for parts in encoded])
    ends = torch.tensor([len(row) for row in rows])
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    index = torch.arange(padded.shape[1])
    return Rows(padded, prompt, (index >= prompt[:, None]) & (index < ends[:, None]))


def exact_match(
    model: LanguageModel, problems: Sequence[Problem], tokens: Tokens, *, look_ahead: bool
) -> float:
    """Share of problems whose greedy answer has the right number after `####`.

    Args:
        model: either kind, in evaluation mode.
        problems: questions with their answers.
        tokens: the vocabulary.
        look_ahead: let the constraint half see ahead inside the question.

    Returns:
        A number in [0, 1].

    Raises:
        UsageError: if a question with its answer is longer than the model's positions.
    """
    rows = rows_of(problems, tokens, model.config.n_positions)
    device = next(model.parameters()).device
    groups = defaultdict(list)
    for index, length in enumerate(rows.prompt.tolist()):
        groups[length].append(index)
    right = 0
    for length, members in groups.items():
        for start in range(0, len(members), AT_ONCE):
            chosen = members[start : start + AT_ONCE]
            n_new = int(rows.scored[chosen].sum(1).max())
            prompts = rows.tokens[chosen, :length].to(device)
            new = generate(model, prompts, n_new, Sampling(temperature=0.0), look_ahead=look_ahead)
            written = torch.stack(list(new), 1).tolist()
            for index, answer in zip(chosen, written, strict=True):
                right += answer_of(tokens.decode(answer)) == answer_of(problems[index].answer)
    return right / len(problems)
