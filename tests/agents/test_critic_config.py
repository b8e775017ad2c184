"""CriticConfig: what is accepted, what "auto" means, what a mistake answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jaxtyping
import pytest

from sna_rl.agents.critic_config import CriticConfig, mode_columns
from sna_rl.config.keys import POLICY_KEYS
from sna_rl.errors import UsageError


def test_auto_follows_the_critic() -> None:
    config = CriticConfig()
    assert (config.clip_norm, config.has_layer_norm, config.main_width) == (1.0, True, None)
    mlp = replace(config, critic="mlp")
    assert (mlp.clip_norm, mlp.has_layer_norm) == (None, False)
    assert replace(config, factor="linear").main_width == 128
    assert replace(config, factor="linear", branch_width=None).main_width is None
    assert replace(mlp, max_grad_norm=0.5, layer_norm=True).clip_norm == 0.5


def test_flat_kwargs_give_the_record_again() -> None:
    config = CriticConfig("tucker", rank=(3, 2), state_modes=((0, 2), (1,)), max_grad_norm=None)
    assert CriticConfig(**config.kwargs()) == config
    given: dict[str, Any] = {"rank": 3, "net_arch": [8], "state_modes": [[0], [1]]}
    split, rest = CriticConfig.split(given)
    assert split == CriticConfig(rank=3, state_modes=((0,), (1,)))
    assert rest == {"net_arch": [8]}
    assert given == {"rank": 3, "net_arch": [8], "state_modes": [[0], [1]]}


@pytest.fixture
def own_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let wrong types reach the project's own checks, where the shape hook would speak first."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.usefixtures("own_messages")
@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"rank": 0}, r"rank must be an int of at least 1, not 0 \(int\)"),
        ({"rank": 1.5}, r"rank must be an int of at least 1, not 1.5 \(float\)"),
        ({"rank": "big"}, r"rank must be an int of at least 1, not 'big' \(str\)"),
        ({"rank": True}, r"rank must be an int of at least 1, not True \(bool\)"),
        ({"rank": (4, 4)}, "rank must be an int"),
        ({"critic": "tucker", "rank": (4, 0)}, "rank must be an int"),
        ({"critic": "mpl"}, "unknown critic 'mpl'; did you mean 'mlp'"),
        ({"critic": None}, "unknown critic None"),
        ({"factor": "splines"}, "did you mean 'spline'"),
        ({"init": "orthogonal"}, "unknown init"),
        ({"width": 0}, "width must be"),
        ({"depth": -1}, "depth must be"),
        ({"n_knots": 1}, "n_knots must be"),
        ({"order": 0}, "order must be"),
        ({"layer_norm": 1}, "layer_norm must be True or False"),
        ({"signed": "yes"}, "signed must be True or False"),
        ({"branch_width": 0}, "branch_width must be"),
        ({"max_grad_norm": 0.0}, "max_grad_norm must be a positive number"),
        ({"max_grad_norm": float("nan")}, "max_grad_norm must be a positive number"),
        ({"critic_lr_ratio": -1}, "critic_lr_ratio must be a positive number"),
        ({"state_modes": []}, "state_modes must be"),
        ({"state_modes": [0, 1]}, "state_modes must be"),
        ({"state_modes": [[0], []]}, "none of them empty"),
        ({"action_modes": [[0], [0]]}, "no column appears twice"),
        ({"action_modes": "all"}, "action_modes must be"),
    ],
)
def test_a_mistake_is_one_sentence(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CriticConfig(**kwargs)


def test_modes_must_hold_every_column_once() -> None:
    assert mode_columns("state_modes", None, 3) == ((0, 1, 2),)
    assert mode_columns("state_modes", ((2, 0), (1,)), 3) == ((2, 0), (1,))
    with pytest.raises(UsageError, match="columns 0 to 2 once; not right: 2, 3"):
        mode_columns("state_modes", ((0, 1), (3,)), 3)


@pytest.mark.parametrize("algo", ["sac", "td3", "dqn"])
def test_the_run_configuration_knows_every_field(algo: str) -> None:
    assert set(CriticConfig().kwargs()) - {"critic", "rank"} <= set(POLICY_KEYS[algo])
