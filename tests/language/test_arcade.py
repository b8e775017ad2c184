"""Arcade's gradients and losses: exact zeros of the routing, penalties, the first phase, the hook."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from sna_rl.errors import SnaError, UsageError
from sna_rl.language.arcade import ArcadeLM
from sna_rl.language.config import ArcadeConfig, LMConfig
from sna_rl.language.losses import Batch, constraint_report, model_loss, token_loss
from sna_rl.language.model import SeparableLM
from sna_rl.language.penalty import HiddenPenalty, decoupling_penalty, strength_at
from sna_rl.separable.decoupling import cross_moment, per_token

CONFIG = LMConfig(vocab_size=20, n_positions=40, width=16, n_layers=2, n_heads=4, rank=4)


def batch_of(*, answers: bool, strength: float = 0.0) -> Batch:
    tokens = torch.randint(0, 20, (3, 31), generator=torch.Generator().manual_seed(2))
    if not answers:
        return Batch(tokens[:, :-1], tokens[:, 1:], strength=strength)
    prompt = torch.tensor([10, 12, 20])
    scored = torch.arange(1, 31) >= prompt[:, None]
    return Batch(tokens[:, :-1], tokens[:, 1:], scored, prompt, strength)


def gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    """Gradient of every parameter, zeros where it has none."""
    named = dict(model.named_parameters())
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {
        name: torch.zeros_like(parameter) if gradient is None else gradient
        for (name, parameter), gradient in zip(named.items(), found, strict=True)
    }


@pytest.mark.parametrize("ratio", ["1:1", "3:1"])
@pytest.mark.parametrize("attention", ["separable", "softmax"])
def test_cross_entropy_has_no_gradient_on_the_constraint_half(attention: str, ratio: str) -> None:
    torch.manual_seed(0)
    config = LMConfig(vocab_size=20, width=16, n_layers=2, n_heads=4, rank=4, attention=attention)
    model = ArcadeLM(config, ArcadeConfig(ratio=ratio))
    loss, _ = model_loss(model, batch_of(answers=False))
    constraint = {id(parameter) for parameter in model.constraint_parameters()}
    assert len(constraint) == 2 * 10 + 2
    found = gradients(model, loss)
    for name, gradient in found.items():
        own = id(model.get_parameter(name)) in constraint
        assert own == bool((gradient == 0).all()), name
    mix = found["embedding.positions.weight"][:30]
    state = model.sizes[0]
    assert (mix[:, state:] == 0).all()
    assert (mix[:, :state] != 0).any()


def test_without_routing_and_with_a_task_the_constraint_half_learns() -> None:
    torch.manual_seed(0)
    plain = ArcadeLM(CONFIG, ArcadeConfig(routed=False))
    routed = ArcadeLM(CONFIG, ArcadeConfig())
    for model, batch in ((plain, batch_of(answers=False)), (routed, batch_of(answers=True))):
        found = gradients(model, model_loss(model, batch)[0])
        own = [found[name] for name, _ in model.named_parameters() if "constraint." in name]
        assert all((gradient != 0).any() for gradient in own)


def test_the_loss_is_the_sum_of_its_parts() -> None:
    torch.manual_seed(0)
    model, batch = ArcadeLM(CONFIG, ArcadeConfig()), batch_of(answers=True, strength=0.3)
    loss, parts = model_loss(model, batch)
    assert loss.item() == pytest.approx(
        (parts["cross_entropy"] + parts["task"] + 0.3 * parts["penalty"]).item()
    )
    halves = model.halves(batch.tokens, batch.prompt)
    expected = cross_moment(halves.state, halves.constraint, scale_free=True)
    torch.testing.assert_close(parts["penalty"], expected.detach())
    torch.testing.assert_close(parts["task"], parts["cross_entropy"])  # equal values, other gradients


def test_only_answers_are_scored() -> None:
    batch = batch_of(answers=True)
    logits = torch.randn(3, 30, 20, generator=torch.Generator().manual_seed(0))
    assert batch.scored is not None
    logs = logits.log_softmax(-1).gather(-1, batch.targets.unsqueeze(-1)).squeeze(-1)
    assert token_loss(logits, batch).item() == pytest.approx(-float(logs[batch.scored].mean()), rel=1e-5)
    changed = logits.clone()
    changed[~batch.scored] = 7.0
    assert torch.equal(token_loss(logits, batch), token_loss(changed, batch))


def test_a_plain_decoder_has_cross_entropy_alone() -> None:
    model, batch = SeparableLM(CONFIG), batch_of(answers=False, strength=0.3)
    loss, parts = model_loss(model, batch)
    assert set(parts) == {"cross_entropy"}
    torch.testing.assert_close(loss, token_loss(model(batch.tokens), batch))


def test_penalty_of_a_hidden_state_by_form() -> None:
    torch.manual_seed(0)
    hidden = torch.randn(2, 7, 8)
    state, constraint = hidden[..., :4], hidden[..., 4:]
    for name, penalty in (("cross-moment", cross_moment), ("per-token", per_token)):
        for scale_free in (True, False):
            actual = decoupling_penalty(hidden, ArcadeConfig(penalty=name, scale_free=scale_free))
            torch.testing.assert_close(actual, penalty(state, constraint, scale_free=scale_free))
    three = decoupling_penalty(hidden, ArcadeConfig(ratio="3:1"))
    torch.testing.assert_close(three, cross_moment(hidden[..., :6], hidden[..., 6:], scale_free=True))


def test_the_shuffled_control_is_another_split_but_always_the_same() -> None:
    hidden = torch.randn(9, 8, generator=torch.Generator().manual_seed(3))
    control = ArcadeConfig(shuffled=True)
    value = decoupling_penalty(hidden, control)
    assert torch.equal(value, decoupling_penalty(hidden, control))
    assert not torch.allclose(value, decoupling_penalty(hidden, ArcadeConfig()))


def test_raw_penalty_shrinks_the_constraint_half_and_the_scale_free_one_does_not() -> None:
    torch.manual_seed(0)
    for scale_free, shrinks in ((False, True), (True, False)):
        halves = torch.randn(64, 8)
        constraint = halves[:, 4:].clone().requires_grad_()
        for _ in range(200):
            hidden = torch.cat([halves[:, :4], constraint], 1)
            arcade = ArcadeConfig(penalty="per-token", scale_free=scale_free)
            (gradient,) = torch.autograd.grad(decoupling_penalty(hidden, arcade), constraint)
            constraint = (constraint - 0.5 * gradient).detach().requires_grad_()
        shrunk = constraint.norm() < 0.9 * halves[:, 4:].norm()
        assert bool(shrunk) == shrinks


def test_strength_rises_after_a_tenth() -> None:
    arcade = ArcadeConfig(strength=0.3)
    assert [strength_at(arcade, t) for t in (0.0, 0.05, 0.1)] == [0.0, 0.0, 0.0]
    assert strength_at(arcade, 0.55) == pytest.approx(0.15)
    assert strength_at(arcade, 1.0) == pytest.approx(0.3)


@pytest.mark.parametrize(
    "wrap", [lambda x: x, lambda x: (x, None), lambda x: SimpleNamespace(last_hidden_state=x)]
)
def test_the_hook_reads_any_kind_of_output(wrap: object) -> None:
    class Layer(nn.Module):
        def forward(self, x: Tensor) -> object:
            return wrap(x)  # type: ignore[operator]

    layer, hidden = Layer(), torch.randn(2, 3, 8, requires_grad=True)
    arcade = ArcadeConfig(strength=0.5)
    with HiddenPenalty(layer, arcade) as penalty:
        layer(hidden)
        loss = penalty.loss()
        torch.testing.assert_close(loss, 0.5 * decoupling_penalty(hidden, arcade))
        assert torch.autograd.grad(loss, hidden)[0].abs().sum() > 0
        with pytest.raises(SnaError, match="has not run since"):
            penalty.loss()
    layer(hidden)
    with pytest.raises(SnaError, match="has not run"):
        penalty.loss()


def test_the_hook_refuses_a_width_that_the_ratio_does_not_divide() -> None:
    layer = nn.Linear(6, 6)
    with HiddenPenalty(layer, ArcadeConfig(ratio="3:1")) as penalty:
        layer(torch.randn(2, 6))
        with pytest.raises(UsageError, match="6 is no multiple of 4"):
            penalty.loss()


def test_the_report_sees_a_collapse() -> None:
    torch.manual_seed(0)
    model, batch = ArcadeLM(CONFIG, ArcadeConfig()), batch_of(answers=False)
    alive = constraint_report(model, batch)
    assert alive["constraint_rank"] > 2
    assert 0 < alive["subspace_similarity"] <= 1
    with torch.no_grad():
        for parameter in model.constraint_parameters():
            if parameter.dim() == 2:
                parameter.zero_()
        model.embedding.positions.weight[:, 8:] = 0.0
        model.get_parameter("embedding.tokens.mix.weight")[8:] = 0.0
    dead = constraint_report(model, batch)
    assert dead["constraint_rms"] == 0.0
    assert dead["constraint_rank"] == 0.0
    assert dead["subspace_similarity"] == 0.0
