"""A trained policy as an ONNX file that needs neither torch nor this library."""

from __future__ import annotations

import io
import logging
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecNormalize
from torch import Tensor, nn
from torch.distributions import Distribution

from sna_rl.errors import SnaError, UsageError, require
from sna_rl.runs import atomic_write
from sna_rl.training.environments import first_line

TOLERANCE = 1e-5


class GreedyPolicy(nn.Module):
    """Observations as the environment gives them to the best action in the environment's units.

    VecNormalize's statistics, where there are any, are part of it; frame stacking is not.

    Args:
        model: the agent.
    """

    def __init__(self, model: BaseAlgorithm) -> None:
        super().__init__()
        self.policy = model.policy
        space = model.observation_space
        self.keys = list(space.spaces) if isinstance(space, spaces.Dict) else []
        statistics = model.get_vec_normalize_env()
        self.normalized = statistics is not None and statistics.norm_obs
        if statistics is not None and self.normalized:
            self._hold(statistics)
        self.scaled = isinstance(model.action_space, spaces.Box)
        if isinstance(model.action_space, spaces.Box):
            self.low: Tensor
            self.span: Tensor
            self.register_buffer("low", torch.as_tensor(model.action_space.low))
            self.register_buffer("span", torch.as_tensor(model.action_space.high - model.action_space.low))

    def _hold(self, statistics: VecNormalize) -> None:
        """Keep mean, scale and clip of each part of the observation."""
        self.clip = float(statistics.clip_obs)
        tables: Any = statistics.obs_rms
        self.normalized_keys = list(statistics.norm_obs_keys or []) if self.keys else [""]
        for key in self.normalized_keys:
            table = tables[key] if key else tables
            self.register_buffer(f"mean_{key}", torch.as_tensor(table.mean))
            self.register_buffer(f"scale_{key}", torch.sqrt(torch.as_tensor(table.var) + statistics.epsilon))

    def _normalize(self, key: str, part: Tensor) -> Tensor:
        """What VecNormalize makes of one part."""
        if not self.normalized or key not in self.normalized_keys:
            return part
        scaled: Tensor = (part.double() - getattr(self, f"mean_{key}")) / getattr(self, f"scale_{key}")
        return scaled.clamp(-self.clip, self.clip).float()

    def forward(self, *parts: Tensor) -> Tensor:
        """Best action of each observation.

        Args:
            *parts: the observation "batch …", or each part of a Dict in the order of its keys.

        Returns:
            Actions "batch action", or action numbers "batch" of a DQN.
        """
        if self.keys:
            named = zip(self.keys, parts, strict=True)
            actions = self.policy._predict({key: self._normalize(key, part) for key, part in named}, True)
        else:
            actions = self.policy._predict(self._normalize("", parts[0]), deterministic=True)
        if not self.scaled:
            return actions
        return self.low + 0.5 * (actions + 1.0) * self.span


def export_onnx(model: BaseAlgorithm, file: Path) -> float:
    """Write an agent's policy as ONNX, then run it beside torch's.

    Args:
        model: the agent.
        file: where to; it appears only if both agree.

    Returns:
        Largest difference of an action on 64 observations.

    Raises:
        UsageError: if the file's folder doesn't exist.
        MissingExtraError: if onnx, onnxscript or onnxruntime isn't installed.
        SnaError: if the policy can't be exported, or differs by more than 1e-5.
    """
    for module in ("onnx", "onnxscript", "onnxruntime"):
        require(module, "export")
    if not file.parent.is_dir():
        raise UsageError(f"folder {str(file.parent)!r} of the ONNX file does not exist")
    policy = GreedyPolicy(model).cpu().eval()
    names = policy.keys or ["observation"]
    samples = _observations(model, 64)
    exported = _to_bytes(policy, names, samples)
    difference = _difference(model, exported, names, samples)
    if difference > TOLERANCE:
        raise SnaError(f"the ONNX policy differs from torch's by {difference:.2g}, more than {TOLERANCE}")
    with atomic_write(file) as stream:
        stream.write(exported)
    return difference


def _observations(model: BaseAlgorithm, n: int) -> list[NDArray[Any]]:
    """Sampled observations, one array for each part; unbounded numbers are normal, others uniform."""
    space = model.observation_space
    space.seed(0)
    sampled = [space.sample() for _ in range(n)]
    parts = (
        [[each[key] for each in sampled] for key in space.spaces]
        if isinstance(space, spaces.Dict)
        else [sampled]
    )
    arrays = [np.stack(part) for part in parts]
    return [array.astype(np.float32) if array.dtype == np.float64 else array for array in arrays]


def _to_bytes(policy: GreedyPolicy, names: list[str], samples: list[NDArray[Any]]) -> bytes:
    """The ONNX file's content, batch size left open."""
    stream = io.BytesIO()
    inputs = tuple(torch.from_numpy(sample) for sample in samples)
    validates, logger = Distribution._validate_args, logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it tells that torchvision isn't installed
    Distribution.set_default_validate_args(False)  # the checks branch on values, which a graph can't
    try:
        with warnings.catch_warnings(), torch.no_grad(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                policy,
                inputs,
                input_names=names,
                output_names=["action"],
                dynamic_shapes=(tuple({0: torch.export.Dim("batch")} for _ in inputs),),
                dynamo=True,
                verbose=False,
            )
            assert program is not None
            program.save(stream, external_data=False)  # type: ignore[arg-type]
    except Exception as error:  # the exporter fails with errors of many kinds
        raise SnaError(f"the policy can't be exported: {first_line(error)}") from error
    finally:
        Distribution.set_default_validate_args(validates)
        logger.setLevel(level)
    return stream.getvalue()


def _difference(
    model: BaseAlgorithm, exported: bytes, names: list[str], samples: list[NDArray[Any]]
) -> float:
    """Largest difference between ONNX's and torch's actions."""
    import onnxruntime

    session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    (ours,) = session.run(None, dict(zip(names, samples, strict=True)))
    statistics = model.get_vec_normalize_env()
    observations: Any = samples[0]
    if isinstance(model.observation_space, spaces.Dict):
        observations = dict(zip(model.observation_space.spaces, samples, strict=True))
    if statistics is not None:
        observations = statistics.normalize_obs(observations)
    theirs, _ = model.predict(observations, deterministic=True)
    return float(np.abs(np.asarray(ours, dtype=np.float64) - theirs).max())
