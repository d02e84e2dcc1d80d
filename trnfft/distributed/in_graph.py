"""What graphs of torch.compile take whole, without a look inside: what exchanges numbers.

The graph that becomes of it has the operators of each device: transforms of its shard, as operators
of torch.library, and functional all-to-alls. Imported where code is compiled only, as it loads
torch's compiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from trnfft.distributed import convolution, shards, transforms


@torch.compiler.allow_in_graph
def transform(x: torch.Tensor, *asked: Any) -> Any:
    """As there, for these sizes alone: the route depends on them."""
    operation, sizes, *rest = asked
    with _compiling():
        return transforms.transform(x, transforms.Asked(operation, tuple(map(int, sizes)), *rest))


@torch.compiler.allow_in_graph
def convolve(*asked: Any) -> Any:
    """As in `convolution`."""
    with _compiling():
        return convolution.convolved(*asked)


@torch.compiler.allow_in_graph
def to_whole(along: tuple[int, ...], *parts: Any) -> Any:
    """As in `shards`."""
    with _compiling():
        return shards.to_whole(along, *parts)


@torch.compiler.allow_in_graph
def from_whole(along: tuple[int, ...], like: Any, *local: torch.Tensor) -> Any:
    """As in `shards`."""
    with _compiling():
        return shards.from_whole(along, like, *local)


@contextmanager
def _compiling() -> Iterator[None]:
    """What torch.compiler.is_compiling is False inside of such functions, and True around them."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before
