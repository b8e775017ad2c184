"""Elementwise functions φ with their derivatives, for energies whose gradients need both."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Kernel(NamedTuple):
    """φ and φ'."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


def _sigmoid_slope(z: Tensor) -> Tensor:
    share = z.sigmoid()
    return share * (1.0 - share)


def _silu_slope(z: Tensor) -> Tensor:
    share = z.sigmoid()
    return share * (1.0 + z * (1.0 - share))


def _gelu_slope(z: Tensor) -> Tensor:
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2.0 * math.pi)
    share: Tensor = torch.special.ndtr(z)
    return share + z * density


def _elu_slope(z: Tensor) -> Tensor:
    return torch.exp(z.clamp_max(0.0))


KERNELS = {
    "identity": Kernel(lambda z: z, torch.ones_like),
    "sigmoid": Kernel(torch.sigmoid, _sigmoid_slope),
    "relu": Kernel(F.relu, lambda z: (z > 0.0).to(z.dtype)),
    "tanh": Kernel(torch.tanh, lambda z: 1.0 - z.tanh().square()),
    "softplus": Kernel(F.softplus, torch.sigmoid),
    "silu": Kernel(F.silu, _silu_slope),
    "gelu": Kernel(F.gelu, _gelu_slope),
    "elu": Kernel(F.elu, _elu_slope),
    "elu+1": Kernel(lambda z: F.elu(z) + 1.0, _elu_slope),
}
"""Name → function; a test holds every derivative to autograd."""
