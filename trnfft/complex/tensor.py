"""ComplexTensor: a torch.Tensor of complex numbers whose memory is a pair of real tensors.

A NeuronCore computes on real numbers, so the parts stay separate tensors from the user's call down
to the kernel. torch sees a tensor of dtype complex64 (or complex128, or complex32), with its own
autograd:

    torch's functions         above autograd: `trnfft.complex.functions`, for those that have to be
      autograd, torch.func    torch's formulas, which call operators again
      ATen's operators        below autograd: `trnfft.complex.dispatch`, real operators on the parts
        the parts             `_real` and `_imag`, on any device

`trnfft.complex.parts` makes a ComplexTensor of real tensors, and takes it apart.
"""

from __future__ import annotations

import copy
import hashlib
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import DTypeLike

from trnfft.base import torch_private as private
from trnfft.complex import table
from trnfft.complex.given_parts import (
    PART_DTYPE_OF,
    check_part_fits,
    check_parts,
    check_polar,
)
from trnfft.complex.graphs import (
    differ_in_name,
    is_in_graph,
    recorded_whole,
    sources,
    with_storage,
)
from trnfft.complex.table import Arguments, NamedArguments

# the attributes of every ComplexTensor
_OWN = ("_real", "_imag", "_is_lazy", "_traced", "_is_argument")

