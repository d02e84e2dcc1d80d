"""Where ``NkiTensor.ap`` counts from if it is called on a view: AWS's documents disagree.

RELATIVE is the reading of the docstring of ``NkiTensor.ap`` (nki/api/nki/language/__init__.py):

- The pattern begins ``offset`` elements after the view's first element; None means 0.
- An index of 1 stands for ``view.strides[indirect_dim]`` elements. Five kernels of AWS's
  nki-library index reshaped tensors in this way; none of them depends on the offset of a view.

ABSOLUTE is the reading of nki/deep-dives/nki-aps.rst, "Composition and .ap on a view" and "Scalar
Dynamic Access", and of a warning in nki/get-started/nki-language-guide.rst. Both say that the
shape, the strides and the offset of the view are ignored:

- The pattern begins ``offset`` elements after the first element of the tensor as it was allocated,
  or as the kernel received it; None means 0. (Elsewhere the same pages say that None keeps the
  view's offset.)
- An index of 1 stands for ``prod(shape[indirect_dim + 1:])`` elements, by the shape of that tensor.

In both readings the pattern's strides are strides in memory, and all numbers count elements of the
accessed dtype. So the readings agree for a view that begins where its tensor begins, and for an
index that stands for the same number of elements in both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nki_sim import hardware
from nki_sim.base import dtypes
from nki_sim.base.running import active
from nki_sim.errors import Break, NkiValidationError

RULE = "ap-of-views"


def first_element(view: Any, offset: int) -> int:
    """Returns the first element of a pattern in the view's storage, for the ``offset`` of ap."""
    relative = view.offset + offset
    if view.offset == 0:
        return relative
    value = (
        f"{offset} of a view that begins at element {view.offset} of {view.storage.describe()}, "
        f"so that it means element {relative} or {offset}"
    )
    return offset if _is_absolute("offset of ap", value) else relative


def index_steps(view: Any, dim: int, is_vector: bool) -> tuple[int, int]:
    """Returns the elements that an index of 1 stands for, and the number of legal indices.

    An entry of a ``vector_offset`` is an index of dimension ``dim``. A ``scalar_offset`` is part of
    an address, which must lie in the tensor (nki.isa.dma_copy: "dynamic address or index"). AWS's
    nki-library (core/utils/tensor_view.py) passes any dimension with the right step.
    """
    shape, whole = view.shape, view.storage.shape
    relative = _steps(shape, view.strides, dim)
    absolute = _steps(whole, [math.prod(whole[d + 1 :]) for d in range(len(whole))], dim)
    step, count = relative
    if step != absolute[0] or (is_vector and count != absolute[1]):
        value = (
            f"{dim} of a view of shape {shape} of {view.storage.describe()}, so that an index of 1 "
            f"stands for {_words(relative)} or {_words(absolute)}"
        )
        if _is_absolute("indirect_dim of ap", value):
            shape, (step, count) = whole, absolute
    if step is None or count is None:
        rule = f"the shape {shape} has no such dimension"
        raise NkiValidationError("NkiTensor", "indirect_dim of ap", dim, rule)
    if is_vector:
        return step, count
    elements = view._free or view.storage.size_bytes // dtypes.itemsize(view.dtype)
    return step, max(1, elements // max(1, step))


def _steps(shape: Sequence[int], strides: Sequence[int], dim: int) -> tuple[int | None, int | None]:
    return (strides[dim], shape[dim]) if 0 <= dim < len(shape) else (None, None)


def _words(steps: tuple[int | None, int | None]) -> str:
    step, count = steps
    if step is None:
        return "nothing"
    return f"{step} {'element' if step == 1 else 'elements'} (dimension of size {count})"


def _is_absolute(operand: str, value: str) -> bool:
    # Warns, as the two readings differ here.
    session = active()
    session.broke("NkiTensor", Break(RULE, operand, value))
    return session.chip.reading_of_ap == hardware.ABSOLUTE
