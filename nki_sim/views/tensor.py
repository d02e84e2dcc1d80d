"""NkiTensor: a strided view of a storage in SBUF, PSUM or HBM.

Element (i0, i1, ...) of a view sits at offset + sum(strides[k] * i_k) in its storage, counted in
elements of the view's dtype. On-chip storages are [partitions][free elements]; dimension 0 of
their views is the partition and strides[0] is the free size. Views never copy.
"""

from __future__ import annotations

import functools
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from operator import index as as_index
from typing import Any

import numpy as np

from nki_sim.base import dtypes, releases
from nki_sim.base.arguments import integer, integers
from nki_sim.base.enums import ON_CHIP, MemoryRegion
from nki_sim.base.running import active
from nki_sim.base.source_text import line_of
from nki_sim.base.tensor_arithmetic import no_attribute

from .access_patterns import first_element, index_steps
from .indices import (
    Indirection,
    check_range,
    expanded,
    fail,
    inferred,
    integer_index,
    slice_bounds,
)
from .layout import CAPACITY, IN_HBM, Layout, Place, extent, layout_of
from .nki_object import NKIObject
from .no_arithmetic import NoArithmetic
from .register import RunTimeValue
from .scalar import check_offset
from .storage import Storage
from .strides import merged_dims, reshaped, row_major

Array = np.ndarray[Any, Any]
_WHILE = re.compile(r"\s*while\b")
_PSUM = MemoryRegion.psum
_INTS = frozenset({int})
_AP = "ap"  # in keys of views that layouts remember
_FAR = 1 << 100  # beyond any index; a slice up to here is one without an end
_ONE_DYNAMIC = "a tensor can have only one dynamic index"
_NO_PARTITION = "a dynamic index cannot select a partition"
_PARTITION_INDEX = "the index of dimension 0"
_PARTITION_STEP = (
    "the partitions of an operand in SBUF or PSUM follow each other, so that the step must be 1 "
    "(nki/deep-dives/nki-aps.rst): take t[start:stop], or pick the rows while they are in HBM, as "
    "in nisa.dma_copy(dst, x[::2])"
)
_VIEW = "dtype of view"
_NO_DATA = (
    "an NkiTensor has no attribute 'data' in NKI 0.6, only since NKI 0.7: use the tensor itself"
)


class DynamicSlice:
    """``nl.ds(start, size)``: ``size`` elements from ``start``, an int or a register."""

    def __init__(self, start: int | RunTimeValue | NkiTensor, size: int) -> None:
        self.start = start
        self.size = size


def _remembered(method: Callable[..., NkiTensor]) -> Callable[..., NkiTensor]:
    """Makes a method that returns a view find it in the layout, if all arguments are ints."""
    name = method.__name__

    @functools.wraps(method)
    def view(self: NkiTensor, *args: Any, **kwargs: Any) -> NkiTensor:
        if kwargs:
            return method(self, *args, **kwargs)
        for value in args:  # plain ints, because 1 and 1.0 are equal as keys
            if type(value) is not int and not (
                type(value) is tuple and _INTS.issuperset(map(type, value))
            ):
                return method(self, *args)
        known = name, args
        found = self._layout.indexed.get(known)
        if found is None:
            new = method(self, *args)
            self._layout.remember(known, new._layout, new.offset - self.offset)
            return new
        return self._seen(found[0], self.offset + found[1])

    return view


