"""Where units of work run: this machine, or a Ray cluster."""

from __future__ import annotations

from sna_rl.training.studies.workers import LocalPool, Pool


def make_pool(jobs: int, ray: str | None = None) -> Pool:
    """The pool that flags ask for.

    Args:
        jobs: units at once on this machine; on Ray, what the cluster's processors allow.
        ray: None for this machine; "auto" for the cluster it belongs to (else a new one here); or an address.

    Raises:
        UsageError: if `jobs` is below 1.
        MissingExtraError: if Ray is asked for and not installed.
        SnaError: if the cluster can't be reached.
    """
    if ray is None:
        return LocalPool(jobs)
    from sna_rl.training.studies.ray_pool import RayPool

    return RayPool(ray)
