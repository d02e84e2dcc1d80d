"""What ``NkiTensor.ap`` counts from where it is called on a view: AWS's documents differ.

RELATIVE is the docstring of ``NkiTensor.ap`` (nki/api/nki/language/__init__.py):

- The pattern begins ``offset`` elements after the view's first one; None adds nothing.
- An index counts ``view.strides[indirect_dim]`` elements. Five kernels of AWS's nki-library index
  reshaped tensors so; none depends on the offset of a view.

ABSOLUTE is nki/deep-dives/nki-aps.rst, "Composition and .ap on a view" and "Scalar Dynamic Access",
and a warning in nki/get-started/nki-language-guide.rst. Both say that shape, strides and offset of
the view are ignored:

- The pattern begins ``offset`` elements after the first one of the tensor, as it was allocated or
  as the kernel got it; None is 0. (Elsewhere the same pages say that None keeps the view's offset.)
- An index counts ``prod(shape[indirect_dim + 1:])`` elements, by the shape of that tensor.

In both the pattern's strides are those of the memory, and all numbers count elements of the dtype
that is accessed. So both read a view alike that begins where its tensor does, and an index of it
that counts as many elements.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nki_kernels import hardware

from . import dtypes
from .errors import NkiValidationError

if TYPE_CHECKING:
    from .tensor import NkiTensor

RULE = "ap-of-views"


def first_element(view: NkiTensor, offset: int) -> int:
    """Where a pattern of a view begins in its storage; ``offset`` is what the call gives."""
    relative = view.offset + offset
    if view.offset == 0:
        return relative
    value = (
        f"{offset} of a view that begins at element {view.offset} of {view.storage.describe()}: "
        f"element {relative} or {offset}"
    )
    return offset if _is_absolute("ap offset", value) else relative


def index_steps(view: NkiTensor, dim: int, is_vector: bool) -> tuple[int, int]:
    """Elements that an index of dimension ``dim`` counts, and the number of legal indices.

    A row of a ``vector_offset`` is one of the dimension. A ``scalar_offset`` is part of an address,
    which has to lie in the tensor (nki.isa.dma_copy: "dynamic address or index"); AWS's nki-library
    (core/utils/tensor_view.py) takes any dimension of the right step, whatever its size.
    """
    shape, whole = view.shape, view.storage.shape
    relative = _steps(shape, view.strides, dim)
    absolute = _steps(whole, [math.prod(whole[d + 1 :]) for d in range(len(whole))], dim)
    step, count = relative
    if step != absolute[0] or (is_vector and count != absolute[1]):
        value = (
            f"{dim} of a view of shape {shape} of {view.storage.describe()}: an index counts "
            f"{_words(relative)} or {_words(absolute)}"
        )
        if _is_absolute("ap indirect_dim", value):
            shape, (step, count) = whole, absolute
    if step is None or count is None:
        raise NkiValidationError("NkiTensor", "ap indirect_dim", dim, f"out of range for {shape}")
    if is_vector:
        return step, count
    elements = view._free or view.storage.size_bytes // dtypes.itemsize(view.dtype)
    return step, max(1, elements // max(1, step))


def _steps(shape: Any, strides: Any, dim: int) -> tuple[int | None, int | None]:
    """Stride and size of a dimension, None where there is none."""
    return (strides[dim], shape[dim]) if 0 <= dim < len(shape) else (None, None)


def _words(steps: tuple[int | None, int | None]) -> str:
    step, count = steps
    if step is None:
        return "nothing"
    return f"{step} {'element' if step == 1 else 'elements'} of {count}"


def _is_absolute(operand: str, value: str) -> bool:
    """Whether the chip's reading is the absolute one; where the two differ, this also tells so."""
    from .device_rules import Break
    from .session import active

    session = active()
    session.broke("NkiTensor", Break(RULE, operand, value))
    return session.chip.reading_of_ap == hardware.ABSOLUTE
