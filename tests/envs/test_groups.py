from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import FlattenObservation, FrameStackObservation

from sna_rl.envs import Groups, observation_groups
from sna_rl.errors import UsageError

MUJOCO = [
    "HalfCheetah-v5",
    "Hopper-v5",
    "Walker2d-v5",
    "Ant-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
    "Swimmer-v5",
    "Reacher-v5",
    "Pusher-v5",
    "InvertedPendulum-v5",
    "InvertedDoublePendulum-v5",
]


@pytest.fixture
def env(request: pytest.FixtureRequest) -> Any:
    made = gymnasium.make(request.param)
    yield made
    made.close()


def test_half_cheetah_by_hand() -> None:
    env = gymnasium.make("HalfCheetah-v5")
    groups = observation_groups(env)
    env.close()
    assert groups.state == {
        "root": (0, 1, 8, 9, 10),
        "bthigh": (2, 11),
        "bshin": (3, 12),
        "bfoot": (4, 13),
        "fthigh": (5, 14),
        "fshin": (6, 15),
        "ffoot": (7, 16),
    }
    assert groups.action == {name: (i,) for i, name in enumerate(list(groups.state)[1:])}


@pytest.mark.parametrize("env", MUJOCO, indirect=True)
def test_groups_cover_every_column_once(env: gymnasium.Env[Any, Any]) -> None:
    groups = observation_groups(env)
    for modes, space in (
        (groups.state_modes, env.observation_space),
        (groups.action_modes, env.action_space),
    ):
        assert space.shape is not None
        assert sorted(c for mode in modes for c in mode) == list(range(space.shape[0]))


@pytest.mark.parametrize("env", [i for i in MUJOCO if i != "Pusher-v5"], indirect=True)
def test_a_joint_moves_its_own_angle_and_velocity_columns(env: gymnasium.Env[Any, Any]) -> None:
    bare: Any = env.unwrapped
    env.reset(seed=0)
    groups = observation_groups(env).state
    root_free = [name for name in groups if name not in ("root", "target", "tips", "object", "goal")]
    structure = getattr(bare, "observation_structure", None)
    last = 8 if structure is None else structure["qpos"] + structure["qvel"]
    for name in root_free:
        joint = bare.model.joint(name)
        before = np.array(bare._get_obs())[:last]
        bare.data.qpos[joint.qposadr] += 0.3
        bare.data.qvel[joint.dofadr] += 0.7
        changed = set(np.flatnonzero(~np.isclose(before, np.array(bare._get_obs())[:last])))
        assert changed == {c for c in groups[name] if c < last}


def test_humanoid_bodies_go_with_the_joint_that_carries_them() -> None:
    env = gymnasium.make("Humanoid-v5")
    groups = observation_groups(env)
    bare: Any = env.unwrapped
    env.close()
    structure = bare.observation_structure
    start = structure["qpos"] + structure["qvel"]
    names = [bare.model.body(i).name for i in range(1, bare.model.nbody)]
    foot = names.index("right_foot")  # no joint of its own: carried by the knee
    columns = set(range(start + 10 * foot, start + 10 * foot + 10))
    assert columns <= set(groups.state["right_knee"])
    torso = set(range(start, start + 10))
    assert torso <= set(groups.state["root"])
    actuator_force = start + structure["cinert"] + structure["cvel"]
    assert actuator_force in groups.state["abdomen_z"]  # the first joint after the root
    assert list(groups.action)[:2] == ["abdomen_y", "abdomen_z"]


def test_waypoint_groups() -> None:
    groups = observation_groups(gymnasium.make("sna_rl.envs:SNA/Waypoint-v0"))
    assert groups.state["ranges"] == tuple(range(10, 34))
    assert groups.action_modes == ((0,), (1,))


def test_unknown_environments_and_changed_columns_are_refused() -> None:
    with pytest.raises(UsageError, match=r"no groups are known for Pendulum-v1; give the columns"):
        observation_groups(gymnasium.make("Pendulum-v1"))
    stacked = FlattenObservation(FrameStackObservation(gymnasium.make("Hopper-v5"), 2))
    with pytest.raises(UsageError, match=r"of shape \(11,\), not \(22,\): a wrapper has changed them"):
        observation_groups(stacked)
    stacked.close()


def test_groups_must_be_a_partition() -> None:
    with pytest.raises(UsageError, match=r"the state groups must name every column from 0 on exactly once"):
        Groups(state={"a": (0, 1), "b": (1,)}, action={"a": (0,)})
