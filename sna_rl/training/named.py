"""Classes that a configuration names in text; `RunConfig` has checked already that it may name them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from sna_rl.errors import UsageError, suggestion

SHORT = {"nn": "torch.nn", "optim": "torch.optim"}


def import_packages(packages: Sequence[str]) -> None:
    """Import the modules that register a user's environments.

    Args:
        packages: dotted names, as given with `--gym-packages`.

    Raises:
        UsageError: if one can't be imported.

    Example:
        >>> import_packages(["json"])
    """
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise UsageError(f"--gym-packages names {package!r}, which can't be imported: {error}") from error


def load_class(name: str, kind: type) -> Any:
    """Import a class by its dotted name.

    Args:
        name: `module.Class`; `nn.` and `optim.` stand for torch's modules.
        kind: base class that the named class must have.

    Returns:
        The class.

    Raises:
        UsageError: if the module can't be imported, or the name is no such class.

    Example:
        >>> from gymnasium import Wrapper
        >>> load_class("gymnasium.wrappers.TimeAwareObservation", Wrapper).__name__
        'TimeAwareObservation'
    """
    module, _, attribute = name.rpartition(".")
    try:
        loaded = importlib.import_module(SHORT.get(module, module))
    except ImportError as error:
        raise UsageError(f"{name!r} can't be imported: {error}") from error
    found: Any = getattr(loaded, attribute, None)
    if isinstance(found, type) and issubclass(found, kind):
        return found
    classes = [
        key for key, value in vars(loaded).items() if isinstance(value, type) and issubclass(value, kind)
    ]
    raise UsageError(f"{name!r} is no {kind.__name__}{suggestion(attribute, classes) if classes else ''}")
