"""Code that a model writes, scored by running it: HumanEval's format, each program shut in by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from sna_rl.errors import UsageError
from sna_rl.language.json_lines import read_lines
from sna_rl.language.losses import LanguageModel
from sna_rl.language.sampling import Sampling, generate
from sna_rl.language.sandbox import KINDS, check_platform, run_sandboxed
from sna_rl.language.tokens import Tokens

STOPS = ("\nclass ", "\ndef ", "\n#", "\nif ", "\nprint(")  # a function's body ends before the first of them
LOOKED_EVERY = 16  # tokens between two looks for an end


class CodeProblem(NamedTuple):
    """A function to write and its test, which defines `check`.

    Args:
        name: the problem's.
        prompt: signature and docstring, what the model goes on with.
        test: source that defines check(candidate).
        entry_point: the function's name.
    """

    name: str
    prompt: str
    test: str
    entry_point: str

    def program(self, completion: str) -> str:
        """The program that passes if a completion is right.

        Example:
            >>> problem = CodeProblem("0", "def f():\\n", "def check(c):\\n    assert c() == 1", "f")
            >>> print(problem.program("    return 1\\nprint(2)"))
            def f():
                return 1
            <BLANKLINE>
            def check(c):
                assert c() == 1
            check(f)
            <BLANKLINE>
        """
        return f"{self.prompt}{body_of(completion)}\n\n{self.test}\ncheck({self.entry_point})\n"


def read_code_problems(path: Path) -> list[CodeProblem]:
    """Read problems of HumanEval's format: task_id, prompt, test, entry_point; a JSON object a line.

    Args:
        path: the user's file, plain or gzipped.

    Raises:
        UsageError: if a line is no such problem; its number is named.
    """
    return read_lines(path, _problem, ("task_id", "prompt", "test", "entry_point"))


def body_of(completion: str) -> str:
    """What belongs to the function: all before the first line that begins something else.

    Example:
        >>> body_of("    return x\\n\\ndef other():")
        '    return x\\n'
    """
    ends = [place for stop in STOPS if (place := completion.find(stop)) >= 0]
    return completion[: min(ends)] if ends else completion


def code_score(
    model: LanguageModel,
    problems: Sequence[CodeProblem],
    tokens: Tokens,
    *,
    n_tokens: int = 300,
    seconds: float = 5.0,
    memory: int = 512 * 2**20,
) -> dict[str, float]:
    """Share of problems whose greedy completion passes its test; the completions are run.

    Args:
        model: either kind, in evaluation mode.
        problems: at least one.
        tokens: the vocabulary.
        n_tokens: new tokens at most; fewer where the model's positions end.
        seconds: of processor time for each program.
        memory: bytes for each program.

    Returns:
        "pass_at_1" in [0, 1], and "n_passed", "n_failed", "n_exited", "n_timeout", "n_memory".

    Raises:
        UsageError: if a prompt leaves no position for an answer, or the system has no sandbox; before
            anything is run.
        SnaError: if the kernel refuses the sandbox's filter.
    """
    check_platform()
    prompts = [torch.from_numpy(tokens.encode(problem.prompt)) for problem in problems]
    most = model.config.n_positions
    for problem, prompt in zip(problems, prompts, strict=True):
        if not 0 < len(prompt) <= most:
            raise UsageError(
                f"the prompt of {problem.name!r} has {len(prompt):,} tokens, and this model was trained on "
                f"{most:,} positions; take a model with more"
            )
    kinds: Counter[str] = Counter()
    for problem, prompt in zip(problems, prompts, strict=True):
        completion = _written(model, prompt, min(n_tokens, most - len(prompt) + 1), tokens)
        kinds[run_sandboxed(problem.program(completion), seconds=seconds, memory=memory).kind] += 1
    return {
        "pass_at_1": kinds["passed"] / len(problems),
        **{f"n_{kind}": float(kinds[kind]) for kind in KINDS},
    }


def _written(model: LanguageModel, prompt: torch.Tensor, n_tokens: int, tokens: Tokens) -> str:
    """The greedy completion, ended early where a function has ended."""
    device = next(model.parameters()).device
    written: list[int] = []
    for token in generate(model, prompt.unsqueeze(0).to(device), n_tokens, Sampling(temperature=0.0)):
        written.append(int(token))
        if len(written) % LOOKED_EVERY == 0 and body_of(text := tokens.decode(written)) != text:
            break
    return tokens.decode(written)


def _problem(entry: dict[str, str]) -> CodeProblem:
    """One line's problem."""
    problem = CodeProblem(entry["task_id"], entry["prompt"], entry["test"], entry["entry_point"])
    if not problem.entry_point.isidentifier():
        raise ValueError(f"the entry_point {problem.entry_point!r} is no name of a function")
    return problem
