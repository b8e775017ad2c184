"""Which form of the update is taken, what compiling needs, and agents that move to and from plain classes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import Tensor

from sna_rl.agents import ALGORITHMS, SNADQNPolicy, SNASACPolicy, SNATD3Policy
from sna_rl.agents.fused import update
from sna_rl.agents.fused.algorithm import FusedAlgorithm
from sna_rl.agents.fused.batch import as_batch
from sna_rl.agents.fused.graph import compiled, traced, use_private_cache
from sna_rl.agents.fused.replay import CompactReplayBuffer

SMALL = {"net_arch": [6, 5], "critic": "cp", "rank": 2, "width": 5}
PLAIN: dict[str, tuple[Any, Any, str]] = {
    "sac": (stable_baselines3.SAC, SNASACPolicy, "Pendulum-v1"),
    "td3": (stable_baselines3.TD3, SNATD3Policy, "Pendulum-v1"),
    "dqn": (stable_baselines3.DQN, SNADQNPolicy, "CartPole-v1"),
}


def make(algo: str = "sac", **kwargs: Any) -> FusedAlgorithm:
    defaults = {
        "policy_kwargs": SMALL,
        "learning_starts": 10,
        "batch_size": 16,
        "buffer_size": 300,
        "seed": 1,
    }
    return ALGORITHMS[algo]("SNAPolicy", PLAIN[algo][2], **{**defaults, **kwargs})


def vector(agent: Any) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in agent.policy.parameters()])


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the graphs that would have been compiled; they stay as traced."""
    names: list[str] = []

    def remember(graph: Any, tensors: Any, name: str) -> Any:
        names.append(name)
        return graph

    monkeypatch.setattr(update, "compiled", remember)
    return names


def test_long_trainings_compile_and_short_ones_do_not(uncompiled: list[str]) -> None:
    agent = make()
    assert agent.update_form == "auto"
    assert agent.choose_update(9_000) == "eager"
    assert uncompiled == []
    assert agent.choose_update(10_010) == "compiled"
    assert uncompiled == ["the SAC update"]
    assert agent.choose_update(100) == "compiled"
    assert make(train_freq=4).choose_update(10_010) == "eager"
    assert make("td3", update="compiled").choose_update(50) == "compiled"
    assert uncompiled[1:] == ["the TD3 update"] * 2


def test_preparing_changes_nothing_and_draws_nothing(uncompiled: list[str]) -> None:
    agent = make(update="compiled")
    before, state = vector(agent).clone(), torch.get_rng_state()
    agent.choose_update(100)
    assert torch.equal(vector(agent), before)
    assert torch.equal(torch.get_rng_state(), state)


class OwnBuffer(stable_baselines3.common.buffers.ReplayBuffer):
    """A user's own."""


