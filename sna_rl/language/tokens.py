"""Text as token numbers: bytes, or byte-pair encoding kept as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sna_rl.errors import SnaError, UsageError, require
from sna_rl.runs.atomic import atomic_write
from sna_rl.runs.files import read_json

FILE = "tokenizer.json"
PIECE = 2**16  # characters encoded at a time


@runtime_checkable
class Tokens(Protocol):
    """A vocabulary."""

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""

    @property
    def n_bytes(self) -> NDArray[np.int64]:
        """Length of each token in bytes of UTF-8."""

    def encode(self, text: str) -> NDArray[np.int64]:
        """Token numbers of a text."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token numbers; bytes that are no UTF-8 become U+FFFD."""


class ByteTokens:
    """Each byte of UTF-8 is a token.

    Example:
        >>> ByteTokens().encode("hé").tolist(), ByteTokens().decode([104, 195, 169])
        ([104, 195, 169], 'hé')
    """

    vocab_size = 256

    @property
    def n_bytes(self) -> NDArray[np.int64]:
        """One for each."""
        return np.ones(self.vocab_size, dtype=np.int64)

    def encode(self, text: str) -> NDArray[np.int64]:
        """Bytes of the text."""
        return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int64)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of the bytes."""
        return bytes(tokens).decode(errors="replace")


class BPETokens:
    """Byte-pair encoding over bytes, so that every text has its tokens.

    Args:
        tokenizer: of the package `tokenizers`.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def train(cls, text: str, vocab_size: int) -> BPETokens:
        """Learn the pairs of a text.

        Args:
            text: what they are learned from.
            vocab_size: number of tokens, at least the 256 bytes.

        Raises:
            UsageError: if there are too few tokens for the bytes, or the text has too few pairs.
            MissingExtraError: if `tokenizers` is not installed.
        """
        if vocab_size <= 256:
            raise UsageError(
                f"byte-pair encoding needs more than the 256 bytes as vocab_size, not {vocab_size}"
            )
        library = require("tokenizers", "language")
        tokenizer = library.Tokenizer(library.models.BPE())
        tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = library.decoders.ByteLevel()
        trainer = library.trainers.BpeTrainer(
            vocab_size=vocab_size,
            initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(_pieces(text), trainer)
        if tokenizer.get_vocab_size() != vocab_size:
            raise UsageError(
                f"the text has pairs for {tokenizer.get_vocab_size():,} tokens, not {vocab_size:,}; "
                "name a smaller vocabulary or a longer text"
            )
        return cls(tokenizer)

    @classmethod
    def load(cls, path: Path) -> BPETokens:
        """Read a tokenizer's JSON; nothing in it is run.

        Args:
            path: the file.

        Raises:
            SnaError: if it is missing, no JSON, or no tokenizer.
        """
        read_json(path)
        library = require("tokenizers", "language")
        try:
            return cls(library.Tokenizer.from_file(str(path)))
        except Exception as error:  # the library raises bare Exception
            raise SnaError(f"{str(path)!r} is no tokenizer: {str(error).splitlines()[0]}") from error

    def save(self, path: Path) -> None:
        """Write it as JSON, whole or not at all.

        Args:
            path: the file.
        """
        with atomic_write(path, "w") as file:
            file.write(self._tokenizer.to_str())

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return int(self._tokenizer.get_vocab_size())

    @property
    def n_bytes(self) -> NDArray[np.int64]:
        """Length of each token: the byte alphabet writes a byte as one character."""
        tokens = (self._tokenizer.id_to_token(number) for number in range(self.vocab_size))
        return np.array([len(token) for token in tokens], dtype=np.int64)

    def encode(self, text: str) -> NDArray[np.int64]:
        """Token numbers of the text, taken in pieces of 65,536 characters."""
        pieces = self._tokenizer.encode_batch(_pieces(text))
        return np.array([number for piece in pieces for number in piece.ids], dtype=np.int64)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of the tokens."""
        return str(self._tokenizer.decode(list(tokens)))


def load_tokens(folder: Path) -> ByteTokens | BPETokens:
    """The vocabulary of a run: its `tokenizer.json`, or bytes where it has none.

    Args:
        folder: the run folder.

    Raises:
        SnaError: if the file is damaged.
    """
    path = folder / FILE
    return BPETokens.load(path) if path.exists() else ByteTokens()


def _pieces(text: str) -> list[str]:
    """The text cut into pieces."""
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
