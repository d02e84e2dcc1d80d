"""Functions that allocate, fill, load and store tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nki_sim import isa
from nki_sim.base import dtypes
from nki_sim.base.arguments import integer, integers
from nki_sim.base.dtypes import Array, Dtype, Number
from nki_sim.base.enums import ON_CHIP, MemoryRegion
from nki_sim.base.operators import OPERATORS
from nki_sim.base.removed_api import defined_in
from nki_sim.errors import NO_TENSOR, NkiValidationError, brief
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import active, current
from nki_sim.isa.dma_costs import set_fill
from nki_sim.views.tensor import NkiTensor

Shape = int | Sequence[int]
Buffer = MemoryRegion | None
_SBUF = MemoryRegion.sbuf
_INTS = frozenset({int})


def _tensor(function: str, argument: str, value: object) -> NkiTensor:
    if not isinstance(value, NkiTensor):
        raise NkiValidationError(f"nl.{function}", argument, brief(value), NO_TENSOR)
    return value


def _in_hbm(function: str, argument: str, value: object) -> NkiTensor:
    tensor = _tensor(function, argument, value)
    if tensor.buffer in ON_CHIP:
        rule = "must be in HBM: copy a tile in SBUF or PSUM by nisa.tensor_copy or nisa.dma_copy"
        raise NkiValidationError(f"nl.{function}", argument, tensor.storage.describe(), rule)
    return tensor


def ndarray(
    shape: Shape,
    dtype: Dtype,
    buffer: Buffer = _SBUF,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """Returns a new, uninitialised tensor.

    Args:
        shape: a tuple of positive sizes. In SBUF and PSUM the first dimension is the partition.
        dtype: a dtype of NKI, NumPy or torch.
        buffer: nl.sbuf, nl.psum, nl.hbm, nl.private_hbm or nl.shared_hbm.
        name: a name for messages.
        address: (partition, byte in the partition) for a placement in SBUF or PSUM.

    Raises:
        NkiValidationError: an argument is not allowed, or the memory cannot hold the tensor.
        TypeError: the dtype is unknown.
    """
    if type(buffer) is MemoryRegion and type(dtype) is str and type(shape) is tuple:
        session, kind = current(), (shape, dtype, buffer)
        is_plain = address is None and _INTS.issuperset(map(type, shape))
        if is_plain and session is not None and kind in session.kinds:
            return session.allocate_again(kind, name)
    if not isinstance(buffer, MemoryRegion):
        rule = "must be nl.sbuf, nl.psum, nl.hbm, nl.private_hbm or nl.shared_hbm"
        raise NkiValidationError("nl.ndarray", "buffer", repr(buffer), rule)
    sizes = integers("nl.ndarray", "shape", shape)
    flat = buffer in ON_CHIP and len(sizes) < 2 and sizes != (1,)
    if not sizes or min(sizes) < 1 or flat:
        rule = (
            "must hold positive sizes; a tensor in SBUF or PSUM has at least 2 dimensions, or the "
            "shape (1,)"
        )
        raise NkiValidationError("nl.ndarray", "shape", sizes, rule)
    if address is not None:
        rule = "must be a pair of ints (partition, byte in the partition)"
        address = integers("nl.ndarray", "address", address, rule)  # type: ignore[assignment]
        if address is None or len(address) != 2:
            raise NkiValidationError("nl.ndarray", "address", address, rule)
    return active().allocate(sizes, dtypes.canonical(dtype), buffer, name, address)


def full(
    shape: Shape, fill_value: Number, dtype: Dtype, buffer: Buffer = _SBUF, name: str = ""
) -> NkiTensor:
    """Returns a new tensor filled with ``fill_value``."""
    tensor = ndarray(shape, dtype, buffer, name)
    if not isinstance(fill_value, (int, float, np.generic)):
        rule = "must be a compile-time number"
        raise NkiValidationError("nl.full", "fill_value", repr(fill_value), rule)
    if tensor.dtype not in dtypes.INTEGERS:
        fill_value = float(fill_value)
    elif isinstance(fill_value, float) and fill_value.is_integer():
        fill_value = int(fill_value)
    if tensor.buffer in ON_CHIP:
        isa.memset(tensor, fill_value)
    else:
        _fill_hbm(tensor, fill_value)
    return tensor


def _fill_hbm(tensor: NkiTensor, value: Number) -> None:
    """Fills a tensor in HBM with a constant, by one write that all DMA engines share."""

    def run(outs: list[Array], ins: list[Array]) -> None:
        dtypes.store(outs[0], np.asarray(value), tensor.dtype)

    issue = Issue("nl.full", "dma", 0.0, run, ("dst",), ())
    set_fill(issue, tensor)
    active().issue(issue, [tensor], [], None)


def zeros(shape: Shape, dtype: Dtype, buffer: Buffer = _SBUF, name: str = "") -> NkiTensor:
    """Returns a new tensor of zeros."""
    return full(shape, 0, dtype, buffer, name)


def ones(shape: Shape, dtype: Dtype, buffer: Buffer = _SBUF, name: str = "") -> NkiTensor:
    """Returns a new tensor of ones."""
    return full(shape, 1, dtype, buffer, name)


def zeros_like(
    x: NkiTensor, dtype: Dtype | None = None, buffer: Buffer = None, name: str = ""
) -> NkiTensor:
    """Returns zeros with the shape of ``x``, and by default its dtype and buffer."""
    x = _tensor("zeros_like", "x", x)
    return zeros(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(
    x: NkiTensor, dtype: Dtype | None = None, buffer: Buffer = None, name: str = ""
) -> NkiTensor:
    """Returns a new tensor with the shape of ``x``, and by default its dtype and buffer."""
    x = _tensor("empty_like", "x", x)
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def load(src: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Loads a tensor from HBM into a new tile in SBUF."""
    src = _in_hbm("load", "src", src)
    shape = src.shape if len(src.shape) > 1 else (src.shape[0], 1)
    tile = ndarray(shape, dtype or src.dtype)
    isa.dma_copy(tile, src)
    return tile


