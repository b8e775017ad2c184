"""Files, -params and flags laid over each other: later layers win, files can't choose what code runs."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from sna_rl.config import RunConfig, resolve
from sna_rl.errors import UsageError

ZOO = """
Pendulum-v1: &pendulum
  n_timesteps: !!float 2e4
  policy: 'MlpPolicy'
  learning_rate: !!float 1e-3
  n_envs: 2
  train_freq: [1, "episode"]
  replay_buffer_kwargs: "dict(
    handle_timeout_termination=True
  )"
  policy_kwargs: "dict(net_arch=[64, 64], rank=4)"
Hopper-v5:
  <<: *pendulum
  learning_rate: lin_3e-4
  env_kwargs: {forward_reward_weight: 2.0}
atari:
  policy: CnnPolicy
  frame_stack: 4
default:
  learning_rate: 1e-3
"""


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """A file as RL Zoo has them."""
    path = tmp_path / "zoo.yml"
    path.write_text(ZOO)
    return path


def run(zoo: Path, env: str = "Pendulum-v1", **more: object) -> RunConfig:
    """SAC with the file in the packaged one's place."""
    return resolve("sac", env, {"seed": 1, **more}, defaults=lambda algo: zoo)


def test_the_entry_of_the_environment_is_taken(zoo: Path) -> None:
    config = run(zoo)
    assert (config.n_timesteps, config.n_envs, config.rank) == (20_000, 2, 4)
    assert config.hyperparams == {
        "policy": "SNAPolicy",
        "learning_rate": 1e-3,
        "train_freq": [1, "episode"],
        "replay_buffer_kwargs": {"handle_timeout_termination": True},
        "policy_kwargs": {"net_arch": [64, 64]},
    }
    hopper = run(zoo, "Hopper-v5")
    assert hopper.hyperparams == {**config.hyperparams, "learning_rate": "lin_3e-4"}
    assert hopper.env_kwargs == {"forward_reward_weight": 2.0}


def test_atari_then_default_where_there_is_no_entry(zoo: Path) -> None:
    assert run(zoo, "ALE/Pong-v5").hyperparams == {"policy": "SNACnnPolicy", "frame_stack": 4}
    assert run(zoo, "PongNoFrameskip-v4").hyperparams == {"policy": "SNACnnPolicy", "frame_stack": 4}
    assert run(zoo, "Ant-v5").hyperparams == {"learning_rate": 1e-3}
    assert run(zoo, "some.package:Pendulum-v1").n_timesteps == 20_000
    zoo.write_text("Pendulum-v1: {}")
    with pytest.raises(
        UsageError, match=r"zoo\.yml has neither an entry for 'Pendulum-v0' nor one named 'def"
    ):
        run(zoo, "Pendulum-v0")


def test_params_win_over_the_file_and_flags_over_params(zoo: Path) -> None:
    """Case R9: a rank in the file survives policy_kwargs that do not speak of it."""
    flags = {"n_timesteps": 100, "seed": 3, "critic": None}
    params = {
        "n_timesteps": 50,
        "learning_rate": "lin_1e-4_1e-5",
        "policy_kwargs": {"width": 32},
        "n_envs": 1,
    }
    before = deepcopy((flags, params))
    config = resolve("sac", "Pendulum-v1", flags, params, defaults=lambda algo: zoo)
    assert (flags, params) == before
    assert (config.n_timesteps, config.seed, config.n_envs, config.critic, config.rank) == (
        100,
        3,
        1,
        "cp",
        4,
    )
    assert config.hyperparams["learning_rate"] == "lin_1e-4_1e-5"
    assert config.policy_kwargs == {"net_arch": [64, 64], "width": 32, "critic": "cp", "rank": 4}
    again = resolve("sac", "Pendulum-v1", {**flags, "rank": 16}, params, defaults=lambda algo: zoo)
    assert again.rank == 16
    inner = {"policy_kwargs": {"rank": 8, "critic": "additive"}}
    lifted = resolve("sac", "Pendulum-v1", flags, inner, defaults=lambda algo: zoo)
    assert (lifted.rank, lifted.critic) == (8, "additive")


