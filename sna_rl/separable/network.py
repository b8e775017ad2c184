"""Separable networks: functions of several modes that meet in few, visible places."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from sna_rl.errors import UsageError
from sna_rl.separable.checks import check_int
from sna_rl.separable.factors import FactorConfig
from sna_rl.separable.families import Factor, LinearFactor, make_factor
from sna_rl.separable.forms import Bilinear, Part, make_interaction
from sna_rl.separable.initial import InitConfig
from sna_rl.separable.layout import Layout


class SeparableNetwork(nn.Module):
    """K separable functions of N modes, evaluated as one batched computation.

    f(x_1 … x_N) = b + Σ_n g_n(x_n) + Σ_{S, 2 ≤ |S| ≤ k} Σ_r λ_{|S|,r} Π_{n∈S} φ_r^(n)(x_n) / √R

    - additive: no interaction, f = b + Σ_n g_n. Its best action is the same in every state.
    - cp, orders None: one product over all modes, Σ_r λ_r Π_n φ_r^(n) / √R.
    - cp, orders k: every interaction of 2 … k modes, factors shared by all of them.
    - tucker: Σ G[r_1 … r_N] Π_n φ_{r_n}^(n) / √(Π_n R_n).

    The main effects g_n come from networks of their own with one hidden layer (`branch_width`), or
    from each factor as one extra output. All inputs of `forward` are of one batch; `encode` reads
    only some modes, so a part is computed once and met with many others (`combine`, `table`).

    Args:
        modes: size of each mode's input; for a table factor, its number of values.
        rank: R; for tucker also one rank for each mode.
        form: additive, cp or tucker.
        factor: family and sizes of the factors, one for all modes or one for each.
        orders: None, or the highest interaction order k (cp).
        branch_width: hidden size of the separate main effect networks, or None. A table's main
            effect is always a column of its own.
        init: scaled or paper, or an InitConfig.
        n_members: K, independent functions with different draws.

    Raises:
        UsageError: if a size, rank, order or name can't be used.

    Cost:
        One `baddbmm` a layer for all members; `n_parameters` counts the parameters.

    Example:
        >>> critic = SeparableNetwork([17, 6], rank=32, n_members=2)
        >>> states, actions = torch.randn(5, 17), torch.rand(9, 6) * 2 - 1
        >>> critic([states, actions[:5]]).shape
        torch.Size([2, 5])
        >>> critic.table(critic.encode([states], [0]), critic.encode([actions], [1])).shape
        torch.Size([2, 5, 9])
    """

    def __init__(
        self,
        modes: Sequence[int],
        rank: int | Sequence[int],
        form: str = "cp",
        factor: FactorConfig | Sequence[FactorConfig] = FactorConfig(),  # noqa: B008 (frozen)
        orders: int | None = None,
        branch_width: int | None = None,
        init: str | InitConfig = "scaled",
        n_members: int = 1,
    ) -> None:
        super().__init__()
        self.layout = layout = Layout.of(modes, rank, form, factor, orders, branch_width)
        config = init if isinstance(init, InitConfig) else InitConfig(init)
        self.n_members = check_int("n_members", n_members, 1)
        factors = [
            make_factor(n_members, size, rank_n, factor_n, layout.interacts, branch_width)
            for size, rank_n, factor_n in zip(layout.modes, layout.ranks, layout.factors, strict=True)
        ]
        self.factors = nn.ModuleList(factors)
        self.interaction = make_interaction(n_members, layout)
        self.bias = nn.Parameter(torch.zeros(n_members, 1))
        if config.name == "paper":
            self._initialise_as_published()
        else:
            effect_std = config.std / math.sqrt(len(factors))
            for network, input_std in zip(factors, config.stds(len(factors)), strict=True):
                network.initialise(input_std, effect_std)
            self.interaction.initialise([network.moments for network in factors], config.std)

    def forward(self, inputs: Sequence[Shaped[Tensor, ...]]) -> Float[Tensor, "K batch"]:
        """Values of a batch: one tensor for each mode, (batch, size) or one each member (K, batch, size)."""
        half = (len(self.factors) + 1) // 2
        left, right = range(half), range(half, len(self.factors))
        return self.combine(self.encode(inputs[:half], left), self.encode(inputs[half:], right))

    def encode(self, inputs: Sequence[Shaped[Tensor, ...]], modes: Sequence[int]) -> Part:
        """Evaluate some modes alone.

        Args:
            inputs: one tensor for each of `modes`; indices (integers) for a table.
            modes: positions of these modes in the network's list, each once.

        Returns:
            Their main effects and products, to be met with those of all other modes.

        Cost:
            The factor networks of these modes, once a row.

        Example:
            >>> network = SeparableNetwork([3, 2, 2], rank=4)
            >>> network.encode([torch.zeros(5, 3), torch.zeros(5, 2)], [0, 2]).terms.shape
            torch.Size([1, 5, 4])
        """
        if not modes:
            return Part(torch.zeros_like(self.bias), self.interaction.empty(self.bias), ())
        outputs = [self.factors[mode](x) for mode, x in zip(modes, inputs, strict=True)]
        effect = outputs[0].effect
        for output in outputs[1:]:
            effect = effect + output.effect
        return Part(effect, self.interaction.terms([output.components for output in outputs]), tuple(modes))

    def bilinear(self, left: Part, right: Part) -> Bilinear:
        """Two parts that hold all modes between them, as a bilinear form.

        f[i, j] = rows_i + columns_j + Σ_p left_ip right_jp

        Args:
            left: part of n rows.
            right: part of m rows, with all the modes that `left` lacks.

        Returns:
            Rows (K, n), columns (K, m), and the factor matrices (K, n, p) and (K, m, p) of the
            interaction, weights absorbed: p = R for one product, fewer than k · R for orders up
            to k, the smaller number of products for tucker, 0 for additive.

        Raises:
            UsageError: if a mode is missing or stands in both parts.

        Example:
            >>> network = SeparableNetwork([3, 2], rank=4)
            >>> state = network.encode([torch.zeros(5, 3)], [0])
            >>> network.bilinear(state, network.encode([torch.zeros(7, 2)], [1])).right.shape
            torch.Size([1, 7, 4])
        """
        if sorted((*left.modes, *right.modes)) != list(range(len(self.factors))):
            raise UsageError(
                f"two parts must hold each of the {len(self.factors)} modes once, "
                f"not {left.modes} and {right.modes}"
            )
        form = self.interaction.bilinear(left, right)
        return form._replace(rows=form.rows + self.bias)

    def combine(self, left: Part, right: Part) -> Float[Tensor, "K batch"]:
        """Values where row i of one part meets row i of the other; a part of one row meets them all."""
        form = self.bilinear(left, right)
        return form.rows + form.columns + (form.left * form.right).sum(-1)

    def table(self, left: Part, right: Part) -> Float[Tensor, "K n m"]:
        """Values where every row of one part meets every row of the other.

        Cost:
            One product (n × p)(p × m) for each member; no factor network is evaluated.
        """
        form = self.bilinear(left, right)
        return torch.baddbmm(form.columns.unsqueeze(1), form.left, form.right.mT) + form.rows.unsqueeze(2)

    def interaction_parameters(self) -> Iterator[nn.Parameter]:
        """Parameters that the interaction alone reads; a tower shared with a main effect is in no list."""
        if self.layout.interacts:
            yield from self.interaction.parameters()
            yield from self._owned(0)

    def branch_parameters(self) -> Iterator[nn.Parameter]:
        """Parameters that the main effects alone read."""
        if self.layout.interacts:
            yield from self._owned(1)
        else:
            yield from self.factors.parameters()

    def member_state(self, index: int) -> dict[str, Tensor]:
        """Parameters of one member: `load_state_dict` of the same network with n_members=1 takes them.

        Example:
            >>> pair, single = SeparableNetwork([3, 2], rank=4, n_members=2), SeparableNetwork([3, 2], rank=4)
            >>> single.load_state_dict(pair.member_state(1))
            <All keys matched successfully>
        """
        return {name: value[index].unsqueeze(0).clone() for name, value in self.state_dict().items()}

    def _owned(self, which: int) -> Iterator[nn.Parameter]:
        for factor in self.factors:
            assert isinstance(factor, Factor)
            for module in factor.owned()[which]:
                yield from module.parameters()

    @torch.no_grad()
    def _initialise_as_published(self) -> None:
        """Orthogonal factors; main effects and output layer as `nn.Linear` draws them."""
        if self.layout.form != "cp" or any(factor.kind != "linear" for factor in self.layout.factors):
            raise UsageError(
                "init 'paper' is for form 'cp' with linear factors alone; init 'scaled' suits all"
            )
        for module in self.factors.modules():
            if isinstance(module, LinearFactor):
                for weight in module.layer.weight:
                    nn.init.orthogonal_(weight)
        bound = 1.0 / math.sqrt(self.layout.ranks[0])
        for parameter in (*self.interaction.parameters(), self.bias):
            nn.init.uniform_(parameter, -bound, bound)
