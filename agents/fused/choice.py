"""Which form of the gradient update an agent takes, and why."""

from __future__ import annotations

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import TrainFreq
from stable_baselines3.common.type_aliases import TrainFrequencyUnit as Unit
from torch import nn

from sna_rl.agents.fused.adam import is_plain_adam
from sna_rl.agents.optimizer import optimizers

FORMS = ("auto", "compiled", "eager", "reference")
PRECISIONS = ("fp32", "bf16")
COMPILED_FROM = 10_000
"""Gradient updates from which compiling pays for itself."""
NOMINAL_EPISODE = 1_000
"""Steps that an episode counts for where updates follow episodes: its length isn't known in advance."""


def expected_updates(agent: OffPolicyAlgorithm, n_timesteps: int) -> float:
    """Number of gradient updates that `n_timesteps` more environment steps bring about.

    Args:
        agent: whose `train_freq` and `gradient_steps` to count with.
        n_timesteps: steps of all environments together.

    Returns:
        The number; an estimate where updates follow episodes.

    Example:
        >>> from stable_baselines3 import SAC
        >>> agent = SAC("MlpPolicy", "Pendulum-v1", train_freq=4, gradient_steps=2, learning_starts=0)
        >>> expected_updates(agent, 1000)
        500.0
    """
    frequency = agent.train_freq
    assert isinstance(frequency, TrainFreq)
    learning_steps = max(0, n_timesteps - max(0, agent.learning_starts - agent.num_timesteps))
    n_vector_steps = learning_steps / agent.n_envs
    per_rollout = frequency.frequency * (1 if frequency.unit == Unit.STEP else NOMINAL_EPISODE)
    updates = per_rollout if agent.gradient_steps < 0 else agent.gradient_steps
    if agent.gradient_steps < 0:
        updates *= agent.n_envs
    return n_vector_steps / per_rollout * updates


def obstacle(agent: OffPolicyAlgorithm) -> str | None:
    """What keeps an agent from the fused update, or None.

    Args:
        agent: an agent that has been set up.

    Returns:
        The end of a sentence that says why Stable-Baselines3's own update is needed.
    """
    if agent.use_sde:
        return "gSDE samples its noise matrix inside the network"
    for optimizer in optimizers(agent).values():
        if not is_plain_adam(optimizer):
            return f"{type(optimizer).__name__} with these options is not plain Adam"
    buffer = type(agent.replay_buffer)
    if not buffer.__module__.startswith(("stable_baselines3.", "sna_rl.")):
        return f"{buffer.__name__} may give other samples than Stable-Baselines3's buffers"
    for module in agent.policy.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            return f"{type(module).__name__} changes its running statistics in the forward pass"
    return None
