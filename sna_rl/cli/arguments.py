"""The argument list as Typer needs it: one value a flag, and `--debug` anywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sna_rl.errors import UsageError

PAIR = re.compile(r"[A-Za-z_][\w.-]*:")
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
MULTIPLE = {
    "-params": PAIR,
    "--hyperparams": PAIR,
    "--env-kwargs": PAIR,
    "--eval-env-kwargs": PAIR,
    "--gym-packages": MODULE,
}
"""Flags that take several values, each with the pattern of a value."""
TRACKING = "tracking isn't built in; TensorBoard's event files lie in the run folder (sna-rl board)"
TUNING = "tuning is a verb of its own here: sna-rl tune"
ANSWERS = {
    "--track": TRACKING,
    "--wandb-project-name": TRACKING,
    "--wandb-entity": TRACKING,
    "--wandb-group": TRACKING,
    "-tags": TRACKING,
    "-optimize": TUNING,
    "--optimize": TUNING,
    "--optimize-hyperparameters": TUNING,
    "--save-replay-buffer": "every checkpoint holds the replay buffer; --save-freq makes checkpoints",
}
"""What the RL Zoo's flags that don't exist here are answered with."""


def repeat_flags(arguments: Sequence[str]) -> list[str]:
    """Rewrite `-params a:1 b:2` to `-params a:1 -params b:2`, likewise every flag of `MULTIPLE`.

    The values of a flag end at the first word that isn't of its form: a flag, or a path after `key:value`
    pairs. Nothing after `--` is changed.

    Args:
        arguments: words of the command line.

    Returns:
        The words with those flags repeated.

    Example:
        >>> repeat_flags(["train", "-params", "tau:0.1", "gamma:0.9", "--seed", "1"])
        ['train', '-params', 'tau:0.1', '-params', 'gamma:0.9', '--seed', '1']
    """
    words: list[str] = []
    flag, n_values = "", 0
    for position, word in enumerate(arguments):
        if word == "--":
            return words + list(arguments[position:])
        if word in MULTIPLE:
            flag, n_values = word, 0
        elif flag:
            if n_values and MULTIPLE[flag].match(word):
                words.append(flag)
            elif n_values or word.startswith("-"):
                flag = ""
            n_values += 1
        words.append(word)
    return words


def check_known(arguments: Sequence[str]) -> None:
    """Answer the RL Zoo's flags that have another place here.

    Args:
        arguments: words of the command line.

    Raises:
        UsageError: with the answer.

    Example:
        >>> check_known(["train", "--algo", "sac"])
    """
    for word in arguments:
        if word.partition("=")[0] in ANSWERS:
            raise UsageError(ANSWERS[word.partition("=")[0]])


def without_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Take `--debug` out of the argument list, wherever it stands.

    Args:
        arguments: words of the command line.

    Returns:
        The other words, and whether it was there.

    Example:
        >>> without_debug(["train", "--debug", "--seed", "1"])
        (['train', '--seed', '1'], True)
    """
    return [word for word in arguments if word != "--debug"], "--debug" in arguments
