"""TD3's update."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from stable_baselines3.td3.policies import Actor
from torch import Tensor

from sna_rl.agents.fused.adam import FusedAdam
from sna_rl.agents.fused.batch import Batch, bellman
from sna_rl.agents.fused.networks import (
    Network,
    Tensors,
    features,
    first_head,
    sampled_q_values,
    trainable,
)
from sna_rl.agents.fused.update import State, Update
from sna_rl.agents.value_table import first_q_values, q_values


class TD3Update(Update):
    """Twin delayed deep deterministic policy gradient in two graphs: critics alone; actor and targets too.

    y = r + γ (1 − done) mean_k min_j Q̄_j(s', clip(μ̄(s') + clip(σ ε_k, ±c), ±1)),
    L_Q = Σ_j mean (Q_j(s, a) − y)², L_μ = −mean Q_1(s, μ(s)) every `policy_delay` updates.

    Source:
        Fujimoto et al. 2018, arXiv 1802.09477; order of the steps as in Stable-Baselines3.
    """

    statistics = ("actor_loss", "critic_loss")

    def make_networks(self) -> dict[str, Network]:
        """Actor, critic and the target of each."""
        policy = self.agent.policy
        self.is_shared = policy.share_features_extractor
        modules = {
            "actor": policy.actor,
            "critic": policy.critic,
            "actor_target": policy.actor_target,
            "critic_target": policy.critic_target,
        }
        return {role: Network(module) for role, module in modules.items()}

    def make_adams(self) -> dict[str, FusedAdam]:
        """Actor's and critic's."""
        agent, networks = self.agent, self.networks
        return {
            "actor": FusedAdam(agent.actor.optimizer, trainable(networks["actor"])),
            "critic": FusedAdam(agent.critic.optimizer, trainable(networks["critic"], self.is_shared)),
        }

    def kind(self, index: int) -> str:
        """The actor learns every `policy_delay` updates, counted over the agent's life."""
        return "actor" if (self.agent._n_updates + index + 1) % self.agent.policy_delay == 0 else "critic"

    def kinds(self) -> Iterable[str]:
        """Without the actor and with it."""
        return ("actor",) if self.agent.policy_delay == 1 else ("critic", "actor")

    def updated(self, kind: str) -> Iterable[str]:
        """The critic always, the actor in its own graph."""
        return ("critic", "actor") if kind == "actor" else ("critic",)

    def make_noise(self, batch_size: int) -> list[Tensor]:
        """Noise of the actions in the target."""
        return [self.action_noise(batch_size, self.agent.n_target_actions)]

    def make_scalars(self, index: int, taken: dict[str, int]) -> dict[str, list[float]]:
        """Discount, Polyak weight, target noise and step sizes."""
        agent = self.agent
        return {
            "gamma": [agent.gamma],
            "tau": [agent.tau],
            "noise": [agent.target_policy_noise, agent.target_noise_clip],
            **{role: adam.scalars(max(taken[role], 1)) for role, adam in self.adams.items()},
        }

    def step(
        self,
        kind: str,
        state: State,
        batch: Batch,
        noise: Sequence[Tensor],
        scalars: dict[str, list[Tensor]],
    ) -> Tensor:
        """One update; see the class for its formulas."""
        observations, actor, critic = batch["observations"], self.networks["actor"], self.networks["critic"]
        target = self._target(state, batch, noise[0], scalars)

        def critic_loss(parameters: Tensors) -> Tensor:
            tensors = state["critic"] | parameters
            inputs = critic.call(tensors, features, observations)
            values = critic.call(tensors, q_values, inputs, batch["actions"])
            return (values - target).square().mean(dim=1).sum()

        critic_value = self.descend("critic", critic_loss, state, scalars)
        if kind == "critic":
            return torch.stack([torch.full_like(critic_value, torch.nan), critic_value])
        inputs = critic.call(state["critic"], features, observations)
        head = first_head(critic, state["critic"])

        def actor_loss(parameters: Tensors) -> Tensor:
            actions = actor.call(state["actor"] | parameters, Actor.forward, observations)
            return -critic.call(head, first_q_values, inputs, actions).mean()

        actor_value = self.descend("actor", actor_loss, state, scalars)
        for role in ("critic", "actor"):
            self.move_target(role, f"{role}_target", state, scalars["tau"][0])
        return torch.stack([actor_value, critic_value])

    def _target(self, state: State, batch: Batch, noise: Tensor, scalars: dict[str, list[Tensor]]) -> Tensor:
        observations, target = batch["next_observations"], self.networks["critic_target"]
        spread, bound = scalars["noise"]
        means = self.networks["actor_target"].call(state["actor_target"], Actor.forward, observations)
        actions = (means + (noise * spread).clamp(-bound, bound)).clamp(-1.0, 1.0)
        inputs = target.call(state["critic_target"], features, observations)
        values = target.call(state["critic_target"], sampled_q_values, inputs, actions).min(dim=0).values
        return bellman(batch, scalars["gamma"][0], values)
