"""agents/README.md: its code runs, and its tables name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sna_rl.agents import CriticConfig, metrics
from sna_rl.agents.critic_config import CRITICS

README = (Path(metrics.__file__).resolve().parent / "README.md").read_text()


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    exec(block, names)
    assert list((tmp_path / "logs" / "sac-cp-r32_1").glob("events.*"))


def test_the_tables_name_every_critic_and_metric() -> None:
    assert set(CRITICS) <= set(re.findall(r"^\| `([a-z-]+)`", README, re.MULTILINE))
    for name in ("max_grad_norm", "critic_lr_ratio", "state_modes", "action_modes", "order", "layer_norm"):
        assert name in CriticConfig().kwargs()
        assert name in README
    for charts in metrics.LAYOUT.values():
        for _, tags in charts.values():
            assert all(tag.split("/")[1] in README for tag in tags)