aten = torch.ops.aten


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
        check_parts(real, imag)
        check_part_fits(f"argument 'real' has shape {tuple(real.shape)}", real.shape, real)
        return table.join(table.copied(real), table.copied(imag))

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
        return table.split("z", z)

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
        return table.split("array", z)

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
        check_polar(abs, angle)
        return cls(abs * torch.cos(angle), abs * torch.sin(angle))

    def to_complex(self) -> torch.Tensor:
        """Returns a native complex tensor of dtype `self.dtype`: a copy on the same device.

        The device must have complex dtypes. From other devices, move the tensor first, with
        `x.to("cpu")`.
        """
        part_dtype = PART_DTYPE_OF[self.dtype]
        real, imag = table.parts_to_transform(self)
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
        parts = table.parts_of(self)
        part_dtype = torch.float64 if parts[0].dtype == torch.float64 else torch.float32
        real, imag = (part.to(part_dtype).resolve_neg().numpy(force=force) for part in parts)
        array = np.empty(real.shape, np.complex128 if part_dtype == torch.float64 else np.complex64)
        array.real, array.imag = real, imag
        return array

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("argument 'copy' is False, but joining two parts has to copy them")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __array_wrap__(self, array: np.ndarray, *args: object) -> torch.Tensor:
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
        return complex(self._real.item(), -imag if self._is_lazy else imag)

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
        cls,
        func: object,
        types: object,
        args: Arguments = (),
        kwargs: NamedArguments | None = None,
    ) -> Any:
        """Calls a function of torch, above autograd."""
        return table.called(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: private.OpOverload,
        types: object,
        args: Arguments = (),
        kwargs: NamedArguments | None = None,
    ) -> Any:
        """Calls an operator of ATen, below autograd."""
        if torch.jit.is_tracing():
            raise NotImplementedError(
                f"torch.jit.trace cannot record {func} of a ComplexTensor, allowed are .real, "
                f".imag and arithmetic with them; use torch.export or torch.compile"
            )
        kwargs = kwargs or {}
        if private.len_torch_dispatch_stack():
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
        return ["_real", "_imag"], self._is_lazy

    @staticmethod
    def __tensor_unflatten__(
        parts: dict[str, torch.Tensor], context: bool, size: Sequence[int], stride: Sequence[int]
    ) -> ComplexTensor:
        real, imag = parts["_real"], parts["_imag"]
        if stride is not None and differ_in_name(real, stride):
            real, imag = (part.as_strided(size, stride) for part in (real, imag))
        made = table.with_conjugation(table.wrapped(real, imag), context)
        made._is_argument = is_in_graph(real)
        return made

    def __coerce_same_metadata_as_tangent__(
        self, context: bool | None, expected_type: object = None
    ) -> torch.Tensor | None:
        """Returns the gradient of a compiled result in the form that the compiler expected."""
        if context is None or expected_type is torch.Tensor:  # for some inputs that are written
            return self.to_complex()
        real, imag = self._real, self._imag
        imag = imag if self._is_lazy == context else -imag
        return table.with_conjugation(table.of_parts(real, imag), context)

    def _stable_hash_for_caching(self) -> str:
        """Returns, for the key of a compiled graph on disk, everything that the graph may rest on.

        torch adds its own version, and the operators of the function that is compiled.
        """
        parts = [
            (tuple(x.shape), x.stride(), x.storage_offset(), x.dtype, x.device, x.is_inference())
            for x in (self._real, self._imag)
        ]
        described = type(self).__name__, parts, self.requires_grad, self._is_lazy, sources()
        return hashlib.sha256(repr(described).encode()).hexdigest()

    def __reduce_ex__(self, protocol: object) -> Any:
        z: Any = self.detach()
        is_parameter = isinstance(self, torch.nn.Parameter)
        described = self.requires_grad, is_parameter, self._attributes(), z._is_lazy
        return _rebuilt, (z._real, z._imag, *described)

    def __deepcopy__(self, memo: dict[int, Any]) -> ComplexTensor:
        if id(self) not in memo:
            if not self.is_leaf:
                return super().__deepcopy__(memo)  # torch's error says what is allowed
            is_parameter = isinstance(self, torch.nn.Parameter)
            z: Any = self.detach()
            if is_parameter or z._is_lazy:  # these get memory of their own, as in torch
                real, imag = (part.clone() for part in table.parts_of(z))
            else:
                real, imag = (copy.deepcopy(part, memo) for part in (z._real, z._imag))
            attributes = copy.deepcopy(self._attributes(), memo)
            copied = _rebuilt(real, imag, self.requires_grad, is_parameter, attributes)
            memo[id(self)] = copied
            if self.grad is not None and not is_parameter:  # as torch's own parameters
                copied.grad = self.grad.__deepcopy__(memo)
        return memo[id(self)]

    def _attributes(self) -> dict[str, object]:
        return {name: x for name, x in self.__dict__.items() if name not in _OWN}

    # Description

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 else object.__format__(self, spec)

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        # torch prints native complex numbers well, but not of all dtypes and on all devices.
        real, imag = table.parts_of(self.detach())
        if table.is_sharded(real):
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

    def to_local(self, **options: object) -> ComplexTensor:
        """Returns the shard that this device holds, as DTensor.to_local. Differentiable."""
        return table.join(*(part.to_local(**options) for part in self._dtensors()))

    def full_tensor(self, **options: object) -> ComplexTensor:
        """Returns the whole tensor on every device, as DTensor.full_tensor. Differentiable."""
        return table.join(*(part.full_tensor(**options) for part in self._dtensors()))

    def redistribute(self, *arguments: object, **options: object) -> ComplexTensor:
        """Returns the tensor split in another way, as DTensor.redistribute. Differentiable."""
        return table.join(*(part.redistribute(*arguments, **options) for part in self._dtensors()))

    def _dtensors(self) -> tuple[Any, ...]:
        return table.parts_of(self)

    # Memory

    def share_memory_(self) -> ComplexTensor:
        """Moves both parts to memory that processes share, and returns the tensor."""
        self._real.share_memory_()
        self._imag.share_memory_()
        return self

    def is_shared(self) -> bool:
        """Returns whether processes share the memory of both parts."""
        return self._real.is_shared() and self._imag.is_shared()

    def is_pinned(self, device: torch.device | str | int | None = None) -> bool:
        """Returns whether both parts are in pinned memory."""
        return all(part.is_pinned(device) for part in (self._real, self._imag))


def _rebuilt(
    real: torch.Tensor,
    imag: torch.Tensor,
    requires_grad: bool,
    is_parameter: bool,
    attributes: dict[str, object] | None = None,
    is_lazy: bool = False,
) -> ComplexTensor:
    """Returns the ComplexTensor that a file describes, with checks.

    It keeps the memory of the parts, which a file may share among tensors.
    """
    check_parts(real, imag)
    if not table.is_sharded(real) and private.have_one_storage(real, imag):
        imag = imag.clone()  # one part must not change with the other
    z: Any = table.with_conjugation(table.join(real.resolve_neg(), imag.resolve_neg()), is_lazy)
    z = torch.nn.Parameter(z, requires_grad) if is_parameter else z.requires_grad_(requires_grad)
    z.__dict__.update({name: x for name, x in (attributes or {}).items() if name not in _OWN})
    return z


# torch.load reads only tensors and the classes that are registered here.
torch.serialization.add_safe_globals([ComplexTensor, _rebuilt])

for _method in (ComplexTensor.__torch_function__, ComplexTensor.__torch_dispatch__):
    private.keep_from_compiler(_method)
