"""Word problems: every template's answer by an independent reading, files, scoring."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sna_rl.errors import UsageError
from sna_rl.language.config import LMConfig
from sna_rl.language.exact_match import exact_match, rows_of
from sna_rl.language.model import SeparableLM
from sna_rl.language.reasoning import HELD_OUT, TEMPLATES, Problem, answer_of, problems, read_gsm8k
from sna_rl.language.tokens import ByteTokens


def solved(question: str) -> int:
    """Answer by reading the words, not by how they were drawn."""
    numbers = [int(number) for number in re.findall(r"\d+", question)]
    if "boxes" in question:
        return numbers[0] * numbers[1]
    if "more" in question:
        return numbers[0] + numbers[1]
    if "lost" in question or "gives" in question:
        return numbers[0] - numbers[1]
    known = re.search(r"(?:^|\. )(\w) = (\d+)\.", question)
    assert known is not None
    value = int(known[2])
    if late := re.search(r"= (\d+) if \w < (\d+), else \w = (\d+)", question):
        return int(late[1]) if value < int(late[2]) else int(late[3])
    rule = re.search(r"if (.*) then \w = (\d+) else \w = (\d+)", question)
    assert rule is not None
    condition = re.sub(rf"\b{known[1]}\b", known[2], rule[1]).replace("is even", "% 2 == 0")
    return int(rule[2]) if eval(condition) else int(rule[3])


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("kind", ["conditional", "arithmetic"])
def test_every_answer_is_right(kind: str, held_out: bool) -> None:
    drawn = problems(kind, 300, seed=1, largest=30, held_out=held_out)
    for problem in drawn:
        assert answer_of(problem.answer) == str(solved(problem.question)), problem
    shapes = {re.sub(r"\d+|\b[a-z]\b", "_", problem.question.split(" ", 1)[1]) for problem in drawn}
    assert len(shapes) >= len((HELD_OUT if held_out else TEMPLATES)[kind])


def test_a_seed_decides_the_problems_and_held_out_templates_are_others() -> None:
    first, again, other = (problems("conditional", 50, seed=seed) for seed in (0, 0, 1))
    assert first == again != other
    assert not set(first) & set(other)
    assert all(template not in TEMPLATES[kind] for kind in HELD_OUT for template in HELD_OUT[kind])


@given(largest=st.integers(2, 1000), seed=st.integers(0, 100))
def test_no_number_of_a_question_is_larger(largest: int, seed: int) -> None:
    for problem in problems("conditional", 5, seed=seed, largest=largest):
        assert max(int(number) for number in re.findall(r"\d+", problem.question)) <= largest


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("… so 7.\n#### 7", "7"),
        ("#### 1,234", "1234"),
        ("#### -5\n#### 6", "-5"),
        ("#### $3.50", "3.50"),
        ("#### many", None),
        ("7", None),
    ],
)
def test_the_number_after_the_mark(text: str, answer: str | None) -> None:
    assert answer_of(text) == answer


def test_gsm8k_files_plain_and_gzipped(tmp_path: Path) -> None:
    lines = [json.dumps({"question": f"q{n}", "answer": f"a\n#### {n}"}) for n in range(3)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    expected = [Problem(f"q{n}", f"a\n#### {n}") for n in range(3)]
    assert read_gsm8k(tmp_path / "a.jsonl") == read_gsm8k(tmp_path / "a.jsonl.gz") == expected


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            '{"question": "q", "answer": "#### 1"}\n{"question": "q", "answer": "one"}',
            "line 2: the answer has no '#### n'",
        ),
        ("[1]", "line 1 is no JSON object with question and answer"),
        ("nothing", "line 1 is no JSON"),
        ("", "holds no problem"),
    ],
)
def test_lines_that_are_no_problems(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(content)
    with pytest.raises(UsageError, match=said):
        read_gsm8k(file)
    (tmp_path / "b.jsonl.gz").write_text("not gzip")
    with pytest.raises(UsageError, match="can't be read as lines of JSON"):
        read_gsm8k(tmp_path / "b.jsonl.gz")


class Oracle(SeparableLM):
    """Answers each question it was told with what it was told; all else is the model's."""

    def __init__(self, known: list[Problem]) -> None:
        super().__init__(LMConfig(vocab_size=256, n_positions=200, width=8, n_layers=1, n_heads=2, rank=2))
        self.known = {problem.prompt: problem.completion for problem in known}

    def start(self, tokens, *, look_ahead=False):  # type: ignore[no-untyped-def]
        self.writing = [self.known[ByteTokens().decode(row.tolist())] for row in tokens]
        return self.say(0), 1

    def step(self, tokens, cache):  # type: ignore[no-untyped-def]
        return self.say(cache), cache + 1

    def say(self, position: int) -> torch.Tensor:
        logits = torch.zeros(len(self.writing), 256)
        for row, text in enumerate(self.writing):
            logits[row, ord(text[position]) if position < len(text) else 32] = 1.0
        return logits


def test_exact_match_counts_right_numbers() -> None:
    asked = problems("arithmetic", 90, seed=3)
    told = [
        problem if index % 3 else Problem(problem.question, "#### 999") for index, problem in enumerate(asked)
    ]
    assert exact_match(Oracle(asked), asked, ByteTokens(), look_ahead=False) == 1.0
    assert exact_match(Oracle(told), asked, ByteTokens(), look_ahead=False) == pytest.approx(2 / 3)


def test_rows_score_answers_alone() -> None:
    rows = rows_of([Problem("ab", "#### 1"), Problem("abcd", "#### 23")], ByteTokens(), 30)
    assert rows.tokens.shape == (2, 13)
    texts = [
        ByteTokens().decode(row[mask].tolist()) for row, mask in zip(rows.tokens, rows.scored, strict=True)
    ]
    assert texts == ["#### 1\n", "#### 23\n"]
    with pytest.raises(UsageError, match="has 13 tokens, more than the 11 positions"):
        rows_of([Problem("abcd", "#### 23")], ByteTokens(), 11)