def store(dst: NkiTensor, value: NkiTensor) -> None:
    """Writes a tile in SBUF to a tensor in HBM."""
    if not isinstance(value, NkiTensor) or value.buffer not in ON_CHIP:
        raise NkiValidationError("nl.store", "value", repr(value), "must be a tile in SBUF")
    isa.dma_copy(_in_hbm("store", "dst", dst), value)


def load_transpose2d(src: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Loads an argument of the kernel, transposed, into a new tile in SBUF.

    This is slow, because each run of the DMA has one element.
    """
    src = _tensor("load_transpose2d", "src", src)
    if src.ndim != 2 or not src.storage.is_argument:
        value = src.storage.describe()
        rule = "must be a view with 2 dimensions of an argument of the kernel"
        raise NkiValidationError("nl.load_transpose2d", "src", value, rule)
    tile = ndarray((src.shape[1], src.shape[0]), dtype or src.dtype)
    isa.dma_copy(tile, src.permute((1, 0)))
    return tile


def copy(x: NkiTensor, dtype: Dtype | None = None) -> NkiTensor:
    """Copies a tile in SBUF or PSUM to a new tile in SBUF."""
    x = _tensor("copy", "x", x)
    tile = ndarray(x.shape, dtype or x.dtype)
    isa.tensor_copy(tile, x)
    return tile


copy.__nki_operator__ = OPERATORS["copy"]  # type: ignore[attr-defined]


def shared_constant(constant: Array) -> NkiTensor:
    """Returns a tensor in shared HBM with the values of a NumPy array or of a ``.npy`` file."""
    array = np.load(constant) if isinstance(constant, str) else constant
    if not isinstance(array, np.ndarray):
        rule = "must be a NumPy array or the path of a .npy file"
        raise NkiValidationError("nl.shared_constant", "constant", repr(constant), rule)
    session = active()
    region = MemoryRegion.shared_hbm
    tensor = session.allocate(array.shape, dtypes.canonical(array.dtype), region, "constant")
    session.hold_constant(tensor, array)
    return tensor


def shared_identity_matrix(
    n: int, dtype: Dtype = "uint8", dst: NkiTensor | None = None
) -> NkiTensor:
    """Loads the n x n identity into ``dst``, or into a new tile in SBUF."""
    n = integer("nl.shared_identity_matrix", "n", n)
    name = dtypes.canonical(dtype)
    constant = shared_constant(np.eye(n, dtype=dtypes.numpy_type(name)))
    tile = ndarray((n, n), name) if dst is None else dst
    isa.dma_copy(tile, constant)
    return tile


def device_print(print_prefix: str, tensor: NkiTensor) -> None:
    """Prints the values of a tensor. The simulator writes them to standard output at once."""
    tensor = _tensor("device_print", "tensor", tensor)
    print(print_prefix, tensor if active().dry else np.asarray(tensor.array()))


__all__ = defined_in(globals())
