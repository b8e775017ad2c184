"""Rules that one value must meet: each says in words what it wants and gives the value in its true form."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sna_rl.config.literals import parse_value
from sna_rl.config.plain import shown
from sna_rl.config.schedules import parse_schedule
from sna_rl.errors import UsageError, suggestion

SHORT_NAMES = {
    name: f"stable_baselines3.common.buffers.{name}" for name in ("ReplayBuffer", "DictReplayBuffer")
} | {"HerReplayBuffer": "stable_baselines3.HerReplayBuffer"}
POLICIES = {
    "SNAPolicy": "SNAPolicy",
    "SNACnnPolicy": "SNACnnPolicy",
    "SNAMultiInputPolicy": "SNAMultiInputPolicy",
    "MlpPolicy": "SNAPolicy",
    "CnnPolicy": "SNACnnPolicy",
    "MultiInputPolicy": "SNAMultiInputPolicy",
}


@dataclass(frozen=True)
class Rule:
    """What a value must be.

    Args:
        wanted: the words a message puts after "must be".
        accept: gives the value in its one true form, or raises ValueError or TypeError.
    """

    wanted: str
    accept: Callable[[object], object]

    def check(self, name: str, value: object) -> object:
        """The value in its one true form.

        Args:
            name: key it stands under.
            value: what was given.

        Returns:
            The value, converted where the rule allows it (1e6 to 1000000).

        Raises:
            UsageError: if it does not meet the rule.

        Example:
            >>> integer(1).check("n_timesteps", 1e6)
            1000000
            >>> integer(1, exact=True).check("rank", 1.0)
            Traceback (most recent call last):
            ...
            sna_rl.errors.UsageError: rank must be an int of at least 1, not 1.0 (float)
        """
        try:
            return self.accept(value)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from None
        except (ValueError, TypeError, OverflowError):
            raise UsageError(
                f"{name} must be {self.wanted}, not {shown(value)} ({type(value).__name__})"
            ) from None


def integer(least: int, most: int | None = None, *, exact: bool = False) -> Rule:
    """An int in a range; a float without fraction, such as 1e6, counts unless `exact`."""

    def accept(value: object) -> int:
        if isinstance(value, float) and not exact and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError
        if value < least or (most is not None and value > most):
            raise ValueError
        return value

    limit = f"at least {least}" if most is None else f"{least} to {most}"
    return Rule(f"an int of {limit}", accept)


def number(
    least: int | float = -math.inf, most: int | float = math.inf, *, above: int | float | None = None
) -> Rule:
    """A finite number with `least` ≤ value ≤ `most`, or with `above` < value ≤ `most`."""

    def accept(value: object) -> int | float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError
        if not math.isfinite(value) or not least <= value <= most or (above is not None and value <= above):
            raise ValueError
        return value

    limits = [f"above {above:g}"] if above is not None else [f"of at least {least:g}"] * (least > -math.inf)
    limits += [f"at most {most:g}"] * (most < math.inf)
    return Rule(" ".join(["a number", " and ".join(limits)]).strip(), accept)


def choice(*known: str) -> Rule:
    """One of a few words."""

    def accept(value: object) -> str:
        if not isinstance(value, str) or value not in known:
            raise ValueError
        return value

    return Rule(f"one of {', '.join(known)}", accept)


def either(*rules: Rule) -> Rule:
    """Whatever one of several rules takes; the first that does decides."""

    def accept(value: object) -> object:
        for rule in rules:
            try:
                return rule.accept(value)
            except UsageError:
                raise
            except (ValueError, TypeError, OverflowError):
                continue
        raise ValueError

    return Rule(" or ".join(rule.wanted for rule in rules), accept)


def matching(pattern: str, wanted: str) -> Rule:
    """Text that matches a pattern as a whole."""
    compiled = re.compile(pattern, re.ASCII)

    def accept(value: object) -> str:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise ValueError
        return value

    return Rule(wanted, accept)


def listing(item: Rule, wanted: str, least: int = 0) -> Rule:
    """A list of at least `least` values that each meet `item`."""

    def accept(value: object) -> list[object]:
        if isinstance(value, str) or not isinstance(value, Sequence) or len(value) < least:
            raise TypeError
        return [item.accept(entry) for entry in value]

    return Rule(wanted, accept)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _any_text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError
    return value


def _filled_text(value: object) -> str:
    if not _any_text(value).strip():
        raise ValueError
    return str(value)


def record(rules: Mapping[str, Rule]) -> Rule:
    """A mapping whose keys are known, each with a rule of its own."""

    def accept(value: object) -> dict[str, object]:
        entries = _mapping(value)
        for key in entries:
            if key not in rules:
                raise UsageError(f"unknown key {shown(key)}{suggestion(key, rules)}")
        return {key: rules[key].check(key, entry) for key, entry in entries.items()}

    return Rule(MAPPING.wanted, accept)


def pair(first: Rule, second: Rule, wanted: str) -> Rule:
    """A list of two values."""

    def accept(value: object) -> list[object]:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise TypeError
        return [first.accept(value[0]), second.accept(value[1])]

    return Rule(wanted, accept)


def _mapping(value: object) -> dict[str, object]:
    if isinstance(value, str):
        value = parse_value(value, "the text")
    if not isinstance(value, Mapping):
        raise TypeError
    return dict(value)


def _nothing(value: object) -> None:
    if value is not None:
        raise ValueError


def _schedule(value: object) -> object:
    try:
        start, end = parse_schedule(value)
    except UsageError:
        raise ValueError from None
    return start if start == end else value


def _entropy(value: object) -> str:
    word, _, start = _any_text(value).partition("_")
    if word != "auto" or (value != word and not 0 < float(start) < math.inf):
        raise ValueError
    return str(value)


def _class(value: object) -> str:
    name = SHORT_NAMES.get(str(value), value)
    return str(DOTTED.accept(name))


def _policy(value: object) -> str:
    if isinstance(value, str) and "." not in value and value not in POLICIES:
        raise UsageError(f"unknown name {shown(value)}{suggestion(value, POLICIES)}")
    return POLICIES[value] if isinstance(value, str) and value in POLICIES else str(DOTTED.accept(value))


def symbol(module: str, names: Sequence[str]) -> Rule:
    """One of torch's classes by name; `ReLU`, `nn.ReLU` and `torch.nn.ReLU` are one, written `nn.ReLU`."""

    def accept(value: object) -> str:
        prefix, _, name = _any_text(value).rpartition(".")
        if name not in names or prefix not in ("", module, f"th.{module}", f"torch.{module}"):
            raise ValueError
        return f"{module}.{name}"

    return Rule(f"one of {', '.join(f'{module}.{name}' for name in names)}", accept)


