"""ComplexTensor: a torch.Tensor of complex numbers whose memory is a pair of real tensors.

A NeuronCore computes on real numbers, so the parts stay separate tensors from the user's call down
to the kernel. torch sees a tensor of dtype complex64 (or complex128, or complex32), with its own
autograd:

    torch's functions         above autograd: `trnfft.complex.functions`, for those that have to be
      autograd, torch.func    torch's formulas, which call operators again
      ATen's operators        below autograd: `trnfft.complex.dispatch`, real operators on the parts
        the parts             `_real` and `_imag`, on any device

`join` makes a ComplexTensor of real tensors, and `parts_of` returns its parts. Both are
differentiable.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from trnfft.base.torch_private import (
    CONVERTER,
    DisableTorchFunctionSubclass,
    FakeTensor,
    FunctionalTensor,
    any_requires_grad,
    are_functorch_transforms_active,
    dispatch_key_parse,
    dispatch_tls_is_dispatch_key_included,
    functional_mode,
    functionalize_unsafe_set,
    have_one_storage,
    is_forward_mode,
    is_functionalized,
    is_legacy_batchedtensor,
    is_view_of_memory,
    is_zerotensor,
    keep_from_compiler,
    len_torch_dispatch_stack,
    make_wrapper_subclass,
    neg_view,
    proxy_mode,
    set_conj,
    set_throw_on_mutable_data_ptr,
    tree_map_only,
    uncompiled,
)
from trnfft.complex import table
from trnfft.memory import check_memory, may_be_too_many

PART_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

# As dictionaries because torch.compile cannot look into dtype.to_complex() and dtype.to_real().
COMPLEX_DTYPES = {
    torch.float16: torch.complex32,
    torch.bfloat16: torch.complex64,
    torch.float32: torch.complex64,
    torch.float64: torch.complex128,
}
_PARTS_OF = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}

# the attributes of every ComplexTensor
_OWN = ("_real", "_imag", "_is_lazy", "_traced", "_is_argument")

aten = torch.ops.aten

# True while views of the whole are made that must be the parts themselves, not pairs of them.
TAKING_PARTS: ContextVar[bool] = ContextVar("taking_parts", default=False)

# Functions of torch that need the very tensor that they are given, whatever its numbers.
OF_GRAPHS: set[Any] = {torch.autograd.grad, torch.Tensor.backward}

_BATCHING = dispatch_key_parse("VmapMode")
_OF_PARTS = {torch.Tensor.real.__get__, torch.Tensor.imag.__get__}  # type: ignore[attr-defined]


class ComplexTensor(torch.Tensor):
    """Complex numbers `real + 1j * imag`, stored as two real tensors, which are copied.

    A ComplexTensor is a torch.Tensor. It supports the operations of torch on complex tensors for
    which `trnfft.complex` has operators; others raise a NotImplementedError.
    `docs/complex_operators.md` lists the operators, and `docs/complex_tensor.md` explains when
    results are ComplexTensors. The counterpart in torch is `torch.complex`.

    Args:
        real: tensor of dtype float16, bfloat16, float32 or float64.
        imag: tensor of the same shape, dtype and device.

    Raises:
        TypeError: a part is not a tensor or has another dtype, or the dtypes differ.
        ValueError: the shapes or the devices differ.
        RuntimeError: the memory is too small for the copies.

    Examples:
        >>> import torch, trnfft
        >>> z = trnfft.ComplexTensor(torch.tensor([3.0, 0.0]), torch.tensor([4.0, 1.0]))
        >>> z
        ComplexTensor([3.+4.j, 0.+1.j])
        >>> z.abs(), z.dtype, z.real
        (tensor([5., 1.]), torch.complex64, tensor([3., 0.]))
        >>> z * z.conj()
        ComplexTensor([25.+0.j,  1.+0.j])
    """

    _real: torch.Tensor
    _imag: torch.Tensor
    _is_lazy = False  # a copy of torch's dispatch key for conjugation, which is slow to read
    # The parts as torch.jit.trace records them, which sees real tensors only.
    _traced: tuple[torch.Tensor, torch.Tensor] | None = None
    _is_argument = False  # whether it is an argument of a graph that is being made, or a view

    if TYPE_CHECKING:  # torch's annotations say Tensor
        __add__: Any
        __getitem__: Any
        __mul__: Any
        __neg__: Any
        __radd__: Any
        __rmul__: Any
        __rsub__: Any
        __sub__: Any
        __truediv__: Any
        clone: Any
        conj: Any
        detach: Any
        expand: Any
        flatten: Any
        flip: Any
        mean: Any
        mH: Any
        mT: Any
        movedim: Any
        narrow: Any
        permute: Any
        reshape: Any
        sum: Any
        to: Any
        transpose: Any
        unsqueeze: Any
        view: Any

    @staticmethod
    def __new__(cls: type[ComplexTensor], real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
        _check_parts(real, imag)
        _check_memory(f"argument 'real' has shape {tuple(real.shape)}", real.shape, real)
        return join(_copied(real), _copied(imag))

    def __init__(self, real: torch.Tensor, imag: torch.Tensor) -> None:
        pass  # __new__ makes the tensor

    @classmethod
    def from_complex(cls, z: torch.Tensor) -> ComplexTensor:
        """Returns a native complex tensor, split; a real tensor gets imaginary parts of zero.

        The parts are copies. Differentiable.

        Args:
            z: a complex tensor, or a real tensor of a dtype that is allowed for a part.

        Raises:
            TypeError: `z` is not a tensor, or has another dtype.
            RuntimeError: the memory is too small for the copies.
        """
        if not isinstance(z, torch.Tensor):
            raise TypeError(
                f"argument 'z' is of type {type(z).__name__}, allowed is a torch.Tensor; "
                f"convert it with torch.as_tensor"
            )
        return _split("z", z)

    @classmethod
    def from_numpy(cls, array: np.ndarray) -> ComplexTensor:
        """Returns a NumPy array, split; a real array gets imaginary parts of zero.

        The parts are copies, because the two parts of an array share their memory.

        Args:
            array: an array of complex or floating-point numbers.

        Raises:
            TypeError: `array` is not an array, or has another dtype.
            ValueError: `array` has a negative stride or another order of bytes than torch.
            RuntimeError: the memory is too small for the copies.
        """
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "cf":
            kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise TypeError(
                f"argument 'array' is of type {kind}, allowed is a complex or floating "
                f"numpy.ndarray; convert it, for example with numpy.asarray(array, complex)"
            )
        try:
            z = torch.from_numpy(array)
        except (TypeError, ValueError) as error:
            reason = str(error).split(". ")[0]
            raise type(error)(f"argument 'array' cannot be read by torch: {reason}") from None
        return _split("array", z)

    @classmethod
    def from_polar(cls, abs: torch.Tensor, angle: torch.Tensor) -> ComplexTensor:
        """Returns the numbers with these absolute values and angles in radians, as `torch.polar`.

        Args:
            abs: real tensor of a dtype that is allowed for a part.
            angle: real tensor of the same dtype, whose shape broadcasts with that of `abs`.

        Raises:
            TypeError, ValueError: as for `ComplexTensor(abs, angle)`, except that the shapes may
                broadcast.
            RuntimeError: the memory is too small for the parts.
        """
        _check_polar(abs, angle)
        return cls(abs * torch.cos(angle), abs * torch.sin(angle))

    def to_complex(self) -> torch.Tensor:
        """Returns a native complex tensor of dtype `self.dtype`: a copy on the same device.

        The device must have complex dtypes. From other devices, move the tensor first, with
        `x.to("cpu")`.
        """
        part_dtype = _PARTS_OF[self.dtype]
        real, imag = parts_to_transform(self)
        # `trnfft.patch_torch` may replace torch.complex, but not the operator.
        return aten.complex.default(real.to(part_dtype), imag.to(part_dtype))

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """Returns a complex NumPy array: a copy in complex128, or in complex64 for smaller dtypes.

        Args:
            force: whether to detach from autograd and to move to the CPU first, as
                torch.Tensor.numpy.

        Raises:
            RuntimeError: the tensor requires a gradient; call `detach()` first.
            TypeError: the parts are not on the CPU; call `cpu()` first.
        """
        parts = parts_of(self)
        part_dtype = torch.float64 if parts[0].dtype == torch.float64 else torch.float32
        real, imag = (part.to(part_dtype).resolve_neg().numpy(force=force) for part in parts)
        array = np.empty(real.shape, np.complex128 if part_dtype == torch.float64 else np.complex64)
        array.real, array.imag = real, imag
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("argument 'copy' is False, but joining two parts has to copy them")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __array_wrap__(self, array: np.ndarray, *args: Any) -> torch.Tensor:
        """Returns the result of a NumPy function, complex numbers as a ComplexTensor."""
        made = torch.from_numpy(np.asarray(array, np.uint8 if array.dtype == bool else array.dtype))
        return type(self).from_complex(made) if made.is_complex() else made

    def tolist(self) -> Any:
        """Returns nested lists of Python numbers, or one number if there are no dimensions."""
        return self.numpy(force=True).tolist()

    # torch.tensor([z[0], z[1]]) calls these methods and no operators.

    def __complex__(self) -> complex:
        if self.numel() != 1:
            raise ValueError(
                f"a ComplexTensor has the shape {tuple(self.shape)}, allowed for one Python number "
                f"are tensors of one element; see tolist()"
            )
        imag = self._imag.item()
        return complex(self._real.item(), -imag if is_conjugate(self) else imag)

    def __float__(self) -> float:
        return self._real_number("double")

    def __int__(self) -> int:
        return int(torch.tensor(self._real_number("int64_t"), dtype=torch.float64, device="cpu"))

    def _real_number(self, kind: str) -> float:
        """Returns the number as a real one, or raises torch's error."""
        number = complex(self)
        if number.imag:
            raise RuntimeError(f"value cannot be converted to type {kind} without overflow")
        return number.real

    # What torch calls

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Calls a function of torch, above autograd."""
        kwargs = kwargs or {}
        if torch.jit.is_tracing() and func not in _OF_PARTS:
            return _traced_as_native(func, args, kwargs)
        if func not in OF_GRAPHS and _has_native(args):
            # Native tensors need native gradients, and DTensors combine only with each other.
            kept = int(is_in_place(func))
            rest, kwargs = tree_map_only(torch.Tensor, _split_if_native, (args[kept:], kwargs))
            args = (*args[:kept], *rest)
        is_ours = not args or isinstance(args[0], ComplexTensor)
        if not is_ours and _is_native_target(args[0]) and is_in_place(func):
            # torch's derivative of the write would give what is written a native gradient.
            rest, kwargs = tree_map_only(
                ComplexTensor, ComplexTensor.to_complex, (args[1:], kwargs)
            )
            args = (args[0], *rest)
        try:
            return _called(func, args, kwargs)
        except RuntimeError as error:
            if "new_fn INTERNAL ASSERT FAILED" not in str(error):
                raise
            raise RuntimeError(
                "the tensor is a view of a ComplexTensor that was detached in place, so it has no "
                "derivative, allowed are views made after detach_(); use .detach()"
            ) from error

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Calls an operator of ATen, below autograd."""
        if torch.jit.is_tracing():
            raise NotImplementedError(
                f"torch.jit.trace cannot record {func} of a ComplexTensor, allowed are .real, "
                f".imag and arithmetic with them; use torch.export or torch.compile"
            )
        kwargs = kwargs or {}
        if len_torch_dispatch_stack():
            recorded = recorded_whole(func, args, kwargs)
            if recorded is not NotImplemented:
                return recorded
            return with_storage(func, args, table.dispatch(func, args, kwargs))
        return table.dispatch(func, args, kwargs)

    def __dir__(self) -> list[str]:
        """Returns all names of attributes but the parts, whose use torch.export would record."""
        return [name for name in super().__dir__() if name not in ("_real", "_imag")]

    def __tensor_flatten__(self) -> tuple[list[str], bool]:
        """Returns, for torch.compile, the names of the parts and whether the tensor is lazy."""
        return ["_real", "_imag"], is_conjugate(self)

    @staticmethod
    def __tensor_unflatten__(
        parts: dict[str, torch.Tensor], context: bool, size: Any, stride: Any
    ) -> ComplexTensor:
        real, imag = parts["_real"], parts["_imag"]
        if stride is not None and _differ_in_name(real, stride):
            real, imag = (part.as_strided(size, stride) for part in (real, imag))
        made = with_conjugation(_wrapped(real, imag), context)
        made._is_argument = is_in_graph(real)
        return made

    def __coerce_same_metadata_as_tangent__(
        self, context: bool | None, expected_type: Any = None
    ) -> torch.Tensor | None:
        """Returns the gradient of a compiled result in the form that the compiler expected."""
        if context is None or expected_type is torch.Tensor:  # for some inputs that are written
            return self.to_complex()
        real, imag = self._real, self._imag
        imag = imag if is_conjugate(self) == context else -imag
        return with_conjugation(of_parts(real, imag), context)

    def _stable_hash_for_caching(self) -> str:
        """Returns, for the key of a compiled graph on disk, everything that the graph may rest on.

        torch adds its own version, and the operators of the function that is compiled.
        """
        parts = [
            (tuple(x.shape), x.stride(), x.storage_offset(), x.dtype, x.device, x.is_inference())
            for x in (self._real, self._imag)
        ]
        described = type(self).__name__, parts, self.requires_grad, is_conjugate(self), _sources()
        return hashlib.sha256(repr(described).encode()).hexdigest()

    def __reduce_ex__(self, protocol: Any) -> Any:
        z: Any = self.detach()
        is_parameter = isinstance(self, torch.nn.Parameter)
        described = self.requires_grad, is_parameter, self._attributes(), is_conjugate(z)
        return _rebuilt, (z._real, z._imag, *described)

    def __deepcopy__(self, memo: dict[int, Any]) -> ComplexTensor:
        if id(self) not in memo:
            if not self.is_leaf:
                return super().__deepcopy__(memo)  # torch's error says what is allowed
            is_parameter = isinstance(self, torch.nn.Parameter)
            z: Any = self.detach()
            if is_parameter or is_conjugate(z):  # these get memory of their own, as in torch
                real, imag = (part.clone() for part in parts_of(z))
            else:
                real, imag = (copy.deepcopy(part, memo) for part in (z._real, z._imag))
            attributes = copy.deepcopy(self._attributes(), memo)
            copied = _rebuilt(real, imag, self.requires_grad, is_parameter, attributes)
            memo[id(self)] = copied
            if self.grad is not None and not is_parameter:  # as torch's own parameters
                copied.grad = self.grad.__deepcopy__(memo)
        return memo[id(self)]

    def _attributes(self) -> dict[str, Any]:
        """Returns the attributes that the program has set on this tensor."""
        return {name: x for name, x in self.__dict__.items() if name not in _OWN}

    # Description

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 else object.__format__(self, spec)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        # torch prints native complex numbers well, but not of all dtypes and on all devices.
        real, imag = parts_of(self.detach())
        if is_sharded(real):
            return f"ComplexTensor({real!r}, {imag!r})"
        device = "meta" if self.device.type == "meta" else "cpu"
        part_dtype = torch.float64 if real.dtype == torch.float64 else torch.float32
        parts = (part.to(device, part_dtype) for part in (real, imag))
        native = aten.complex.default(*parts)
        text = repr(native).removeprefix("tensor(")
        notes = ""
        if real.dtype != part_dtype:
            notes += f", real.dtype={real.dtype}"
        if self.device.type != device:
            notes += f", device='{self.device}'"
        if self.requires_grad:
            notes += ", requires_grad=True"
        more_indent = " " * (len("ComplexTensor(") - len("tensor("))
        text = textwrap.indent(text, more_indent).removeprefix(more_indent)
        return f"ComplexTensor({text.removesuffix(')')}{notes})"

    # Attributes of ComplexTensors whose parts are DTensors

    @property
    def device_mesh(self) -> Any:
        """The devices that hold the parts, as in DTensor."""
        return self._real.device_mesh  # type: ignore[attr-defined]

    @property
    def placements(self) -> Any:
        """How the parts are split over the devices, as in DTensor."""
        return self._real.placements  # type: ignore[attr-defined]

    def to_local(self, **options: Any) -> ComplexTensor:
        """Returns the shard that this device holds, as DTensor.to_local. Differentiable."""
        return join(*(part.to_local(**options) for part in parts_of(self)))  # type: ignore[attr-defined]

    def full_tensor(self, **options: Any) -> ComplexTensor:
        """Returns the whole tensor on every device, as DTensor.full_tensor. Differentiable."""
        return join(*(part.full_tensor(**options) for part in parts_of(self)))  # type: ignore[attr-defined]

    def redistribute(self, *arguments: Any, **options: Any) -> ComplexTensor:
        """Returns the tensor split in another way, as DTensor.redistribute. Differentiable."""
        return join(
            *(part.redistribute(*arguments, **options) for part in parts_of(self))  # type: ignore[attr-defined]
        )

    # Memory

    def share_memory_(self) -> ComplexTensor:
        """Moves both parts to memory that processes share, and returns the tensor."""
        self._real.share_memory_()
        self._imag.share_memory_()
        return self

    def is_shared(self) -> bool:
        """Returns whether processes share the memory of both parts."""
        return self._real.is_shared() and self._imag.is_shared()

    def is_pinned(self, *args: Any, **kwargs: Any) -> bool:
        """Returns whether both parts are in pinned memory."""
        return all(part.is_pinned(*args, **kwargs) for part in (self._real, self._imag))


