"""The text encoder: padding, unknown words, and an agent that learns with it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN

from sna_rl.agents import SNADQNPolicy
from sna_rl.agents.extractor import ModuleExtractor
from sna_rl.errors import UsageError
from sna_rl.language.config import LMConfig
from sna_rl.language.encoder import TextEncoder, Words

TEXTS = ("go left", "go right")
WORDS = Words(TEXTS, length=3)
CONFIG = LMConfig(
    vocab_size=WORDS.vocab_size, n_positions=3, width=8, n_layers=1, n_heads=2, rank=4, embedding="table"
)


class Obey(gymnasium.Env[dict[str, Any], np.int64]):
    """One step an episode; reward 1 for the side that the instruction names."""

    observation_space = spaces.Dict(
        {"mission": spaces.Box(0, WORDS.vocab_size, (3,), np.int64), "noise": spaces.Box(-1.0, 1.0, (2,))}
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.side = int(self.np_random.integers(2))
        noise = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return {"mission": WORDS(TEXTS[self.side]), "noise": noise}, {}

    def step(self, action: np.int64) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        reward = float(action == self.side)
        return self.reset()[0], reward, True, False, {}


def test_padding_changes_nothing_and_words_do() -> None:
    torch.manual_seed(0)
    encoder = TextEncoder(CONFIG)
    left, right = (torch.from_numpy(WORDS(text))[None].float() for text in TEXTS)
    assert encoder(left).shape == (1, encoder.features_dim)
    torch.testing.assert_close(encoder(left), encoder(left[:, :2]))
    assert not torch.allclose(encoder(left), encoder(right))
    assert torch.equal(encoder(torch.zeros(1, 3)), torch.zeros(1, 8))


def test_words_that_are_unknown_or_too_many() -> None:
    assert WORDS("Go, up!").tolist() == [2, 1, 0]
    with pytest.raises(UsageError, match="has 4 words, and a row has room for 3"):
        WORDS("go left go right")


def test_other_entries_lie_beside_the_text() -> None:
    encoder = TextEncoder(CONFIG, key="mission", n_others=2)
    noise = torch.tensor([[0.25, -0.5]])
    features = encoder({"mission": torch.from_numpy(WORDS("go left"))[None], "noise": noise})
    assert features.shape == (1, encoder.features_dim) == (1, 10)
    assert torch.equal(features[:, 8:], noise)


def test_a_separable_agent_learns_to_obey() -> None:
    encoder = TextEncoder(CONFIG, key="mission", n_others=2)
    kwargs = {
        "critic": "cp",
        "rank": 4,
        "features_extractor_class": ModuleExtractor,
        "features_extractor_kwargs": {"encoder": encoder},
    }
    agent = DQN(
        SNADQNPolicy,
        Obey(),
        policy_kwargs=kwargs,
        seed=0,
        learning_starts=64,
        learning_rate=5e-3,
        gamma=0.0,
        exploration_fraction=0.5,
        target_update_interval=50,
    )
    agent.learn(500)
    env = Obey()
    env.reset(seed=7)
    for _ in range(20):
        observation, _ = env.reset()
        action, _ = agent.predict(observation, deterministic=True)
        assert env.step(np.int64(action))[1] == 1.0
