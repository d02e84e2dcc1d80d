"""ComplexTensor: a complex tensor as a pair of real ones.

A NeuronCore has no complex dtype, so real and imaginary parts stay separate tensors from the
user's call down to the kernel. Every operation here is a few torch operations on the parts, and
therefore differentiable and available on every device.

This file has the class, its conversions and its operators; `trnfft.complex.functions` has what
functions of torch do on it, and gives it the methods that torch.Tensor has for them.
"""

from __future__ import annotations

import numbers
import operator
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

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

# What a function of torch does on ComplexTensors. Filled by trnfft.complex.functions.
FUNCTIONS: dict[Any, Callable[..., Any]] = {}


def _in_place(operation: Callable[[Any, Any], Any]) -> Any:
    """The operator that writes its result into the left operand."""

    def in_place(self: ComplexTensor, other: object) -> ComplexTensor:
        return self.copy_(operation(self, other))

    return in_place


class ComplexTensor:
    """Complex numbers `real + 1j * imag`, stored as two real tensors.

    The parts are the attributes `real` and `imag`. Arithmetic with another ComplexTensor, a real
    or native complex tensor or a Python number broadcasts and promotes dtypes as torch does.
    Functions of torch that are in `trnfft.complex.functions` do on it what they do on complex
    tensors, and it has the methods of torch.Tensor for them; others raise a TypeError.

    Args:
        real: tensor of dtype float16, bfloat16, float32 or float64.
        imag: tensor of the same shape, dtype and device.

    Raises:
        TypeError: a part is no tensor, has another dtype, or the dtypes differ.
        ValueError: the shapes or the devices differ.
    """

    # NumPy arrays and scalars on the left of an operator leave it to this class.
    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __init__(self, real: torch.Tensor, imag: torch.Tensor) -> None:
        for name, part in (("real", real), ("imag", imag)):
            if not isinstance(part, torch.Tensor):
                raise TypeError(
                    f"argument '{name}' is of type {type(part).__name__}, allowed is a real "
                    f"torch.Tensor; convert it with torch.as_tensor"
                )
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
        self.real = real
        self.imag = imag

    @classmethod
    def of_parts(cls, real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
        """`ComplexTensor(real, imag)` of parts that are known to fit, without the checks."""
        made = cls.__new__(cls)
        made.real, made.imag = real, imag
        return made

    @classmethod
    def from_complex(cls, z: torch.Tensor) -> ComplexTensor:
        """Split a native complex tensor; a real floating tensor gets a zero imaginary part.

        The parts are views of `z`, as `z.real` and `z.imag` are.

        Raises:
            TypeError: `z` is no tensor, or neither complex nor of a dtype allowed for a part.
        """
        if not isinstance(z, torch.Tensor):
            raise TypeError(
                f"argument 'z' is of type {type(z).__name__}, allowed is a torch.Tensor; "
                f"convert it with torch.as_tensor"
            )
        if z.is_complex():
            return cls(z.real, z.imag)
        if z.dtype not in PART_DTYPES:
            raise TypeError(
                f"argument 'z' has dtype {z.dtype}, allowed are complex dtypes and "
                f"{', '.join(map(str, PART_DTYPES))}; convert it, for example with .float()"
            )
        return cls(z, torch.zeros_like(z))

    @classmethod
    def from_numpy(cls, array: np.ndarray) -> ComplexTensor:
        """Split a NumPy array; a real floating array gets a zero imaginary part.

        The parts share the memory of `array`, as with torch.from_numpy.

        Raises:
            TypeError: `array` is no array, or neither complex nor of a dtype allowed for a part.
            ValueError: `array` has a negative stride, which torch has not.
        """
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "cf":
            kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise TypeError(
                f"argument 'array' is of type {kind}, allowed is a complex or floating "
                f"numpy.ndarray; convert it, for example with numpy.asarray(array, complex)"
            )
        return cls.from_complex(torch.from_numpy(array))

    @classmethod
    def from_polar(cls, abs: torch.Tensor, angle: torch.Tensor) -> ComplexTensor:
        """The number with this absolute value and angle in radians, as torch.polar.

        Args:
            abs: real tensor, of a dtype allowed for a part.
            angle: real tensor of this dtype, and of a shape that broadcasts with that of `abs`.

        Raises:
            TypeError, ValueError: as for `ComplexTensor(abs, angle)`.
        """
        return cls(abs * torch.cos(angle), abs * torch.sin(angle))

    def to_complex(self) -> torch.Tensor:
        """A native complex tensor of dtype `self.dtype`: a copy, on the same device.

        The device must have complex dtypes; for others, move to one first: `x.to("cpu")`.
        """
        part_dtype = _PARTS_OF[self.dtype]
        return torch.complex(self.real.to(part_dtype), self.imag.to(part_dtype))

    def numpy(self) -> np.ndarray:
        """A complex NumPy array: a copy, of dtype complex128 or (for all smaller) complex64.

        Raises:
            RuntimeError: a part requires a gradient; call `detach()` first.
            TypeError: the parts are not on the CPU; call `cpu()` first.
        """
        part_dtype = torch.float64 if self.real.dtype == torch.float64 else torch.float32
        array = np.empty(self.shape, np.complex128 if part_dtype == torch.float64 else np.complex64)
        array.real = self.real.to(part_dtype).numpy()
        array.imag = self.imag.to(part_dtype).numpy()
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("argument 'copy' is False, but joining two parts has to copy them")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def item(self) -> complex:
        """The Python number of a tensor with one element."""
        return complex(self.real.item(), self.imag.item())

    __complex__ = item

    def tolist(self) -> Any:
        """Nested lists of Python numbers, or one number if there are no dimensions."""
        return self.detach().cpu().numpy().tolist()

    # Functions and methods of torch

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """What torch calls when one of its functions gets a ComplexTensor."""
        if func not in FUNCTIONS:
            name = torch.overrides.resolve_name(func) or getattr(func, "__name__", func)
            raise TypeError(
                f"{name} has no implementation for ComplexTensor, allowed are the functions in "
                f"trnfft.complex.functions; call it on a native tensor: x.cpu().to_complex()"
            )
        return FUNCTIONS[func](*args, **(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        advice = ""
        if not name.startswith("_") and hasattr(torch.Tensor, name):
            advice = "; torch.Tensor has, so call it on a native tensor: x.cpu().to_complex()"
        raise AttributeError(f"ComplexTensor has no attribute {name!r}{advice}")

    # Description

    @property
    def dtype(self) -> torch.dtype:
        """The complex dtype of `to_complex()`; the dtype of the parts is `self.real.dtype`.

        float16 gives complex32, float32 complex64, float64 complex128. No complex dtype has
        bfloat16 parts, so bfloat16 gives complex64, as in torch's promotion rules.
        """
        return COMPLEX_DTYPES[self.real.dtype]

    @property
    def shape(self) -> torch.Size:
        """The common shape of the parts."""
        return self.real.shape

    @property
    def device(self) -> torch.device:
        """The common device of the parts."""
        return self.real.device

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.real.ndim

    @property
    def requires_grad(self) -> bool:
        """Whether autograd follows at least one of the parts."""
        return self.real.requires_grad or self.imag.requires_grad

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        return self.shape if dim is None else self.real.size(dim)

    def dim(self) -> int:
        """The number of dimensions."""
        return self.real.ndim

    def numel(self) -> int:
        """The number of complex elements."""
        return self.real.numel()

    def is_complex(self) -> bool:
        """True, as for native complex tensors."""
        return True

    def is_floating_point(self) -> bool:
        """False, as for native complex tensors."""
        return False

    def __len__(self) -> int:
        return len(self.real)

    def __iter__(self) -> Iterator[ComplexTensor]:
        return map(ComplexTensor, self.real, self.imag)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __repr__(self) -> str:
        # torch prints complex numbers well, but not of every dtype and not on every device.
        device = "meta" if self.device.type == "meta" else "cpu"
        part_dtype = torch.float64 if self.real.dtype == torch.float64 else torch.float32
        text = repr(self.detach().to(device, part_dtype).to_complex()).removeprefix("tensor(")
        notes = ""
        if self.real.dtype != part_dtype:
            notes += f", real.dtype={self.real.dtype}"
        if self.device.type != device:
            notes += f", device='{self.device}'"
        if self.requires_grad:
            notes += ", requires_grad=True"
        more_indent = " " * (len("ComplexTensor(") - len("tensor("))
        text = textwrap.indent(text, more_indent).removeprefix(more_indent)
        return f"ComplexTensor({text.removesuffix(')')}{notes})"

    # Arithmetic

    def __neg__(self) -> ComplexTensor:
        return ComplexTensor(-self.real, -self.imag)

    def __add__(self, other: object) -> ComplexTensor:
        parts = self._operand(other)
        if parts is None:
            return NotImplemented
        real, imag = parts
        # The zeros of a real operand still broadcast and promote the imaginary part.
        imag = torch.zeros_like(real) if imag is None else imag
        return ComplexTensor(self.real + real, self.imag + imag)

    def __sub__(self, other: object) -> ComplexTensor:
        parts = self._operand(other)
        if parts is None:
            return NotImplemented
        real, imag = parts
        imag = torch.zeros_like(real) if imag is None else imag
        return ComplexTensor(self.real - real, self.imag - imag)

    def __mul__(self, other: object) -> ComplexTensor:
        parts = self._operand(other)
        if parts is None:
            return NotImplemented
        real, imag = parts
        if imag is None:
            return ComplexTensor(self.real * real, self.imag * real)
        return ComplexTensor(
            self.real * real - self.imag * imag, self.real * imag + self.imag * real
        )

    def __truediv__(self, other: object) -> ComplexTensor:
        parts = self._operand(other)
        if parts is None:
            return NotImplemented
        real, imag = parts
        if imag is None:
            return ComplexTensor(self.real / real, self.imag / real)
        return _divide(self.real, self.imag, real, imag)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: object) -> ComplexTensor:
        return (-self) + other

    def __rtruediv__(self, other: object) -> ComplexTensor:
        parts = self._operand(other)
        if parts is None:
            return NotImplemented
        real, imag = parts
        imag = torch.zeros_like(real) if imag is None else imag
        return _divide(real, imag, self.real, self.imag)

    def __pow__(self, other: object) -> ComplexTensor:
        return torch.pow(self, other)  # type: ignore[call-overload]

    def __rpow__(self, other: object) -> ComplexTensor:
        return torch.pow(other, self)  # type: ignore[call-overload]

    def __matmul__(self, other: object) -> ComplexTensor:
        return torch.matmul(self, other)  # type: ignore[arg-type, return-value]

    def __rmatmul__(self, other: object) -> ComplexTensor:
        return torch.matmul(other, self)  # type: ignore[arg-type, return-value]

    __iadd__ = _in_place(operator.add)
    __isub__ = _in_place(operator.sub)
    __imul__ = _in_place(operator.mul)
    __itruediv__ = _in_place(operator.truediv)
    __ipow__ = _in_place(operator.pow)

    def __eq__(self, other: object) -> torch.Tensor:  # type: ignore[override]
        """Elementwise comparison, a bool tensor, as for torch tensors."""
        parts = self._operand(other)
        if parts is None:
            return NotImplemented
        real, imag = parts
        return (self.real == real) & (self.imag == (0 if imag is None else imag))

    def __ne__(self, other: object) -> torch.Tensor:  # type: ignore[override]
        equal = self.__eq__(other)
        return NotImplemented if equal is NotImplemented else ~equal

    def conj(self) -> ComplexTensor:
        """The complex conjugate."""
        return ComplexTensor(self.real, -self.imag)

    def abs(self) -> torch.Tensor:
        """The absolute value, a real tensor. Its gradient at zero is zero, as in torch."""
        # hypot has the gradient 0/0 at zero: compute it elsewhere, then write the zero.
        zero = (self.real == 0) & (self.imag == 0)
        return torch.hypot(self.real.masked_fill(zero, 1), self.imag).masked_fill(zero, 0)

    __abs__ = abs

    def angle(self) -> torch.Tensor:
        """The argument in radians, a real tensor with values in [-pi, pi]."""
        return torch.atan2(self.imag, self.real)

    # Shape, place and history

    def to(self, *args: Any, **kwargs: Any) -> ComplexTensor:
        """Another device or dtype, with the arguments of torch.Tensor.to.

        A complex dtype stands for the dtype of its parts: `x.to(torch.complex64)` and
        `x.to(torch.float32)` are the same.
        """
        args = tuple(map(dtype_of_parts, args))
        kwargs = {name: dtype_of_parts(value) for name, value in kwargs.items()}
        return ComplexTensor(self.real.to(*args, **kwargs), self.imag.to(*args, **kwargs))

    def __getitem__(self, index: Any) -> ComplexTensor:
        return ComplexTensor(self.real[index], self.imag[index])

    def __setitem__(self, index: Any, value: object) -> None:
        self.real[index], self.imag[index] = self._written_parts("value", value)

    def copy_(self, src: object) -> ComplexTensor:
        """Write a tensor or number, broadcast to this shape and converted to this dtype."""
        real, imag = self._written_parts("src", src)
        self.real.copy_(real)
        self.imag.copy_(imag)
        return self

    @property
    def T(self) -> ComplexTensor:
        """The transpose, without conjugation."""
        return ComplexTensor(self.real.T, self.imag.T)

    @property
    def mT(self) -> ComplexTensor:
        """The transpose of the last two dimensions, without conjugation."""
        return ComplexTensor(self.real.mT, self.imag.mT)

    @property
    def H(self) -> ComplexTensor:
        """The conjugate transpose of a matrix."""
        return ComplexTensor(self.real.H, -self.imag.H)

    @property
    def mH(self) -> ComplexTensor:
        """The conjugate transpose of the last two dimensions."""
        return ComplexTensor(self.real.mH, -self.imag.mH)

    def requires_grad_(self, requires_grad: bool = True) -> ComplexTensor:
        """Let autograd follow both parts, or none."""
        self.real.requires_grad_(requires_grad)
        self.imag.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> ComplexTensor | None:
        """The gradients of the parts, as those of a native complex tensor; None before any."""
        real, imag = self.real.grad, self.imag.grad
        if real is None and imag is None:
            return None
        real = torch.zeros_like(self.real) if real is None else real
        return ComplexTensor(real, torch.zeros_like(self.imag) if imag is None else imag)

    def backward(self, gradient: ComplexTensor | None = None, **options: Any) -> None:
        """Gradients of the leaves, given that with respect to this tensor.

        Args:
            gradient: of the shape and dtype of this tensor.
            options: those of torch.autograd.backward, such as `retain_graph`.

        Raises:
            RuntimeError: `gradient` is missing, or nothing requires a gradient.
        """
        if gradient is None:
            raise RuntimeError(
                f"argument 'gradient' is None, allowed for real scalars only, but this tensor has "
                f"dtype {self.dtype}; pass it, or reduce to a real scalar as by x.abs().sum()"
            )
        pairs = [(self.real, gradient.real), (self.imag, gradient.imag)]
        # All, if none does: then torch raises the error.
        pairs = [pair for pair in pairs if pair[0].requires_grad] or pairs
        tensors, gradients = zip(*pairs, strict=True)
        torch.autograd.backward(tensors, gradients, **options)

    def _written_parts(self, name: str, value: object) -> tuple[torch.Tensor, torch.Tensor]:
        """Real and imaginary part of what is written into this tensor."""
        parts = self._parts_of(value)
        if parts is None:
            raise TypeError(
                f"argument '{name}' is of type {type(value).__name__}, allowed are ComplexTensor, "
                f"torch.Tensor and numbers; convert it with torch.as_tensor"
            )
        real, imag = parts
        return real, torch.zeros_like(real) if imag is None else imag

    def _operand(self, other: object) -> tuple[torch.Tensor, torch.Tensor | None] | None:
        """As `_parts_of`, of what must broadcast with this tensor."""
        if isinstance(other, (ComplexTensor, torch.Tensor)):
            _check_broadcast(self.shape, other.shape)
        return self._parts_of(other)

    def _parts_of(self, other: object) -> tuple[torch.Tensor, torch.Tensor | None] | None:
        """Real and imaginary part of a value; the latter is None for real values.

        The whole result is None for a value that this class does not know.
        """
        if isinstance(other, ComplexTensor):
            return other.real, other.imag
        if isinstance(other, torch.Tensor):
            return (other.real, other.imag) if other.is_complex() else (other, None)
        if isinstance(other, numbers.Real):
            return self._number(float(other)), None
        if isinstance(other, numbers.Complex):
            number = complex(other)
            return self._number(number.real), self._number(number.imag)
        return None

    def _number(self, value: float) -> torch.Tensor:
        # Not new_full, which raises an error where torch's own arithmetic rounds to infinity, nor
        # torch.tensor, which copies the number from the host.
        return self.real.new_ones(()) * value


def _divide(
    a_real: torch.Tensor, a_imag: torch.Tensor, b_real: torch.Tensor, b_imag: torch.Tensor
) -> ComplexTensor:
    """a / b = a conj(b) / |b|^2, scaled so that |b|^2 neither overflows nor underflows."""
    # The quotient does not depend on the scale, so detaching it leaves all derivatives exact.
    scale = torch.maximum(b_real.abs(), b_imag.abs()).detach()
    a_real, a_imag = a_real / scale, a_imag / scale
    b_real, b_imag = b_real / scale, b_imag / scale
    square = b_real * b_real + b_imag * b_imag
    return ComplexTensor(
        (a_real * b_real + a_imag * b_imag) / square,
        (a_imag * b_real - a_real * b_imag) / square,
    )


def _check_broadcast(shape: torch.Size, other_shape: torch.Size) -> None:
    for size, other_size in zip(reversed(shape), reversed(other_shape), strict=False):
        if size != other_size and 1 not in (size, other_size):
            raise RuntimeError(
                f"operands of shapes {tuple(shape)} and {tuple(other_shape)} do not broadcast; "
                f"sizes must be equal or 1, counted from the last dimension"
            )


def dtype_of_parts(argument: Any) -> Any:
    """The dtype of the parts in place of a complex dtype; any other argument as it is."""
    return _PARTS_OF.get(argument, argument) if isinstance(argument, torch.dtype) else argument


# So that torch.load, which by default reads tensors but no other classes, reads this one.
torch.serialization.add_safe_globals([ComplexTensor])
