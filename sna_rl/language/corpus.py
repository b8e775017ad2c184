"""A corpus: any UTF-8 file or folder of them, by default the source of Python's own standard library."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from sna_rl.errors import UsageError
from sna_rl.language.tokens import Tokens
from sna_rl.runs.files import check_file

HELD_OUT = 0.1  # share of the text that is kept for evaluation, its end
NOT_SOURCE = {"site-packages", "test", "tests", "idle_test", "__pycache__"}


def read_text(path: Path | None) -> str:
    """Text of a corpus.

    Args:
        path: a UTF-8 file, or a folder whose files (hidden ones left out) are joined in the order of their
            names; None for the standard library's `.py` files, its tests left out.

    Raises:
        UsageError: if there is nothing, or a file is not UTF-8.

    Example:
        >>> "def " in read_text(None)
        True
    """
    if path is None:
        library = Path(sysconfig.get_paths()["stdlib"])
        files = [file for file in library.rglob("*.py") if not NOT_SOURCE & set(file.parts)]
    elif path.is_dir():
        inside = (file for file in path.rglob("*") if file.is_file())
        files = [
            file for file in inside if not any(part.startswith(".") for part in file.relative_to(path).parts)
        ]
    elif path.exists():
        files = [path]
    else:
        raise UsageError(f"text {str(path)!r} does not exist; name a UTF-8 file or a folder of them")
    text = "\n".join(_read(file) for file in sorted(files))
    if not text.strip():
        raise UsageError(
            f"text {str(path)!r} is empty; name a UTF-8 file or a folder of them with text inside"
        )
    return text


def cut(text: str) -> tuple[str, str]:
    """A text's part to learn from and the part held out, its end.

    Example:
        >>> cut("abcdefghij")
        ('abcdefghi', 'j')
    """
    place = len(text) - int(len(text) * HELD_OUT)
    return text[:place], text[place:]


@dataclass(frozen=True)
class Corpus:
    """Token numbers to train on and to evaluate with.

    Args:
        train: the first nine tenths of the text.
        held_out: the rest.

    Example:
        >>> from sna_rl.language.tokens import ByteTokens
        >>> corpus = Corpus.of("abcdefghij" * 10, ByteTokens(), n_positions=4)
        >>> len(corpus.train), len(corpus.held_out)
        (90, 10)
    """

    train: Int[Tensor, " train"]
    held_out: Int[Tensor, " held"]

    @classmethod
    def of(cls, text: str, tokens: Tokens, n_positions: int) -> Corpus:
        """Cut and encode a text.

        Args:
            text: the corpus.
            tokens: its vocabulary.
            n_positions: tokens of a block.

        Raises:
            UsageError: if either part is shorter than one block and the token after it.
        """
        parts = [torch.from_numpy(tokens.encode(part)) for part in cut(text)]
        for name, part in zip(("training", "held-out"), parts, strict=True):
            if len(part) <= n_positions:
                raise UsageError(
                    f"the {name} part of the text has {len(part):,} tokens, and one block needs "
                    f"{n_positions + 1:,}; name a longer text or fewer positions"
                )
        return cls(parts[0], parts[1])


def _read(file: Path) -> str:
    """Text of one file."""
    check_file(file)
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{str(file)!r} is not UTF-8 (byte {error.start:,}); convert it, or name another"
        ) from error
