"""Rank of the critic's value table while it learns, in TensorBoard; training is not disturbed."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure as Drawing
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Figure, TensorBoardOutputFormat
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from torch import Tensor

from sna_rl.agents.critics import SeparableCritic
from sna_rl.agents.probe import branch_gradient_ratio, has_samples, sample_probe
from sna_rl.agents.q_networks import SeparableQNetwork
from sna_rl.agents.value_table import critic_features, critic_of, value_table
from sna_rl.separable.ranks import effective_rank_of, energy_rank_of
from sna_rl.separable.spectrum import component_use, idle_components, noise_floor, shares, singular_values

GROUP = "separable"
TENSORBOARD_ALONE = ("stdout", "log", "json", "csv")
LAYOUT: dict[str, dict[str, list[Any]]] = {
    "rank of the critic": {
        "rank": [
            "Multiline",
            [f"{GROUP}/{name}" for name in ("effective_rank", "energy_rank_99", "idle_components")],
        ],
        "shares": ["Multiline", [f"{GROUP}/{name}_share" for name in ("state", "action", "interaction")]],
        "gradient ratio": ["Multiline", [f"{GROUP}/branch_gradient_ratio"]],
        "noise floor": ["Multiline", [f"{GROUP}/noise_floor"]],
    }
}
"""TensorBoard's custom scalars that put the metrics side by side."""


def table_metrics(tables: Float[Tensor, "critics n m"]) -> dict[str, float]:
    """Ranks and shares of a critic's value tables, each the mean over heads of the heads' own values.

    - effective_rank = exp(−Σ p ln p), p = σ / Σσ of the double-centred table.
    - energy_rank_90, energy_rank_99 = least k with Σ_{i ≤ k} σ² ≥ q Σ σ².
    - state_share, action_share, interaction_share: parts of the table's variance; they sum to 1.
    - noise_floor (two heads or more): largest singular value of half the first two heads' difference.

    Args:
        tables: one value table a head.

    Returns:
        Name to value.

    Example:
        >>> table_metrics(torch.outer(torch.arange(3.0), torch.arange(4.0)).unsqueeze(0))["energy_rank_99"]
        1.0
    """
    values = torch.stack([singular_values(table) for table in tables])
    parts = np.array([shares(table) for table in tables]).mean(axis=0)
    metrics = {
        "effective_rank": float(effective_rank_of(values).mean()),
        "energy_rank_90": float(energy_rank_of(values, 0.90).mean()),
        "energy_rank_99": float(energy_rank_of(values, 0.99).mean()),
        "state_share": float(parts[0]),
        "action_share": float(parts[1]),
        "interaction_share": float(parts[2]),
    }
    if len(tables) > 1:
        metrics["noise_floor"] = noise_floor(tables[0], tables[1])
    return metrics


