"""Everything that decides how training goes on, as plain numbers and arrays: read from a model, put back."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from sna_rl.agents.plain import State, decode, encode, load_own_state, own_state

MODEL_ATTRIBUTES = (
    "num_timesteps",
    "_episode_num",
    "_n_updates",
    "_n_calls",
    "_current_progress_remaining",
    "exploration_rate",
    "ep_info_buffer",
    "ep_success_buffer",
    "_last_obs",
    "_last_original_obs",
    "_last_episode_starts",
)


def model_state(model: BaseAlgorithm) -> State:
    """Networks, optimizers, counters, generators and the environments' state of a model between two rollouts.

    Args:
        model: any off-policy algorithm of Stable-Baselines3.

    Returns:
        A nested state without the replay buffer's rows and without callbacks.

    Raises:
        TypeError: if an environment's state holds what can't be saved.
    """
    _, variables = model._get_torch_save_params()
    env = model.get_env()
    return {
        "parameters": {name: _keyed(state) for name, state in model.get_parameters().items()},
        "variables": {name: encode(_attribute(model, name)) for name in variables},
        "counters": {name: encode(getattr(model, name)) for name in MODEL_ATTRIBUTES if hasattr(model, name)},
        "noise": None if model_noise(model) is None else own_state(model_noise(model)),
        "exploration_matrices": {name: encode(value) for name, value in _exploration(model).items()},
        "logged": _logged(model),
        "env": None if env is None else vec_env_state(env),
        "generators": generators_state(model),
    }


def load_model_state(model: BaseAlgorithm, state: Mapping[str, Any]) -> bool:
    """Put back what `model_state` gave.

    Args:
        model: a model built from the same configuration.
        state: the saved state.

    Returns:
        Whether every environment came back exactly; where one did not, all begin a new episode.

    Raises:
        ValueError: if the networks are not of the saved shapes.
    """
    now: State = model.get_parameters()
    parameters: Any = {name: _unkeyed(state["parameters"][name], now[name]) for name in now}
    model.set_parameters(parameters, exact_match=True, device=model.device)
    for name, saved in state["variables"].items():
        if _attribute(model, name).requires_grad:
            _attribute(model, name).data.copy_(decode(saved))
    for name, saved in state["counters"].items():
        value = decode(saved, model.device)
        former = getattr(model, name, None)
        setattr(model, name, deque(value, maxlen=former.maxlen) if isinstance(former, deque) else value)
    noise = model_noise(model)
    if noise is not None and state["noise"] is not None:
        load_own_state(noise, state["noise"])
    for name, saved in state["exploration_matrices"].items():
        setattr(model.actor.action_dist, name, decode(saved, model.device))  # type: ignore[attr-defined]
    for name, saved in state["logged"].items():
        getattr(model.logger, name).clear()
        getattr(model.logger, name).update(saved)
    env = model.get_env()
    same = env is None or state["env"] is None or load_vec_env_state(env, state["env"])
    if not same and env is not None:
        model._last_obs = env.reset()  # type: ignore[assignment]
        model._last_original_obs = None
        model._last_episode_starts = np.ones(env.num_envs, dtype=bool)
        normalize = model.get_vec_normalize_env()
        if normalize is not None:
            model._last_original_obs = normalize.get_original_obs()
    load_generators_state(model, state["generators"])
    return same


def generators_state(model: BaseAlgorithm) -> State:
    """State of every generator that training draws from: Python's, NumPy's, torch's, the action space's."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),
        "torch": torch.get_rng_state().numpy(),
        "cuda": [rng.cpu().numpy() for rng in torch.cuda.get_rng_state_all()]
        if torch.cuda.is_available()
        else [],
        "action_space": model.action_space.np_random.bit_generator.state,
    }


