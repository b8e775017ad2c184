from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

import sna_rl.agents as own
from sna_rl.agents.critics import BatchedCritic
from sna_rl.envs import LowRankMDPEnv, LQREnv
from sna_rl.errors import SnaError, UsageError
from sna_rl.training.diagnose.critic import diagnose
from sna_rl.training.diagnose.heads import fresh_heads, heads_of, untrained_mlp
from sna_rl.training.diagnose.records import Question
from sna_rl.training.diagnose.states import first_episode, roll_out
from sna_rl.training.diagnose.table import Estimate, TableReport, read_tables
from sna_rl.training.diagnose.text import describe
from sna_rl.training.diagnose.verdict import Evidence, Verdict, judge, summarise

sb3_contrib = pytest.importorskip("sb3_contrib")

SMALL = Question(n_states=32, n_actions=24, rank=8)
NET = {"net_arch": [16]}
AGENTS: dict[str, tuple[Any, str, str, dict[str, Any]]] = {
    "SAC": (sb3.SAC, "MlpPolicy", "Pendulum-v1", NET),
    "TD3": (sb3.TD3, "MlpPolicy", "Pendulum-v1", NET),
    "DDPG": (sb3.DDPG, "MlpPolicy", "Pendulum-v1", NET),
    "DQN": (sb3.DQN, "MlpPolicy", "CartPole-v1", NET),
    "TQC": (sb3_contrib.TQC, "MlpPolicy", "Pendulum-v1", NET),
    "CrossQ": (sb3_contrib.CrossQ, "MlpPolicy", "Pendulum-v1", NET),
    "QRDQN": (sb3_contrib.QRDQN, "MlpPolicy", "CartPole-v1", {"net_arch": [16], "n_quantiles": 5}),
    "cp": (own.SAC, "SNAPolicy", "Pendulum-v1", {"rank": 8, "width": 16, **NET}),
    "linear": (own.SAC, "SNAPolicy", "Pendulum-v1", {"rank": 8, "factor": "linear", **NET}),
    "spline": (own.SAC, "SNAPolicy", "Pendulum-v1", {"rank": 8, "factor": "spline", **NET}),
    "auto": (own.SAC, "SNAPolicy", "Pendulum-v1", {"rank": "auto", "width": 16, **NET}),
    "tucker": (own.TD3, "SNAPolicy", "Pendulum-v1", {"critic": "tucker", "rank": 4, "width": 16, **NET}),
    "spline-joint": (own.SAC, "SNAPolicy", "Pendulum-v1", {"critic": "spline-joint", "rank": 8, **NET}),
    "mlp-matched": (own.SAC, "SNAPolicy", "Pendulum-v1", {"critic": "mlp-matched", "rank": 8, **NET}),
    "cp-dqn": (own.DQN, "SNAPolicy", "SNA/LowRankMDP-v0", {"rank": 8, "width": 16}),
    "dueling": (own.DQN, "SNAPolicy", "SNA/LowRankMDP-v0", {"critic": "dueling", **NET}),
}


def agent(name: str, n_transitions: int = 96) -> OffPolicyAlgorithm:
    kind, policy, env, kwargs = AGENTS[name]
    model: OffPolicyAlgorithm = kind(policy, env, seed=0, buffer_size=2, policy_kwargs=dict(kwargs))
    venv = model.get_env()
    assert venv is not None
    roll_out(model, venv, n_transitions, seed=0)
    return model


