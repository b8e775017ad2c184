"""Word problems with exact answers: a seeded generator with held-out templates, and GSM8K's files."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from sna_rl.language.json_lines import read_lines
from sna_rl.separable.checks import check_int, check_name

MARK = "####"  # before the answer, as in GSM8K
KINDS = ("conditional", "arithmetic")
NAMES = ("ann", "bob", "eve", "tom", "sue", "max")
THINGS = ("pens", "cups", "eggs", "keys", "nuts", "hats")


class Problem(NamedTuple):
    """A question and its answer's text, which ends in `#### n`."""

    question: str
    answer: str

    @property
    def prompt(self) -> str:
        """What the model is given."""
        return f"{self.question}\n"

    @property
    def completion(self) -> str:
        """What it should go on with."""
        return f"{self.answer}\n"


Template = Callable[[random.Random, int], tuple[str, int]]


def _threshold(draw: random.Random, largest: int) -> tuple[str, int]:
    x, y = draw.sample(string.ascii_lowercase, 2)
    limit, value, yes, no = (draw.randint(0, largest) for _ in range(4))
    return (
        f"if {x} > {limit} then {y} = {yes} else {y} = {no}. {x} = {value}. {y}?",
        yes if value > limit else no,
    )


def _two_conditions(draw: random.Random, largest: int) -> tuple[str, int]:
    x, y = draw.sample(string.ascii_lowercase, 2)
    low, high = sorted(draw.sample(range(largest + 1), 2))
    value, inside, outside = (draw.randint(0, largest) for _ in range(3))
    text = f"if {x} > {low} and {x} < {high} then {y} = {inside} else {y} = {outside}. {x} = {value}. {y}?"
    return text, inside if low < value < high else outside


def _parity(draw: random.Random, largest: int) -> tuple[str, int]:
    x, y = draw.sample(string.ascii_lowercase, 2)
    value, even, odd = (draw.randint(0, largest) for _ in range(3))
    text = f"{x} = {value}. if {x} is even then {y} = {even} else {y} = {odd}. {y}?"
    return text, odd if value % 2 else even


def _late_condition(draw: random.Random, largest: int) -> tuple[str, int]:
    x, y = draw.sample(string.ascii_lowercase, 2)
    limit, value, yes, no = (draw.randint(0, largest) for _ in range(4))
    return f"{x} = {value}. {y} = {yes} if {x} < {limit}, else {y} = {no}. {y}?", yes if value < limit else no


def _more(draw: random.Random, largest: int) -> tuple[str, int]:
    name, thing = draw.choice(NAMES), draw.choice(THINGS)
    has, more = (draw.randint(0, largest) for _ in range(2))
    return f"{name} has {has} {thing} and gets {more} more. how many?", has + more


def _fewer(draw: random.Random, largest: int) -> tuple[str, int]:
    name, thing = draw.choice(NAMES), draw.choice(THINGS)
    lost, has = sorted(draw.randint(0, largest) for _ in range(2))
    return f"{name} had {has} {thing} and lost {lost}. how many are left?", has - lost


def _boxes(draw: random.Random, largest: int) -> tuple[str, int]:
    thing = draw.choice(THINGS)
    boxes, each = draw.randint(2, 9), draw.randint(0, largest)
    return f"{boxes} boxes hold {each} {thing} each. how many {thing}?", boxes * each


def _gift(draw: random.Random, largest: int) -> tuple[str, int]:
    (giver, other), thing = draw.sample(NAMES, 2), draw.choice(THINGS)
    gift, has = sorted(draw.randint(0, largest) for _ in range(2))
    text = f"of {has} {thing} {giver} gives {other} {gift}. how many does {giver} keep?"
    return text, has - gift


TEMPLATES: dict[str, tuple[Template, ...]] = {
    "conditional": (_threshold, _two_conditions, _parity),
    "arithmetic": (_more, _fewer, _boxes),
}
HELD_OUT: dict[str, tuple[Template, ...]] = {"conditional": (_late_condition,), "arithmetic": (_gift,)}


def problems(kind: str, n: int, *, seed: int, largest: int = 20, held_out: bool = False) -> list[Problem]:
    """Draw word problems.

    Args:
        kind: "conditional" or "arithmetic".
        n: how many.
        seed: decides all of them.
        largest: no number in a question is larger: the difficulty.
        held_out: from the templates that training never uses.

    Raises:
        UsageError: if the kind is unknown, or a number is too small.

    Example:
        >>> for problem in problems("arithmetic", 2, seed=0):
        ...     print(problem.question, problem.answer)
        max had 12 keys and lost 1. how many are left? #### 11
        2 boxes hold 7 cups each. how many cups? #### 14
    """
    check_name("kind of problem", kind, KINDS)
    check_int("n", n, 1)
    check_int("largest", largest, 2)
    draw = random.Random(f"{seed}-{kind}-{held_out}")
    templates = (HELD_OUT if held_out else TEMPLATES)[kind]
    drawn = (draw.choice(templates)(draw, largest) for _ in range(n))
    return [Problem(question, f"{MARK} {answer}") for question, answer in drawn]


def read_gsm8k(path: Path) -> list[Problem]:
    """Read problems of GSM8K's format: a JSON object a line, with "question" and "answer" (`… #### n`).

    Args:
        path: the file, plain or gzipped.

    Raises:
        UsageError: if a line is no such problem; its number is named.
    """
    return read_lines(path, _problem, ("question", "answer"))


def answer_of(text: str) -> str | None:
    """The number after the first `####`, thousands' commas left out; None where there is none.

    Example:
        >>> answer_of("3 + 4 = 7\\n#### 1,007"), answer_of("seven")
        ('1007', None)
    """
    found = re.search(rf"{MARK}[ \t]*\$?(-?[\d,]*\.?\d+)", text)
    return found[1].replace(",", "") if found else None


def _problem(entry: dict[str, str]) -> Problem:
    """One line's problem."""
    problem = Problem(entry["question"], entry["answer"])
    if answer_of(problem.answer) is None:
        raise ValueError(f"the answer has no '{MARK} n' at its end")
    return problem
