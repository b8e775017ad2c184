from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

import sna_rl
from sna_rl.runs import versions


def test_versions_are_those_imported() -> None:
    found = versions()
    assert found["torch"] == torch.__version__.partition("+")[0] or found["torch"] == torch.__version__
    assert found["numpy"] == np.__version__
    assert found["sna-rl"] == sna_rl.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["processor"]


def test_threads_come_from_the_environment_before_torch_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert versions()["threads"] == 3


def test_nothing_heavy_is_imported() -> None:
    code = "import sys, sna_rl.runs as r; r.versions(); print({'torch', 'numpy'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "set()\n"
