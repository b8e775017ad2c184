"""Tuning: what is drawn, kept, resumed, failed and refused; training itself is faked but for two tests."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from sna_rl.cli import main
from sna_rl.config import RunConfig
from sna_rl.errors import MissingExtraError, SnaError, UsageError
from sna_rl.training.studies.workers import Outcome, Unit
from sna_rl.training.tuning.queue import KILLED, TrialQueue
from sna_rl.training.tuning.results import trial_config, write_results
from sna_rl.training.tuning.search import Space
from sna_rl.training.tuning.settings import Tuning
from sna_rl.training.tuning.storage import Storage, open_storage
from sna_rl.training.tuning.trial import OBJECTIVES, Reporting, make_pruner, run_trial
from sna_rl.training.tuning.tune import Tuned, tune

SPACE = """
first:
  rank: {int: [2, 64], log: true}
  learning_rate: {float: [1.0e-5, 1.0e-2], log: true}
then:
  batch_size: {choices: [8, 16, 32]}
  gamma: {float: [0.001, 0.1], log: true, complement: true}
"""


def distance(config: dict[str, Any]) -> float:
    """How far a trial is from rank 16 and learning rate 1e-3."""
    return abs(math.log2(config["rank"] / 16)) + abs(math.log10(config["learning_rate"] / 1e-3))


class FakePool:
    """Gives each trial the value of `score`; an exception is its reason."""

    def __init__(
        self, score: Callable[[dict[str, Any]], float | None] = lambda config: -distance(config)
    ) -> None:
        self.slots = 1
        self.score = score
        self.seen: list[dict[str, Any]] = []

    def run(self, units: Iterator[Unit]) -> Iterator[Outcome]:
        for unit in units:
            config = json.loads(json.dumps(unit.arguments))["config"]
            self.seen.append(config)
            try:
                value = self.score(config)
            except SnaError as error:
                yield Outcome(unit, None, str(error), 1.0)
            else:
                yield Outcome(unit, {"value": value, "curves": [[0.0]]}, None, 1.0)

    def close(self) -> None:
        return


@pytest.fixture
def tuning(tmp_path: Path) -> Tuning:
    (tmp_path / "space.yml").write_text(SPACE)
    config = RunConfig(
        "sac", "Pendulum-v1", n_timesteps=100, eval_freq=10, hyperparams={"policy_kwargs": {"depth": 1}}
    )
    return Tuning("study", config, Space.read(tmp_path / "space.yml", "cp"), n_trials=6, n_startup_trials=2)


def run(tuning: Tuning, folder: Path, pool: FakePool | None = None, **options: Any) -> Tuned:
    return tune(tuning, folder, pool or FakePool(), say=lambda line: None, progress=False, **options)


def drawn(tuned: Tuned) -> list[dict[str, Any]]:
    return [trial.params for trial in tuned.study.get_trials()]


@pytest.mark.parametrize("sampler", ["tpe", "gp", "cmaes", "random"])
def test_rank_and_learning_rate_come_first_and_are_then_held_at_their_best(
    tuning: Tuning, tmp_path: Path, sampler: str
) -> None:
    tuned = run(replace(tuning, sampler=sampler, n_trials=8), tmp_path)
    params = drawn(tuned)
    assert [set(each) for each in params[:4]] == [{"rank", "learning_rate"}] * 4
    assert [len(each) for each in params[4:]] == [4] * 4
    best_first = max(tuned.study.get_trials()[:4], key=lambda trial: trial.value or 0)
    for each in params[4:]:
        assert {key: each[key] for key in best_first.params} == best_first.params
    assert len({each["gamma"] for each in params[4:]}) == 4


@pytest.mark.parametrize("sampler", ["tpe", "random", "gp"])
def test_resumed_study_draws_what_an_uninterrupted_one_does(
    tuning: Tuning, tmp_path: Path, sampler: str
) -> None:
    whole = replace(tuning, sampler=sampler, n_trials=6, max_total_trials=6)
    at_once = drawn(run(whole, tmp_path / "a"))
    first = replace(whole, name="study")

    class Stops(FakePool):
        def run(self, units: Iterator[Unit]) -> Iterator[Outcome]:
            for number, outcome in enumerate(super().run(units)):
                yield outcome
                if number == 2:
                    return

    run(first, tmp_path / "b", Stops())
    assert drawn(run(first, tmp_path / "b")) == at_once
    assert len({each["rank"] for each in at_once} | {each["learning_rate"] for each in at_once}) > 4


def test_policy_kwargs_keep_what_is_not_searched(tuning: Tuning, tmp_path: Path) -> None:
    pool = FakePool()
    run(tuning, tmp_path, pool)
    assert all(config["policy_kwargs"] == {"depth": 1} for config in pool.seen)


def test_trial_zero_and_the_best_come_back_exactly(tuning: Tuning, tmp_path: Path) -> None:
    pool = FakePool()
    tuned = run(tuning, tmp_path, pool)
    assert trial_config("study", 0, folder=tmp_path).to_dict() == pool.seen[0]
    best = trial_config(str(tmp_path / "study"))
    assert best.to_dict() == pool.seen[tuned.study.best_trial.number]
    assert best.hyperparams["learning_rate"] == tuned.study.best_trial.params["learning_rate"]
    path = write_results(tuned, lambda line: None)
    assert RunConfig.from_yaml(path) == best
    with pytest.raises(UsageError, match="has no trial 6; it has 0 to 5"):
        trial_config("study", 6, folder=tmp_path)
    with pytest.raises(UsageError, match="no tuning study 'studi'"):
        trial_config("studi", folder=tmp_path)


def test_a_trial_of_value_zero_is_better_than_negative_ones(tuning: Tuning, tmp_path: Path) -> None:
    values = iter([-3.0, 0.0, -1.0])
    pool = FakePool(lambda config: next(values))
    tuned = run(replace(tuning, n_trials=3), tmp_path, pool)
    assert trial_config("study", folder=tmp_path).to_dict() == pool.seen[1]
    assert RunConfig.from_yaml(write_results(tuned, lambda line: None)).to_dict() == pool.seen[1]


def test_results_show_values_as_the_run_took_them(tuning: Tuning, tmp_path: Path) -> None:
    lines: list[str] = []
    pool = FakePool()
    tuned = run(replace(tuning, n_trials=12), tmp_path, pool)
    write_results(tuned, lines.append)
    with (tuned.path / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["learning_rate"]) for row in rows] == [config["learning_rate"] for config in pool.seen]
    assert float(rows[-1]["gamma"]) == pool.seen[-1]["gamma"] > 0.89
    assert rows[0]["gamma"] == ""
    assert rows[0]["state"] == "complete"
    assert lines[0].split() == ["trial", "value", "rank", "learning_rate", "batch_size", "gamma"]
    assert lines[-1] == "12 trials: 12 complete"
    for name in ("slices.png", "importance.png"):
        assert (tuned.path / name).read_bytes().startswith(b"\x89PNG")


def test_failures_are_failed_trials_with_their_reason_never_a_number(tuning: Tuning, tmp_path: Path) -> None:
    def score(config: dict[str, Any]) -> float | None:
        if config["rank"] > 8:
            raise SnaError("took longer than 5 s")
        return None if config["learning_rate"] > 1e-3 else -distance(config)

    tuned = run(replace(tuning, n_trials=12, sampler="random"), tmp_path, FakePool(score))
    trials = tuned.study.get_trials()
    for trial in trials:
        if trial.params["rank"] > 8:
            assert (trial.state, trial.value) == (TrialState.FAIL, None)
            assert trial.user_attrs["reason"] == "took longer than 5 s"
        elif trial.params["learning_rate"] > 1e-3:
            assert trial.state == TrialState.PRUNED
        else:
            assert trial.state == TrialState.COMPLETE
    assert len({trial.state for trial in trials}) == 3


def test_no_completed_trial_is_told_and_fails(tuning: Tuning, tmp_path: Path) -> None:
    def score(config: dict[str, Any]) -> float:
        raise SnaError("evaluation 1 returned nan")

    tuned = run(tuning, tmp_path, FakePool(score))
    with pytest.raises(
        SnaError, match=r"no trial of study 'study' completed \(6 trials: 6 fail\).*returned nan"
    ):
        write_results(tuned, lambda line: None)
    assert (tuned.path / "trials.csv").read_text().count("evaluation 1 returned nan") == 6
    with pytest.raises(UsageError, match="has no completed trial"):
        trial_config("study", folder=tmp_path)


def test_changed_space_or_settings_are_refused_before_training(tuning: Tuning, tmp_path: Path) -> None:
    run(tuning, tmp_path)
    (tmp_path / "wider.yml").write_text(SPACE.replace("[2, 64]", "[2, 128]"))
    changes: list[dict[str, Any]] = [
        {"space": Space.read(tmp_path / "wider.yml", "cp")},
        {"config": tuning.config.replace(n_timesteps=200)},
        {"objective": "last"},
        {"seeds": (0, 1)},
    ]
    for change in changes:
        pool = FakePool()
        with pytest.raises(UsageError, match=r"was begun with .* give another --study-name"):
            run(replace(tuning, **change), tmp_path, pool)
        assert pool.seen == []
    run(replace(tuning, sampler="random", pruner="none"), tmp_path)


def test_interrupted_trial_is_begun_anew(tuning: Tuning, tmp_path: Path) -> None:
    def interrupt(config: dict[str, Any]) -> float:
        raise KeyboardInterrupt

    with pytest.raises(SnaError, match="the same command goes on"):
        run(replace(tuning, max_total_trials=3), tmp_path, FakePool(interrupt))
    tuned = run(replace(tuning, max_total_trials=3), tmp_path)
    states = [trial.state for trial in tuned.study.get_trials()]
    assert states == [TrialState.FAIL, TrialState.COMPLETE, TrialState.COMPLETE, TrialState.COMPLETE]
    params = drawn(tuned)
    assert params[0] == params[1]
    assert tuned.study.get_trials()[0].user_attrs["reason"] == KILLED


def test_trials_of_a_killed_process_are_begun_anew(tuning: Tuning, tmp_path: Path) -> None:
    tuned = run(replace(tuning, n_trials=1), tmp_path)
    storage = open_storage(None, tuned.path)
    study = optuna.load_study(study_name="study", storage=storage.backend)
    queue = TrialQueue(tuning, study, storage, None, tuned.path)
    trial = queue._claim()
    assert trial is not None
    trial.set_user_attr("worker", {"host": os.uname().nodename, "pid": 2**22, "at": 0})
    other = queue._claim()
    assert other is not None
    assert queue.give_up_dead() == 1
    again = run(replace(tuning, n_trials=1), tmp_path).study.get_trials()[-1]
    assert {name: again.params[name] for name in trial.params} == trial.params
    other.set_user_attr("worker", {"host": "elsewhere", "pid": 1, "at": 0})
    assert queue.give_up_dead() == 1


@pytest.mark.parametrize("url", [None, "sqlite:///{folder}/study.db"])
def test_total_is_never_exceeded_by_several_processes(
    tuning: Tuning, tmp_path: Path, url: str | None
) -> None:
    storage = url.format(folder=tmp_path) if url else None
    total = replace(tuning, max_total_trials=5)
    opened = [open_storage(storage, tmp_path / "study") for _ in range(2)]
    run(replace(total, max_total_trials=2), tmp_path, storage=storage)
    queues = [
        TrialQueue(
            total, optuna.load_study(study_name="study", storage=each.backend), each, storage, tmp_path
        )
        for each in opened
    ]
    claimed = [queue._claim() for queue in queues * 3]
    numbers = [trial.number for trial in claimed if trial is not None]
    assert numbers == [2, 3, 4]


class NoLock(Storage):
    """A storage that can't keep others out, as a gRPC proxy."""

    @contextmanager
    def exclusive(self, name: str) -> Iterator[bool]:
        yield False


