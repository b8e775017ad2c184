"""Masks, reconstruction, its measures against plain references, decoding in rounds."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sna_rl.cli import main
from sna_rl.errors import SnaError, UsageError
from sna_rl.runs.fit_folder import open_run
from sna_rl.vision.config import ModelConfig
from sna_rl.vision.embeddings import to_patches
from sna_rl.vision.images import Images
from sna_rl.vision.mask import PatchMaskTask, fidelity, hide, reconstruct
from sna_rl.vision.measures import psnr, ssim
from sna_rl.vision.model import IterativeModel, mask_model, symbol_mask_model
from sna_rl.vision.run import Run
from sna_rl.vision.settings import TaskConfig, VisionConfig
from sna_rl.vision.symbols import (
    SymbolMaskTask,
    Symbols,
    covered,
    decode,
    symbol_accuracies,
    symbol_splits,
)

SMALL: dict[str, Any] = {"width": 16, "n_heads": 2, "hidden": 32, "n_iterations": 2}


@given(seed=st.integers(0, 2**16), share=st.floats(0.01, 0.99))
def test_masks_hide_their_share_and_never_all_or_nothing(seed: int, share: float) -> None:
    hidden = hide(5, 16, (share, share), torch.Generator().manual_seed(seed))
    assert hidden.sum(1).tolist() == [min(max(round(share * 16), 1), 15)] * 5


@pytest.mark.parametrize("shares", [(0.0, 0.0), (1.0, 1.0), (0.5, 0.2)])
def test_masks_of_nothing_and_everything_are_refused(shares: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match="the hidden share must be over 0 and under 1"):
        hide(1, 16, shares, torch.Generator())
    with pytest.raises(UsageError, match="the hidden share must be over 0 and under 1"):
        TaskConfig(min_hidden=shares[0], max_hidden=shares[1])


def test_psnr_by_hand() -> None:
    image = torch.zeros(2, 1, 4, 4)
    truth = torch.stack([torch.full((1, 4, 4), 0.5), torch.zeros(1, 4, 4)])
    assert psnr(image, truth).tolist() == [pytest.approx(20 * math.log10(2)), math.inf]


def slow_ssim(x: Tensor, y: Tensor) -> float:
    """The definition, window by window."""
    ramp = np.exp(-0.5 * ((np.arange(11) - 5) / 1.5) ** 2)
    weights = np.outer(ramp, ramp) / ramp.sum() ** 2
    a, b, found = x.numpy(), y.numpy(), []
    for row in range(a.shape[0] - 10):
        for column in range(a.shape[1] - 10):
            p, q = a[row : row + 11, column : column + 11], b[row : row + 11, column : column + 11]
            mp, mq = (weights * p).sum(), (weights * q).sum()
            vp, vq = (weights * (p - mp) ** 2).sum(), (weights * (q - mq) ** 2).sum()
            both = (weights * (p - mp) * (q - mq)).sum()
            top = (2 * mp * mq + 1e-4) * (2 * both + 9e-4)
            found.append(top / ((mp**2 + mq**2 + 1e-4) * (vp + vq + 9e-4)))
    return float(np.mean(found))


def test_ssim_against_the_definition() -> None:
    x, y = torch.rand(2, 1, 1, 16, 14, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert ssim(x, y).item() == pytest.approx(slow_ssim(x[0, 0], y[0, 0]), rel=1e-9)
    assert ssim(x, x).item() == pytest.approx(1.0)
    assert ssim(x, y).item() == pytest.approx(ssim(y, x).item())
    assert ssim(torch.rand(2, 3, 8, 8), torch.rand(2, 3, 8, 8)).shape == (2,)


class Flat(IterativeModel):
    """Paints every patch with one grey, another one at each call."""

    def __init__(self) -> None:
        real = mask_model(ModelConfig(**SMALL), (1, 8, 8), 4)
        super().__init__(real.embed, real.body, real.head)
        self.seen: list[Tensor] = []

    def forward(self, *inputs: Any, n_iterations: int | None = None) -> Tensor:
        images, hidden = inputs
        self.seen.append(hidden.clone())
        return torch.full((len(images), 16, 4), 0.1 * len(self.seen))


def test_visible_patches_are_kept_and_hidden_ones_filled() -> None:
    images = torch.rand(2, 1, 8, 8)
    hidden = hide(2, 16, (0.5, 0.5), torch.Generator().manual_seed(0))
    filled = to_patches(reconstruct(Flat(), images, hidden), (2, 2))
    assert torch.equal(filled[~hidden], to_patches(images, (2, 2))[~hidden])
    torch.testing.assert_close(filled[hidden], torch.full((16, 4), 0.1))


def test_rounds_uncover_from_the_edge_of_the_hole_by_the_arc_cosine() -> None:
    model, images = Flat(), torch.rand(1, 1, 8, 8)
    hidden = torch.ones(1, 16, dtype=torch.bool)
    hidden[0, 0] = False  # the corner is seen
    reconstruct(model, images, hidden, n_rounds=3)
    left = [int(each.sum()) for each in model.seen]
    assert left == [
        15,
        round(15 * math.acos(1 / 3) / (math.pi / 2)),
        round(15 * math.acos(2 / 3) / (math.pi / 2)),
    ]
    first = model.seen[0] & ~model.seen[1]
    assert {1, 4, 5} <= set(first[0].nonzero().flatten().tolist())


def images_of(n: int) -> Images:
    """Each image of one grey: what is hidden follows from what is seen."""
    levels = torch.linspace(20, 235, n).round().to(torch.uint8)
    return Images(
        levels[:, None, None, None].expand(n, 1, 8, 8).contiguous(), torch.zeros(n).long(), ("grey",)
    )


def learn(model: IterativeModel, task: Any, n_steps: int, lr: float) -> float:
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for step in range(n_steps):
        loss, _ = task.loss(task.batch(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return float(loss.detach())


def test_it_learns_to_fill_in_greys() -> None:
    images = images_of(24)
    config = VisionConfig().changed({"task": "mask", "data": ".", "n_side": 4, "batch_size": 8, **SMALL})
    torch.manual_seed(0)
    model = mask_model(ModelConfig(**SMALL, plain_patches=True), images.shape, 4)
    task = PatchMaskTask(model, images, images, config)
    before = fidelity(model.eval(), images, 0.4)["psnr"]
    learn(model.train(), task, 120, 0.01)
    after = task.evaluate()
    assert after["psnr"] > before + 8
    assert after["score"] == after["psnr"]
    assert fidelity(model, images, 0.4, n_rounds=3)["ssim"] > 0.5


def test_it_learns_to_fill_in_symbols(tmp_path: Path) -> None:
    rows = np.arange(20)[:, None].repeat(16, 1) % 5
    np.savez(tmp_path / "symbols.npz", symbols=rows)
    changes = {
        "task": "mask",
        "data": str(tmp_path / "symbols.npz"),
        "n_train": 0,
        "n_valid": 3,
        "n_test": 2,
        "batch_size": 15,
    }
    config = VisionConfig().changed({**changes, **SMALL})
    train, valid, _ = symbol_splits(config.task, 0)
    torch.manual_seed(0)
    model = symbol_mask_model(config.model, 5, 16)
    task = SymbolMaskTask(model, train, valid, config)
    assert learn(model, task, 120, 0.02) < 0.5
    assert task.evaluate()["accuracy"] > 0.9


def test_symbols_are_split_without_overlap(tmp_path: Path) -> None:
    np.savez(tmp_path / "symbols.npz", symbols=np.arange(20)[:, None].repeat(4, 1))
    task = TaskConfig(task="mask", data=str(tmp_path / "symbols.npz"), n_train=0, n_valid=5, n_test=3)
    splits = symbol_splits(task, 0)
    assert [len(each) for each in splits] == [12, 5, 3]
    assert {each.n_symbols for each in splits} == {20}
    assert sorted(int(row[0]) for each in splits for row in each.symbols) == list(range(20))
    assert torch.equal(symbol_splits(task, 0)[2].symbols, splits[2].symbols)
    assert not torch.equal(symbol_splits(task, 1)[2].symbols, splits[2].symbols)
    fewer = symbol_splits(replace(task, n_train=7), 0)
    assert torch.equal(fewer[0].symbols, splits[0].symbols[:7])
    assert symbol_splits(replace(task, n_symbols=32), 0)[0].n_symbols == 32
    with pytest.raises(UsageError, match="holds the symbol 19, but n_symbols 19 ends at 18"):
        symbol_splits(replace(task, n_symbols=19), 0)


def test_a_model_of_symbols_keeps_their_number_and_scores_a_file_that_lacks_the_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = np.arange(12)[:, None].repeat(16, 1) % 6
    for name, symbols in (("all", rows), ("fewer", rows % 4), ("more", rows + 1)):
        np.savez(tmp_path / f"{name}.npz", symbols=symbols)
    words = ["vision", "train", "--task", "mask", "-n", "2", "--iterations", "2", "--no-progress"]
    params = ["width:16", "n_heads:2", "hidden:32", "batch_size:4", "n_train:0", "n_valid:3", "n_test:3"]
    logs = str(tmp_path / "logs")
    words += ["--seed", "0", "--data", str(tmp_path / "all.npz"), "-f", logs, "-params", *params]
    assert main(words) == 0
    assert "train: 6\nvalid: 3\ntest: 3\n" in capsys.readouterr().out
    run = tmp_path / "logs" / "mask" / "hyper-set" / "seed-0"
    assert open_run(run)["n_symbols"] == 6
    for name in ("all", "fewer"):
        words = ["vision", "evaluate", str(run), "--data", str(tmp_path / f"{name}.npz"), "--rounds", "3"]
        assert main(words) == 0
    with (run / "evaluation-fewer" / "evaluation.csv").open() as file:
        (row,) = csv.DictReader(file)
    opened = Run.open(run, data=str(tmp_path / "fewer.npz"))
    test = opened.data[-1]
    assert isinstance(test, Symbols)
    assert float(row["accuracy"]) == symbol_accuracies(opened.model, test, [2], 0.4, n_rounds=3)[2]
    capsys.readouterr()
    assert main(["vision", "evaluate", str(run), "--data", str(tmp_path / "more.npz")]) == 2
    assert "holds the symbol 6, but n_symbols 6 ends at 5" in capsys.readouterr().err
    assert main(["vision", "train", "-i", str(run), "-n", "3", "--no-progress"]) == 0


class Sure(IterativeModel):
    """Known answers for four places of symbols 0, 1, 2 (3 hides one), by what is seen of place 1."""

    def __init__(self) -> None:
        real = symbol_mask_model(ModelConfig(**SMALL), 3, 4)
        super().__init__(real.embed, real.body, real.head)
        self.seen: list[list[list[int]]] = []

    def forward(self, *inputs: Any, n_iterations: int | None = None) -> Tensor:
        (symbols,) = inputs
        self.seen.append(symbols.tolist())
        before = [[9.0, 0, 0], [0, 5.0, 0], [1.0, 0, 0], [2.0, 0, 0]]
        after = [[9.0, 0, 0], [9.0, 0, 0], [0, 0, 3.0], [0, 0, 4.0]]
        return torch.tensor([after if row[1] == 1 else before for row in symbols])


def test_the_symbol_that_is_surest_is_filled_in_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3 hidden, 3 arccos(1/2) / (π / 2) = 2 stay hidden after the first of two rounds."""
    truth, hidden = torch.tensor([[0, 1, 2, 2]]), torch.tensor([[False, True, True, True]])
    model = Sure()
    seen, wanted = covered(truth, hidden, 3)
    assert seen.tolist() == [[0, 3, 3, 3]]
    assert wanted.tolist() == [[-100, 1, 2, 2]]
    assert decode(model, seen, hidden).tolist() == [[0, 1, 0, 0]]
    model.seen.clear()
    assert decode(model, seen, hidden, n_rounds=2).tolist() == [[0, 1, 2, 2]]
    assert model.seen == [[[0, 3, 3, 3]], [[0, 1, 3, 3]]]
    model.seen.clear()
    assert decode(model, seen, hidden, n_rounds=4).tolist() == [[0, 1, 2, 2]]
    # 3 arccos(k / 4) / (π / 2) = 2.52, 2 and 1.38: 3, 2 and 1 stay hidden; place 3 is surer than place 2
    assert model.seen == [[[0, 3, 3, 3]], [[0, 3, 3, 3]], [[0, 1, 3, 3]], [[0, 1, 3, 2]]]
    monkeypatch.setattr("sna_rl.vision.symbols.hide", lambda *_: hidden)
    monkeypatch.setattr(model, "readouts", lambda symbols, iterations: [(1, model(symbols))])
    found = [symbol_accuracies(model, Symbols(truth, 3), [1], 0.5, n_rounds=n)[1] for n in (1, 2)]
    assert found == [pytest.approx(1 / 3), 1.0]


