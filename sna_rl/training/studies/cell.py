"""What the worker processes of a comparison call: train one cell, or measure what cells will cost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from torch.utils.flop_counter import FlopCounterMode

from sna_rl.agents.value_table import critic_features, critic_of, value_table
from sna_rl.config import RunConfig
from sna_rl.errors import SnaError
from sna_rl.runs import RunFolder, write_json
from sna_rl.separable import spectrum
from sna_rl.training.build import build
from sna_rl.training.environments import make_vec_env
from sna_rl.training.studies.study import Cell
from sna_rl.training.studies.study_folder import SPECTRUM, SUMMARY, is_finished
from sna_rl.training.train import Training

MEASURED_STEPS: Final = 60
MEASURED_UPDATES: Final = 4
TABLE_SIZE: Final = 256


def run_cell(config: Mapping[str, Any], arm: str, root: str, command: str) -> None:
    """Train one cell in its folder; a finished one is left as it is, a broken one begun anew.

    Args:
        config: the run's configuration as plain data.
        arm: name of its arm.
        root: folder of the study's runs.
        command: the command line, kept in the run folder.

    Raises:
        SnaError: if training fails.
    """
    cell = Cell(arm, RunConfig.from_dict(config))
    path = cell.path(Path(root))
    if is_finished(path):
        return
    shutil.rmtree(path, ignore_errors=True)
    torch.set_num_threads(cell.config.num_threads)
    folder = RunFolder.create(root, cell.config.env, arm, cell.config.seed)
    with ExitStack() as resources:
        run = Training.prepare(cell.config, folder, resources)
        run.write_start(command)
        values = run.learn(progress=False)
        if values.final_return is not None and not np.isfinite(values.final_return):
            (folder.path / SUMMARY).unlink()
            raise SnaError(f"the last evaluation's return is {values.final_return}")
        write_json(folder.path / SPECTRUM, {"singular_values": singular_values(run.model)})


@torch.no_grad()
def singular_values(model: OffPolicyAlgorithm) -> list[float]:
    """Singular values of the interaction in the first critic's value table, largest first.

    Rows are states of the replay buffer, columns its actions (all actions where they are discrete).

    Args:
        model: a trained agent with its replay buffer.

    Returns:
        At most 256 values.
    """
    buffer = model.replay_buffer
    assert buffer is not None
    sample = buffer.sample(TABLE_SIZE, env=model.get_vec_normalize_env())
    critic = critic_of(model)
    actions = sample.actions
    if isinstance(model.action_space, gymnasium.spaces.Discrete):
        actions = torch.arange(int(model.action_space.n), device=model.device)
    table = value_table(critic, critic_features(critic, sample.observations), actions)[0]
    return [float(value) for value in spectrum.singular_values(table.double())]


def measure(configs: Sequence[Mapping[str, Any]]) -> list[dict[str, float | str]]:
    """Measure what runs will cost.

    Args:
        configs: configurations as plain data.

    Returns:
        For each: `seconds` of one core for the run, `steps_per_second` of training, `flops_per_update`
        (matrix products of Stable-Baselines3's own update, counted); or `reason` where it can't be made.

    Cost:
        About a second each.
    """
    torch.set_num_threads(1)
    measured: list[dict[str, float | str]] = []
    for config in configs:
        try:
            measured.append(_measured(RunConfig.from_dict(config)))
        except SnaError as error:
            measured.append({"reason": str(error)})
    return measured


def _measured(config: RunConfig) -> dict[str, float | str]:
    """Costs of one configuration."""
    batch = int(str(config.hyperparams.get("batch_size", 256)))
    short = config.replace(learning_starts=0, buffer_size=10 * batch)
    with closing(make_vec_env(short)) as env, closing(make_vec_env(short, evaluation=True)) as eval_env:
        model = build(short, env)
        choose = getattr(model, "choose_update", None)
        if choose is not None:
            choose(config.n_timesteps)
        model.learn(batch // max(short.n_envs, 1))
        before, began = model.num_timesteps, time.process_time()
        model.learn(MEASURED_STEPS, reset_num_timesteps=False)
        per_step = (time.process_time() - began) / (model.num_timesteps - before)
        observations: Any = eval_env.reset()
        began = time.process_time()
        for _ in range(MEASURED_STEPS):
            actions, _ = model.predict(observations, deterministic=True)
            observations = eval_env.step(actions)[0]
        per_eval_step = (time.process_time() - began) / MEASURED_STEPS
        reference = build(short.replace(update="reference"), env)
        reference.replay_buffer, reference._logger = model.replay_buffer, model.logger
        with FlopCounterMode(display=False) as counter:
            reference.train(MEASURED_UPDATES, batch)
    episode = gymnasium.spec(config.env).max_episode_steps or 1000
    n_evaluations = config.n_timesteps // config.eval_freq if config.eval_freq > 0 else 0
    return {
        "seconds": config.n_timesteps * per_step
        + n_evaluations * config.eval_episodes * episode * per_eval_step,
        "steps_per_second": 1 / per_step,
        "flops_per_update": counter.get_total_flops() / MEASURED_UPDATES,
    }
