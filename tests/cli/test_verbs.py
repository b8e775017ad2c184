"""Each verb from its flags to what it prints and writes; bad input is one sentence and leaves nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from sna_rl.cli import main
from sna_rl.training import board, display

COMMAND = str(Path(sys.executable).with_name("sna-rl"))
QUICK = """--eval-freq 30 --eval-episodes 1 --update reference --env-kwargs max_episode_steps:30
    -params learning_starts:20 batch_size:8 policy_kwargs:dict(net_arch=[8],width=8,depth=1)"""


def train(folder: Path, *more: str, env: str = "Pendulum-v1") -> int:
    words = ["train", "--env", env, "-n", "60", "-f", str(folder), "--seed", "3", *QUICK.split(), *more]
    return main(["train", "--algo", "sac", *words[1:]] if "--algo" not in more else words)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished run."""
    folder = tmp_path_factory.mktemp("logs")
    assert train(folder, "--rank", "2", "--verbose", "0") == 0
    return folder


@pytest.fixture
def run(logs: Path) -> Path:
    return logs / "Pendulum-v1" / "sac-cp-r2" / "seed-3"


def test_train_tells_what_runs_and_what_came_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path, "--rank", "2") == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    run = tmp_path / "Pendulum-v1" / "sac-cp-r2" / "seed-3"
    assert lines[0] == "sac-cp-r2 on Pendulum-v1, seed 3, 60 steps"
    assert re.fullmatch(r"parameters: actor [\d,]+, both critics [\d,]+", lines[1])
    assert lines[2] == "gradient updates: 1 per environment step (reference)"
    assert lines[3] == f"run folder: {run}"
    assert re.fullmatch(
        r"done: 60 steps in \d+ s \([\d,]+/s\), return -[\d.,]+ \(mean of the last evaluation's episodes, 1, "
        rf"without exploration\), saved in {re.escape(str(run))}",
        lines[4],
    )
    assert re.match(r"60/60 steps \(100 %\)", err.splitlines()[-1])
    assert "-params learning_starts:20" in (run / "command.txt").read_text() or (run / "command.txt").exists()


def test_quiet_training_prints_the_result_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path, "--verbose", "0") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert err == ""


def test_a_run_is_repeated_from_its_configuration(run: Path, tmp_path: Path) -> None:
    assert main(["train", "-conf", str(run / "config.yml"), "-f", str(tmp_path), "--verbose", "0"]) == 0
    again = tmp_path / "Pendulum-v1" / "sac-cp-r2" / "seed-3"
    for name in ("Pendulum-v1.safetensors", "best_model.safetensors"):
        assert (again / name).read_bytes() == (run / name).read_bytes()


def test_flags_win_over_params_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "zoo.yml"
    file.write_text(
        "Pendulum-v1:\n  policy: MlpPolicy\n  n_timesteps: !!float 1e6\n  gamma: 0.5\n  tau: 0.5\n"
    )
    assert (
        train(tmp_path / "logs", "-conf", str(file), "-params", "tau:0.25", "n_timesteps:99", "-n", "50") == 0
    )
    (config,) = tmp_path.rglob("config.yml")
    written = config.read_text()
    assert "gamma: 0.5" in written
    assert "tau: 0.25" in written
    assert "n_timesteps: 50" in written
    assert "seed: 3" in written


def test_a_seed_is_drawn_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seeds = set()
    for _ in range(2):
        assert train(tmp_path, "--seed", "-1") == 0
        seeds.add(re.search(r"seed (\d+)", capsys.readouterr().out)[1])  # type: ignore[index]
    assert len(seeds) == 2


def test_evaluate_prints_and_writes_statistics(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "-n", "8", "--seed", "5"]) == 0
    out = capsys.readouterr().out
    written = json.loads((run / "evaluation.json").read_text())
    returns = np.array(written["returns"])
    assert written["mean"] == pytest.approx(returns.mean())
    assert written["std"] == pytest.approx(returns.std())
    assert written["iqm"] == pytest.approx(np.sort(returns)[2:6].mean())
    assert (written["n_episodes"], written["seed"], written["deterministic"]) == (8, 5, True)
    assert written["lengths"] == [30] * 8
    assert f"mean {written['mean']:,.2f}  std {written['std']:,.2f}  IQM {written['iqm']:,.2f}" in out
    assert main(["evaluate", str(run), "-n", "8", "--seed", "5"]) == 0
    assert json.loads((run / "evaluation.json").read_text()) == written


