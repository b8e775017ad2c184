"""What the README tells a newcomer to type runs, with fewer steps and episodes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sna_rl.cli import main

README = (Path(__file__).parent.parent / "README.md").read_text()
SMALLER = {
    "-n 100000": "-n 120 -params learning_starts:20",
    "-n 10000": "-n 120",
    "-n 200": "-n 5",
    "-n 20": "-n 1",
    "-n 3000 --n-trials 20": "-n 120 --n-trials 1 -params learning_starts:20",
    "-n 5000": "-n 2 -params n_train:40 n_valid:4 n_test:4 n_bases:4 batch_size:4 width:16 hidden:32",
    "--steps 2000": "--steps 2 -params width:16 n_layers:1",
    "--seeds 5": "--seeds 1",
    "-o cheetah.mp4": "-o cheetah.mp4 -n 10",
}


def blocks(language: str) -> list[str]:
    """Code blocks of one language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands() -> list[list[str]]:
    """Words of every `sna-rl` line, made small."""
    lines = [line.split("  #")[0] for block in blocks("sh") for line in block.splitlines()]
    small = [
        re.sub("|".join(map(re.escape, SMALLER)), lambda found: SMALLER[found[0]], line) for line in lines
    ]
    return [shlex.split(line)[1:] for line in small if line.startswith("sna-rl ")]


def test_readme_is_short_and_its_links_lead_somewhere() -> None:
    assert len(README.splitlines()) <= 200
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (Path(__file__).parent.parent / link).exists(), link


@pytest.mark.parametrize("code", blocks("python"))
def test_python_of_the_readme_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code.replace("1_000", "110"), "README.md", "exec"), {})


def test_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    verbs = [words[0] for words in commands()]
    assert {"train", "evaluate", "diagnose", "video", "export", "compare", "report", "tune"} <= set(verbs)
    for words in commands():
        if words[0] != "board":  # serves until Ctrl-C
            assert main(words) == 0, words
