"""Saving a whole run between two rollouts, and putting it back so that it goes on as if never stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from sna_rl.agents.plain import load_own_state
from sna_rl.agents.state import (
    buffer_counters,
    buffer_rows,
    callback_states,
    load_callback_states,
    load_model_state,
    model_state,
)
from sna_rl.errors import SnaError, UsageError
from sna_rl.runs.checkpoints import Checkpoint, Checkpoints
from sna_rl.runs.ring import RingLog


class BufferLog:
    """Replay buffer on the disk; each `update` writes the transitions that are new, each once.

    Args:
        checkpoints: the run's checkpoints; the rows lie beside them.
        model: the agent whose buffer it is.
    """

    def __init__(self, checkpoints: Checkpoints, model: OffPolicyAlgorithm) -> None:
        buffer = model.replay_buffer
        assert buffer is not None
        self.model = model
        self.buffer = buffer
        self.ring = RingLog(checkpoints.folder / "replay", buffer.buffer_size)
        self._written: tuple[int, int] | None = None

    def update(self) -> int:
        """Write what came since the last call.

        Returns:
            Bytes written.

        Raises:
            OSError: if the disk is full.
        """
        buffer, step = self.buffer, self.model.num_timesteps
        start, rows = 0, buffer.buffer_size if buffer.full else buffer.pos
        if self._written is not None:
            position, before = self._written
            added = (step - before) // self.model.n_envs
            if added < buffer.buffer_size and (position + added) % buffer.buffer_size == buffer.pos:
                start, rows = position, added
        # the slot at `pos` may hold the last transition's next observation already
        n_bytes = self.ring.append(step, buffer_rows(buffer), start, min(rows + 1, buffer.buffer_size))
        self._written = (buffer.pos, step)
        return n_bytes

    def load(self, checkpoint: Checkpoint, state: Mapping[str, Any]) -> None:
        """Fill the replay buffer from a checkpoint.

        Args:
            checkpoint: where from.
            state: what it holds.

        Raises:
            SnaError: if the saved buffer has other arrays.
        """
        ring = checkpoint.ring(state)
        ring.load(buffer_rows(self.buffer))
        load_own_state(self.buffer, state["buffer"])
        self.ring = ring
        self._written = (self.buffer.pos, checkpoint.step)


def save_checkpoint(
    model: OffPolicyAlgorithm,
    log: BufferLog,
    checkpoints: Checkpoints,
    *,
    callback: BaseCallback | None = None,
    extra: Mapping[str, Any] | None = None,
    best: bool = False,
) -> Checkpoint:
    """Save everything that decides how training goes on; call it between two rollouts.

    Args:
        model: the agent.
        log: its replay buffer on the disk.
        checkpoints: the run's checkpoints.
        callback: callbacks whose state is saved, too.
        extra: more that the run wants back: numbers, texts and arrays.
        best: keep it until a better one is saved.

    Returns:
        The checkpoint, whole and on the disk.

    Raises:
        OSError: if the disk is full; the checkpoints before it stand.
        TypeError: if something holds what can't be saved without pickle.

    Cost:
        The transitions since the last save, the parameters with their moments, and the actions of the
        episodes under way.
    """
    log.update()
    state = {
        "model": model_state(model),
        "buffer": buffer_counters(log.buffer),
        "callbacks": [] if callback is None else callback_states(callback),
        "extra": dict(extra or {}),
    }
    return checkpoints.save(model.num_timesteps, state, log.ring, best=best)


def restore(
    model: OffPolicyAlgorithm,
    log: BufferLog,
    checkpoint: Checkpoint,
    *,
    callback: BaseCallback | None = None,
    say: Callable[[str], None] = print,
) -> Mapping[str, Any]:
    """Put back what `save_checkpoint` saved; what follows is bit-equal to a run that never stopped.

    Args:
        model: an agent built from the same configuration.
        log: its replay buffer on the disk.
        checkpoint: where from.
        callback: the same callbacks as then.
        say: is told, in a line, if an environment could not be brought back exactly.

    Returns:
        The `extra` of the save.

    Raises:
        SnaError: if the checkpoint is damaged or of another agent.
    """
    state = checkpoint.read()
    try:
        log.load(checkpoint, state)
        same = load_model_state(model, state["model"])
        if callback is not None:
            load_callback_states(callback, state["callbacks"])
        extra: Mapping[str, Any] = state["extra"]
    except (KeyError, ValueError, TypeError, RuntimeError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SnaError(f"checkpoint {str(checkpoint.path)!r} does not fit this run: {reason}") from error
    if not same:
        say("the environment did not come back to its exact state; every environment begins a new episode")
    return extra


def check_fit(model: OffPolicyAlgorithm, checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint of other networks or of another replay buffer, before anything is changed.

    Args:
        model: an agent.
        checkpoint: where it shall go on.

    Raises:
        UsageError: if they don't fit; the first difference is named.
    """
    state = checkpoint.read()
    try:
        saved = state["model"]["parameters"]["policy"]
        shapes = {name: tuple(value["tensor"].shape) for name, value in saved.items()}
        capacity = state["rows"]["capacity"]
    except (KeyError, TypeError, AttributeError) as error:
        raise SnaError(f"checkpoint {str(checkpoint.path)!r} is of another form: {error}") from error
    now = {name: tuple(value.shape) for name, value in model.policy.state_dict().items()}
    for name in sorted({*shapes, *now}):
        if shapes.get(name) != now.get(name):
            raise UsageError(
                f"checkpoint {str(checkpoint.path)!r} does not fit: {name} has shape "
                f"{shapes.get(name)} there and {now.get(name)} here"
            )
    assert model.replay_buffer is not None
    if capacity != model.replay_buffer.buffer_size:
        raise UsageError(
            f"the saved replay buffer has {capacity:,} rows, the configuration asks for "
            f"{model.replay_buffer.buffer_size:,}; buffer_size and n_envs can't change on the way"
        )
