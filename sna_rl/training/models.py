"""Saving and loading an agent: a zip for plain Stable-Baselines3, tensors for this library."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecNormalize

from sna_rl.agents.plain import decode, load_own_state
from sna_rl.errors import SnaError, UsageError
from sna_rl.runs import atomic_write
from sna_rl.runs.checkpoints import Checkpoint
from sna_rl.runs.files import DAMAGE, check_file
from sna_rl.training.environments import describe_space, first_line

POLICY = "policy/"
STATISTICS = "vecnormalize/"
ABOUT = "sna-rl"
"""Key of the metadata; one alone, since a file's keys have no fixed order."""


def save_model(model: BaseAlgorithm, archive: Path, tensors: Path, vecnormalize: Path) -> None:
    """Write an agent with the VecNormalize statistics it has now; each file is whole or absent.

    Args:
        model: the agent.
        archive: zip that Stable-Baselines3 loads.
        tensors: policy and statistics as tensors, the only file of the three that `load_tensors` reads.
        vecnormalize: statistics as Stable-Baselines3 pickles them; left out without VecNormalize.

    Raises:
        OSError: if one can't be written.
    """
    statistics = model.get_vec_normalize_env()
    with atomic_write(archive) as file:
        model.save(file)  # type: ignore[arg-type]
    if statistics is not None:
        with atomic_write(vecnormalize) as file:
            pickle.dump(statistics, file)
    held = {POLICY + key: value.detach().cpu().clone() for key, value in model.policy.state_dict().items()}
    if statistics is not None:
        held |= {
            STATISTICS + key: torch.tensor(value) for key, value in normalization_arrays(statistics).items()
        }
    about = {"n_timesteps": model.num_timesteps, **_spaces(model)}
    with atomic_write(tensors) as file:
        file.write(save(held, metadata={ABOUT: json.dumps(about)}))


def load_tensors(path: Path, model: BaseAlgorithm) -> None:
    """Give an agent the policy and the VecNormalize statistics that `save_model` wrote; no pickle is opened.

    Args:
        path: the `.safetensors` file.
        model: an agent built from the same configuration, with environments.

    Raises:
        UsageError: if it was trained on other spaces; both are shown.
        SnaError: if the file is absent, damaged, or fits another agent.
    """
    if path.exists():
        check_file(path)
    try:
        with safe_open(path, "pt") as file:
            about = dict(json.loads((file.metadata() or {}).get(ABOUT, "{}")))
            held = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        n_timesteps = int(about.pop("n_timesteps", 0))
    except (*DAMAGE, SafetensorError, RecursionError) as error:
        reason = (
            "is no whole file of tensors" if path.exists() else "is absent; the run ended before it saved"
        )
        raise SnaError(f"{str(path)!r} {reason}") from error
    for what, given in _spaces(model).items():
        if about.get(what, given) != given:
            raise UsageError(f"{str(path)!r} was trained with {what} {about[what]}, but here it is {given}")
    policy = {key.removeprefix(POLICY): value for key, value in held.items() if key.startswith(POLICY)}
    _load_policy(model, policy, path)
    model.num_timesteps = n_timesteps
    statistics = model.get_vec_normalize_env()
    if statistics is not None:
        arrays = {
            key.removeprefix(STATISTICS): held[key].numpy() for key in held if key.startswith(STATISTICS)
        }
        set_normalization_arrays(statistics, arrays)


def load_checkpoint(checkpoint: Checkpoint, model: BaseAlgorithm) -> None:
    """Give an agent the policy and the VecNormalize statistics of a checkpoint, and nothing else of it.

    Args:
        checkpoint: one of the run's checkpoints.
        model: an agent built from the same configuration, with environments.

    Raises:
        SnaError: if the checkpoint is damaged or fits another agent.
    """
    try:
        state = checkpoint.read()["model"]
        policy = {key: decode(value) for key, value in state["parameters"]["policy"].items()}
        _load_policy(model, policy, checkpoint.path)
        statistics = model.get_vec_normalize_env()
        for wrapper in state["env"]["wrappers"] if statistics is not None else ():
            if "ret_rms" in wrapper:
                load_own_state(
                    statistics, {key: wrapper[key] for key in ("obs_rms", "ret_rms") if key in wrapper}
                )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SnaError(
            f"checkpoint {str(checkpoint.path)!r} holds no such agent: {first_line(error)}"
        ) from error
    model.num_timesteps = checkpoint.step


def _load_policy(model: BaseAlgorithm, policy: Mapping[str, torch.Tensor], path: Path) -> None:
    """Copy parameters of the same names and shapes."""
    expected = model.policy.state_dict()
    for key in sorted({*policy, *expected}):
        saved, wanted = (tuple(each[key].shape) if key in each else None for each in (policy, expected))
        if saved != wanted:
            raise SnaError(f"{str(path)!r} doesn't fit: {key} has shape {saved} there and {wanted} here")
    model.policy.load_state_dict(policy)


def _spaces(model: BaseAlgorithm) -> dict[str, str]:
    """Spaces of an agent in words."""
    return {
        "observation space": describe_space(model.observation_space),
        "action space": describe_space(model.action_space),
    }


def normalization_arrays(statistics: VecNormalize) -> dict[str, NDArray[Any]]:
    """Running statistics of VecNormalize as arrays.

    Args:
        statistics: the wrapper.

    Returns:
        `<table>/mean`, `<table>/var`, `<table>/count`, where a table is "returns", "observations" or
        "observations/<key>" of a Dict.
    """
    return {
        f"{table}/{name}": np.asarray(getattr(running, name), dtype=np.float64)
        for table, running in _tables(statistics).items()
        for name in ("mean", "var", "count")
    }


def set_normalization_arrays(statistics: VecNormalize, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put back what `normalization_arrays` gave.

    Args:
        statistics: a wrapper around the same spaces.
        arrays: the arrays.

    Raises:
        SnaError: if they belong to other spaces.
    """
    for table, running in _tables(statistics).items():
        try:
            mean, var, count = (arrays[f"{table}/{name}"] for name in ("mean", "var", "count"))
        except KeyError as error:
            raise SnaError(f"the saved VecNormalize statistics lack {error.args[0]!r}") from error
        if np.shape(mean) != np.shape(running.mean):
            raise SnaError(
                f"the saved VecNormalize statistics have shape {np.shape(mean)}, "
                f"the environment's {table} {np.shape(running.mean)}"
            )
        running.mean, running.var, running.count = mean.copy(), var.copy(), float(count)


def _tables(statistics: VecNormalize) -> dict[str, RunningMeanStd]:
    """Running statistics by name."""
    tables = {"returns": statistics.ret_rms}
    if statistics.norm_obs:
        observations = statistics.obs_rms
        if isinstance(observations, dict):
            tables |= {f"observations/{key}": running for key, running in observations.items()}
        else:
            tables["observations"] = observations
    return tables
