from __future__ import annotations

from math import atan2, hypot, pi, sqrt

import numpy as np
import pytest

from sna_rl.envs import ScriptedPilot, WaypointEnv
from sna_rl.envs.drawing import Canvas
from sna_rl.envs.waypoint_course import ARENA, Course, draw_course
from sna_rl.envs.waypoint_dynamics import Motion, Vehicle, advance
from sna_rl.errors import UsageError

STILL = (0.0, 0.0)


def test_full_thrust_tends_to_the_terminal_speed() -> None:
    vehicle = Vehicle()
    motion = advance(vehicle, Motion(0, 0, 0), (1.0, 0.0), STILL, duration=30.0, n_substeps=1500)
    assert motion.vx == pytest.approx(sqrt(vehicle.max_thrust / vehicle.drag), rel=1e-6)
    assert motion.vy == 0.0


def test_speed_follows_the_closed_form() -> None:
    # m dv/dt = F − k v²  ⇒  v(t) = v∞ tanh(t √(F k) / m).
    vehicle = Vehicle()
    motion = advance(vehicle, Motion(0, 0, 0), (1.0, 0.0), STILL, duration=1.0, n_substeps=2000)
    rate = sqrt(vehicle.max_thrust * vehicle.drag) / vehicle.mass
    assert motion.vx == pytest.approx(4.0 * np.tanh(rate), rel=1e-3)
    assert motion.x == pytest.approx(4.0 / rate * np.log(np.cosh(rate)), rel=1e-3)


def test_turn_rate_follows_the_command_with_its_lag() -> None:
    vehicle = Vehicle()
    motion = advance(vehicle, Motion(0, 0, 0), (0.0, 0.5), STILL, duration=0.4, n_substeps=2000)
    assert motion.turn_rate == pytest.approx(0.5 * vehicle.max_turn_rate * (1 - np.exp(-2.0)), rel=1e-3)


def test_keel_stops_sideways_motion_and_wind_carries() -> None:
    vehicle = Vehicle()
    slipping = advance(vehicle, Motion(0, 0, 0, 0.0, 1.0), (0.0, 0.0), STILL, duration=0.5, n_substeps=2000)
    assert slipping.vy == pytest.approx(np.exp(-0.5 * vehicle.keel_drag / vehicle.mass), rel=1e-3)
    carried = advance(vehicle, Motion(0, 0, 0), (0.0, 0.0), (0.0, 1.5), duration=20.0, n_substeps=1000)
    assert carried.vy == pytest.approx(1.5, rel=1e-3)
    assert carried.vx == pytest.approx(0.0, abs=1e-9)


def test_five_substeps_are_close_to_the_limit() -> None:
    start = Motion(0, 0, 0.3, 2.0, 0.5, 1.0)
    coarse = advance(Vehicle(), start, (0.7, -1.0), (0.5, -0.5), duration=0.1)
    fine = advance(Vehicle(), start, (0.7, -1.0), (0.5, -0.5), duration=0.1, n_substeps=5000)
    assert hypot(coarse.x - fine.x, coarse.y - fine.y) < 5e-3
    assert abs(coarse.heading - fine.heading) < 2e-2


def test_ranges_by_hand() -> None:
    course = Course(np.array([[10.0, 5.0]]), np.array([1.0]), np.empty((0, 2)))
    seen = course.ranges(5.0, 5.0, np.array([0.0, pi / 2, pi, -pi / 2, pi / 4]), limit=8.0)
    np.testing.assert_allclose(seen, [4.0, 8.0, 5.0, 5.0, 8.0], atol=1e-9)
    assert course.clearance(5.0, 5.0) == pytest.approx(4.0)
    assert course.clearance(10.0, 5.5) == pytest.approx(-0.5)
    assert course.clearance(19.5, 19.0) == pytest.approx(0.5)


def test_courses_keep_their_promises() -> None:
    rng = np.random.default_rng(0)
    for n_obstacles in (0, 6, 12):
        course = draw_course(rng, n_waypoints=5, n_obstacles=n_obstacles)
        assert course.points.shape == (6, 2)
        assert len(course.radii) == n_obstacles
        assert (np.hypot(*np.diff(course.points, axis=0).T) >= 5.0).all()
        assert min(course.clearance(*point) for point in course.points) >= 1.2


def test_observation_means_what_the_table_says() -> None:
    env = WaypointEnv()
    observation, _ = env.reset(seed=3)
    target, following = env.course.points[1:3]
    ahead, left = observation[:2] * 20.0
    assert hypot(ahead, left) == pytest.approx(np.hypot(*(target - env.course.points[0])), rel=1e-5)
    bearing = atan2(*(target - env.course.points[0])[::-1]) - env.motion.heading
    assert np.cos(atan2(left, ahead) - bearing) == pytest.approx(1.0, abs=1e-6)
    assert np.hypot(*observation[2:4]) * 20 == pytest.approx(
        np.hypot(*(following - env.course.points[0])), rel=1e-5
    )
    np.testing.assert_allclose(observation[4:8], [1.0, 0.0, 0.0, 0.0])
    assert np.hypot(*observation[8:10]) * 5 == pytest.approx(np.hypot(*env.wind), rel=1e-5)
    assert observation[10] * 10 == pytest.approx(
        env.course.ranges(env.motion.x, env.motion.y, np.array([env.motion.heading]), 10.0)[0], rel=1e-5
    )