@pytest.mark.parametrize(
    ("kwargs", "reason"),
    [
        ({"use_sde": True}, "gSDE"),
        ({"replay_buffer_class": OwnBuffer}, "OwnBuffer may give other samples"),
        (
            {
                "policy_kwargs": {
                    "optimizer_class": torch.optim.AdamW,
                    "critic": "mlp",
                }
            },
            "AdamW",
        ),
    ],
)
def test_what_cannot_be_fused_takes_the_reference_and_says_why(
    kwargs: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        agent = make(update="eager", **kwargs).learn(20)
    assert agent.update_form == "reference"
    (line,) = [record.getMessage() for record in caplog.records if "own update" in record.getMessage()]
    assert reason in line


def test_batches_are_contiguous_whatever_the_buffer_gives() -> None:
    agent = make(gradient_steps=0).learn(30)
    assert isinstance(agent.replay_buffer, CompactReplayBuffer)
    samples = agent.replay_buffer.sample(8)
    assert isinstance(samples, ReplayBufferSamples)
    assert not samples.rewards.is_contiguous() or samples.rewards.stride() != (1, 1)
    for field in as_batch(samples, torch.float32).values():
        assert field.is_contiguous()
        assert field.dtype == torch.float32
    assert as_batch(samples, torch.float32)["rewards"].stride() == (1, 1)


@pytest.mark.parametrize("algo", PLAIN)
def test_an_agent_moves_to_plain_stable_baselines3_and_back(algo: str, tmp_path: Path) -> None:
    plain_class, policy, env_name = PLAIN[algo]
    ours = make(algo, update="eager", train_freq=1).learn(60)
    ours.save(tmp_path / "ours.zip")
    theirs = plain_class.load(tmp_path / "ours.zip", env=gymnasium.make(env_name))
    assert type(theirs) is plain_class
    assert isinstance(theirs.policy, policy)
    assert torch.equal(vector(theirs), vector(ours))
    theirs.save(tmp_path / "theirs.zip")
    back = ALGORITHMS[algo].load(tmp_path / "theirs.zip", env=gymnasium.make(env_name))
    assert back.choose_update(100) == "eager"
    for agent in (theirs, back):
        agent.replay_buffer = ours.replay_buffer
        agent.set_logger(ours.logger)
        np.random.seed(3)
        torch.manual_seed(3)
        agent.train(gradient_steps=5, batch_size=16)
    assert not torch.equal(vector(back), vector(ours))
    torch.testing.assert_close(vector(back), vector(theirs), rtol=1e-4, atol=1e-6)
    back.learn(20, reset_num_timesteps=False)
    theirs.learn(20, reset_num_timesteps=False)


def test_the_same_seed_gives_equal_runs_to_the_bit() -> None:
    first, second = (vector(make(update="eager").learn(60)) for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("critic", ["cp", "mlp"])
@pytest.mark.parametrize("algo", ["sac", "td3"])
def test_sampled_targets_are_the_mean_over_next_actions(
    algo: str, critic: str, to_float64: Callable[..., None]
) -> None:
    """Three equal draws give the target of one; different draws give another."""
    cases = ((1, 0.0), (3, 0.0), (3, 1.0))
    kwargs = {"update": "eager", "policy_kwargs": {**SMALL, "critic": critic}}
    agents = [make(algo, n_target_actions=n_targets, **kwargs) for n_targets, _ in cases]
    to_float64(*agents)
    ends = []
    for agent, (n_targets, spread) in zip(agents, cases, strict=True):
        agent.set_random_seed(1)
        agent.learn(10)
        draws = torch.Generator().manual_seed(7)

        def noise(size: int, draws: Any = draws, n: int = n_targets, spread: float = spread) -> list[Tensor]:
            first = torch.randn(size, 1, dtype=torch.float64, generator=draws)
            rest = torch.randn(
                n - 1, size, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
            )
            target = first if n == 1 else torch.cat([first.unsqueeze(0), first + spread * rest])
            return [first, target] if algo == "sac" else [target]

        assert agent._fused is not None
        agent._fused.make_noise = noise  # type: ignore[assignment, method-assign]
        np.random.seed(0)
        agent.train(4, 16)
        ends.append(vector(agent))
    assert ends[0].dtype == torch.float64
    torch.testing.assert_close(ends[1], ends[0], rtol=1e-9, atol=1e-12)
    assert (ends[2] - ends[0]).abs().max() > 1e-6


def test_bf16_rounds_large_products_alone() -> None:
    losses: dict[str, float] = {}
    wide = {"net_arch": [64, 64], "critic": "mlp"}
    for precision in ("fp32", "bf16"):
        agent = make(update="eager", precision=precision, policy_kwargs=wide, batch_size=64).learn(11)
        graph: Any = next(iter(agent._fused.graphs.values()))  # type: ignore[union-attr]
        assert ("bfloat16" in graph.code) == (precision == "bf16")
        losses[precision] = agent.logger.name_to_value["train/critic_loss"]
        assert {parameter.dtype for parameter in agent.policy.parameters()} == {torch.float32}
    assert losses["bf16"] != losses["fp32"]
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=2e-2)


def test_the_cache_is_private_to_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    use_private_cache()
    folder = tmp_path / "sna-rl" / "inductor"
    assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/elsewhere")
    use_private_cache()
    assert folder.parent.parent == tmp_path


@pytest.mark.compiled
@pytest.mark.parametrize(("algo", "options"), [("sac", {}), ("td3", {"policy_delay": 1}), ("dqn", {})])
def test_compiled_trainings_equal_eager_ones(
    algo: str, options: dict[str, Any], assert_forms_agree: Callable[..., None]
) -> None:
    """Whole trainings on the compact buffer, whose samples are views with strides of their own."""
    assert_forms_agree(algo, forms=("compiled", "eager"), policy_kwargs=SMALL, **options)


def test_what_does_not_compile_runs_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "compiled", lambda *args: None)
    agent = make(update="compiled").learn(20)
    assert agent.update_form == "eager"
    assert torch.equal(vector(agent), vector(make(update="eager").learn(20)))


@pytest.mark.compiled
def test_a_missing_compiler_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", (None, "no-such-compiler"))
    tensor = torch.linspace(-1.0, 1.0, 777)
    graph = traced(lambda x: x.add_(1.0).sin().exp(), [tensor])
    with caplog.at_level(logging.WARNING, logger="sna_rl"):
        assert compiled(graph, [tensor], "the update") is None
    assert caplog.messages[-1].startswith("the update is not compiled and runs eagerly: ")
    assert torch.equal(tensor, torch.linspace(-1.0, 1.0, 777))
