"""The loss of an iterated model: read out after every iteration, after the last, or after a random one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from sna_rl.vision.model import IterativeModel


def readout_loss(
    model: IterativeModel, inputs: Sequence[Any], loss: Callable[[Tensor], Tensor], loss_on: str
) -> tuple[Tensor, Tensor]:
    """Loss of a batch.

    all: the mean over the iterations; last; random: an iteration of the last layer, drawn from torch's
    generator, the ones after it not computed.

    Args:
        model: what is trained.
        inputs: what its embedding takes.
        loss: from an answer to a number.
        loss_on: all, last or random.

    Returns:
        The loss, and the last answer that was read.
    """
    if loss_on == "all":
        answers = [model.read(state) for state in model.states(*inputs)]
        return torch.stack([loss(answer) for answer in answers]).mean(), answers[-1]
    config = model.body.config
    n = config.n_iterations
    read_at = int(torch.randint(1, n + 1, ())) if loss_on == "random" else n
    states = islice(model.states(*inputs), (config.n_layers - 1) * n + read_at)
    *_, last = states
    answer = model.read(last)
    return loss(answer), answer
