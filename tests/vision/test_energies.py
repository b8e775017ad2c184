"""Energies against autograd, both forms of the bi-softmax, the normaliser's way back."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from sna_rl.errors import UsageError
from sna_rl.separable.scores import bilinear_scores
from sna_rl.vision import baselines, bisoftmax, energies
from sna_rl.vision.baselines import EnergyTransformerLayer, make_layer
from sna_rl.vision.config import ModelConfig
from sna_rl.vision.energies import ATTENTIONS, Bisoftmax, Linear, make_attention, plain_bisoftmax
from sna_rl.vision.feed_energies import FEEDS, make_feed
from sna_rl.vision.kernels import KERNELS
from sna_rl.vision.normaliser import Normaliser


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def derivative(energy: Tensor, x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(energy.sum(), x)
    return gradient


CASES = [(name, "elu+1") for name in ATTENTIONS] + [("linear", kernel) for kernel in KERNELS]


@pytest.mark.parametrize(("name", "kernel"), CASES)
def test_attention_gradients_are_those_of_their_energies(name: str, kernel: str) -> None:
    z = normal(2, 3, 7, 5).requires_grad_()
    attention = make_attention(name, 5, kernel)
    assert attention.energy(z).shape == (2, 3)
    torch.testing.assert_close(attention.grad(z), derivative(attention.energy(z), z), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", FEEDS)
def test_feed_forward_gradients_are_those_of_their_energies(name: str) -> None:
    h = normal(2, 7, 9).requires_grad_()
    feed = make_feed(name)
    assert feed.energy(h).shape == (2,)
    torch.testing.assert_close(feed.grad(h), derivative(feed.energy(h), h), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("name", "kernel"), CASES)
def test_gradients_can_be_differentiated(name: str, kernel: str) -> None:
    attention = make_attention(name, 3, kernel)
    z = (normal(1, 1, 4, 3) + 0.05).requires_grad_()
    assert torch.autograd.gradcheck(attention.grad, (z,))


def test_bisoftmax_is_the_softmax_of_rows_plus_that_of_columns() -> None:
    z = normal(2, 3, 7, 5)
    scores = z @ z.mT / math.sqrt(5)
    expected = (scores.softmax(-1) + scores.softmax(-2)) @ z
    torch.testing.assert_close(Bisoftmax(5**-0.5).grad(z), expected)
    weights = scores.softmax(-1) + scores.softmax(-2)
    assert weights.sum(-1).mean().item() == pytest.approx(2.0)


def test_published_range_of_the_energies() -> None:
    """Twelve heads of 64, 81 tokens: equal tokens 96,379, orthogonal ones 62,414."""
    attention = make_attention("bisoftmax", 64)
    equal = torch.ones(12, 81, 64, dtype=torch.float64)
    assert attention.energy(equal).sum().item() == pytest.approx(96_379, abs=0.5)
    orthogonal = 8.0 * torch.eye(81, dtype=torch.float64).repeat(12, 1, 1)
    assert attention.energy(orthogonal).sum().item() == pytest.approx(62_414, abs=0.5)
    h = torch.full((81, 3072), 1.0, dtype=torch.float64)
    assert make_feed("relu").energy(h).item() == -81 * 3072 / 2


@pytest.mark.parametrize("tokens", [1, 2, 33, 81, 130])
def test_the_memory_linear_form_equals_the_plain_one_and_its_gradient(tokens: int) -> None:
    z = F.rms_norm(normal(2, 3, tokens, 16, seed=tokens, dtype=torch.float32), (16,)).requires_grad_()
    upstream = normal(2, 3, tokens, 16, seed=1, dtype=torch.float32)
    fast, plain = bisoftmax.memory_linear(z, 0.25), plain_bisoftmax(z, 0.25)
    torch.testing.assert_close(fast, plain, rtol=1e-5, atol=1e-5)
    (ours,) = torch.autograd.grad(fast, z, upstream)
    (theirs,) = torch.autograd.grad(plain, z, upstream)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_the_memory_linear_form_is_exact_in_float64() -> None:
    z = normal(1, 2, 9, 4).requires_grad_()
    upstream = normal(1, 2, 9, 4, seed=3)
    (ours,) = torch.autograd.grad(bisoftmax.memory_linear(z, 0.5), z, upstream)
    (theirs,) = torch.autograd.grad(plain_bisoftmax(z, 0.5), z, upstream)
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


def test_the_memory_linear_form_in_bfloat16() -> None:
    z = F.rms_norm(normal(1, 2, 70, 16, dtype=torch.float32), (16,))
    with torch.autocast("cpu", torch.bfloat16):
        low = bisoftmax.memory_linear(z, 0.25)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), plain_bisoftmax(z, 0.25), rtol=0.05, atol=0.05)


def test_the_memory_linear_form_keeps_its_dtype_where_the_softmax_is_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As under CUDA's autocast, which the softmax leaves in full precision."""
    z = F.rms_norm(normal(1, 2, 150, 16, dtype=torch.float32), (16,)).requires_grad_()
    upstream = normal(1, 2, 150, 16, seed=1, dtype=torch.float32)
    plain = plain_bisoftmax(z, 0.25)
    (expected,) = torch.autograd.grad(plain, z, upstream)
    monkeypatch.setattr(Tensor, "softmax", lambda x, dim: torch.softmax(x, dim, dtype=torch.float32))
    with torch.autocast("cpu", torch.bfloat16):
        low = bisoftmax.memory_linear(z, 0.25)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), plain, rtol=0.05, atol=0.05)
    (found,) = torch.autograd.grad(low, z, upstream.bfloat16())
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.1)