def load_generators_state(model: BaseAlgorithm, state: Mapping[str, Any]) -> None:
    """Put back what `generators_state` gave."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(torch.from_numpy(state["torch"]))
    if torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([torch.from_numpy(rng) for rng in state["cuda"]])
    model.action_space.np_random.bit_generator.state = state["action_space"]


def vec_env_state(env: VecEnv) -> State:
    """State of a vector of environments and of its wrappers (VecNormalize's statistics, stacked frames).

    Args:
        env: environments that are each wrapped in a `Recorder`.

    Returns:
        `wrappers`, outermost first, and `envs`: what each environment recorded, None without recorders.
    """
    wrappers = []
    while isinstance(env, VecEnvWrapper):
        wrappers.append(own_state(env))
        env = env.venv
    recorded = env.has_attr("recorded")
    return {"wrappers": wrappers, "envs": env.env_method("recorded") if recorded else None}


def load_vec_env_state(env: VecEnv, state: Mapping[str, Any]) -> bool:
    """Put back what `vec_env_state` gave.

    Args:
        env: environments of the same configuration.
        state: the saved state.

    Returns:
        Whether every environment came back exactly.
    """
    layers = []
    while isinstance(env, VecEnvWrapper):
        layers.append(env)
        env = env.venv
    envs = state["envs"]
    same = envs is not None and len(envs) == env.num_envs
    for index, recorded in enumerate(envs or ()):
        same = same and bool(env.env_method("replay", recorded, indices=index)[0])
    for layer, saved in zip(layers, state["wrappers"], strict=False):
        load_own_state(layer, saved)
    return same


def callback_states(root: BaseCallback) -> list[State]:
    """State of a callback and of all below it."""
    return [{"class": type(each).__name__, "own": own_state(each)} for each in _callbacks(root)]


def load_callback_states(root: BaseCallback, states: Iterable[Mapping[str, Any]]) -> None:
    """Put back what `callback_states` gave, up to the first callback that is another now."""
    for callback, state in zip(_callbacks(root), states, strict=False):
        if type(callback).__name__ != state["class"]:
            return
        load_own_state(callback, state["own"])


def buffer_rows(buffer: BaseBuffer) -> dict[str, Any]:
    """Arrays of a replay buffer whose first axis counts its rows.

    Args:
        buffer: any replay buffer; those of Dict observations hold dicts of arrays. One that holds other
            arrays of that length by chance names those that count rows in `row_names`.

    Returns:
        Name (`observations`, `observations/key`) → array or tensor itself, not a copy.

    Raises:
        TypeError: if it holds Python objects (hindsight replay's infos), which can't be saved without pickle.
    """
    rows: dict[str, Any] = {}
    for name in getattr(buffer, "row_names", vars(buffer)):
        value = getattr(buffer, name)
        named = value.items() if isinstance(value, dict) else [("", value)]
        for key, part in named:
            if isinstance(part, np.ndarray | torch.Tensor) and part.shape[:1] == (buffer.buffer_size,):
                if isinstance(part, np.ndarray) and part.dtype.kind not in "biuf":
                    raise TypeError(f"{type(buffer).__name__} holds Python objects in {name!r}")
                rows[f"{name}/{key}" if key else name] = part
    return rows


def buffer_counters(buffer: BaseBuffer) -> State:
    """Position and other plain state of a replay buffer, its rows left out."""
    rows = {name.partition("/")[0] for name in buffer_rows(buffer)}
    return {name: value for name, value in own_state(buffer).items() if name not in rows}


def model_noise(model: BaseAlgorithm) -> ActionNoise | None:
    """Action noise of an algorithm, None where it has none."""
    return getattr(model, "action_noise", None)


def _callbacks(root: BaseCallback) -> list[BaseCallback]:
    """A callback and all that it calls, in a fixed order."""
    below: list[BaseCallback] = list(getattr(root, "callbacks", ()))
    for name in ("callback", "callback_on_new_best"):
        child = getattr(root, name, None)
        if isinstance(child, BaseCallback):
            below.append(child)
    return [root, *(found for child in below for found in _callbacks(child))]


def _keyed(state: Mapping[str, Any]) -> State:
    """A state_dict with text keys; of an optimizer the moments alone, since its groups are configuration."""
    if "param_groups" in state:
        return {"moments": {str(index): encode(dict(moments)) for index, moments in state["state"].items()}}
    return {name: encode(value) for name, value in state.items()}


def _unkeyed(saved: Mapping[str, Any], now: Mapping[str, Any]) -> State:
    """Inverse of `_keyed`, with the parameter groups that the optimizer has `now`."""
    if "param_groups" in now:
        moments = {int(index): decode(each) for index, each in saved["moments"].items()}
        return {"state": moments, "param_groups": now["param_groups"]}
    return {name: decode(value) for name, value in saved.items()}


def _attribute(thing: Any, path: str) -> Any:
    """Attribute by its dotted path."""
    for name in path.split("."):
        thing = getattr(thing, name)
    return thing


def _exploration(model: BaseAlgorithm) -> State:
    """Matrices of state-dependent exploration, drawn before a rollout begins."""
    distribution = getattr(getattr(model, "actor", None), "action_dist", None)
    names = ("exploration_mat", "exploration_matrices")
    return {name: getattr(distribution, name) for name in names if getattr(model, "use_sde", False)}


def _logged(model: BaseAlgorithm) -> State:
    """Values that the logger holds for its next line; figures and histograms are left out."""
    if not hasattr(model, "_logger"):
        return {}
    numbers = {
        name: float(value)
        for name, value in model.logger.name_to_value.items()
        if isinstance(value, bool | int | float | np.number)
    }
    return {
        "name_to_value": numbers,
        "name_to_count": {name: model.logger.name_to_count[name] for name in numbers},
        "name_to_excluded": {name: model.logger.name_to_excluded[name] for name in numbers},
    }
