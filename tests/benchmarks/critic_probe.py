"""How well does each critic learn the value of one fixed policy, and which action is better in a state?

Run it as `python tests/benchmarks/critic_probe.py RUN`, RUN being a SAC run on HalfCheetah-v5. Its policy,
made deterministic, acts with noise of several sizes; every critic then learns from these same transitions
by SAC's own update, with the policy held still. The truth comes from Monte-Carlo: the simulator is put in a
state, takes an action, and follows the policy. What a return curve shows after hours and with the noise of
exploration, this shows in a minute. Rows in table.csv stay.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from sna_rl.agents import ALGORITHMS
from sna_rl.runs import versions, write_json
from sna_rl.runs.rows import Rows
from sna_rl.training.loading import Source, load_agent

Array = NDArray[np.float32]
ENV = "HalfCheetah-v5"
N_TRANSITIONS = 40_000
NOISES = (0.0, 0.2, 0.5, 1.0)
N_STATES, N_ACTIONS, HORIZON = 256, 8, 100
GAMMA = 0.95
CHECKS = (2000, 4000, 8000)
LEARNING_RATE = 3e-4
STILL = 1e-12
"""Learning rate of the policy, which is not to move."""
CRITICS: dict[str, dict[str, Any]] = {
    "mlp": {"critic": "mlp"},
    "mlp, LayerNorm": {"critic": "mlp", "layer_norm": True},
    "mlp-matched": {"critic": "mlp-matched"},
    "mlp-matched, LayerNorm": {"critic": "mlp-matched", "layer_norm": True},
    "cp": {},
    "cp, no LayerNorm": {"layer_norm": False},
    "cp, no LayerNorm, no clip": {"layer_norm": False, "max_grad_norm": None},
    "cp, learning rate × 3": {"critic_lr_ratio": 3.0},
    "cp, rank 8": {"rank": 8},
    "cp, rank 128": {"rank": 128},
    "cp, width 256, rank 64": {"width": 256, "rank": 64},
    "cp, action depth 2": {"action_depth": 2},
    "cp, basic form": {"factor": "linear"},
    "cp, order 2, each action a mode": {"order": 2, "action_modes": "each"},
    "spline-joint": {"critic": "spline-joint"},
    "additive": {"critic": "additive"},
}


@dataclass(frozen=True)
class Truth:
    """Monte-Carlo returns of state–action pairs.

    Args:
        observations: (states, observation).
        actions: (states, actions, action); half of each state's near the policy, then uniform ones.
        returns: (states, actions), discounted, of following the policy after the action.
    """

    observations: Array
    actions: Array
    returns: NDArray[np.float64]


def collect(model: Any, rng: np.random.Generator) -> dict[str, Array]:
    """Transitions of the policy with noise; each episode draws its size of noise."""
    env = gymnasium.make(ENV)
    kept: dict[str, list[Any]] = {name: [] for name in ("obs", "next_obs", "action", "reward", "last")}
    observation, _ = env.reset(seed=0)
    scale = NOISES[0]
    for _ in range(N_TRANSITIONS):
        action = model.predict(observation, deterministic=True)[0]
        action = np.clip(action + scale * rng.standard_normal(action.shape), -1.0, 1.0).astype(np.float32)
        following, reward, _, truncated, _ = env.step(action)
        values = (observation, following, action, reward, truncated)
        for name, value in zip(kept, values, strict=True):
            kept[name].append(value)
        observation = following
        if truncated:
            observation, _ = env.reset()
            scale = float(rng.choice(NOISES))
    return {name: np.array(values, np.float32) for name, values in kept.items()}


def measure_truth(model: Any, data: dict[str, Array], rng: np.random.Generator) -> Truth:
    """Returns of random states and actions, from the simulator."""
    observations = data["obs"][rng.choice(len(data["obs"]), N_STATES, replace=False)]
    best = model.predict(observations, deterministic=True)[0]
    near = best[:, None] + 0.3 * rng.standard_normal((N_STATES, N_ACTIONS // 2, best.shape[1]))
    uniform = rng.uniform(-1.0, 1.0, near.shape)
    actions = np.clip(np.concatenate([near, uniform], 1), -1.0, 1.0).astype(np.float32)
    envs = [gymnasium.make(ENV).unwrapped for _ in range(N_ACTIONS)]
    for env in envs:
        env.reset(seed=0)
    n_positions = envs[0].model.nq  # type: ignore[attr-defined]
    returns = np.zeros((N_STATES, N_ACTIONS))
    for row in range(N_STATES):
        state = np.concatenate([[0.0], observations[row]])  # the distance covered, which nothing depends on
        for env in envs:
            env.set_state(state[:n_positions], state[n_positions:])  # type: ignore[attr-defined]
        taken = actions[row]
        for step in range(HORIZON):
            results = [env.step(action) for env, action in zip(envs, taken, strict=True)]
            returns[row] += GAMMA**step * np.array([result[1] for result in results])
            taken = model.predict(np.array([result[0] for result in results]), deterministic=True)[0]
    return Truth(observations, actions, returns)


def learner(model: Any, data: dict[str, Array], critic: dict[str, Any], seed: int) -> Any:
    """A SAC agent with the run's policy, held still and deterministic, and the transitions in its buffer."""
    kwargs = {"critic": "cp", **critic}
    kwargs["critic_lr_ratio"] = kwargs.get("critic_lr_ratio", 1.0) * LEARNING_RATE / STILL
    agent: Any = ALGORITHMS["sac"](
        "SNAPolicy",
        ENV,
        learning_rate=STILL,
        ent_coef=0.0,
        buffer_size=N_TRANSITIONS,
        gamma=GAMMA,
        seed=seed,
        update="compiled",
        policy_kwargs=kwargs,
    )
    agent.actor.load_state_dict(model.actor.state_dict())
    with torch.no_grad():
        agent.actor.log_std.weight.zero_()
        agent.actor.log_std.bias.fill_(-20.0)
    for row in range(N_TRANSITIONS):
        last = data["last"][row : row + 1]
        infos = [{"TimeLimit.truncated": bool(last[0])}]
        values = (data[name][row : row + 1] for name in ("obs", "next_obs", "action", "reward"))
        agent.replay_buffer.add(*values, last, infos)
    agent._setup_learn(100_000)
    return agent


