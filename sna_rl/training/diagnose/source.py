"""From a run folder or a zip to a diagnosis on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from sna_rl.errors import SnaError
from sna_rl.runs import RunFolder, versions, write_json
from sna_rl.training.diagnose.critic import diagnose
from sna_rl.training.diagnose.figures import draw_figures
from sna_rl.training.diagnose.heads import heads_of
from sna_rl.training.diagnose.records import Question
from sna_rl.training.diagnose.states import load_pickled_buffer, load_run_buffer, roll_out
from sna_rl.training.diagnose.text import describe
from sna_rl.training.loading import Agent, Source, load_agent

ROLLOUT_FACTOR = 4
"""Transitions of the rollouts for each state of a value table."""


def diagnose_agent(
    source: Source, question: Question, *, output: Path | None, from_buffer: bool | None, versus: Path | None
) -> tuple[list[str], Path]:
    """Load an agent, diagnose its critic, write `diagnosis.json` and the figures.

    Args:
        source: which agent.
        question: what is asked.
        output: folder to write to, made if missing; None is `diagnosis` beside the agent.
        from_buffer: take the states of the saved replay buffer, or of new rollouts; None takes the buffer if
            there is one.
        versus: run or zip of an agent whose critic loss is compared.

    Returns:
        The diagnosis as lines of text, and the folder written to.

    Raises:
        UsageError: if the agent has no Q-function, does not fit its environment, or too little was asked for.
        SnaError: if what was saved is damaged or the critic's values aren't finite.
    """
    agent = load_agent(source)
    other = None
    try:
        model = agent.model
        heads_of(model)  # an algorithm without a Q-function ends here
        assert isinstance(model, OffPolicyAlgorithm)
        _scale_rewards(agent)
        saved = _saved_buffer(agent, source)
        from_buffer = saved.exists() if from_buffer is None else from_buffer
        if not from_buffer:
            roll_out(model, agent.env, ROLLOUT_FACTOR * question.n_states, question.seed)
        elif saved.is_dir():
            load_run_buffer(model, saved, agent.config.n_envs)
        else:
            load_pickled_buffer(model, saved)
        if versus is not None:
            other = load_agent(
                replace(source, path=versus, env=agent.config.env, best=False, checkpoint=None)
            )
            _scale_rewards(other)
        diagnosis, material = diagnose(model, question, None if other is None else other.model)  # type: ignore[arg-type]
        target = output or agent.folder / "diagnosis"
        try:
            target.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise SnaError(f"{str(target)!r} is a file; name a folder with -o") from error
        figures = draw_figures(diagnosis, material, model, target)
    finally:
        agent.env.close()
        if other is not None:
            other.env.close()
    origin: Mapping[str, Any] = {
        "model": agent.origin,
        "env": agent.config.env,
        "states": "replay buffer" if from_buffer else "rollouts",
        "seed": question.seed,
        "versions": versions(),
        "figures": [path.name for path in figures],
    }
    write_json(target / "diagnosis.json", {**origin, **diagnosis.to_dict()})
    return [f"{agent.origin} on {agent.config.env}", *describe(diagnosis)], target


def _saved_buffer(agent: Agent, source: Source) -> Path:
    """Where the replay buffer lies, if it was saved: a run's checkpoints, or the pickle beside a zip."""
    if (agent.folder / "config.yml").is_file():
        return RunFolder.open(agent.folder).checkpoints
    return source.path.parent / "replay_buffer.pkl"


def _scale_rewards(agent: Agent) -> None:
    """Give the critic rewards in the scale that it learned from, where VecNormalize made one."""
    statistics = agent.model.get_vec_normalize_env()
    if statistics is None:
        return
    wanted: Any = agent.config.hyperparams.get("normalize")
    asked = wanted.get("norm_reward", True) if isinstance(wanted, Mapping) else True
    statistics.norm_reward = asked and float(statistics.ret_rms.count) > 1.0
