"""Mixed quantisation for inference: constraint half in 16 bits, every other linear layer in 8."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sna_rl.language.arcade import CONSTRAINT

Model = TypeVar("Model", bound=nn.Module)
LARGEST = 127  # of a signed byte, used symmetrically
HEAD = "head"  # reads both halves; the constraint half's columns need the 16 bits


class Int8Linear(nn.Module):
    """Linear layer without bias whose weights are signed bytes, with a scale for each output.

    W_ij ≈ s_i · q_ij,  s_i = max_j |W_ij| / 127

    Args:
        linear: what is quantised.

    Example:
        >>> layer = Int8Linear(nn.Linear(4, 3, bias=False))
        >>> layer.weight.dtype, layer(torch.zeros(2, 4)).shape
        (torch.int8, torch.Size([2, 3]))
    """

    weight: Tensor
    scale: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        scale = weight.abs().amax(1).clamp_min(torch.finfo(weight.dtype).tiny) / LARGEST
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale)

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """Outputs; the bytes are made floats for the product."""
        return nn.functional.linear(x, self.weight.to(x.dtype)) * self.scale.to(x.dtype)


class HalfLinear(nn.Module):
    """Linear layer without bias whose weights are kept in 16 bits.

    Args:
        linear: what is rounded.
    """

    weight: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.register_buffer("weight", linear.weight.detach().half())

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """Outputs, the product in the precision of `x`."""
        return nn.functional.linear(x, self.weight.to(x.dtype))


def quantized(model: Model) -> Model:
    """A copy for inference: linear layers of the constraint half and the head in 16 bits, others in 8.

    A model without halves has its head in 16 bits and all other linear layers in 8. Norms, embeddings and
    splines stay as they are.

    Args:
        model: any model whose linear layers have no bias.

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU())
        >>> size_in_bytes(model), size_in_bytes(quantized(model))
        (256, 96)
    """
    small = copy.deepcopy(model).requires_grad_(False)
    for name, module in list(small.named_modules()):
        if isinstance(module, nn.Linear):
            precise = CONSTRAINT in name or name == HEAD
            parent = small.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], HalfLinear(module) if precise else Int8Linear(module))
    return small


def size_in_bytes(model: nn.Module) -> int:
    """Bytes of all that a model's file holds."""
    return sum(value.numel() * value.element_size() for value in model.state_dict().values())
