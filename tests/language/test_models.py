"""Every model: nothing later is read, steps equal the parallel pass, equal parameters, bad sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sna_rl.errors import UsageError
from sna_rl.language.arcade import ArcadeLM
from sna_rl.language.config import ArcadeConfig, LMConfig, softmax_baseline
from sna_rl.language.model import SeparableLM

SIZES: dict[str, Any] = {"vocab_size": 31, "n_positions": 100, "width": 16, "n_layers": 2, "rank": 6}
TIME, CHANGED = 90, 70


def model_of(name: str, **changes: Any) -> SeparableLM | ArcadeLM:
    """A model of a name, drawn from seed 0, with weights large enough to tell."""
    torch.manual_seed(0)
    kind, _, attention = name.partition("-")
    config = LMConfig(**{**SIZES, "attention": attention or kind, **changes})
    model = ArcadeLM(config, ArcadeConfig()) if kind == "arcade" else SeparableLM(config)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.2)
    return model.eval()


MODELS = ["separable", "softmax", "arcade-separable", "arcade-softmax"]


def tokens_of(batch: int = 2, time: int = TIME) -> Tensor:
    return torch.randint(0, 31, (batch, time), generator=torch.Generator().manual_seed(1))


def changed_at(tokens: Tensor, position: int) -> Tensor:
    changed = tokens.clone()
    changed[:, position] = (changed[:, position] + 1) % 31
    return changed


@pytest.mark.parametrize("embedding", ["separable", "table"])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_logits_before_a_changed_token_are_the_same_to_the_bit(name: str, embedding: str) -> None:
    model, tokens = model_of(name, embedding=embedding), tokens_of()
    before, after = model(tokens), model(changed_at(tokens, CHANGED))
    assert torch.equal(before[:, :CHANGED], after[:, :CHANGED])
    assert ((before - after)[:, CHANGED:].abs().amax(-1) > 1e-6).all()


@pytest.mark.parametrize("name", ["arcade-separable", "arcade-softmax"])
@torch.no_grad()
def test_both_halves_are_causal(name: str) -> None:
    model, tokens = model_of(name), tokens_of()
    assert isinstance(model, ArcadeLM)
    for before, after in zip(model.halves(tokens), model.halves(changed_at(tokens, CHANGED)), strict=True):
        assert torch.equal(before[:, :CHANGED], after[:, :CHANGED])
        assert not torch.equal(before[:, CHANGED:], after[:, CHANGED:])


@pytest.mark.parametrize("name", ["arcade-separable", "arcade-softmax"])
@torch.no_grad()
def test_with_look_ahead_nothing_leaks_from_the_prompts_end_on(name: str) -> None:
    model, tokens, prompt = model_of(name), tokens_of(), torch.tensor([40, 55])
    before = model(tokens, prompt)
    after = model(changed_at(tokens, CHANGED), prompt)
    assert torch.equal(before[:, :CHANGED], after[:, :CHANGED])  # the answers are never seen ahead
    inside = model(changed_at(tokens, 39), prompt)
    assert not torch.equal(before[0, 30:39], inside[0, 30:39])  # the prompt is
    for position in range(55, TIME):
        after = model(changed_at(tokens, position), prompt)
        assert torch.equal(before[:, 54:position], after[:, 54:position])


@pytest.mark.parametrize("look_ahead", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_steps_equal_the_parallel_pass(name: str, tied: bool, look_ahead: bool) -> None:
    model, tokens = model_of(name, tied=tied), tokens_of(time=80)
    expected = model(tokens, torch.tensor([60, 60]) if look_ahead else None)
    logits, cache = model.start(tokens[:, :60], look_ahead=look_ahead)
    torch.testing.assert_close(logits, expected[:, 59], rtol=1e-5, atol=1e-5)
    for position in range(60, 80):
        logits, cache = model.step(tokens[:, position], cache)
        torch.testing.assert_close(logits, expected[:, position], rtol=1e-5, atol=1e-5)


def remembered(layers: Any) -> int:
    """Numbers that a cache holds."""
    return layers.numel() if isinstance(layers, Tensor) else sum(map(remembered, layers))


@pytest.mark.parametrize("name", ["separable", "arcade-separable"])
@torch.no_grad()
def test_memory_of_generation_does_not_grow(name: str) -> None:
    model, tokens = model_of(name), tokens_of()
    cache = model.start(tokens[:, :1])[1]
    sizes = []
    for position in range(1, 50):
        cache = model.step(tokens[:, position], cache)[1]
        sizes.append(remembered(cache.layers))
    assert set(sizes) == {sizes[0]}


@pytest.mark.parametrize("rank", [4, 32, 100])
def test_the_softmax_baseline_has_equal_parameters(rank: int) -> None:
    config = LMConfig(vocab_size=300, width=64, rank=rank)
    separable, softmax = SeparableLM(config), SeparableLM(softmax_baseline(config))
    counts = [sum(p.numel() for p in model.parameters()) for model in (separable, softmax)]
    assert counts[0] == counts[1]


def test_arcades_feed_forward_parts_weigh_as_much_as_a_dense_one() -> None:
    for ratio in ("1:1", "3:1"):
        block = ArcadeLM(LMConfig(vocab_size=9, width=32), ArcadeConfig(ratio=ratio)).blocks[0]
        weights = sum(
            p.numel() for name, p in block.named_parameters() if "feed_forward." in name and p.dim() == 2
        )
        assert weights == 8 * 32**2


def test_a_tied_head_multiplies_with_the_embeddings() -> None:
    model = model_of("separable", tied=True)
    assert isinstance(model, SeparableLM)
    tokens = tokens_of(1, 5)
    torch.testing.assert_close(model(tokens), model.hidden(tokens) @ model.embedding.table().T)


@pytest.mark.parametrize("name", MODELS)
def test_more_tokens_than_positions_are_refused(name: str) -> None:
    model = model_of(name)
    with pytest.raises(UsageError, match="101 tokens are more than the 100 positions"):
        model(tokens_of(1, 101))
    cache = model.start(tokens_of(1, 100))[1]
    with pytest.raises(UsageError, match="101 tokens"):
        model.step(torch.tensor([0]), cache)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"n_heads": 3}, "n_heads must divide the width 16, and 3 does not"),
        ({"attention": "softmx"}, "did you mean 'softmax'"),
        ({"embedding": "tabel"}, "did you mean 'table'"),
        ({"rank": 0}, "rank must be an int of at least 1"),
        ({"ff_width": 0}, "ff_width must be"),
    ],
)
def test_wrong_sizes_are_one_sentence(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        LMConfig(**{**SIZES, **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"strength": -0.1}, "λ must be 0 or a finite number over 0, not -0.1"),
        ({"strength": float("nan")}, "λ must"),
        ({"penalty": "per-token", "ratio": "3:1"}, "needs the ratio 1:1, not 3:1"),
        ({"ratio": "2:1"}, "unknown ratio"),
        ({"look_ahead": -1}, "look_ahead must"),
    ],
)
def test_wrong_decoupling_is_one_sentence(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ArcadeConfig(**changes)


@pytest.mark.parametrize(("width", "n_heads"), [(18, 2), (16, 2)])
def test_a_ratio_must_divide_width_and_heads(width: int, n_heads: int) -> None:
    config = LMConfig(vocab_size=9, width=width, n_heads=n_heads)
    with pytest.raises(UsageError, match="the ratio 3:1 must divide the"):
        ArcadeLM(config, ArcadeConfig(ratio="3:1"))
