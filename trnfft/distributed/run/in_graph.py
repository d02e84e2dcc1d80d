"""Functions that exchange numbers, which graphs of torch.compile call without looking inside.

The resulting graph has the operators of each device: transforms of its shard, as operators of
torch.library, and functional all-to-alls. This module loads torch's compiler, and is imported only
where code is compiled.
"""

from __future__ import annotations

from typing import Any

import torch

from trnfft.backends.backend import Call
from trnfft.base.torch_private import compiling
from trnfft.distributed.run import convolution, shards, transforms
from trnfft.ops import many_devices


@torch.compiler.allow_in_graph
def transform(x: torch.Tensor, call: Call, *placements: Any) -> Any:
    """Calls `transforms.transform` for these sizes only, because the route depends on them."""
    with compiling():
        call = call._replace(sizes=tuple(map(int, call.sizes)))
        return transforms.transform(x, call, *placements)


@torch.compiler.allow_in_graph
def convolve(*asked: Any) -> Any:
    """Calls `convolution.convolved`."""
    with compiling():
        return convolution.convolved(*asked)


@torch.compiler.allow_in_graph
def to_whole(along: tuple[int, ...], *parts: object) -> Any:
    """Calls `shards.to_whole`."""
    with compiling():
        return shards.to_whole(along, *parts)


@torch.compiler.allow_in_graph
def from_whole(along: tuple[int, ...], like: torch.Tensor, *local: torch.Tensor) -> Any:
    """Calls `shards.from_whole`."""
    with compiling():
        return shards.from_whole(along, like, *local)


many_devices.IN_GRAPH.update(
    transform=transform, convolve=convolve, to_whole=to_whole, from_whole=from_whole
)
