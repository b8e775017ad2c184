"""One contender of the throughput benchmark: a process that trains when told and says how long it took.

Run by throughput.py as `python contender.py NAME DEVICE`. Each line on standard input is a command and a
number of environment steps; each answer is a line of JSON. It imports its own library alone, since SBX has its
own venv.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import mujoco

CHEETAH, CARTPOLE = "HalfCheetah-v5", "CartPole-v1"
WARM_UP = 1_500
"""Steps before the first round: random ones, then updates with everything compiled."""
EVERY_STEP = {
    "train_freq": 1,
    "gradient_steps": 1,
    "learning_starts": 1_000,
    "buffer_size": 200_000,
    "seed": 0,
}


def ours(algo: str, critic: str, factor: str = "mlp", **kwargs: Any) -> Callable[[str], Any]:
    """An agent of this library, its update compiled."""

    def make(device: str) -> Any:
        from sna_rl.agents import ALGORITHMS

        policy = {"critic": critic} if critic == "mlp" else {"critic": critic, "factor": factor, "rank": 32}
        env = CARTPOLE if algo == "dqn" else CHEETAH
        arguments = {"update": "compiled", "policy_kwargs": policy, "device": device, **EVERY_STEP, **kwargs}
        return ALGORITHMS[algo]("SNAPolicy", env, **arguments)

    return make


def stable_baselines3(algo: str) -> Callable[[str], Any]:
    """An agent of Stable-Baselines3."""

    def make(device: str) -> Any:
        import stable_baselines3 as library

        env = CARTPOLE if algo == "DQN" else CHEETAH
        return getattr(library, algo)("MlpPolicy", env, device=device, **EVERY_STEP)

    return make


def sbx(device: str) -> Any:
    """SAC of SBX; JAX picks the device."""
    from sbx import SAC

    return SAC("MlpPolicy", CHEETAH, **EVERY_STEP)


CONTENDERS: dict[str, Callable[[str], Any]] = {
    "sb3 sac": stable_baselines3("SAC"),
    "sbx sac": sbx,
    "sac cp linear": ours("sac", "cp", "linear"),
    "sac cp": ours("sac", "cp"),
    "sac cp bf16": ours("sac", "cp", precision="bf16"),
    "sac cp K=8": ours("sac", "cp", n_target_actions=8),
    "sac mlp": ours("sac", "mlp"),
    "sac mlp bf16": ours("sac", "mlp", precision="bf16"),
    "sac mlp K=8": ours("sac", "mlp", n_target_actions=8),
    "sb3 td3": stable_baselines3("TD3"),
    "td3 cp": ours("td3", "cp"),
    "td3 mlp": ours("td3", "mlp"),
    "sb3 dqn": stable_baselines3("DQN"),
    "dqn cp": ours("dqn", "cp"),
    "dqn mlp": ours("dqn", "mlp"),
}


class Stopwatch:
    """Adds up the CPU seconds spent in chosen methods of an agent, less those in other chosen ones inside."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.inside = [0.0]

    def watch(self, owner: Any, method: str, part: str) -> None:
        """Count the calls of `owner.method` as `part`."""
        call = getattr(owner, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            self.inside.append(0.0)
            try:
                return call(*args, **kwargs)
            finally:
                spent = time.process_time() - start
                self.seconds[part] = self.seconds.get(part, 0.0) + spent - self.inside.pop()
                self.inside[-1] += spent

        setattr(owner, method, timed)


def shares(agent: Any, n_steps: int) -> dict[str, float]:
    """Share of training's CPU time in environment, inference, sampling and update; the rest is the loop.

    Args:
        agent: a warm agent; its methods stay wrapped, so nothing is to be timed with it afterwards.
        n_steps: environment steps to train for.
    """
    watch = Stopwatch()
    watch.watch(agent.env, "step", "environment")
    watch.watch(agent, "_sample_action", "inference")
    watch.watch(agent.replay_buffer, "sample", "sampling")
    watch.watch(agent, "train", "update")
    start = time.process_time()
    agent.learn(n_steps, reset_num_timesteps=False)
    whole = time.process_time() - start
    parts = {part: seconds / whole for part, seconds in watch.seconds.items()}
    return {**parts, "loop": 1.0 - sum(parts.values())}


def main() -> None:
    """Warm up, then train on demand."""
    mujoco.set_mju_user_warning(lambda message: None)
    name, device = sys.argv[1:]
    agent = CONTENDERS[name](device)
    answer, sys.stdout = sys.stdout, sys.stderr

    def say(**values: Any) -> None:
        print(json.dumps(values), file=answer, flush=True)

    start = time.process_time()
    if hasattr(agent, "choose_update"):
        agent.choose_update(WARM_UP)
    agent.learn(WARM_UP)
    critic = getattr(agent, "critic", None) or getattr(agent, "q_net", None)
    say(
        warm_up_cpu_seconds=time.process_time() - start,
        update=getattr(agent, "update_form", "own"),
        critic_parameters=sum(parameter.numel() for parameter in critic.parameters()) if critic else None,
    )
    for line in sys.stdin:
        command, n_steps = line.split()
        if command == "shares":
            say(**shares(agent, int(n_steps)))
            continue
        cpu, wall = time.process_time(), time.perf_counter()
        agent.learn(int(n_steps), reset_num_timesteps=False)
        say(cpu_seconds=time.process_time() - cpu, wall_seconds=time.perf_counter() - wall)


if __name__ == "__main__":
    main()
