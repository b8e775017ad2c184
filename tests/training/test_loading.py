"""Loading: run folders without pickles, zips from elsewhere only when trusted, damage in one sentence."""

from __future__ import annotations

import json
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sna_rl.config import RunConfig
from sna_rl.errors import SnaError, UsageError
from sna_rl.runs import RunFolder
from sna_rl.training.archive import read_archive
from sna_rl.training.build import build
from sna_rl.training.environments import MakeEnv, make_vec_env
from sna_rl.training.evaluate import run_episodes
from sna_rl.training.loading import Source, find_run, load_agent
from sna_rl.training.models import load_tensors, save_model
from sna_rl.training.train import train

TINY = {"policy_kwargs": {"net_arch": [4], "width": 4, "depth": 1}, "buffer_size": 10}


def saved_run(
    folder: Path, env: str = "Pendulum-v1", algo: str = "sac", seed: int = 0, **changes: Any
) -> RunFolder:
    """A run folder with an untrained agent in it."""
    config = RunConfig(algo, env, rank=2, seed=seed, hyperparams=TINY).replace(**changes)
    run = RunFolder.create(folder, env, f"{algo}-cp-r2", seed)
    run.config_yml.write_text(config.to_yaml())
    venv = make_vec_env(config)
    venv.reset()
    model = build(config, venv)
    model.num_timesteps = 7
    save_model(model, run.model_zip, run.model_tensors, run.vecnormalize_pkl)
    venv.close()
    return run


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A zip of plain Stable-Baselines3."""
    env = MakeEnv("Pendulum-v1")()
    stable_baselines3.SAC("MlpPolicy", env, policy_kwargs={"net_arch": [4]}, buffer_size=10).save(
        tmp_path / "a.zip"
    )
    env.close()
    return tmp_path / "a.zip"


def test_a_run_folder_opens_no_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = saved_run(tmp_path, normalize=True)
    run.model_zip.write_bytes(b"poison")
    run.vecnormalize_pkl.write_bytes(b"poison")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was opened")

    monkeypatch.setattr(pickle, "load", refuse)
    monkeypatch.setattr(pickle, "loads", refuse)
    monkeypatch.setattr(pickle, "Unpickler", refuse)
    agent = load_agent(Source(run.path))
    assert agent.model.num_timesteps == 7
    assert agent.folder == run.path
    assert agent.origin == str(run.model_tensors)
    agent.env.close()


def test_a_model_in_a_run_folder_stands_for_the_run(tmp_path: Path) -> None:
    run = saved_run(tmp_path)
    run.model_tensors.rename(run.best_model_tensors)
    run.best_model_zip.write_bytes(b"")
    for source in (Source(run.best_model_zip), Source(run.path, best=True)):
        agent = load_agent(source)
        assert agent.origin == str(run.best_model_tensors)
        agent.env.close()
    with pytest.raises(SnaError, match=r"Pendulum-v1\.safetensors' is absent"):
        load_agent(Source(run.path))


def test_statistics_come_back_exactly(tmp_path: Path) -> None:
    config = RunConfig("sac", "Pendulum-v1", hyperparams={**TINY, "normalize": True})
    venv: Any = make_vec_env(config)
    venv.seed(0)
    venv.reset()
    for _ in range(9):
        venv.step(np.zeros((1, 1), np.float32))
    model = build(config, venv)
    save_model(model, tmp_path / "a.zip", tmp_path / "a.safetensors", tmp_path / "a.pkl")
    other: Any = make_vec_env(config, evaluation=True)
    load_tensors(tmp_path / "a.safetensors", build(config.replace(seed=1), other))
    for name in ("mean", "var", "count"):
        np.testing.assert_array_equal(getattr(other.obs_rms, name), getattr(venv.obs_rms, name))
        np.testing.assert_array_equal(getattr(other.ret_rms, name), getattr(venv.ret_rms, name))
    pickled: Any = VecNormalize.load(str(tmp_path / "a.pkl"), DummyVecEnv([MakeEnv("Pendulum-v1")]))
    np.testing.assert_array_equal(pickled.obs_rms.mean, venv.obs_rms.mean)
    for each in (venv, other, pickled):
        each.close()


@pytest.mark.parametrize(("saved", "offered"), [("Ant-v4", "Ant-v5"), ("Humanoid-v4", "Humanoid-v5")])
@pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")
def test_an_agent_of_another_version_is_refused_with_both_shapes(
    saved: str, offered: str, tmp_path: Path
) -> None:
    shapes = {"Ant-v5": ("27", "105"), "Humanoid-v5": ("376", "348")}[offered]
    run = saved_run(tmp_path, saved)
    said = rf"observation space Box\({shapes[0]},\), but here it is Box\({shapes[1]},\)"
    with pytest.raises(UsageError, match=said):
        load_agent(Source(run.path, env=offered))
    env = MakeEnv(saved)()
    stable_baselines3.SAC("MlpPolicy", env, policy_kwargs={"net_arch": [4]}, buffer_size=1).save(
        tmp_path / "a.zip"
    )
    env.close()
    with pytest.raises(
        UsageError, match=rf"Box\({shapes[0]},\), but the environment has Box\({shapes[1]},\)"
    ):
        load_agent(Source(tmp_path / "a.zip", env=offered, trust=True))


def test_another_environment_of_the_same_shape_may_be_tried(tmp_path: Path) -> None:
    run = saved_run(tmp_path, env_kwargs={"g": 3.0})
    for kwargs, gravity in ((None, 3.0), ({"g": 5.0}, 5.0)):
        agent = load_agent(Source(run.path, env_kwargs=kwargs), n_envs=2)
        assert agent.env.get_attr("g") == [gravity] * 2
        agent.env.close()


def test_tensors_of_another_agent_are_refused(tmp_path: Path) -> None:
    run = saved_run(tmp_path)
    wider = RunConfig.from_yaml(run.config_yml).replace(rank=3)
    run.config_yml.write_text(wider.to_yaml())
    with pytest.raises(SnaError, match=r"doesn't fit: critic\..* has shape"):
        load_agent(Source(run.path))


@pytest.mark.parametrize("content", [b"", b"\x80\x04N.", b"\xff" * 64, b"{}"])
def test_damaged_tensors_are_one_sentence(content: bytes, tmp_path: Path) -> None:
    run = saved_run(tmp_path)
    run.model_tensors.write_bytes(content)
    with pytest.raises(SnaError, match="is no whole file of tensors"):
        load_agent(Source(run.path))
    saved_run(tmp_path / "b")
    whole = next((tmp_path / "b").rglob("*.safetensors")).read_bytes()
    run.model_tensors.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SnaError, match="is no whole file of tensors"):
        load_agent(Source(run.path))


def test_a_run_that_imports_a_module_needs_it_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = saved_run(tmp_path)
    (tmp_path / "planted.py").write_text("raise RuntimeError('executed')")
    monkeypatch.syspath_prepend(str(tmp_path))
    config = RunConfig.from_yaml(run.config_yml).replace(gym_packages=["planted"])
    run.config_yml.write_text(config.to_yaml())
    with pytest.raises(UsageError, match="asks to import 'planted'; add --gym-packages planted"):
        load_agent(Source(run.path))
    assert "planted" not in sys.modules


def test_a_foreign_zip_is_not_unpickled_without_trust(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import cloudpickle

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was opened")

    monkeypatch.setattr(cloudpickle, "loads", refuse)
    with pytest.raises(UsageError, match=r"policy_class, observation_space, .*add --trust"):
        load_agent(Source(foreign, env="Pendulum-v1"))
    with pytest.raises(UsageError, match="name it with --env"):
        load_agent(Source(foreign, trust=True))


def test_a_trusted_zip_acts_as_it_did(foreign: Path) -> None:
    agent = load_agent(Source(foreign, env="Pendulum-v1", trust=True))
    plain = stable_baselines3.SAC.load(foreign)
    observation = np.array([[0.5, 0.5, 1.0]], np.float32)
    np.testing.assert_array_equal(
        agent.model.predict(observation, deterministic=True)[0],
        plain.predict(observation, deterministic=True)[0],
    )
    assert run_episodes(agent.model, agent.env, 2, seed=0).lengths == (200, 200)
    agent.env.close()


def test_the_zoos_statistics_beside_a_trusted_zip_are_used(foreign: Path) -> None:
    venv: Any = VecNormalize(DummyVecEnv([MakeEnv("Pendulum-v1")]))
    venv.obs_rms.mean = np.array([1.0, 2.0, 3.0])
    (foreign.parent / "Pendulum-v1").mkdir()
    venv.save(str(foreign.parent / "Pendulum-v1" / "vecnormalize.pkl"))
    venv.close()
    agent = load_agent(Source(foreign, env="Pendulum-v1", trust=True))
    statistics: Any = agent.model.get_vec_normalize_env()
    assert statistics.obs_rms.mean.tolist() == [1.0, 2.0, 3.0]
    assert not statistics.training
    assert not statistics.norm_reward
    agent.env.close()


@pytest.mark.parametrize(
    ("name", "env", "algo"),
    [
        ("stable_baselines3.TD3", "Pendulum-v1", "td3"),
        ("stable_baselines3.DQN", "CartPole-v1", "dqn"),
        ("stable_baselines3.PPO", "CartPole-v1", "ppo"),
        ("stable_baselines3.A2C", "CartPole-v1", "a2c"),
        ("sb3_contrib.TQC", "Pendulum-v1", "tqc"),
        ("sb3_contrib.CrossQ", "Pendulum-v1", "crossq"),
        ("sb3_contrib.QRDQN", "CartPole-v1", "qrdqn"),
    ],
)
def test_a_zip_tells_its_algorithm(name: str, env: str, algo: str, tmp_path: Path) -> None:
    pytest.importorskip(name.split(".")[0])
    module, _, attribute = name.rpartition(".")
    kind = getattr(__import__(module), attribute)
    made = MakeEnv(env)()
    small = {} if algo in ("ppo", "a2c") else {"buffer_size": 10}
    kind("MlpPolicy", made, policy_kwargs={"net_arch": [4]}, **small).save(tmp_path / "a.zip")
    made.close()
    assert read_archive(tmp_path / "a.zip").algo == algo
    agent = load_agent(Source(tmp_path / "a.zip", env=env, trust=True))
    assert type(agent.model).__name__ == attribute
    agent.env.close()


def planted_zip(path: Path, data: bytes, method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("data", data)
    return path


def test_damaged_and_foreign_files_are_one_sentence(foreign: Path, tmp_path: Path) -> None:
    whole = foreign.read_bytes()
    altered = bytearray(whole)
    altered[whole.index(b"policy.pth") + 2000] ^= 255
    (tmp_path / "truncated.zip").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "altered.zip").write_bytes(bytes(altered))
    (tmp_path / "text.zip").write_text("no zip")
    (tmp_path / "empty.zip").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    planted_zip(tmp_path / "list.zip", b"[1]")
    planted_zip(tmp_path / "deep.zip", b"[" * 100_000)
    planted_zip(tmp_path / "bomb.zip", b" " * 2**28, zipfile.ZIP_DEFLATED)
    said = {
        "truncated.zip": "no whole agent",
        "altered.zip": "damaged",
        "text.zip": "no whole zip",
        "empty.zip": "no whole zip",
        "other.zip": "holds no 'data'",
        "list.zip": "no mapping",
        "deep.zip": "no whole zip",
        "bomb.zip": "unpacks to 268,435,456 bytes",
    }
    for name, words in said.items():
        with pytest.raises(SnaError, match=words) as caught:
            load_agent(Source(tmp_path / name, env="Pendulum-v1", trust=True))
        assert caught.value.exit_code == 1
        assert "\n" not in str(caught.value)


def test_a_zip_that_needs_an_absent_package_names_it(foreign: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(foreign) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    import base64

    data = json.loads(held["data"])
    by_reference = b"\x80\x04\x8c\x0elost_package.x\x8c\x06Policy\x93."
    data["policy_class"][":serialized:"] = base64.b64encode(by_reference).decode()
    held["data"] = json.dumps(data).encode()
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        for name, content in held.items():
            archive.writestr(name, content)
    with pytest.raises(SnaError, match="needs the package 'lost_package', which isn't installed"):
        load_agent(Source(tmp_path / "b.zip", env="Pendulum-v1", trust=True))


def test_runs_are_found_as_the_zoo_finds_them(tmp_path: Path) -> None:
    older, newer = (saved_run(tmp_path, seed=seed) for seed in (4, 2))
    import os

    os.utime(older.config_yml, (1, 1))
    assert find_run(tmp_path, "sac", "Pendulum-v1", 0) == newer.path
    assert find_run(tmp_path, "sac", "Pendulum-v1", 4) == older.path
    with pytest.raises(
        UsageError, match="no run of sac on Pendulum-v1 of seed 9; its runs there have the seeds 2, 4"
    ):
        find_run(tmp_path, "sac", "Pendulum-v1", 9)
    with pytest.raises(UsageError, match="no run of td3"):
        find_run(tmp_path, "td3", "Pendulum-v1", 0)
    with pytest.raises(UsageError, match="name a run folder"):
        find_run(tmp_path, "sac", None, 0)


@pytest.mark.parametrize("name", ["nothing", "nothing.zip"])
def test_what_does_not_exist_is_said(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load_agent(Source(tmp_path / name))
    with pytest.raises(UsageError, match="not a run folder"):
        load_agent(Source(tmp_path))


def test_a_checkpoint_gives_policy_and_statistics_as_they_were(tmp_path: Path) -> None:
    config = RunConfig(
        "sac", "Pendulum-v1", rank=2, hyperparams={**TINY, "normalize": True, "learning_starts": 10}
    )
    changes = {
        "n_timesteps": 40,
        "save_freq": 20,
        "eval_freq": -1,
        "folder": str(tmp_path),
        "update": "reference",
    }
    result = train(config.replace(buffer_size=50, **changes), progress=False)
    run = Path(result.folder)
    for step, wanted in ((20, 20), (40, 40), (-1, 40)):
        agent = load_agent(Source(run, checkpoint=step))
        statistics: Any = agent.model.get_vec_normalize_env()
        assert agent.model.num_timesteps == wanted
        assert statistics.obs_rms.count == pytest.approx(wanted + 1, abs=1e-3)
        agent.env.close()
    last = load_agent(Source(run))
    checkpoint = load_agent(Source(run, checkpoint=40))
    for key, value in last.model.policy.state_dict().items():
        np.testing.assert_array_equal(checkpoint.model.policy.state_dict()[key].numpy(), value.numpy())
    last.env.close()
    checkpoint.env.close()
    with pytest.raises(UsageError, match="no checkpoint of step 30; there are 20, 40"):
        load_agent(Source(run, checkpoint=30))
    for file in run.rglob("state.json"):
        file.write_text("[]")
    with pytest.raises(UsageError, match="no checkpoint that is whole"):
        load_agent(Source(run, checkpoint=-1))
    with pytest.raises(SnaError):
        load_agent(Source(run, checkpoint=20))
