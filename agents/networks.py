"""From a critic's config to its separable network, and the columns that each mode reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from sna_rl.agents.critic_config import AUTOMATIC_RANKS, CriticConfig, Groups, mode_columns
from sna_rl.errors import UsageError
from sna_rl.separable import FactorConfig, InitConfig, SeparableNetwork, n_parameters
from sna_rl.separable.growing import make_growing

STATE_STD = 1.0
"""Standard deviation of normalised features."""
ACTION_STD = 1.0 / math.sqrt(3.0)
"""Standard deviation of actions spread evenly over [-1, 1]."""


@dataclass(frozen=True)
class Columns:
    """Which columns of features and actions each mode reads; the state's modes come first.

    Example:
        >>> columns = Columns(state=((0, 1, 2),), action=((0,), (1,)))
        >>> columns.state_modes, columns.action_modes
        ((0,), (1, 2))
    """

    state: Groups
    action: Groups

    @property
    def state_modes(self) -> tuple[int, ...]:
        """Numbers of the state's modes."""
        return tuple(range(len(self.state)))

    @property
    def action_modes(self) -> tuple[int, ...]:
        """Numbers of the action's modes."""
        return tuple(range(len(self.state), len(self.state) + len(self.action)))

    def of_state(self, features: Float[Tensor, "batch features"]) -> list[Tensor]:
        """One input a mode of the state."""
        return [select(features, group) for group in self.state]

    def of_action(self, actions: Float[Tensor, "batch action"]) -> list[Tensor]:
        """One input a mode of the action."""
        return [select(actions, group) for group in self.action]


def select(inputs: Float[Tensor, "batch columns"], group: Sequence[int]) -> Tensor:
    """The columns of one mode; neighbouring columns are a view.

    Args:
        inputs: all columns.
        group: numbers of the columns wanted.

    Returns:
        "batch columns-of-the-group".
    """
    if list(group) == list(range(group[0], group[0] + len(group))):
        return inputs[:, group[0] : group[0] + len(group)]
    return inputs[:, list(group)]


def factor_config(config: CriticConfig, depth: int) -> FactorConfig:
    """Family and sizes of the factors that a critic's config asks for, with their number of hidden layers."""
    return FactorConfig(
        kind=config.factor,
        width=config.width,
        depth=depth,
        layer_norm=config.has_layer_norm,
        signed=config.signed,
        n_knots=config.n_knots,
        n_coordinates=config.n_coordinates,
    )


def state_action_network(
    config: CriticConfig, features_dim: int, action_dim: int, n_critics: int
) -> tuple[SeparableNetwork, Columns]:
    """Network over groups of state and action columns.

    Args:
        config: form and sizes.
        features_dim: number of feature columns.
        action_dim: number of action columns.
        n_critics: heads, evaluated as one batched computation.

    Returns:
        The network, and the columns of its modes.

    Raises:
        UsageError: if the config's modes do not fit the columns, or rank "auto" has one head alone.
    """
    _check_automatic(config, n_critics)
    columns = _columns(config, features_dim, action_dim)
    stds = (STATE_STD,) * len(columns.state) + (ACTION_STD,) * len(columns.action)
    init = InitConfig(config.init, input_stds=stds)
    network = SeparableNetwork(**_by_columns(config, columns), init=init, n_members=n_critics)
    if config.rank == "auto":
        make_growing(network, AUTOMATIC_RANKS[0])
    return network, columns


def state_table_network(
    config: CriticConfig, features_dim: int, action_sizes: Sequence[int]
) -> tuple[SeparableNetwork, Groups]:
    """Network of one head over groups of state columns and finite action modes, each with a table.

    Args:
        config: form and sizes.
        features_dim: number of feature columns.
        action_sizes: number of values of each action mode.

    Returns:
        The network, and the columns of its state modes.

    Raises:
        UsageError: if the config's modes do not fit the columns, or rank "auto" has one head alone.
    """
    _check_automatic(config, n_critics=1)
    groups = mode_columns("state_modes", config.state_modes, features_dim)
    return SeparableNetwork(**_by_tables(config, groups, action_sizes), init=config.init), groups


