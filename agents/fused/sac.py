"""SAC's update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sna_rl.agents.fused.adam import FusedAdam
from sna_rl.agents.fused.batch import Batch, bellman
from sna_rl.agents.fused.gaussian import actor_gaussian, squashed_gaussian
from sna_rl.agents.fused.networks import Network, Tensors, features, sampled_q_values, trainable
from sna_rl.agents.fused.update import State, Update
from sna_rl.agents.value_table import q_values


class SACUpdate(Update):
    """Soft actor-critic: critics, actor, entropy coefficient and targets in one graph.

    y = r + γ (1 − done) mean_k [min_j Q̄_j(s', a'_k) − α log π(a'_k | s')], a'_k ~ π(· | s'),
    L_Q = ½ Σ_j mean (Q_j(s, a) − y)², L_π = mean [α log π(a_π | s) − min_j Q_j(s, a_π)],
    L_α = −log α · mean [log π(a_π | s) + target entropy].

    Source:
        Haarnoja et al. 2018, arXiv 1812.05905; order of the steps as in Stable-Baselines3.
    """

    statistics = ("ent_coef", "actor_loss", "critic_loss", "ent_coef_loss")

    def make_networks(self) -> dict[str, Network]:
        """Actor, critic and target."""
        policy = self.agent.policy
        self.is_shared = policy.share_features_extractor
        networks = {"actor": policy.actor, "critic": policy.critic, "target": policy.critic_target}
        return {role: Network(module) for role, module in networks.items()}

    def make_adams(self) -> dict[str, FusedAdam]:
        """Actor's, critic's and, where it is learned, the entropy coefficient's."""
        agent = self.agent
        adams = {
            "actor": FusedAdam(agent.actor.optimizer, trainable(self.networks["actor"])),
            "critic": FusedAdam(agent.critic.optimizer, trainable(self.networks["critic"], self.is_shared)),
        }
        if agent.ent_coef_optimizer is not None:
            adams["entropy"] = FusedAdam(agent.ent_coef_optimizer, {id(agent.log_ent_coef): "log_ent_coef"})
        return adams

    def extra_state(self) -> dict[str, Tensors]:
        """The entropy coefficient's logarithm, where it is learned."""
        if self.agent.ent_coef_optimizer is None:
            return {}
        return {"entropy": {"log_ent_coef": self.agent.log_ent_coef.detach()}}

    def make_noise(self, batch_size: int) -> list[Tensor]:
        """Noise of the actions that the actor learns from, then of those in the target."""
        return [self.action_noise(batch_size), self.action_noise(batch_size, self.agent.n_target_actions)]

    def make_scalars(self, index: int, taken: dict[str, int]) -> dict[str, list[float]]:
        """Discount, Polyak weight, target entropy or fixed coefficient, and step sizes."""
        agent = self.agent
        return {
            "gamma": [agent.gamma],
            "tau": [agent.tau if index % agent.target_update_interval == 0 else 0.0],
            "goal": [agent.target_entropy if agent.ent_coef_optimizer else float(agent.ent_coef)],
            **{role: adam.scalars(taken[role]) for role, adam in self.adams.items()},
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
        observations, actions = batch["observations"], batch["actions"]
        critic, goal = self.networks["critic"], scalars["goal"][0]
        is_learned = "entropy" in state
        alpha = state["entropy"]["log_ent_coef"][0].exp() if is_learned else goal
        target = self._target(state, batch, noise[1], alpha, scalars["gamma"][0])

        def critic_loss(parameters: Tensors) -> Tensor:
            tensors = state["critic"] | parameters
            inputs = critic.call(tensors, features, observations)
            values = critic.call(tensors, q_values, inputs, actions)
            return 0.5 * (values - target).square().mean(dim=1).sum()

        critic_value = self.descend("critic", critic_loss, state, scalars)
        inputs = critic.call(state["critic"], features, observations)

        def actor_loss(parameters: Tensors) -> tuple[Tensor, Tensor]:
            own_actions, density = self._actions(state["actor"] | parameters, observations, noise[0])
            values = critic.call(state["critic"], q_values, inputs, own_actions)
            return (alpha * density - values.min(dim=0).values).mean(), density.detach()

        actor_value, density = self.descend("actor", actor_loss, state, scalars, has_aux=True)
        entropy_value = torch.full_like(alpha, torch.nan)
        if is_learned:
            excess: Tensor = (density + goal).mean()

            def entropy_loss(parameters: Tensors) -> Tensor:
                return -parameters["log_ent_coef"].sum() * excess

            entropy_value = self.descend("entropy", entropy_loss, state, scalars)
        self.move_target("critic", "target", state, scalars["tau"][0])
        return torch.stack([alpha, actor_value, critic_value, entropy_value])

    def _actions(self, tensors: Tensors, observations: Any, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.networks["actor"].call(tensors, actor_gaussian, observations)
        return squashed_gaussian(mean, log_std, noise)

    def _target(self, state: State, batch: Batch, noise: Tensor, alpha: Tensor, gamma: Tensor) -> Tensor:
        observations, target = batch["next_observations"], self.networks["target"]
        actions, density = self._actions(state["actor"], observations, noise)
        inputs = target.call(state["target"], features, observations)
        values: Tensor = target.call(state["target"], sampled_q_values, inputs, actions).min(dim=0).values
        return bellman(batch, gamma, values - alpha * density)