class RankMetrics(BaseCallback):
    """Log what a critic's value table looks like, at a fixed interval and at the end.

    States and half of the actions come from the replay buffer, normalised as the critic sees them; the other
    half is spread evenly over the actions. They make two tables that are never pooled: `separable/...` on the
    buffer's actions, `separable_uniform/...` on the even ones. Separable critics add `idle_components`,
    `branch_gradient_ratio` and the histogram `component_use`. `time/metrics_share` is the share of the time
    since training began that all this took. No generator that training reads is moved.

    Args:
        interval: environment steps between two measurements.
        n_states: rows of the tables.
        n_actions: columns of the tables.
        seed: decides which states and actions are drawn.

    Cost:
        At the default interval under 2 % of training time; a separable critic's table costs n + m towers,
        another's n · m passes.

    Example:
        >>> from stable_baselines3 import SAC
        >>> from sna_rl.agents import SNASACPolicy
        >>> agent = SAC(SNASACPolicy, "Pendulum-v1", policy_kwargs={"rank": 4}, learning_starts=10)
        >>> _ = agent.learn(20, callback=RankMetrics(interval=10))
    """

    not_saved: ClassVar[tuple[str, ...]] = ("_spent", "_started")

    def __init__(
        self, interval: int = 2_500, n_states: int = 128, n_actions: int = 64, seed: int = 0
    ) -> None:
        super().__init__()
        self.interval = interval
        self.n_states = n_states
        self.n_actions = n_actions
        self.seed = seed
        self.model: OffPolicyAlgorithm
        self._next = interval
        self._spent = 0.0
        self._started = 0.0

    def _on_training_start(self) -> None:
        self._started, self._spent = time.perf_counter(), 0.0
        self._next = (self.num_timesteps // self.interval + 1) * self.interval
        for output in self.logger.output_formats:
            if isinstance(output, TensorBoardOutputFormat):
                output.writer.add_custom_scalars(LAYOUT)

    def _on_step(self) -> bool:
        if self.num_timesteps >= self._next:
            self._next += self.interval
            self.measure()
        return True

    def _on_training_end(self) -> None:
        self.measure()

    def measure(self) -> None:
        """Log every metric of the critic as it is now; nothing before the replay buffer can give a batch."""
        if not has_samples(self.model):
            return
        began = time.perf_counter()
        self._record()
        self._spent += time.perf_counter() - began
        self.logger.record("time/metrics_share", self._spent / (time.perf_counter() - self._started))
        self.logger.dump(self.num_timesteps)

    @torch.no_grad()
    def _record(self) -> None:
        critic = critic_of(self.model)
        seed = self.seed + self.num_timesteps
        probe = sample_probe(self.model, self.n_states, self.n_actions, seed)
        features = critic_features(critic, probe.observations)
        tables = value_table(critic, features, probe.supported)
        metrics = table_metrics(tables)
        if probe.uniform is not None:
            self._scalars(f"{GROUP}_uniform", table_metrics(value_table(critic, features, probe.uniform)))
        if isinstance(critic, SeparableCritic | SeparableQNetwork):
            metrics |= self._components(critic, features, probe.supported)
            ratio = branch_gradient_ratio(self.model, self.model.batch_size, seed)
            metrics |= {} if ratio is None else {"branch_gradient_ratio": ratio}
        self._scalars(GROUP, metrics)
        spectra = torch.stack([singular_values(table) for table in tables])
        drawing = draw_spectra(spectra, metrics.get("noise_floor"))
        self.logger.record(f"{GROUP}/singular_values", Figure(drawing, close=True), exclude=TENSORBOARD_ALONE)

    def _components(
        self, critic: SeparableCritic | SeparableQNetwork, features: Tensor, actions: Tensor
    ) -> dict[str, float]:
        """Log how much each component is used; the number of idle ones, mean over heads."""
        form = critic.network.bilinear(critic.encode_state(features), critic.encode_action(actions))
        if form.left.shape[-1] == 0:
            return {}
        use = component_use(form.left, form.right)
        self.logger.record(f"{GROUP}/component_use", use.mean(0), exclude=TENSORBOARD_ALONE)
        return {"idle_components": float(np.mean([idle_components(head) for head in use]))}

    def _scalars(self, group: str, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self.logger.record(f"{group}/{name}", value)


def draw_spectra(spectra: Float[Tensor, "critics values"], floor: float | None) -> Drawing:
    """Singular values of each head's interaction on a logarithmic scale, with the noise floor.

    Args:
        spectra: singular values, largest first, one row a head.
        floor: noise floor, None where there is one head.

    Returns:
        A matplotlib figure.

    Example:
        >>> len(draw_spectra(torch.tensor([[2.0, 1.0]]), floor=0.5).axes[0].lines)
        2
    """
    drawing = Drawing(figsize=(5.0, 3.5), layout="constrained")
    axes = drawing.subplots()
    for head, values in enumerate(spectra.cpu()):
        seen = values[values > 0]
        axes.plot(range(1, len(seen) + 1), seen, marker=".", label=f"head {head + 1}")
    if floor is not None:
        axes.axhline(floor, color="grey", linestyle="--", label="noise floor")
    axes.set(xlabel="component", ylabel="singular value of the interaction", yscale="log")
    axes.legend()
    return drawing
