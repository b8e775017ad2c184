"""What a critic is made of: one frozen, validated record, given flat in `policy_kwargs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int, check_name

Groups = tuple[tuple[int, ...], ...]
"""Column indices, one tuple a mode."""

SEPARABLE_CRITICS = ("cp", "tucker", "additive")
CRITICS = (*SEPARABLE_CRITICS, "spline-joint", "mlp", "mlp-matched", "dueling")
RANKLESS = ("mlp", "dueling")
"""Critics that ignore the rank."""
AUTOMATIC_RANKS = (4, 8, 16, 32, 64)
"""Ranks that rank "auto" goes through."""
FACTORS = ("mlp", "linear", "spline")
INITS = ("scaled", "paper")


@dataclass(frozen=True)
class CriticConfig:
    """A critic's form and sizes.

    Fields that the chosen critic has no use for are ignored, so that one record serves a comparison in which
    `critic` alone differs. "auto" stands for what fits the critic; the properties give the value meant.

    Args:
        critic: "cp", "tucker", "additive" (negative control: its greedy action ignores the state),
            "spline-joint" (splines over a learned map of state and action together: no rank bound),
            "mlp", "mlp-matched" (an MLP with the parameter count of `cp` with the other fields), or
            "dueling" (DQN alone).
        rank: number of components, an int of at least 1; for "tucker" also one int a mode; "auto" starts
            small and follows what two critics agree on (`sna_rl.agents.rank`).
        factor: family of the factors: "mlp", "linear" (one layer and ReLU: the basic form) or "spline".
        width: units of a factor's hidden layers.
        depth: number of hidden layers of a state mode's factor.
        action_depth: the same for action modes.
        layer_norm: LayerNorm in the hidden layers; "auto" is True for separable critics, False for others.
        signed: whether components may be negative (no ReLU on a factor's last layer); None is False for
            linear factors (the basic form), True for others.
        init: "scaled" (initial spread independent of rank and order) or "paper" (the literal one).
        branch_width: hidden units of a separate main-effect network a mode; None makes the main effect one
            more output of the mode's factor; "auto" is 128 for linear factors, None for others.
        order: None joins all modes in one term; k sums the interactions of up to k modes.
        state_modes: None (one mode), "each" (one a column) or lists of feature columns, one a mode.
        action_modes: the same for action columns. DQN takes its modes from the action space.
        n_knots: grid points of a spline.
        n_coordinates: learned coordinates that the splines of a factor read.
        max_grad_norm: the critic's gradient is scaled down to this norm; None leaves it alone; "auto" is 1.0
            for separable critics, None for others.
        critic_lr_ratio: the critic's learning rate divided by the actor's.

    Raises:
        UsageError: if a field does not fit; the message names the field and what would do.

    Example:
        >>> CriticConfig(rank=8).clip_norm, CriticConfig(critic="mlp").clip_norm
        (1.0, None)
        >>> CriticConfig(rank=0)
        Traceback (most recent call last):
        ...
        sna_rl.errors.UsageError: rank must be an int of at least 1, not 0 (int)
    """

    critic: str = "cp"
    rank: int | Sequence[int] | Literal["auto"] = 32
    factor: str = "mlp"
    width: int = 128
    depth: int = 2
    action_depth: int = 1
    layer_norm: bool | Literal["auto"] = "auto"
    signed: bool | None = None
    init: str = "scaled"
    branch_width: int | Literal["auto"] | None = "auto"
    order: int | None = None
    state_modes: Sequence[Sequence[int]] | Literal["each"] | None = None
    action_modes: Sequence[Sequence[int]] | Literal["each"] | None = None
    n_knots: int = 16
    n_coordinates: int = 16
    max_grad_norm: float | Literal["auto"] | None = "auto"
    critic_lr_ratio: float = 1.0

    def __post_init__(self) -> None:
        check_name("critic", self.critic, CRITICS)
        check_name("factor", self.factor, FACTORS)
        check_name("init", self.init, INITS)
        if self.rank == "auto":
            self._check_automatic()
        elif self.critic == "tucker" and isinstance(self.rank, Sequence) and not isinstance(self.rank, str):
            object.__setattr__(self, "rank", tuple(check_int("rank", value, 1) for value in self.rank))
        else:
            check_int("rank", self.rank, 1)
        for name, least in (
            ("width", 1),
            ("depth", 0),
            ("action_depth", 0),
            ("n_knots", 2),
            ("n_coordinates", 1),
        ):
            check_int(name, getattr(self, name), least)
        if self.branch_width not in ("auto", None):
            check_int("branch_width", self.branch_width, 1)
        if self.order is not None:
            check_int("order", self.order, 1)
        if self.layer_norm != "auto":
            _bool("layer_norm", self.layer_norm)
        if self.signed is not None:
            _bool("signed", self.signed)
        if self.max_grad_norm not in ("auto", None):
            _positive("max_grad_norm", self.max_grad_norm)
        _positive("critic_lr_ratio", self.critic_lr_ratio)
        object.__setattr__(self, "state_modes", _groups("state_modes", self.state_modes))
        object.__setattr__(self, "action_modes", _groups("action_modes", self.action_modes))

    def _check_automatic(self) -> None:
        """The rank that chooses itself is for one product over all modes."""
        if self.critic not in ("cp", *RANKLESS) or self.order is not None or self.init != "scaled":
            raise UsageError(
                "rank 'auto' is for critic 'cp' with order None and init 'scaled', "
                f"not {self.critic!r}, {self.order} and {self.init!r}; give an int"
            )

    @property
    def n_components(self) -> int | Sequence[int]:
        """Components that the critic has places for; with rank "auto" most of them are off at first."""
        return AUTOMATIC_RANKS[-1] if isinstance(self.rank, str) else self.rank

    @classmethod
    def split(cls, kwargs: Mapping[str, Any]) -> tuple[CriticConfig, dict[str, Any]]:
        """Take the critic's fields out of a policy's keyword arguments.

        Args:
            kwargs: keyword arguments of a policy; not changed.

        Returns:
            The critic's record, and a new dict of all other arguments.

        Example:
            >>> config, rest = CriticConfig.split({"rank": 4, "net_arch": [64]})
            >>> config.rank, rest
            (4, {'net_arch': [64]})
        """
        names = {field.name for field in fields(cls)}
        own = {key: value for key, value in kwargs.items() if key in names}
        return cls(**own), {key: value for key, value in kwargs.items() if key not in names}

    def kwargs(self) -> dict[str, Any]:
        """The record as the flat keyword arguments that give it again."""
        return asdict(self)

    @property
    def is_separable(self) -> bool:
        """Whether the critic is separable between state and action."""
        return self.critic in SEPARABLE_CRITICS

    @property
    def has_layer_norm(self) -> bool:
        """Whether hidden layers have LayerNorm."""
        if self.layer_norm == "auto":
            return self.is_separable or self.critic == "spline-joint"
        return self.layer_norm

    @property
    def main_width(self) -> int | None:
        """Hidden units of a separate main-effect network; None where the factor carries the main effect."""
        if self.branch_width == "auto":
            return 128 if self.factor == "linear" else None
        return self.branch_width

    @property
    def clip_norm(self) -> float | None:
        """Largest gradient norm of the critic, None where it is not clipped."""
        if self.max_grad_norm == "auto":
            return 1.0 if self.is_separable or self.critic == "spline-joint" else None
        return self.max_grad_norm


def _wrong(name: str, wanted: str, value: object) -> UsageError:
    return UsageError(f"{name} must be {wanted}, not {value!r} ({type(value).__name__})")


def _bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise _wrong(name, "True or False", value)


def _positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise _wrong(name, "a positive number", value)


def _groups(name: str, value: object) -> Groups | str | None:
    """Lists of columns as tuples, "each" and None as they are."""
    if value is None or value == "each":
        return value
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise _wrong(name, 'None, "each" or lists of column numbers, one a mode', value)
    if not all(isinstance(group, Sequence) and not isinstance(group, str) and group for group in value):
        raise _wrong(name, "lists of column numbers, none of them empty", value)
    groups = tuple(tuple(check_int(name, column, 0) for column in group) for group in value)
    columns = [column for group in groups for column in group]
    if len(set(columns)) < len(columns):
        raise _wrong(name, "lists in which no column appears twice", value)
    return groups


def mode_columns(
    name: str, groups: Sequence[Sequence[int]] | Literal["each"] | None, n_columns: int
) -> Groups:
    """The columns of every mode.

    Args:
        name: field that `groups` comes from, for the message.
        groups: the field's value.
        n_columns: number of columns there are.

    Returns:
        One tuple of columns a mode; together they hold every column once.

    Raises:
        UsageError: if a column is left out or does not exist.

    Example:
        >>> mode_columns("action_modes", "each", 2)
        ((0,), (1,))
        >>> mode_columns("state_modes", ((0, 2),), 3)
        Traceback (most recent call last):
        ...
        sna_rl.errors.UsageError: state_modes must hold each of the columns 0 to 2 once; not right: 1
    """
    if groups is None:
        return (tuple(range(n_columns)),)
    if isinstance(groups, str):
        return tuple((column,) for column in range(n_columns))
    difference = sorted({column for group in groups for column in group} ^ set(range(n_columns)))
    if difference:
        raise UsageError(
            f"{name} must hold each of the columns 0 to {n_columns - 1} once; "
            f"not right: {', '.join(map(str, difference))}"
        )
    return tuple(map(tuple, groups))
