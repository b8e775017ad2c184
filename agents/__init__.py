"""All that knows Stable-Baselines3: critics, policies, algorithms, features extractors, rank metrics."""

if __name__ != "sna_rl.agents":
    raise ImportError(
        f"this folder is the package sna_rl.agents, not {__name__!r}: write `import sna_rl.agents` "
        "(two copies of each class would exist otherwise)"
    )

from sna_rl.agents.critic_config import CriticConfig
from sna_rl.agents.critics import MLPCritic, SeparableCritic, SplineJointCritic
from sna_rl.agents.extractor import ModuleExtractor, SeparableExtractor
from sna_rl.agents.metrics import RankMetrics
from sna_rl.agents.optimizer import ClippedAdam
from sna_rl.agents.policies import (
    SNADQNCnnPolicy,
    SNADQNMultiInputPolicy,
    SNADQNPolicy,
    SNASACCnnPolicy,
    SNASACMultiInputPolicy,
    SNASACPolicy,
    SNATD3CnnPolicy,
    SNATD3MultiInputPolicy,
    SNATD3Policy,
)
from sna_rl.agents.q_networks import DuelingQNetwork, MLPQNetwork, SeparableQNetwork

from sna_rl.agents.algorithms import ALGORITHMS, DQN, SAC, TD3  # isort: skip (they need the policies)

__all__ = [
    "ALGORITHMS",
    "DQN",
    "SAC",
    "TD3",
    "ClippedAdam",
    "CriticConfig",
    "DuelingQNetwork",
    "MLPCritic",
    "MLPQNetwork",
    "ModuleExtractor",
    "RankMetrics",
    "SNADQNCnnPolicy",
    "SNADQNMultiInputPolicy",
    "SNADQNPolicy",
    "SNASACCnnPolicy",
    "SNASACMultiInputPolicy",
    "SNASACPolicy",
    "SNATD3CnnPolicy",
    "SNATD3MultiInputPolicy",
    "SNATD3Policy",
    "SeparableCritic",
    "SeparableExtractor",
    "SeparableQNetwork",
    "SplineJointCritic",
]
