"""Search spaces: read, refused in one sentence, laid onto configurations without losing anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from sna_rl.config import RunConfig
from sna_rl.errors import UsageError
from sna_rl.training.tuning.search import Parameter, Space, applied, packaged_space
from sna_rl.zoo_configs import resolve


def space(tmp_path: Path, text: str, critic: str = "cp") -> Space:
    path = tmp_path / "space.yml"
    path.write_text(text)
    return Space.read(path, critic)


def test_entries_become_distributions(tmp_path: Path) -> None:
    found = space(
        tmp_path,
        """
first:
  rank: {int: [4, 128], log: true}
  learning_rate: {float: [1e-5, 2e-3], log: true}
then:
  batch_size: {choices: [64, 256]}
  gamma: {float: [1e-4, 0.03], log: true, complement: true}
""",
    )
    assert found.first == (
        Parameter("rank", IntDistribution(4, 128, log=True)),
        Parameter("learning_rate", FloatDistribution(1e-5, 2e-3, log=True)),
    )
    assert found.then[0].distribution == CategoricalDistribution([64, 256])
    assert found.values({"rank": 8, "gamma": 0.02}) == {"rank": 8, "gamma": 0.98}
    assert [each.name for each in found.parameters(False)] == ["rank", "learning_rate"]


def test_parameters_of_other_critics_are_left_out(tmp_path: Path) -> None:
    width = "policy_kwargs.width: {choices: [8], critics: [cp]}"
    text = f"first: {{rank: {{int: [4, 8]}}, tau: {{float: [0.001, 0.1]}}, {width}}}"
    assert [each.name for each in space(tmp_path, text).first] == ["rank", "tau", "policy_kwargs.width"]
    assert [each.name for each in space(tmp_path, text, "mlp").first] == ["tau"]


def test_configured_policy_kwargs_are_merged_never_replaced() -> None:
    config = RunConfig("sac", "Pendulum-v1", rank=4, hyperparams={"policy_kwargs": {"depth": 1, "width": 32}})
    changed = applied(config, {"policy_kwargs.width": 64, "learning_rate": 1e-3})
    assert changed.policy_kwargs == {"depth": 1, "width": 64, "critic": "cp", "rank": 4}
    assert changed.hyperparams["learning_rate"] == 1e-3
    assert applied(config, {"rank": 16}).rank == 16
    assert config.policy_kwargs["width"] == 32


@pytest.mark.parametrize("algo", ["sac", "td3", "dqn"])
@pytest.mark.parametrize("critic", ["cp", "tucker", "mlp", "mlp-matched"])
def test_packaged_spaces_fit_their_algorithms(algo: str, critic: str) -> None:
    env = "CartPole-v1" if algo == "dqn" else "Pendulum-v1"
    found = Space.read(packaged_space(algo), critic)
    found.check(resolve(algo, env, {"critic": critic, "seed": 0}))
    assert "learning_rate" in [each.name for each in found.first]
    assert ("rank" in [each.name for each in found.first]) is (critic != "mlp")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("frist: {}", "unknown key 'frist'; did you mean 'first'"),
        ("then: {tau: {float: [0.1, 0.2]}}", "'first' must hold at least one parameter"),
        ("first: {tau: 3}", "first, tau: must be a mapping such as"),
        ("first: [tau]", "first: must be a mapping of parameters"),
        ("first: {tau: {flaot: [0.1, 0.2]}}", "unknown key 'flaot'; did you mean 'float'"),
        ("first: {tau: {float: [0.1, 0.2], int: [1, 2]}}", "needs one of int"),
        ("first: {tau: {log: true}}", "needs one of int"),
        ("first: {tau: {choices: []}}", "needs one of int"),
        ("first: {batch_size: {choices: [[64], 128]}}", "choices are numbers, texts, true, false or null"),
        ("first: {tau: {float: [0.2, 0.1]}}", r"\[0.2, 0.1\].*can't be drawn from"),
        ("first: {tau: {float: [0.0, 0.1], log: true}}", "can't be drawn from"),
        ("first: {rank: {int: [1]}}", "can't be drawn from"),
        ("first: {rank: {int: [a, b]}}", "can't be drawn from"),
    ],
)
def test_bad_spaces_are_refused_with_file_and_parameter(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        space(tmp_path, text)
    assert str(error.value).startswith(str(tmp_path / "space.yml"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "first: {learnig_rate: {float: [0.1, 0.2]}}",
            "search space, learnig_rate 0.1: .*did you mean 'learning_rate'",
        ),
        ("first: {tau: {float: [0.5, 1.5]}}", "search space, tau 1.5: tau must be"),
        ("first: {policy_kwargs.widht: {choices: [8]}}", "did you mean 'width'"),
        ("first: {rank: {int: [0, 4]}}", "search space, rank 0: rank must be an int of at least 1"),
    ],
)
def test_values_a_run_cannot_take_are_refused_before_training(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        space(tmp_path, text).check(RunConfig("sac", "Pendulum-v1"))
