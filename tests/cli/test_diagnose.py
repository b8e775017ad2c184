"""`sna-rl diagnose` from its flags to what it prints and writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import stable_baselines3 as sb3
from matplotlib.image import imread

from sna_rl.cli import main

SIZES = ["--states", "40", "--actions", "24"]
FIGURES = {"spectrum", "value_table", "components", "rollout", "actions"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with a checkpoint."""
    folder = tmp_path_factory.mktemp("logs")
    words = """train --algo sac --env SNA/LQR-v0 -n 60 --seed 0 --eval-freq -1 --save-freq 30 --rank 4
        --verbose 0 --update reference --n-envs 2 -params learning_starts:20 batch_size:8 normalize:true
        policy_kwargs:dict(net_arch=[8],width=8,depth=1)"""
    assert main([*words.split(), "-f", str(folder)]) == 0
    return folder / "SNA-LQR-v0" / "sac-cp-r4" / "seed-0"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent that plain Stable-Baselines3 trained and saved in another process, with its buffer."""
    path = tmp_path_factory.mktemp("elsewhere") / "agent.zip"
    program = f"""
import stable_baselines3 as sb3
small = dict(learning_starts=20, buffer_size=100, policy_kwargs=dict(net_arch=[8]))
model = sb3.TD3("MlpPolicy", "Pendulum-v1", **small)
model.learn(60)
model.save({str(path)!r})
model.save_replay_buffer({str(path.with_name("replay_buffer.pkl"))!r})
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    return path


def test_a_run_is_diagnosed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(run), *SIZES, "--rollouts"]) == 0
    out = capsys.readouterr().out
    assert "SAC after 60 steps: SeparableCritic, rank 4; value tables of 40 states × 24 actions" in out
    assert "re-initialised" in out
    assert "untrained MLP" in out
    assert "verdict: " in out
    written = json.loads((run / "diagnosis" / "diagnosis.json").read_text())
    assert written["states"] == "rollouts"
    assert written["env"] == "SNA/LQR-v0"
    assert len(written["heads"]) == 2
    assert written["heads"][0]["supported"]["components"]["n_components"] == 4
    assert written["versions"]["torch"]
    for name in FIGURES:
        picture = imread(run / "diagnosis" / f"{name}.png")
        assert min(picture.shape[:2]) > 250
        assert picture[..., :3].std() > 0.02


def test_states_of_the_saved_buffer(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["diagnose", str(run), *SIZES, "--versus", str(run), "-o", str(tmp_path / "new")]
    assert main(words) == 0
    assert "critic loss over the other agent's on the same transitions: 1" in capsys.readouterr().out
    written = json.loads((tmp_path / "new" / "diagnosis.json").read_text())
    assert written["states"] == "replay buffer"
    assert written["loss_ratio"] == 1.0


def test_a_zip_from_elsewhere(archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["diagnose", str(archive), "--env", "Pendulum-v1", *SIZES, "--rank", "8", "-o", str(tmp_path)]
    assert main(words) == 2
    assert "holds pickled objects" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert main([*words, "--trust", "--rollouts"]) == 0
    assert "TD3 after 60 steps: ContinuousCritic, no rank of its own" in capsys.readouterr().out
    assert {path.stem for path in tmp_path.iterdir()} == {*FIGURES, "diagnosis"}
    assert main([*words, "--trust"]) == 0
    assert json.loads((tmp_path / "diagnosis.json").read_text())["states"] == "replay buffer"


def test_spaces_that_differ_are_shown(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(archive), "--env", "MountainCarContinuous-v0", "--trust"]) == 2
    assert "trained on observations Box(3,), but the environment has Box(2,)" in capsys.readouterr().err


def test_bad_input_is_one_sentence(
    run: Path, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ppo = tmp_path / "ppo.zip"
    sb3.PPO("MlpPolicy", "Pendulum-v1", n_steps=8, batch_size=8).save(ppo)
    (tmp_path / "file").write_text("")
    for words, code, sentence in (
        ([str(ppo), "--env", "Pendulum-v1", "--trust"], 2, "PPO has no Q-function to diagnose"),
        ([str(run), "--states", "6"], 2, "6 states and 256 actions are too few to see rank 4"),
        ([str(run), "--versus", str(archive), "--trust", *SIZES], 2, "was trained on observations Box(3,)"),
        ([str(run), *SIZES, "-o", str(tmp_path / "file")], 1, "is a file; name a folder with -o"),
        ([str(tmp_path / "none")], 2, "does not exist"),
    ):
        assert main(["diagnose", *words]) == code
        err = capsys.readouterr().err
        assert sentence in err
        assert err.count("\n") == 1
