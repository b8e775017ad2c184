"""How separable a critic is: its value tables, null rows beside them, and a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from gymnasium import spaces
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from torch import Tensor

from sna_rl.agents.probe import (
    Probe,
    branch_gradient_ratio,
    critic_loss,
    sample_batch,
    sample_probe,
    undisturbed,
)
from sna_rl.errors import UsageError
from sna_rl.separable.components import weight_spectrum
from sna_rl.separable.families import Factor, LinearFactor
from sna_rl.separable.growing import GrowingInteraction
from sna_rl.training.diagnose.heads import Heads, fresh_heads, heads_of, untrained_mlp
from sna_rl.training.diagnose.records import Diagnosis, Question, Tables
from sna_rl.training.diagnose.table import TableReport, read_tables
from sna_rl.training.diagnose.verdict import Evidence, judge, summarise

DEFAULT_RANK = 32
MOST_DISCRETE = 4096
"""Numbered actions up to which the Bellman error is computed."""
N_TRANSITIONS = 512


@dataclass(frozen=True)
class Material:
    """What a diagnosis was read from, for the figures.

    Args:
        heads: the critic.
        features: states, as the critic's features.
        probe: the states' observations and both sets of actions.
        supported: value tables "heads n m" over supported actions.
    """

    heads: Heads
    features: Tensor
    probe: Probe
    supported: Tensor


def diagnose(
    model: OffPolicyAlgorithm, question: Question, versus: OffPolicyAlgorithm | None = None
) -> tuple[Diagnosis, Material]:
    """Diagnose the critic of an agent whose replay buffer holds transitions.

    Args:
        model: SAC, TD3, DDPG, DQN, TQC, CrossQ or QR-DQN, ours or another's; nothing of it changes.
        question: what is asked.
        versus: an agent of the same algorithm and spaces, whose critic loss is compared on the same
            transitions.

    Returns:
        The diagnosis, and what its figures are drawn from.

    Raises:
        UsageError: if the algorithm has no Q-function or the buffer holds too little.
        SnaError: if the critic's values aren't finite.
    """
    heads = heads_of(model)
    asked = question.rank or heads.rank or DEFAULT_RANK
    _check_sizes(model, question, asked)
    probe = sample_probe(model, question.n_states, question.n_actions, question.seed)
    features = heads.features(probe.observations)
    with undisturbed(question.seed, model.device):
        fresh = fresh_heads(model)
        mlp = untrained_mlp(features.shape[1], model.action_space, model.device)
    separable = heads.network is not None
    gradients = branch_gradient_ratio(model, N_TRANSITIONS, question.seed) if separable else None
    fit = _bellman_fit(model, heads, fresh, question.seed)
    loss_ratio = None if versus is None else _loss_ratio(model, versus, question.seed)
    evidence = Evidence(asked, heads.rank, model.num_timesteps, gradients, fit, loss_ratio)
    supported = heads.tables(features, probe.supported)
    read = [_read(heads, supported, features, probe.supported, question.seed)]
    if probe.uniform is not None:
        uniform = heads.tables(features, probe.uniform)
        read.append(_read(heads, uniform, features, probe.uniform, question.seed))
    tables = tuple(Tables(*both) for both in zip(*read, strict=True))
    verdicts = tuple(judge(each.supported, evidence) for each in tables)
    diagnosis = Diagnosis(
        algorithm=type(model).__name__,
        critic=type(heads.module).__name__,
        rank=heads.rank,
        n_timesteps=model.num_timesteps,
        notes=tuple(_notes(model, features)),
        verdict=summarise(verdicts),
        verdicts=verdicts,
        heads=tables,
        nulls={
            name: _null(null, features, probe)
            for name, null in (("re-initialised", fresh), ("untrained MLP", mlp))
        },
        branch_gradients=gradients,
        fit=fit,
        loss_ratio=loss_ratio,
        weight_spectra=_weight_spectra(heads),
    )
    return diagnosis, Material(heads, features, probe, supported)


def _check_sizes(model: OffPolicyAlgorithm, question: Question, rank: int) -> None:
    """Refuse tables that could not show the rank asked about."""
    space = model.action_space
    few_actions = isinstance(space, spaces.Discrete) and space.n <= question.n_actions
    columns = 2 * rank if few_actions else question.n_actions
    if min(question.n_states, columns) < 2 * rank:
        raise UsageError(
            f"{question.n_states} states and {question.n_actions} actions are too few to see rank {rank}; "
            f"take at least {2 * rank} of each (--states, --actions) or ask about a lower rank (--rank)"
        )


def _read(heads: Heads, tables: Tensor, features: Tensor, actions: Tensor, seed: int) -> list[TableReport]:
    """Read the tables of all heads over one set of actions."""
    form = None
    if heads.network is not None:
        critic: Any = heads.module
        with torch.no_grad():
            form = heads.network.bilinear(critic.encode_state(features), critic.encode_action(actions))
            if isinstance(heads.network.interaction, GrowingInteraction):
                active = heads.network.interaction.running_mask[0, 0] > 0
                form = form._replace(left=form.left[..., active], right=form.right[..., active])
    return read_tables(tables, form, seed=seed)


def _null(heads: Heads, features: Tensor, probe: Probe) -> Tables:
    """Read the first head of a critic that knows nothing."""
    reports = [
        read_tables(heads.tables(features, actions), n_reports=1, seed=None)[0]
        for actions in (probe.supported, probe.uniform)
        if actions is not None
    ]
    return Tables(*reports)


@torch.no_grad()
def _bellman_fit(model: OffPolicyAlgorithm, heads: Heads, fresh: Heads, seed: int) -> float | None:
    """Squared Bellman error of a critic over that of the re-initialised one against the same targets.

    Target: r + γ (1 − done) min_k Q_k(s', a'), a' the policy's best action; SAC's entropy term is left out.
    """
    discrete = isinstance(model.action_space, spaces.Discrete)
    if discrete and model.action_space.n > MOST_DISCRETE:  # type: ignore[attr-defined]
        return None
    with undisturbed(seed, model.device):
        batch = sample_batch(model, N_TRANSITIONS)
    features, following = heads.features(batch.observations), heads.features(batch.next_observations)
    actions = batch.actions.flatten().long() if discrete else batch.actions
    if discrete:
        numbers = torch.arange(int(model.action_space.n), device=model.device)  # type: ignore[attr-defined]
        values = heads.table(following, numbers).amin(0).amax(1)
    else:
        values = heads.values(
            following, model.policy._predict(batch.next_observations, deterministic=True)
        ).amin(0)
    targets = batch.rewards.flatten() + model.gamma * (1.0 - batch.dones.flatten()) * values
    errors = [(each.values(features, actions) - targets).square().mean() for each in (heads, fresh)]
    return float(errors[0] / errors[1])


def _loss_ratio(model: OffPolicyAlgorithm, versus: OffPolicyAlgorithm, seed: int) -> float:
    """Critic loss of one agent over another's on the same transitions, each against its own target."""
    one, other = type(model), type(versus)
    own = (model.observation_space, model.action_space)
    if own != (versus.observation_space, versus.action_space):
        raise UsageError(
            "the agent to compare with was trained on other spaces; compare agents of one environment"
        )
    if not (issubclass(one, other) or issubclass(other, one)):
        raise UsageError(
            f"the critic losses of {one.__name__} and {other.__name__} do not compare; take one algorithm"
        )
    versus.replay_buffer = model.replay_buffer
    losses = []
    for agent in (model, versus):
        with undisturbed(seed, agent.device), torch.no_grad():
            losses.append(float(critic_loss(agent, sample_batch(agent, N_TRANSITIONS))))
    return losses[0] / losses[1]


def _weight_spectra(heads: Heads) -> list[list[float]] | None:
    """Spectra of the product of two linear factors' weights."""
    network = heads.network
    modes = [] if network is None else cast(list[Factor], list(network.factors))
    factors = [mode.components_from for mode in modes]
    if len(factors) != 2 or not all(isinstance(factor, LinearFactor) for factor in factors):
        return None
    left, right = (cast(LinearFactor, factor).layer.weight for factor in factors)
    return [weight_spectrum(one, other).tolist() for one, other in zip(left, right, strict=True)]


def _notes(model: OffPolicyAlgorithm, features: Tensor) -> list[str]:
    """What a reader must know of this table."""
    notes = []
    space = model.observation_space
    if isinstance(space, spaces.Dict) or len(space.shape or ()) > 1:
        notes.append(
            f"states are the {features.shape[1]} outputs of the critic's features extractor: "
            f"observations are {type(space).__name__}{space.shape or ''}"
        )
    if isinstance(model.action_space, spaces.Discrete):
        most = int(model.action_space.n) - 1
        notes.append(f"{most + 1} actions: the interaction's rank is at most {most} whatever the critic")
    return notes
