"""Does a learned critic show the rank that is known to be true? Does an MLP's rank tell which one is needed?

Run it as `python tests/benchmarks/rank_truth.py`. The optimal policy of linear-quadratic regulators of known
rank is evaluated by temporal differences on a fixed set of 50,000 transitions with uniform actions. Rows that
stand in table.csv are not computed again.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from sna_rl.envs import LQREnv
from sna_rl.runs import versions, write_json
from sna_rl.separable import FactorConfig, SeparableNetwork
from sna_rl.separable.decomposition import Decomposition
from sna_rl.separable.ranks import energy_rank_of

TRUE_RANKS = (1, 2, 4, 8)
LEARNED_RANK = 16
SWEPT_RANKS = (1, 2, 4, 8, 12)
N_TRANSITIONS = 50_000
EPISODE = 50
N_STATES, N_ACTIONS = 512, 256
BATCH = 512
N_STEPS = 10_000
LEARNING_RATE = 2e-3
TAU = 0.03
Q = 0.99

Function = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Row:
    """One learned critic.

    Args:
        critic: "separable" or "mlp".
        true_rank: of the regulator's interaction.
        critic_rank: components of the critic; 0 for the MLP.
        seed: of transitions, parameters and batches.
        exact: 99 % energy rank of the exact table on the same states and actions.
        learned: 99 % energy rank of the learned table.
        error: variance of the table's error over the exact table's variance.
        offset: mean of the error, which changes neither ranks nor best actions.
        loss: squared temporal difference over all transitions at the end.
        cpu_seconds: of the learning.
    """

    critic: str
    true_rank: int
    critic_rank: int
    seed: int
    exact: int
    learned: int
    error: float
    offset: float
    loss: float
    cpu_seconds: float

    @property
    def right(self) -> bool:
        """Whether the rank is within 1 of the exact table's with an error under 1 % of Q's variance."""
        return abs(self.learned - self.exact) <= 1 and self.error < 0.01


@dataclass(frozen=True)
class Transitions:
    """What the critic learns from; next actions are the optimal policy's."""

    states: Tensor
    actions: Tensor
    rewards: Tensor
    next_states: Tensor
    next_actions: Tensor


