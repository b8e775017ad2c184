"""Reinforcement learning with separable neural critics: networks whose interaction order and rank are dials.

Importing the package loads nothing heavy; see `sna_rl.agents`, `sna_rl.envs` and `sna_rl.separable`.
"""

__version__ = "0.1.0"
