"""Attributes of an object as plain numbers and arrays, and back: its state, not its configuration."""

from __future__ import annotations

import inspect
import random
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env.stacked_observations import StackedObservations

State = dict[str, Any]

_INNER = (
    RunningMeanStd,
    StackedObservations,
    ActionNoise,
    np.random.Generator,
    random.Random,
    torch.Generator,
)
_REFERENCES = {"model", "locals", "globals", "parent", "venv", "class_attributes", "callback", "callbacks"}


class NotPlainError(TypeError):
    """A value that refers to something else and is no state."""


def own_state(thing: Any) -> State:
    """Attributes of an object that are state: plain values that its constructor was not given.

    An attribute named as a parameter of the constructor is configuration and is left out, so that a changed
    configuration stays changed; so are references to models, environments and other callbacks, and what the
    class lists in `not_saved` (times on a clock that another process does not share).

    Args:
        thing: an object with attributes.

    Returns:
        Name → numbers, texts, arrays, generators' states, or lists and dicts of them.

    Example:
        >>> own_state(RunningMeanStd(shape=()))["count"]
        0.0001
    """
    configured = _parameters(type(thing)) | _REFERENCES
    left_out = getattr(type(thing), "not_saved", ())
    state = {}
    for name, value in vars(thing).items():
        if name.lstrip("_") not in configured and name not in left_out:
            try:
                state[name] = encode(value)
            except NotPlainError:
                continue
    return state


def load_own_state(thing: Any, state: Mapping[str, Any]) -> None:
    """Put back what `own_state` gave; objects inside keep their identity.

    Args:
        thing: an object of the same class.
        state: the saved attributes.
    """
    for name, saved in state.items():
        setattr(thing, name, _restored(getattr(thing, name, None), saved))


def _parameters(kind: type) -> set[str]:
    """Names of the constructor's parameters, base classes' included."""
    return {
        name
        for base in kind.__mro__
        if "__init__" in vars(base)
        for name in inspect.signature(vars(base)["__init__"]).parameters
    }


def encode(value: Any) -> Any:
    """Plain form of a value; tensors, generators and known objects become dicts that tell what they were."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value
    if isinstance(value, torch.Tensor):
        return {"tensor": value.detach().cpu().numpy()}
    if isinstance(value, np.random.Generator):
        return {"inner": value.bit_generator.state}
    if isinstance(value, random.Random):
        return {"inner": value.getstate()}
    if isinstance(value, torch.Generator):
        return {"inner": value.get_state().numpy()}
    if isinstance(value, _INNER):
        return {"inner": own_state(value)}
    if isinstance(value, tuple):
        return tuple(map(encode, value))
    if isinstance(value, list | deque):
        return list(map(encode, value))
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(item) for key, item in value.items()}}
    raise NotPlainError(type(value).__name__)


def decode(saved: Any, device: torch.device | str = "cpu") -> Any:
    """Inverse of `encode` where no object stands already."""
    if isinstance(saved, tuple):
        return tuple(decode(item, device) for item in saved)
    if isinstance(saved, list):
        return [decode(item, device) for item in saved]
    if isinstance(saved, Mapping):
        if "tensor" in saved:
            return torch.from_numpy(np.array(saved["tensor"])).to(device)
        return {key: decode(item, device) for key, item in saved["dict"].items()}
    return np.array(saved) if isinstance(saved, np.ndarray) else saved


def _restored(former: Any, saved: Any) -> Any:
    """What was saved; `former` itself, changed in place, where it is a generator or a known object."""
    if isinstance(former, np.random.Generator):
        former.bit_generator.state = saved["inner"]
        return former
    if isinstance(former, random.Random):
        former.setstate(saved["inner"])
        return former
    if isinstance(former, torch.Generator):
        return former.set_state(torch.from_numpy(saved["inner"]))
    if isinstance(former, _INNER):
        load_own_state(former, saved["inner"])
        return former
    if isinstance(former, list) and any(isinstance(item, _INNER) for item in former):
        return [_restored(item, part) for item, part in zip(former, saved, strict=True)]
    if isinstance(former, dict) and any(isinstance(item, _INNER) for item in former.values()):
        return {key: _restored(item, saved["dict"][key]) for key, item in former.items()}
    if isinstance(former, deque):
        return deque(decode(saved), maxlen=former.maxlen)
    return decode(saved, former.device if isinstance(former, torch.Tensor) else "cpu")
