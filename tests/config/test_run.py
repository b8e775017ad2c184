"""RunConfig: one frozen record, checked when made, exact in YAML."""

from __future__ import annotations

import dataclasses
import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sna_rl.config import ALGORITHMS, CRITICS, HYPERPARAMETERS, RunConfig, diff, parse_yaml, write_yaml
from sna_rl.config.keys import RUN_RULES
from sna_rl.errors import UsageError


def sac(**hyperparams: object) -> RunConfig:
    """A configuration of SAC with some hyperparameters."""
    return RunConfig("sac", "Pendulum-v1", hyperparams=hyperparams)


@pytest.mark.parametrize("rank", [0, -1, 1.5, 1.0, True, "big", "8", None, [4], 2**70, math.nan])
def test_rank_must_be_a_whole_number_of_at_least_one(rank: Any) -> None:
    with pytest.raises(UsageError, match=r"^rank must be an? (int|number)"):
        RunConfig("sac", "Pendulum-v1", rank=rank)


def test_a_rank_may_choose_itself() -> None:
    config = RunConfig("sac", "Pendulum-v1", rank="auto")
    assert RunConfig.from_dict(parse_yaml(config.to_yaml(), "config.yml")) == config
    assert config.policy_kwargs["rank"] == "auto"


def test_only_tucker_takes_ranks() -> None:
    assert RunConfig("sac", "Pendulum-v1", critic="tucker", rank=(8, 4)).rank == (8, 4)
    with pytest.raises(
        UsageError, match=r"rank must be an int of at least 1 or 'auto', not \[8, 0\] \(list\)"
    ):
        RunConfig("sac", "Pendulum-v1", critic="tucker", rank=(8, 0))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"algo": "sacc"}, "unknown algorithm 'sacc'; did you mean 'sac'?"),
        ({"algo": "ppo"}, "unknown algorithm 'ppo'; known are sac, td3, dqn"),
        ({"env": "../../etc"}, "env must be an environment's id such as Pendulum-v1, ALE/Pong-v5 or"),
        ({"env": ".."}, "env must be"),
        ({"env": ""}, "env must be"),
        ({"env": "a/b/c"}, "env must be"),
        ({"critic": "cpp"}, "unknown critic 'cpp' for sac; did you mean 'cp'?"),
        ({"critic": "dueling"}, "unknown critic 'dueling' for sac; known are cp, tucker"),
        ({"n_timesteps": 0}, "n_timesteps must be an int of at least 1, not 0 (int)"),
        ({"n_timesteps": 1.5}, "n_timesteps must be an int of at least 1, not 1.5 (float)"),
        ({"n_timesteps": "many"}, "n_timesteps must be an int of at least 1, not 'many' (str)"),
        ({"n_envs": 0}, "n_envs must be"),
        ({"n_envs": True}, "n_envs must be an int of 1 to 10000, not True (bool)"),
        ({"seed": -1}, "seed must be an int of 0 to 2147483647, not -1 (int)"),
        ({"eval_freq": 0}, "eval_freq must be an int of at least 1 or"),
        ({"vec_env": "thread"}, "vec_env must be one of dummy, subproc, not 'thread' (str)"),
        ({"device": "gpu"}, "device must be auto, cpu, mps, cuda or cuda:N, not 'gpu' (str)"),
        ({"update": "fast"}, "update must be one of auto, compiled, eager, reference"),
        ({"folder": " "}, "folder must be text that is not empty"),
        ({"gym_packages": ("a b",)}, "gym_packages must be a list of names of modules"),
        ({"gym_packages": "ale_py"}, "gym_packages must be a list of names of modules"),
        ({"env_kwargs": [1]}, "env_kwargs must be a mapping"),
        ({"env_kwargs": {1: 2}}, "env_kwargs: key 1 must be text"),
        ({"env_kwargs": {"a": object}}, "env_kwargs.a must be plain data"),
        ({"hyperparams": 3}, "hyperparams must be a mapping, not 3"),
        ({"hyperparams": {"rank": 3}}, "rank is a field of RunConfig; take it out of hyperparams"),
        ({"hyperparams": {"policy_kwargs": {"rank": 3}}}, "rank is a field of RunConfig"),
    ],
)
def test_fields_are_checked(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        RunConfig(**{"algo": "sac", "env": "Pendulum-v1", **fields})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("learnig_rate", 1e-3, "unknown key 'learnig_rate' for sac; did you mean 'learning_rate'?"),
        ("policy_delay", 2, "key 'policy_delay' is for td3, not sac"),
        ("learning_rate", "foo_3e-4", "learning_rate must be a positive number, 'lin_START' (falls to 0) or"),
        ("learning_rate", 0, "learning_rate must be a positive number"),
        ("gamma", 1.1, "gamma must be a number of at least 0 and at most 1, not 1.1 (float)"),
        ("gamma", math.nan, "gamma must be a number, not nan"),
        ("gamma", math.inf, "gamma must be a number of at least 0"),
        ("tau", 0, "tau must be a number above 0 and at most 1, not 0 (int)"),
        ("batch_size", 2.5, "batch_size must be an int of at least 1"),
        (
            "train_freq",
            [1, "episodes"],
            "train_freq must be an int of at least 1 or a pair such as [1, episode]",
        ),
        ("train_freq", [1], "train_freq must be"),
        ("gradient_steps", -2, "gradient_steps must be"),
        ("ent_coef", "auto_0", "ent_coef must be a number of at least 0 or 'auto', or 'auto_START'"),
        ("ent_coef", "auto_x", "ent_coef must be"),
        ("ent_coef", "high", "ent_coef must be"),
        ("use_sde", "yes", "use_sde must be true or false, not 'yes' (str)"),
        ("noise_type", "pink", "noise_type must be one of normal, ornstein-uhlenbeck, not 'pink' (str)"),
        ("precision", "fp16", "precision must be one of fp32, bf16"),
        ("n_target_actions", 0, "n_target_actions must be"),
        ("policy", "MlpPolcy", "policy: unknown name 'MlpPolcy'; did you mean 'MlpPolicy'?"),
        ("policy", 3, "policy must be SNAPolicy or the dotted name of a class"),
        ("policy_kwargs", "dict(", "policy_kwargs: the text can't be read from 'dict('"),
        ("policy_kwargs", {"rnak": 3}, "policy_kwargs: unknown key 'rnak'; did you mean 'rank'?"),
        ("policy_kwargs", {"width": 0}, "policy_kwargs: width must be an int of 1 to 1000000, not 0 (int)"),
        ("policy_kwargs", {"net_arch": [64, 0]}, "policy_kwargs: net_arch must be a list of widths"),
        (
            "policy_kwargs",
            {"net_arch": {"vf": [64]}},
            "policy_kwargs: net_arch: unknown key 'vf'; known are pi, qf",
        ),
        (
            "policy_kwargs",
            {"activation_fn": "nn.RELU"},
            "policy_kwargs: activation_fn must be one of nn.ReLU,",
        ),
        (
            "policy_kwargs",
            {"activation_fn": "os.ReLU"},
            "policy_kwargs: activation_fn must be one of nn.ReLU,",
        ),
        ("policy_kwargs", {"optimizer_class": "os.system"}, "policy_kwargs: optimizer_class must be one of"),
        ("normalize", {"norm_ob": True}, "normalize: unknown key 'norm_ob'; did you mean 'norm_obs'?"),
        ("normalize", "always", "normalize must be true or false or a mapping"),
        ("monitor_kwargs", {"filename": "x"}, "monitor_kwargs: unknown key 'filename'; known are"),
        ("replay_buffer_kwargs", "dict(n_sampled_goal=0)", "replay_buffer_kwargs: n_sampled_goal must be"),
        ("env_wrapper", "TimeLimit", "env_wrapper must be dotted names of classes"),
        ("env_wrapper", {"gymnasium.wrappers.TimeLimit": 3}, "env_wrapper must be dotted names of classes"),
        ("callback", [[]], "callback must be dotted names of classes"),
        ("env_wrapper", "os.system", "env_wrapper names 'os.system', which is not registered"),
        ("callback", ["subprocess.Popen"], "callback names 'subprocess.Popen', which is not registered"),
        ("policy", "evil.Policy", "policy names 'evil.Policy', which is not registered; list its module"),
        ("vec_env_wrapper", "sna_rl.cli.Main", "vec_env_wrapper names 'sna_rl.cli.Main'"),
        ("callback", "stable_baselines3.common.save_util.load_from_pkl", "callback names"),
        ("callback", "stable_baselines3.common.callbacks.os.system", "callback names"),
        ("replay_buffer_class", "pickle.loads", "replay_buffer_class names 'pickle.loads'"),
        ("policy_kwargs", {"features_extractor_class": "pickle.loads"}, "features_extractor_class names"),
        ("verbose", "a\nb", r"verbose must be an int of 0 to 2, not 'a\nb' (str)"),
        ("a\nb" * 99, 1, r"unknown key 'a\nba\nb"),
    ],
)
def test_hyperparameters_are_checked(key: str, value: object, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        sac(**{key: value})
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("buffer_size", 1e6, 1_000_000),
        ("learning_rate", "3e-4", 3e-4),
        ("learning_rate", "lin_3e-4", "lin_3e-4"),
        ("train_freq", (1, "episode"), [1, "episode"]),
        ("ent_coef", "auto_0.1", "auto_0.1"),
        ("normalize", "{'norm_obs': True}", {"norm_obs": True}),
        ("policy", "MlpPolicy", "SNAPolicy"),
        ("policy", "CnnPolicy", "SNACnnPolicy"),
        ("policy", "sna_rl.agents.SNASACPolicy", "sna_rl.agents.SNASACPolicy"),
        ("replay_buffer_class", "HerReplayBuffer", "stable_baselines3.HerReplayBuffer"),
        ("policy_kwargs", "dict(activation_fn=nn.ReLU)", {"activation_fn": "nn.ReLU"}),
        ("policy_kwargs", {"activation_fn": "torch.nn.ELU"}, {"activation_fn": "nn.ELU"}),
        ("env_wrapper", "gymnasium.wrappers.TimeAwareObservation", "gymnasium.wrappers.TimeAwareObservation"),
    ],
)
def test_hyperparameters_take_their_true_form(key: str, value: object, kept: object) -> None:
    config = sac(**{key: value})
    assert config.hyperparams == {key: kept}
    assert type(config.hyperparams[key]) is type(kept)


