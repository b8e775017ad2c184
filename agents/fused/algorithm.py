"""What SAC, TD3 and DQN share here: the fused update behind Stable-Baselines3's `train`, and run names."""

from __future__ import annotations

import logging
from typing import Any, ClassVar, TypeVar

import numpy as np
import stable_baselines3
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sna_rl.agents.fused.choice import (
    COMPILED_FROM,
    FORMS,
    PRECISIONS,
    expected_updates,
    obstacle,
)
from sna_rl.agents.fused.replay import CompactReplayBuffer
from sna_rl.agents.fused.rollout import DirectPolicy, direct_policy
from sna_rl.agents.fused.update import Update
from sna_rl.agents.optimizer import optimizers
from sna_rl.agents.rank import with_rank_control
from sna_rl.agents.spaces import check_action_space
from sna_rl.runs import run_name
from sna_rl.separable.checks import check_int, check_name

LOGGER = logging.getLogger(__name__)

AgentT = TypeVar("AgentT", bound="FusedAlgorithm")


class FusedAlgorithm(OffPolicyAlgorithm):
    """An algorithm of Stable-Baselines3 whose gradient update is one graph over tensors.

    Args:
        *args: as in Stable-Baselines3.
        update: form of the gradient update. "compiled", "eager" (the same graph without a compiler),
            "reference" (Stable-Baselines3's own `train`, and its own way to actions), or "auto": compiled
            where `learn` is asked for at least 10,000 updates, else eager. What can't be fused takes the
            reference and says so in one line.
        n_target_actions: sampled next actions that the target is a mean over (SAC).
        precision: "fp32", or "bf16" for large matrix products of the update with inputs rounded to bfloat16.
        **kwargs: as in Stable-Baselines3; `policy_kwargs` is copied.

    Raises:
        UsageError: if one of the three is not among its values.
    """

    update_class: ClassVar[type[Update]]

    def __init__(
        self,
        *args: Any,
        update: str = "auto",
        n_target_actions: int = 1,
        precision: str = "fp32",
        **kwargs: Any,
    ) -> None:
        check_name("update", update, FORMS)
        check_name("precision", precision, PRECISIONS)
        check_int("n_target_actions", n_target_actions, 1)
        self.update = update
        self.n_target_actions = n_target_actions
        self.precision = precision
        self._chosen: str | None = None
        self._fused: Update | None = None
        self._direct: DirectPolicy | None = None
        if kwargs.get("policy_kwargs") is not None:
            kwargs["policy_kwargs"] = dict(kwargs["policy_kwargs"])
        super().__init__(*args, **kwargs)
        if not self.use_sde:  # added by Stable-Baselines3, which then refuses the user's own dict at load
            self.policy_kwargs.pop("use_sde", None)

    @classmethod
    def _wrap_env(cls, env: Any, *args: Any, **kwargs: Any) -> VecEnv:
        check_action_space(cls.__name__, env.action_space, discrete=issubclass(cls, stable_baselines3.DQN))
        return super()._wrap_env(env, *args, **kwargs)

    def _setup_model(self) -> None:
        plain = self.replay_buffer_class is None and self.n_steps == 1 and not self.optimize_memory_usage
        if plain and isinstance(self.observation_space, spaces.Box):
            self.replay_buffer_class = CompactReplayBuffer
        super()._setup_model()

    @property
    def run_name(self) -> str:
        """Name of a run in TensorBoard: algorithm, critic and, for separable critics, rank (`sac-cp-r32`)."""
        config = getattr(self.policy, "critic_config", None)
        critic, rank = ("mlp", None) if config is None else (config.critic, config.rank)
        return run_name(type(self).__name__.lower(), critic, rank)

    @property
    def update_form(self) -> str:
        """Form of the gradient update in use, or before `choose_update` the one asked for."""
        if self._fused is not None:
            return self._fused.form
        return self._chosen or self.update

    def choose_update(self, n_timesteps: int) -> str:
        """Settle the form of the gradient update, and compile where that is the form; `learn` calls this.

        Args:
            n_timesteps: environment steps to train for.

        Returns:
            "compiled", "eager" or "reference". It stays, but that a later, longer training may compile.
        """
        enough = expected_updates(self, n_timesteps) >= COMPILED_FROM
        if self._chosen is None or (self.update == "auto" and self._chosen == "eager" and enough):
            self._choose("compiled" if enough else "eager")
        if self._chosen != "reference" and self._fused is None:
            fused = self.update_class(self, str(self._chosen), self.precision)
            try:
                fused.prepare(self.batch_size)
            except RuntimeError as error:  # torch's, of whatever a user's network does that has no graph
                self._refuse(f"the networks can't be traced ({str(error).strip().splitlines()[0]})")
            else:
                self._fused = fused
        return self.update_form

    def rebuild(self) -> None:
        """Take up networks that were exchanged; the next update is built, and perhaps compiled, anew."""
        self._fused = self._chosen = self._direct = None

    def _choose(self, automatic: str) -> None:
        self._chosen, self._fused = automatic if self.update == "auto" else self.update, None
        reason = obstacle(self)
        if self._chosen != "reference" and reason is not None:
            self._refuse(reason)

    def _refuse(self, reason: str) -> None:
        LOGGER.warning("training with Stable-Baselines3's own update: %s", reason)
        self._chosen = "reference"

    def learn(self: AgentT, *args: Any, **kwargs: Any) -> AgentT:
        """Train as Stable-Baselines3 does; `tb_log_name` is `run_name` unless given."""
        if len(args) < 4:
            kwargs.setdefault("tb_log_name", self.run_name)
        return super().learn(*args, **kwargs)

    def _setup_learn(self, total_timesteps: int, *args: Any, **kwargs: Any) -> Any:
        form = self.choose_update(total_timesteps)
        self._direct = None if form == "reference" else direct_policy(self)
        return super()._setup_learn(total_timesteps, *args, **kwargs)

    def _init_callback(self, callback: Any, progress_bar: bool = False) -> BaseCallback:
        return super()._init_callback(with_rank_control(self, callback), progress_bar)

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Take gradient updates on batches from the replay buffer.

        The fused forms leave no gradients on the parameters; a callback that reads them needs
        `update="reference"`.

        Args:
            gradient_steps: number of updates.
            batch_size: transitions in each batch.
        """
        if self._fused is None and self.choose_update(self._total_timesteps) == "reference":
            super().train(gradient_steps, batch_size)
            return
        assert self._fused is not None
        self._update_learning_rate(list(optimizers(self).values()))
        statistics = self._fused.run(gradient_steps, batch_size)
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, value in statistics.items():
            self.logger.record(f"train/{name}", value)

    def _sample_action(
        self, learning_starts: int, action_noise: ActionNoise | None = None, n_envs: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        if self._direct is None or self.num_timesteps < learning_starts:
            return super()._sample_action(learning_starts, action_noise, n_envs)
        assert isinstance(self._last_obs, np.ndarray)
        actions = self._direct(self._last_obs)
        if isinstance(self.action_space, spaces.Discrete):
            return actions, actions
        if action_noise is not None:
            actions = np.clip(actions + action_noise(), -1.0, 1.0)
        return self.policy.unscale_action(actions), actions

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_fused", "_chosen", "_direct"]
