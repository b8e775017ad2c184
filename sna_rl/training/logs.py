"""What a run logs through Stable-Baselines3: where it lies, once a step, on the disk when asked."""

from __future__ import annotations

from pathlib import Path

from stable_baselines3.common.logger import KVWriter, Logger, TensorBoardOutputFormat

from sna_rl.config import RunConfig
from sna_rl.runs import RunFolder


class OnceLogger(Logger):
    """A logger that gives a curve one value a step: the first, where evaluation and episode end together.

    Args:
        folder: where its outputs write.
        output_formats: the outputs.
    """

    def __init__(self, folder: str | None, output_formats: list[KVWriter]) -> None:
        super().__init__(folder, output_formats)
        self._step = -1
        self._given: set[str] = set()

    def dump(self, step: int = 0) -> None:
        """Write what was recorded since the last dump, but for what this step has already.

        Args:
            step: environment steps.
        """
        if step != self._step:
            self._step, self._given = step, set()
        for name in self._given & self.name_to_value.keys():
            del self.name_to_value[name], self.name_to_excluded[name]
        self._given |= self.name_to_value.keys()
        super().dump(step)


def events_folder(config: RunConfig, folder: RunFolder) -> Path:
    """Where a run's TensorBoard events lie.

    Args:
        config: the run's configuration.
        folder: its run folder.
    """
    return Path(config.tensorboard_log, *folder.path.parts[-3:]) if config.tensorboard_log else folder.path


def flush(logger: Logger) -> None:
    """Bring every TensorBoard event logged so far to the file.

    Args:
        logger: the agent's logger.
    """
    for output in logger.output_formats:
        if isinstance(output, TensorBoardOutputFormat):
            output.writer.flush()
