from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback

from sna_rl.agents import DQN, SAC, TD3
from sna_rl.agents.optimizer import optimizers
from sna_rl.cli import main
from sna_rl.config import RunConfig
from sna_rl.runs import RunFolder
from sna_rl.runs.checkpoints import Checkpoints
from sna_rl.runs.tree import read_arrays
from sna_rl.training import resume
from sna_rl.training.failure import Suspicion, batch_arrays, branch_norms, likely_cause
from sna_rl.training.guard import NumericalError, NumericalGuard
from sna_rl.training.train import train

SMALL = {
    "policy_kwargs": {"net_arch": [8], "width": 8},
    "batch_size": 8,
    "learning_starts": 20,
    "train_freq": 2,
}


def small(folder: Path, algo: str = "sac", env: str = "Pendulum-v1", **changes: Any) -> RunConfig:
    given = {"folder": str(folder), "rank": 2, "n_timesteps": 120, "eval_freq": -1, "save_freq": 30} | changes
    return RunConfig(algo, env, hyperparams=dict(SMALL)).replace(**given)


class Poison(BaseCallback):
    """Puts a number that is not finite into the replay buffer at a step, `times` times in all."""

    def __init__(self, step: int, value: float, times: int = 1) -> None:
        super().__init__()
        self.step = step
        self.value = value
        self.times = times

    def _on_step(self) -> bool:
        if self.num_timesteps >= self.step and self.times > 0:
            self.times -= 1
            self.model.replay_buffer.rewards[: self.num_timesteps] = self.value  # type: ignore[attr-defined]
        return True


@pytest.mark.parametrize("update", ["reference", "eager"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(
    ("algo", "env", "critic"),
    [("sac", "Pendulum-v1", "cp"), ("td3", "Pendulum-v1", "mlp"), ("dqn", "CartPole-v1", "cp")],
)
def test_a_run_stops_and_keeps_what_was_saved(
    algo: str, env: str, critic: str, value: float, update: str, tmp_path: Path
) -> None:
    config = small(tmp_path, algo, env, update=update, critic=critic)
    with pytest.raises(NumericalError, match=r"NaN or infinity in the .* update at step") as failure:
        train(config, progress=False, callbacks=[Poison(71, value)])
    assert failure.value.exit_code == 1
    run = RunFolder.open(failure.value.folder)
    newest = Checkpoints(run.checkpoints).newest(pytest.fail)
    assert newest is not None
    assert newest.step == 60
    parameters = newest.read()["model"]["parameters"]["policy"]
    assert all(np.isfinite(value["tensor"]).all() for value in parameters.values())
    assert not run.model_zip.exists()
    report = json.loads((run.path / "numerical_failure.json").read_text())
    assert report["n_timesteps"] == 72
    assert "rewards" in report["likely_cause"]
    assert report["gradient_norms"]
    batch = read_arrays(run.path / "failed_batch.safetensors")
    assert not np.isfinite(batch["rewards"]).all()


def test_the_optimizer_takes_no_step_along_a_nan() -> None:
    agent = SAC("SNAPolicy", "Pendulum-v1", policy_kwargs={"rank": 2}, learning_starts=5, update="reference")
    guard = NumericalGuard(Path("unused"))
    guard.init_callback(agent)
    agent.learn(10)
    guard.on_training_start({}, {})
    before = {name: value.clone() for name, value in agent.policy.state_dict().items()}
    for parameter in agent.critic.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)
    with pytest.raises(FileNotFoundError):  # the report has no folder to go to
        agent.critic.optimizer.step()
    assert all(torch.equal(value, before[name]) for name, value in agent.policy.state_dict().items())
    guard.close()
    assert "sample" not in vars(agent.replay_buffer)


def test_restore_goes_back_with_half_the_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    poison = Poison(71, math.nan)
    real = resume.go_on
    monkeypatch.setattr(resume, "go_on", lambda *args, **kwargs: real(*args, **kwargs, callbacks=[poison]))
    config = small(tmp_path, learning_rate=1e-3)
    result = resume.through_failures(
        lambda: train(config, progress=False, callbacks=[poison]), on_nan="restore", progress=False
    )
    assert result.n_timesteps == 120
    assert "back to step 60 with the learning rate times 0.5 (1 of 3)" in capsys.readouterr().err
    newest = Checkpoints(RunFolder.open(result.folder).checkpoints).newest(pytest.fail)
    assert newest is not None
    assert newest.read()["extra"]["lr_scale"] == 0.5


def test_restore_gives_up_after_three(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    poison = Poison(71, math.nan, times=10)
    real = resume.go_on
    monkeypatch.setattr(resume, "go_on", lambda *args, **kwargs: real(*args, **kwargs, callbacks=[poison]))
    with pytest.raises(NumericalError):
        resume.through_failures(
            lambda: train(small(tmp_path), progress=False, callbacks=[poison]),
            on_nan="restore",
            progress=False,
        )
    told = capsys.readouterr().err
    assert [told.count(f"times {scale} ({n} of 3)") for n, scale in ((1, 0.5), (2, 0.25), (3, 0.125))] == [
        1
    ] * 3
    assert poison.times == 2


def test_on_nan_is_one_of_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--algo", "sac", "--env", "Pendulum-v1", "--on-nan", "ignore"]) == 2
    assert "--on-nan is stop or restore, not 'ignore'" in capsys.readouterr().err


FINE = Suspicion((), 1.0, 10.0, 100.0, 3e-4, True)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"non_finite": ("observations",)}, "the replay buffer gave NaN or infinity in observations"),
        ({"largest_reward": 1e6}, "reward scale"),
        ({"learning_rate": 0.1}, "learning rate"),
        ({"init": "paper", "rank": 512}, "rank scaling (init 'paper' grows with rank 512)"),
        ({"is_clipped": False}, "not clipped"),
        ({"largest_q": 1e5}, "overestimated values"),
        ({}, "none stands out"),
    ],
)
def test_each_cause_is_named(changes: dict[str, Any], cause: str) -> None:
    from dataclasses import replace

    assert cause in likely_cause(replace(FINE, **changes))


