"""What a model holds and what it costs: parameters, floating point operations."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def n_parameters(module: nn.Module) -> int:
    """Trained numbers of a module.

    Example:
        >>> n_parameters(nn.Linear(3, 2))
        8
    """
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def n_flops(module: nn.Module, *inputs: Any) -> int:
    """Floating point operations of matrix products in one forward pass, a product and a sum counted as two.

    Args:
        module: any module.
        *inputs: of one forward pass.

    Example:
        >>> n_flops(nn.Linear(3, 2), torch.zeros(5, 3))
        60
    """
    fused = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops}
    module = deepcopy(module).requires_grad_(False)  # the counter fails at a view of a trained parameter
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=fused) as counter:
        module(*inputs)
    return int(counter.get_total_flops())


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Operations of the processor's fused attention, which torch's counter does not know: both products."""
    batch, heads, tokens, size = query
    return int(2 * batch * heads * tokens * key[-2] * (size + value[-1]))