def _wrappers(value: object) -> object:
    for name, _ in named_items(value):
        DOTTED.accept(name)
    return value


def named_items(value: object) -> list[tuple[str, dict[str, object]]]:
    """Classes with their arguments, as `env_wrapper`, `vec_env_wrapper` and `callback` give them.

    Args:
        value: None, a dotted name, `{name: {argument: value}}`, or a list of these.

    Returns:
        Dotted names with their keyword arguments, in order.

    Raises:
        ValueError: if it is anything else.

    Example:
        >>> named_items(["a.B", {"c.D": {"skip": 2}}])
        [('a.B', {}), ('c.D', {'skip': 2})]
    """
    items: list[tuple[str, dict[str, object]]] = []
    for entry in value if isinstance(value, list) else [] if value is None else [value]:
        if isinstance(entry, str):
            items.append((entry, {}))
        elif isinstance(entry, Mapping):
            for name, arguments in entry.items():
                if not isinstance(arguments, Mapping | None):
                    raise ValueError(f"{name} takes a mapping of arguments")
                items.append((name, dict(arguments or {})))
        else:
            raise ValueError("names of classes, each alone or with a mapping of arguments")
    return items


BOOLEAN = Rule("true or false", _boolean)
TEXT = Rule("text", _any_text)
FILLED = Rule("text that is not empty", _filled_text)
MAPPING = Rule("a mapping, or text such as dict(key=value)", _mapping)
NOTHING = Rule("null", _nothing)
SCHEDULE = Rule("a positive number, 'lin_START' (falls to 0) or 'lin_START_END'", _schedule)
DOTTED = matching(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", "a class's dotted name such as package.module.Class")
CLASS = Rule(f"the dotted name of a class, or {', '.join(SHORT_NAMES)}", _class)
POLICY = Rule("SNAPolicy or the dotted name of a class", _policy)
ENTROPY = Rule("'auto', or 'auto_START' such as 'auto_0.1'", _entropy)
WRAPPERS = Rule("dotted names of classes, each alone or as {name: {argument: value}}", _wrappers)
