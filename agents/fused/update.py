"""The gradient update of an algorithm as one graph over tensors: traced once, compiled or run as it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.preprocessing import get_action_dim
from torch import Tensor
from torch.func import grad_and_value
from torch.utils._pytree import tree_flatten, tree_unflatten

from sna_rl.agents.fused.adam import FusedAdam, clipped, polyak
from sna_rl.agents.fused.batch import Batch, as_batch, dummy_batch
from sna_rl.agents.fused.capture import CapturedGraph
from sna_rl.agents.fused.graph import Graph, compiled, traced, use_bfloat16
from sna_rl.agents.fused.networks import Network, Tensors

State = dict[str, Any]
"""Tensors of the networks by their role, and moments of the optimizers below "adam"."""


class Update(ABC):
    """One gradient update: batch, noise and scalars in; parameters, moments and targets changed in place.

    What changes are the agent's own Parameters and the state of its own optimizers. Everything else that
    differs from update to update comes in as a tensor: one graph serves all batches of one shape.

    Args:
        agent: an agent of Stable-Baselines3 that `obstacle` finds nothing against.
        form: "compiled" or "eager".
        precision: "fp32", or "bf16" for matrix products whose inputs are rounded to bfloat16.
    """

    statistics: tuple[str, ...]
    """What a graph returns, by the names that Stable-Baselines3 logs."""

    def __init__(self, agent: OffPolicyAlgorithm, form: str, precision: str) -> None:
        self.agent: Any = agent
        self.form = form
        self.precision = precision
        self.networks = self.make_networks()
        self.adams = self.make_adams()
        self.graphs: dict[Any, Graph] = {}
        self.captures: dict[Graph, CapturedGraph] = {}
        self.refresh()

    @abstractmethod
    def make_networks(self) -> dict[str, Network]:
        """The agent's networks by their role."""

    @abstractmethod
    def make_adams(self) -> dict[str, FusedAdam]:
        """The agent's optimizers by the role of what they update."""

    @abstractmethod
    def make_noise(self, batch_size: int) -> list[Tensor]:
        """Standard normal noise of one update, drawn in Stable-Baselines3's order."""

    def action_noise(self, batch_size: int, n_samples: int = 1) -> Tensor:
        """Standard normal noise of actions, (batch, action), or (samples, batch, action) for several."""
        shape = (batch_size, get_action_dim(self.agent.action_space))
        size = shape if n_samples == 1 else (n_samples, *shape)
        return torch.randn(size, dtype=self.dtype, device=self.agent.device)

    @abstractmethod
    def make_scalars(self, index: int, taken: dict[str, int]) -> dict[str, list[float]]:
        """Everything that can change from one update to the next.

        Args:
            index: number of the update within this call of `train`, from 0.
            taken: steps that each optimizer will have taken after this update.
        """

    @abstractmethod
    def step(
        self,
        kind: str,
        state: State,
        batch: Batch,
        noise: Sequence[Tensor],
        scalars: dict[str, list[Tensor]],
    ) -> Tensor:
        """The update in tensor operations.

        Args:
            kind: which of the algorithm's graphs.
            state: tensors to change in place.
            batch: transitions.
            noise: what `make_noise` returns.
            scalars: what `make_scalars` returns, as 0-dim tensors.

        Returns:
            `statistics`, one number each.
        """

    def kind(self, index: int) -> str:
        """Which graph the update `index` of this call of `train` takes."""
        return "all"

    def kinds(self) -> Iterable[str]:
        """Every graph of the algorithm."""
        return ("all",)

    def updated(self, kind: str) -> Iterable[str]:
        """Roles of the optimizers that take a step in a graph."""
        return self.adams

    def refresh(self) -> None:
        """Read the tensors anew: parameters and optimizer states may have been loaded or moved."""
        self.adams = self.make_adams()
        seen: dict[int, Tensor] = {}
        state: State = {role: network.tensors(seen) for role, network in self.networks.items()}
        state |= self.extra_state()
        state["adam"] = {role: adam.moments() for role, adam in self.adams.items()}
        leaves, self.state_spec = tree_flatten(state)
        distinct = {id(leaf): leaf for leaf in leaves}
        positions = {key: position for position, key in enumerate(distinct)}
        self.state_positions = [positions[id(leaf)] for leaf in leaves]
        self.state_tensors = list(distinct.values())
        self.captures.clear()  # they hold the addresses of the tensors before
        self.fingerprint = self._fingerprint()

    def extra_state(self) -> dict[str, Tensors]:
        """Tensors that belong to no network."""
        return {}

    def run(self, n_updates: int, batch_size: int) -> dict[str, float]:
        """Take updates on batches sampled from the agent's replay buffer.

        Args:
            n_updates: number of updates.
            batch_size: transitions in each batch.

        Returns:
            Mean of each statistic over the updates that computed it.
        """
        if self._fingerprint() != self.fingerprint:
            self.refresh()
        taken = {role: adam.steps() for role, adam in self.adams.items()}
        before = dict(taken)
        results: dict[str, list[Tensor]] = {}
        for index in range(n_updates):
            kind = self.kind(index)
            for role in self.updated(kind):
                taken[role] += 1
            samples = self.agent.replay_buffer.sample(batch_size, env=self.agent._vec_normalize_env)
            batch = as_batch(samples, self.dtype)
            results.setdefault(kind, []).append(self._call(kind, batch, batch_size, index, taken))
        for role, adam in self.adams.items():
            adam.advance(taken[role] - before[role])
        return self._means(results)

    def descend(
        self,
        role: str,
        loss: Callable[[Tensors], Any],
        state: State,
        scalars: dict[str, list[Tensor]],
        has_aux: bool = False,
        max_norm: Tensor | None = None,
    ) -> Any:
        """Take one optimizer's step down a loss, inside a graph.

        Args:
            role: whose parameters.
            loss: of the trained parameters by name.
            state: tensors to change in place.
            scalars: those of the update.
            has_aux: whether `loss` returns a second value beside the loss.
            max_norm: largest norm of the gradient, before the optimizer's own clipping.

        Returns:
            What `loss` returns, before the step.
        """
        adam = self.adams[role]
        parameters = {name: state[role][name] for name in adam.names}
        gradients, value = grad_and_value(loss, has_aux=has_aux)(parameters)
        if max_norm is not None:
            gradients = dict(zip(gradients, clipped(list(gradients.values()), max_norm), strict=True))
        adam.step(parameters, gradients, state["adam"][role], scalars[role])
        return value

    def move_target(self, role: str, target: str, state: State, tau: Tensor) -> None:
        """Move a target network's parameters towards the network's, inside a graph."""
        names = [name for name, _ in self.networks[target].named_parameters()]
        polyak(state[role], {name: state[target][name] for name in names}, tau)

    def prepare(self, batch_size: int) -> None:
        """Trace, and compile where that is the form, every graph for this size of batch; nothing changes."""
        batch = dummy_batch(self.agent, batch_size, self.dtype)
        random_state = torch.random.get_rng_state()
        for kind in self.kinds():
            taken = dict.fromkeys(self.adams, 1)
            self._graph(kind, batch, self._inputs(batch, batch_size, 0, taken))
        torch.random.set_rng_state(random_state)

    @property
    def dtype(self) -> torch.dtype:
        """Kind of number of the parameters."""
        first: Tensor = self.state_tensors[0]
        return first.dtype

    def _call(self, kind: str, batch: Batch, batch_size: int, index: int, taken: dict[str, int]) -> Tensor:
        inputs = self._inputs(batch, batch_size, index, taken)
        graph = self._graph(kind, batch, inputs)
        if self.form == "compiled" and self.agent.device.type == "cuda":
            if graph not in self.captures:
                self.captures[graph] = CapturedGraph(graph, self.state_tensors, inputs)
            return self.captures[graph](inputs)
        with torch.no_grad():
            return graph(*self.state_tensors, *inputs)

    def _inputs(self, batch: Batch, batch_size: int, index: int, taken: dict[str, int]) -> list[Tensor]:
        scalars = self.make_scalars(index, taken)
        self.scalar_counts = {name: len(values) for name, values in scalars.items()}
        flat = [value for values in scalars.values() for value in values]
        device = self.agent.device
        return [
            *tree_flatten(batch)[0],
            *self.make_noise(batch_size),
            torch.tensor(flat, dtype=self.dtype, device=device),
        ]

    def _graph(self, kind: str, batch: Batch, inputs: Sequence[Tensor]) -> Graph:
        key = (kind, *((tensor.shape, tensor.dtype) for tensor in inputs))
        graph = self.graphs.get(key)
        if graph is None:
            graph = self.graphs[key] = self._make_graph(kind, batch, inputs)
        return graph

    def _make_graph(self, kind: str, batch: Batch, inputs: Sequence[Tensor]) -> Graph:
        batch_leaves, batch_spec = tree_flatten(batch)
        n_state, n_batch = len(self.state_tensors), len(batch_leaves)
        counts = self.scalar_counts

        def flat_step(*tensors: Tensor) -> Tensor:
            state = tree_unflatten([tensors[position] for position in self.state_positions], self.state_spec)
            given = tensors[n_state:]
            values = iter(given[-1].unbind(0))
            scalars = {name: [next(values) for _ in range(count)] for name, count in counts.items()}
            return self.step(
                kind, state, tree_unflatten(given[:n_batch], batch_spec), given[n_batch:-1], scalars
            )

        tensors = [*self.state_tensors, *inputs]
        self.agent.policy.set_training_mode(True)  # dropout is traced as it trains
        graph = traced(flat_step, tensors)
        self.agent.policy.set_training_mode(False)
        if self.precision == "bf16":
            use_bfloat16(graph)
        if self.form == "compiled":
            run = compiled(graph, tensors, f"the {type(self.agent).__name__} update")
            if run is not None:
                return run
            self.form = "eager"
        return graph

    def _fingerprint(self) -> tuple[int, ...]:
        """Changes when parameters move or an optimizer's state is loaded."""
        firsts = [adam.parameters[0] for adam in self.adams.values()]
        moments = [
            adam.optimizer.state[first] for adam, first in zip(self.adams.values(), firsts, strict=True)
        ]
        return (
            *(first.data_ptr() for first in firsts),
            *(id(state.get("exp_avg")) for state in moments),
        )

    def _means(self, results: dict[str, list[Tensor]]) -> dict[str, float]:
        """Mean of each statistic; a graph gives NaN for what it doesn't compute."""
        rows = [row for rows in results.values() for row in rows]
        means = rows[0] if len(rows) == 1 else torch.stack(rows).nanmean(dim=0)
        named = zip(self.statistics, means.tolist(), strict=True)
        return {name: value for name, value in named if value == value}
