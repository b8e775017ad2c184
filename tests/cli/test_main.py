"""The front door: help, versions, usage errors in one sentence, exit codes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sna_rl import cli, errors
from sna_rl.cli import main

VERBS = ("train", "evaluate", "video", "export", "board", "demo")
COMMAND = str(Path(sys.executable).with_name("sna-rl"))


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_every_verb(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert all(verb in shown for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    assert "Usage: " in capsys.readouterr().out


ZOO_FLAGS = {
    "train": """--algo --env -n -tb -f --seed --eval-freq --eval-episodes --n-eval-envs --save-freq --vec-env
        -params -conf --env-kwargs --eval-env-kwargs --gym-packages -P --num-threads --device --verbose""",
    "evaluate": """--exp-id --load-best --load-checkpoint --load-last-checkpoint --deterministic --stochastic
        --no-render --algo --env -f --folder -n --seed --env-kwargs --gym-packages""",
    "video": "--exp-id --load-best --load-checkpoint --deterministic --stochastic -o -n -f --algo --seed",
}


@pytest.mark.parametrize("verb", ZOO_FLAGS)
def test_zoo_flags_are_known(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    main([verb, "--help"])
    shown = set(re.split(r"[ ,\n]+", capsys.readouterr().out))
    assert set(ZOO_FLAGS[verb].split()) <= shown


def test_version_names_what_decides_the_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["sna-rl", "torch", "Stable-Baselines3", "MuJoCo"]
    assert all(line.split()[1][0].isdigit() for line in lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trian"], "did you mean 'train'"),
        (["train", "--alg", "sac"], "no option --alg; did you mean '--algo'"),
        (["train", "--zzz"], "see sna-rl train --help"),
        (["train", "-n"], "-n"),
        (["evaluate", "-n", "many", "x"], "not 'many'"),
        (["train", "extra"], "extra"),
        (["evaluate"], "name a run folder"),
        (["video", "-n", "0", "run"], "not '0'"),
        (["train", "-optimize"], "sna-rl tune"),
        (["train", "--wandb-entity=x"], "tracking"),
        (["train", "--track"], "tracking isn't built in"),
    ],
)
def test_usage_errors_are_one_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("sna-rl: ")
    assert said in err.lower() or said in err


@pytest.mark.parametrize(
    ("raised", "exit_code", "said"),
    [
        (errors.UsageError("bad input"), 2, "bad input"),
        (errors.SnaError("it failed"), 1, "it failed"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (PermissionError(13, "Permission denied", "/x"), 1, "'/x': Permission denied"),
        (
            ZeroDivisionError("division\nby zero"),
            1,
            "unexpected ZeroDivisionError: division; --debug shows where",
        ),
    ],
)
def test_failures_are_one_sentence_and_a_traceback_with_debug(
    raised: BaseException,
    exit_code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(cli, "app", fail)
    assert main(["train"]) == exit_code
    assert capsys.readouterr().err == f"sna-rl: {said}\n"
    assert main(["train", "--debug"]) == exit_code
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert shown.endswith(f"sna-rl: {said}\n")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from sna_rl.cli import main; main(['--help']); "
        "sys.exit(bool({'torch', 'numpy', 'gymnasium', 'stable_baselines3', 'optuna'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_a_closed_pipe_is_no_traceback() -> None:
    done = subprocess.run(
        f"{COMMAND} train --help | head -n 1", shell=True, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr


def test_shell_completion_offers_the_verbs() -> None:
    environment = {"_SNA_RL_COMPLETE": "complete_bash", "COMP_WORDS": "sna-rl ", "COMP_CWORD": "1"}
    done = subprocess.run([COMMAND], env=environment, capture_output=True, text=True, check=False)
    assert set(VERBS) <= set(done.stdout.split())
