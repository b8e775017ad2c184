"""The contract: each silent failure of a custom critic is refused at construction, with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ContinuousCritic
from torch import Tensor, nn

from sna_rl.agents.contract import dummy_observations
from sna_rl.agents.critics import MLPCritic, SeparableCritic
from sna_rl.agents.policies import SNADQNPolicy, SNASACPolicy, SNATD3Policy
from sna_rl.agents.q_networks import MLPQNetwork
from sna_rl.errors import UsageError

Change = Callable[[Any], None]


def construct(product_env: Any, critic_class: type[Any], policy: Any = SNASACPolicy, **kwargs: Any) -> Any:
    """An agent whose policy builds `critic_class`."""

    class Policy(policy):  # type: ignore[misc]
        def make_critic(self, features_extractor: Any = None) -> ContinuousCritic:
            critic: ContinuousCritic = critic_class(
                self.critic_config, **self._update_features_extractor(self.critic_kwargs, features_extractor)
            )
            return critic

        def make_q_net(self) -> Any:
            return critic_class(self.critic_config, **self._update_features_extractor(self.net_args, None))

    algorithm = {
        SNASACPolicy: stable_baselines3.SAC,
        SNATD3Policy: stable_baselines3.TD3,
        SNADQNPolicy: stable_baselines3.DQN,
    }[policy]
    env = product_env(discrete=policy is SNADQNPolicy)
    return algorithm(
        Policy, env, policy_kwargs={"rank": 2, "width": 8, "net_arch": [8], **kwargs}, buffer_size=10
    )


def both(test: Any) -> Any:
    return pytest.mark.parametrize("policy", [SNASACPolicy, SNATD3Policy])(test)


@both
@pytest.mark.parametrize(
    "values",
    [
        lambda heads: tuple(head.squeeze(-1) for head in heads),
        lambda heads: torch.cat(heads, dim=1),
        lambda heads: (torch.cat(heads, dim=1),),
        lambda heads: list(heads),
        lambda heads: heads[:1],
    ],
    ids=["flat", "one tensor", "one tuple of all", "list", "too few"],
)
def test_wrong_shapes_are_refused(product_env: Any, policy: Any, values: Any) -> None:
    class Wrong(MLPCritic):
        def forward(self, obs: Any, actions: Tensor) -> Any:
            return values(super().forward(obs, actions))

    with pytest.raises(UsageError, match=r"Wrong must return a tuple of 2 tensors of shape \(batch, 1\)"):
        construct(product_env, Wrong, policy)


@both
def test_values_of_features_must_agree_with_those_of_observations(product_env: Any, policy: Any) -> None:
    class Doubled(MLPCritic):
        """Updates and tables would go on with the undoubled networks."""

        def forward(self, obs: Any, actions: Tensor) -> Any:
            return tuple(2 * value for value in super().forward(obs, actions))

        def q1_forward(self, obs: Any, actions: Tensor) -> Tensor:
            return 2 * super().q1_forward(obs, actions)

    with pytest.raises(UsageError, match="q_values and q_networks must agree with forward; give it q_values"):
        construct(product_env, Doubled, policy)

    class Half(Doubled):
        def q_values(self, features: Tensor, actions: Tensor) -> Tensor:
            return 2 * super().q_values(features, actions)

    with pytest.raises(UsageError, match="q_values and q_networks must agree with forward"):
        construct(product_env, Half, policy)  # TD3's actor would learn from q_networks[0]

    class Neither(SeparableCritic):
        q_values = property()

        def forward(self, obs: Any, actions: Tensor) -> Any:
            values = SeparableCritic.q_values(
                self, self.extract_features(obs, self.features_extractor), actions
            )
            return values.unsqueeze(-1).unbind(0)

        def q1_forward(self, obs: Any, actions: Tensor) -> Tensor:
            return self(obs, actions)[0]  # type: ignore[no-any-return]

    with pytest.raises(UsageError, match="Neither has neither q_networks nor q_values; give it q_values"):
        construct(product_env, Neither, policy)


@both
def test_a_missing_or_wrong_q1_forward_is_refused(product_env: Any, policy: Any) -> None:
    """R17."""

    class Missing(MLPCritic):
        q1_forward = None  # type: ignore[assignment]

    class Second(MLPCritic):
        def q1_forward(self, obs: Any, actions: Tensor) -> Tensor:
            return self.forward(obs, actions)[1]

    with pytest.raises(UsageError, match="Missing has no q1_forward"):
        construct(product_env, Missing, policy)
    with pytest.raises(UsageError, match=r"Second.q1_forward must return the first"):
        construct(product_env, Second, policy)


@both
def test_buffers_that_stay_behind_are_refused(product_env: Any, policy: Any) -> None:
    """R18: only `running_` buffers, changed in place, reach the target; constants need not."""

    class Scaled(MLPCritic):
        def __init__(self, config: Any, name: str = "scale", persistent: bool = True, **kwargs: Any) -> None:
            super().__init__(config, **kwargs)
            self.register_buffer(name, torch.ones(1), persistent=persistent)

    class Running(Scaled):
        def __init__(self, config: Any, **kwargs: Any) -> None:
            super().__init__(config, name="running_scale", **kwargs)

    class Constant(Scaled):
        def __init__(self, config: Any, **kwargs: Any) -> None:
            super().__init__(config, persistent=False, **kwargs)

    with pytest.raises(UsageError, match="buffer 'scale' would never reach the target; name it running_"):
        construct(product_env, Scaled, policy)
    construct(product_env, Constant, policy)
    agent = construct(product_env, Running, policy)
    agent.learning_starts = agent.batch_size = 2
    agent.critic.running_scale.fill_(5.0)
    agent.learn(6)
    assert agent.critic_target.running_scale.item() == 5.0


def test_a_name_that_is_never_trained_is_refused(product_env: Any) -> None:
    """R20."""

    class Named(SeparableCritic):
        def __init__(self, config: Any, **kwargs: Any) -> None:
            super().__init__(config, **kwargs)
            self.my_features_extractor_head = nn.Parameter(torch.zeros(1))

    with pytest.raises(UsageError, match="'my_features_extractor_head': with share_features_extractor=True"):
        construct(product_env, Named, share_features_extractor=True)
    agent = construct(product_env, Named)
    parameters = {id(p) for group in agent.critic.optimizer.param_groups for p in group["params"]}
    assert id(agent.critic.my_features_extractor_head) in parameters


@both
def test_lazy_modules_are_refused(product_env: Any, policy: Any) -> None:
    class Lazy(MLPCritic):
        def __init__(self, config: Any, **kwargs: Any) -> None:
            super().__init__(config, **kwargs)
            self.extra = nn.LazyLinear(1)

    with pytest.raises(UsageError, match=r"'extra.weight' belongs to a lazy module"):
        construct(product_env, Lazy, policy)


@both
def test_targets_of_another_architecture_or_shared_storage_are_refused(product_env: Any, policy: Any) -> None:
    kept: list[nn.Linear] = []

    class Shared(MLPCritic):
        def __init__(self, config: Any, **kwargs: Any) -> None:
            super().__init__(config, **kwargs)
            if not kept:
                kept.append(nn.Linear(2, 2))
            self.extra = kept[0]

    with pytest.raises(UsageError, match=r"Shared shares 'extra.weight' with its target"):
        construct(product_env, Shared, policy)


def test_parameters_outside_the_optimizer_are_refused(product_env: Any) -> None:
    class Late(SNASACPolicy):
        def _critic_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
            built = super()._critic_optimizer(optimizer)
            built.param_groups[0]["params"].pop()
            return built

    with pytest.raises(UsageError, match="is not in the optimizer and would never learn"):
        stable_baselines3.SAC(Late, product_env(), buffer_size=10)


def test_q_networks_of_another_shape_are_refused(product_env: Any) -> None:
    class Wrong(MLPQNetwork):
        def forward(self, obs: Any) -> Tensor:
            return super().forward(obs)[:, :2]

    with pytest.raises(UsageError, match=r"Wrong must return one tensor of shape \(batch, 5\), not a tensor"):
        construct(product_env, Wrong, SNADQNPolicy)


def test_the_check_draws_and_changes_nothing(product_env: Any) -> None:
    class Normed(MLPCritic):
        def __init__(self, config: Any, **kwargs: Any) -> None:
            super().__init__(config, **kwargs)
            for network in self.q_networks:
                assert isinstance(network, nn.Sequential)
                network.insert(1, nn.BatchNorm1d(8))

    critic = construct(product_env, Normed).critic
    assert critic.training
    assert critic.q_networks[0][1].num_batches_tracked == 0


@pytest.mark.parametrize(
    ("space", "shape"),
    [
        (spaces.Box(-1, 1, (2, 3)), (3, 2, 3)),
        (spaces.Discrete(4), (3, 1)),
        (spaces.MultiDiscrete([2, 5]), (3, 2)),
        (spaces.MultiBinary(4), (3, 4)),
        (spaces.Box(0, 255, (1, 36, 36), np.uint8), (3, 1, 36, 36)),
    ],
)
def test_dummy_observations_are_shaped_as_the_buffer_gives_them(space: Any, shape: tuple[int, ...]) -> None:
    batch = dummy_observations(space, torch.device("cpu"))
    assert isinstance(batch, Tensor)
    assert batch.shape == shape
    assert batch.numpy().dtype == space.dtype
    joined = dummy_observations(spaces.Dict({"part": space}), torch.device("cpu"))
    assert isinstance(joined, dict)
    assert joined["part"].shape == shape
