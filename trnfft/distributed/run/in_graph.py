"""Functions that exchange numbers, which graphs of torch.compile call without looking inside.

The resulting graph has the operators of each device: transforms of its shard, as operators of
torch.library, and functional all-to-alls. This module loads torch's compiler, and is imported only
where code is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.distributed.tensor.placement_types import Placement

from trnfft.backends.backend import Call
from trnfft.base.torch_private import compiling
from trnfft.distributed.run import convolution, shards, transforms
from trnfft.ops import many_devices

Result = TypeVar("Result")


def _transform(x: torch.Tensor, call: Call, placements: tuple[Placement, ...] | None = None) -> Any:
    """Calls `transforms.transform` for these sizes only, because the route depends on them."""
    call = call._replace(sizes=tuple(map(int, call.sizes)))
    return transforms.transform(x, call, placements)


def _in_graph(function: Callable[..., Result]) -> Callable[..., Result]:
    @torch.compiler.allow_in_graph
    def called(*arguments: object) -> Result:
        with compiling():
            return function(*arguments)

    return called


many_devices.IN_GRAPH.update(
    transform=_in_graph(_transform),
    convolve=_in_graph(convolution.convolved),
    to_whole=_in_graph(shards.to_whole),
    from_whole=_in_graph(shards.from_whole),
)
