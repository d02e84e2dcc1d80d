"""The operand of an operation: its numbers, and all that is asked about them and around them, once.

A function that users call makes an `Operand` of its argument and hands the record down. What
computes below reads the fields and asks nobody again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch

from trnfft.backends.choice import named
from trnfft.base import config
from trnfft.base.devices import backend_for, has_native
from trnfft.base.torch_private import is_tracing
from trnfft.complex.parts import Values, is_sharded, join_to_read, native_of, values_of

Mode = Literal["eager", "traced", "compiled", "exported"]
"""What runs the operations: torch itself, torch.jit.trace, torch.compile or torch.export."""


class Operand(NamedTuple):
    """Numbers to compute with.

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
        return self.parts[0]

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

    def kernel_backend(self, precisions: Sequence[str] = ("fast",)) -> str:
        """Returns the backend, or "" where it has no kernels in its precision, and in graphs."""
        if self.precision not in precisions or not named(self.backend).has_kernels:
            return ""
        return self.backend

    def of(self, *values: torch.Tensor) -> Operand:
        """Returns the operand of other numbers of the same call: both parts, or a tensor alone."""
        return Operand(values, *self[1:])

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
    precision = config.get_precision()
    return Operand(parts, False, mode, backend, precision, has_native(device, backend))


def mode_now() -> Mode:
    """Returns what runs the operations now."""
    if torch.compiler.is_compiling():
        return "exported" if torch.compiler.is_exporting() else "compiled"
    return "traced" if is_tracing() else "eager"
