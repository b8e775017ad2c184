"""What a study file means: arms, fairness, names, and every bad value in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest

from sna_rl.agents import SNASACPolicy
from sna_rl.config import write_yaml
from sna_rl.errors import UsageError
from sna_rl.training.studies.study import Study, comparable, find_study

BASE: dict[str, Any] = {"name": "s", "algo": "sac", "env": "Pendulum-v1"}


def arms(**changes: Any) -> list[str]:
    return list(Study.from_dict({**BASE, **changes}).configs())


def test_axes_multiply_and_baselines_are_always_there() -> None:
    assert arms(rank=[4, 8]) == ["sac-mlp", "sac-mlp-matched-r8", "sac-cp-r4", "sac-cp-r8"]
    assert arms(rank=8, matched=False) == ["sac-mlp", "sac-cp-r8"]
    assert arms(critic="mlp") == ["sac-mlp"]
    assert arms(critic=["cp", "additive", "mlp"], rank=4) == [
        "sac-mlp",
        "sac-mlp-matched-r4",
        "sac-cp-r4",
        "sac-additive",
    ]
    assert arms(critic="tucker", rank=[[4, 2], 3]) == [
        "sac-mlp",
        "sac-mlp-matched-r4",
        "sac-tucker-r4x2",
        "sac-tucker-r3",
    ]
    assert arms(critic=["cp", "mlp-matched"], rank=[4, 8])[1:3] == [
        "sac-mlp-matched-r4",
        "sac-mlp-matched-r8",
    ]
    assert arms(algo=["sac", "td3"], rank=4, matched=False) == [
        "sac-mlp",
        "sac-cp-r4",
        "td3-mlp",
        "td3-cp-r4",
    ]


def test_cells_take_all_arms_of_a_seed_before_the_next() -> None:
    study = Study.from_dict({**BASE, "env": ["Pendulum-v1", "HalfCheetah-v5"], "rank": 4, "seeds": [3, 9]})
    cells = study.cells()
    assert [(cell.config.seed, cell.config.env, cell.arm) for cell in cells[:4]] == [
        (3, "Pendulum-v1", "sac-mlp"),
        (3, "Pendulum-v1", "sac-mlp-matched-r4"),
        (3, "Pendulum-v1", "sac-cp-r4"),
        (3, "HalfCheetah-v5", "sac-mlp"),
    ]
    assert [cell.config.seed for cell in cells] == [3] * 6 + [9] * 6
    assert cells[0].path(Path("runs")) == Path("runs/Pendulum-v1/sac-mlp/seed-3")


def test_every_arm_gets_the_same_layer_norm_clip_budget_and_start() -> None:
    study = Study.from_dict({**BASE, "n_timesteps": 1000, "hyperparams": {"learning_starts": 50}, "rank": 4})
    for found in study.configs().values():
        config = found["Pendulum-v1"]
        assert config.policy_kwargs["layer_norm"] is True
        assert config.policy_kwargs["max_grad_norm"] == 1.0
        assert config.hyperparams["learning_starts"] == 50
        assert (config.n_timesteps, config.eval_freq, config.eval_episodes) == (1000, 50, 5)
    plain = Study.from_dict({**BASE, "layer_norm": False, "max_grad_norm": None})
    assert plain.configs()["sac-cp-r32"]["Pendulum-v1"].policy_kwargs["layer_norm"] is False
    assert plain.configs()["sac-cp-r32"]["Pendulum-v1"].policy_kwargs["max_grad_norm"] is None


def test_algorithms_start_learning_at_the_same_step() -> None:
    study = Study.from_dict({**BASE, "algo": ["sac", "td3"], "env": "HalfCheetah-v5"})
    starts = {
        arm: found["HalfCheetah-v5"].hyperparams["learning_starts"] for arm, found in study.configs().items()
    }
    assert set(starts.values()) == {10_000}


def test_what_differs_is_told_in_words() -> None:
    study = Study.from_dict(
        {
            **BASE,
            "rank": 4,
            "arms": [
                {"name": "wide", "hyperparams": {"policy_kwargs": {"width": 256}, "tau": 0.01}},
                {"name": "plain", "critic": "mlp", "hyperparams": {"policy_kwargs": {"layer_norm": False}}},
            ],
        }
    )
    assert study.differs_in() == {
        "sac-mlp": "baseline",
        "sac-mlp-matched-r4": "critic mlp-matched, rank 4",
        "sac-cp-r4": "critic cp, rank 4",
        "wide": "critic cp, rank 4, policy_kwargs.width 256, tau 0.01",
        "plain": "policy_kwargs.layer_norm False",
    }


def test_environments_may_have_their_own_budget() -> None:
    env = {"Pendulum-v1": {"n_timesteps": 500}, "HalfCheetah-v5": {"hyperparams": {"learning_starts": 7}}}
    found = Study.from_dict({**BASE, "env": env, "n_timesteps": 900, "rank": 4}).configs()["sac-cp-r4"]
    assert found["Pendulum-v1"].n_timesteps == 500
    assert found["HalfCheetah-v5"].n_timesteps == 900
    assert found["HalfCheetah-v5"].hyperparams["learning_starts"] == 7


def test_study_file_gives_the_study_again(tmp_path: Path) -> None:
    study = Study.from_dict(
        {
            **BASE,
            "rank": [4, 8],
            "seeds": 2,
            "n_timesteps": 100,
            "arms": [{"name": "x", "rank": 3}],
            "scores": {},
        }
    )
    path = tmp_path / "again.yml"
    path.write_text(study.to_yaml())
    assert Study.read(path) == study
    write_yaml(tmp_path / "named.yml", {"algo": "sac", "env": "Pendulum-v1"})
    assert Study.read(tmp_path / "named.yml").name == "named"


def test_packaged_studies_are_valid() -> None:
    folder = find_study("rank_halfcheetah").parent
    for path in folder.glob("*.yml"):
        assert Study.read(path).name == path.stem
    ranks = Study.read(folder / "rank_halfcheetah.yml").configs()
    assert len(ranks) == 8
    assert ranks["sac-mlp-plain"]["HalfCheetah-v5"].policy_kwargs["max_grad_norm"] is None


def test_breadth_goes_on_from_the_finished_cells_of_the_rank_ablation() -> None:
    rank = {cell.name: cell.config for cell in Study.read(find_study("rank_halfcheetah")).cells()}
    breadth = [cell for cell in Study.read(find_study("breadth")).cells() if "HalfCheetah" in cell.name]
    assert len(breadth) == 20
    assert all(comparable(cell.config) == comparable(rank[cell.name]) for cell in breadth)


def test_small_and_large_critics_of_the_packaged_study_are_of_equal_size() -> None:
    env = gymnasium.make("HalfCheetah-v5")
    study = Study.read(find_study("small_halfcheetah"))
    for arm, found in study.configs().items():
        config = found["HalfCheetah-v5"]
        kwargs = {**config.policy_kwargs, "critic": config.critic, "rank": config.rank}
        policy = SNASACPolicy(env.observation_space, env.action_space, lambda _: 3e-4, **kwargs)
        one = sum(parameter.numel() for parameter in policy.critic.parameters()) / 2
        assert one == pytest.approx(64_800 if arm.endswith("-64k") else 4_291, rel=0.01), arm


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algo": "sacc"}, "unknown algo 'sacc'; did you mean 'sac'"),
        ({"critic": "tuker"}, "unknown critic 'tuker'; did you mean 'tucker'"),
        ({"critic": "dueling"}, "unknown critic 'dueling' for sac"),
        ({"rank": 0}, "rank must be an int of at least 1.*not 0"),
        ({"rank": [4, "big"]}, "rank must be an int of at least 1.*not 'big'"),
        ({"seeds": 0}, "seeds must be a number of seeds of at least 1"),
        ({"seeds": [1, 1]}, "seeds must differ"),
        ({"seeds": True}, "seeds must be"),
        ({"sedes": 3}, "unknown key 'sedes'; did you mean 'seeds'"),
        ({"env": None}, "a study needs 'env'"),
        ({"env": {"Pendulum-v1": {"n_timestep": 3}}}, "unknown key 'n_timestep'; did you mean 'n_timesteps'"),
        ({"arms": [{"name": "a", "ranc": 3}]}, "arm a: unknown key 'ranc'; did you mean 'rank'"),
        ({"arms": [{"name": "a", "hyperparams": [{"tau": 0.1}]}]}, "arm a: hyperparams must be"),
        ({"env": {"Pendulum-v1": {"hyperparams": [1]}}}, "hyperparams must be"),
        ({"arms": [{"name": "sac-mlp"}]}, "two arms are named 'sac-mlp'"),
        ({"arms": [{"name": "../x"}]}, "name of an arm must be letters"),
        ({"name": "a/b"}, "name must be letters"),
        ({"hyperparams": {"learnig_rate": 1}}, "learnig_rate.*did you mean 'learning_rate'"),
        ({"layer_norm": "yes"}, "layer_norm must be true or false"),
        ({"tuning_trials": -1}, "tuning_trials must be an int of at least 0"),
    ],
)
def test_bad_studies_are_refused_in_one_sentence(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        Study.from_dict({**BASE, **changes}, "s.yml")
    assert str(error.value).startswith("s.yml: ")
    assert "\n" not in str(error.value)


def test_study_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="did you mean 'rank_halfcheetah'"):
        find_study("rank_halfcheeta")
