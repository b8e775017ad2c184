"""Zips of Stable-Baselines3 from elsewhere: what they hold is read first, and unpickled only when trusted."""

from __future__ import annotations

import json
import re
import warnings
import zipfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sna_rl.errors import SnaError, UsageError, require, suggestion
from sna_rl.runs.files import check_file
from sna_rl.training.environments import describe_space, first_line

ALGORITHMS = {
    "sac": "stable_baselines3.SAC",
    "td3": "stable_baselines3.TD3",
    "ddpg": "stable_baselines3.DDPG",
    "dqn": "stable_baselines3.DQN",
    "ppo": "stable_baselines3.PPO",
    "a2c": "stable_baselines3.A2C",
    "tqc": "sb3_contrib.TQC",
    "crossq": "sb3_contrib.CrossQ",
    "qrdqn": "sb3_contrib.QRDQN",
}
SIGNS = (
    ("tqc", {"top_quantiles_to_drop_per_net"}),
    ("crossq", {"ent_coef", "policy_delay"}),
    ("sac", {"ent_coef", "target_entropy"}),
    ("td3", {"policy_delay"}),
    ("dqn", {"exploration_fraction"}),
    ("ppo", {"clip_range"}),
    ("a2c", {"gae_lambda"}),
)
"""Attributes by which an algorithm's zip is known, the most telling first."""
MAX_SIZE = 2**33
MAX_RATIO = 100


@dataclass(frozen=True)
class Archive:
    """What a zip of Stable-Baselines3 says about itself without unpickling anything.

    Args:
        path: the zip.
        algo: name of its algorithm, None where nothing tells.
        pickled: names of what must be unpickled to load it.
        policy_module: module of the policy's class.
    """

    path: Path
    algo: str | None
    pickled: tuple[str, ...]
    policy_module: str


def read_archive(path: Path) -> Archive:
    """Read a zip's plain part.

    Args:
        path: the zip.

    Returns:
        What it says about itself.

    Raises:
        SnaError: if it is damaged, no agent of Stable-Baselines3, or grows too large when unpacked.
    """
    check_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            held = sum(item.file_size for item in archive.infolist())
            if held > min(MAX_SIZE, MAX_RATIO * path.stat().st_size + 2**20):
                raise SnaError(f"{str(path)!r} unpacks to {held:,} bytes; no agent packs that tightly")
            if damaged := archive.testzip():
                raise SnaError(f"{str(path)!r} is damaged: {damaged} doesn't match its checksum")
            data = json.loads(archive.read("data"))
    except KeyError as error:
        raise SnaError(f"{str(path)!r} is no whole agent of Stable-Baselines3: it holds no 'data'") from error
    except (OSError, zipfile.BadZipFile, ValueError, RecursionError, NotImplementedError, EOFError) as error:
        raise SnaError(f"{str(path)!r} is no whole zip of Stable-Baselines3 ({first_line(error)})") from error
    if not isinstance(data, dict):
        raise SnaError(f"{str(path)!r} is no agent of Stable-Baselines3: its 'data' is no mapping")
    policy = data.get("policy_class")
    module = str(policy.get("__module__", "")) if isinstance(policy, dict) else ""
    algo = next((name for name, signs in SIGNS if signs <= data.keys()), None)
    if algo == "dqn" and re.search(r"\bqrdqn\b", module):
        algo = "qrdqn"
    pickled = tuple(key for key, value in data.items() if isinstance(value, dict) and ":serialized:" in value)
    return Archive(path, algo, pickled, module)


def load_archive(
    archive: Archive, env: VecEnv | None, *, algo: str | None, trust: bool, device: str
) -> BaseAlgorithm:
    """Load an agent that Stable-Baselines3 saved; this unpickles, which can run any code in the zip.

    Args:
        archive: what `read_archive` gave.
        env: environments it shall act in; None takes the spaces it was saved with.
        algo: its algorithm, where the zip doesn't tell or tells wrong.
        trust: the user knows where the zip comes from.
        device: where its networks go.

    Returns:
        The agent, with an empty replay buffer of one transition.

    Raises:
        UsageError: without `trust`, for an unknown algorithm, or spaces that don't match.
        SnaError: if it can't be loaded.
    """
    path = str(archive.path)
    if not trust:
        raise UsageError(
            f"{path!r} comes from elsewhere and holds pickled objects ({', '.join(archive.pickled)}), "
            "which can run any code when loaded; add --trust if you know its origin"
        )
    name = algo or archive.algo
    if name not in ALGORITHMS:
        reason = (
            "doesn't tell its algorithm; name it with --algo" if name is None else f"can't be of {name!r}"
        )
        raise UsageError(f"{path!r} {reason}{suggestion(name or '', ALGORITHMS)}")
    module, _, attribute = ALGORITHMS[name].rpartition(".")
    if module == "sb3_contrib":
        require(module, "contrib")
    found: type[BaseAlgorithm] = getattr(import_module(module), attribute)
    small: dict[str, Any] = (
        {"buffer_size": 1, "optimize_memory_usage": False} if issubclass(found, OffPolicyAlgorithm) else {}
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            saved = found.load(archive.path, device=device, **small)
    except ModuleNotFoundError as error:
        raise SnaError(f"{path!r} needs the package {error.name!r}, which isn't installed") from error
    except Exception as error:  # unpickling can raise anything
        raise SnaError(f"{path!r} can't be loaded as {name}: {first_line(error)}") from error
    if env is not None:
        check_spaces(path, saved, env)
        saved.n_envs = env.num_envs  # it may act in more or fewer than it learned in
        saved.set_env(env)
    return saved


def check_spaces(path: str, model: BaseAlgorithm, env: VecEnv) -> None:
    """Refuse environments whose spaces aren't the agent's, and show both.

    Args:
        path: where the agent comes from, for the message.
        model: the agent.
        env: environments.

    Raises:
        UsageError: if they differ.
    """
    spaces = (
        ("observations", model.observation_space, env.observation_space),
        ("actions", model.action_space, env.action_space),
    )
    for what, own, given in spaces:
        if own != given:
            trained, offered = describe_space(own), describe_space(given)
            raise UsageError(f"{path!r} was trained on {what} {trained}, but the environment has {offered}")