def test_evaluate_knows_the_zoos_ways(run: Path, logs: Path, tmp_path: Path) -> None:
    def returns(*words: str) -> list[float]:
        file = tmp_path / "e.json"
        assert main(["evaluate", "-n", "3", "-o", str(file), *words]) == 0
        values: list[float] = json.loads(file.read_text())["returns"]
        return values

    plain = returns(str(run))
    named = ["--algo", "sac", "--env", "Pendulum-v1", "-f", str(logs)]
    assert returns(*named) == returns(*named, "--exp-id", "3") == plain
    assert returns(str(run), "--stochastic") != plain
    assert returns(str(run), "--seed", "1") != plain
    assert returns(str(run), "--env-kwargs", "g:2.0") != plain
    assert returns(str(run), "--load-best", "--no-render") == returns(str(run / "best_model.zip"))


def test_video_and_export_write_into_the_run_folder(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["video", str(run), "-n", "31"]) == 0
    assert (run / "video.mp4").stat().st_size > 1000
    assert "returns of its episodes: -" in capsys.readouterr().out
    assert main(["export", str(run)]) == 0
    assert (run / "policy.onnx").stat().st_size > 1000
    assert re.search(r"differ by at most \d\.\de-0[5-9]", capsys.readouterr().out)


def test_the_board_serves_every_run(logs: Path) -> None:
    address = board.start(logs, 0)
    with urllib.request.urlopen(f"{address}data/runs", timeout=30) as answer:
        assert json.load(answer) == ["Pendulum-v1/sac-cp-r2/seed-3"]


