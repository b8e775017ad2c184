"""The training loop of supervised models: knows no model, and goes on exactly where it was stopped."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sna_rl.errors import SnaError
from sna_rl.runs.allocator import keep_freed_memory
from sna_rl.runs.atomic import remove_leftovers, write_json
from sna_rl.runs.checkpoints import Checkpoint, Checkpoints
from sna_rl.runs.disk import no_room_is_an_error, tolerate_full_disk
from sna_rl.runs.fit_config import FitConfig
from sna_rl.runs.fit_folder import BEST_WEIGHTS, WEIGHTS, arrays_of, load_arrays, save_weights
from sna_rl.runs.growing import cut_logs, log_positions
from sna_rl.runs.interruption import Interrupted, StopOnSignal
from sna_rl.runs.lock import LOCK, locked
from sna_rl.runs.progress import Progress

SCORE = "score"


@runtime_checkable
class Task(Protocol):
    """What a model is trained on."""

    def batch(self, step: int) -> Any:
        """Batch of a step on the model's device: a function of the run's seed and the step alone."""

    def loss(self, batch: Any) -> tuple[Tensor, Mapping[str, Tensor | float]]:
        """Loss of a batch, a tensor of one number, and other numbers for TensorBoard."""

    def evaluate(self) -> Mapping[str, float]:
        """Numbers on held-out data; the weights of the highest "score" are kept as the best."""


@dataclass(frozen=True)
class FitResult:
    """What a finished run came to; `summary.json` holds the same.

    Args:
        folder: the run folder.
        n_steps: optimizer steps.
        n_parameters: trained parameters.
        loss: loss of the last step.
        final: numbers of the last evaluation.
        best_score: highest score of all evaluations, None where none was told.
        wall_seconds: seconds of all processes that trained it, evaluation included.
    """

    folder: str
    n_steps: int
    n_parameters: int
    loss: float
    final: Mapping[str, float]
    best_score: float | None
    wall_seconds: float


def fit(
    model: nn.Module,
    optimizer: Optimizer,
    task: Task,
    config: FitConfig,
    folder: Path,
    *,
    progress: bool = True,
    facts: Mapping[str, float] | None = None,
) -> FitResult:
    """Train a model in its run folder, from the newest whole checkpoint there or from step 0.

    A run that was killed goes on bit-equal to one that never stopped (one thread, same versions). Memory that
    a step frees stays with the process, see `keep_freed_memory`.

    Args:
        model: on its device; its initial weights are the caller's affair.
        optimizer: over the model's parameters; its learning rates are those at scale 1.
        task: batches, loss and evaluation.
        config: length, schedule, precision, saves.
        folder: an existing run folder; gets TensorBoard's events, `checkpoints/`, `model.safetensors`,
            `best_model.safetensors`, `evaluations.json`, `summary.json`.
        progress: show a bar, or lines where stderr is no terminal.
        facts: numbers known before training, such as what a pass costs: TensorBoard's points at step 0.

    Returns:
        What the run came to.

    Raises:
        UsageError: if another process trains in the folder, or its checkpoint is of another model.
        SnaError: if loss or gradient is not finite, or the end can't be written.
        Interrupted: if Ctrl-C or SIGTERM ended it; it is saved then.
    """
    keep_freed_memory()
    with locked(folder / LOCK, f"run {str(folder)!r}"):
        return _Fit(model, optimizer, task, config, folder).run(progress, facts or {})


class _Fit:
    """One run of `fit`: the counters that a checkpoint keeps, and the loop."""

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, task: Task, config: FitConfig, folder: Path
    ) -> None:
        self.model, self.optimizer, self.task = model, optimizer, task
        self.config, self.folder = config, folder
        self.device = next(model.parameters()).device
        self.rates = [group["lr"] for group in optimizer.param_groups]
        self.checkpoints = Checkpoints(folder / "checkpoints", config.keep)
        self.done, self.loss, self.wall_seconds = 0, math.nan, 0.0
        self.evaluations: list[dict[str, float]] = []
        self.best: float | None = None

    def run(self, progress: bool, facts: Mapping[str, float]) -> FitResult:
        """The loop, around it what must be closed."""
        from torch.utils.tensorboard import SummaryWriter

        with ExitStack() as resources:
            bar = resources.enter_context(Progress(self.config.n_steps, shown=progress))
            self.restore(bar.say)
            bar.start = bar.done = self.done
            events = resources.enter_context(closing(SummaryWriter(str(self.folder))))
            stop = resources.enter_context(StopOnSignal())
            if self.done == 0:
                self.log(events, facts)
            began = time.perf_counter() - self.wall_seconds
            self.model.train()
            while self.done < self.config.n_steps:
                numbers = self.step()
                self.wall_seconds = time.perf_counter() - began
                if self.is_due(self.config.log_freq):
                    numbers["train/steps_per_second"] = bar.steps_per_second
                    self.log(events, numbers)
                if self.is_due(self.config.eval_freq):
                    self.log(events, self.evaluate())
                bar.update(self.done, note=self.note())
                if stop.received is not None:
                    raise self.interrupted(events, stop)
                if self.done < self.config.n_steps and self.is_due(self.config.save_freq):
                    with tolerate_full_disk(self.folder):
                        self.save(events)
            with no_room_is_an_error(self.folder):
                self.save(events)
                return self.summary()

    def step(self) -> dict[str, float]:
        """One optimizer step; what it can log."""
        config, optimizer = self.config, self.optimizer
        for group, rate in zip(optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * config.lr_scale(self.done)
        batch = self.task.batch(self.done)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=config.precision == "bf16"):
            loss, others = self.task.loss(batch)
        self.loss = loss.item()
        optimizer.zero_grad()
        if not math.isfinite(self.loss):
            raise self.diverged("loss", self.loss)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), config.clip or math.inf).item()
        if not math.isfinite(norm):
            raise self.diverged("gradient's norm", norm)
        optimizer.step()
        self.done += 1
        named = {f"train/{name}": torch.as_tensor(value).item() for name, value in others.items()}
        rate = optimizer.param_groups[0]["lr"]
        return {"train/loss": self.loss, "train/gradient_norm": norm, "train/learning_rate": rate, **named}

    def is_due(self, freq: int) -> bool:
        """Whether something that is done every `freq` steps, and at the end, is due."""
        return self.done == self.config.n_steps or (freq > 0 and self.done % freq == 0)

    def evaluate(self) -> dict[str, float]:
        """Ask the task and keep the best weights; what training draws does not depend on it."""
        self.model.eval()
        with torch.no_grad(), torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            numbers = {name: float(value) for name, value in self.task.evaluate().items()}
        self.model.train()
        self.evaluations.append({"step": self.done, **numbers})
        score = numbers.get(SCORE)
        with tolerate_full_disk(self.folder):
            write_json(self.folder / "evaluations.json", {"evaluations": self.evaluations})
            if score is not None and (self.best is None or score > self.best):
                self.best = score
                save_weights(self.model, self.folder / BEST_WEIGHTS)
        return {f"eval/{name}": value for name, value in numbers.items()}

    def log(self, events: Any, numbers: Mapping[str, float]) -> None:
        """Write points to TensorBoard."""
        for name, value in numbers.items():
            events.add_scalar(name, value, self.done)

    def note(self) -> str:
        """What progress shows beside the speed."""
        last = self.evaluations[-1] if self.evaluations else {}
        shown = {"loss": self.loss, **{name: value for name, value in last.items() if name != "step"}}
        return "  ".join(f"{name} {value:.4g}" for name, value in shown.items())

    def save(self, events: Any) -> None:
        """Write a checkpoint and the weights alone."""
        events.flush()
        moments = self.optimizer.state_dict()["state"]
        state = {
            "model": arrays_of(self.model),
            "moments": {
                str(index): {name: np.asarray(value.cpu()) for name, value in each.items()}
                for index, each in moments.items()
            },
            "generators": _generators(self.device),
            "wall_seconds": self.wall_seconds,
            "loss": self.loss,
            "evaluations": self.evaluations,
            "best_score": self.best,
            "logs": log_positions(self.folder),
        }
        self.checkpoints.save(self.done, state)
        save_weights(self.model, self.folder / WEIGHTS)

    def restore(self, say: Callable[[str], None]) -> None:
        """Go on from the newest whole checkpoint; without one, begin at step 0."""
        torch.manual_seed(self.config.seed)
        remove_leftovers(self.folder)
        checkpoint = self.checkpoints.newest(say)
        logs: Mapping[str, int] = {} if checkpoint is None else self.load(checkpoint)
        self.checkpoints.go_back_to(checkpoint)
        cut_logs(logs, self.folder)

    def load(self, checkpoint: Checkpoint) -> Mapping[str, int]:
        """Put a checkpoint's state back; how long the logs were then."""
        state = checkpoint.read()
        load_arrays(self.model, state["model"], str(checkpoint.path))
        moments = {
            int(index): {name: torch.from_numpy(np.array(value)) for name, value in each.items()}
            for index, each in state["moments"].items()
        }
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        _set_generators(self.device, state["generators"])
        self.done, self.loss = checkpoint.step, state["loss"]
        self.wall_seconds = state["wall_seconds"]
        self.evaluations, self.best = state["evaluations"], state["best_score"]
        logs: Mapping[str, int] = state["logs"]
        return logs

    def interrupted(self, events: Any, stop: StopOnSignal) -> Interrupted:
        """Save, and tell how to go on."""
        assert stop.received is not None
        before = self.checkpoints.all()
        with tolerate_full_disk(self.folder):
            self.save(events)
        kept = "saved" if self.checkpoints.all() != before else "NOT saved; its last checkpoint stands"
        folder = shlex.quote(str(self.folder))
        return Interrupted(
            f"stopped at step {self.done:,} and {kept}; train with -i {folder} goes on", stop.received
        )

    def diverged(self, what: str, value: float) -> SnaError:
        """The failure of a step whose numbers are not finite; nothing was changed by it."""
        return SnaError(
            f"the {what} is {value} at step {self.done:,}; the weights of the last save stand in "
            f"{str(self.folder)!r}: lower the learning rate, clip the gradient, or take fp32"
        )

    def summary(self) -> FitResult:
        """Write and return what the run came to."""
        last = {name: value for name, value in (self.evaluations or [{}])[-1].items() if name != "step"}
        n_parameters = sum(each.numel() for each in self.model.parameters() if each.requires_grad)
        result = FitResult(
            str(self.folder), self.done, n_parameters, self.loss, last, self.best, self.wall_seconds
        )
        write_json(self.folder / "summary.json", asdict(result))
        return result


def _generators(device: torch.device) -> dict[str, Any]:
    """State of the generators that a model draws from."""
    cuda = torch.cuda.get_rng_state(device).numpy() if device.type == "cuda" else None
    return {"cpu": torch.get_rng_state().numpy(), "cuda": cuda}


def _set_generators(device: torch.device, state: Mapping[str, Any]) -> None:
    """Put back what `_generators` gave."""
    torch.set_rng_state(torch.from_numpy(np.array(state["cpu"])))
    if device.type == "cuda" and state["cuda"] is not None:
        torch.cuda.set_rng_state(torch.from_numpy(np.array(state["cuda"])), device)
