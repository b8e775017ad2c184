"""Runs of every origin, read back as the curves they hold."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from stable_baselines3.common.monitor import Monitor
from torch.utils.tensorboard import SummaryWriter

from sna_rl.config import RunConfig
from sna_rl.errors import UsageError
from sna_rl.training.studies.arms import N_BINS, read_arms, read_run


def evaluations(folder: Path, steps: list[int], results: list[list[float]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "evaluations.npz", timesteps=steps, results=results, ep_lengths=np.ones_like(results))


def test_own_run_gives_curve_seed_and_costs(tmp_path: Path) -> None:
    folder = tmp_path / "Pendulum-v1" / "sac-cp-r8" / "seed-3"
    evaluations(folder, [10, 20, 30, 40], [[-4.0, -2.0], [0.0, 1.0], [1.0, 1.0], [2.0, 4.0]])
    (folder / "config.yml").write_text(RunConfig("sac", "Pendulum-v1", rank=8, seed=3).to_yaml())
    (folder / "summary.json").write_text(json.dumps({"cpu_seconds": 2.5}))
    run = read_run(folder)
    assert (run.env, run.seed, run.measure, run.summary) == (
        "Pendulum-v1",
        3,
        "evaluation",
        {"cpu_seconds": 2.5},
    )
    np.testing.assert_array_equal(run.returns, [-3.0, 0.5, 1.0, 3.0])
    assert run.final == pytest.approx((0.5 + 1.0 + 3.0) / 3)
    np.testing.assert_array_equal(run.until(20.0).steps, [10, 20])
    (arm,) = read_arms(tmp_path)
    assert (arm.name, arm.settings) == ("sac-cp-r8", {"algo": "sac", "critic": "cp", "rank": 8})


def test_zoo_run_tells_its_environment_and_seed(tmp_path: Path) -> None:
    for number, seed in ((1, 7), (2, 11)):
        place = tmp_path / "sac" / f"Ant-v5_{number}"
        evaluations(place, [100, 200], [[1.0, 3.0], [5.0, 5.0]])
        (place / "Ant-v5").mkdir()
        (place / "Ant-v5" / "args.yml").write_text(
            f"!!python/object/apply:collections.OrderedDict\n- - - algo\n    - sac\n  - - seed\n    - {seed}"
        )
    (arm,) = read_arms(tmp_path)
    assert arm.name == "sac"
    assert [(run.env, run.seed) for run in arm.runs] == [("Ant-v5", 7), ("Ant-v5", 11)]
    np.testing.assert_array_equal(arm.runs[0].returns, [2.0, 5.0])
    (named,) = read_arms(tmp_path, "zoo's SAC")
    assert (named.name, len(named.runs)) == ("zoo's SAC", 2)


def test_monitor_files_become_a_training_curve(tmp_path: Path) -> None:
    env = Monitor(gymnasium.make("CartPole-v1"), str(tmp_path / "ppo" / "run_1" / "0"))
    lengths = []
    for seed in range(40):
        env.reset(seed=seed)
        n_steps, done = 0, False
        while not done:
            _, _, terminated, truncated, _ = env.step(seed % 2)
            n_steps, done = n_steps + 1, terminated or truncated
        lengths.append(n_steps)
    env.close()
    (arm,) = read_arms(tmp_path)
    (run,) = arm.runs
    assert (arm.name, run.env, run.seed, run.measure) == ("ppo", "CartPole-v1", None, "training")
    assert run.steps[-1] == sum(lengths)
    assert len(run.steps) <= N_BINS
    last_bin = [n for n, end in zip(lengths, np.cumsum(lengths), strict=True) if end > run.steps[-2]]
    assert run.returns[-1] == pytest.approx(np.mean(last_bin))


def test_cleanrl_log_is_read_from_its_events(tmp_path: Path) -> None:
    place = tmp_path / "Hopper-v4__sac_continuous_action__5__1700000000"
    writer = SummaryWriter(str(place))
    for episode in range(1, 101):
        writer.add_scalar("charts/episodic_return", float(episode), 10 * episode)
    writer.close()
    (arm,) = read_arms(tmp_path)
    (run,) = arm.runs
    assert (arm.name, run.env, run.seed) == ("sac_continuous_action", "Hopper-v4", 5)
    np.testing.assert_allclose(run.steps, np.linspace(20, 1000, N_BINS))
    np.testing.assert_allclose(run.returns, np.arange(1.5, 101, 2))


def test_reading_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    place = tmp_path / "td3" / "Ant-v5_1"
    evaluations(place, [100, 200], [[1.0], [5.0]])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    read_arms(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("evaluations.npz", b"PK\x03\x04 cut", "evaluations.*damaged"),
        ("0.monitor.csv", b"no header\nr,l\n1,2\n", "not a Monitor file"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read_arms(tmp_path)


def test_folders_without_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_arms(tmp_path / "absent")
    with pytest.raises(UsageError, match="no run with two evaluations"):
        read_arms(tmp_path)