class ProductCritic(BatchedCritic):
    """Q_k(s, a) = w_k s_0 a, a critic of a user's own that says its values alone."""

    def __init__(self, config: Any, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self.weight = torch.nn.Parameter(torch.arange(1.0, self.n_critics + 1))

    def q_values(self, features: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return self.weight[:, None] * (features[:, 0] * actions[:, 0])


class ProductPolicy(own.SNASACPolicy):
    def make_critic(self, features_extractor: Any = None) -> Any:
        kwargs = self._update_features_extractor(self.critic_kwargs, features_extractor)
        return ProductCritic(self.critic_config, **kwargs)


def report(matrix: np.ndarray[Any, Any]) -> TableReport:
    return read_tables(torch.from_numpy(matrix)[None], seed=None)[0]


def rank_at(read: TableReport, q: float) -> int:
    energy = np.cumsum(np.square(read.singular_values))
    return int(np.searchsorted(energy, q * energy[-1]) + 1)


@pytest.mark.parametrize("rank", range(1, 9))
def test_exact_tables_show_the_known_rank(rank: int) -> None:
    rng = np.random.default_rng(rank)
    lqr = LQREnv(8, 8, rank)
    table = lqr.optimal_q(rng.standard_normal((96, 1, 8)), rng.uniform(-1, 1, (1, 64, 8)))
    assert rank_at(report(table), 1 - 1e-9) == rank
    assert rank_at(report(LowRankMDPEnv(rank=rank, model_seed=rank).optimal_q()), 1 - 1e-9) == rank


def test_exact_lqr_is_judged_separable_at_its_rank() -> None:
    rng = np.random.default_rng(0)
    table = LQREnv(8, 8, 3).optimal_q(rng.standard_normal((256, 1, 8)), rng.uniform(-1, 1, (1, 128, 8)))
    twin = table + 1e-3 * rng.standard_normal(table.shape)
    read = read_tables(torch.from_numpy(np.stack([table, twin])))[0]
    assert read.energy_rank_99 == (3.0, 3.0, 3.0)
    assert read.regret[3] == 0.0
    assert read.regret[0] > 0.03
    assert read.above_floor == 3
    verdict = judge(read, Evidence(asked_rank=32, critic_rank=16))
    assert (verdict.kind, verdict.rank) == ("separable", 3)


def test_an_additive_table_reads_zero() -> None:
    table = torch.randn(20, 1) + torch.randn(12)
    read = read_tables(table[None])[0]
    assert read.effective_rank.value == read.stable_rank.value == read.energy_rank_99.value == 0.0
    assert read.shares["interaction"] == (0.0, 0.0, 0.0)
    assert read.singular_values == []


@pytest.mark.parametrize("name", list(AGENTS))
def test_an_untrained_critic_of_every_family_is_not_known(name: str) -> None:
    model = agent(name)
    diagnosis, _ = diagnose(model, SMALL)
    assert diagnosis.verdict.kind == "not known"
    assert set(diagnosis.nulls) == {"re-initialised", "untrained MLP"}
    model.num_timesteps = 1000  # even where the count of steps says otherwise
    again, _ = diagnose(model, SMALL)
    assert again.verdict.kind == "not known", again.verdict
    assert "verdict: not known" in describe(diagnosis)[-1]
    json.dumps(diagnosis.to_dict(), allow_nan=False)


def test_components_that_are_switched_off_do_not_count() -> None:
    diagnosis, _ = diagnose(agent("auto"), SMALL)
    assert diagnosis.rank == 4
    components = diagnosis.heads[0].supported.components
    assert components is not None
    assert (components.n_components, components.dead) == (4, 0)


def test_an_additive_critic_reads_zero() -> None:
    kind, _, env, kwargs = AGENTS["cp"]
    model = kind("SNAPolicy", env, seed=0, buffer_size=2, policy_kwargs={**kwargs, "critic": "additive"})
    roll_out(model, model.get_env(), 96, seed=0)
    model.num_timesteps = 1000
    diagnosis, _ = diagnose(model, SMALL)
    assert diagnosis.rank == 0
    for tables in diagnosis.heads:
        for read in (tables.supported, tables.uniform):
            assert read is not None
            assert read.energy_rank_99.value == read.effective_rank.value == 0.0
    assert "holds only 0.0% of the variance" in diagnosis.verdict.reason


@pytest.mark.parametrize("name", ["SAC", "DQN", "TQC", "CrossQ", "QRDQN", "cp", "cp-dqn"])
def test_heads_are_the_critics_own_values(name: str) -> None:
    model: Any = agent(name)
    heads = heads_of(model)
    batch = model.replay_buffer.sample(7)
    with torch.no_grad():
        if hasattr(model.policy, "critic"):
            expected = model.policy.critic(batch.observations, batch.actions)
            expected = torch.cat(expected, dim=1) if isinstance(expected, tuple) else expected.mean(2)
            expected = expected.mT
            actions = batch.actions
        else:
            network = getattr(model.policy, "q_net", None) or model.policy.quantile_net
            values = network(batch.observations)
            values = values.mean(1) if values.ndim == 3 else values
            actions = batch.actions.flatten().long()
            expected = values.gather(1, batch.actions.long()).mT
        features = heads.features(batch.observations)
        torch.testing.assert_close(heads.values(features, actions), expected)
        table = heads.tables(features, actions)
        torch.testing.assert_close(table.diagonal(dim1=1, dim2=2), expected)


@pytest.mark.parametrize("name", ["SAC", "DQN", "TQC", "QRDQN", "cp", "cp-dqn"])
def test_nulls_have_other_parameters_over_the_same_inputs(name: str) -> None:
    model = agent(name)
    heads, fresh = heads_of(model), fresh_heads(model)
    assert type(heads.module) is type(fresh.module)
    features = torch.randn(5, untrained_dim(model))
    discrete = hasattr(model.action_space, "n")
    actions = torch.arange(2) if discrete else torch.zeros(3, 1)
    mlp = untrained_mlp(features.shape[1], model.action_space, model.device)
    assert fresh.tables(features, actions).shape == heads.tables(features, actions).shape
    assert not torch.equal(fresh.tables(features, actions), heads.tables(features, actions))
    assert mlp.tables(features, actions).shape == (1, 5, len(actions))


def untrained_dim(model: Any) -> int:
    return int(heads_of(model).features(model.replay_buffer.sample(1).observations).shape[1])


SMALL_SHARES = {
    name: Estimate(share, None, None)
    for name, share in (("state", 0.9), ("action", 0.095), ("interaction", 0.005))
}


def table_report(**changes: Any) -> TableReport:
    rng = np.random.default_rng(0)
    table = LQREnv(8, 8, 3).optimal_q(rng.standard_normal((64, 1, 8)), rng.uniform(-1, 1, (1, 32, 8)))
    read = read_tables(torch.from_numpy(np.stack([table, table + 1e-3 * rng.standard_normal(table.shape)])))[
        0
    ]
    return TableReport(**{**vars(read), **changes})


@pytest.mark.parametrize(
    ("changes", "evidence", "kind", "words"),
    [
        ({}, {}, "separable", "3 components hold 99 %"),
        ({}, {"n_timesteps": 0}, "not known", "learned from 0 steps"),
        ({}, {"branch_gradients": 0.005}, "not known", "dead branch"),
        ({}, {"branch_gradients": 0.02}, "separable", ""),
        ({}, {"critic_rank": 3}, "rank binds", "σ_3 ="),
        ({"noise_floor": 1e9, "above_floor": 2}, {"critic_rank": 3}, "separable", ""),
        ({}, {"asked_rank": 2}, "not known", "more than the 2 asked about"),
        ({"above_floor": 0}, {}, "not known", "no singular value of the interaction stands above"),
        ({}, {"fit": 0.8}, "not known", "0.80 times that of a re-initialised one"),
        ({}, {"fit": 0.1}, "separable", ""),
        ({}, {"loss_ratio": 1.2}, "not known", "loss is 1.20 times the other's"),
        ({}, {"loss_ratio": 1.04}, "separable", ""),
        ({"regret": [0.5, 0.4, 0.3, 0.2, 0.02, 0.0]}, {}, "separable", "acting on 5 loses 0.00%"),
        ({"shares": SMALL_SHARES}, {}, "separable", "holds 0.5% of the variance"),
        ({"shares": SMALL_SHARES, "regret": [0.009, 0.0]}, {}, "not known", "without it loses 0.90%"),
        ({"singular_values": [3.0, 2.0, 1.0, 0.9, 0.9], "above_floor": 3}, {}, "separable", "3 components"),
        (
            {"singular_values": [3.0, 2.0, 1.0, 0.9, 0.9], "above_floor": None},
            {},
            "separable",
            "5 components",
        ),
    ],
)
def test_the_rule_of_the_verdict(
    changes: dict[str, Any], evidence: dict[str, Any], kind: str, words: str
) -> None:
    verdict = judge(table_report(**changes), Evidence(**{"asked_rank": 32, **evidence}))
    assert verdict.kind == kind
    assert words in verdict.reason


def test_heads_that_differ_are_not_known() -> None:
    one, other = Verdict("separable", 3, "a"), Verdict("rank binds", 8, "b")
    assert summarise([one, one]) == one
    assert summarise([one, other]).kind == "not known"
    assert "head 2 rank binds: b" in summarise([one, other]).reason


def test_two_rows_of_states_are_their_own_table() -> None:
    generator = torch.Generator().manual_seed(0)
    tables = torch.randn(2, 20, 12, generator=generator).double()
    read = read_tables(tables)
    half = (tables[0] - tables[1]) / 2
    half = half - half.mean(0) - half.mean(1, keepdim=True) + half.mean()
    largest = float(torch.linalg.matrix_norm(half, 2))
    assert read[0].noise_floor == pytest.approx(largest)
    assert read[1].noise_floor == pytest.approx(largest)
    value, low, high = read[0].effective_rank
    assert low is not None
    assert high is not None
    assert low < value < high


def test_states_are_normalised_and_the_first_episode_is_in_order() -> None:
    model = agent("SAC", n_transitions=230)
    observations, actions, rewards = first_episode(model)
    assert len(rewards) == 200  # Pendulum truncates
    assert isinstance(observations, torch.Tensor)
    angle = torch.atan2(observations[:, 1], observations[:, 0])
    moved = torch.remainder(angle[1:] - angle[:-1] + math.pi, 2 * math.pi) - math.pi
    torch.testing.assert_close(moved, observations[1:, 2] * 0.05, atol=1e-3, rtol=1e-3)
    assert actions.abs().max() <= 1.0


def test_nothing_of_the_agent_changes() -> None:
    model = agent("cp")
    before = {key: value.clone() for key, value in model.policy.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    diagnose(model, SMALL)
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(before[key], value) for key, value in model.policy.state_dict().items())
    again, _ = diagnose(model, SMALL)
    assert again == diagnose(model, SMALL)[0]


def test_nan_critic_is_an_error() -> None:
    model = agent("cp")
    with torch.no_grad():
        next(model.policy.critic.parameters())[0, 0] = math.nan  # type: ignore[union-attr]
    with pytest.raises(SnaError, match="the critic gives NaN or infinite values for"):
        diagnose(model, SMALL)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"n_states": 8, "rank": 8}, "8 states and 256 actions are too few to see rank 8; take at least 16"),
        ({"n_actions": 10, "rank": 8}, "10 actions are too few to see rank 8"),
        ({"rank": 0}, "rank must be an int of at least 1"),
        ({"n_states": 100_000, "n_actions": 100_000}, "fit in memory"),
        ({"n_states": 2}, "at least 4 states and 2 actions"),
    ],
)
def test_bad_questions_are_refused(question: dict[str, int], message: str) -> None:
    model = agent("cp", 32)
    with pytest.raises(UsageError, match=message):
        diagnose(model, Question(**question))


