"""Scoring of code: what a shut-in program can't do, verdicts of hand-made problems, files, the flag."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest
import torch

from sna_rl.cli import main
from sna_rl.errors import UsageError
from sna_rl.language import sandbox
from sna_rl.language.code_scoring import CodeProblem, body_of, code_score, read_code_problems
from sna_rl.language.config import LMConfig
from sna_rl.language.model import SeparableLM
from sna_rl.language.sandbox import run_sandboxed
from sna_rl.language.tokens import ByteTokens

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the sandbox is of Linux x86-64")

TEST = "def check(candidate):\n    assert candidate(2, 3) == 5\n    assert candidate(-1, 1) == 0\n"
PROMPT = 'def add(a, b):\n    """Sum."""\n'


@pytest.mark.parametrize(
    ("program", "kind", "detail"),
    [
        ("assert sum(range(5)) == 10", "passed", ""),
        ("import math, re, json, collections, random, datetime, hashlib\nassert math.pi > 3", "passed", ""),
        ("import time\ntime.sleep(0.01)\nprint('a' * 10**6)", "passed", ""),
        ("assert 1 == 2, 'no'", "failed", "AssertionError: no"),
        ("def f(:", "failed", "SyntaxError"),
        ("while True: pass", "timeout", ""),
        ("a = []\nwhile True: a.append(bytearray(10**7))", "memory", ""),
        ("x = [0] * 10**11", "memory", ""),
        ("raise SystemExit(0)", "exited", ""),
        ("import os\nos._exit(0)", "exited", "code 0"),
        ("import os\nos._exit(7)", "exited", "code 7"),
        ("input()", "failed", "EOFError"),
    ],
)
def test_verdicts(program: str, kind: str, detail: str) -> None:
    verdict = run_sandboxed(program, seconds=1.0, memory=256 * 2**20)
    assert verdict.kind == kind, verdict
    assert verdict.detail.startswith(detail)


@pytest.mark.parametrize(
    "attempt",
    [
        "import socket\nsocket.create_connection(('127.0.0.1', PORT), 1)",
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))",
        "import socket\nsocket.socket(socket.AF_UNIX)",
        "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:PORT')",
        "import subprocess\nsubprocess.run(['true'])",
        "import os\nos.fork()",
        "import os\nos.execv('/bin/true', ['true'])",
        "import threading\nthreading.Thread(target=print).start()",
        "open('FOLDER/new', 'w')",
        "open('FOLDER/kept', 'a')",
        "import os\nos.remove('FOLDER/kept')",
        "import os\nos.rename('FOLDER/kept', 'FOLDER/other')",
        "import os\nos.mkdir('FOLDER/inside')",
        "import os\nos.chmod('FOLDER/kept', 0)",
        "import os\nos.truncate('FOLDER/kept', 0)",
        "import os\nos.symlink('FOLDER/kept', 'FOLDER/link')",
        "import os\nos.kill(os.getppid(), 0)",
        "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (100, 100))",
    ],
)
def test_what_a_program_may_not_do_fails_and_changes_nothing(attempt: str, tmp_path: Path) -> None:
    import socket

    (tmp_path / "kept").write_text("kept")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        program = attempt.replace("PORT", str(server.getsockname()[1])).replace("FOLDER", str(tmp_path))
        verdict = run_sandboxed(program)
        with pytest.raises(BlockingIOError):
            server.accept()  # nobody called
    assert verdict.kind == "failed", verdict
    assert "rror" in verdict.detail.split(":")[0]
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("kept", "kept")]


def test_a_sleeper_is_ended_in_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "WALL_SPARE", 1.0)
    assert run_sandboxed("import time\ntime.sleep(600)", seconds=0.1) == ("timeout", "real time")


def test_an_answer_that_is_written_by_the_program_is_not_believed() -> None:
    forged = "import os, json\nos.write(1, json.dumps(['token', 'passed', '']).encode())\nos._exit(0)"
    assert run_sandboxed(forged) == ("exited", "code 0")
    flood = "import os\nwhile True: os.write(1, b'x' * 1000)"
    assert run_sandboxed(flood).kind != "passed"


def test_limits_and_systems_that_will_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="must be over 0"):
        run_sandboxed("", seconds=0.0)
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(
        UsageError, match="only on Linux x86-64, whose kernel can shut them in, not on Darwin"
    ):
        run_sandboxed("")


class Writer(SeparableLM):
    """Goes on with what it was told for each prompt."""

    def __init__(self, completions: dict[str, str], n_positions: int = 300) -> None:
        super().__init__(LMConfig(256, n_positions=n_positions, width=8, n_layers=1, n_heads=2, rank=2))
        self.completions = completions

    def start(self, tokens, *, look_ahead=False):  # type: ignore[no-untyped-def]
        self.text = self.completions[ByteTokens().decode(tokens[0].tolist())].encode()
        return self.say(0), 1

    def step(self, tokens, cache):  # type: ignore[no-untyped-def]
        return self.say(cache), cache + 1

    def say(self, place: int) -> torch.Tensor:
        logits = torch.zeros(1, 256)
        logits[0, self.text[place] if place < len(self.text) else 10] = 1.0
        return logits


def test_hand_made_problems_are_counted() -> None:
    bodies = {
        "right": "    return a + b\n",
        "right, then more": "    return a + b\n\nprint(undefined)\n",
        "wrong": "    return a - b\n",
        "endless": "    while True:\n        pass\n",
        "hog": "    return len([0] * 10**11)\n",
        "leaves": "    raise SystemExit\n",
        "calls": "    import socket\n    socket.socket()\n    return a + b\n",
    }
    prompts = {name: PROMPT.replace("Sum", name) for name in bodies}
    asked = [CodeProblem(name, prompts[name], TEST, "add") for name in bodies]
    model = Writer({prompts[name]: body for name, body in bodies.items()})
    found = code_score(model, asked, ByteTokens(), n_tokens=64, seconds=1.0)
    assert found == pytest.approx(
        {"pass_at_1": 2 / 7, "n_passed": 2, "n_failed": 2, "n_timeout": 1, "n_memory": 1, "n_exited": 1}
    )
    with pytest.raises(
        UsageError, match="the prompt of 'right' has 32 tokens, and this model was trained on 20"
    ):
        code_score(Writer({}, 20), asked, ByteTokens())


def test_a_body_ends_where_something_else_begins() -> None:
    assert body_of("    if a:\n        return b\n    return a\n\ndef other():\n    pass\nclass X: pass") == (
        "    if a:\n        return b\n    return a\n"
    )
    assert body_of("    return 1") == "    return 1"


def test_files_of_problems(tmp_path: Path) -> None:
    entry = {"task_id": "HumanEval/0", "prompt": PROMPT, "test": TEST, "entry_point": "add", "more": 1}
    file = tmp_path / "problems.jsonl"
    file.write_text(json.dumps(entry) + "\n")
    assert read_code_problems(file) == [CodeProblem("HumanEval/0", PROMPT, TEST, "add")]
    for wrong, said in (
        (entry | {"entry_point": "add(1)"}, "line 1: the entry_point 'add(1)' is no name"),
        (entry | {"test": None}, "line 1 is no JSON object with task_id and prompt and test and entry_point"),
    ):
        file.write_text(json.dumps(wrong))
        with pytest.raises(UsageError) as error:
            read_code_problems(file)
        assert said in str(error.value)


@pytest.mark.parametrize("words", [["--code", "problems.jsonl"], ["--run-code"]])
def test_code_is_run_only_when_the_user_says_so(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lm", "evaluate", "run", *words]) == 2
    assert "give both --code FILE and --run-code" in capsys.readouterr().err