BAD = {
    "unknown algorithm": ("--algo sax", 2, "did you mean 'sac'"),
    "unknown environment": ("--env Pendulum-v7", 2, "did you mean 'Pendulum-v1'"),
    "unknown critic": ("--critic ccp", 2, "did you mean 'cp'"),
    "unknown key": ("-params learnig_rate:1", 2, "did you mean 'learning_rate'"),
    "unknown policy key": ("-params policy_kwargs:dict(rnk=2)", 2, "did you mean 'rank'"),
    "rank 0": ("--rank 0", 2, "rank must be an int of at least 1"),
    "rank 1.5": ("--rank 1.5", 2, "not 1.5"),
    "rank big": ("--rank big", 2, "not 'big'"),
    "rank True": ("--rank True", 2, "not True"),
    "key of another algorithm": ("-params policy_delay:2", 2, "policy_delay"),
    "discrete actions": ("--env CartPole-v1 --env-kwargs max_episode_steps:9", 2, "use --algo dqn"),
    "continuous actions": ("--algo dqn", 2, "use --algo sac or td3"),
    "dueling sac": ("--critic dueling", 2, "dueling"),
    "schedule": ("-params learning_rate:foo_3e-4", 2, "learning_rate"),
    "not a number of steps": ("-n many", 2, "n_timesteps must be"),
    "no steps": ("-n 0", 2, "n_timesteps must be"),
    "negative environments": ("--n-envs -2", 2, "n_envs must be"),
    "pair without colon": ("-params gamma=0.9", 2, "key:value"),
    "code": ("-params gamma:__import__('os').system('true')", 2, "nothing is evaluated"),
    "absent file": ("-conf nowhere.yml", 2, "nowhere.yml"),
    "absent module": ("--gym-packages no_such_module", 2, "no_such_module"),
    "device": ("--device cuda:7", 2, "cuda:7"),
    "unknown device": ("--device toaster", 2, "toaster"),
    "update": ("--update quick", 2, "update must be"),
    "wrapper": ("-params env_wrapper:os.system", 2, "not registered"),
    "environment's arguments": ("--env-kwargs gravity:1", 2, "refuses"),
    "wrong form of action": ("--algo td3 --env CartPole-v1", 2, "Discrete(2)"),
    "batch of nothing": ("-params batch_size:0", 2, "batch_size must be"),
    "missing extra": ("--env LunarLander-v3 --env-kwargs continuous:True", 1, "pip install 'sna-rl[box2d]'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words, exit_code, said = BAD[case]
    if case == "missing extra":
        monkeypatch.setitem(sys.modules, "Box2D", None)
        for name in [name for name in sys.modules if name.startswith("gymnasium.envs.box2d")]:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.chdir(tmp_path)
    flags = words.split()
    start = ["train", *([] if "--algo" in flags else ["--algo", "sac"])]
    start += [] if "--env" in flags else ["--env", "Pendulum-v1"]
    assert main([*start, *flags]) == exit_code
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 1, err
    assert not list(tmp_path.iterdir())


def test_configurations_of_another_algorithm_are_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--algo", "td3", "-conf", str(run / "config.yml"), "-f", str(tmp_path / "x")]) == 2
    assert "is a configuration for sac, not td3" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0 and sys.platform != "linux", reason="root may write anywhere")
def test_a_log_folder_that_cannot_be_written_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert train(Path("/proc/nowhere")) == 2
    err = capsys.readouterr().err
    assert "log folder '/proc/nowhere' can't be written" in err
    assert len(err.splitlines()) == 1


def test_damaged_runs_and_zips_are_one_sentence(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zipped = (run / "Pendulum-v1.zip").read_bytes()
    (tmp_path / "half.zip").write_bytes(zipped[: len(zipped) // 2])
    (tmp_path / "whole.zip").write_bytes(zipped)
    for words, exit_code, said in (
        (["nowhere"], 2, "does not exist"),
        ([str(tmp_path)], 2, "not a run folder"),
        ([str(tmp_path / "half.zip"), "--env", "Pendulum-v1", "--trust"], 1, "no whole"),
        ([str(tmp_path / "whole.zip"), "--env", "Pendulum-v1"], 2, "add --trust"),
        ([str(tmp_path / "whole.zip"), "--trust"], 2, "--env"),
        (
            [str(tmp_path / "whole.zip"), "--env", "HalfCheetah-v5", "--trust"],
            2,
            "Box(3,), but the environment has Box(17,)",
        ),
        ([str(run), "--env", "CartPole-v1"], 2, "use --algo dqn"),
        ([str(run), "--load-checkpoint", "5"], 2, "no checkpoint of step 5"),
        ([str(run), "-n", "0"], 2, "not '0'"),
    ):
        assert main(["evaluate", *words]) == exit_code, words
        out, err = capsys.readouterr()
        assert out == ""
        assert said in err
        assert len(err.splitlines()) == 1, err


def test_rendering_without_a_display_names_the_other_way(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "has_display", lambda: False)
    assert main(["evaluate", str(run), "--render"]) == 2
    assert "sna-rl video needs none" in capsys.readouterr().err


def test_boards_without_events_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["board", str(tmp_path / "x")]) == 2
    assert main(["board", str(tmp_path)]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert "does not exist" in errors[0]
    assert "holds no TensorBoard events" in errors[1]


def test_a_real_command_trains_and_ctrl_c_saves(tmp_path: Path) -> None:
    words = (
        "train --algo sac --env HalfCheetah-v5 -n 100000 -f logs --seed 1 --eval-freq -1 --update reference"
    )
    process = subprocess.Popen(
        [COMMAND, *words.split()], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("run folder"):
            break
    time.sleep(2.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert re.search(r"sna-rl: stopped at step [\d,]+ and saved; sna-rl train -i \S+ goes on", err)
    run = tmp_path / "logs" / "HalfCheetah-v5" / "sac-cp-r32" / "seed-1"
    assert (run / "HalfCheetah-v5.zip").exists()
    assert (run / "command.txt").read_text() == f"sna-rl {words}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_the_board_ends_with_ctrl_c(logs: Path) -> None:
    process = subprocess.Popen(
        [COMMAND, "board", str(logs), "--port", "0", "--no-browser"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    killer = threading.Timer(60, process.kill)
    killer.start()
    assert re.match(r"TensorBoard shows .* at http://127\.0\.0\.1:\d+/", process.stdout.readline())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    killer.cancel()
    assert process.returncode == 0
