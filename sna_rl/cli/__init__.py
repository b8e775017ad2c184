"""The command line, `sna-rl VERB`: reads flags, calls, prints; heavy imports wait for the verb."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import typer
from typer.exceptions import TyperException

from sna_rl.cli import (
    board,
    compare,
    demo,
    diagnose,
    evaluate,
    export,
    lm,
    report,
    train,
    tune,
    video,
    vision,
)
from sna_rl.cli.arguments import check_known, repeat_flags, without_debug
from sna_rl.errors import SnaError, suggestion

app = typer.Typer(
    name="sna-rl",
    help="Reinforcement learning with separable critics, beside their MLP baselines.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (train, evaluate, video, export, diagnose, board, demo, compare, tune, report):
    app.command(verb.__name__.rpartition(".")[2])(verb.command)
app.add_typer(lm.app, name="lm")
app.add_typer(vision.app, name="vision")


def _print_versions(wanted: bool) -> bool:
    """Print this package's version and those that decide a run's numbers, then end."""
    if wanted:
        from sna_rl.runs import versions

        names = {
            "sna-rl": "sna-rl",
            "torch": "torch",
            "stable-baselines3": "Stable-Baselines3",
            "mujoco": "MuJoCo",
        }
        found = versions()
        typer.echo("\n".join(f"{label} {found[name]}" for name, label in names.items()))
        raise typer.Exit
    return wanted


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_versions, is_eager=True, help="Print versions and exit."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; anywhere in the line.")
    ] = False,
) -> None:
    """Options before the verb; `main` has taken `--debug` already."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line.

    Args:
        arguments: its words after `sna-rl`; by default those of this process.

    Returns:
        Exit code: 0 done, 1 failed, 2 wrong usage, 130 or 143 ended by a signal; errors are one sentence.

    Example:
        >>> main(["train", "--alg", "sac"])
        2
    """
    words, debug = without_debug(sys.argv[1:] if arguments is None else arguments)
    _print_log()
    try:
        check_known(words)
        return int(app(repeat_flags(words) or ["--help"], prog_name="sna-rl", standalone_mode=False) or 0)
    except SnaError as error:
        return _fail(str(error), error.exit_code, debug)
    except TyperException as error:
        return _fail(_usage_sentence(error, words), error.exit_code, debug)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", 130, debug)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError:
        return _fail("there is not enough memory for sizes as large as these; give smaller ones", 1, debug)
    except OSError as error:
        where = f"{error.filename!r}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", 1, debug)
    except Exception as error:
        lines = str(error).strip().splitlines() or ["no message"]
        return _fail(f"unexpected {type(error).__name__}: {lines[0]}; --debug shows where", 1, debug)


def _print_log() -> None:
    """Print what the library tells while it works, such as a compilation it waits for, to stderr."""
    logger = logging.getLogger("sna_rl")
    logger.handlers = [logging.StreamHandler(sys.stderr)]
    logger.setLevel(logging.INFO)


def _fail(sentence: str, exit_code: int, debug: bool) -> int:
    """Print what went wrong in one line, whatever a name in it holds; with `debug`, where."""
    if debug:
        traceback.print_exc()
    line = "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in sentence)
    typer.echo(f"sna-rl: {line}", err=True)
    return exit_code


def _usage_sentence(error: TyperException, words: Sequence[str]) -> str:
    """Typer's message in one sentence, with what was given, and the closest name for an unknown flag."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "sna-rl"
    flag = getattr(error, "option_name", None)
    if context and flag and type(error).__name__ == "NoSuchOption":
        known = [name for parameter in context.command.params for name in parameter.opts]
        close = suggestion(flag, known)
        return (
            f"{command} has no option {flag}{close if 'did you mean' in close else f'; see {command} --help'}"
        )
    message = " ".join(error.format_message().split()).rstrip(".")
    names = getattr(getattr(error, "param", None), "opts", ())
    given = [after for word, after in pairwise(words) if word in names]
    but = f", not {given[-1]!r}" if given else ""
    return f"{message[:1].lower()}{message[1:]}{but}; see {command} --help"
