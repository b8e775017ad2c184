"""Every key a configuration may hold, with the rule of its value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sna_rl.config.literals import ACTIVATIONS, OPTIMIZERS
from sna_rl.config.plain import shown
from sna_rl.config.rules import (
    BOOLEAN,
    CLASS,
    DOTTED,
    ENTROPY,
    FILLED,
    MAPPING,
    NOTHING,
    POLICY,
    SCHEDULE,
    TEXT,
    WRAPPERS,
    Rule,
    choice,
    either,
    integer,
    listing,
    matching,
    number,
    pair,
    record,
    symbol,
)
from sna_rl.errors import UsageError, suggestion

ALGORITHMS: Final = ("sac", "td3", "dqn")
_BOTH: Final = ("cp", "tucker", "additive", "mlp", "mlp-matched")
CRITICS: Final[Mapping[str, tuple[str, ...]]] = {
    "sac": (*_BOTH, "spline-joint"),
    "td3": (*_BOTH, "spline-joint"),
    "dqn": (*_BOTH, "dueling"),
}

_COUNT: Final = integer(1)
_FEW: Final = integer(1, 10_000)
"""A number of things that are made one by one: each costs time and memory before anything is trained."""
_SIZE: Final = integer(1, 1_000_000)
"""A width that memory can hold."""
_RANK: Final = integer(1, exact=True)
_SHARE: Final = number(0, 1)
_PACKAGE: Final = matching(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", "the name of a module")

RUN_RULES: Final[Mapping[str, Rule]] = {
    "algo": choice(*ALGORITHMS),
    "env": matching(
        r"([A-Za-z_][\w.]*:)?(\w[\w-]*/)?\w[\w.-]*",
        "an environment's id such as Pendulum-v1, ALE/Pong-v5 or package:Name-v0",
    ),
    "critic": TEXT,
    "rank": Rule(
        "an int of at least 1 or 'auto'",
        either(_RANK, choice("auto"), listing(_RANK, "ranks", least=1)).accept,
    ),
    "n_timesteps": _COUNT,
    "seed": integer(0, 2**31 - 1),
    "folder": FILLED,
    "tensorboard_log": TEXT,
    "eval_freq": either(_COUNT, integer(-1, -1)),
    "eval_episodes": _COUNT,
    "n_eval_envs": _FEW,
    "save_freq": either(_COUNT, integer(-1, -1)),
    "n_envs": _FEW,
    "vec_env": choice("dummy", "subproc"),
    "env_kwargs": MAPPING,
    "eval_env_kwargs": either(MAPPING, NOTHING),
    "gym_packages": listing(_PACKAGE, "a list of names of modules"),
    "num_threads": integer(1, 1024),
    "device": matching(r"auto|cpu|mps|cuda(:\d+)?", "auto, cpu, mps, cuda or cuda:N"),
    "update": choice("auto", "compiled", "eager", "reference"),
}
"""Rules of RunConfig's own fields."""

_NAMES: Final = listing(FILLED, "a list of names")
NORMALIZE: Final[Mapping[str, Rule]] = {
    "training": BOOLEAN,
    "norm_obs": BOOLEAN,
    "norm_reward": BOOLEAN,
    "clip_obs": number(above=0),
    "clip_reward": number(above=0),
    "gamma": _SHARE,
    "epsilon": number(above=0),
    "norm_obs_keys": either(_NAMES, NOTHING),
}
MONITOR: Final[Mapping[str, Rule]] = {
    "allow_early_resets": BOOLEAN,
    "reset_keywords": _NAMES,
    "info_keywords": _NAMES,
}
REPLAY_BUFFER: Final[Mapping[str, Rule]] = {
    "handle_timeout_termination": BOOLEAN,
    "n_sampled_goal": _COUNT,
    "goal_selection_strategy": choice("future", "final", "episode"),
    "copy_info_dict": BOOLEAN,
}
_ZOO: Final[Mapping[str, Rule]] = {
    "policy": POLICY,
    "policy_kwargs": MAPPING,
    "normalize": either(BOOLEAN, record(NORMALIZE)),
    "frame_stack": _FEW,
    "env_wrapper": WRAPPERS,
    "vec_env_wrapper": WRAPPERS,
    "callback": WRAPPERS,
    "monitor_kwargs": record(MONITOR),
}
_OFF_POLICY: Final[Mapping[str, Rule]] = {
    "learning_rate": SCHEDULE,
    "buffer_size": _COUNT,
    "learning_starts": integer(0),
    "batch_size": _COUNT,
    "tau": number(above=0, most=1),
    "gamma": _SHARE,
    "train_freq": either(_COUNT, pair(_COUNT, choice("step", "episode"), "a pair such as [1, episode]")),
    "gradient_steps": either(_COUNT, integer(-1, -1)),
    "replay_buffer_class": CLASS,
    "replay_buffer_kwargs": record(REPLAY_BUFFER),
    "optimize_memory_usage": BOOLEAN,
    "n_steps": _COUNT,
    "stats_window_size": _COUNT,
    "verbose": integer(0, 2),
    "n_target_actions": _COUNT,
    "precision": choice("fp32", "bf16"),
}
_NOISE: Final[Mapping[str, Rule]] = {
    "noise_type": choice("normal", "ornstein-uhlenbeck"),
    "noise_std": number(0),
}
_OWN: Final[Mapping[str, Mapping[str, Rule]]] = {
    "sac": {
        **_NOISE,
        "ent_coef": either(number(0), ENTROPY),
        "target_update_interval": _COUNT,
        "target_entropy": either(number(), choice("auto")),
        "use_sde": BOOLEAN,
        "sde_sample_freq": either(_COUNT, integer(-1, -1)),
        "use_sde_at_warmup": BOOLEAN,
    },
    "td3": {
        **_NOISE,
        "policy_delay": _COUNT,
        "target_policy_noise": number(0),
        "target_noise_clip": number(0),
    },
    "dqn": {
        "target_update_interval": _COUNT,
        "exploration_fraction": _SHARE,
        "exploration_initial_eps": _SHARE,
        "exploration_final_eps": _SHARE,
        "max_grad_norm": number(above=0),
    },
}
HYPERPARAMETERS: Final[Mapping[str, Mapping[str, Rule]]] = {
    algo: {**_ZOO, **_OFF_POLICY, **_OWN[algo]} for algo in ALGORITHMS
}
"""Rules of the keys that go to the environment's wrappers, the policy and the constructor, by algorithm."""