def collect(env: LQREnv, seed: int) -> Transitions:
    """Episodes of 50 steps from s ~ N(0, I) with uniform actions, all at once."""
    rng = np.random.default_rng(seed)
    state = rng.standard_normal((N_TRANSITIONS // EPISODE, len(env.state)))
    parts: list[tuple[np.ndarray, ...]] = []
    for _ in range(EPISODE):
        action = rng.uniform(-1.0, 1.0, (len(state), env.action_cost.shape[0]))
        cost = ((state @ env.state_cost) * state).sum(1) + ((action @ env.action_cost) * action).sum(1)
        following = state @ env.dynamics.T + action @ env.input_matrix.T
        following = following + env.noise_std * rng.standard_normal(state.shape)
        parts.append((state, action, -cost, following, env.optimal_action(following)))
        state = following
    return Transitions(*(torch.from_numpy(np.concatenate(each)).float() for each in zip(*parts, strict=True)))


def evaluate_policy(
    make: Callable[[], tuple[nn.Module, Function]], data: Transitions, gamma: float
) -> Function:
    """Learn Q of the policy that chose `next_actions`, with a slowly moving target."""
    (network, values), (target, target_values) = make(), make()
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, N_STEPS)
    learned: list[Tensor] = list(network.parameters())
    followed: list[Tensor] = list(target.parameters())
    for _ in range(N_STEPS):
        batch = torch.randint(len(data.rewards), (BATCH,))
        with torch.no_grad():
            goal = data.rewards[batch] + gamma * target_values(
                data.next_states[batch], data.next_actions[batch]
            )
        loss = (values(data.states[batch], data.actions[batch]) - goal).square().mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            torch._foreach_lerp_(followed, learned, TAU)
    return values


def separable(rank: int) -> tuple[nn.Module, Function]:
    """A separable critic, two hidden layers of 128 with LayerNorm for each mode."""
    network = SeparableNetwork([8, 8], rank, factor=FactorConfig(width=128, depth=2, layer_norm=True))
    return network, lambda states, actions: network([states, actions])[0]


def mlp() -> tuple[nn.Module, Function]:
    """Stable-Baselines3's critic: two hidden layers of 256."""
    network = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    return network, lambda states, actions: network(torch.cat([states, actions], 1)).squeeze(1)


def learn(critic: str, true_rank: int, critic_rank: int, seed: int) -> Row:
    """Learn one critic and read its table beside the exact one."""
    env = LQREnv(8, 8, true_rank, action_cost=2.0, noise_std=0.02, model_seed=seed)
    data = collect(env, seed)
    torch.manual_seed(seed)
    began = time.process_time()
    values = evaluate_policy(mlp if critic == "mlp" else lambda: separable(critic_rank), data, env.gamma)
    seconds = time.process_time() - began
    states = data.states[torch.randperm(N_TRANSITIONS)[:N_STATES]]
    actions = 2.0 * torch.rand(N_ACTIONS, 8) - 1.0
    exact = torch.from_numpy(env.optimal_q(states[:, None].numpy(), actions.numpy()))
    with torch.no_grad():
        table = torch.stack([values(state.expand(N_ACTIONS, -1), actions) for state in states])
        goal = data.rewards + env.gamma * values(data.next_states, data.next_actions)
        loss = float((values(data.states, data.actions) - goal).square().mean())
    wrong = table.double() - exact
    return Row(
        critic=critic,
        true_rank=true_rank,
        critic_rank=critic_rank,
        seed=seed,
        exact=_rank(exact),
        learned=_rank(table),
        error=float(wrong.var() / exact.var()),
        offset=float(wrong.mean()),
        loss=loss,
        cpu_seconds=round(seconds, 1),
    )


def _rank(table: Tensor) -> int:
    return int(energy_rank_of(Decomposition.of(table).values, Q))


def jobs(n_seeds: int, n_swept: int) -> Iterator[tuple[str, int, int, int]]:
    """Every critic of the study."""
    for true_rank in TRUE_RANKS:
        yield from (("separable", true_rank, LEARNED_RANK, seed) for seed in range(n_seeds))
        yield from (("mlp", true_rank, 0, seed) for seed in range(n_swept))
        yield from (("separable", true_rank, rank, seed) for rank in SWEPT_RANKS for seed in range(n_swept))


def read(path: Path) -> list[Row]:
    """Rows that stand in a table already."""
    if not path.exists():
        return []
    kinds = {"critic": str, "error": float, "offset": float, "loss": float, "cpu_seconds": float}
    with path.open() as file:
        return [
            Row(**{key: kinds.get(key, int)(value) for key, value in row.items()})
            for row in csv.DictReader(file)
        ]


def summarise(rows: list[Row]) -> list[dict[str, object]]:
    """One line a true rank: how often the learned one is right, and the MLP's beside the one needed."""
    lines: list[dict[str, object]] = []
    for true_rank in TRUE_RANKS:
        mine = [row for row in rows if row.true_rank == true_rank]
        first = [row for row in mine if row.critic_rank == LEARNED_RANK]
        mlps = [row for row in mine if row.critic == "mlp"]
        swept = {row.seed for row in mlps}
        losses = {
            rank: float(np.mean([row.loss for row in mine if row.critic_rank == rank and row.seed in swept]))
            for rank in (*SWEPT_RANKS, LEARNED_RANK)
        }
        lines.append(
            {
                "true_rank": true_rank,
                "right": f"{sum(row.right for row in first)}/{len(first)}",
                "learned_rank": _spread([row.learned for row in first]),
                "largest_error": max(row.error for row in first),
                "largest_offset": max(abs(row.offset) for row in first),
                "mlp_rank": _spread([row.learned for row in mlps]),
                "mlp_error": max(row.error for row in mlps),
                "loss_stops_falling_at": next(r for r in losses if losses[r] <= 1.05 * min(losses.values())),
                **{f"loss_at_{rank}": loss for rank, loss in losses.items()},
                "mlp_loss": float(np.mean([row.loss for row in mlps])),
            }
        )
    return lines


def _spread(values: list[int]) -> str:
    if not values:
        return "to run"
    return str(min(values)) if min(values) == max(values) else f"{min(values)}–{max(values)}"


def draw(rows: list[Row], path: Path) -> None:
    """Learned over exact rank, and loss over the critic's rank."""
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for critic, marker in (("separable", "o"), ("mlp", "s")):
        shown = [row for row in rows if row.critic == critic and row.critic_rank in (0, LEARNED_RANK)]
        jitter = np.random.default_rng(0).uniform(-0.12, 0.12, len(shown))
        left.plot(
            [row.exact for row in shown] + jitter,
            [row.learned for row in shown],
            marker,
            mfc="none",
            label=critic,
        )
    left.axline((1, 1), slope=1, color="0.7", lw=1)
    left.set(xlabel="99 % energy rank of the exact table", ylabel="of the learned table", yscale="log")
    left.legend(frameon=False)
    for true_rank in TRUE_RANKS:
        mine = [row for row in rows if row.true_rank == true_rank and row.critic == "separable"]
        ranks = sorted({row.critic_rank for row in mine})
        means = [np.mean([row.loss for row in mine if row.critic_rank == rank]) for rank in ranks]
        right.plot(ranks, means, "o-", label=f"true rank {true_rank}")
    right.set(
        xlabel="rank of the separable critic",
        ylabel="squared temporal difference",
        xscale="log",
        yscale="log",
    )
    right.set_xticks(ranks, [str(rank) for rank in ranks])
    right.legend(frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Compute the rows that are missing, then write the summary and the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="seeds of the rank-16 critics")
    parser.add_argument("--swept-seeds", type=int, default=2, help="seeds of the MLPs and of the other ranks")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/rank_truth"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    table = options.output / "table.csv"
    options.output.mkdir(parents=True, exist_ok=True)
    rows = read(table)
    done = {(row.critic, row.true_rank, row.critic_rank, row.seed) for row in rows}
    for job in jobs(options.seeds, options.swept_seeds):
        if job not in done:
            rows.append(learn(*job))
            print(rows[-1], flush=True)
            with table.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(asdict(rows[0])))
                writer.writeheader()
                writer.writerows(map(asdict, rows))
    lines = summarise(rows)
    with (options.output / "summary.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    draw(rows, options.output / "learned.png")
    (options.output / "command").write_text(f"python {' '.join(sys.argv)}\n")
    write_json(options.output / "versions.json", versions())


if __name__ == "__main__":
    main()