def _called(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a function of torch: its entry in FUNCTIONS, or torch's own, which calls operators."""
    function = table.FUNCTIONS.get(func)
    if function is not None:
        return function(*args, **kwargs)
    with DisableTorchFunctionSubclass():
        if torch.compiler.is_exporting():
            return table.exported(func, args, kwargs)
        return func(*args, **kwargs)


def _traced_as_native(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a function of torch so that torch.jit.trace records it: with native complex tensors.

    A trace sees the parts of a ComplexTensor, and not what is computed below autograd.
    """
    if is_in_place(func) or kwargs.get("out") is not None:
        raise NotImplementedError(
            f"torch.jit.trace cannot record {getattr(func, '__name__', func)}, which writes into a "
            f"ComplexTensor; write a new tensor, as z = 2 * z for z *= 2 and torch.where for "
            f"z[...] = 0, or use torch.export or torch.compile"
        )

    def native(z: Any) -> Any:
        return aten.complex.default(*parts_of(z))

    def split(result: torch.Tensor) -> torch.Tensor:
        is_native = result.is_complex() and not isinstance(result, ComplexTensor)
        return join(result.real, result.resolve_conj().imag) if is_native else result

    args, kwargs = tree_map_only(ComplexTensor, native, (args, kwargs))
    return tree_map_only(torch.Tensor, split, func(*args, **kwargs))


def of_parts(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
    """Returns the ComplexTensor of parts that are known to fit, below autograd or without it."""
    if imag.stride() != real.stride():  # a view of the whole must be a view of each part
        imag = torch.empty_like(real).copy_(imag)
        # empty_like has other strides where `real` has gaps or repeats numbers.
        real = real if imag.stride() == real.stride() else torch.empty_like(real).copy_(real)
    return _wrapped(real, imag)


def _wrapped(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
    # Arguments by position: names would take a fifth of the time. The fourth is a memory format.
    made: ComplexTensor = make_wrapper_subclass(
        ComplexTensor,
        real.shape,
        real.stride(),
        real.storage_offset(),
        None,
        COMPLEX_DTYPES[real.dtype],
        torch.strided,
        real.device,
    )
    made._real, made._imag = real, imag
    set_throw_on_mutable_data_ptr(made)  # the whole has no memory of its own
    return made


def _differ_in_name(part: torch.Tensor, stride: Any) -> bool:
    """Whether strides differ only where no step is taken along them, which graphs do not keep."""
    found = part.stride()
    if found == tuple(stride):
        return False
    steps = zip(part.shape, found, stride, strict=True)
    return 0 in part.shape or all(size == 1 or a == b for size, a, b in steps)


def is_conjugate(z: ComplexTensor) -> bool:
    """Whether a tensor is conjugated lazily: a conjugate view, which shares the parts of another.

    torch stores this as a dispatch key of the tensor and resolves it before most operators.
    """
    return z._is_lazy


def with_conjugation(z: ComplexTensor, is_lazy: bool) -> ComplexTensor:
    """Returns the tensor, marked as conjugated lazily or not."""
    if is_lazy != z._is_lazy:
        set_conj(z, is_lazy)
        z._is_lazy = is_lazy
    return z


@functools.cache
def _sources() -> str:
    """Returns a hash of the code that computes operators of ComplexTensors."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def with_storage(overload: Any, args: tuple[Any, ...], results: Any) -> Any:
    """Returns the results of an operator in a graph, where views have the storage of an argument.

    From the storage torch.compile knows what it has to make again as a view of the argument. Only
    strides are known then, so that a conjugate of the argument has a storage of its own.
    """
    if not args or not getattr(args[0], "_is_argument", False) or not is_view(overload):
        return results
    is_lazy = args[0].is_conj()
    for made in results if isinstance(results, (list, tuple)) else (results,):
        if hasattr(type(made), "_is_argument") and made.is_conj() == is_lazy:
            functionalize_unsafe_set(made, args[0])
            made._is_argument = True
    return results


def is_view(overload: Any) -> bool:
    """Returns whether the results of an operator share memory with an argument."""
    return any(r.alias_info and not r.alias_info.is_write for r in overload._schema.returns)


def join(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
    """Returns the ComplexTensor of parts that fit and that nothing else writes. Differentiable.

    It uses the memory of the parts. It copies parts whose memory is recognisably used elsewhere.
    """
    if torch.compiler.is_compiling():
        return table.in_graph().join(real, imag)
    if torch.jit.is_tracing():
        joined = of_parts(real.detach(), imag.detach())
        joined._traced = real, imag
        return joined
    if not is_followed(real, imag):
        return _joined(real, imag)
    if is_transformed():
        return _uncompiled(_JoinUnderTransforms.apply, real, imag)
    return _JoinEagerly.apply(real, imag)


def join_to_read(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
    """Returns the same as `join`, without copies.

    It is meant for parts that a transform has made, and for readers that write nothing.
    """
    if torch.jit.is_tracing():
        return join(real, imag)
    if not is_followed(real, imag):
        return _without_copies(real, imag)
    if torch.compiler.is_compiling() or is_transformed():
        return join(real, imag)
    return _JoinToRead.apply(real, imag)


def _recorded(name: str) -> Callable[..., Any]:
    """Returns a decorator: make_fx records the function as the operator `name` of `in_graph`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*inputs: torch.Tensor) -> Any:
            if not len_torch_dispatch_stack() or torch.compiler.is_compiling():
                return function(*inputs)
            if proxy_mode() is None:
                return function(*inputs)
            return table.in_graph().recorded(name, function, *inputs)

        keep_from_compiler(function.__code__)
        keep_from_compiler(call.__code__)  # type: ignore[attr-defined]
        return call

    return decorate


@_recorded("join")
def _joined(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
    return of_parts(*_own(real, imag))


def _without_copies(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
    parts = (part.detach() if part.requires_grad else part for part in (real, imag))
    return of_parts(*(_with_memory(part).resolve_neg() for part in parts))


def _with_memory(part: torch.Tensor) -> torch.Tensor:
    """Returns a part, or zeros for a tangent without memory, which operators here would read."""
    return part.new_zeros(part.shape) if is_zerotensor(part) else part


def _own(*parts: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields parts without a graph, copied where something else uses their memory.

    Writing into a view changes its base, and derivatives keep leaves and some results. Operators
    below autograd do not see that a part is negated lazily.
    """
    for part in parts:
        is_kept = (
            part.requires_grad and part.is_leaf or hasattr(type(part.grad_fn), "_saved_result")
        )
        has_base = type(part) is torch.Tensor and _is_part(part)  # every DTensor is a view
        if is_zerotensor(part):
            yield _with_memory(part)
        elif is_kept or has_base or part.is_neg():
            # torch cannot detach tangents where torch.autograd.functional vectorizes.
            is_batched = is_legacy_batchedtensor(part)
            yield part.clone() if is_batched else part.detach().clone()
        else:
            yield part.detach() if part.requires_grad else part


def _is_part(x: torch.Tensor) -> bool:
    """Returns whether a tensor is a view; of inference tensors, a view of a part of the memory.

    torch does not note the views of inference tensors.
    """
    return is_view_of_memory(x) or x.is_inference() and x.untyped_storage().nbytes() > x.nbytes


def parts_of(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns real and imaginary part of a ComplexTensor or native complex tensor. Differentiable.

    To autograd, both parts are views of `z`, of a kind whose use torch tracks or refuses. While
    autograd follows `z`, the parts must not be written, nor read after `z` was written. Inside
    torch.func's transforms, a ComplexTensor is wrapped in a tensor of torch's own type.
    """
    if torch.compiler.is_compiling():
        return table.in_graph().parts_of(z) if isinstance(z, ComplexTensor) else (z.real, z.imag)
    if is_transformed():  # torch then has no parts of a tensor that is conjugated lazily
        z = z.resolve_conj()
        if isinstance(z, ComplexTensor) or are_functorch_transforms_active():
            # Tangents that are batched and native, as of what is written into constants, fail.
            with naming_vectorize("parts") if is_vectorized() else contextlib.nullcontext():
                return _uncompiled(_PartsUnderTransforms.apply, z)
    if not isinstance(z, ComplexTensor):
        return z.real, z.imag
    if torch.jit.is_tracing():
        if not z._traced and is_followed(z):
            raise NotImplementedError(
                "torch.jit.trace cannot record a ComplexTensor with a gradient that is no input of "
                "the traced function; keep a parameter as two real tensors, as trnfft.nn does, or "
                "use torch.export or torch.compile"
            )
        return z._traced or parts_to_read(z)
    return _Parts.apply(z) if is_followed(z) else views_of_parts(z)


def _uncompiled(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function of which torch.compile makes no graph after a fallback to eager mode.

    torch._dynamo's own function for this purpose takes seconds to import.

    Raises:
        NotImplementedError: torch.func.functionalize, which torch's classes of functions do not
            know, is the innermost transform.
    """
    if is_functionalized():
        raise NotImplementedError(
            "torch.func.functionalize of a function that makes or opens a ComplexTensor is not "
            "allowed, because torch has no rule for autograd functions there; record the function "
            "with torch.fx.experimental.proxy_tensor.make_fx, or leave out torch.func.functionalize"
        )
    return uncompiled(function, *args)


def parts_to_read(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As `parts_of`, for operators only, and without views where nothing follows them."""
    if isinstance(z, ComplexTensor) and not is_followed(z):
        if torch.jit.is_tracing() and z._traced:
            return z._traced
        return z._real, -z._imag if is_conjugate(z) else z._imag
    return parts_of(z)


def parts_to_transform(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the same as `parts_to_read`, for linear functions, whose derivatives keep no inputs.

    Such parts need not know of writes into `z`, so they are not views of it.
    """
    if isinstance(z, ComplexTensor) and not torch.compiler.is_compiling():
        if not torch.jit.is_tracing() and (parts := parts_unfollowed(z)) is not None:
            return parts
        is_of_autograd_alone = not (
            torch.jit.is_tracing() or is_transformed() or len_torch_dispatch_stack()
        )
        if is_of_autograd_alone:
            return _PartsToTransform.apply(z)
    return parts_to_read(z)


def to_transform(x: torch.Tensor) -> tuple[tuple[torch.Tensor, ...], bool]:
    """Returns what a linear function computes of: a tensor, or the parts of a ComplexTensor.

    It also returns whether `x` is sharded. Such an `x` is returned as it is.
    """
    if is_sharded(x):
        return (x,), True
    return (parts_to_transform(x) if isinstance(x, ComplexTensor) else (x,)), False


def parts_unfollowed(z: ComplexTensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Returns the parts where nothing follows the tensor, or None."""
    if is_followed(z):
        return None
    return z._real, -z._imag if z._is_lazy else z._imag


def as_pairs(z: ComplexTensor) -> torch.Tensor:
    """Returns torch.view_as_real of a ComplexTensor: a view [..., 2], as those of `parts_of`."""
    return _Pairs.apply(z) if is_followed(z) else _pairs(z)


def view_of_part(z: ComplexTensor, which: int) -> torch.Tensor:
    """Returns the real part for 0, the imaginary part for 1, as `parts_of` does."""
    return _Parts.apply(z)[which] if is_followed(z) else _view_of_part(z, which)


def views_of_parts(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the parts as views that autograd does not follow."""
    if isinstance(z, ComplexTensor):
        return _view_of_part(z, 0), _view_of_part(z, 1)
    return z.real, z.imag


def _ungraded() -> Any:
    """Returns torch.no_grad only where it has an effect, as exported programs contain it."""
    return torch.no_grad() if torch.is_grad_enabled() else contextlib.nullcontext()


def _view_of_part(z: ComplexTensor, which: int) -> torch.Tensor:
    return _imaginary(z) if which else _real(z)


@_recorded("real")
def _real(z: ComplexTensor) -> torch.Tensor:
    return _viewed(z, 0)


@_recorded("imag")
def _imaginary(z: ComplexTensor) -> torch.Tensor:
    return _viewed(z, 1)


def _viewed(z: ComplexTensor, which: int) -> torch.Tensor:
    with _ungraded(), DisableTorchFunctionSubclass():
        if z._real.device.type == "xla":  # XLA's tensors have no views below autograd
            part = z._imag if which else z._real
            part = -part if which and is_conjugate(z) else part
            return aten._unsafe_view.default(part, part.shape)
        token = TAKING_PARTS.set(True)
        try:
            whole = z.conj() if is_conjugate(z) else z
            part = aten.select.int(aten.view_as_real.default(whole), -1, which)
        finally:
            TAKING_PARTS.reset(token)
        if not which or not is_conjugate(z):
            return part
        return -part if is_sharded(part) else neg_view(part)  # DTensors have no _neg_view


@_recorded("pairs")
def _pairs(z: ComplexTensor) -> torch.Tensor:
    with _ungraded(), DisableTorchFunctionSubclass():
        pairs: Any = aten.view_as_real.default(z)
    pairs.of_function = True
    return pairs


def is_transformed() -> bool:
    """Whether forward mode or a transform of torch.func is active."""
    return are_functorch_transforms_active() or is_forward_mode()


def is_vectorized() -> bool:
    """Whether torch.autograd.functional batches tensors, where it vectorizes."""
    return dispatch_tls_is_dispatch_key_included(_BATCHING)


def not_vectorized(what: str) -> NotImplementedError:
    """Returns the error of what torch.autograd.functional cannot vectorize."""
    return NotImplementedError(
        f"argument 'vectorize' of torch.autograd.functional is True, allowed is False for {what}; "
        f"or use torch.func.jacrev or torch.func.jacfwd"
    )


@contextlib.contextmanager
def naming_vectorize(what: Any) -> Iterator[None]:
    """Says where an error comes from that torch raises because the parts are batched."""
    try:
        yield
    except RuntimeError as error:
        raise not_vectorized(f"{what} of these ComplexTensors") from error


def is_in_graph(part: torch.Tensor) -> bool:
    """Whether a part stands for a tensor in a graph of torch.compile or torch.export."""
    return isinstance(part, (FakeTensor, FunctionalTensor))


def recorded_whole(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the result of an operator that make_fx records, or NotImplemented elsewhere.

    torch.compile and torch.export record the parts of complex tensors.
    """
    if proxy_mode() is None or functional_mode() is not None:
        return NotImplemented
    if torch.compiler.is_compiling():
        return NotImplemented
    return table.in_graph().recorded_whole(operator, args, kwargs)


def is_asked_by_converter() -> bool:
    """Whether torch asks where it makes a twin of a tensor for a graph."""
    frame = inspect.currentframe()
    for _ in range(8):  # through __torch_function__
        frame = frame.f_back if frame is not None else None
        if frame is not None and frame.f_code.co_filename == CONVERTER:
            return True
    return False


def is_seen_by_compiler(part: torch.Tensor) -> bool:
    """Whether torch looks at a tensor with this part to distinguish views in a graph."""
    has_memory = type(part) in (torch.Tensor, torch.nn.Parameter)
    return not has_memory or len_torch_dispatch_stack() > 0 or is_asked_by_converter()


def described(x: torch.Tensor) -> torch.Tensor:
    """Returns a tensor with the shape and device of `x`: the real part of a ComplexTensor.

    Attributes of a ComplexTensor take much longer to read than those of its parts.
    """
    if isinstance(x, ComplexTensor) and not torch.compiler.is_compiling():
        return x._real
    return x


def is_sharded(x: torch.Tensor) -> bool:
    """Returns whether a tensor is a DTensor, or a ComplexTensor whose parts are DTensors."""
    # A caller that has a DTensor has imported the whole module; another thread may be importing it.
    kind = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    if kind is None:
        return False
    if not isinstance(x, ComplexTensor):
        return isinstance(x, kind)
    part = parts_of(x)[0] if torch.compiler.is_compiling() else x._real
    return isinstance(part, kind)


def _copied(x: torch.Tensor) -> torch.Tensor:
    """Returns a copy; a DTensor with pending sums is returned as it is.

    Copying it would carry out the sums, or place the tensor anew.
    """
    if is_sharded(x):
        from trnfft.complex import dtensor  # here, as it loads DTensor

        return x if dtensor.is_pending(x) else x.clone()
    return x.clone()


def _has_native(values: Any) -> bool:
    """Whether native tensors among these values must be split before a ComplexTensor meets them."""
    for x in values:
        if isinstance(x, (list, tuple)):
            if _has_native(x):
                return True
        elif isinstance(x, torch.Tensor) and not isinstance(x, ComplexTensor) and _is_native(x):
            return True
    return False


def is_in_place(function: Any) -> bool:
    name: str = getattr(function, "__name__", "").split(".")[0]  # without that of an overload
    return name.endswith("_") and not name.endswith("__") or name in _IN_PLACE


_IN_PLACE = {"__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__"}


def _is_native(x: torch.Tensor) -> bool:
    """Whether x holds complex numbers in one tensor that autograd follows, or in a DTensor."""
    if not x.is_complex():
        return False
    return x.requires_grad or is_sharded(x) or is_forward_mode()


def _is_native_target(x: Any) -> bool:
    """Whether x, which is written, is a native complex tensor, or a list that begins with one.

    Exported code and DTensors are left to operators below autograd.
    """
    if isinstance(x, (list, tuple)):
        return bool(x) and _is_native_target(x[0])
    if isinstance(x, ComplexTensor) or not isinstance(x, torch.Tensor) or not x.is_complex():
        return False
    return not (torch.compiler.is_exporting() or is_sharded(x))


def _split_if_native(x: torch.Tensor) -> torch.Tensor:
    return x if isinstance(x, ComplexTensor) or not _is_native(x) else _split("z", x)


def is_followed(*values: Any) -> bool:
    """Whether autograd, a compiler, a mode or torch.func observes operations on these values."""
    if torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return True
    if is_transformed() or len_torch_dispatch_stack():
        return True
    # It accepts other values than tensors, and reads a ComplexTensor without __torch_function__.
    return torch.is_grad_enabled() and any_requires_grad(*values)


class _Join(torch.autograd.Function):
    """Makes a ComplexTensor of real tensors, as torch.complex makes a native complex tensor."""

    @staticmethod
    def forward(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
        return _joined(real, imag)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)  # compiled code passes None where nothing depends on it

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor | None) -> Any:
        return (None, None) if gradient is None else parts_to_read(gradient)


def _eagerly(joined: Callable[..., Any]) -> Any:
    """Returns `_Join` in a form that torch calls in half the time, but cannot transform."""

    class JoinEagerly(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
            ctx.set_materialize_grads(False)
            return joined(real, imag)

        backward = _Join.backward

    keep_from_compiler(JoinEagerly.forward.__code__)
    return JoinEagerly


_JoinEagerly, _JoinToRead = _eagerly(_joined), _eagerly(_recorded("join")(_without_copies))


class _Split(torch.autograd.Function):
    """The inverse of `_Join`: several views, made by one function."""

    @staticmethod
    def forward(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return views_of_parts(z)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)  # materialised gradients are not DTensors

    @staticmethod
    def backward(ctx: Any, real: torch.Tensor | None, imag: torch.Tensor | None) -> Any:
        if real is None and imag is None:
            return None
        real = torch.zeros_like(imag) if real is None else real  # type: ignore[arg-type]
        return join(real, torch.zeros_like(real) if imag is None else imag)


class _Parts(torch.autograd.Function):
    """`_Split` in a form that torch calls in half the time, but cannot transform."""

    @staticmethod
    def forward(ctx: Any, z: ComplexTensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        return views_of_parts(z)

    backward = _Split.backward


class _PartsToTransform(torch.autograd.Function):
    """`_Parts` without views of the whole."""

    @staticmethod
    def forward(ctx: Any, z: ComplexTensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        return z._real.detach(), -z._imag if is_conjugate(z) else z._imag.detach()

    backward = _Split.backward


class _Pairs(torch.autograd.Function):
    """torch.view_as_real of a ComplexTensor, whose gradient is a ComplexTensor."""

    @staticmethod
    def forward(ctx: Any, z: ComplexTensor) -> torch.Tensor:
        return _pairs(z)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> ComplexTensor:
        return join(gradient.select(-1, 0), gradient.select(-1, 1))  # the parts, of batched pairs


for _function in (
    of_parts,
    views_of_parts,
    _called,
    _own,
    _view_of_part,
    _viewed,
    _wrapped,
    _Join.forward,
    _Join.setup_context,
    _Split.forward,
    _Split.setup_context,
    _Parts.forward,
    _PartsToTransform.forward,
    _Pairs.forward,
    ComplexTensor.__torch_function__.__func__,  # type: ignore[attr-defined]
    recorded_whole,
    ComplexTensor.__torch_dispatch__.__func__,  # type: ignore[attr-defined]
):
    keep_from_compiler(_function.__code__)


# The methods that forward mode and torch.func need, which torch.compile does not accept.
class _JoinUnderTransforms(_Join):
    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Does nothing, so that missing tangents are zeros."""

    @staticmethod
    def jvp(ctx: Any, real: torch.Tensor, imag: torch.Tensor) -> Any:
        return join(real, imag)

    @staticmethod
    def vmap(info: Any, in_dims: Any, real: torch.Tensor, imag: torch.Tensor) -> Any:
        parts = [
            part.expand(info.batch_size, *part.shape) if dim is None else part.movedim(dim, 0)
            for part, dim in zip((real, imag), in_dims, strict=True)
        ]
        return join(*parts), 0


class _PartsUnderTransforms(_Split):
    @staticmethod
    def jvp(ctx: Any, z: torch.Tensor) -> Any:
        if is_legacy_batchedtensor(z):  # not a class, so without views
            raise not_vectorized("the forward mode of torch.view_as_complex")
        return parts_of(z)

    @staticmethod
    def vmap(info: Any, in_dims: Any, z: torch.Tensor) -> Any:
        return parts_of(z.movedim(in_dims[0], 0)), (0, 0)


def _check_part(name: str, part: object) -> None:
    if not isinstance(part, torch.Tensor):
        raise TypeError(
            f"argument '{name}' is of type {type(part).__name__}, allowed is a real "
            f"torch.Tensor; convert it with torch.as_tensor"
        )
    _check_layout(name, part)
    if part.dtype not in PART_DTYPES:
        advice = (
            "split a complex tensor with ComplexTensor.from_complex"
            if part.is_complex()
            else "convert it, for example with .float()"
        )
        raise TypeError(
            f"argument '{name}' has dtype {part.dtype}, allowed are "
            f"{', '.join(map(str, PART_DTYPES))}; {advice}"
        )


def _check_parts(real: torch.Tensor, imag: torch.Tensor) -> None:
    """Raises the errors of `ComplexTensor(real, imag)`."""
    for name, part in (("real", real), ("imag", imag)):
        _check_part(name, part)
    if real.shape != imag.shape:
        raise ValueError(
            f"argument 'real' has shape {tuple(real.shape)} and argument 'imag' has shape "
            f"{tuple(imag.shape)}; they must be equal, see torch.broadcast_tensors"
        )
    if real.dtype != imag.dtype:
        raise TypeError(
            f"argument 'real' has dtype {real.dtype} and argument 'imag' has dtype "
            f"{imag.dtype}; they must be equal, convert one with .to(dtype)"
        )
    if real.device != imag.device:
        raise ValueError(
            f"argument 'real' is on device '{real.device}' and argument 'imag' is on device "
            f"'{imag.device}'; they must be equal, move one with .to(device)"
        )


def _check_layout(name: str, x: torch.Tensor) -> None:
    if x.is_nested or x.layout != torch.strided:
        raise TypeError(
            f"argument '{name}' is {'nested' if x.is_nested else x.layout}, allowed is a "
            f"tensor of one shape and layout torch.strided; convert it, as with .to_dense()"
        )


def _check_polar(abs: torch.Tensor, angle: torch.Tensor) -> None:
    """Raises the errors of `from_polar`."""
    for name, part in (("abs", abs), ("angle", angle)):
        _check_part(name, part)
    if (abs.dtype, abs.device) != (angle.dtype, angle.device):
        error = TypeError if abs.dtype != angle.dtype else ValueError
        raise error(
            f"argument 'abs' has dtype {abs.dtype} on '{abs.device}' and argument 'angle' has "
            f"{angle.dtype} on '{angle.device}'; they must be equal, convert one with .to(...)"
        )
    try:
        shape = torch.broadcast_shapes(abs.shape, angle.shape)
    except RuntimeError:
        raise ValueError(
            f"argument 'abs' has shape {tuple(abs.shape)} and argument 'angle' has shape "
            f"{tuple(angle.shape)}; they must broadcast"
        ) from None
    _check_memory(f"argument 'abs' has shape {tuple(abs.shape)}", shape, abs)


def _split(name: str, z: torch.Tensor) -> ComplexTensor:
    """Returns the argument called `name`, of complex or real numbers, as a ComplexTensor."""
    if isinstance(z, ComplexTensor):
        return z
    _check_layout(name, z)
    if z.is_complex():
        return split(z)
    if z.dtype not in PART_DTYPES:
        raise TypeError(
            f"argument '{name}' has dtype {z.dtype}, allowed are complex dtypes and "
            f"{', '.join(map(str, PART_DTYPES))}; convert it, for example with .float()"
        )
    _check_memory(f"argument '{name}' has shape {tuple(z.shape)}", z.shape, z)
    return join(z.clone(), torch.zeros_like(z))


def split(z: torch.Tensor) -> ComplexTensor:
    """Returns a native complex tensor, DTensor or not, as a ComplexTensor. Differentiable."""
    if not is_sharded(z):
        real, imag = parts_of(z)
        if torch.compiler.is_compiling():  # where `join` does not know that these are views
            real, imag = real.clone(), imag.clone()
        return join(real, imag)
    from trnfft.complex import dtensor  # here, as it loads DTensor

    return join(*dtensor.each_part(z, parts_of))


def _check_memory(what: str, shape: torch.Size, like: torch.Tensor) -> None:
    """Raises RuntimeError where the memory is too small for another part."""
    if may_be_too_many(shape.numel()):
        check_memory(what, shape, like.element_size(), like.device)


def dtype_of_parts(argument: Any) -> Any:
    """Returns the dtype of the parts for a complex dtype, and any other argument as it is."""
    return _PARTS_OF.get(argument, argument) if isinstance(argument, torch.dtype) else argument


def _rebuilt(
    real: torch.Tensor,
    imag: torch.Tensor,
    requires_grad: bool,
    is_parameter: bool,
    attributes: dict[str, Any] | None = None,
    is_lazy: bool = False,
) -> ComplexTensor:
    """Returns the ComplexTensor that a file describes, with checks.

    It keeps the memory of the parts, which a file may share among tensors.
    """
    _check_parts(real, imag)
    if not is_sharded(real) and have_one_storage(real, imag):
        imag = imag.clone()  # one part must not change with the other
    z: Any = with_conjugation(_joined(real.resolve_neg(), imag.resolve_neg()), is_lazy)
    z = torch.nn.Parameter(z, requires_grad) if is_parameter else z.requires_grad_(requires_grad)
    z.__dict__.update({name: x for name, x in (attributes or {}).items() if name not in _OWN})
    return z


# torch.load reads only tensors and the classes that are registered here.
torch.serialization.add_safe_globals([ComplexTensor, _rebuilt])