def test_null_leaves_a_hyperparameter_at_its_default() -> None:
    assert sac(noise_type=None, env_wrapper=None).hyperparams == {}


def test_listed_modules_may_be_named() -> None:
    wrapped: dict[str, object] = {"env_wrapper": [{"mine.wrappers.Slow": {"factor": 2}}]}
    config = RunConfig("sac", "mine:Maze-v0", gym_packages=("mine",), hyperparams=wrapped)
    assert config.hyperparams == wrapped
    with pytest.raises(UsageError, match="list its module with --gym-packages mine"):
        sac(**wrapped)


def test_the_callers_dicts_are_neither_changed_nor_shared() -> None:
    """Case R8: one dict serves several algorithms and stays as it was."""
    kwargs = {"net_arch": [64, 64], "optimizer_kwargs": {"eps": 1e-5}}
    before = deepcopy(kwargs)
    configs = [RunConfig(algo, "X-v0", hyperparams={"policy_kwargs": kwargs}) for algo in ALGORITHMS]
    for config in configs:
        config.policy_kwargs["use_sde"] = False
        config.policy_kwargs["net_arch"].append(1)
        config.to_dict()["policy_kwargs"]["net_arch"].append(1)  # type: ignore[index]
    kwargs["net_arch"].append(2)  # type: ignore[attr-defined]
    assert all(config.hyperparams["policy_kwargs"] == before for config in configs)


