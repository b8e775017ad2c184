"""A run from its configuration to its trained model, and back from its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sna_rl.errors import UsageError
from sna_rl.runs.device import choose_device
from sna_rl.runs.fit import FitResult, Task, fit
from sna_rl.runs.fit_folder import (
    BEST_WEIGHTS,
    WEIGHTS,
    check_unfinished,
    go_on_in,
    load_weights,
    new_run,
    open_run,
)
from sna_rl.vision.classify import ClassifyTask
from sna_rl.vision.counts import n_flops, n_parameters
from sna_rl.vision.image_data import image_splits, images_to_score, keep_kind
from sna_rl.vision.images import Images
from sna_rl.vision.mask import PatchMaskTask
from sna_rl.vision.model import IterativeModel, class_model, mask_model, sudoku_model, symbol_mask_model
from sna_rl.vision.settings import VisionConfig
from sna_rl.vision.sudoku import SudokuTask
from sna_rl.vision.sudoku_data import (
    Splits,
    boards_to_score,
    make_boards,
    read_splits,
    whence,
    write_splits,
)
from sna_rl.vision.symbols import SymbolMaskTask, Symbols, symbol_splits

BOARDS = "boards"

Data = Splits | tuple[Images, Images, Images] | tuple[Symbols, Symbols, Symbols]


@dataclass(frozen=True)
class Run:
    """A model with the data it is trained on.

    Args:
        config: all that repeats it.
        model: on its device.
        data: training, validation and test set.
    """

    config: VisionConfig
    model: IterativeModel
    data: Data

    @classmethod
    def new(cls, config: VisionConfig, device: str = "auto", data: Data | None = None) -> Run:
        """An untrained model and its data.

        Args:
            config: what to make.
            device: auto, cpu or cuda.
            data: loaded already; by default the configuration's.

        Raises:
            UsageError: if the configuration fits no model, or not its data.
            SnaError: if the data can't be read.
        """
        return cls._of(config, load_data(config) if data is None else data, device)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        best: bool = False,
        device: str = "auto",
        data: str | Data = "",
        n_halvings: int | None = None,
    ) -> Run:
        """A trained run.

        Args:
            folder: its run folder.
            best: the weights of the best evaluation instead of the last ones.
            device: auto, cpu or cuda.
            data: other data than those it was trained on, or the same loaded already; of one CSV file of
                boards every board is tested, of a folder of images its test images.
            n_halvings: of a step that raises the energy; those of training by default.

        Raises:
            UsageError: if there is no run, its weights are of another model, it has no energy, or the data
                are of another kind than the run's.
            SnaError: if a file is damaged.
        """
        config = VisionConfig.of(open_run(folder))
        if n_halvings is not None:
            config = config.changed({"n_halvings": n_halvings})
        loaded: Data
        if not isinstance(data, str):
            loaded = data
        elif data:
            former, config = config, config.changed({"data": data, "bases": ""})
            if former.task.is_of_symbols != config.task.is_of_symbols:
                raise UsageError(
                    f"{data!r}: a run learns from symbols, an .npz file, or from a folder of images"
                )
            loaded = _data_to_score(config, folder)
        elif config.task.task == "sudoku":
            loaded = read_splits(folder / BOARDS)
        else:
            loaded = load_data(config)
        run = cls._of(config, loaded, device)
        load_weights(run.model, folder / (BEST_WEIGHTS if best else WEIGHTS))
        run.model.eval()
        return run

    @classmethod
    def _of(cls, config: VisionConfig, data: Data, device: str) -> Run:
        if isinstance(data[0], Symbols):
            config = config.changed({"n_symbols": data[0].n_symbols})
        torch.manual_seed(config.fit.seed)
        return cls(config, _make_model(config, data).to(choose_device(device)), data)

    def task(self) -> Task:
        """Batches, loss and evaluation."""
        config = self.config
        if isinstance(self.data, Splits):
            return SudokuTask(self.model, self.data.train, self.data.valid, config.learn, config.fit.seed)
        train, valid = self.data[:2]
        if isinstance(train, Symbols) and isinstance(valid, Symbols):
            return SymbolMaskTask(self.model, train, valid, config)
        assert isinstance(train, Images)
        assert isinstance(valid, Images)
        if config.task.task == "mask":
            return PatchMaskTask(self.model, train, valid, config)
        return ClassifyTask(self.model, train, valid, config)

    def costs(self) -> dict[str, int]:
        """Trained numbers, those of the step policy apart, and operations of one input's forward pass."""
        one_input = (part[:1] for part in self.task().batch(0)[: self.n_inputs])
        return {
            "model/parameters": n_parameters(self.model),
            "model/step_parameters": n_parameters(self.model.body.steps),
            "model/flops": n_flops(self.model, *one_input),
        }

    def description(self, costs: Mapping[str, int]) -> list[str]:
        """What is trained, in lines for the user.

        Args:
            costs: what `costs` gave.
        """
        config = self.config
        lines = [
            f"{config.model.model} on {config.task.task}, seed {config.fit.seed}, "
            f"{config.fit.n_steps:,} steps",
            f"parameters: {costs['model/parameters']:,} (steps {costs['model/step_parameters']:,})",
            f"{costs['model/flops'] / 1e6:,.1f} MFLOP forward an input, "
            f"over {config.model.n_iterations} iterations",
        ]
        if isinstance(self.data, Splits):
            lines.append(f"boards: {whence(config.task)}")
            for name, boards in self.data._asdict().items():
                lines.append(f"{name}: {len(boards):,} boards, by givens {boards.histogram()}")
        else:
            names = ("train", "valid", "test")
            sets: tuple[Images | Symbols, ...] = self.data
            lines += [f"{name}: {len(each):,}" for name, each in zip(names, sets, strict=True)]
        return lines

    @property
    def n_inputs(self) -> int:
        """How many parts of a batch the model is given."""
        return 2 if isinstance(self.data[0], Images) and self.config.task.task == "mask" else 1

    def optimizer(self) -> torch.optim.AdamW:
        """AdamW over every parameter."""
        learn = self.config.learn
        return torch.optim.AdamW(
            self.model.parameters(),
            lr=learn.learning_rate,
            betas=(0.9, learn.beta2),
            weight_decay=learn.weight_decay,
        )