def test_env_kwargs_of_flags_join_those_of_the_file(zoo: Path) -> None:
    config = run(zoo, "Hopper-v5", env_kwargs={"ctrl_cost_weight": 0.1}, eval_env_kwargs={})
    assert config.env_kwargs == {"forward_reward_weight": 2.0, "ctrl_cost_weight": 0.1}
    assert config.eval_env_kwargs == {}


def test_a_seed_is_drawn_unless_given(zoo: Path) -> None:
    drawn = {resolve("sac", "Pendulum-v1", {"seed": s}, defaults=lambda _: zoo).seed for s in (None, -1, -1)}
    assert len(drawn) == 3
    assert all(0 <= seed < 2**31 for seed in drawn)
    assert run(zoo).seed == 1


def test_a_runs_own_file_repeats_the_run(zoo: Path, tmp_path: Path) -> None:
    config = run(zoo, "Hopper-v5", critic="tucker", rank=(8, 4), update="eager", env_kwargs={"a": [1e-10]})
    path = tmp_path / "config.yml"
    path.write_text(config.to_yaml())

    def missing(algo: str) -> Path:
        raise AssertionError("a run's own file needs no packaged one")

    assert resolve(None, None, conf_file=path, defaults=missing) == config
    assert resolve("sac", "Hopper-v5", {}, {}, path, defaults=missing) == config
    other = resolve(None, "Ant-v5", {"seed": 2}, {"gamma": 0.98}, path, defaults=missing)
    assert other == config.replace(env="Ant-v5", seed=2, gamma=0.98)
    with pytest.raises(
        UsageError, match=r"config\.yml is a configuration for sac, not td3; give --algo sac or"
    ):
        resolve("td3", None, conf_file=path, defaults=missing)


