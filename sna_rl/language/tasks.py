"""What the models are trained on, as the training loop asks for it: texts, word problems, trajectories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from sna_rl.language.arcade import ArcadeLM
from sna_rl.language.corpus import Corpus
from sna_rl.language.exact_match import exact_match, rows_of
from sna_rl.language.forecast import Forecaster
from sna_rl.language.forecast_scores import Climate
from sna_rl.language.losses import Batch, LanguageModel, constraint_report, model_loss
from sna_rl.language.penalty import strength_at
from sna_rl.language.reasoning import Problem
from sna_rl.language.rollout import score_forecasts
from sna_rl.language.scoring import perplexity, rare_tokens
from sna_rl.language.tokens import Tokens
from sna_rl.runs.fit_config import Batches, FitConfig, step_generator

REPORTED = 8  # blocks or problems that the constraint half is looked at with


class TextTask:
    """Next tokens of a corpus, in windows drawn anew at every step; phase 1 of an Arcade model.

    Args:
        model: either kind.
        corpus: the text.
        tokens: its vocabulary.
        config: seed and number of steps.
        batch_size: windows of a step.
    """

    def __init__(
        self, model: LanguageModel, corpus: Corpus, tokens: Tokens, config: FitConfig, batch_size: int
    ) -> None:
        self.model, self.corpus, self.config, self.batch_size = model, corpus, config, batch_size
        self.n_bytes = torch.from_numpy(tokens.n_bytes)
        self.rare = rare_tokens(corpus.train, tokens.vocab_size)
        self.n_positions = model.config.n_positions
        self.device = next(model.parameters()).device

    def batch(self, step: int) -> Batch:
        """Windows of the training part."""
        most = len(self.corpus.train) - self.n_positions
        starts = torch.randint(most, (self.batch_size, 1), generator=step_generator(self.config.seed, step))
        windows = self.corpus.train[starts + torch.arange(self.n_positions + 1)].to(self.device)
        strength = (
            strength_at(self.model.arcade, step / self.config.n_steps)
            if isinstance(self.model, ArcadeLM)
            else 0.0
        )
        return Batch(windows[:, :-1], windows[:, 1:], strength=strength)

    def loss(self, batch: Batch) -> tuple[Tensor, Mapping[str, Tensor | float]]:
        """Loss of the windows."""
        return model_loss(self.model, batch)

    def evaluate(self) -> Mapping[str, float]:
        """Perplexity and bits per byte of the held-out part; what became of the constraint half."""
        scores = perplexity(self.model, self.corpus.held_out, self.n_bytes, self.n_positions, self.rare)
        report = {}
        if isinstance(self.model, ArcadeLM):
            n_blocks = min((len(self.corpus.held_out) - 1) // self.n_positions, REPORTED)
            block = self.corpus.held_out[: n_blocks * self.n_positions].view(n_blocks, -1).to(self.device)
            report = constraint_report(self.model, Batch(block, block))
        return {**scores, **report, "score": -scores["loss"]}


class ProblemTask:
    """Answers to word problems; phase 2 of an Arcade model.

    Args:
        model: either kind.
        train: problems to learn from.
        test: name → problems to be scored with; the first name's share is the run's score.
        tokens: the vocabulary.
        config: seed of the batches.
        batch_size: problems of a step.

    Raises:
        UsageError: if a problem is longer than the model's positions.
    """

    def __init__(
        self,
        model: LanguageModel,
        train: Sequence[Problem],
        test: Mapping[str, Sequence[Problem]],
        tokens: Tokens,
        config: FitConfig,
        batch_size: int,
    ) -> None:
        self.model, self.test, self.tokens = model, test, tokens
        self.rows = rows_of(train, tokens, model.config.n_positions)
        self.batches = Batches(len(train), batch_size, config.seed)
        self.device = next(model.parameters()).device
        self.strength = model.arcade.strength if isinstance(model, ArcadeLM) else 0.0

    def batch(self, step: int) -> Batch:
        """Problems with their answers."""
        return self._batch(self.batches.rows(step))

    def loss(self, batch: Batch) -> tuple[Tensor, Mapping[str, Tensor | float]]:
        """Loss of the answers."""
        return model_loss(self.model, batch)

    def evaluate(self) -> Mapping[str, float]:
        """Share of exact answers of each kind; what became of the constraint half."""
        ahead = isinstance(self.model, ArcadeLM)
        scores = {
            f"exact_{name}": exact_match(self.model, problems, self.tokens, look_ahead=ahead)
            for name, problems in self.test.items()
        }
        if isinstance(self.model, ArcadeLM):
            rows = torch.arange(min(REPORTED * REPORTED, len(self.rows.tokens)))
            scores.update(constraint_report(self.model, self._batch(rows)))
        return {**scores, "score": scores[f"exact_{next(iter(self.test))}"]}

    def _batch(self, chosen: Tensor) -> Batch:
        """Rows as inputs and targets."""
        tokens, prompt, scored = (part[chosen].to(self.device) for part in self.rows)
        return Batch(tokens[:, :-1], tokens[:, 1:], scored[:, 1:], prompt, self.strength)


class ForecastTask:
    """Next states of a chaotic system, in windows drawn anew at every step.

    Args:
        model: a forecaster on the CPU; its scales are taken from the training trajectories.
        train: trajectories to learn from.
        test: trajectories from other starts.
        config: seed of the windows.
        batch_size: windows of a step.
        noise: standard deviation of what is added to the states that are read, in deviations of the climate:
            a model that has seen states beside the attractor comes back to it.
    """

    def __init__(
        self,
        model: Forecaster,
        train: Float[Tensor, "trajectories time size"],
        test: Float[Tensor, "tests later size"],
        config: FitConfig,
        batch_size: int,
        noise: float = 0.0,
    ) -> None:
        self.model, self.train, self.test = model, train, test
        self.config, self.batch_size, self.noise = config, batch_size, noise
        self.climate = Climate(train)
        model.normalise(train)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Windows of the model's context, and the state after each of theirs."""
        generator = step_generator(self.config.seed, step)
        n_trajectories, n_states, _ = self.train.shape
        length = self.model.n_context + 1
        which = torch.randint(n_trajectories, (self.batch_size, 1), generator=generator)
        starts = torch.randint(n_states - length + 1, (self.batch_size, 1), generator=generator)
        windows = self.train[which, starts + torch.arange(length)]
        noise = torch.randn(windows[:, 1:].shape, generator=generator)
        return windows[:, :-1] + self.noise * self.climate.std * noise, windows[:, 1:]

    def loss(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Mapping[str, Tensor | float]]:
        """Loss of the windows."""
        return self.model.loss(*batch), {}

    def evaluate(self) -> Mapping[str, float]:
        """Scores of ensemble forecasts, and of the next state's distribution without drawing from it."""
        scores = score_forecasts(self.model, self.test, self.climate)
        return {**scores, "crps_next": self.crps_next(), "score": -scores["crps"]}

    def crps_next(self) -> float:
        """CRPS of the next state, exact, in climatological deviations."""
        windows = self.test.unfold(1, self.model.n_context + 1, 1).transpose(2, 3).flatten(0, 1)
        return float(self.model.crps(windows[:, :-1], windows[:, -1]).mean()) / self.climate.std