def train(
    config: VisionConfig,
    folder: Path,
    command: str,
    *,
    device: str = "auto",
    say: Callable[[str], None] = print,
    progress: bool = True,
    data: Data | None = None,
) -> FitResult:
    """Train a model in a new run folder.

    Args:
        config: what to train.
        folder: the log folder.
        command: the command line, kept in the run folder.
        device: auto, cpu or cuda.
        say: is told, line by line, what is about to run.
        progress: show how far it is.
        data: loaded already; by default the configuration's.

    Raises:
        UsageError: if the configuration can't be trained; no folder is left behind.
        SnaError: if the data can't be read, or numbers are not finite.
    """
    run = Run.new(config, device, data)
    config, costs = run.config, run.costs()
    lines = run.description(costs)
    path = new_run(folder, config.task.task, config.model.model, config.absolute().plain(), command)
    if isinstance(run.data, Splits):
        write_splits(path / BOARDS, run.data)
    elif isinstance(run.data[0], Images):
        keep_kind(path, run.data[0])
    for line in (*lines, f"run folder: {path}"):
        say(line)
    return fit(run.model, run.optimizer(), run.task(), config.fit, path, progress=progress, facts=costs)


def go_on(
    folder: Path,
    changes: dict[str, Any],
    command: str,
    *,
    device: str = "auto",
    progress: bool = True,
) -> FitResult:
    """Train on in a run folder, from its newest whole checkpoint.

    Args:
        folder: the run folder.
        changes: n_steps alone may change.
        command: the command line, added to those before.
        device: auto, cpu or cuda.
        progress: show how far it is.

    Raises:
        UsageError: if there is no run, it has its steps already, or something else is to change.
    """
    config = VisionConfig.of(open_run(folder)).changed(changes)
    if set(changes) - {"n_steps"}:
        raise UsageError(f"a run that goes on keeps its configuration, {', '.join(sorted(changes))} too")
    check_unfinished(folder, config.fit.n_steps)
    data = read_splits(folder / BOARDS) if config.task.task == "sudoku" else load_data(config)
    run = Run._of(config, data, device)
    costs = run.costs()
    go_on_in(folder, command)
    return fit(run.model, run.optimizer(), run.task(), config.fit, folder, progress=progress, facts=costs)


def load_data(config: VisionConfig) -> Data:
    """Data of a configuration.

    Args:
        config: task and seed.

    Raises:
        UsageError: if there is no such folder, or too little in it.
        SnaError: if a file is damaged.
    """
    task, seed = config.task, config.fit.seed
    if task.task == "sudoku":
        return make_boards(task, seed)
    if task.is_of_symbols:
        return symbol_splits(task, seed)
    return image_splits(task, seed)


def _data_to_score(config: VisionConfig, folder: Path) -> Data:
    """Other data for the run of a folder."""
    if config.task.task == "sudoku":
        return boards_to_score(Path(config.task.data))
    return load_data(config) if config.task.is_of_symbols else images_to_score(config.task, folder)


def _make_model(config: VisionConfig, data: Data) -> IterativeModel:
    """The model that fits the data."""
    first = data[0]
    if isinstance(first, Symbols):
        return symbol_mask_model(config.model, first.n_symbols, first.symbols.shape[1])
    if not isinstance(first, Images):
        return sudoku_model(config.model)
    if config.task.task == "mask":
        return mask_model(config.model, first.shape, config.task.n_side)
    return class_model(config.model, first.shape, config.task.n_side, len(first.classes))