def test_a_zoo_file_given_with_conf_stands_alone(zoo: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yml"
    mine.write_text("Pendulum-v1: {gamma: 0.9}")
    config = resolve("sac", "Pendulum-v1", {"seed": 1}, conf_file=mine, defaults=lambda algo: zoo)
    assert config == RunConfig("sac", "Pendulum-v1", seed=1, hyperparams={"gamma": 0.9})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Pendulum-v1: {learnig_rate: 1e-3}",
            ", Pendulum-v1: unknown key 'learnig_rate' for sac; did you mean",
        ),
        ("Pendulum-v1: {clip_range: 0.2}", ", Pendulum-v1: unknown key 'clip_range' for sac"),
        ("Pendulum-v1: {noise_type: pink}", ", Pendulum-v1: noise_type must be one of normal, ornstein"),
        ("Pendulum-v1: {learning_rate: foo_3e-4}", ", Pendulum-v1: learning_rate must be a positive number"),
        ("Pendulum-v1: {n_timesteps: 1.5}", ", Pendulum-v1: n_timesteps must be an int of at least 1"),
        ("Pendulum-v1: {policy_kwargs: exec('x')}", ", Pendulum-v1: policy_kwargs: the text can't be read"),
        ("Pendulum-v1: {policy_kwargs: {rank: 1.5}}", ", Pendulum-v1: policy_kwargs.rank must be an int"),
        ("Pendulum-v1: {rank: 2, policy_kwargs: {rank: 3}}", ", Pendulum-v1: rank is given twice: 2, and 3"),
        ("Pendulum-v1: 3", ", Pendulum-v1: must be a mapping of keys, not 3"),
        ("Pendulum-v1: {env: Ant-v5}", ", Pendulum-v1: env is given by the flag --env, not here"),
        (
            "default: {gamma: high}",
            ", default: gamma must be a number of at least 0 and at most 1, not 'high'",
        ),
        (
            "Pendulum-v1: {gym_packages: [evil]}",
            " asks to import 'evil'; add --gym-packages evil if you trust",
        ),
        (
            "Pendulum-v1: {gym_packages: evil}",
            ", Pendulum-v1: gym_packages must be a list of names of modules",
        ),
        ("{algo: sac, env: 'evil:X-v0'}", " asks to import 'evil'; add --gym-packages evil if you trust it"),
        ("{algo: sac, env: Pendulum-v1, gym_packages: [evil]}", " asks to import 'evil'"),
        ("{algo: ppo, env: Pendulum-v1}", ": unknown algorithm 'ppo'; known are sac, td3, dqn"),
        ("{algo: sac, env: Pendulum-v1, gamm: 1}", ": unknown key 'gamm' for sac; did you mean 'gamma'?"),
        ("a: !!python/object/apply:os.system [x]", ", line 1, a: unknown tag"),
    ],
)
def test_each_bad_file_gets_one_sentence_with_file_and_key(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    path.write_text(text)
    algo, env = (None, None) if "algo" in text else ("sac", "Pendulum-v1")
    with pytest.raises(UsageError) as caught:
        resolve(algo, env, conf_file=path, defaults=lambda algo: path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


def test_modules_are_imported_only_if_the_user_names_them(tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    path.write_text("{algo: sac, env: 'mine:X-v0', gym_packages: [mine], callback: mine.callbacks.C}")
    config = resolve(None, None, {"gym_packages": ["mine"]}, conf_file=path, defaults=lambda algo: path)
    assert (config.env, config.gym_packages) == ("mine:X-v0", ("mine",))
    path.write_text("{algo: sac, env: 'mine:X-v0'}")
    assert resolve(None, "mine:X-v0", {}, conf_file=path, defaults=lambda algo: path).env == "mine:X-v0"
    path.write_text("{algo: sac, env: 'sna_rl.envs:SNA/LQR-v0'}")
    assert resolve(None, None, {}, conf_file=path, defaults=lambda algo: path).env == "sna_rl.envs:SNA/LQR-v0"


def test_flags_and_params_are_checked_too(zoo: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^-params: gamma must be a number"):
        resolve("sac", "Pendulum-v1", {}, {"gamma": 2}, defaults=lambda algo: zoo)
    with pytest.raises(UsageError, match=r"^-params: algo is given by the flag --algo, not here"):
        resolve("sac", "Pendulum-v1", {}, {"algo": "td3"}, defaults=lambda algo: zoo)
    with pytest.raises(UsageError, match=r"^rank must be an int of at least 1 or 'auto', not 'big' \(str\)"):
        run(zoo, rank="big")
    with pytest.raises(UsageError, match=r"^unknown algorithm 'sca'; did you mean 'sac'\?"):
        resolve("sca", "Pendulum-v1", defaults=lambda algo: zoo)
    with pytest.raises(UsageError, match=r"^--env is missing; give it, or a run's config.yml with -conf"):
        resolve("sac", None, defaults=lambda algo: zoo)
    with pytest.raises(UsageError, match=r"^--algo is missing"):
        resolve(None, "Pendulum-v1", conf_file=zoo, defaults=lambda algo: zoo)
    script = tmp_path / "conf.py"
    script.write_text("raise SystemExit('executed')")
    with pytest.raises(UsageError, match=r"conf\.py is Python, which would have to be executed"):
        resolve("sac", "Pendulum-v1", conf_file=script, defaults=lambda algo: zoo)


def test_a_policy_of_ones_own_has_keys_of_its_own(zoo: Path) -> None:
    flags = {"gym_packages": ["mine"], "seed": 0}
    params = {"policy": "mine.Policy", "policy_kwargs": {"depth_of_mine": 3}}
    config = resolve("sac", "Pendulum-v1", flags, params, defaults=lambda algo: zoo)
    assert config.policy == "mine.Policy"
    assert config.policy_kwargs["depth_of_mine"] == 3
    with pytest.raises(UsageError, match=r"-params: policy_kwargs: unknown key 'depth_of_mine'"):
        resolve("sac", "X-v0", {}, {"policy_kwargs": {"depth_of_mine": 3}}, defaults=lambda algo: zoo)
