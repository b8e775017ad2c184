"""Which columns of an observation and of an action belong together: the modes of a critic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium

from sna_rl.errors import UsageError

Columns = tuple[int, ...]


@dataclass(frozen=True)
class Groups:
    """Named groups of columns; each side is a partition of its columns.

    Args:
        state: name → columns of the observation.
        action: name → columns of the action.

    Raises:
        UsageError: if a column is missing or stands in two groups.

    Example:
        >>> groups = Groups(state={"cart": (0, 2), "pole": (1, 3)}, action={"cart": (0,)})
        >>> groups.state_modes
        ((0, 2), (1, 3))
    """

    state: Mapping[str, Columns]
    action: Mapping[str, Columns]

    def __post_init__(self) -> None:
        for side, groups in (("state", self.state), ("action", self.action)):
            columns = sorted(column for group in groups.values() for column in group)
            if columns != list(range(len(columns))):
                raise UsageError(
                    f"the {side} groups must name every column from 0 on exactly once, not {columns}"
                )

    @property
    def state_modes(self) -> tuple[Columns, ...]:
        """The observation's columns, one tuple a group."""
        return tuple(self.state.values())

    @property
    def action_modes(self) -> tuple[Columns, ...]:
        """The action's columns, one tuple a group."""
        return tuple(self.action.values())


# Three MuJoCo tasks build their observation by hand; Gymnasium's own documentation gives the columns.
_BY_HAND: dict[str, Groups] = {
    "Reacher-v5": Groups(
        state={"joint0": (0, 2, 6), "joint1": (1, 3, 7), "target": (4, 5, 8, 9)},
        action={"joint0": (0,), "joint1": (1,)},
    ),
    "InvertedDoublePendulum-v5": Groups(
        state={"slider": (0, 5, 8), "hinge": (1, 3, 6), "hinge2": (2, 4, 7)},
        action={"slider": (0,)},
    ),
    "Pusher-v5": Groups(
        state={
            **{f"joint{i}": (i, 7 + i) for i in range(7)},
            "tips": (14, 15, 16),
            "object": (17, 18, 19),
            "goal": (20, 21, 22),
        },
        action={f"joint{i}": (i,) for i in range(7)},
    ),
}


def observation_groups(env: gymnasium.Env[Any, Any]) -> Groups:
    """Groups of an environment's columns: by joint for the MuJoCo v5 tasks, by sense for `SNA/Waypoint-v0`.

    In the MuJoCo tasks a group holds a joint's angle and velocity, the actuator force on it, and what is
    observed of the bodies it carries up to the next joint. Unactuated joints of the trunk form the group
    "root".

    Args:
        env: the environment, wrapped or not, as long as no wrapper changes the columns.

    Returns:
        The groups, in the order of the joints.

    Raises:
        UsageError: if none are known for this environment, or a wrapper has changed its columns.

    Example:
        >>> env = gymnasium.make("sna_rl.envs:SNA/Waypoint-v0")
        >>> list(observation_groups(env).state)
        ['waypoints', 'motion', 'wind', 'ranges']
    """
    bare: Any = env.unwrapped
    name = env.spec.id if env.spec is not None else type(bare).__name__
    if name in _BY_HAND:
        groups = _BY_HAND[name]
    elif isinstance(getattr(bare, "groups", None), Groups):
        groups = bare.groups
    elif hasattr(bare, "observation_structure") and hasattr(bare, "model"):
        groups = _joint_groups(bare.model, bare.observation_structure)
    else:
        raise UsageError(
            f"no groups are known for {name}; give the columns of each mode yourself, for example "
            "state_modes=[[0, 1], [2, 3]]"
        )
    for side, modes, space in (
        ("observation", groups.state_modes, env.observation_space),
        ("action", groups.action_modes, env.action_space),
    ):
        n_columns = sum(map(len, modes))
        if space.shape != (n_columns,):
            raise UsageError(
                f"the groups of {name} are for {side}s of shape ({n_columns},), not {space.shape}: "
                "a wrapper has changed them; give the columns of each mode yourself"
            )
    return groups


def _joint_groups(model: Any, structure: Mapping[str, int]) -> Groups:
    """Read the groups off a MuJoCo model and Gymnasium's description of the observation's parts."""
    actuated = [int(joint) for joint, _ in model.actuator_trnid]
    names = [
        "root" if joint not in actuated and _is_trunk(model, joint) else model.joint(joint).name
        for joint in range(model.njnt)
    ]
    of_body = [_carrier(model, body, names) for body in range(model.nbody)]
    of_position = _spread(model.jnt_qposadr, model.nq, names)
    of_velocity = _spread(model.jnt_dofadr, model.nv, names)
    # Gymnasium's order; a body gives 10 inertia, 6 velocity and 6 force columns, the world body none.
    owners = [
        *of_position[structure.get("skipped_qpos", 0) :],
        *of_velocity,
        *(owner for owner in of_body[1:] for _ in range(structure.get("cinert", 0) // (model.nbody - 1))),
        *(owner for owner in of_body[1:] for _ in range(structure.get("cvel", 0) // (model.nbody - 1))),
        *of_velocity[model.nv - structure.get("qfrc_actuator", 0) :],
        *(owner for owner in of_body[1:] for _ in range(structure.get("cfrc_ext", 0) // (model.nbody - 1))),
    ]
    return Groups(state=_collect(owners), action=_collect([names[joint] for joint in actuated]))


def _is_trunk(model: Any, joint: int) -> bool:
    """Whether the joint moves a body that hangs on the world itself."""
    return int(model.body_parentid[model.jnt_bodyid[joint]]) == 0


def _carrier(model: Any, body: int, names: list[str]) -> str:
    """Name of the last joint between the world and a body."""
    while body and not model.body_jntnum[body]:
        body = int(model.body_parentid[body])
    return names[int(model.body_jntadr[body]) + int(model.body_jntnum[body]) - 1] if body else "root"


def _spread(starts: Any, length: int, names: list[str]) -> list[str]:
    """Owner of every coordinate, given where each joint's coordinates start."""
    ends = [*map(int, starts[1:]), length]
    return [
        name
        for name, start, end in zip(names, map(int, starts), ends, strict=True)
        for _ in range(start, end)
    ]


def _collect(owners: list[str]) -> dict[str, Columns]:
    """Columns of each owner, owners in order of first appearance."""
    return {
        name: tuple(i for i, owner in enumerate(owners) if owner == name) for name in dict.fromkeys(owners)
    }
