"""B-spline atoms: the published values, the renormalised basis, the product."""

from __future__ import annotations

from functools import reduce

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sna_rl.separable.splines import SplineAtoms, quadratic_bspline, spline_basis


def published(u: float) -> float:
    """The quadratic B-spline by its three cases."""
    if u < 0.5:
        return 0.75 - u * u
    return (1.5 - u) ** 2 / 2 if u < 1.5 else 0.0


@given(u=st.floats(0.0, 3.0))
def test_bspline_equals_its_three_cases(u: float) -> None:
    value = quadratic_bspline(torch.tensor(u, dtype=torch.float64))
    assert value.item() == pytest.approx(published(u), abs=1e-15)


@pytest.mark.parametrize("u", [0.2, 0.5, 0.9, 1.5, 2.0])
def test_bspline_slope(u: float) -> None:
    at = torch.tensor(u, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(quadratic_bspline(at), at)
    assert slope.item() == pytest.approx(-2 * u if u <= 0.5 else min(u - 1.5, 0.0))


@given(z=st.floats(0.0, 1.0), n_knots=st.integers(2, 20))
def test_basis_sums_to_one_everywhere(z: float, n_knots: int) -> None:
    slope = torch.tensor(n_knots - 1.0, dtype=torch.float64)
    basis = spline_basis(torch.tensor(z, dtype=torch.float64), slope, n_knots)
    assert basis.sum().item() == pytest.approx(1.0, abs=1e-12)
    assert (basis >= 0).all()


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_basis_at_the_ends_by_hand(end: float) -> None:
    # At a knot: 3/4 there, 1/8 on its one neighbour, 7/8 in all before the division.
    basis = spline_basis(torch.tensor(end), torch.tensor(4.0), 5)
    expected = torch.tensor([6 / 7, 1 / 7, 0.0, 0.0, 0.0])
    torch.testing.assert_close(basis, expected if end == 0.0 else expected.flip(0))


def test_basis_inside_by_hand() -> None:
    basis = spline_basis(torch.tensor([0.5, 0.375]), torch.tensor(4.0), 5)
    torch.testing.assert_close(basis[0], torch.tensor([0.0, 0.125, 0.75, 0.125, 0.0]))
    torch.testing.assert_close(basis[1], torch.tensor([0.0, 0.5, 0.5, 0.0, 0.0]))


def test_basis_between_knots_of_a_steep_spline_is_finite() -> None:
    z = torch.tensor(0.5, requires_grad=True)
    basis = spline_basis(z, torch.tensor(1000.0), 2)
    (slope,) = torch.autograd.grad(basis.sum(), z)
    assert torch.equal(basis.detach(), torch.zeros(2))
    assert slope.isfinite()


@pytest.mark.parametrize("n_coordinates", [1, 2, 3, 5, 8])
def test_atoms_equal_the_product_of_sums(n_coordinates: int) -> None:
    atoms = SplineAtoms(2, n_coordinates, n_knots=4, rank=3).double()
    torch.nn.init.normal_(atoms.coefficients)
    torch.nn.init.uniform_(atoms.slopes, 2.0, 4.0)
    z = torch.rand(2, 5, n_coordinates, dtype=torch.float64, requires_grad=True)
    splines = [
        [
            spline_basis(z[k, :, d], atoms.slopes[k, d], 4) @ atoms.coefficients[k, d]
            for d in range(n_coordinates)
        ]
        for k in range(2)
    ]
    expected = torch.stack([reduce(torch.mul, member) for member in splines])
    inputs = [z, atoms.slopes, atoms.coefficients]
    actual = atoms(z)
    torch.testing.assert_close(actual, expected)
    ours = torch.autograd.grad(actual.square().sum(), inputs)
    theirs = torch.autograd.grad(expected.square().sum(), inputs)
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left, right)


def test_saturated_coordinates_do_not_shrink_the_product() -> None:
    atoms = SplineAtoms(1, n_coordinates=32, n_knots=8, rank=2)
    torch.nn.init.ones_(atoms.coefficients)
    torch.testing.assert_close(atoms(torch.ones(1, 1, 32)), torch.ones(1, 1, 2))
