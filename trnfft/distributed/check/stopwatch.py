"""How long the operators of each kind take on this device, and what is sent to which process."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.distributed as dist

from trnfft.base.torch_private import (
    FakeTensor,
    OpOverload,
    TorchDispatchMode,
    resolve_process_group,
)

TRANSFORMS, EXCHANGE, COPIES = "transforms", "exchange", "copies"

# The last two join and split complex numbers, for backends that have them.
_COPYING = ("copy_", "clone", "_to_copy", "complex", "unbind_copy")


class Stopwatch(TorchDispatchMode):
    """A mode that waits for every operator of torch, times it, and adds the time to its kind.

    Attributes:
        seconds: by kind: transforms, with matrix products of which they may consist; exchange, with
            waiting for other processes, without what passes while this process computes; copies,
            which pack and unpack. Other operators have no kind.
        sent: bytes by process of the world, without this one.
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self.seconds = dict.fromkeys((TRANSFORMS, EXCHANGE, COPIES), 0.0)
        self.sent: Counter[int] = Counter()
        self._synchronize = synchronizer(device)

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        if any(issubclass(kind, FakeTensor) for kind in types):  # torch asks for a DTensor's shape
            return func(*args, **(kwargs or {}))
        if types:  # operators of DTensors and ComplexTensors come back as operators of their parts
            return NotImplemented
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        self._synchronize()
        kind = _kind(func)
        if kind:
            self.seconds[kind] += time.perf_counter() - start
        if func is torch.ops._c10d_functional.all_to_all_single.default:
            x, _, sent, group = cast("tuple[torch.Tensor, list[int], list[int], str]", args)
            ranks = dist.get_process_group_ranks(resolve_process_group(group))
            row = x[0].numel() * x.element_size() if x.shape[0] else 0
            for rank, count in zip(ranks, sent, strict=True):
                if rank != dist.get_rank() and count:
                    self.sent[rank] += count * row
        return result


def synchronizer(device: str) -> Callable[[], None]:
    """Returns a function that waits until a device has done all that it was asked for.

    Times are taken around this function: events of torch_neuronx return much the same time whatever
    runs.
    """
    if device == "cpu":
        return lambda: None
    synchronize: Callable[[], None] = getattr(torch, device).synchronize
    return synchronize


def _kind(func: OpOverload) -> str:
    namespace, name = func.namespace, func.__name__.split(".")[0]
    if "c10d" in namespace:
        return EXCHANGE
    if namespace == "trnfft" or name.startswith("_fft") or name.endswith("mm"):
        return TRANSFORMS
    return COPIES if name in _COPYING else ""