def test_it_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        sac().seed = 3  # type: ignore[misc]


def test_replacing_merges_what_ends_in_kwargs_and_checks_again() -> None:
    """Case R9: a rank in the configuration survives other changes of the policy's arguments."""
    config = RunConfig("sac", "Pendulum-v1", rank=4, hyperparams={"policy_kwargs": {"width": 64}})
    changed = config.replace(policy_kwargs={"depth": 1}, learning_rate=1e-3, n_timesteps=1e4)
    assert changed.policy_kwargs == {"width": 64, "depth": 1, "critic": "cp", "rank": 4}
    assert (changed.n_timesteps, changed.hyperparams["learning_rate"]) == (10_000, 1e-3)
    assert config.hyperparams == {"policy_kwargs": {"width": 64}}
    assert config.replace(policy_kwargs={"rank": 8}).rank == 8
    assert changed.replace(learning_rate=None).hyperparams == {"policy_kwargs": {"width": 64, "depth": 1}}
    assert config.replace(env_kwargs={"g": 9.8}).replace(env_kwargs={"h": 1}).env_kwargs == {"g": 9.8, "h": 1}
    with pytest.raises(UsageError, match="rank is given twice: 8, and 4 in policy_kwargs"):
        config.replace(rank=8, policy_kwargs={"rank": 4})
    with pytest.raises(UsageError, match="unknown key 'policy_kwarg'"):
        config.replace(policy_kwarg={})


def test_differences() -> None:
    a = RunConfig("sac", "Pendulum-v1", hyperparams={"gamma": 0.9, "policy_kwargs": {"width": 64}})
    b = a.replace(rank=8, gamma=None, policy_kwargs={"width": 32, "depth": 1})
    assert diff(a, a) == {}
    assert diff(a, b) == {
        "rank": (32, 8),
        "gamma": (0.9, "absent"),
        "policy_kwargs.width": (64, 32),
        "policy_kwargs.depth": ("absent", 1),
    }


