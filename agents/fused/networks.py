"""Networks of Stable-Baselines3 as pure functions of named tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from stable_baselines3.common.policies import BaseModel, ContinuousCritic
from stable_baselines3.dqn.policies import QNetwork
from torch import Tensor, nn
from torch.func import functional_call

from sna_rl.agents.critics import SeparableCritic, SplineJointCritic
from sna_rl.agents.q_networks import SeparableQNetwork
from sna_rl.agents.value_table import q_values

Result = TypeVar("Result")
Tensors = dict[str, Tensor]
"""Tensors of a module by name."""


class Network(nn.Module):
    """A module whose methods become functions of its tensors: parameters and buffers come in as arguments.

    Args:
        module: network of a policy.

    Example:
        >>> import torch
        >>> network = Network(nn.Linear(2, 1))
        >>> tensors = {name: torch.ones_like(tensor) for name, tensor in network.tensors({}).items()}
        >>> network.call(tensors, nn.Linear.forward, torch.ones(1, 2))
        tensor([[3.]])
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, function: Callable[..., Any], *inputs: Any) -> Any:
        """Call `function` with the module and the inputs."""
        return function(self.module, *inputs)

    def call(self, tensors: Tensors, function: Callable[..., Result], *inputs: Any) -> Result:
        """What `function(module, *inputs)` returns if the module holds `tensors`."""
        return cast(Result, functional_call(self, tensors, (function, *inputs)))

    def tensors(self, seen: dict[int, Tensor]) -> Tensors:
        """Parameters and buffers, detached but of the same storage.

        Args:
            seen: tensors already detached, by the identity of the original; extended here, so that what two
                modules share is one tensor for both.

        Returns:
            Detached tensors by their name below this object.
        """
        named = [*self.named_parameters(), *self.named_buffers()]
        return {name: seen.setdefault(id(tensor), tensor.detach()) for name, tensor in named}


def trainable(network: Network, without_extractor: bool = False) -> dict[int, str]:
    """Names of a network's parameters by their identity.

    Args:
        network: whose parameters.
        without_extractor: leave out the features extractor, which an actor and a critic share and the actor's
            loss alone trains.
    """
    return {
        id(parameter): name
        for name, parameter in network.named_parameters()
        if not (without_extractor and "features_extractor" in name)
    }


def features(model: BaseModel, observations: Any) -> Tensor:
    """What the model's features extractor makes of observations as the replay buffer holds them."""
    return model.extract_features(observations, model.features_extractor)  # type: ignore[arg-type]


def sampled_q_values(critic: ContinuousCritic, inputs: Tensor, actions: Tensor) -> Tensor:
    """Every head's value of each state with each of its sampled actions.

    Args:
        critic: any critic; a separable one runs its state towers once for all samples.
        inputs: features, (batch, n).
        actions: (batch, action), or (samples, batch, action).

    Returns:
        (critics, batch), or (critics, samples, batch).
    """
    if actions.dim() == 2:
        return q_values(critic, inputs, actions)
    n_samples, flat = len(actions), actions.flatten(0, 1)
    if isinstance(critic, SeparableCritic):
        state = critic.encode_state(inputs)
        tiled = state._replace(
            effect=state.effect.repeat(1, n_samples), terms=state.terms.repeat(1, n_samples, 1)
        )
        values = critic.network.combine(tiled, critic.encode_action(flat))
    else:
        values = q_values(critic, inputs.repeat(n_samples, 1), flat)
    return values.reshape(len(values), n_samples, -1)


def first_head(network: Network, tensors: Tensors) -> Tensors:
    """The tensors of a critic cut down to its first head, where all heads are one batched computation."""
    if not isinstance(network.module, SeparableCritic | SplineJointCritic):
        return tensors
    return {
        name: tensor[:1] if name.startswith("module.network.") else tensor for name, tensor in tensors.items()
    }


def chosen_value(q_net: QNetwork, observations: Any, actions: Tensor) -> Tensor:
    """Value of each state's chosen action, (batch,)."""
    if isinstance(q_net, SeparableQNetwork):
        return q_net.q_values(features(q_net, observations), actions)[0]
    values: Tensor = q_net(observations)
    return values.gather(1, actions.long().unsqueeze(1)).squeeze(1)


def largest_value(q_net: QNetwork, observations: Any) -> Tensor:
    """Value of each state's best action, (batch,)."""
    if isinstance(q_net, SeparableQNetwork):
        return q_net.greedy(features(q_net, observations))[0]
    values: Tensor = q_net(observations)
    return values.max(dim=1).values
