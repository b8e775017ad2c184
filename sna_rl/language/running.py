"""Runs of language models: begun, continued, loaded, quantised."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sna_rl.config import dump_yaml
from sna_rl.errors import UsageError
from sna_rl.language.arcade import ArcadeLM
from sna_rl.language.config import softmax_baseline
from sna_rl.language.corpus import Corpus, cut, read_text
from sna_rl.language.exact_match import exact_match
from sna_rl.language.losses import LanguageModel
from sna_rl.language.model import SeparableLM
from sna_rl.language.quantize import quantized, size_in_bytes
from sna_rl.language.reasoning import KINDS, Problem, problems, read_gsm8k
from sna_rl.language.scoring import perplexity, rare_tokens
from sna_rl.language.settings import LearnConfig, LMSettings, TaskConfig
from sna_rl.language.tasks import ProblemTask, TextTask
from sna_rl.language.tokens import FILE, BPETokens, ByteTokens, load_tokens
from sna_rl.runs.atomic import atomic_folder
from sna_rl.runs.device import choose_device
from sna_rl.runs.fit import FitResult, fit
from sna_rl.runs.fit_folder import WEIGHTS, go_on_in, load_weights, new_run, open_run, save_weights

TEST_SEED = 1_000_000  # added to a run's seed for the problems that are scored


@dataclass(frozen=True)
class Data:
    """What a run learns: a text, or problems with their test sets.

    Args:
        text: the corpus, or all problems joined.
        train: problems to learn; empty for a text.
        test: name → problems to be scored with.
    """

    text: str
    train: tuple[Problem, ...] = ()
    test: dict[str, tuple[Problem, ...]] | None = None

    @property
    def digest(self) -> str:
        """Checksum of the text."""
        return blake2b(self.text.encode(), digest_size=16).hexdigest()


def read_data(task: TaskConfig, seed: int) -> Data:
    """Read or generate what a run learns.

    Args:
        task: which data.
        seed: of generated problems.

    Raises:
        UsageError: if a file holds no text or no problems.
    """
    if not task.problems:
        return Data(read_text(Path(task.text) if task.text else None))
    if task.problems in KINDS:
        train = problems(task.problems, task.n_problems, seed=seed, largest=task.largest)
        sets = {
            f"{kind}{'_held_out' if held_out else ''}": problems(
                kind, task.n_test, seed=seed + TEST_SEED, largest=task.largest, held_out=held_out
            )
            for kind in sorted(KINDS, key=lambda kind: kind != task.problems)
            for held_out in (False, True)
        }
    else:
        read = read_gsm8k(Path(task.problems))
        if len(read) <= task.n_test:
            raise UsageError(
                f"{task.problems!r} holds {len(read)} problems; n_test must be less, not {task.n_test}"
            )
        train, sets = read[: -task.n_test], {"gsm8k": read[-task.n_test :]}
    text = "".join(problem.prompt + problem.completion for problem in train)
    return Data(text, tuple(train), {name: tuple(each) for name, each in sets.items()})


def make_model(settings: LMSettings) -> LanguageModel:
    """The model of a run, drawn from its seed.

    Args:
        settings: kind and sizes.

    Raises:
        UsageError: if the sizes don't go together.

    Example:
        >>> type(make_model(LMSettings().changed({"model": "arcade"}))).__name__
        'ArcadeLM'
    """
    torch.manual_seed(settings.fit.seed)
    if settings.task.model == "arcade":
        return ArcadeLM(settings.sizes, settings.arcade)
    softmax = settings.task.model == "softmax"
    return SeparableLM(softmax_baseline(settings.sizes) if softmax else settings.sizes)


def make_optimizer(model: nn.Module, learn: LearnConfig) -> torch.optim.Optimizer:
    """AdamW, the constraint half with a learning rate of its own where one is given.

    Args:
        model: any model.
        learn: learning rates and decay.

    Raises:
        UsageError: if the model has no constraint half for that learning rate.
    """
    rate = learn.constraint_learning_rate
    if rate is None:
        groups: list[dict[str, Any]] = [{"params": list(model.parameters())}]
    elif isinstance(model, ArcadeLM):
        own = list(model.constraint_parameters())
        names = {id(parameter) for parameter in own}
        rest = [parameter for parameter in model.parameters() if id(parameter) not in names]
        groups = [{"params": rest}, {"params": own, "lr": rate}]
    else:
        raise UsageError(
            "constraint_learning_rate belongs to --model arcade, which alone has a constraint half"
        )
    return torch.optim.AdamW(groups, lr=learn.learning_rate, weight_decay=learn.weight_decay)


def begin(
    settings: LMSettings, folder: Path, command: str, *, device: str = "cpu", progress: bool = True
) -> FitResult:
    """Train a new run.

    Args:
        settings: all that repeats it.
        folder: of all runs.
        command: the command line, for the record.
        device: auto, cpu or cuda.
        progress: show how far it is.

    Returns:
        What the run came to.

    Raises:
        UsageError: if data, vocabulary or sizes don't fit; nothing is written then.
        SnaError: if training fails.
    """
    place = choose_device(device)
    data = read_data(settings.task, settings.fit.seed)
    settings = settings.changed({"digest": data.digest, "quantized": False})
    source = Path(settings.task.start) if settings.task.start else None
    tokens = load_tokens(source) if source else _new_tokens(settings, data)
    trainer = _Trainer(settings, data, tokens, place)
    if source:
        load_weights(trainer.model, source / WEIGHTS)
    what = Path(settings.task.problems or "text").stem
    run = new_run(folder, what, settings.task.model, settings.plain(), command)
    if isinstance(tokens, BPETokens):
        tokens.save(run / FILE)
    return trainer.fit(run, progress)


def go_on(run: Path, command: str, *, device: str = "cpu", progress: bool = True) -> FitResult:
    """Continue a run where its newest whole checkpoint stands.

    Args:
        run: its folder.
        command: the command line, for the record.
        device: auto, cpu or cuda.
        progress: show how far it is.

    Returns:
        What the run came to.

    Raises:
        UsageError: if there is no run, or its text or problems are not what they were.
    """
    settings = LMSettings.of(open_run(run))
    if settings.task.quantized:
        raise UsageError(f"{str(run)!r} is quantised for inference; go on with the run it was made from")
    data = read_data(settings.task, settings.fit.seed)
    if data.digest != settings.task.digest:
        raise UsageError(f"the text or problems of {str(run)!r} have changed since it began; begin a new run")
    trainer = _Trainer(settings, data, load_tokens(run), choose_device(device))
    go_on_in(run, command)
    return trainer.fit(run, progress)


class _Trainer:
    """Model, task and optimizer of a run."""

    def __init__(
        self, settings: LMSettings, data: Data, tokens: BPETokens | ByteTokens, device: torch.device
    ) -> None:
        check_vocabulary(settings, tokens)
        self.settings = settings
        self.model = make_model(settings).to(device)
        batch_size = settings.learn.batch_size
        self.task: TextTask | ProblemTask
        if data.test is None:
            corpus = Corpus.of(data.text, tokens, settings.sizes.n_positions)
            self.task = TextTask(self.model, corpus, tokens, settings.fit, batch_size)
        else:
            self.task = ProblemTask(self.model, data.train, data.test, tokens, settings.fit, batch_size)
        self.optimizer = make_optimizer(self.model, settings.learn)

    def fit(self, run: Path, progress: bool) -> FitResult:
        """Train in the run folder."""
        return fit(self.model, self.optimizer, self.task, self.settings.fit, run, progress=progress)


def check_vocabulary(settings: LMSettings, tokens: BPETokens | ByteTokens) -> None:
    """Refuse a vocabulary of another size than the model's.

    Args:
        settings: of the model.
        tokens: the vocabulary.

    Raises:
        UsageError: if they differ.
    """
    if tokens.vocab_size != settings.sizes.vocab_size:
        raise UsageError(
            f"the vocabulary has {tokens.vocab_size:,} tokens, and the model's checkpoint "
            f"{settings.sizes.vocab_size:,}; they belong to different runs"
        )


@dataclass(frozen=True)
class Loaded:
    """A trained model and what it needs.

    Args:
        model: in evaluation mode, on its device.
        tokens: its vocabulary.
        settings: of its run.
    """

    model: LanguageModel
    tokens: BPETokens | ByteTokens
    settings: LMSettings

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    @property
    def look_ahead(self) -> bool:
        """Whether it was trained to look ahead in prompts."""
        return isinstance(self.model, ArcadeLM) and bool(self.settings.task.problems)


def load(run: Path, *, device: str = "cpu") -> Loaded:
    """Load the model of a run, quantised or not; nothing in its files is run.

    Args:
        run: its folder.
        device: auto, cpu or cuda.

    Raises:
        UsageError: if there is no run, or weights, vocabulary and settings don't belong together.
        SnaError: if a file is damaged.
    """
    place = choose_device(device)
    settings = LMSettings.of(open_run(run))
    tokens = load_tokens(run)
    check_vocabulary(settings, tokens)
    model = make_model(settings)
    if settings.task.quantized:
        model = quantized(model)
    load_weights(model, run / WEIGHTS)
    return Loaded(model.to(place).eval(), tokens, settings)


def evaluate(loaded: Loaded, text: Path | None = None) -> dict[str, float]:
    """Scores of a trained model on what its run held out, or on another text.

    Args:
        loaded: the model.
        text: all of it is predicted; None for the run's own held-out data.

    Raises:
        UsageError: if the text holds less than a block.
    """
    settings, model, tokens = loaded.settings, loaded.model, loaded.tokens
    n_positions, rare = settings.sizes.n_positions, None
    if text is None:
        data = read_data(settings.task, settings.fit.seed)
        if data.test is not None:
            return {
                f"exact_{name}": exact_match(model, each, tokens, look_ahead=loaded.look_ahead)
                for name, each in data.test.items()
            }
        corpus = Corpus.of(data.text, tokens, n_positions)
        held_out, rare = corpus.held_out, rare_tokens(corpus.train, tokens.vocab_size)
    else:
        held_out = torch.from_numpy(tokens.encode(read_text(text)))
        if len(held_out) <= n_positions:
            raise UsageError(
                f"{str(text)!r} has {len(held_out):,} tokens, and one block needs {n_positions + 1:,}"
            )
    return perplexity(model, held_out, torch.from_numpy(tokens.n_bytes), n_positions, rare)


def quantize(run: Path, target: Path) -> dict[str, float]:
    """Write a run's model with 8 and 16 bits a weight, for inference, and score both.

    Args:
        run: folder of the run.
        target: folder of the small model, which must not exist.

    Returns:
        "bytes" and "bytes_before", and each score of `evaluate` now and "…_before".

    Raises:
        UsageError: if the target exists, or the run is quantised already.
    """
    if target.exists():
        raise UsageError(f"{str(target)!r} exists; name another folder with -o")
    loaded = load(run)
    if loaded.settings.task.quantized:
        raise UsageError(f"{str(run)!r} is quantised already")
    small = Loaded(quantized(loaded.model), loaded.tokens, loaded.settings.changed({"quantized": True}))
    scores = {f"{name}_before": value for name, value in evaluate(loaded).items()} | evaluate(small)
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(target) as folder:
        save_weights(small.model, folder / WEIGHTS)
        (folder / "config.yml").write_text(dump_yaml(small.settings.plain()), encoding="utf-8")
        if isinstance(loaded.tokens, BPETokens):
            loaded.tokens.save(folder / FILE)
    sizes = {"bytes_before": float(size_in_bytes(loaded.model)), "bytes": float(size_in_bytes(small.model))}
    return {**sizes, **scores}


def _new_tokens(settings: LMSettings, data: Data) -> BPETokens | ByteTokens:
    """Bytes, or pairs learned from what the model learns, nothing that is held out among it."""
    size = settings.sizes.vocab_size
    if size == ByteTokens.vocab_size:
        return ByteTokens()
    return BPETokens.train(data.text if data.train else cut(data.text)[0], size)
