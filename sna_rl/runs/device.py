"""The device that a supervised run computes on."""

from __future__ import annotations

import torch

from sna_rl.errors import UsageError


def choose_device(name: str) -> torch.device:
    """Device of a name.

    Args:
        name: auto (CUDA where there is a card), cpu or cuda.

    Raises:
        UsageError: if the name is none of these, or there is no card.

    Example:
        >>> choose_device("cpu")
        device(type='cpu')
    """
    if name not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device must be auto, cpu or cuda, not {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda needs a CUDA device, and this machine has none; take --device cpu")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
