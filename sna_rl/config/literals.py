"""Values given as text, on the command line or in RL Zoo's string idioms; nothing is evaluated."""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Iterable
from typing import Final

from sna_rl.config.plain import Data, label, plain, shown
from sna_rl.errors import UsageError

ACTIVATIONS: Final = (
    "ReLU",
    "Tanh",
    "ELU",
    "LeakyReLU",
    "GELU",
    "SiLU",
    "Mish",
    "Softplus",
    "Sigmoid",
    "CELU",
    "SELU",
)
OPTIMIZERS: Final = ("Adam", "AdamW", "RMSprop", "SGD", "RAdam", "NAdam", "Adamax")
_MODULES: Final = {
    **dict.fromkeys(("nn", "th.nn", "torch.nn"), ("nn", ACTIVATIONS)),
    **dict.fromkeys(("optim", "th.optim", "torch.optim"), ("optim", OPTIMIZERS)),
}
_CONSTANTS: Final = {"true": True, "false": False, "none": None, "null": None, "inf": math.inf}
_MAX_LENGTH: Final = 10_000
_STRUCTURE: Final = re.compile(r"[\[\](){}'\"\\]")


def parse_value(text: str, name: str = "value") -> object:
    """Read one value: a number, true, false, none, text (quotes optional), a list, a dict or `dict(...)`.

    Names of activations and optimizers (`nn.ReLU`, `torch.optim.Adam`) stay text in the short form `nn.ReLU`;
    whoever builds the network looks them up. Nothing is evaluated: any other call is refused.

    Args:
        text: the value, as after the colon of `-params key:value`.
        name: its key, for the message.

    Returns:
        The value as plain data; tuples become lists.

    Raises:
        UsageError: if it has brackets or quotes but is none of these.

    Example:
        >>> parse_value("1e-3"), parse_value("lin_3e-4"), parse_value("True"), parse_value("'5'")
        (0.001, 'lin_3e-4', True, '5')
        >>> parse_value("dict(net_arch=[256, 256], activation_fn=nn.ReLU)")
        {'net_arch': [256, 256], 'activation_fn': 'nn.ReLU'}
        >>> parse_value("__import__('os').system('ls')", "gamma")
        Traceback (most recent call last):
        ...
        sna_rl.errors.UsageError: gamma can't be read from "__import__('os').system('ls')": \
only literals, dict(...) and names such as nn.ReLU are understood, nothing is evaluated
    """
    text = text.strip()
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if len(text) > _MAX_LENGTH:
        raise UsageError(f"{name} is longer than {_MAX_LENGTH} characters; put it in a YAML file")
    tree = _parse(text)
    try:
        if tree is None:
            raise ValueError
        value = _convert(tree)
    except (ValueError, RecursionError):
        if _STRUCTURE.search(text):
            raise UsageError(
                f"{name} can't be read from {shown(text)}: only literals, dict(...) and names "
                "such as nn.ReLU are understood, nothing is evaluated"
            ) from None
        value = text
    return plain(value, name)


def _parse(text: str) -> ast.expr | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _convert(node: ast.expr) -> object:
    """The value of a literal; ValueError for all else."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            number = _convert(operand)
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise ValueError
            return -number if isinstance(sign, ast.USub) else number
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_convert(item) for item in items]
        case ast.Dict(keys=keys, values=items):
            return _pairs([(_text(key), item) for key, item in zip(keys, items, strict=True)])
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            return _pairs([(_text(keyword.arg), keyword.value) for keyword in keywords])
        case ast.Attribute():
            return math.inf if ast.unparse(node) in ("np.inf", "math.inf") else _symbol(ast.unparse(node))
        case ast.Name(id=word) if word.lower() in _CONSTANTS:
            return _CONSTANTS[word.lower()]
    raise ValueError


def _pairs(items: list[tuple[str, ast.expr]]) -> Data:
    pairs = {key: _convert(item) for key, item in items}
    if len(pairs) < len(items):
        raise ValueError
    return pairs


def _text(key: ast.expr | str | None) -> str:
    if isinstance(key, ast.Constant):
        key = key.value if isinstance(key.value, str) else None
    if not isinstance(key, str):
        raise ValueError
    return key


def _symbol(dotted: str) -> str:
    module, _, name = dotted.rpartition(".")
    short, known = _MODULES.get(module, ("", ()))
    if name not in known:
        raise ValueError
    return f"{short}.{name}"


def parse_pairs(pairs: Iterable[str], flag: str = "-params") -> Data:
    """Read `key:value` words, as after `-params` or `--env-kwargs`.

    Args:
        pairs: the words; the first colon of each ends its key.
        flag: the flag they follow, for the message.

    Returns:
        The values by key.

    Raises:
        UsageError: if a word has no colon or no key, or a key comes twice.

    Example:
        >>> parse_pairs(["learning_rate:lin_3e-4", "policy_kwargs:dict(rank=4)"])
        {'learning_rate': 'lin_3e-4', 'policy_kwargs': {'rank': 4}}
    """
    values: Data = {}
    for pair in pairs:
        key, colon, text = pair.partition(":")
        key = key.strip()
        if not colon or not key:
            raise UsageError(f"{flag} takes key:value, not {shown(pair)}")
        if key in values:
            raise UsageError(f"{flag} gives {shown(key)} twice")
        values[key] = parse_value(text, f"{flag} {label(key)}")
    return values