def test_reward_is_progress_bonus_and_cost() -> None:
    env = WaypointEnv(n_waypoints=1, n_obstacles=0, max_wind=0.0)
    env.reset(seed=1)
    target = env.course.points[1]
    env.motion = Motion(target[0] - 1.5, target[1], 0.0, 3.0)
    env.trail = [(env.motion.x, env.motion.y)]
    _, reward, terminated, _, info = env.step(np.array([1.0, 0.0], np.float32))
    progress = 1.5 - hypot(*(target - (env.motion.x, env.motion.y)))
    assert reward == pytest.approx(progress - 0.05)
    assert not terminated
    while not terminated:
        before = hypot(*(target - (env.motion.x, env.motion.y)))
        _, reward, terminated, _, info = env.step(np.array([1.0, 0.0], np.float32))
    progress = before - hypot(*(target - (env.motion.x, env.motion.y)))
    assert reward == pytest.approx(progress - 0.05 + 5.0)
    assert info["is_success"]
    assert info["waypoints_reached"] == 1


def test_leaving_the_arena_is_a_collision() -> None:
    env = WaypointEnv(n_obstacles=0)
    env.reset(seed=0)
    env.motion = Motion(ARENA - 0.35, 10.0, 0.0, 4.0)
    observation, reward, terminated, _, info = env.step(np.array([1.0, 0.0], np.float32))
    assert terminated
    assert info["collision"]
    assert not info["is_success"]
    assert -11.0 <= reward < -9.0
    assert env.observation_space.contains(observation)


def test_straight_flight_has_efficiency_one_and_a_detour_less() -> None:
    env = WaypointEnv(n_waypoints=1, n_obstacles=0, max_wind=0.0)
    pilot = ScriptedPilot()
    observation, info = env.reset(seed=2)
    assert info["path_efficiency"] == 0.0
    start, target = env.course.points
    env.motion = Motion(start[0], start[1], atan2(*(target - start)[::-1]))
    terminated = False
    observation = env._observation()
    while not terminated:
        observation, _, terminated, _, info = env.step(pilot.predict(observation)[0])
    assert info["is_success"]
    assert info["path_efficiency"] > 0.97
    env.travelled *= 2
    assert env._info(collision=False)["path_efficiency"] < 0.55


def test_scripted_pilot_succeeds_more_often_than_not_and_random_actions_never() -> None:
    env, pilot = WaypointEnv(), ScriptedPilot()
    rng = np.random.default_rng(0)
    successes = {"pilot": 0, "random": 0}
    for name, seed in [("pilot", s) for s in range(20)] + [("random", s) for s in range(20)]:
        observation, _ = env.reset(seed=seed)
        for _ in range(400):
            action = pilot.predict(observation)[0] if name == "pilot" else rng.uniform(-1, 1, 2)
            observation, _, terminated, _, info = env.step(action.astype(np.float32))
            if terminated:
                break
        successes[name] += info["is_success"]
    assert successes["pilot"] >= 14
    assert successes["random"] == 0


def test_pilot_takes_batches() -> None:
    env, pilot = WaypointEnv(), ScriptedPilot()
    observations = np.stack([env.reset(seed=seed)[0] for seed in range(3)])
    actions, state = pilot.predict(observations, state="kept")
    assert state == "kept"
    np.testing.assert_array_equal(actions[1], pilot.predict(observations[1])[0])


def test_rendering_shows_the_scene() -> None:
    env = WaypointEnv(render_mode="rgb_array")
    env.reset(seed=0)
    first = env.render()
    assert first is not None
    assert first.shape == (400, 400, 3)
    assert first.dtype == np.uint8
    row, column = int(400 - 20 * env.motion.y), int(20 * env.motion.x)
    np.testing.assert_array_equal(first[row, column], (25, 55, 110))
    env.step(np.array([1.0, 1.0], np.float32))
    second = env.render()
    assert second is not None
    assert (first != second).any()
    assert WaypointEnv().render() is None


def test_canvas_covers_pixels_in_proportion() -> None:
    canvas = Canvas(side=4.0, size=4, background=(0, 0, 0))
    canvas.polygon([(0.0, 0.0), (2.0, 0.0), (2.0, 4.0), (0.0, 4.0)], (200, 100, 50))
    image = canvas.image()
    np.testing.assert_array_equal(image[:, :2], np.broadcast_to([200, 100, 50], (4, 2, 3)))
    np.testing.assert_array_equal(image[:, 2:], 0)
    canvas = Canvas(side=4.0, size=4, background=(0, 0, 0))
    canvas.line((0.0, 0.5), (4.0, 0.5), 1.0, (100, 100, 100), opacity=0.5)
    np.testing.assert_array_equal(canvas.image()[3, 1], 50)
    np.testing.assert_array_equal(canvas.image()[2], 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_waypoints": 0}, "n_waypoints must be an int of at least 1, not 0"),
        ({"n_obstacles": 13}, "n_obstacles must be an int from 0 to 12, not 13"),
        ({"max_wind": 3.0}, "max_wind must lie between 0 and 2"),
        ({"render_mode": "human"}, "render_mode must be None or 'rgb_array', not 'human'"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        WaypointEnv(**arguments)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"reset\(\)"):
        _ = WaypointEnv().course
