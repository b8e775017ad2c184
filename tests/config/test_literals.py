"""Values given as text: read as literals, never evaluated."""

from __future__ import annotations

import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sna_rl.config import parse_pairs, parse_value
from sna_rl.errors import UsageError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-1", -1),
        ("+2.5", 2.5),
        ("3e-4", 3e-4),
        ("1e6", 1e6),
        ("1_000", 1000),
        ("True", True),
        ("false", False),
        ("None", None),
        ("null", None),
        ("inf", math.inf),
        ("MlpPolicy", "MlpPolicy"),
        ("'MlpPolicy'", "MlpPolicy"),
        ('"a b"', "a b"),
        ("'5'", "5"),
        ("lin_3e-4", "lin_3e-4"),
        ("lin_3e-4_1e-5", "lin_3e-4_1e-5"),
        ("auto_0.1", "auto_0.1"),
        ("ornstein-uhlenbeck", "ornstein-uhlenbeck"),
        ("sna_rl.agents.SNASACPolicy", "sna_rl.agents.SNASACPolicy"),
        ("/tmp/a file.xml", "/tmp/a file.xml"),
        ("", ""),
        ("007", "007"),
        ("(1, 'episode')", [1, "episode"]),
        ("(0.7, np.inf)", [0.7, math.inf]),
        ("[-1, -inf]", [-1, -math.inf]),
        ("{'norm_obs': True, 'norm_reward': False}", {"norm_obs": True, "norm_reward": False}),
        ("dict(log_std_init=-3.67, net_arch=[64, 64])", {"log_std_init": -3.67, "net_arch": [64, 64]}),
        ("dict(\n  net_arch=dict(pi=[64], qf=[400, 300])\n)", {"net_arch": {"pi": [64], "qf": [400, 300]}}),
        ("dict(activation_fn=nn.ReLU)", {"activation_fn": "nn.ReLU"}),
        ("dict(activation_fn=th.nn.Tanh)", {"activation_fn": "nn.Tanh"}),
        ("dict(optimizer_class=torch.optim.AdamW)", {"optimizer_class": "optim.AdamW"}),
    ],
)
def test_values(text: str, value: object) -> None:
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch {planted}')",
        "[__import__('os').system('touch {planted}')]",
        "dict(a=open('{planted}', 'w'))",
        "eval(\"open('{planted}', 'w')\")",
        "(lambda: open('{planted}', 'w'))()",
        "[open('{planted}', 'w') for _ in [0]]",
        "f\"{{open('{planted}', 'w')}}\"",
        "dict(**{{'a': 1}})",
        "dict([('a', 1)])",
        "dict(a=1, a=2)",
        "{{'a': 1, 'a': 2}}",
        "{{1: 2}}",
        "{{1, 2}}",
        "b'bytes'",
        "dict(a=nn.Module)",
        "dict(a=os.system)",
        "[1, word]",
        "'a' * 10**9",
        "[-True]",
        "('unclosed",
        "[" * 5_000,
        "dict(a=" * 60 + "1" + ")" * 60,
    ],
)
def test_what_is_no_literal_is_refused_and_never_run(text: str, tmp_path: os.PathLike[str]) -> None:
    planted = os.path.join(tmp_path, "planted")
    with pytest.raises(UsageError) as caught:
        parse_value(text.format(planted=planted) if "{" in text else text, "gamma")
    assert not os.path.exists(planted)
    assert str(caught.value).startswith("gamma")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_pairs() -> None:
    assert parse_pairs(["a:1", "policy_kwargs:dict(rank=4)", "path:c:d", "b:"]) == {
        "a": 1,
        "policy_kwargs": {"rank": 4},
        "path": "c:d",
        "b": "",
    }
    with pytest.raises(UsageError, match=r"^--env-kwargs takes key:value, not 'gravity'$"):
        parse_pairs(["gravity"], "--env-kwargs")
    with pytest.raises(UsageError, match="takes key:value, not ':1'"):
        parse_pairs([":1"])
    with pytest.raises(UsageError, match="-params gives 'a' twice"):
        parse_pairs(["a:1", "a:2"])
    with pytest.raises(UsageError, match=r"^-params gamma can't be read from"):
        parse_pairs(["gamma:exit()"])
    with pytest.raises(UsageError, match=r"^-params 'a\\nb' can't be read from"):
        parse_pairs(["a\nb:exit()"])


@given(st.text(max_size=80) | st.text(st.sampled_from("dict(a=1,)[]{}'\"nn.ReLU:-+*\\ \n"), max_size=80))
def test_any_text_gives_a_value_or_one_sentence(text: str) -> None:
    try:
        value = parse_value(text)
    except UsageError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert isinstance(value, bool | int | float | str | list | dict | None)


@given(
    st.recursive(
        st.integers() | st.booleans() | st.none(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_python_literals_come_back(value: object) -> None:
    try:
        assert parse_value(repr(value)) == value
    except UsageError as error:
        assert "2^64" in str(error) or "Unicode" in str(error)  # noqa: PT017
