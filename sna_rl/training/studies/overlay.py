"""What TensorBoard shows of a whole study: means with bands over the runs, and a table of hyperparameters."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from stable_baselines3.common.logger import HParam, TensorBoardOutputFormat

from sna_rl.runs.folder import env_name
from sna_rl.training.studies.analysis import Analysis
from sna_rl.training.studies.arms import Arm
from sna_rl.training.studies.statistics import bootstrap, iqm

FOLDER: Final = "all-seeds"
FINAL: Final = "study/final_iqm"
SHOWN: Final = ("algo", "critic", "rank", "learning_rate")


def write_overlay(analysis: Analysis, root: Path) -> None:
    """Write one TensorBoard run an arm and environment, beside the seeds' own; older ones are replaced.

    Each holds the interquartile mean of the return over seeds with its interval, a custom-scalars chart an
    environment that draws them as bands, and a line of the HParams tab.

    Args:
        analysis: the arms.
        root: folder of the study's runs, TensorBoard's log root.

    Raises:
        OSError: if it can't be written.
    """
    layout = {"study": {env: ["Margin", _tags(env)] for env in analysis.envs}}
    for env in analysis.envs:
        for arm in analysis.arms:
            folder = root / env_name(env) / arm.name / FOLDER
            shutil.rmtree(folder, ignore_errors=True)
            output = TensorBoardOutputFormat(str(folder))
            output.writer.add_custom_scalars(layout)
            _write_band(output, analysis, arm, env)
            final = float(bootstrap(iqm, [analysis.finals(arm, env)]).value)
            output.writer.add_scalar(FINAL, final, int(analysis.horizons[env]))
            output.write({"hparams": HParam(_hparams(arm, env), {FINAL: final})}, {"hparams": ()})
            output.close()


def _tags(env: str) -> list[str]:
    """Tags of value, lower and upper bound."""
    return [f"study/{env_name(env)}{part}" for part in ("", "-low", "-high")]


def _write_band(output: TensorBoardOutputFormat, analysis: Analysis, arm: Arm, env: str) -> None:
    """Learning curve over seeds, with bounds where there is an interval."""
    steps, curves = analysis.curves[env]
    curve = curves[arm.name]
    for step, *values in zip(steps, curve.value, curve.low, curve.high, strict=True):
        for tag, value in zip(_tags(env), values, strict=True):
            if value == value:
                output.writer.add_scalar(tag, value, int(step))


def _hparams(arm: Arm, env: str) -> dict[str, bool | str | float | None]:
    """What the HParams tab lists of an arm."""
    told = {key: arm.settings[key] for key in SHOWN if key in arm.settings}
    plain = {key: value if isinstance(value, int | float) else str(value) for key, value in told.items()}
    return {**plain, "arm": arm.name, "env": env}