class Passes(torch.nn.Module):
    """After n passes of one batch through it, answers symbol n − 1 everywhere; counts those passes."""

    def __init__(self) -> None:
        super().__init__()
        self.n_passes = 0

    def forward(self, x: Tensor) -> Tensor:
        self.n_passes += 1
        return torch.nn.functional.one_hot(torch.full(x.shape[:2], self.n_passes - 1), 5)


def test_symbols_are_read_out_at_all_iterations_of_a_single_pass() -> None:
    torch.manual_seed(0)
    model = symbol_mask_model(ModelConfig(**SMALL), 5, 16).eval()
    model.head = head = Passes()
    symbols = Symbols(torch.arange(16).repeat(3, 1) % 5, 5)
    hidden = hide(3, 16, (0.5, 0.5), torch.Generator().manual_seed(0))
    expected = {n: (symbols.symbols[hidden] == n - 1).double().mean().item() for n in (1, 2, 3)}
    n_forward = []
    model.embed.register_forward_hook(lambda *_: n_forward.append(1))
    for seed in range(2):
        head.n_passes = 0
        found = symbol_accuracies(model, symbols, [3, 1, 2], 0.5, seed=seed)
        assert head.n_passes == 3
        if seed == 0:
            assert found == pytest.approx(expected)
            assert list(found) == [1, 2, 3]
    assert len(n_forward) == 2
    with pytest.raises(UsageError, match="the hidden share must be over 0"):
        symbol_accuracies(model, symbols, [1], 1.0)


def test_symbol_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "symbols.npz"
    np.savez(path, symbols=np.zeros((3, 4)))
    with pytest.raises(SnaError, match="needs an array 'symbols' of whole numbers"):
        symbol_splits(TaskConfig(task="mask", data=str(path)), 0)
    np.savez(path, symbols=np.zeros((3, 4), dtype=np.int64))
    with pytest.raises(UsageError, match="holds 3 images; n_valid and n_test alone ask for 1500"):
        symbol_splits(TaskConfig(task="mask", data=str(path)), 0)
    for shape in ((0, 4), (3, 0)):
        np.savez(path, symbols=np.zeros(shape, dtype=np.int64))
        with pytest.raises(SnaError, match="holds no symbol: its array is empty, of shape"):
            symbol_splits(TaskConfig(task="mask", data=str(path)), 0)
