"""Memory that is freed stays with the process, so that the next step need not fetch it anew."""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # names and numbers of glibc's malloc.h
LARGEST_KEPT = 32 * 2**20  # bytes of one block; glibc takes no more
MOST_KEPT = 2**31 - 1  # bytes


def keep_freed_memory() -> bool:
    """Tell the C library to keep freed memory, up to 2 GiB, for blocks of up to 32 MiB.

    A training step frees its activations and asks for as many again; where the library hands them back to
    the system in between, every page is fetched and cleared anew, which costs a small network on a CPU up to
    a third of its forward pass.

    Returns:
        Whether it did; only glibc can be told.

    Source:
        mallopt(3).

    Example:
        >>> keep_freed_memory() in (True, False)
        True
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT) and mallopt(M_TRIM_THRESHOLD, MOST_KEPT))