def test_surplus_trial_of_a_storage_without_locks_is_given_up(
    tuning: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = run(replace(tuning, n_trials=3), tmp_path)
    storage = NoLock(open_storage(None, tuned.path).backend, None)
    study = optuna.load_study(study_name="study", storage=storage.backend)
    queue = TrialQueue(replace(tuning, max_total_trials=3), study, storage, None, tuned.path)
    seen = iter([study.get_trials()[:2]])
    true = study.get_trials
    monkeypatch.setattr(study, "get_trials", lambda **kwargs: next(seen, None) or true(**kwargs))
    assert queue._claim() is None
    assert true()[-1].state == TrialState.FAIL
    assert queue.n_ended == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sampler": "tpee"}, "unknown sampler 'tpee'; did you mean 'tpe'"),
        ({"pruner": "meidan"}, "unknown pruner 'meidan'; did you mean 'median'"),
        ({"objective": "mean"}, "unknown objective 'mean'"),
        ({"n_trials": 0}, "n_trials must be at least 1, not 0"),
        ({"max_total_trials": 0}, "max_total_trials must be at least 1"),
        ({"seeds": ()}, "seeds per trial must be at least 1"),
    ],
)
def test_bad_settings_are_refused(tuning: Tuning, change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(tuning, **change)


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ("study", UsageError, "takes a path ending in .log or a URL"),
        ("grpc://here", UsageError, "needs host and port"),
        ("://", UsageError, "not a database's URL"),
        (
            "postgresql://nobody:secret@127.0.0.1:9/none",
            SnaError,
            r"postgresql\+psycopg://nobody:\*\*\*@.*can't be reached",
        ),
        ("mysql://nobody@127.0.0.1/none", MissingExtraError, "driver of mysql.pymysql is not installed"),
        ("/proc/none/journal.log", SnaError, "can't be opened"),
    ],
)
def test_storages_that_cannot_be_had_are_named(
    tmp_path: Path, given: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message) as error:
        open_storage(given, tmp_path)
    assert "secret" not in str(error.value)


