"""Frozen, validated run configuration: RL Zoo's YAML and flags in, exact YAML out, nothing evaluated."""

from sna_rl.config.importables import check_importable, check_trusted
from sna_rl.config.keys import ALGORITHMS, CRITICS, HYPERPARAMETERS, POLICY_KEYS
from sna_rl.config.literals import parse_pairs, parse_value
from sna_rl.config.plain import ABSENT, merge, plain
from sna_rl.config.resolve import resolve
from sna_rl.config.rules import named_items
from sna_rl.config.run import RunConfig, diff
from sna_rl.config.schedules import parse_schedule
from sna_rl.config.yaml import dump_yaml, parse_yaml, read_yaml, write_yaml

__all__ = [
    "ABSENT",
    "ALGORITHMS",
    "CRITICS",
    "HYPERPARAMETERS",
    "POLICY_KEYS",
    "RunConfig",
    "check_importable",
    "check_trusted",
    "diff",
    "dump_yaml",
    "merge",
    "named_items",
    "parse_pairs",
    "parse_schedule",
    "parse_value",
    "parse_yaml",
    "plain",
    "read_yaml",
    "resolve",
    "write_yaml",
]
