"""A rank that chooses itself: components are added while they carry what two critics agree on."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from torch import Tensor

from sna_rl.agents.critic_config import AUTOMATIC_RANKS
from sna_rl.agents.critics import SeparableCritic
from sna_rl.agents.probe import has_samples, sample_probe, undisturbed
from sna_rl.agents.value_table import critic_features
from sna_rl.separable.components import IDLE_BELOW
from sna_rl.separable.growing import GrowingInteraction, component_parameters, drop, grow
from sna_rl.separable.spectrum import noise_floor, singular_values

PATIENCE = 3
"""Probes running that must agree before a component is added or taken away."""


class RankControl(BaseCallback):
    """Grow and prune the components of a critic made with rank "auto".

    At each probe, on a value table over states and actions of the replay buffer: where the last singular
    value that the critic can have, σ_R of the interaction, stands above the noise floor in every head, three
    probes running, the next rank of 4, 8, 16, 32, 64 is switched on. The new weights λ are 0 and their
    factors alive, so no value changes. A component whose contribution has a root mean square under 1 % of the
    largest one's in every head, three probes running (six for a new one), is switched off; the values lose
    that much. The target follows in the same moment, and Adam's moments of what was drawn anew become 0. No
    tensor changes its shape: nothing is compiled again.

    `sna_rl.agents`' algorithms add it themselves; with Stable-Baselines3's own, pass it as a callback. Logged
    as `separable/rank`.

    Args:
        interval: environment steps between two probes.
        n_states: rows of the table.
        n_actions: columns of the table.
        seed: decides the draws of states, actions and new factors; no generator of the training is touched.

    Example:
        >>> from sna_rl.agents import SAC
        >>> kwargs = {"rank": "auto", "width": 16}
        >>> agent = SAC("SNAPolicy", "Pendulum-v1", policy_kwargs=kwargs, learning_starts=10).learn(20)
        >>> agent.critic.network.interaction.n_active
        4
    """

    def __init__(
        self, interval: int = 2_500, n_states: int = 256, n_actions: int = 128, seed: int = 0
    ) -> None:
        super().__init__()
        self.model: OffPolicyAlgorithm
        self.interval = interval
        self.n_states = n_states
        self.n_actions = n_actions
        self.seed = seed
        self.binding = 0
        """Probes running at which the rank bound."""
        self.idle: list[int] = [0] * AUTOMATIC_RANKS[-1]
        """Probes running at which each component was idle."""

    @property
    def rank(self) -> int:
        """Components at work."""
        return _interaction(_critics(self.model)[0]).n_active

    def _on_step(self) -> bool:
        before = self.num_timesteps - self.training_env.num_envs
        if self.num_timesteps // self.interval > before // self.interval and has_samples(self.model):
            self.probe()
        return True

    @torch.no_grad()
    def probe(self) -> None:
        """Look at the critic once, and grow or prune it where that is due."""
        critic = _critics(self.model)[0]
        seed = self.seed + self.num_timesteps
        probe = sample_probe(self.model, self.n_states, self.n_actions, seed)
        features = critic_features(critic, probe.observations)
        state, action = critic.encode_state(features), critic.encode_action(probe.supported)
        tables = critic.network.table(state, action)
        form = critic.network.bilinear(state, action)
        use = form.left.square().mean(1).sqrt() * form.right.square().mean(1).sqrt()  # "K R"
        binds = all(
            float(singular_values(table)[self.rank - 1]) > noise_floor(table, other)
            for table, other in zip(tables, tables.roll(-1, 0), strict=True)
        )
        self.binding = self.binding + 1 if binds else 0
        self._prune((use < IDLE_BELOW * use.amax(1, keepdim=True)).all(0), seed)
        if self.binding >= PATIENCE:
            self._grow()
        self.logger.record("separable/rank", self.rank)

    def _grow(self) -> None:
        """Switch on the components up to the next rank."""
        self.binding = 0
        larger = [rank for rank in AUTOMATIC_RANKS if rank > self.rank]
        if not larger:
            return
        critics = _critics(self.model)
        before = _interaction(critics[0]).running_mask[0, 0].clone()
        for critic in critics:
            grow(critic.network, larger[0])
        new = (_interaction(critics[0]).running_mask[0, 0] > before).nonzero().flatten().tolist()
        for component in new:
            self.idle[component] = -PATIENCE  # its weight is still 0

    @torch.no_grad()
    def _prune(self, idle: Tensor, seed: int) -> None:
        """Switch off what has been idle for long; at least one component stays."""
        active = _interaction(_critics(self.model)[0]).running_mask[0, 0] > 0
        for component in active.nonzero().flatten().tolist():
            probes = self.idle[component]
            self.idle[component] = probes + 1 if idle[component] else min(probes, 0)
        gone = [i for i, probes in enumerate(self.idle) if probes >= PATIENCE and active[i]][: self.rank - 1]
        if not gone:
            return
        critic, target = _critics(self.model)
        with undisturbed(seed, self.model.device):
            changed = drop(critic.network, gone)
            drop(target.network, gone)
        for factor, follower in zip(critic.network.factors, target.network.factors, strict=True):
            for parameter, copy in zip(
                component_parameters(factor), component_parameters(follower), strict=True
            ):
                copy[..., gone] = parameter[..., gone]
        _forget(critic.optimizer, changed, gone)
        for component in gone:
            self.idle[component] = 0


def with_rank_control(model: OffPolicyAlgorithm, callback: Any) -> Any:
    """A callback that also controls the rank, where the model's critic wants that and nobody does it yet.

    Args:
        model: an agent about to learn.
        callback: what `learn` was given.

    Returns:
        The same, or a list that begins with a `RankControl`.
    """
    config = getattr(model.policy, "critic_config", None)
    if config is None or config.rank != "auto" or config.critic != "cp":
        return callback
    given: list[BaseCallback] = callback if isinstance(callback, list) else [_as_callback(callback)]
    inside = [each for one in given for each in (one, *getattr(one, "callbacks", ()))]
    return callback if any(isinstance(each, RankControl) for each in inside) else [RankControl(), *given]


def _as_callback(callback: Any) -> BaseCallback:
    """A function, or nothing, as Stable-Baselines3 takes it."""
    return callback if isinstance(callback, BaseCallback) else ConvertCallback(callback)


def _critics(model: OffPolicyAlgorithm) -> tuple[SeparableCritic, SeparableCritic]:
    """Critic and target."""
    policy: Any = model.policy
    return policy.critic, policy.critic_target


def _interaction(critic: SeparableCritic) -> GrowingInteraction:
    interaction = critic.network.interaction
    assert isinstance(interaction, GrowingInteraction)
    return interaction


def _forget(optimizer: torch.optim.Optimizer, parameters: list[Tensor], components: list[int]) -> None:
    """Set Adam's moments of some components to 0."""
    for parameter in parameters:
        for name, value in optimizer.state.get(parameter, {}).items():
            if name.startswith("exp_avg") or name.startswith("max_exp_avg"):
                value[..., components] = 0.0