def test_objectives_are_area_last_and_best() -> None:
    curve = [1.0, 5.0, 3.0]
    assert {name: objective(curve) for name, objective in OBJECTIVES.items()} == {
        "auc": 3.0,
        "last": 3.0,
        "best": 5.0,
    }


def tiny_trial(tmp_path: Path, pruner: str, values: list[float]) -> tuple[dict[str, Any], optuna.study.Study]:
    """Train a tiny trial in a study whose two earlier trials reported `values`."""
    storage = open_storage(None, tmp_path)
    study = optuna.create_study(study_name="tiny", storage=storage.backend, direction="maximize")
    for value in values:
        earlier = study.ask()
        for step in range(6):
            earlier.report(value, step)
        study.tell(earlier, value)
    trial = study.ask()
    config = RunConfig(
        "dqn",
        "CartPole-v1",
        n_timesteps=60,
        eval_freq=20,
        eval_episodes=1,
        update="reference",
        hyperparams={"learning_starts": 10, "batch_size": 8, "policy_kwargs": {"width": 8}},
    )
    line = Reporting(None, str(tmp_path), "tiny", trial.number, pruner, 1, 3)
    told = run_trial(config.to_dict(), [0, 1], "auc", str(tmp_path / "runs"), vars(line))
    return told, optuna.load_study(study_name="tiny", storage=open_storage(None, tmp_path).backend)