def test_from_512_tokens_on_heads_are_taken_one_after_the_other() -> None:
    z = F.rms_norm(normal(1, 6, 600, 8, dtype=torch.float32), (8,)).requires_grad_()
    upstream = normal(1, 6, 600, 8, seed=1, dtype=torch.float32)
    blocks = bisoftmax._blocks(z.detach().flatten(0, 1), 0.5)
    assert [heads.start for heads, rows, _ in blocks if rows.start == 0] == [0, 1, 2, 3, 4, 5]
    plain = plain_bisoftmax(z, 0.5)
    (theirs,) = torch.autograd.grad(plain, z, upstream)
    for fast in (bisoftmax.memory_linear(z, 0.5), Bisoftmax(0.5).grad(z)):
        assert type(fast.grad_fn).__name__ == "ViewBackward0"  # of the custom function
        torch.testing.assert_close(fast, plain, rtol=1e-5, atol=1e-5)
        (ours,) = torch.autograd.grad(fast, z, upstream)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def no_scores(left: Tensor, right: Tensor, scale: float) -> Tensor:
    return left.new_zeros(*left.shape[:-1], right.shape[-2])


@pytest.mark.parametrize("name", ATTENTIONS)
def test_every_score_between_tokens_comes_from_the_core(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the core's are 0, all are; the linear energy, which makes none, is that of its features'."""
    z, n, beta = normal(2, 7, 4), 7, 0.5
    attention = make_attention(name, 4)
    if name == "linear":
        features = KERNELS["elu+1"].value(z)
        expected = bilinear_scores(features, features, beta).square().sum((-2, -1)) / (4 * beta)
        torch.testing.assert_close(attention.energy(z), expected)
        return
    for module in (energies, bisoftmax):
        assert vars(module)["bilinear_scores"] is bilinear_scores
        monkeypatch.setattr(module, "bilinear_scores", no_scores)
    energy, share = {
        "bisoftmax": (n * math.log(n) / beta, 2 / n),
        "sigmoid": (n**2 * 0.5 / (2 * beta), 0.25),
        "relu": (0.0, 0.0),
    }[name]
    torch.testing.assert_close(attention.energy(z), torch.full((2,), energy, dtype=torch.float64))
    gradient = (share * z.sum(-2, keepdim=True)).expand_as(z)
    torch.testing.assert_close(attention.grad(z), gradient)
    if name == "bisoftmax":
        torch.testing.assert_close(bisoftmax.memory_linear(z[None], beta)[0], gradient)


def test_the_energy_transformers_scores_come_from_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer = make_layer(ModelConfig(model="energy-transformer", width=8, n_heads=2, hidden=16))
    assert isinstance(layer, EnergyTransformerLayer)
    monkeypatch.setattr(baselines, "bilinear_scores", no_scores)
    found = layer.energy(torch.randn(3, 7, 8), 0).attention
    torch.testing.assert_close(found, torch.full((3,), -2 * 7 * math.log(7) / 4**-0.5))


def test_fused_attention_is_the_baselines_alone() -> None:
    folder = Path(energies.__file__).parent
    fused = [file.name for file in folder.glob("*.py") if "F.scaled_dot_product" in file.read_text()]
    assert fused == ["baselines.py"]


def test_no_table_between_tokens_is_ever_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tensor that any operation makes, forward or backward, is larger than a block of rows."""
    from torch.utils._python_dispatch import TorchDispatchMode

    largest = 0

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for value in out if isinstance(out, tuple | list) else (out,):
                if isinstance(value, Tensor):
                    largest = max(largest, value.numel())
            return out

    z = F.rms_norm(normal(1, 1, 1024, 8, dtype=torch.float32), (8,)).requires_grad_()
    with Watch():  # type: ignore[no-untyped-call]
        Bisoftmax(8**-0.5).grad(z).square().sum().backward()  # type: ignore[no-untyped-call]
    assert largest == 128 * 1024  # a block of rows


def test_a_sigmoid_and_a_linear_energy_by_hand() -> None:
    z = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]], dtype=torch.float64)
    logistic = [1 / (1 + math.exp(-s)) for s in (0.5, 0.0, 0.0, 2.0)]
    sigmoid = make_attention("sigmoid", 4).energy(z).item()
    assert sigmoid == pytest.approx(sum(logistic) / (2 * 0.5))
    assert Linear(0.5, "identity").energy(z).item() == pytest.approx((0.5**2 * (1 + 16)) / (4 * 0.5))


