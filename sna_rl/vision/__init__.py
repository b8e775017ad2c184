"""Hyper-SET, a transformer whose layers minimise an energy on spheres, its baselines and its tasks."""
