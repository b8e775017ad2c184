"""One layer of a configuration (a file's entry, `-params`, flags), checked key by key, in its true form."""

from __future__ import annotations

from collections.abc import Mapping

from sna_rl.config.keys import ALGORITHMS, HYPERPARAMETERS, POLICY_KEYS, RUN_RULES, unknown_key
from sna_rl.config.plain import Data, plain, shown
from sna_rl.config.rules import POLICIES, record
from sna_rl.errors import UsageError, suggestion

LIFTED = ("critic", "rank")
"""What may stand in `policy_kwargs`, as Stable-Baselines3 takes it, but belongs to the run itself."""


def check_algorithm(algo: object) -> str:
    """The algorithm's name, or an error with the closest one."""
    if not isinstance(algo, str) or algo not in ALGORITHMS:
        raise UsageError(f"unknown algorithm {shown(algo)}{suggestion(str(algo), ALGORITHMS)}")
    return algo


def is_own_policy(policy: object) -> bool:
    """Whether `policy` is one of ours, whose `policy_kwargs` we know; None is the default policy."""
    return policy is None or str(policy) in POLICIES or str(policy).startswith("sna_rl.agents.")


def check_layer(algo: str, data: Mapping[str, object], *, own_policy: bool) -> Data:
    """A checked copy of one layer.

    Args:
        algo: algorithm it configures.
        data: RunConfig's fields and hyperparameters side by side, as RL Zoo's YAML has them; not changed.
        own_policy: whether the keys of `policy_kwargs` are known and checked.

    Returns:
        The layer with every value in its true form: strings such as "dict(net_arch=[64])" read, 1e6 an int
        where an int is due, `critic` and `rank` taken out of `policy_kwargs`. A hyperparameter of null stays:
        it takes away what a lower layer set.

    Raises:
        UsageError: for an unknown key or a value that does not fit.

    Example:
        >>> check_layer("sac", {"buffer_size": 1e6, "policy_kwargs": "dict(rank=4)"}, own_policy=True)
        {'buffer_size': 1000000, 'policy_kwargs': {}, 'rank': 4}
    """
    layer: Data = {}
    for key, value in data.items():
        if key in RUN_RULES:
            layer[key] = RUN_RULES[key].check(key, plain(value, key))
        elif key not in HYPERPARAMETERS[algo]:
            raise unknown_key(algo, key)
        elif value is None:
            layer[key] = None
        else:
            layer[key] = HYPERPARAMETERS[algo][key].check(key, plain(value, key))
    kwargs = layer.get("policy_kwargs")
    if isinstance(kwargs, dict):
        _lift(kwargs, layer)
        if own_policy:
            layer["policy_kwargs"] = record(POLICY_KEYS[algo]).check("policy_kwargs", kwargs)
    return layer


def _lift(kwargs: Data, layer: Data) -> None:
    for key in LIFTED:
        if key in kwargs:
            value = RUN_RULES[key].check(f"policy_kwargs.{key}", kwargs.pop(key))
            if layer.setdefault(key, value) != value:
                raise UsageError(f"{key} is given twice: {layer[key]!r}, and {value!r} in policy_kwargs")
