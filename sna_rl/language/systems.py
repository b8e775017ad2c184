"""Chaotic systems on a ring: Lorenz-96 and Kuramoto–Sivashinsky, integrated in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from sna_rl.separable.checks import check_int, check_name

SYSTEMS = ("lorenz96", "kuramoto-sivashinsky")
FORCING = 8.0  # F of Lorenz-96
SAVE_EVERY = 0.05  # time units between two states of Lorenz-96
SUB_STEPS = 5  # Runge–Kutta steps between them
LENGTH = 22.0  # of the ring of Kuramoto–Sivashinsky
KS_STEP = 0.25  # time units of an integration step
KS_SUB_STEPS = 4  # steps between two states
CONTOUR = 32  # points of the circle that the coefficients are averaged over
SPIN_UP = 400  # states left out at the start of a trajectory
SIZES = {"lorenz96": 40, "kuramoto-sivashinsky": 64}

State = Float[Tensor, "batch size"]


def lorenz96_tendency(x: State, forcing: float = FORCING) -> State:
    """dx_i/dt = (x_{i+1} − x_{i−2}) x_{i−1} − x_i + F on a ring.

    Args:
        x: states.
        forcing: F; chaotic from about 6.

    Source:
        Lorenz 1996.

    Example:
        >>> lorenz96_tendency(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), 8.0)
        tensor([[ 3.,  5., 11.,  1.]])
    """
    return (x.roll(-1, -1) - x.roll(2, -1)) * x.roll(1, -1) - x + forcing


def runge_kutta(tendency: Callable[[State], State], x: State, step: float) -> State:
    """One step of the classic fourth-order Runge–Kutta method.

    Args:
        tendency: dx/dt.
        x: states.
        step: time units.

    Example:
        >>> float(runge_kutta(lambda x: -x, torch.ones(1, 1).double(), 0.1)) - math.exp(-0.1) < 1e-7
        True
    """
    a = tendency(x)
    b = tendency(x + step / 2 * a)
    c = tendency(x + step / 2 * b)
    d = tendency(x + step * c)
    return x + step / 6 * (a + 2 * b + 2 * c + d)


class KuramotoSivashinsky:
    """u_t = −u u_x − u_xx − u_xxxx on a ring, by exponential time differencing in Fourier space.

    Args:
        size: grid points.
        step: time units of a step.
        length: of the ring.

    Source:
        Kassam and Trefethen 2005 (ETDRK4, coefficients by contour integrals).
    """

    def __init__(self, size: int, step: float = KS_STEP, length: float = LENGTH) -> None:
        self.size = size
        wave = 2 * math.pi / length * torch.arange(size // 2 + 1, dtype=torch.float64)
        linear = wave**2 - wave**4
        self.whole, self.half = (step * linear).exp(), (step / 2 * linear).exp()
        angles = math.pi * (torch.arange(CONTOUR, dtype=torch.float64) + 0.5) / CONTOUR
        z = step * linear[:, None] + torch.polar(torch.ones_like(angles), angles)
        e = z.exp()
        self.q = step * ((z / 2).exp().sub(1) / z).real.mean(1)
        self.f = [
            step * (value / z**3).real.mean(1)
            for value in (
                -4 - z + e * (4 - 3 * z + z**2),
                2 + z + e * (z - 2),
                -4 - 3 * z - z**2 + e * (4 - z),
            )
        ]
        kept = torch.arange(size // 2 + 1) <= size // 3  # no aliasing from the square
        self.slope = torch.where(kept, -0.5j * wave, 0.0)

    def __call__(self, u: State) -> State:
        """States one step later."""
        v = torch.fft.rfft(u)
        nv = self._nonlinear(v)
        a = self.half * v + self.q * nv
        na = self._nonlinear(a)
        b = self.half * v + self.q * na
        nb = self._nonlinear(b)
        c = self.half * a + self.q * (2 * nb - nv)
        nc = self._nonlinear(c)
        v = self.whole * v + self.f[0] * nv + 2 * self.f[1] * (na + nb) + self.f[2] * nc
        later: Tensor = torch.fft.irfft(v, self.size)
        return later

    def _nonlinear(self, v: Tensor) -> Tensor:
        """−u u_x in Fourier space."""
        product: Tensor = self.slope * torch.fft.rfft(torch.fft.irfft(v, self.size).square())
        return product


def advancer(system: str) -> Callable[[State], State]:
    """From states to those one saved step later.

    Args:
        system: "lorenz96" (every 0.05 time units) or "kuramoto-sivashinsky" (every time unit).

    Raises:
        UsageError: if the system is unknown.

    Example:
        >>> rest = torch.full((1, 40), FORCING, dtype=torch.float64)
        >>> bool((advancer("lorenz96")(rest) == rest).all())
        True
    """
    check_name("system", system, SYSTEMS)
    scheme = KuramotoSivashinsky(SIZES["kuramoto-sivashinsky"])

    def lorenz96(x: State) -> State:
        for _ in range(SUB_STEPS):
            x = runge_kutta(lorenz96_tendency, x, SAVE_EVERY / SUB_STEPS)
        return x

    def kuramoto_sivashinsky(x: State) -> State:
        for _ in range(KS_SUB_STEPS):
            x = scheme(x)
        return x

    return lorenz96 if system == "lorenz96" else kuramoto_sivashinsky


def trajectories(
    system: str, n_trajectories: int, n_states: int, *, seed: int
) -> Float[Tensor, "trajectories states size"]:
    """Independent trajectories on the attractor.

    Args:
        system: "lorenz96" (40 variables, F = 8, every 0.05 time units) or "kuramoto-sivashinsky" (64 points,
            length 22, every time unit).
        n_trajectories: how many, from independent starts.
        n_states: states of each, after 400 that are left out.
        seed: of the starts.

    Raises:
        UsageError: if the system is unknown or a number too small.

    Example:
        >>> trajectories("lorenz96", 2, 3, seed=0).shape
        torch.Size([2, 3, 40])
    """
    advance = advancer(system)
    check_int("n_trajectories", n_trajectories, 1)
    check_int("n_states", n_states, 1)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n_trajectories, SIZES[system], generator=generator, dtype=torch.float64)
    x = x + FORCING if system == "lorenz96" else x - x.mean(1, keepdim=True)
    states = []
    for number in range(SPIN_UP + n_states):
        x = advance(x)
        if number >= SPIN_UP:
            states.append(x)
    return torch.stack(states, 1).float()
