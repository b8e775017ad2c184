"""A compiled update recorded once as a CUDA graph and replayed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sna_rl.agents.fused.graph import Graph


class CapturedGraph:
    """All kernels of an update launched by one call: on a card, small kernels cost less than their launches.

    The state's tensors are recorded by their addresses, so a recording ends with the tensors it was made for.
    Inputs are copied into tensors of its own. Recording runs nothing: the state stays as it is.

    Args:
        graph: compiled, and run once already, so that its kernels are loaded.
        state: tensors that it changes in place.
        inputs: batch, noise and scalars with the shapes of every later call.

    Raises:
        RuntimeError: torch's, where something in the graph can't be recorded.

    Source:
        Rennie et al., "Accelerating PyTorch with CUDA Graphs", 2021.
    """

    def __init__(self, graph: Graph, state: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        self.inputs = [tensor.clone() for tensor in inputs]
        self.recording = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.no_grad(), torch.cuda.graph(self.recording):
            self.output = graph(*state, *self.inputs)

    def __call__(self, inputs: Sequence[Tensor]) -> Tensor:
        """Run the update on other inputs.

        Args:
            inputs: as at the recording, other values.

        Returns:
            The graph's statistics, a tensor of their own.
        """
        for own, given in zip(self.inputs, inputs, strict=True):
            own.copy_(given)
        self.recording.replay()
        return self.output.clone()