def test_gradient_norms_are_those_of_the_critic_loss() -> None:
    agent = DQN("SNAPolicy", "CartPole-v1", policy_kwargs={"rank": 2}, learning_starts=30, train_freq=100)
    agent.learn(40)
    assert agent.replay_buffer is not None
    batch = agent.replay_buffer.sample(16)
    norms = branch_norms(agent, batch)
    q_next = agent.q_net_target(batch.next_observations).max(dim=1, keepdim=True).values
    targets = (batch.rewards + (1 - batch.dones) * agent.gamma * q_next).detach()
    values = agent.q_net(batch.observations).gather(1, batch.actions.long())
    loss = torch.nn.functional.smooth_l1_loss(values, targets)
    network: Any = agent.q_net.network
    gradients = torch.autograd.grad(loss, list(network.interaction_parameters()))
    expected = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
    assert float(norms["interaction"]) == pytest.approx(expected, rel=1e-4)
    assert set(batch_arrays(batch)) == {"observations", "actions", "next_observations", "dones", "rewards"}


@pytest.mark.parametrize("kind", [SAC, TD3])
def test_q_above_what_rewards_allow_is_told_once(kind: Any, tmp_path: Path) -> None:
    env = gymnasium.make("Pendulum-v1")
    agent = kind(
        "MlpPolicy", env, learning_starts=100, train_freq=50, policy_kwargs={"net_arch": [8]}, gamma=0.5
    )
    with torch.no_grad():
        for head in agent.critic.q_networks:
            head[-1].bias.fill_(1e6)
    lines: list[str] = []
    agent.learn(6000, callback=NumericalGuard(tmp_path, lines.append))
    assert len(lines) == 1
    assert "the critic overestimates" in lines[0]
    assert agent.logger.name_to_value["train/q_bound_ratio"] > 1.0


def test_q_within_its_bound_is_quiet(tmp_path: Path) -> None:
    env = gymnasium.make("CartPole-v1")
    agent = DQN("MlpPolicy", env, learning_starts=100, train_freq=50, policy_kwargs={"net_arch": [8]})
    lines: list[str] = []
    agent.learn(5000, callback=NumericalGuard(tmp_path, lines.append))
    assert lines == []


def test_optimizers_are_named() -> None:
    assert list(optimizers(TD3("MlpPolicy", "Pendulum-v1"))) == ["actor", "critic"]
    assert list(optimizers(DQN("MlpPolicy", "CartPole-v1"))) == ["Q-network"]