def joint_network(config: CriticConfig, n_inputs: int, n_critics: int) -> SeparableNetwork:
    """Splines over learned coordinates of all inputs together: one mode, so only a main effect.

    Args:
        config: sizes.
        n_inputs: columns of state and action together.
        n_critics: heads, evaluated as one batched computation.

    Returns:
        A network whose one mode is all inputs.
    """
    spline = replace(factor_config(config, config.depth), kind="spline")
    return SeparableNetwork(
        [n_inputs], config.n_components, form="additive", factor=spline, n_members=n_critics
    )


def matched_parameters(config: CriticConfig, features_dim: int, action_dim: int) -> int:
    """Parameters of one head of the `cp` critic that "mlp-matched" is matched to.

    Args:
        config: the matched critic's config; its other fields describe the `cp` critic.
        features_dim: number of feature columns.
        action_dim: number of action columns.

    Returns:
        Number of parameters of that critic.
    """
    reference = replace(config, critic="cp", layer_norm="auto")
    return n_parameters(**_by_columns(reference, _columns(reference, features_dim, action_dim)))


def matched_table_parameters(config: CriticConfig, features_dim: int, action_sizes: Sequence[int]) -> int:
    """As `matched_parameters`, for finite action modes."""
    reference = replace(config, critic="cp", layer_norm="auto")
    groups = mode_columns("state_modes", reference.state_modes, features_dim)
    return n_parameters(**_by_tables(reference, groups, action_sizes))


def add_layer_norm(network: nn.Module) -> None:
    """Put LayerNorm before every activation of an MLP, drawing no random number.

    Args:
        network: a Sequential of linear layers and activations by turns, changed in place.

    Example:
        >>> mlp = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        >>> add_layer_norm(mlp)
        >>> [type(module).__name__ for module in mlp]
        ['Linear', 'LayerNorm', 'ReLU', 'Linear']
    """
    assert isinstance(network, nn.Sequential)
    linear = [(index, module) for index, module in enumerate(network) if isinstance(module, nn.Linear)]
    for index, module in reversed(linear[:-1]):
        network.insert(index + 1, nn.LayerNorm(module.out_features))


def _columns(config: CriticConfig, features_dim: int, action_dim: int) -> Columns:
    return Columns(
        mode_columns("state_modes", config.state_modes, features_dim),
        mode_columns("action_modes", config.action_modes, action_dim),
    )


def _check_automatic(config: CriticConfig, n_critics: int) -> None:
    if config.rank == "auto" and n_critics < 2:
        raise UsageError(
            "rank 'auto' needs two critics, to tell what they agree on; give an int, or n_critics=2"
        )


def _by_columns(config: CriticConfig, columns: Columns) -> dict[str, Any]:
    """Arguments of a network whose modes are all groups of columns."""
    sizes = [len(group) for group in (*columns.state, *columns.action)]
    factors = [factor_config(config, config.depth)] * len(columns.state)
    factors += [factor_config(config, config.action_depth)] * len(columns.action)
    return {"modes": sizes, "factor": factors, **_form(config)}


def _by_tables(config: CriticConfig, groups: Groups, action_sizes: Sequence[int]) -> dict[str, Any]:
    """Arguments of a network whose action modes are finite."""
    factors = [factor_config(config, config.depth)] * len(groups) + [FactorConfig(kind="table")] * len(
        action_sizes
    )
    return {"modes": [*map(len, groups), *action_sizes], "factor": factors, **_form(config)}


def _form(config: CriticConfig) -> dict[str, Any]:
    """Arguments that do not depend on the modes."""
    return {
        "rank": config.n_components,
        "form": config.critic,
        "orders": config.order if config.critic == "cp" else None,
        "branch_width": config.main_width,
    }
