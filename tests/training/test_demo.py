"""The demonstration draws what it learned."""

from __future__ import annotations

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from sna_rl.config import RunConfig
from sna_rl.training import demo
from sna_rl.training.build import build
from sna_rl.training.loading import Source, load_agent

TINY = {"learning_starts": 20, "policy_kwargs": {"net_arch": [8], "width": 8, "depth": 1}}


def test_a_demonstration_ends_when_it_has_learned_and_leaves_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig("sac", "Pendulum-v1", rank=3, hyperparams=TINY).replace(
        n_timesteps=90, eval_freq=30, eval_episodes=2, folder=str(tmp_path), update="reference"
    )
    monkeypatch.setattr(demo, "THRESHOLD", -1e9)
    done = demo.demo(config, progress=False)
    assert done.result.n_timesteps == 30
    assert done.has_learned
    assert done.figure == Path(done.result.folder, "demo.png")
    picture = matplotlib.image.imread(done.figure)
    assert picture.shape[1] >= 1000
    assert picture.std() > 0.05

    agent = load_agent(Source(Path(done.result.folder)))
    heads = demo.spectra(agent.model, agent)
    assert len(heads) == 2
    for values in heads:
        assert (np.diff(values) <= 0).all()
        assert (values > values[0] * 1e-5).sum() <= 3
    wide = build(config.replace(rank=8, buffer_size=1), agent.env)
    assert all(3 < (values > values[0] * 1e-5).sum() <= 8 for values in demo.spectra(wide, agent))
    agent.env.close()


def test_a_demonstration_that_did_not_learn_says_so(tmp_path: Path) -> None:
    config = RunConfig("sac", "Pendulum-v1", rank=3, hyperparams=TINY).replace(
        n_timesteps=30, eval_freq=30, eval_episodes=1, folder=str(tmp_path), update="reference"
    )
    assert not demo.demo(config, progress=False).has_learned
