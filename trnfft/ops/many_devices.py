"""Functions of tensors that many devices hold, for the files on which `trnfft.distributed` rests.

`trnfft.distributed` registers the functions here when it is imported. `trnfft` says how to import
it, which happens at the first call, because it loads DTensor.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from trnfft.complex.sharded import placement_of
from trnfft.complex.tensor import ComplexTensor
from trnfft.ops.operand import is_in_graph

Function = Callable[..., Any]

# Two functions of trnfft/__init__.py: for False, the import of trnfft.distributed, which fills
# FUNCTIONS; for True, the import of trnfft.distributed.run.in_graph, which fills IN_GRAPH.
LOAD: dict[bool, Callable[[], None]] = {}

FUNCTIONS: dict[str, Function] = {}
IN_GRAPH: dict[str, Function] = {}  # those that graphs of torch.compile call


def call(name: str, *arguments: object) -> Any:
    """Calls the function of this name: `transform`, `convolve`, `to_whole` or `from_whole`."""
    if is_in_graph():
        LOAD[True]()
        return IN_GRAPH[name](*arguments)
    LOAD[False]()
    return FUNCTIONS[name](*arguments)


def of_shards(
    function: Function,
    x: torch.Tensor | ComplexTensor,
    dims: Iterable[int],
    *arguments: object,
    **named: object,
) -> Any:
    """Calls `trnfft.distributed.run.shards.apply`, for a function along `dims` of a DTensor."""
    LOAD[False]()
    return FUNCTIONS["apply"](function, x, dims, *arguments, **named)


def takes_shards(layer: torch.nn.Module, is_sharded: bool) -> bool:
    """Returns whether a layer computes each shard of its input: of a DTensor, by whole parameters.

    With split parameters the layer computes DTensors, by torch's rules for operators.
    """
    if not is_sharded:
        return False
    placed = [placement_of(value) for value in (*layer.parameters(), *layer.buffers())]
    return all(p.is_replicate() for each in placed if each is not None for p in each[1])