class NkiTensor(NoArithmetic, NKIObject):
    """A view of a storage, as the module docstring describes. ``nl.ndarray`` creates one.

    Attributes: ``shape``, ``strides``, ``offset`` (in elements), ``dtype``, ``buffer``, ``name``,
    ``ndim``, ``size``. Every method that returns a view raises NkiValidationError for arguments
    that the SDK forbids.
    """

    __slots__ = (
        "shape",
        "strides",
        "offset",
        "dtype",
        "buffer",
        "storage",
        "_layout",
        "_region",
        "_dynamic",
        "_free",
    )

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: str,
        storage: Any,
        buffer: MemoryRegion = MemoryRegion.sbuf,
        name: str = "",
    ) -> None:
        dtype = dtypes.canonical(dtype)
        start, address = (storage.start_partition, storage.address) if storage else (0, None)
        is_exact = dtypes.is_exact(dtype)
        self._layout = layout = _dense(tuple(shape), dtype, is_exact, buffer, start, address)
        self.shape: tuple[int, ...] = layout.shape
        self.strides: tuple[int, ...] = layout.strides
        self.dtype: str = layout.dtype
        self._free: int = layout.free
        self._region: Any = None
        self.buffer = buffer
        self.storage = storage
        self.offset = 0
        self._dynamic: Indirection | None = None
        if storage is not None and name:
            storage.name = name

    def _view(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> NkiTensor:
        """Returns a view of the same storage and dtype."""
        place = _place(self.storage, self.buffer, offset, self._free)
        if self._dynamic is not None:
            place = *place[:3], self._dynamic.kind
        is_exact = self._layout.is_exact
        layout = layout_of(shape, strides, self.dtype, is_exact, self._free, place)
        return self._seen(layout, offset)

    def _with_dims(
        self,
        first: int,
        end: int,
        sizes: tuple[int, ...] = (),
        strides: tuple[int, ...] = (),
        distance: int = 0,
    ) -> NkiTensor:
        """Returns a view with other dimensions in place of those from ``first`` to ``end``."""
        shape = self.shape[:first] + sizes + self.shape[end:]
        strides = self.strides[:first] + strides + self.strides[end:]
        return self._view(shape, strides, self.offset + distance)

    def _seen(self, layout: Layout, offset: int) -> NkiTensor:
        """Returns a view of the same storage. Every method that makes a view calls this one."""
        new = _blank(NkiTensor)
        new._layout = layout
        new.shape = layout.shape
        new.strides = layout.strides
        new.dtype = layout.dtype
        new._free = layout.free
        new._region = None
        new.offset = offset
        new.buffer = self.buffer
        new.storage = self.storage
        new._dynamic = self._dynamic
        return new

    # What a tensor is.

    @property
    def name(self) -> str:
        """The name from the allocation, for debugging."""
        return str(self.storage.name) if self.storage is not None else ""

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def is_contiguous(self) -> bool:
        """Returns whether the free dimensions (in HBM all dimensions) are dense and row-major."""
        first = 1 if self.buffer in ON_CHIP else 0
        expected = 1
        for n, stride in zip(self.shape[:first:-1], self.strides[:first:-1], strict=True):
            if n != 1 and stride != expected:
                return False
            expected *= n
        if self.shape[first:] and self.shape[first] != 1:
            return self.strides[first] == expected
        return True

    def get_pattern(self) -> list[list[int]]:
        """Returns the pattern ``[[stride, count], ...]``, in the form that ``ap`` accepts."""
        return [[stride, n] for stride, n in zip(self.strides, self.shape, strict=True)]

    def is_indirect(self) -> bool:
        """Returns whether the address depends on a value that is known only at run time."""
        return self._dynamic is not None

    def __repr__(self) -> str:
        head = (
            f"NkiTensor({'x'.join(map(str, self.shape))} {self.dtype} "
            f"{self.buffer.value}{' ' + self.name if self.name else ''}"
        )
        if self.storage is None or self.storage.data is None or self._dynamic is not None:
            return head + ")"
        return f"{head},\n{np.array2string(np.asarray(self.array()), threshold=64)})"

    def __bool__(self) -> bool:
        """Returns True with a warning, as AWS's kernels ask in this way if an argument was given.

        The compiler does not know the elements of a tensor, so it can mean nothing else. The truth
        value is an error in strict mode, and as the condition of a `while`, which would never end.
        """
        rule = (
            "a tensor has no truth value while the kernel is built: compare it with None, select "
            "elements by nl.where, or loop by nl.while_loop"
        )
        value = self.storage.describe() if self.storage else "a tensor"
        caller = sys._getframe(1)
        if _WHILE.match(line_of(caller.f_code.co_filename, caller.f_lineno)):
            raise fail("the operand of bool()", value, rule)
        active().warn("NkiTensor", "the operand of bool()", value, rule)
        return True

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float)):
            rule = "a tensor's elements are not known while the kernel is built: use nl.equal"
            raise fail(f"what is compared with {other}", self.storage.describe(), rule)
        return NotImplemented

    __hash__ = object.__hash__

    # Data, for the instructions.

    def array(self) -> Array:
        """Returns a NumPy view of the data, of the tensor's shape; for static addresses only."""
        if self.storage.fresh is not None:
            self.storage.fill()
        return self._array()

    def _array(self) -> Array:
        layout = self._layout
        np_type, strides = layout.np_type, layout.np_strides
        offset = self.offset * np_type.itemsize
        return np.ndarray(layout.shape, np_type, self.storage.data, offset, strides)

    def array_to_write(self, is_partial: bool) -> Array:
        """Like `array`, for an instruction that writes all elements, unless ``is_partial``."""
        storage = self.storage
        is_whole = not is_partial and self._layout.packed_bytes == storage.size_bytes
        if storage.fresh is not None and not is_whole:
            storage.fill()
        return self._array()

    # Views.

    @property
    def data(self) -> NkiTensor:
        """The tensor itself, like ``data`` of a grid with one tile. Since NKI 0.7."""
        if not releases.is_traced():
            raise AttributeError("data")  # after which Python calls __getattr__
        return self

    def __iter__(self) -> Any:
        """Raises TypeError. Without this method Python would iterate by ``__getitem__``."""
        raise TypeError(
            "a tensor is not iterable: write `for i in range(x.shape[0]):` and x[i : i + 1]"
        )

    def __getattr__(self, name: str) -> Any:
        text = _NO_DATA if name == "data" else no_attribute(name)
        raise AttributeError(text, name=name, obj=self)

    def __getitem__(self, key: object) -> NkiTensor:
        if type(key) is not tuple:
            key = (key,)
        index: list[Any] = []
        try:
            for item in key:
                kind = type(item)
                if kind is slice:
                    index.append(item.indices(_FAR))  # ints, or a TypeError
                elif kind is int or item is Ellipsis:
                    index.append(item)
                else:
                    return self._at(key)
        except (TypeError, ValueError):
            return self._at(key)
        known = tuple(index)
        found = self._layout.indexed.get(known)
        if found is None:
            view = self._at(key)
            self._layout.remember(known, view._layout, view.offset - self.offset)
            return view
        return self._seen(found[0], self.offset + found[1])

    def _at(self, key: tuple[object, ...]) -> NkiTensor:
        """Returns the view of an index; raises NkiValidationError if it is not allowed."""
        shape, strides = self.shape, self.strides
        ndim = len(shape)
        if Ellipsis in key or len(key) < ndim:
            key = expanded(key, ndim)
        if len(key) > ndim:
            raise fail("the index", key, f"it has more entries than the shape {shape}")
        on_chip = self._free != 0
        new_shape: list[int] = []
        new_strides: list[int] = []
        offset = self.offset
        dynamic: tuple[int, Any, int] | None = None
        for dim, item in enumerate(key):
            n, stride = shape[dim], strides[dim]
            if type(item) is slice:
                start, stop, step = slice_bounds(item, n, dim, shape)
                count = -(-(stop - start) // step)
                if on_chip and dim == 0 and step > 1 and count > 1:
                    raise fail(_PARTITION_INDEX, f"{start}:{stop}:{step}", _PARTITION_STEP)
                offset += start * stride
                new_shape.append(count)
                new_strides.append(stride * step)
            elif isinstance(item, DynamicSlice):
                size = item.size
                start = 0
                if isinstance(item.start, (RunTimeValue, NkiTensor)):
                    self._check_dynamic(dim, item.start, dynamic)
                    dynamic = (dim, item.start, n - size + 1)
                else:
                    start = integer("nl.ds", "start", item.start, "must be an int or a register")
                size = integer("nl.ds", "size", size)
                check_range(start, start + size, n, dim, shape)
                offset += start * stride
                new_shape.append(size)
                new_strides.append(stride)
            elif isinstance(item, (RunTimeValue, NkiTensor)):
                self._check_dynamic(dim, item, dynamic)
                dynamic = (dim, item, n)
            else:
                index = integer_index(item, n, dim, shape)
                offset += index * stride
                if dim == 0 and on_chip:
                    new_shape.append(1)
                    new_strides.append(stride)
        if len(new_shape) < (2 if on_chip else 1):
            new_shape.append(1)
            new_strides.append(1)
        gathers = self._dynamic is not None and self._dynamic.kind == "vector"
        if gathers and key[0] not in (slice(None), slice(0, shape[0]), slice(0, shape[0], 1)):
            rule = "vector_select has chosen this dimension, which cannot be indexed again"
            raise fail("the index of dimension 0", key[0], rule)
        view = self._view(tuple(new_shape), tuple(new_strides), offset)
        if dynamic is not None:
            dim, start, n = dynamic
            view = view._with_dynamic(Indirection("scalar", start, strides[dim], n), self)
        return view

    @_remembered
    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        """Returns elements ``start`` to ``end`` (exclusive) of dimension ``dim``."""
        dim = self._dim(dim)
        bounds = (start, end, step)
        start, end, step = integers("NkiTensor.slice", "bounds", bounds, "must be ints")
        if not 0 <= start < end <= self.shape[dim] or step < 1:
            rule = f"must satisfy 0 <= start < end <= {self.shape[dim]} and step >= 1"
            raise fail(f"(start, end, step) of slice(dim={dim})", bounds, rule)
        key: list[Any] = [slice(None)] * self.ndim
        key[dim] = slice(start, end, step)
        return self[tuple(key)]

    @_remembered
    def select(self, dim: int, index: object) -> NkiTensor:
        """Returns the view at one index of dimension ``dim``, which is removed.

        ``index`` may be an int, a register, or a tensor with one element.
        """
        dim = self._dim(dim)
        if isinstance(index, (NkiTensor, RunTimeValue)):
            if self._dynamic is not None:
                raise fail("the index of select", "dynamic", _ONE_DYNAMIC)
            if self._free and dim == 0:
                rule = "the partition dimension needs an index known at compile time"
                raise fail("the index of select(dim=0)", "dynamic", rule)
            found = Indirection("scalar", index, self.strides[dim], self.shape[dim])
            return self._with_dims(dim, dim + 1)._with_dynamic(found, self)
        if self._leads and dim == 0:
            rule = "select cannot remove the partition dimension: index it by a slice, x[3:4]"
            raise fail("the index of select(dim=0)", index, rule)
        index = integer_index(index, self.shape[dim], dim, self.shape, lowest=0)
        return self._with_dims(dim, dim + 1, distance=index * self.strides[dim])

    def vector_select(self, dim: int, vector_offset: NkiTensor) -> NkiTensor:
        """Returns a view of an HBM tensor with row ``vector_offset[p]`` for partition ``p``."""
        if dim != 0:
            raise fail("dim of vector_select", dim, "must be 0")
        if not isinstance(vector_offset, NkiTensor):
            rule = "must be a tensor of indices in SBUF"
            raise fail("vector_offset of vector_select", repr(vector_offset), rule)
        if self._free:
            rule = "vector_select needs a tensor in HBM"
            raise fail("the tensor's memory", self.buffer.value, rule)
        if self._dynamic is not None:
            raise fail("the tensor of vector_select", "an indirect view", _ONE_DYNAMIC)
        shape = (vector_offset.shape[0],) + self.shape[1:]
        view = self._view(shape, self.strides, self.offset)
        found = Indirection("vector", vector_offset, self.strides[0], self.shape[0])
        return view._with_dynamic(found, self)

    def ap(
        self,
        pattern: list[list[int]],
        offset: int | None = None,
        scalar_offset: object = None,
        vector_offset: NkiTensor | None = None,
        indirect_dim: int = 0,
        dtype: str | None = None,
    ) -> NkiTensor:
        """Returns a view with an explicit ``[[stride, count], ...]`` pattern over the storage.

        If this tensor is itself a view, AWS's documents disagree on where ``offset`` and indices
        count from; access_patterns.py describes both readings. Strides and ``offset`` count
        elements of ``dtype``.

        Raises:
            NkiValidationError: the pattern leaves the storage; or in SBUF or PSUM the partition
                stride is not the storage's free size; or, in strict mode, AWS's documents disagree.
        """
        known = None
        is_whole = self.offset == 0 and self._layout.packed_bytes == self.storage.size_bytes
        is_static = scalar_offset is vector_offset is dtype is self._dynamic is None
        if is_static and is_whole:  # the elements as they were allocated
            known = _known_pattern(pattern, offset)
            if known is not None and known in self._layout.indexed:
                layout, distance = self._layout.indexed[known]
                return self._seen(layout, distance)
        if scalar_offset is not None and vector_offset is not None:
            rule = "ap accepts at most one of scalar_offset and vector_offset"
            raise fail("the dynamic index of ap", "given twice", rule)
        if self._dynamic is not None:
            rule = f"{_ONE_DYNAMIC}, and no ap after it"
            raise fail("the tensor of ap", "an indirect view", rule)
        base = self if dtype is None else self._as_dtype(dtypes.canonical(dtype))
        strides, shape = _pattern(pattern)
        more = 0 if offset is None else integer("NkiTensor", "offset of ap", offset)
        view = base._view(shape, strides, first_element(base, more))
        if not shape or min(shape) < 1 or min(strides) < 0:
            rule = "must have counts of at least 1 and strides of at least 0"
            raise fail("pattern of ap", pattern, rule)
        if view._free and shape[0] > 1 and strides[0] != view._free:
            rule = f"the partition stride must be the storage's free size {view._free}"
            raise fail("pattern of ap", pattern, rule)
        if scalar_offset is None and vector_offset is None:
            view._check_inside(pattern)
            if known is not None:
                self._layout.remember(known, view._layout, view.offset)
            return view
        return self._at_run_time(view, scalar_offset, vector_offset, indirect_dim)

    def _at_run_time(
        self, view: NkiTensor, scalar_offset: object, vector_offset: object, indirect_dim: object
    ) -> NkiTensor:
        """Returns a view of this tensor whose address depends on an offset of ``ap``."""
        if vector_offset is not None and (self._free or indirect_dim != 0):
            rule = "vector_offset needs a tensor in HBM and indirect_dim=0"
            result = f"a view in {self.buffer.value} with indirect_dim={indirect_dim}"
            raise fail("the result of ap", result, rule)
        for name, value in (("scalar_offset", scalar_offset), ("vector_offset", vector_offset)):
            if not isinstance(value, (NkiTensor, RunTimeValue, type(None))):
                rule = "must be a tensor in SBUF or a register: pass an int in offset instead"
                raise fail(f"{name} of ap", repr(value), rule)
        indirect_dim = integer("NkiTensor", "indirect_dim of ap", indirect_dim)
        if self._free and indirect_dim == 0:
            raise fail("indirect_dim of ap", indirect_dim, _NO_PARTITION)
        kind = "scalar" if vector_offset is None else "vector"
        index = scalar_offset if vector_offset is None else vector_offset
        step, count = index_steps(self, indirect_dim, kind == "vector")
        return view._with_dynamic(Indirection(kind, index, step, count), self)

    @_remembered
    def permute(self, dims: tuple[int, ...]) -> NkiTensor:
        """Reorders dimensions; the partition dimension stays first."""
        dims = integers("NkiTensor", "dims of permute", dims)
        if sorted(dims) != list(range(self.ndim)):
            raise fail("dims of permute", dims, f"must be a permutation of 0 to {self.ndim - 1}")
        if self._leads and dims[0] != 0:
            rule = "dims[0] must be 0, because the partition dimension stays first"
            raise fail("dims of permute", dims, rule)
        shape, strides = (
            tuple([self.shape[d] for d in dims]),
            tuple([self.strides[d] for d in dims]),
        )
        return self._view(shape, strides, self.offset)

    @_remembered
    def broadcast(self, dim: int, size: int) -> NkiTensor:
        """Repeats a dimension of size 1 ``size`` times."""
        dim = self._free_dim("broadcast", dim)
        if self.shape[dim] != 1:
            rule = "broadcast needs a dimension of size 1"
            raise fail(f"the size of dimension {dim}", self.shape[dim], rule)
        if integer("NkiTensor", "size of broadcast", size) < 1:
            raise fail("size of broadcast", size, "must be at least 1")
        return self._with_dims(dim, dim + 1, (size,), (0,))

    @_remembered
    def expand_dim(self, dim: int) -> NkiTensor:
        """Inserts a dimension of size 1 before ``dim``."""
        dim = integer("NkiTensor", "dim of expand_dim", dim)
        if self._leads and dim == 0:
            rule = "must not be 0 for a tensor in SBUF or PSUM, or after vector_select"
            raise fail("dim of expand_dim", dim, rule)
        if not 0 <= dim <= self.ndim:
            raise fail("dim of expand_dim", dim, f"must be from 0 to {self.ndim}")
        stride = self.strides[dim] * self.shape[dim] if dim < self.ndim else 1
        return self._with_dims(dim, dim, (1,), (stride,))

    @_remembered
    def squeeze_dim(self, dim: int) -> NkiTensor:
        """Removes a dimension of size 1."""
        dim = self._free_dim("squeeze_dim", dim)
        if self.shape[dim] != 1:
            rule = "squeeze_dim needs a dimension of size 1"
            raise fail(f"the size of dimension {dim}", self.shape[dim], rule)
        return self._with_dims(dim, dim + 1)

    @_remembered
    def reshape_dim(self, dim: int, shape: tuple[int, ...]) -> NkiTensor:
        """Splits one dimension; one entry of ``shape`` may be -1."""
        dim = self._dim(dim)
        what = f"shape of reshape_dim(dim={dim})"
        sizes = inferred(integers("NkiTensor", what, shape), self.shape[dim], what)
        if self._leads and dim == 0 and len(sizes) != 1:
            raise fail(what, shape, "the partition dimension cannot be split")
        inner = self.strides[dim]
        strides = tuple([inner * s for s in row_major(sizes)])
        return self._with_dims(dim, dim + 1, sizes, strides)

    @_remembered
    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        """Merges dimensions ``start_dim`` to ``end_dim`` (inclusive), which must be contiguous."""
        start_dim = self._free_dim("flatten_dims", start_dim)
        end_dim = self._dim(end_dim)
        if end_dim < start_dim:
            rule = "start_dim must not exceed end_dim"
            raise fail("(start_dim, end_dim) of flatten_dims", (start_dim, end_dim), rule)
        span = range(start_dim, end_dim + 1)
        merged = merged_dims([(self.shape[d], self.strides[d]) for d in span])
        if len(merged) > 1:
            rule = "these dimensions do not follow each other in memory, and a view copies nothing"
            raise fail("(start_dim, end_dim) of flatten_dims", (start_dim, end_dim), rule)
        size, stride = merged[0]
        return self._with_dims(start_dim, end_dim + 1, (size,), (stride,))

    @_remembered
    def reshape(self, shape: tuple[int, ...]) -> NkiTensor:
        """Returns a view of the same elements in another shape, without a copy."""
        what = "shape of reshape"
        sizes = inferred(integers("NkiTensor", what, shape), self.size, what)
        if self._leads and sizes[0] != self.shape[0]:
            raise fail(what, shape, f"the partition dimension must stay {self.shape[0]}")
        if self._leads:
            rest = reshaped(self.shape[1:], self.strides[1:], sizes[1:])
            strides = None if rest is None else (self.strides[0],) + rest
        else:
            strides = reshaped(self.shape, self.strides, sizes)
        if strides is None:
            rule = (
                f"the layout {self.get_pattern()}, as [stride, count], does not allow this shape "
                f"without a copy"
            )
            raise fail(what, shape, rule)
        return self._view(sizes, strides, self.offset)

    def rearrange(
        self,
        src_pattern: tuple[str | tuple[str, ...], ...],
        dst_pattern: tuple[str | tuple[str, ...], ...],
        fixed_sizes: dict[str, int] | None = None,
    ) -> NkiTensor:
        """Splits, reorders and merges dimensions by name, like einops, with tuples of names."""
        for pattern in (src_pattern, dst_pattern):
            _check_names(pattern)
        if len(src_pattern) != self.ndim:
            rule = f"must have {self.ndim} entries, one for each dimension"
            raise fail("src_pattern of rearrange", src_pattern, rule)
        if not isinstance(fixed_sizes, (dict, type(None))):
            rule = "must be a dict of sizes by name"
            raise fail("fixed_sizes of rearrange", repr(fixed_sizes), rule)
        known = dict(fixed_sizes or {})
        split = self
        names: list[str] = []
        for group in src_pattern:
            group = (group,) if isinstance(group, str) else tuple(group)
            sizes = tuple([known.get(name, -1) for name in group])
            if len(group) > 1:
                split = split.reshape_dim(len(names), sizes)
            names.extend(group)
        flat = [n for g in dst_pattern for n in ((g,) if isinstance(g, str) else g)]
        if sorted(flat) != sorted(names):
            rule = f"must name each of the dimensions {names} once"
            raise fail("dst_pattern of rearrange", dst_pattern, rule)
        moved = split.permute(tuple([names.index(n) for n in flat]))
        for position, group in enumerate(dst_pattern):
            if not isinstance(group, str) and len(group) > 1:
                moved = moved.flatten_dims(position, position + len(group) - 1)
        return moved

    def view(self, dtype: str) -> NkiTensor:
        """Reinterprets the bits as ``dtype``; the last dimension scales with the element size."""
        target = dtypes.canonical(dtype)
        old, new = dtypes.itemsize(self.dtype), dtypes.itemsize(target)
        if self._dynamic is not None:
            raise fail(_VIEW, target, "an indirect view cannot be reinterpreted")
        if self.shape[-1] != 1 and self.strides[-1] != 1:
            raise fail(_VIEW, target, "the last dimension must be contiguous")
        if self.shape[-1] * old % new or self.offset * old % new:
            rule = (
                f"a last dimension of {self.shape[-1]} elements of {old} bytes from element "
                f"{self.offset} on does not hold whole elements of {new} bytes"
            )
            raise fail(_VIEW, target, rule)
        base = self._as_dtype(target)
        scaled = [s * old // new for s in self.strides[:-1]]
        if any(s * old % new for s in self.strides[:-1]):
            rule = f"the strides {self.strides} are not whole numbers of elements of {new} bytes"
            raise fail(_VIEW, target, rule)
        shape = self.shape[:-1] + (self.shape[-1] * old // new,)
        return base._view(shape, tuple(scaled) + (1,), base.offset)

    reinterpret_cast = view

    def indirect(self, index: NkiTensor, num_elem: int | None = None) -> NkiTensor:
        """Raises NotImplementedError: the tensor indirection of NeuronCore-v4 is not simulated."""
        raise NotImplementedError(
            "NkiTensor.indirect is not simulated: gather by nisa.nc_n_gather, or by DMA with a "
            "vector_offset"
        )

    # Helpers.

    @property
    def _leads(self) -> bool:
        # Dimension 0 is the partition in SBUF, in PSUM, and after ``vector_select``.
        return self._free != 0 or (self._dynamic is not None and self._dynamic.kind == "vector")

    def _dim(self, dim: int) -> int:
        dim = integer("NkiTensor", "dim", dim)
        if not -self.ndim <= dim < self.ndim:
            raise fail("dim", dim, f"the shape {self.shape} has no such dimension")
        return dim % self.ndim

    def _free_dim(self, method: str, dim: int) -> int:
        dim = self._dim(dim)
        if self._leads and dim == 0:
            rule = "dimension 0 is the partition dimension, which this method cannot change"
            raise fail(f"dim of {method}", dim, rule)
        return dim

    def _as_dtype(self, dtype: str) -> NkiTensor:
        if dtype != self.dtype and "int64" in (dtype, self.dtype):
            raise fail(_VIEW, dtype, "no document says how to reinterpret bits to or from int64")
        old, new = dtypes.itemsize(self.dtype), dtypes.itemsize(dtype)
        free, is_exact = self._free * old // new, dtypes.is_exact(dtype)
        offset = self.offset * old // new
        place = _place(self.storage, self.buffer, offset, free)
        layout = layout_of(self.shape, self.strides, dtype, is_exact, free, place)
        view = self._seen(layout, offset)
        if layout.np_type.itemsize * old != self._layout.np_type.itemsize * new:
            rule = (
                "under NKI_PRECISE_FP=0 the simulator stores low-precision dtypes as float32, "
                "whose bits differ: set NKI_PRECISE_FP=1"
            )
            raise fail(_VIEW, dtype, rule)
        return view

    def _check_dynamic(self, dim: int, index: object, earlier: object) -> None:
        if earlier is not None:
            raise fail("the dynamic index", index, _ONE_DYNAMIC)
        if self._free and dim == 0:
            raise fail("the index of dimension 0", index, _NO_PARTITION)

    def _with_dynamic(self, found: Indirection, source: NkiTensor) -> NkiTensor:
        index, is_vector = found.index, found.kind == "vector"
        if source._dynamic is not None:
            raise fail("the dynamic index", found.kind, _ONE_DYNAMIC)
        check_offset(index, self._free != 0)
        if is_vector and self.dtype != self.storage.dtype:
            value = f"{self.storage.dtype} as {self.dtype}"
            rule = "a vector_offset needs a tensor that is not reinterpreted"
            raise fail("the dtype under vector_offset", value, rule)
        if isinstance(index, NkiTensor):
            if index.buffer is not MemoryRegion.sbuf:
                value = f"a tensor in {index.buffer.value}"
                raise fail("the dynamic index", value, "must be in SBUF")
            if index.dtype not in ("int32", "uint32"):
                value = f"a tile of {index.dtype}"
                raise fail("the dynamic index", value, "must be int32 or uint32")
            if index._dynamic is not None:
                rule = "must have an address known at compile time"
                raise fail("the dynamic index", "an indirect view", rule)
            if not is_vector and index.size != 1:
                value = f"a tile of shape {index.shape}"
                raise fail("the dynamic index", value, "must have one element")
        elif is_vector or not isinstance(index, RunTimeValue):
            rule = (
                "must be a tile of indices" if is_vector else "must be a register or an SBUF tile"
            )
            raise fail("the dynamic index", repr(index), rule)
        self._dynamic = found
        return self._view(self.shape, self.strides, self.offset)

    def _check_inside(self, pattern: object) -> None:
        """Raises NkiValidationError if the view leaves its storage."""
        size = dtypes.itemsize(self.dtype)
        if self._free:
            partition, free = divmod(self.offset, self._free)
            last = free + extent(self.shape[1:], self.strides[1:])
            inside = partition + self.shape[0] <= self.storage.shape[0] and last <= self._free
        else:
            total = math.prod(self.storage.shape) * dtypes.itemsize(self.storage.dtype)
            inside = (self.offset + extent(self.shape, self.strides)) * size <= total
        if not inside or self.offset < 0:
            rule = f"with offset {self.offset} it reaches outside of {self.storage.describe()}"
            raise fail("pattern of ap", pattern, rule)


_blank = NkiTensor.__new__


def _place(storage: Storage, buffer: MemoryRegion, offset: int, free: int) -> Place:
    """Returns the place of a view that begins at an element."""
    if not free:
        return IN_HBM
    address = (offset, storage.address) if buffer is _PSUM else None
    return offset // free, storage.start_partition, address, ""


@functools.lru_cache(CAPACITY)
def _dense(
    shape: tuple[int, ...],
    dtype: str,
    is_exact: bool,
    buffer: MemoryRegion,
    start: int,
    address: int | None,
) -> Layout:
    free = math.prod(shape[1:]) if buffer in ON_CHIP else 0
    place = (0, start, (0, address) if buffer is _PSUM else None, "") if free else IN_HBM
    return layout_of(shape, row_major(shape), dtype, is_exact, free, place)


def _known_pattern(pattern: Iterable[Sequence[int]], offset: object) -> tuple[Any, ...] | None:
    """Returns a key of a pattern and an offset of ``ap``, if they consist of plain ints."""
    try:
        numbers = [0 if offset is None else offset]
        for stride, count in pattern:
            numbers += stride, count
    except (TypeError, ValueError):
        return None
    return (_AP, *numbers) if _INTS.issuperset(map(type, numbers)) else None


def _pattern(pattern: Iterable[Sequence[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns (strides, counts) of a pattern of ``ap``."""
    try:
        strides = tuple([as_index(stride) for stride, _ in pattern])
        return strides, tuple([as_index(count) for _, count in pattern])
    except (TypeError, ValueError):
        rule = "must be a list of [stride, count] pairs of ints"
        raise fail("pattern of ap", repr(pattern), rule) from None


def _check_names(pattern: object) -> None:
    """Raises NkiValidationError unless a pattern holds names or tuples of names."""
    groups = pattern if isinstance(pattern, (list, tuple)) else [pattern]
    for group in groups:
        names = group if isinstance(group, (list, tuple)) else (group,)
        if groups is not pattern or not all(isinstance(name, str) for name in names):
            rule = "must be a tuple of names or tuples of names"
            raise fail("a pattern of rearrange", repr(pattern), rule)
