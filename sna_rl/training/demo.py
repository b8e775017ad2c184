"""The first thing to run: a separable critic that learns to swing a pendulum up, and a picture of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from torch import Tensor

from sna_rl.agents.value_table import critic_features, critic_of, value_table
from sna_rl.config import RunConfig
from sna_rl.runs import RunFolder
from sna_rl.separable.spectrum import interaction, singular_values
from sna_rl.training.build import build
from sna_rl.training.loading import Agent, Source, load_agent
from sna_rl.training.train import RunResult, train

THRESHOLD = -200.0
"""Mean return over 20 episodes of a pendulum that swings up and stays there."""


@dataclass(frozen=True)
class Demo:
    """What the demonstration came to.

    Args:
        result: the run.
        figure: PNG with learning curve and singular values.
    """

    result: RunResult
    figure: Path

    @property
    def has_learned(self) -> bool:
        """Whether 20 episodes averaged at least −200."""
        return self.result.final_return is not None and self.result.final_return >= THRESHOLD


def demo(config: RunConfig, announce: Callable[[str], None] | None = None, progress: bool = True) -> Demo:
    """Train until the evaluation episodes average −200, then draw what was learned.

    Args:
        config: a run on Pendulum-v1 with an evaluation now and then.
        announce: called with each line that says what is about to run.
        progress: show a bar, or lines where stderr is no terminal.

    Returns:
        The run and the picture.
    """
    result = train(config, command="sna-rl demo", announce=announce, progress=progress, stop_at=THRESHOLD)
    folder = RunFolder.open(result.folder)
    agent = load_agent(Source(folder.path, device="cpu"))
    try:
        trained = spectra(agent.model, agent)
        untrained = spectra(build(agent.config.replace(buffer_size=1, device="cpu"), agent.env), agent)
    finally:
        agent.env.close()
    figure = folder.path / "demo.png"
    draw(folder, trained, untrained).savefig(figure, dpi=120)
    return Demo(result, figure)


def spectra(model: BaseAlgorithm, agent: Agent, n_actions: int = 128) -> list[NDArray[Any]]:
    """Singular values of the interaction part of each critic head's value table.

    Args:
        model: whose critic.
        agent: visits the states, two episodes of them.
        n_actions: actions spread evenly over [−1, 1] in each dimension.

    Returns:
        One descending array a head.
    """
    agent.env.seed(0)
    observations: Any = agent.env.reset()
    states = []
    for _ in range(400):
        states.append(observations)
        observations, *_ = agent.env.step(agent.model.predict(observations, deterministic=True)[0])
    generator = torch.Generator().manual_seed(0)
    shape = (n_actions, *(agent.env.action_space.shape or ()))
    actions = torch.rand(shape, generator=generator) * 2 - 1
    critic = critic_of(model)
    features = critic_features(critic, torch.from_numpy(np.concatenate(states)))
    tables: Tensor = value_table(critic, features, actions)
    return [singular_values(interaction(table)).numpy() for table in tables]


def draw(folder: RunFolder, trained: list[NDArray[Any]], untrained: list[NDArray[Any]]) -> Figure:
    """Learning curve beside the critic's singular values.

    Args:
        folder: the run.
        trained: singular values of each head.
        untrained: the same before training.

    Returns:
        The figure.
    """
    figure = Figure(figsize=(10, 4), layout="constrained")
    curve, spectrum = figure.subplots(1, 2)
    with np.load(folder.evaluations_npz) as evaluations:
        steps, returns = evaluations["timesteps"], evaluations["results"]
    mean, deviation = returns.mean(axis=1), returns.std(axis=1)
    curve.fill_between(steps, mean - deviation, mean + deviation, color="#0072B2", alpha=0.2, linewidth=0)
    curve.plot(steps, mean, color="#0072B2", marker="o", label="mean ± deviation of 20 episodes")
    curve.axhline(THRESHOLD, color="#555555", linestyle="--", label=f"solved at {THRESHOLD:g}")
    curve.set(xlabel="environment steps", ylabel="return", title=f"{folder.env}, SAC with a separable critic")
    curve.legend(loc="lower right")
    for name, heads, color in (("trained", trained, "#D55E00"), ("untrained", untrained, "#999999")):
        for head, values in enumerate(heads):
            positive = values[values > values[0] * 1e-6]  # below lies float32 rounding
            label = f"{name}, {len(heads)} heads" if head == 0 else None
            spectrum.semilogy(range(1, len(positive) + 1), positive, color=color, marker=".", label=label)
    spectrum.set(
        xlabel="component", ylabel="singular value", title="interaction of state and action in the critic"
    )
    spectrum.legend()
    for axes in (curve, spectrum):
        axes.grid(alpha=0.3)
    return figure