def test_trial_reports_each_evaluation_averaged_over_seeds(tmp_path: Path) -> None:
    told, study = tiny_trial(tmp_path, "none", [])
    first, second = told["curves"]
    assert told["value"] == pytest.approx((sum(first) + sum(second)) / 6)
    expected = [*first, *((a + b) / 2 for a, b in zip(first, second, strict=True))]
    assert list(study.get_trials()[0].intermediate_values.values()) == pytest.approx(expected)
    assert len(list((tmp_path / "runs").rglob("summary.json"))) == 2


def test_hopeless_trial_is_pruned_and_ends_early(tmp_path: Path) -> None:
    told, _ = tiny_trial(tmp_path, "median", [1e6, 1e6])
    assert told["value"] is None
    assert len(told["curves"]) == 1
    assert len(told["curves"][0]) == 3


def test_pruners_judge_as_they_are_named() -> None:
    assert make_pruner("median", 5, 9)._n_warmup_steps == 3  # type: ignore[attr-defined]
    assert type(make_pruner("hyperband", 5, 9)).__name__ == "HyperbandPruner"
    assert type(make_pruner("halving", 5, 9)).__name__ == "SuccessiveHalvingPruner"
    assert type(make_pruner("none", 5, 9)).__name__ == "NopPruner"


def test_command_line_tunes_and_says_what_to_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sna_rl.training.studies.pools.make_pool", lambda jobs, ray: FakePool())
    words = [
        "tune",
        "--algo",
        "sac",
        "--env",
        "Pendulum-v1",
        "-n",
        "100",
        "--n-evaluations",
        "10",
        "-f",
        str(tmp_path),
    ]
    words += ["--study-name", "s", "--no-progress", "--no-optim-plots"]
    assert main([*words, "--n-trials", "3"]) == 0
    out = capsys.readouterr().out
    assert f"best: sna-rl train -conf {tmp_path / 's' / 'best.yml'}" in out
    assert "3 trials: 3 complete" in out
    assert main([*words, "--n-trials", "1", "--seeds-per-trial", "2"]) == 2
    assert "was begun with seeds [0], not [0, 1]" in capsys.readouterr().err
    assert main([*words, "--n-evaluations", "0"]) == 2


def test_trials_are_trained_again_by_number(
    tuning: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = FakePool()
    tuned = run(tuning, tmp_path, pool)
    trained: list[RunConfig] = []

    def remember(config: RunConfig, **options: object) -> None:
        trained.append(config)
        raise SnaError("enough")

    monkeypatch.setattr("sna_rl.training.train.train", remember)
    words = ["train", "--study", "study", "-f", str(tmp_path)]
    assert main([*words, "--trial", "0"]) == 1
    assert main(words) == 1
    assert main([*words, "--trial-id", "1", "-n", "7", "-params", "tau:0.5"]) == 1
    first, best, changed = trained
    assert first.to_dict() == {**pool.seen[0], "folder": str(tmp_path)}
    assert best.rank == tuned.study.best_trial.params["rank"]
    assert (changed.rank, changed.n_timesteps, changed.hyperparams["tau"]) == (pool.seen[1]["rank"], 7, 0.5)
    assert main(["train", "--trial", "0", "--algo", "sac", "--env", "Pendulum-v1"]) == 2
    assert "name it with --study" in capsys.readouterr().err