_WIDTHS: Final = listing(_SIZE, "a list of widths", least=0)
_MODES: Final = either(
    NOTHING,
    choice("each"),
    listing(listing(integer(0), "a list of columns", least=1), "lists of columns, one a mode", least=1),
)
_AUTO: Final = choice("auto")
_CRITIC: Final[Mapping[str, Rule]] = {
    "critic": RUN_RULES["critic"],
    "rank": RUN_RULES["rank"],
    "factor": choice("mlp", "linear", "spline"),
    "width": _SIZE,
    "depth": integer(0, 10_000),
    "action_depth": integer(0, 10_000),
    "layer_norm": either(BOOLEAN, _AUTO),
    "signed": either(BOOLEAN, NOTHING),
    "init": choice("scaled", "paper"),
    "branch_width": either(_SIZE, _AUTO, NOTHING),
    "order": either(_COUNT, NOTHING),
    "state_modes": _MODES,
    "action_modes": _MODES,
    "n_knots": integer(2, 1_000_000),
    "n_coordinates": _SIZE,
    "max_grad_norm": either(number(above=0), _AUTO, NOTHING),
    "critic_lr_ratio": number(above=0),
}
_POLICY: Final[Mapping[str, Rule]] = {
    "net_arch": either(_WIDTHS, record({"pi": _WIDTHS, "qf": _WIDTHS}), NOTHING),
    "activation_fn": symbol("nn", ACTIVATIONS),
    "features_extractor_class": DOTTED,
    "features_extractor_kwargs": either(MAPPING, NOTHING),
    "normalize_images": BOOLEAN,
    "optimizer_class": symbol("optim", OPTIMIZERS),
    "optimizer_kwargs": either(MAPPING, NOTHING),
}
_ACTOR_CRITIC: Final[Mapping[str, Rule]] = {"n_critics": _FEW, "share_features_extractor": BOOLEAN}
POLICY_KEYS: Final[Mapping[str, Mapping[str, Rule]]] = {
    "sac": {
        **_POLICY,
        **_CRITIC,
        **_ACTOR_CRITIC,
        "use_sde": BOOLEAN,
        "log_std_init": number(),
        "use_expln": BOOLEAN,
        "clip_mean": number(0),
    },
    "td3": {**_POLICY, **_CRITIC, **_ACTOR_CRITIC},
    "dqn": {**_POLICY, **_CRITIC},
}
"""Rules of what `policy_kwargs` may hold with our policies, by algorithm."""


def unknown_key(algo: str, key: str) -> UsageError:
    """The error that tells which key was meant, or which algorithm a key belongs to.

    Args:
        algo: algorithm that is configured.
        key: the key it does not know.

    Returns:
        The error, to raise.

    Example:
        >>> unknown_key("sac", "policy_delay")
        UsageError("key 'policy_delay' is for td3, not sac")
        >>> unknown_key("sac", "learnig_rate")
        UsageError("unknown key 'learnig_rate' for sac; did you mean 'learning_rate'?")
    """
    owners = [other for other in ALGORITHMS if key in HYPERPARAMETERS[other]]
    if owners:
        return UsageError(f"key {shown(key)} is for {' and '.join(owners)}, not {algo}")
    return UsageError(
        f"unknown key {shown(key)} for {algo}{suggestion(key, [*HYPERPARAMETERS[algo], *RUN_RULES])}"
    )
