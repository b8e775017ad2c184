"""The ONNX policy acts as torch's, from raw observations to the environment's own actions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnxruntime
import pytest
from gymnasium import spaces
from stable_baselines3 import SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sna_rl.config import RunConfig
from sna_rl.errors import MissingExtraError, SnaError, UsageError
from sna_rl.training import export
from sna_rl.training.build import build
from sna_rl.training.environments import make_vec_env
from sna_rl.training.export import export_onnx

TINY = {"policy_kwargs": {"net_arch": [8], "width": 4, "depth": 1}, "buffer_size": 10}


@pytest.mark.parametrize(
    ("algo", "env", "normalize"),
    [("sac", "Pendulum-v1", True), ("td3", "HalfCheetah-v5", False), ("dqn", "CartPole-v1", True)],
)
def test_onnx_acts_on_raw_observations(algo: str, env: str, normalize: bool, tmp_path: Path) -> None:
    venv: Any = make_vec_env(RunConfig(algo, env, hyperparams={**TINY, "normalize": normalize}))
    venv.seed(1)
    raw = [venv.reset()]
    raw += [venv.step(np.array([venv.action_space.sample()]))[0] for _ in range(20)]
    if normalize:
        raw = [venv.unnormalize_obs(each) for each in raw]
    model = build(RunConfig(algo, env, hyperparams=TINY), venv)
    assert export_onnx(model, tmp_path / "policy.onnx") <= 1e-5
    assert [path.name for path in tmp_path.iterdir()] == ["policy.onnx"]
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    batch = np.concatenate(raw).astype(np.float32)
    (actions,) = session.run(None, {"observation": batch})
    expected, _ = model.predict(venv.normalize_obs(batch) if normalize else batch, deterministic=True)
    np.testing.assert_allclose(actions, expected, atol=1e-5)
    (single,) = session.run(None, {"observation": batch[:1]})
    np.testing.assert_allclose(single, actions[:1], atol=1e-6)
    assert single.shape == (1, *venv.action_space.shape)
    venv.close()


class Pieces(gymnasium.Env[Any, Any]):
    """Observations of two parts, one an image."""

    observation_space = spaces.Dict(
        {"picture": spaces.Box(0, 255, (3, 36, 36), np.uint8), "state": spaces.Box(-5, 5, (4,))}
    )
    action_space = spaces.Box(-3.0, np.array([1.0, 2.0], np.float32), (2,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 0.0, False, False, {}


def test_every_part_of_a_dict_is_an_input(tmp_path: Path) -> None:
    venv = VecNormalize(DummyVecEnv([Pieces]), norm_obs_keys=["state"])
    venv.reset()
    model = SAC("MultiInputPolicy", venv, policy_kwargs={"net_arch": [8]}, buffer_size=1)
    assert export_onnx(model, tmp_path / "policy.onnx") <= 1e-5
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == ["picture", "state"]
    venv.close()


@pytest.mark.parametrize("module", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_names_its_extra(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = make_vec_env(RunConfig("sac", "Pendulum-v1"))
    model = build(RunConfig("sac", "Pendulum-v1", hyperparams=TINY), venv)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        MissingExtraError, match=rf"{module} is not installed.*pip install 'sna-rl\[export\]'"
    ):
        export_onnx(model, tmp_path / "policy.onnx")
    venv.close()


def test_a_policy_that_differs_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = make_vec_env(RunConfig("sac", "Pendulum-v1"))
    model = build(RunConfig("sac", "Pendulum-v1", hyperparams=TINY), venv)
    with pytest.raises(UsageError, match="does not exist"):
        export_onnx(model, tmp_path / "nowhere" / "policy.onnx")
    monkeypatch.setattr(export, "_difference", lambda *_: 1e-4)
    with pytest.raises(SnaError, match=r"differs from torch's by 0\.0001"):
        export_onnx(model, tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())
    venv.close()
