"""What a separable network is made of: its arguments checked once and filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int, check_name
from sna_rl.separable.factors import FactorConfig

FORMS = ("additive", "cp", "tucker")


@dataclass(frozen=True)
class Layout:
    """Checked arguments of a separable network, one entry a mode where modes may differ.

    Args:
        modes: size of each mode's input.
        ranks: number of components of each mode.
        form: additive, cp or tucker.
        factors: family and sizes of each mode's factor.
        orders: highest interaction order (cp), or None for the one product over all modes.
        branch_width: hidden size of separate main effect networks, or None.
    """

    modes: tuple[int, ...]
    ranks: tuple[int, ...]
    form: str
    factors: tuple[FactorConfig, ...]
    orders: int | None
    branch_width: int | None

    @classmethod
    def of(
        cls,
        modes: Sequence[int],
        rank: int | Sequence[int],
        form: str = "cp",
        factor: FactorConfig | Sequence[FactorConfig] | None = None,
        orders: int | None = None,
        branch_width: int | None = None,
    ) -> Layout:
        """Check the arguments of a network and fill in what they leave open.

        Raises:
            UsageError: if a size, rank, order or name can't be used.

        Example:
            >>> Layout.of([17, 6], rank=4).ranks
            (4, 4)
        """
        check_name("form", form, FORMS)
        sizes = tuple(check_int("each of modes", size, 1) for size in modes)
        if not sizes:
            raise UsageError("modes must name at least one mode's size, not none")
        if branch_width is not None:
            check_int("branch_width", branch_width, 1)
        if isinstance(rank, Sequence) and not isinstance(rank, str):
            if form != "tucker":
                raise UsageError(
                    f"form {form!r} has one rank, an int, not {rank!r}; form 'tucker' takes several"
                )
            ranks = tuple(check_int("each of rank", value, 1) for value in rank)
        else:
            ranks = (check_int("rank", rank, 1),) * len(sizes)
        factors = (
            (factor or FactorConfig(),) * len(sizes) if not isinstance(factor, Sequence) else tuple(factor)
        )
        for name, given in (("rank", ranks), ("factor", factors)):
            if len(given) != len(sizes):
                raise UsageError(
                    f"{name} must have one entry for each of {len(sizes)} modes, not {len(given)}"
                )
        if orders is not None:
            if form != "cp":
                raise UsageError(
                    f"orders belongs to form 'cp'; form {form!r} takes orders=None, not {orders!r}"
                )
            if check_int("orders", orders, 1) > len(sizes):
                raise UsageError(f"orders must be at most the number of modes, {len(sizes)}, not {orders}")
        return cls(sizes, ranks, form, factors, orders, branch_width)

    @property
    def order(self) -> int:
        """Most modes that meet in a term; 1 where none meet."""
        if self.form == "additive":
            return 1
        return len(self.modes) if self.orders is None else self.orders

    @property
    def interacts(self) -> bool:
        """Whether there are components at all."""
        return self.form != "additive" and self.orders != 1
