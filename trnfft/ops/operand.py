"""The operand of an operation: its numbers, and all that is asked about them and around them, once.

A function that users call makes an `Operand` of its argument and hands the record down. What
computes below reads the fields and asks nobody again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from trnfft.backends.choice import named
from trnfft.base import config
from trnfft.base.devices import backend_for, execution_on, has_native
from trnfft.base.torch_private import is_tracing, len_torch_dispatch_stack
from trnfft.complex.parts import Values, described, is_sharded, join_to_read, native_of, values_of
from trnfft.complex.tensor import ComplexTensor

Mode = Literal["eager", "traced", "compiled", "exported"]
"""What runs the operations: torch itself, torch.jit.trace, torch.compile or torch.export."""


@dataclass(eq=False)  # Dynamo of torch 2.9 knows no properties of named tuples
class Operand:
    """Numbers to compute with, which nothing changes.

    Attributes:
        parts: both parts of a ComplexTensor, or another tensor alone: a native or real one, or one
            of many devices.
        is_sharded: whether it is a DTensor, or a ComplexTensor of DTensors.
        mode: what runs the operations.
        backend: the name of the backend; "" for shards, and in a graph, which reads it as it runs.
        precision: the precision, or "" as for the backend.
        has_native: whether the device and the backend give native complex tensors.
    """

    parts: Values
    is_sharded: bool
    mode: Mode
    backend: str
    precision: str
    has_native: bool

    @property
    def like(self) -> torch.Tensor:
        """A tensor with the shape and the device of the numbers."""
        part = self.parts[0]
        return described(part) if self.is_sharded else part  # whose attributes are read faster

    @property
    def is_complex(self) -> bool:
        """Whether the numbers are complex."""
        return len(self.parts) == 2 or self.parts[0].is_complex()

    @property
    def is_in_graph(self) -> bool:
        """Whether the operations become a graph, which cannot read settings of its context."""
        return self.mode in ("compiled", "exported")

    @property
    def gives_native(self) -> bool:
        """Whether complex results of the operand are native tensors."""
        return self.has_native and len(self.parts) == 1

    @property
    def is_neuron_graph(self) -> bool:
        """Whether the operations become a graph for TorchNeuron, and are not exported."""
        return self.mode == "compiled" and self.like.device.type == "neuron"

    @property
    def execution(self) -> str:
        """How the launches of the operation run, which a plan asks: "eager" or "graph"."""
        return execution_on(self.like.device, self.is_in_graph)

    def kernel_backend(self, precisions: Sequence[str] = ("fast",)) -> str:
        """Returns the backend, or "" where it has no kernels in its precision, and in graphs."""
        if self.precision not in precisions or not named(self.backend).has_kernels:
            return ""
        return self.backend

    def is_plain(self, *others: torch.Tensor) -> bool:
        """Returns whether kernels may take the operand and the others, if a backend has them.

        They have float32 numbers on one device, and are not recorded by torch.jit.trace.
        """
        if self.mode == "traced" or self.is_sharded or len(self.parts) == 2:
            return False
        for x in (self.like, *others):  # a loop, because a generator takes a microsecond
            if x.dtype != torch.float32 or x.numel() == 0 or is_sharded(x):
                return False
            if isinstance(x, ComplexTensor):
                return False
        return True

    def of(self, *values: torch.Tensor) -> Operand:
        """Returns the operand of other numbers of the same call: both parts, or a tensor alone."""
        settings = self.mode, self.backend, self.precision, self.has_native
        return Operand(values, self.is_sharded, *settings)

    def joined(self, values: Values) -> torch.Tensor:
        """Returns values that nothing else holds as a tensor of the kind that the operand gives."""
        if len(values) == 1:
            return values[0]
        return native_of(*values) if self.gives_native else join_to_read(*values)

    def whole(self) -> torch.Tensor:
        """Returns the operand as one tensor to read."""
        return join_to_read(*self.parts) if len(self.parts) == 2 else self.parts[0]


def operand_of(x: torch.Tensor) -> Operand:
    """Returns the operand of a tensor of any kind.

    Raises:
        ValueError, ImportError: as for `trnfft.get_backend`.
    """
    mode = mode_now()
    if is_sharded(x):
        return Operand((x,), True, mode, "", "", False)
    parts = values_of(x)
    device = parts[0].device
    if mode in ("compiled", "exported"):
        return Operand(parts, False, mode, "", "", has_native(device))
    backend = backend_for(device)
    # The type of a device, which `has_native` reads, takes as long as all the rest.
    is_native = backend == "torch" or has_native(device, backend)
    return Operand(parts, False, mode, backend, config.get_precision(), is_native)


def is_recorded() -> bool:
    """Returns whether operations are recorded now, to be computed again for other numbers."""
    return (
        torch.compiler.is_compiling()
        or torch.compiler.is_exporting()
        or len_torch_dispatch_stack() > 0  # make_fx, fake tensors
        or is_tracing()  # as torch.jit.is_tracing, in half of the time
    )


def is_in_graph() -> bool:
    """Returns whether operations become a graph of torch.compile or torch.export now."""
    return torch.compiler.is_compiling()


def mode_now() -> Mode:
    """Returns what runs the operations now."""
    if is_in_graph():
        return "exported" if torch.compiler.is_exporting() else "compiled"
    return "traced" if is_tracing() else "eager"
