"""The guide's Python runs, and its commands' flags exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sna_rl.cli import main

GUIDE = (Path(__file__).parents[2] / "sna_rl" / "language" / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_of_the_guide_runs(code: str) -> None:
    exec(compile(code, "sna_rl/language/README.md", "exec"), {"__name__": "guide"})


def test_flags_of_the_guide_exist(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lines = "".join(blocks("sh")).replace("\\\n", " ").splitlines()
    for words in (shlex.split(line, comments=True) for line in lines):
        assert words[:2] == ["sna-rl", "lm"]
        main(["lm", words[2], "--help"])
        shown = capsys.readouterr().out
        flags = {word.strip("[") for word in words[3:] if word.strip("[").startswith("-")}
        assert all(re.search(rf"(?<![\w-]){flag}(?![\w-])", shown) for flag in flags), words


def test_links_of_the_guide_lead_somewhere() -> None:
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", GUIDE):
        assert (Path(__file__).parents[2] / "sna_rl" / "language" / link).exists(), link