PLAIN: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False)
    | st.text("ab:#é\n '\"-"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz_", min_size=1), inner, max_size=3)
    ),
    max_leaves=6,
)
KWARGS: st.SearchStrategy[dict[str, object]] = st.dictionaries(
    st.text("abcd_", min_size=1), PLAIN, max_size=3
)


@st.composite
def fields(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of any valid configuration."""
    algo = draw(st.sampled_from(ALGORITHMS))
    critic = draw(st.sampled_from(CRITICS[algo]))
    rank = st.integers(1, 512)
    ranks: st.SearchStrategy[Any] = (
        st.lists(rank, min_size=1, max_size=3).map(tuple) if critic == "tucker" else rank
    )
    hyperparams = {
        "learning_rate": st.floats(1e-10, 1) | st.sampled_from(["lin_3e-4", "lin_3e-4_1e-5", 1e-10]),
        "gamma": st.floats(0, 1),
        "train_freq": st.integers(1, 64) | st.just([1, "episode"]),
        "buffer_size": st.sampled_from([1e6, 1000]),
        "policy": st.sampled_from(["SNAPolicy", "MlpPolicy", "sna_rl.agents.SNAPolicy"]),
        "policy_kwargs": st.fixed_dictionaries(
            {},
            optional={"net_arch": st.lists(st.integers(1, 400)), "signed": st.booleans(), "order": st.none()},
        ),
        "normalize": st.booleans() | st.just({"norm_reward": False, "clip_obs": 5}),
        "env_wrapper": st.just(["gymnasium.wrappers.FlattenObservation", {"mine.W": {"skip": 2}}]),
    }
    return {
        "algo": algo,
        "env": draw(
            st.sampled_from(["Pendulum-v1", "ALE/Pong-v5", "mine:Maze-v0", "sna_rl.envs:SNA/LQR-v0"])
        ),
        "critic": critic,
        "rank": draw(ranks),
        "n_timesteps": draw(st.sampled_from([1, 10**9, 1e6])),
        "seed": draw(st.integers(0, 2**31 - 1)),
        "folder": draw(st.text(min_size=1).filter(lambda text: text.strip() and "\0" not in text)),
        "eval_env_kwargs": draw(st.none() | KWARGS),
        "env_kwargs": draw(KWARGS),
        "gym_packages": ("mine",),
        "hyperparams": draw(st.fixed_dictionaries({}, optional=hyperparams)),
    }


@settings(max_examples=30)
@given(fields())
def test_configuration_to_yaml_and_back_is_exact(given_fields: dict[str, Any]) -> None:
    config = RunConfig(**given_fields)
    data = parse_yaml(config.to_yaml(), "config.yml")
    again = RunConfig.from_dict(data)
    assert again == config
    assert again.to_yaml() == config.to_yaml()
    assert diff(again, config) == {}
    assert config.replace() == config


def test_reading_a_runs_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    config = RunConfig("td3", "mine:Maze-v0", gym_packages=("mine", "yours"), seed=7)
    path.write_text(config.to_yaml())
    assert RunConfig.from_yaml(path, ["yours", "mine"]) == config
    with pytest.raises(
        UsageError, match=r"config\.yml asks to import 'yours'; add --gym-packages yours if you"
    ):
        RunConfig.from_yaml(path, ["mine"])
    write_yaml(path, {"algo": "td3", "env": "evil:Maze-v0"})
    with pytest.raises(UsageError, match=r"config\.yml asks to import 'evil'"):
        RunConfig.from_yaml(path)
    write_yaml(path, {"env": "Pendulum-v1"})
    with pytest.raises(UsageError, match=r"config\.yml: a run's configuration needs the key 'algo'"):
        RunConfig.from_yaml(path)
    write_yaml(path, {"algo": "td3", "env": "Pendulum-v1", "ranks": 3})
    with pytest.raises(UsageError, match=r"config\.yml: unknown key 'ranks' for td3; did you mean 'rank'\?"):
        RunConfig.from_yaml(path)


KEYS = st.sampled_from(["algo", *RUN_RULES, *HYPERPARAMETERS["sac"], "learnig_rate"])
WORDS = st.sampled_from(
    ["sac", "dqn", "Pendulum-v1", "dict(rank=2)", "lin_1", "auto", "nn.ReLU", "os.system"]
)


@settings(max_examples=300)
@given(st.dictionaries(KEYS, PLAIN | WORDS, max_size=3))
def test_any_mapping_gives_a_configuration_or_one_sentence(data: dict[str, object]) -> None:
    try:
        config = RunConfig.from_dict({"algo": "sac", "env": "Pendulum-v1", **data}, "config.yml")
    except UsageError as error:
        assert str(error).startswith("config.yml: ")  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert RunConfig.from_dict(config.to_dict()) == config
