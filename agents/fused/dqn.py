"""DQN's update."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from sna_rl.agents.fused.adam import FusedAdam
from sna_rl.agents.fused.batch import Batch, bellman
from sna_rl.agents.fused.networks import Network, Tensors, chosen_value, largest_value, trainable
from sna_rl.agents.fused.update import State, Update


class DQNUpdate(Update):
    """Deep Q-network; its target network moves with the environment's steps, outside the graph.

    y = r + γ (1 − done) max_a Q̄(s', a), L = mean Huber(Q(s, a) − y), the gradient's norm clipped.

    Source:
        Mnih et al. 2015, https://www.nature.com/articles/nature14236; order of the steps as in
        Stable-Baselines3.
    """

    statistics = ("loss",)

    def make_networks(self) -> dict[str, Network]:
        """Q-network and target."""
        policy = self.agent.policy
        return {"q_net": Network(policy.q_net), "target": Network(policy.q_net_target)}

    def make_adams(self) -> dict[str, FusedAdam]:
        """The policy's one optimizer."""
        return {"q_net": FusedAdam(self.agent.policy.optimizer, trainable(self.networks["q_net"]))}

    def make_noise(self, batch_size: int) -> list[Tensor]:
        """None."""
        return []

    def make_scalars(self, index: int, taken: dict[str, int]) -> dict[str, list[float]]:
        """Discount, largest gradient norm and step size."""
        agent = self.agent
        return {
            "gamma": [agent.gamma],
            "max_grad_norm": [agent.max_grad_norm],
            "q_net": self.adams["q_net"].scalars(taken["q_net"]),
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
        network, target = self.networks["q_net"], self.networks["target"]
        next_values = target.call(state["target"], largest_value, batch["next_observations"])
        goal = bellman(batch, scalars["gamma"][0], next_values)

        def loss(parameters: Tensors) -> Tensor:
            values = network.call(
                parameters, chosen_value, batch["observations"], batch["actions"].squeeze(1)
            )
            return smooth_l1_loss(values, goal)

        value: Tensor = self.descend("q_net", loss, state, scalars, max_norm=scalars["max_grad_norm"][0])
        return value.unsqueeze(0)
