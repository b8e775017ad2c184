"""One arm of the throughput benchmark: trains in rounds, one for each line on its standard input.

It imports sna_rl only for arms of sna_rl, so that SBX's arms run in an environment of their own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import mujoco

STARTS = 300
"""Random steps before learning."""
WARM_UP = 300
"""Updates before the first round; compiling happens in them."""


def make(arm: dict[str, Any]) -> Any:
    """The agent that an arm describes."""
    common: dict[str, Any] = {
        "learning_starts": STARTS,
        "train_freq": 1,
        "gradient_steps": 1,
        "buffer_size": 100_000,
        "seed": 1,
    }
    if arm["algo"] != "dqn":
        common["batch_size"] = 256
    else:
        common |= {"batch_size": 64, "learning_rate": 1e-3}
    if arm["library"] == "ours":
        from sna_rl.agents import ALGORITHMS

        return ALGORITHMS[arm["algo"]](
            "SNAPolicy",
            arm["env"],
            update="compiled",
            policy_kwargs=arm["policy_kwargs"],
            **arm["options"],
            **common,
        )
    module = __import__("stable_baselines3" if arm["library"] == "sb3" else "sbx")
    return getattr(module, arm["algo"].upper())("MlpPolicy", arm["env"], **arm["options"], **common)


def parameters(agent: Any) -> int:
    """Number of the critic's parameters, targets not counted."""
    if hasattr(agent.policy, "qf_state"):
        tree = __import__("jax").tree_util
        return sum(leaf.size for leaf in tree.tree_leaves(agent.policy.qf_state.params))
    critic = getattr(agent.policy, "critic", None) or agent.policy.q_net
    return sum(parameter.numel() for parameter in critic.parameters())


class Stopwatch:
    """Time spent within some methods of an object, those called by others counted once."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, owner: Any, method: str, name: str) -> None:
        """Replace a method by a timed one."""
        function = getattr(owner, method)
        self.seconds.setdefault(name, 0.0)

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = function(*args, **kwargs)
            self.seconds[name] += time.perf_counter() - start
            return result

        setattr(owner, method, timed)

    def shares(self, whole: float) -> dict[str, float]:
        """Share of the whole by name; sampling lies within the update's method."""
        seconds = {**self.seconds, "update": self.seconds["update"] - self.seconds["sampling"]}
        shares = {name: value / whole for name, value in seconds.items()}
        return {**shares, "rest": 1.0 - sum(shares.values())}


def train(agent: Any, n_steps: int) -> dict[str, float]:
    """Train on and say how long it took."""
    wall, processor = time.perf_counter(), time.process_time()
    agent.learn(n_steps, reset_num_timesteps=False)
    return {
        "steps": n_steps,
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - processor,
    }


def serve(arm: dict[str, Any]) -> None:
    """Answer each line, {"steps": n} or {"steps": n, "profile": true}, with one line of figures."""
    agent = make(arm)
    start = time.perf_counter(), time.process_time()
    agent.learn(STARTS + WARM_UP)
    answer(
        {
            "first_seconds": time.perf_counter() - start[0],
            "first_cpu_seconds": time.process_time() - start[1],
            "parameters": parameters(agent),
            "form": getattr(agent, "update_form", "own"),
        }
    )
    for line in sys.stdin:
        request = json.loads(line)
        watch = Stopwatch()
        if request.get("profile"):
            watch.time(agent.env, "step", "environment")
            watch.time(agent, "_sample_action", "inference")
            watch.time(agent.replay_buffer, "sample", "sampling")
            watch.time(agent, "train", "update")
        figures = train(agent, request["steps"])
        answer({**figures, "shares": watch.shares(figures["seconds"])} if watch.seconds else figures)


def resident_bytes() -> int:
    """Resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fill_memory() -> None:
    """Growth of resident memory while a buffer fills with a million transitions of Humanoid-v5."""
    import numpy as np
    from gymnasium import spaces

    from sna_rl.agents.fused.replay import CompactReplayBuffer

    n_rows, episode = 1_000_000, 30
    before = resident_bytes()
    boxes = spaces.Box(-np.inf, np.inf, (348,), np.float64), spaces.Box(-0.4, 0.4, (17,), np.float32)
    buffer = CompactReplayBuffer(n_rows, *boxes, "cpu")
    observations = np.random.default_rng(0).standard_normal((episode + 1, 1, 348))
    action, reward = np.zeros((1, 17), np.float32), np.zeros(1)
    for row in range(n_rows):
        place = row % episode
        done = np.array([place == episode - 1])
        buffer.add(observations[place], observations[place + 1], action, reward, done, [{}])
    answer(
        {
            "rows": n_rows,
            "episode": episode,
            "growth_bytes": resident_bytes() - before,
            "plain_bytes": n_rows * (2 * 348 * 8 + 17 * 4 + 3 * 4),
        }
    )


def answer(figures: dict[str, Any]) -> None:
    """Print one line for the benchmark to read."""
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    mujoco.set_mju_user_warning(lambda message: None)
    described = json.loads(sys.argv[1])
    if described["core"] is not None:
        os.sched_setaffinity(0, {described["core"]})
    fill_memory() if described.get("memory") else serve(described)
