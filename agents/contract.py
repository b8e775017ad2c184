"""What Stable-Baselines3 silently expects of a critic, checked on one dummy batch when a policy is built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BaseModel, ContinuousCritic
from stable_baselines3.common.preprocessing import get_action_dim, get_obs_shape
from stable_baselines3.common.type_aliases import PyTorchObs
from stable_baselines3.dqn.policies import DQNPolicy
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from sna_rl.agents.value_table import critic_features, first_q_values, q_values
from sna_rl.errors import UsageError

_BATCH = 3


def check_actor_critic(policy: SACPolicy | TD3Policy) -> None:
    """Check the critic, its target and its optimizer of a policy for SAC, TD3 or DDPG.

    Nothing random is drawn and nothing is changed.

    Args:
        policy: a policy that has just been built.

    Raises:
        UsageError: with the remedy, if the critic would crash later, or would silently not learn.
    """
    critic, target = policy.critic, policy.critic_target
    name = type(critic).__name__
    _check_parameters(critic, target)
    n_critics: Any = policy.critic_kwargs["n_critics"]
    observations: Any = dummy_observations(policy.observation_space, policy.device)
    actions = torch.zeros(_BATCH, get_action_dim(policy.action_space), device=policy.device)
    with _evaluation(critic):
        values = critic(observations, actions)
        _check_values(name, values, n_critics)
        if not callable(getattr(critic, "q1_forward", None)):
            raise UsageError(
                f"{name} has no q1_forward, which the actor of TD3 learns from; "
                "define q1_forward(obs, actions) -> (batch, 1), the first critic's values"
            )
        first = critic.q1_forward(observations, actions)
        _check_features(name, critic, observations, actions, values)
    if first.shape != values[0].shape or not torch.allclose(first, values[0], rtol=1e-4, atol=1e-5):
        raise UsageError(f"{name}.q1_forward must return the first of forward's values, shape (batch, 1)")
    shared = (
        set(map(id, critic.features_extractor.parameters())) if policy.share_features_extractor else set()
    )
    for parameter_name, parameter in critic.named_parameters():
        if (
            policy.share_features_extractor
            and "features_extractor" in parameter_name
            and id(parameter) not in shared
        ):
            raise UsageError(
                f"{name} has a parameter {parameter_name!r}: with share_features_extractor=True "
                "Stable-Baselines3 never trains a name that contains 'features_extractor'; rename the module"
            )
    skipped = shared if isinstance(policy, SACPolicy) else set()
    _check_coverage(critic, critic.optimizer, skipped)


def check_q_network(policy: DQNPolicy) -> None:
    """Check the Q-network, its target and the optimizer of a policy for DQN.

    Args:
        policy: a policy that has just been built.

    Raises:
        UsageError: with the remedy, if the network would crash later, or would silently not learn.
    """
    network = policy.q_net
    _check_parameters(network, policy.q_net_target)
    n_actions = int(network.action_space.n)
    with _evaluation(network):
        values = network(dummy_observations(policy.observation_space, policy.device))
    if not isinstance(values, Tensor) or values.shape != (_BATCH, n_actions):
        raise UsageError(
            f"{type(network).__name__} must return one tensor of shape (batch, {n_actions}), "
            f"not {_describe(values)}"
        )
    _check_coverage(network, policy.optimizer, set())


def dummy_observations(space: spaces.Space[object], device: torch.device) -> PyTorchObs:
    """A batch of zeros as the replay buffer would give it.

    Args:
        space: observation space.
        device: where the tensors lie.

    Returns:
        A tensor, or a dict of tensors for a Dict space.
    """
    shapes = get_obs_shape(space)
    if isinstance(space, spaces.Dict):
        assert isinstance(shapes, dict)
        return {key: _zeros(space[key], shapes[key], device) for key in space}
    return _zeros(space, shapes, device)


def _zeros(space: spaces.Space[object], shape: object, device: torch.device) -> Tensor:
    return torch.as_tensor(np.zeros((_BATCH, *shape), dtype=space.dtype), device=device)  # type: ignore[misc]


@contextmanager
def _evaluation(model: BaseModel) -> Iterator[None]:
    """Without gradients, and in evaluation mode so that no running statistic moves."""
    mode = model.training
    model.set_training_mode(False)
    try:
        with torch.no_grad():
            yield
    finally:
        model.set_training_mode(mode)


def _check_values(name: str, values: object, n_critics: int) -> None:
    right = (
        isinstance(values, tuple)
        and len(values) == n_critics
        and all(isinstance(value, Tensor) and value.shape == (_BATCH, 1) for value in values)
    )
    if not right:
        raise UsageError(
            f"{name} must return a tuple of {n_critics} tensors of shape (batch, 1), one a critic, "
            f"not {_describe(values)}"
        )


def _check_features(
    name: str, critic: ContinuousCritic, observations: PyTorchObs, actions: Tensor, values: tuple[Tensor, ...]
) -> None:
    """That what updates and value tables read of features is what `forward` says of observations."""
    remedy = (
        "give it q_values(features, actions) -> (critics, batch), every head's values of its features, which "
        "updates and value tables read"
    )
    if not hasattr(critic, "q_values") and not hasattr(critic, "q_networks"):
        raise UsageError(f"{name} has neither q_networks nor q_values; {remedy}")
    features = critic_features(critic, observations)
    given = torch.stack(values).squeeze(-1)
    for read, wanted in ((q_values, given), (first_q_values, given[0])):
        found = read(critic, features, actions)
        if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=1e-4, atol=1e-5):
            raise UsageError(f"{name}: its q_values and q_networks must agree with forward; {remedy}")


def _check_parameters(critic: nn.Module, target: nn.Module) -> None:
    """Same names in the same order, same values, own storage; nothing lazy; no buffer that stays behind."""
    name = type(critic).__name__
    for parameter_name, parameter in critic.named_parameters():
        if is_lazy(parameter):
            raise UsageError(
                f"{name}: {parameter_name!r} belongs to a lazy module, which has no shape when the optimizer "
                "and the target are made; give its input size"
            )
    online, copied = list(critic.named_parameters()), list(target.named_parameters())
    if [(key, value.shape) for key, value in online] != [(key, value.shape) for key, value in copied]:
        raise UsageError(
            f"{name} and its target differ in their parameters; make_critic must build the same "
            "architecture each time it is called"
        )
    for (key, value), (_, other) in zip(online, copied, strict=True):
        if value is other:
            raise UsageError(f"{name} shares {key!r} with its target; build a new module at each call")
        if not torch.equal(value, other):
            raise UsageError(f"{name}: {key!r} of the target does not start equal to the critic's")
    persistent = critic.state_dict().keys()
    for key, buffer in critic.named_buffers():
        if key in persistent and buffer.is_floating_point() and "running_" not in key:
            raise UsageError(
                f"{name}: the buffer {key!r} would never reach the target; name it running_... and change it "
                "in place, or register it with persistent=False if it is a constant"
            )


def _check_coverage(critic: nn.Module, optimizer: torch.optim.Optimizer, skipped: Iterable[int]) -> None:
    covered = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    covered.update(skipped)
    for key, parameter in critic.named_parameters():
        if parameter.requires_grad and id(parameter) not in covered:
            raise UsageError(
                f"{type(critic).__name__}: {key!r} is not in the optimizer and would never learn; "
                "create every parameter inside make_critic"
            )


def _describe(values: object) -> str:
    if isinstance(values, Tensor):
        return f"a tensor of shape {tuple(values.shape)}"
    if isinstance(values, tuple):
        return f"a tuple of {', '.join(_describe(value) for value in values)}"
    return type(values).__name__
