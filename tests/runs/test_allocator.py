"""Freed memory that stays: pages are fetched from the system once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sna_rl.runs.allocator import keep_freed_memory

BYTES = 16 * 2**20
FAULTS = f"""
import resource, sys
import torch
from sna_rl.runs.allocator import keep_freed_memory

torch.set_num_threads(1)
if sys.argv[1] == "kept":
    keep_freed_memory()
for round in range(20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    several = [torch.ones({BYTES // 4}) for _ in range(4)]
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    del several
print(faults * resource.getpagesize())
"""


def fetched(how: str) -> int:
    """Bytes that the last of twenty rounds fetched from the system for 64 MiB in four blocks."""
    command = [sys.executable, "-c", FAULTS, how]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_blocks_are_fetched_once() -> None:
    if not keep_freed_memory():
        pytest.skip("another C library than glibc")
    assert fetched("kept") < BYTES / 8
