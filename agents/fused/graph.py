"""Tracing, lowering of precision, and compiling of tensor functions."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

Graph = Callable[..., Tensor]

LOGGER = logging.getLogger(__name__)
aten = torch.ops.aten
PRODUCTS = (aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default)
LEAST_BF16 = 64
"""Products with fewer inner terms or outputs keep float32: they cost little and carry the Q-values."""


def traced(function: Callable[..., Tensor], tensors: Sequence[Tensor]) -> fx.GraphModule:
    """The tensor operations of a function, gradients and changes in place included.

    Args:
        function: of tensors alone; what it reads beside them is frozen into the graph.
        tensors: arguments with the shapes and kinds of number to trace for; not changed.

    Returns:
        A module of the same arguments.

    Example:
        >>> traced(lambda x: x.sin(), [torch.zeros(2)])(torch.zeros(3))
        tensor([0., 0., 0.])
    """
    with torch.no_grad():
        graph = make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*tensors)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def use_bfloat16(graph: fx.GraphModule) -> None:
    """Round the inputs of every large matrix product to bfloat16; the rest stays as it is.

    Args:
        graph: changed in place.

    Example:
        >>> graph = traced(lambda x: x @ x, [torch.ones(64, 64)])
        >>> use_bfloat16(graph)
        >>> graph(torch.full((64, 64), 1.001))[0, 0].item()
        64.0
    """
    for node in list(graph.graph.nodes):
        if node.target not in PRODUCTS:
            continue
        left, right = node.args[-2], node.args[-1]
        n_inner, n_outputs = right.meta["val"].shape[-2:]
        n_rows = left.meta["val"].shape[-2]
        if min(n_inner, n_outputs, n_rows) < LEAST_BF16:
            continue
        kind = node.meta["val"].dtype
        with graph.graph.inserting_before(node):
            args = [_cast(graph, argument, torch.bfloat16) for argument in node.args]
        node.args = tuple(args)
        with graph.graph.inserting_after(node):
            result = graph.graph.call_function(aten._to_copy.default, (node,), {"dtype": kind})
        node.replace_all_uses_with(result, delete_user_cb=lambda user, result=result: user is not result)
    graph.graph.lint()
    graph.recompile()


def _cast(graph: fx.GraphModule, argument: Any, kind: torch.dtype) -> fx.Node:
    return graph.graph.call_function(aten._to_copy.default, (argument,), {"dtype": kind})


def compiled(graph: fx.GraphModule, tensors: Sequence[Tensor], name: str) -> Graph | None:
    """Compile a graph and run it once on copies of its arguments.

    The graph is called with the same number, shapes and kinds of tensors for ever, so Inductor compiles it as
    it stands: the guards that Dynamo would check at every call cost a tenth of a small update. On a CPU the
    calls between the kernels are compiled too.

    Args:
        graph: what `traced` returns.
        tensors: its arguments; not changed.
        name: what it is, for the line that says what is waited for.

    Returns:
        The compiled graph, or None, with one line, where it can't be compiled.
    """
    from torch._dynamo.exc import BackendCompilerFailed
    from torch._inductor import standalone_compile
    from torch._inductor.exc import InductorError

    use_private_cache()
    LOGGER.warning("compiling %s: about half a minute the first time, seconds when it is cached", name)
    on_cpu = all(tensor.device.type == "cpu" for tensor in tensors)
    copies: list[Any] = [tensor.clone() for tensor in tensors]
    try:
        with torch.no_grad():
            run: Graph = standalone_compile(
                graph,
                copies,
                dynamic_shapes="from_example_inputs",
                options={"config_patches": {"cpp_wrapper": on_cpu}},
            )
            run(*copies)
    except (InductorError, BackendCompilerFailed) as error:
        cause = str(error).strip().splitlines()
        LOGGER.warning(
            "%s is not compiled and runs eagerly: %s", name, cause[0] if cause else type(error).__name__
        )
        return None
    return run


def use_private_cache() -> None:
    """Keep compiled code in the user's cache folder, unless TORCHINDUCTOR_CACHE_DIR names another."""
    if "TORCHINDUCTOR_CACHE_DIR" in os.environ:
        return
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "sna-rl" / "inductor"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