def test_an_algorithm_without_q_function_is_refused() -> None:
    model = sb3.PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8)
    with pytest.raises(UsageError, match="PPO has no Q-function to diagnose"):
        heads_of(model)


def test_images_are_said_to_be_features(tmp_path: Path) -> None:
    from gymnasium import spaces
    from stable_baselines3.common.envs import FakeImageEnv
    from stable_baselines3.common.vec_env import DummyVecEnv

    env = DummyVecEnv([lambda: FakeImageEnv(screen_height=36, screen_width=36, n_channels=1, discrete=True)])
    model = sb3.DQN(
        "CnnPolicy", env, buffer_size=2, policy_kwargs={"features_extractor_kwargs": {"features_dim": 8}}
    )
    assert isinstance(model.observation_space, spaces.Box)
    venv = model.get_env()
    assert venv is not None
    roll_out(model, venv, 32, seed=0)
    diagnosis, _ = diagnose(model, Question(n_states=16, rank=2))
    assert "states are the 8 outputs of the critic's features extractor" in diagnosis.notes[0]


def test_a_critic_of_ones_own_needs_its_values_alone() -> None:
    model = sb3.SAC(ProductPolicy, "Pendulum-v1", buffer_size=2)
    states, actions = torch.tensor([[2.0, 0.0, 0.0], [-1.0, 5.0, 5.0]]), torch.tensor([[0.5], [-1.0], [0.0]])
    heads = heads_of(model)
    product = torch.tensor([[1.0, -2.0, 0.0], [-0.5, 1.0, 0.0]])
    torch.testing.assert_close(heads.tables(states, actions), torch.stack([product, 2 * product]))
    torch.testing.assert_close(heads.values(states, actions[:2])[0], torch.tensor([1.0, 1.0]))
    assert heads.rank is None
