"""`sna-rl lm`: each verb end to end, what it leaves, exact resumption, bad input in one sentence."""

from __future__ import annotations

import json
import math
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sna_rl.cli import main
from sna_rl.language import running
from sna_rl.runs.fit import fit as whole_fit

SMALL = {
    "width": 16,
    "n_layers": 1,
    "n_heads": 2,
    "rank": 4,
    "n_positions": 32,
    "batch_size": 4,
    "embedding_rank": 4,
}
TEXT = "".join(f"the {n % 97} cats of house {n * n % 89} sat on {n % 7} mats.\n" for n in range(300))


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "book.txt"
    file.write_text(TEXT)
    return file


def train(*words: object, folder: Path, **params: object) -> int:
    """Exit code of a small run."""
    pairs = [f"{name}:{value}" for name, value in (SMALL | params).items()]
    return main(["lm", "train", *map(str, words), "-params", *pairs, "-f", str(folder), "--no-progress"])


@pytest.fixture(scope="module")
def run(book: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short Arcade run with byte-pair encoding."""
    logs = tmp_path_factory.mktemp("logs")
    words = ["--model", "arcade", "--text", book, "--steps", 40, "--seed", 3]
    assert train(*words, folder=logs, vocab_size=270) == 0
    return logs / "text" / "arcade" / "seed-3"


def said(words: list[str], capsys: pytest.CaptureFixture[str], exit_code: int = 2) -> str:
    """The one sentence of a failure."""
    capsys.readouterr()
    assert main(["lm", *words]) == exit_code
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1, err
    return err


def test_a_run_leaves_its_settings_weights_vocabulary_and_numbers(run: Path) -> None:
    names = {file.name for file in run.iterdir()}
    assert {"config.yml", "command.txt", "versions.json", "model.safetensors", "best_model.safetensors",
            "tokenizer.json", "evaluations.json", "summary.json", "checkpoints"} <= names  # fmt: skip
    assert any(name.startswith("events.out.tfevents") for name in names)
    final = json.loads((run / "summary.json").read_text())["final"]
    assert final["perplexity"] == pytest.approx(math.exp(final["loss"]))
    assert {"constraint_rms", "constraint_rank", "subspace_similarity"} <= set(final)
    assert final["perplexity"] < 270


@pytest.mark.parametrize("model", ["separable", "softmax", "arcade"])
def test_other_models_train_in_bfloat16(model: str, book: Path, tmp_path: Path) -> None:
    words = ["--model", model, "--text", book, "--steps", 30, "--precision", "bf16", "--seed", 0]
    assert train(*words, folder=tmp_path) == 0
    summary = json.loads((tmp_path / "text" / model / "seed-0" / "summary.json").read_text())
    assert summary["final"]["bits_per_byte"] < 8.0


def test_evaluation_repeats_what_training_said(run: Path, book: Path, tmp_path: Path) -> None:
    target = tmp_path / "numbers.json"
    assert main(["lm", "evaluate", str(run), "-o", str(target)]) == 0
    final = json.loads((run / "summary.json").read_text())["final"]
    numbers = json.loads(target.read_text())
    assert numbers["perplexity"] == pytest.approx(final["perplexity"], rel=1e-5)
    assert main(["lm", "evaluate", str(run), "--text", str(book)]) == 0


def test_generation_goes_on_with_the_prompt(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lm", "generate", str(run), "--prompt", "the cat", "-n", "10", "--top-k", "5", "--seed", "1"]
    capsys.readouterr()
    texts = []
    for _ in range(2):
        assert main(words) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert texts[0].startswith("the cat")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the sandbox is of Linux x86-64")
def test_code_is_scored_when_the_user_says_so(run: Path, tmp_path: Path) -> None:
    problem = {
        "task_id": "0",
        "prompt": "def f():\n",
        "test": "def check(c):\n    assert c() == 1",
        "entry_point": "f",
    }
    file, target = tmp_path / "problems.jsonl", tmp_path / "numbers.json"
    file.write_text(json.dumps(problem))
    assert main(["lm", "evaluate", str(run), "--code", str(file), "--run-code", "-o", str(target)]) == 0
    numbers = json.loads(target.read_text())
    assert numbers["pass_at_1"] == 0.0  # it writes of cats
    assert sum(value for name, value in numbers.items() if name.startswith("n_")) == 1.0


def test_quantisation_says_loss_and_size(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "small"
    capsys.readouterr()
    assert main(["lm", "quantize", str(run), "-o", str(target)]) == 0
    words = capsys.readouterr().out.split("written")[0].replace(",", "").split()
    numbers = {name: float(value) for name, value in zip(words[::2], words[1::2], strict=True)}
    assert numbers["loss"] == pytest.approx(numbers["loss_before"], rel=0.01)
    assert numbers["bytes"] < numbers["bytes_before"]
    stored = load_file(target / "model.safetensors")
    assert stored["blocks.0.state.feed_forward.0.weight"].dtype == torch.int8
    assert stored["blocks.0.constraint.feed_forward.0.weight"].dtype == torch.float16
    assert main(["lm", "evaluate", str(target)]) == 0
    assert main(["lm", "generate", str(target), "-n", "5"]) == 0
    assert "exists" in said(["quantize", str(run), "-o", str(target)], capsys)
    assert "quantised already" in said(["quantize", str(target), "-o", str(tmp_path / "b")], capsys)
    assert "quantised for inference" in said(["train", "-i", str(target)], capsys)


@pytest.mark.unhooked
def test_a_run_goes_on_to_the_bit(book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--model", "arcade", "--text", book, "--seed", 0, "--steps", 12]
    assert train(*words, folder=tmp_path / "whole", save_freq=4) == 0

    class Killed(Exception):
        pass

    def fit_and_die(model, optimizer, task, config, folder, *, progress):  # type: ignore[no-untyped-def]
        batch = task.batch

        def dying(step: int) -> object:
            if step == 9:
                raise Killed
            return batch(step)

        task.batch = dying
        return whole_fit(model, optimizer, task, config, folder, progress=progress)

    monkeypatch.setattr(running, "fit", fit_and_die)
    assert train(*words, folder=tmp_path / "cut", save_freq=4) == 1
    monkeypatch.undo()
    cut = tmp_path / "cut" / "text" / "arcade" / "seed-0"
    assert main(["lm", "train", "-i", str(cut), "--no-progress"]) == 0
    whole = load_file(tmp_path / "whole" / "text" / "arcade" / "seed-0" / "model.safetensors")
    again = load_file(cut / "model.safetensors")
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    assert len((cut / "command.txt").read_text().splitlines()) == 2


PROBLEMS = {"n_problems": 8, "n_test": 3, "largest": 9, "weight_decay": 0, "n_positions": 80}


def test_phase_two_begins_with_the_weights_of_phase_one(book: Path, tmp_path: Path) -> None:
    words = ["--model", "arcade", "--text", book, "--steps", 2, "--seed", 0]
    assert train(*words, folder=tmp_path, n_positions=80) == 0
    first = tmp_path / "text" / "arcade" / "seed-0"
    rates = {"learning_rate": 1e-12, "constraint_learning_rate": 1e-2}
    words = ["--start", first, "--problems", "arithmetic", "--steps", 2, "--seed", 0]
    assert train(*words, folder=tmp_path, **PROBLEMS, **rates) == 0
    second = tmp_path / "arithmetic" / "arcade" / "seed-0"
    before, after = load_file(first / "model.safetensors"), load_file(second / "model.safetensors")
    for name in before:
        moved = not torch.allclose(before[name], after[name], atol=1e-6)
        assert moved == ("constraint." in name), name
    final = json.loads((second / "summary.json").read_text())["final"]
    assert {"exact_arithmetic", "exact_arithmetic_held_out", "exact_conditional"} <= set(final)
    assert main(["lm", "evaluate", str(second)]) == 0


def test_a_run_begins_with_a_vocabulary_of_its_models_size_alone(
    run: Path, book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "train",
        "--start",
        str(run),
        "--text",
        str(book),
        "-f",
        str(tmp_path),
        "-params",
        "vocab_size:300",
    ]
    assert "the vocabulary has 270 tokens, and the model's checkpoint 300" in said(words, capsys)
    words[-1] = "width:32"
    assert "is of another model" in said(words, capsys)
    assert not list(tmp_path.iterdir())


def test_questions_longer_than_the_positions_leave_nothing(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--start", str(run), "--problems", "conditional", "-f", str(tmp_path)]
    assert "more than the 32 positions" in said(words, capsys)
    assert not list(tmp_path.iterdir())


def test_gsm8k_files_are_learned(tmp_path: Path) -> None:
    file = tmp_path / "maths.jsonl"
    lines = [json.dumps({"question": f"{n}+1?", "answer": f"#### {n + 1}"}) for n in range(9)]
    file.write_text("\n".join(lines))
    words = ["--problems", file, "--steps", 2, "--seed", 0]
    assert train(*words, folder=tmp_path / "logs", n_test=4) == 0
    assert (tmp_path / "logs" / "maths" / "separable" / "seed-0" / "summary.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--system", "lorenz96", "--head", "deterministic"],
        ["--model", "mlp"],
        ["--model", "climatology"],
        ["--system", "kuramoto-sivashinsky", "--model", "linear-gaussian"],
    ],
)
def test_dynamics(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [
        "n_trajectories:2",
        "n_states:40",
        "n_test:1",
        "long_steps:5",
        "width:8",
        "rank:4",
        "batch_size:4",
    ]
    capsys.readouterr()
    common = ["--steps", "2", "--seed", "0", "-f", str(tmp_path), "--no-progress", "-params", *sizes]
    assert main(["lm", "dynamics", *words, *common]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("crps", "spread_error", "spectrum_error", "n_diverged"))
    found = list(tmp_path.glob("*/*/seed-0/scores.json"))
    assert len(found) == (0 if words[-1] in ("climatology", "linear-gaussian") else 1)
    if found:
        assert main(["lm", "dynamics", "-i", str(found[0].parent), "--no-progress"]) == 0


ARCADE = "train --model arcade -params"
BAD = [
    ("train --text nothing", "text 'nothing' does not exist"),
    ("train --text latin1.txt", "is not UTF-8"),
    ("train --text empty.txt", "is empty"),
    ("train --text short.txt", "one block needs 257"),
    ("train --model arcad", "did you mean 'arcade'"),
    (f"{ARCADE} strength:-1", "λ must be 0 or a finite number over 0, not -1"),
    (f"{ARCADE} width:130 n_heads:2 ratio:3:1", "the ratio 3:1 must divide the width"),
    (f"{ARCADE} penalty:per-token ratio:3:1", "needs the ratio 1:1"),
    ("train -params constraint_learning_rate:1e-6", "belongs to --model arcade"),
    ("train -params attention:softmax", "belongs to --model arcade"),
    ("train -params vocab_size:100", "vocab_size must be 256 (bytes) or more"),
    ("train -params wdith:3", "unknown key 'wdith'; did you mean 'width'?"),
    ("train -params width:wide", "width must be of kind int, not 'wide'"),
    ("train --problems answers.jsonl", "the answer has no '#### n'"),
    ("train --problems arithmetic -params n_positions:20", "the 20 positions"),
    ("train --precision fp8", "unknown precision 'fp8'"),
    ("train --device tpu", "--device must be auto, cpu or cuda"),
    ("train -i logs", "is not a run folder"),
    ("train -i logs --steps 3", "leave the other flags away"),
    ("train --steps many", "not 'many'"),
    ("evaluate nowhere", "is not a run folder"),
    ("generate nowhere --top-p 2", "top_p must"),
    ("dynamics --system lorenz", "did you mean 'lorenz96'"),
    ("dynamics --model mpl", "did you mean 'mlp'"),
]


@pytest.mark.parametrize(("words", "sentence"), BAD)
def test_bad_input_is_one_sentence_and_writes_nothing(
    words: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin1.txt").write_bytes(b"caf\xe9" * 999)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "short.txt").write_text("x" * 300)
    (tmp_path / "answers.jsonl").write_text('{"question": "q", "answer": "one"}')
    before = sorted(tmp_path.iterdir())
    assert sentence in said(words.split(), capsys)
    assert sorted(tmp_path.iterdir()) == before


def test_prompts_longer_than_the_positions(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err = said(["generate", str(run), "--prompt", "cat " * 100, "-n", "3"], capsys)
    assert "more than the 32 positions" in err
    assert "prompt is empty" in said(["generate", str(run), "--prompt", "", "-n", "3"], capsys)


def test_files_that_do_not_belong_together(
    run: Path, book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("config.yml", "model.safetensors"):
        (copy / name).write_bytes((run / name).read_bytes())
    assert "the vocabulary has 256 tokens, and the model's checkpoint 270" in said(
        ["evaluate", str(copy)], capsys
    )
    (copy / "tokenizer.json").write_bytes((run / "tokenizer.json").read_bytes())
    weights = load_file(copy / "model.safetensors")
    save_file({**weights, "head.weight": torch.zeros(3, 3)}, copy / "model.safetensors")
    assert "is of another model: head.weight" in said(["evaluate", str(copy)], capsys)
    (copy / "model.safetensors").write_bytes(b"damaged")
    assert "can't be read as safetensors" in said(["evaluate", str(copy)], capsys, exit_code=1)
    (copy / "tokenizer.json").write_text("{}")
    assert "is no tokenizer" in said(["evaluate", str(copy)], capsys, exit_code=1)
    book_before = book.read_text()
    book.write_text(book_before + "more")
    assert "have changed since it began" in said(["train", "-i", str(run)], capsys)
    book.write_text(book_before)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from sna_rl.cli import main; main(['lm', 'train', '--help']); "
        "sys.exit(bool({'torch', 'numpy', 'tokenizers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_the_core_is_shared() -> None:
    folder = Path(running.__file__).parent
    for file in folder.glob("*.py"):
        text = file.read_text()
        assert "svd" not in text, file
        assert "linspace(0.0, 1.0" not in text, file
        assert "def spline" not in text, file
        assert "bspline" not in text, file
        assert len(text.splitlines()) <= 500, file
