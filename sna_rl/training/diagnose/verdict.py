"""The verdict on a critic's rank, in words, with the numbers that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sna_rl.training.diagnose.table import TableReport

ENERGY = 0.99
LEAST_SHARE = 0.01
MOST_REGRET = 0.01
DEAD_BRANCH = 0.01
MOST_FIT = 0.25
MOST_LOSS_RATIO = 1.05


@dataclass(frozen=True)
class Evidence:
    """What decides beside the table.

    Args:
        asked_rank: rank that the question is about.
        critic_rank: most components the critic can have; None where nothing bounds it.
        n_timesteps: environment steps that the agent has learned from.
        branch_gradients: gradient of the interaction over that of the branches; None where it has no meaning.
        fit: squared Bellman error over that of a re-initialised critic.
        loss_ratio: critic loss over that of a matched MLP, where one is given.
    """

    asked_rank: int
    critic_rank: int | None = None
    n_timesteps: int = 1
    branch_gradients: float | None = None
    fit: float | None = None
    loss_ratio: float | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether a critic is separable, and at what rank.

    Args:
        kind: "separable", "rank binds" or "not known".
        rank: the rank it is separable at; the critic's own where that binds.
        reason: the numbers behind it.
    """

    kind: str
    rank: int | None
    reason: str

    def __str__(self) -> str:
        """The verdict as one sentence."""
        named = f"{self.kind} at rank {self.rank}" if self.kind == "separable" else self.kind
        return f"{named}: {self.reason}"


def judge(report: TableReport, evidence: Evidence) -> Verdict:
    """Judge one head by its table over supported actions.

    *Not known* before all else where the critic is untrained or a branch is dead. *Rank binds*: the last
    singular value that the critic can have stands above the noise floor. *Separable at r*: the interaction
    matters, r components hold 99 % of the energy that stands above the noise floor, acting on r of them loses
    at most 1 % of the row range, r is at most the rank asked for, and the critic's loss is within 5 % of the
    matched MLP's where one is given. The interaction matters where it holds 1 % of the variance, or where
    acting without it loses more than 1 % of the row range: the value of the state, which decides nothing, may
    be hundreds of times as large.

    Args:
        report: what the table says.
        evidence: what decides beside it.

    Returns:
        The verdict.
    """
    if evidence.n_timesteps == 0:
        return Verdict("not known", None, "the critic is untrained, it has learned from 0 steps")
    gradients = evidence.branch_gradients
    if gradients is not None and gradients < DEAD_BRANCH:
        return Verdict(
            "not known",
            None,
            f"the interaction is a dead branch, its gradients are {gradients:.3g} of the additive branches'",
        )
    share = report.shares["interaction"].value
    if share < LEAST_SHARE and _regret(report, 0) <= MOST_REGRET:
        return Verdict(
            "not known",
            None,
            f"the interaction holds only {share:.1%} of the variance, and acting without it loses "
            f"{_regret(report, 0):.2%} of the row range",
        )
    untrained = _untrained(report, evidence)
    if untrained:
        return Verdict("not known", None, untrained)
    bound, floor = evidence.critic_rank, report.noise_floor
    if (
        bound
        and floor is not None
        and bound < min(report.states, report.actions)
        and report.above_floor == bound
    ):
        last = report.singular_values[bound - 1]
        return Verdict(
            "rank binds",
            bound,
            f"σ_{bound} = {last:.3g} stands above the noise floor {floor:.3g}, so all {bound} components are "
            "in use; try a higher rank, and if it binds at every rank the MLP is the better choice",
        )
    by_energy, by_regret = report.counted_rank(ENERGY), report.regret_rank(MOST_REGRET)
    rank = max(1, by_energy, by_regret)
    if rank > evidence.asked_rank:
        return Verdict(
            "not known",
            None,
            f"99 % of the energy above the noise floor takes {by_energy} components and a regret under 1 % "
            f"takes {by_regret}, more than the {evidence.asked_rank} asked about",
        )
    if evidence.loss_ratio is not None and evidence.loss_ratio > MOST_LOSS_RATIO:
        return Verdict(
            "not known",
            None,
            f"the table reads as rank {rank}, but the critic's loss is {evidence.loss_ratio:.2f} times "
            "the other's",
        )
    return Verdict(
        "separable",
        rank,
        f"{by_energy} components hold 99 % of the interaction's energy above the noise floor, acting on "
        f"{rank} loses {_regret(report, rank):.2%} of the row range (on none {_regret(report, 0):.2%}), and "
        f"the interaction holds {share:.1%} of the variance",
    )


def summarise(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict for all heads: theirs where they agree in kind, with the largest rank; else not known.

    Args:
        verdicts: one a head.

    Example:
        >>> str(summarise([Verdict("separable", 3, "a"), Verdict("separable", 4, "b")]))
        'separable at rank 4: b'
    """
    kinds = {verdict.kind for verdict in verdicts}
    if len(kinds) == 1:
        return max(verdicts, key=lambda verdict: verdict.rank or 0)
    listed = "; ".join(f"head {index + 1} {verdict}" for index, verdict in enumerate(verdicts))
    return Verdict("not known", None, f"the heads differ: {listed}")


def _untrained(report: TableReport, evidence: Evidence) -> str | None:
    """Why the critic must be taken for untrained; None where it need not."""
    if report.above_floor == 0:
        return (
            "no singular value of the interaction stands above the noise floor: whatever one head shows, the "
            "next one contradicts"
        )
    if evidence.fit is not None and evidence.fit > MOST_FIT:
        return (
            "the critic looks untrained, its squared Bellman error is "
            f"{evidence.fit:.2f} times that of a re-initialised one"
        )
    return None


def _regret(report: TableReport, rank: int) -> float:
    return report.regret[min(rank, len(report.regret) - 1)]
