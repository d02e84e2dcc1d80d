"""ComplexTensor: a complex tensor as a pair of real ones.

A NeuronCore has no complex dtype, so real and imaginary parts stay separate tensors from the
user's call down to the kernel. Every operation here is a few torch operations on the parts, and
therefore differentiable and available on every device.
"""

from __future__ import annotations

import numbers
import textwrap
from collections.abc import Iterator
from typing import Any

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


class ComplexTensor:
    """Complex numbers `real + 1j * imag`, stored as two real tensors.

    The parts are the attributes `real` and `imag`. Arithmetic with another ComplexTensor, a real
    or native complex tensor or a Python number broadcasts and promotes dtypes as torch does.

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

    def to_complex(self) -> torch.Tensor:
        """A native complex tensor of dtype `self.dtype`: a copy, on the same device.

        The device must have complex dtypes; for others, move to one first: `x.to("cpu")`.
        """
        part_dtype = _PARTS_OF[self.dtype]
        return torch.complex(self.real.to(part_dtype), self.imag.to(part_dtype))

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

    def numel(self) -> int:
        """The number of complex elements."""
        return self.real.numel()

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
        parts = self._parts_of(other)
        if parts is None:
            return NotImplemented
        real, imag = parts
        # The zeros of a real operand still broadcast and promote the imaginary part.
        imag = torch.zeros_like(real) if imag is None else imag
        return ComplexTensor(self.real + real, self.imag + imag)

    def __sub__(self, other: object) -> ComplexTensor:
        parts = self._parts_of(other)
        if parts is None:
            return NotImplemented
        real, imag = parts
        imag = torch.zeros_like(real) if imag is None else imag
        return ComplexTensor(self.real - real, self.imag - imag)

    def __mul__(self, other: object) -> ComplexTensor:
        parts = self._parts_of(other)
        if parts is None:
            return NotImplemented
        real, imag = parts
        if imag is None:
            return ComplexTensor(self.real * real, self.imag * real)
        return ComplexTensor(
            self.real * real - self.imag * imag, self.real * imag + self.imag * real
        )

    def __truediv__(self, other: object) -> ComplexTensor:
        parts = self._parts_of(other)
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
        parts = self._parts_of(other)
        if parts is None:
            return NotImplemented
        real, imag = parts
        imag = torch.zeros_like(real) if imag is None else imag
        return _divide(real, imag, self.real, self.imag)

    def __eq__(self, other: object) -> torch.Tensor:  # type: ignore[override]
        """Elementwise comparison, a bool tensor, as for torch tensors."""
        parts = self._parts_of(other)
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
        args = tuple(map(_part_dtype, args))
        kwargs = {name: _part_dtype(value) for name, value in kwargs.items()}
        return ComplexTensor(self.real.to(*args, **kwargs), self.imag.to(*args, **kwargs))

    def __getitem__(self, index: Any) -> ComplexTensor:
        return ComplexTensor(self.real[index], self.imag[index])

    def reshape(self, *shape: Any) -> ComplexTensor:
        """As torch.Tensor.reshape."""
        return ComplexTensor(self.real.reshape(*shape), self.imag.reshape(*shape))

    def view(self, *shape: Any) -> ComplexTensor:
        """As torch.Tensor.view with a shape."""
        return ComplexTensor(self.real.view(*shape), self.imag.view(*shape))

    def transpose(self, dim0: int, dim1: int) -> ComplexTensor:
        """As torch.Tensor.transpose: no conjugation."""
        return ComplexTensor(self.real.transpose(dim0, dim1), self.imag.transpose(dim0, dim1))

    def permute(self, *dims: Any) -> ComplexTensor:
        """As torch.Tensor.permute."""
        return ComplexTensor(self.real.permute(*dims), self.imag.permute(*dims))

    def contiguous(self) -> ComplexTensor:
        """Both parts contiguous in memory."""
        return ComplexTensor(self.real.contiguous(), self.imag.contiguous())

    def detach(self) -> ComplexTensor:
        """The same values, outside the autograd graph."""
        return ComplexTensor(self.real.detach(), self.imag.detach())

    def clone(self) -> ComplexTensor:
        """A differentiable copy."""
        return ComplexTensor(self.real.clone(), self.imag.clone())

    def _parts_of(self, other: object) -> tuple[torch.Tensor, torch.Tensor | None] | None:
        """Real and imaginary part of an operand; the latter is None for real operands.

        The whole result is None for an operand that this class does not know.
        """
        if isinstance(other, (ComplexTensor, torch.Tensor)):
            _check_broadcast(self.shape, other.shape)
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
        # Not new_full, which raises an error where torch's own arithmetic rounds to infinity.
        return torch.tensor(value, dtype=self.real.dtype, device=self.device)


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


def _part_dtype(argument: Any) -> Any:
    return _PARTS_OF.get(argument, argument) if isinstance(argument, torch.dtype) else argument
