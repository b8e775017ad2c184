"""Environments of a run: found by id, wrapped, monitored, and watched for numbers that aren't finite."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecEnv,
    VecEnvWrapper,
    VecFrameStack,
    VecNormalize,
)
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from sna_rl.config import RunConfig, named_items
from sna_rl.envs.recorder import Recorder
from sna_rl.errors import MissingExtraError, SnaError, UsageError
from sna_rl.training.display import prepare_simulators
from sna_rl.training.episodes import TellMonitor
from sna_rl.training.named import import_packages, load_class
from sna_rl.training.patient import PatientResults


def register(env: str, packages: Sequence[str] = ()) -> None:
    """Make an id known to Gymnasium: import our environments, the user's packages, and the id's prefix.

    Args:
        env: id, `SNA/…` or `package:Id` included.
        packages: modules that register more environments.

    Raises:
        UsageError: if the id is unknown afterwards; the closest one is named.

    Example:
        >>> register("Pendulum-v1")
    """
    import sna_rl.envs  # noqa: F401  (registers SNA/…)

    import_packages(packages)
    module, _, name = env.rpartition(":")
    if module:
        import_packages([module])
    if name not in gymnasium.registry:
        close = get_close_matches(name, gymnasium.registry, n=1, cutoff=0.6)
        remedy = (
            f"did you mean {close[0]!r}?"
            if close
            else "name the module that registers it with --gym-packages"
        )
        raise UsageError(f"unknown environment {env!r}; {remedy}")


@dataclass(frozen=True)
class MakeEnv:
    """Recipe of one environment, called in the process that will step it.

    Args:
        env: id.
        kwargs: arguments of its constructor.
        packages: modules that register it.
        wrappers: dotted names of wrappers with their arguments, innermost first, outside the monitor.
        monitor: prefix of the monitor's CSV file; None writes none.
        monitor_kwargs: further arguments of the monitor.
        render_mode: Gymnasium's, None to draw nothing.
    """

    env: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    packages: Sequence[str] = ()
    wrappers: Sequence[tuple[str, dict[str, Any]]] = ()
    monitor: Path | None = None
    monitor_kwargs: Mapping[str, Any] = field(default_factory=dict)
    render_mode: str | None = None

    def __call__(self) -> gymnasium.Env[Any, Any]:
        """Make the environment.

        Raises:
            UsageError: if it can't be made from these arguments.
            MissingExtraError: if a library it needs isn't installed.
        """
        if multiprocessing.parent_process() is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
        prepare_simulators()
        register(self.env, self.packages)
        kwargs = dict(self.monitor_kwargs)
        if self.monitor is not None:  # a file that is there belongs to the run that goes on
            file = self.monitor.with_name(f"{self.monitor.name}.{Monitor.EXT}")
            kwargs |= {"filename": str(file), "override_existing": not file.exists()}
        monitor = Monitor(self._bare(), **kwargs)
        if self.monitor is not None and monitor.results_writer is not None:
            monitor.results_writer = PatientResults(monitor.results_writer, self.monitor.parent)
        env: gymnasium.Env[Any, Any] = monitor
        for name, arguments in self.wrappers:
            wrapper = load_class(name, gymnasium.Wrapper)
            try:
                env = wrapper(env, **arguments)
            except (TypeError, ValueError, AssertionError) as error:
                raise UsageError(
                    f"env_wrapper {name!r} can't wrap {self.env!r}: {first_line(error)}"
                ) from error
        return Recorder(TellMonitor(env, monitor) if self.wrappers else env)

    def _bare(self) -> gymnasium.Env[Any, Any]:
        """The environment without monitor and wrappers."""
        drawn: dict[str, Any] = {} if self.render_mode is None else {"render_mode": self.render_mode}
        try:
            return gymnasium.make(self.env, **drawn, **self.kwargs)
        except gymnasium.error.DependencyNotInstalled as error:
            if "box2d" in str(error).lower():
                raise MissingExtraError(
                    f"environment {self.env!r} needs Box2D, which is not installed; "
                    f"it comes with the extra 'box2d': pip install 'sna-rl[box2d]'"
                ) from error
            raise SnaError(f"environment {self.env!r} can't be made: {first_line(error)}") from error
        except (gymnasium.error.Error, ImportError) as error:
            raise SnaError(f"environment {self.env!r} can't be made: {first_line(error)}") from error
        except (TypeError, ValueError, AssertionError) as error:
            given = ", ".join(f"{key}={value!r}" for key, value in self.kwargs.items()) or "no env_kwargs"
            raise UsageError(f"environment {self.env!r} refuses {given}: {first_line(error)}") from error


class FiniteVecEnv(VecEnvWrapper):
    """Stops a run whose environment gives an observation or reward that is NaN or infinite."""

    def __init__(self, venv: VecEnv, env: str) -> None:
        super().__init__(venv)
        self.env = env

    def reset(self) -> VecEnvObs:
        """Reset all environments.

        Raises:
            SnaError: if an observation is not finite.
        """
        observations = self.venv.reset()
        self._check("observation", observations)
        return observations

    def step_wait(self) -> VecEnvStepReturn:
        """Finish a step.

        Raises:
            SnaError: if an observation or a reward is not finite.
        """
        observations, rewards, dones, infos = self.venv.step_wait()
        self._check("observation", observations)
        self._check("reward", rewards)
        return observations, rewards, dones, infos

    def _check(self, what: str, values: Any) -> None:
        """Refuse NaN and infinity in one array or in those of a Dict."""
        for array in values.values() if isinstance(values, dict) else (values,):
            if not np.isfinite(array).all():
                kind = "NaN" if np.isnan(array).any() else "an infinite number"
                raise SnaError(f"environment {self.env!r} gave {kind} as {what}; training on it can't go on")


def make_vec_env(
    config: RunConfig,
    *,
    evaluation: bool = False,
    n_envs: int | None = None,
    monitors: Callable[[int], Path] | None = None,
    render_mode: str | None = None,
) -> VecEnv:
    """Make the environments of a run with every wrapper its configuration names.

    Order from inside, as in the RL Zoo: monitor, `env_wrapper`, recorder, vector of environments, check for
    finite numbers, `vec_env_wrapper`, VecNormalize (`normalize`), VecFrameStack (`frame_stack`).

    Args:
        config: the run's configuration.
        evaluation: True takes `eval_env_kwargs` and freezes VecNormalize, rewards left as they are.
        n_envs: number of environments; by default the configuration's.
        monitors: gives the prefix of the monitor file of environment i.
        render_mode: Gymnasium's, None to draw nothing.

    Returns:
        The vector of environments, not yet seeded.

    Raises:
        UsageError: if the configuration names what doesn't exist or fits nothing.
    """
    params: dict[str, Any] = config.hyperparams
    kwargs = config.env_kwargs if not evaluation or config.eval_env_kwargs is None else config.eval_env_kwargs
    register(config.env, config.gym_packages)
    makers = [
        MakeEnv(
            env=config.env,
            kwargs=kwargs,
            packages=config.gym_packages,
            wrappers=named_items(params.get("env_wrapper")),
            monitor=monitors(index) if monitors else None,
            monitor_kwargs=params.get("monitor_kwargs") or {},
            render_mode=render_mode,
        )
        for index in range(n_envs or (config.n_eval_envs if evaluation else config.n_envs))
    ]
    if config.vec_env == "subproc":
        replace(makers[0], monitor=None)().close()  # what is wrong shows here, not as a worker's traceback
        venv: VecEnv = SubprocVecEnv(list(makers))
    else:
        venv = DummyVecEnv(list(makers))
    try:
        venv = FiniteVecEnv(venv, config.env)
        for name, wrapper_kwargs in named_items(params.get("vec_env_wrapper")):
            venv = load_class(name, VecEnvWrapper)(venv, **wrapper_kwargs)
        venv = _normalized(venv, config, evaluation)
        if params.get("frame_stack"):
            venv = VecFrameStack(venv, int(params["frame_stack"]))
    except (TypeError, ValueError, AssertionError) as error:
        venv.close()
        raise UsageError(
            f"the environments of {config.env!r} can't be wrapped: {first_line(error)}"
        ) from error
    return venv


def _normalized(venv: VecEnv, config: RunConfig, evaluation: bool) -> VecEnv:
    """Wrap in VecNormalize where the configuration asks, with the algorithm's own discount."""
    wanted: Any = config.hyperparams.get("normalize")
    if not wanted:
        return venv
    kwargs: dict[str, Any] = dict(wanted) if isinstance(wanted, Mapping) else {}
    kwargs.setdefault("gamma", config.hyperparams.get("gamma", 0.99))
    if evaluation:
        kwargs |= {"training": False, "norm_reward": False}
    return VecNormalize(venv, **kwargs)


def describe_space(space: spaces.Space[Any]) -> str:
    """Name a space by its kind and shape, for messages.

    Example:
        >>> describe_space(spaces.Discrete(2)), describe_space(spaces.Box(-1, 1, (3,)))
        ('Discrete(2)', 'Box(3,)')
    """
    return f"Box{space.shape}" if isinstance(space, spaces.Box) else str(space)


def first_line(error: BaseException) -> str:
    """An exception's first line, without its final stop, to end a sentence with.

    Example:
        >>> first_line(ValueError("one thing.\\nanother"))
        'one thing'
    """
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