def explained(values: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Share of the truth's variance that the best affine function of the values explains."""
    return float(np.corrcoef(values.ravel(), truth.ravel())[0, 1] ** 2)


def centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values less their mean in each state."""
    return np.asarray(values - values.mean(1, keepdims=True))


@torch.no_grad()
def score(agent: Any, truth: Truth) -> dict[str, float]:
    """How much of the returns, and of the differences between a state's actions, the critic explains."""
    states = torch.from_numpy(np.repeat(truth.observations, N_ACTIONS, 0))
    actions = torch.from_numpy(truth.actions.reshape(-1, truth.actions.shape[-1]))
    found = agent.critic.q_values(states, actions).mean(0).double().numpy().reshape(N_STATES, N_ACTIONS)
    half = N_ACTIONS // 2
    near, uniform = slice(None, half), slice(half, None)
    best = found.argmax(1)
    rows = np.arange(N_STATES)
    ranges = truth.returns.max(1) - truth.returns.min(1)
    return {
        "value": explained(found, truth.returns),
        "near": explained(centred(found[:, near]), centred(truth.returns[:, near])),
        "uniform": explained(centred(found[:, uniform]), centred(truth.returns[:, uniform])),
        "regret": float(((truth.returns.max(1) - truth.returns[rows, best]) / ranges).mean()),
        "bias": float((found - truth.returns).mean()),
    }


def main() -> None:
    """Collect, measure the truth, let every critic learn."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("results/critic_probe"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    parser.add_argument("--critics", nargs="+", choices=list(CRITICS), default=list(CRITICS))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    table = Rows(arguments.out / "table.csv", ["critic", "seed", "updates"])
    model = load_agent(Source(arguments.run), n_envs=1).model
    rng = np.random.default_rng(0)
    data = collect(model, rng)
    truth = measure_truth(model, data, rng)
    write_json(arguments.out / "versions.json", versions())
    print(
        f"truth: deviation {truth.returns.std():.1f}, within states {centred(truth.returns).std():.1f}",
        flush=True,
    )
    for seed in arguments.seeds:
        for name in arguments.critics:
            if table.find(critic=name, seed=seed, updates=CHECKS[-1]):
                continue
            agent = learner(model, data, CRITICS[name], seed)
            n_parameters = sum(parameter.numel() for parameter in agent.critic.parameters())
            started, taken = time.process_time(), 0
            for n_updates in CHECKS:
                agent.train(n_updates - taken, 256)
                taken = n_updates
                row = {"critic": name, "seed": seed, "updates": n_updates, "parameters": n_parameters}
                row |= {key: round(value, 4) for key, value in score(agent, truth).items()}
                row["cpu_seconds"] = round(time.process_time() - started, 1)
                if table.find(critic=name, seed=seed, updates=n_updates) is None:
                    table.add(row)
                print(*row.values(), sep="\t", flush=True)


if __name__ == "__main__":
    main()