@given(seed=st.integers(0, 2**16), size=st.integers(2, 9))
def test_the_exact_jacobian_is_autograds(seed: int, size: int) -> None:
    torch.manual_seed(0)
    norm = Normaliser(size, "shared", "exact", eps=1e-3).double()
    assert norm.weight is not None
    norm.weight.data.uniform_(0.5, 2.0)
    v = normal(4, size, seed=seed).requires_grad_()
    u = normal(4, size, seed=seed + 1)
    (expected,) = torch.autograd.grad(norm(v), v, u)
    torch.testing.assert_close(norm.pull_back(v, u), expected)
    assert norm(v.detach()).div(norm.weight).square().mean(-1).max().item() < 1.0


def test_without_a_jacobian_the_gradient_passes_as_it_is() -> None:
    u = normal(2, 3)
    norm = Normaliser(3, "none", "none").double()
    assert norm.pull_back(normal(2, 3, seed=1), u) is u
    assert list(norm.parameters()) == []


def test_unknown_names_are_answered_with_the_closest() -> None:
    with pytest.raises(UsageError, match="did you mean 'bisoftmax'"):
        make_attention("bi-softmax", 4)
    with pytest.raises(UsageError, match="unknown feed-forward 'rel'; did you mean 'relu'"):
        make_feed("rel")
    with pytest.raises(UsageError, match="unknown kernel"):
        make_attention("linear", 4, "cosine")
    with pytest.raises(UsageError, match="unknown gain 'separate'"):
        Normaliser(3, "separate")
    with pytest.raises(UsageError, match="eps must be over 0"):
        Normaliser(3, eps=0.0)
