"""What functions of torch do on ComplexTensors that its operators cannot say, above autograd.

Parts are views, and a real dtype names that of the parts; torch.fft is this library's own, with its
derivatives; torch's formulas for some derivatives would make native complex tensors.
"""

from typing import Any

import torch

from trnfft import signal, transforms
from trnfft.complex import arithmetic as arithmetic  # these fill the tables
from trnfft.complex import composites as composites
from trnfft.complex import creation as creation
from trnfft.complex import linear_algebra as linear_algebra
from trnfft.complex import products as products
from trnfft.complex import reductions as reductions
from trnfft.complex import reflections as reflections
from trnfft.complex import selection as selection
from trnfft.complex.tensor import FUNCTIONS, ComplexTensor, dtype_of_parts, join, parts_of

_TRANSFORMS = """
    fft fft2 fftn ifft ifft2 ifftn rfft rfft2 rfftn irfft irfft2 irfftn hfft hfft2 hfftn ihfft
    ihfft2 ihfftn
"""


def real(input: ComplexTensor) -> torch.Tensor:
    return parts_of(input)[0]


def imag(input: ComplexTensor) -> torch.Tensor:
    return parts_of(input)[1]


def _set_real(self: ComplexTensor, value: torch.Tensor) -> None:
    self.copy_(join(value.expand_as(self), imag(self)))


def _set_imag(self: ComplexTensor, value: torch.Tensor) -> None:
    self.copy_(join(real(self), value.expand_as(self)))


def _set_data(self: ComplexTensor, value: ComplexTensor) -> None:
    fits = isinstance(value, ComplexTensor) and value.shape == self.shape
    if not fits or value.real.dtype != self.real.dtype or value.device != self.device:
        raise RuntimeError(
            f"argument 'data' is {getattr(value, 'dtype', type(value).__name__)} of shape "
            f"{tuple(getattr(value, 'shape', ()))}, allowed is a ComplexTensor with the shape "
            f"{tuple(self.shape)}, dtype and device of this one; see torch.utils.swap_tensors"
        )
    self._real, self._imag = value.detach()._real, value.detach()._imag


def view_as_real(input: ComplexTensor) -> torch.Tensor:
    return torch.stack(parts_of(input), dim=-1)


def conj(input: ComplexTensor) -> ComplexTensor:
    """A copy: a view would have to keep that its imaginary part is the negative of another."""
    with torch._C.DisableTorchFunctionSubclass():
        return torch.conj_physical(input)


def angle(input: ComplexTensor) -> torch.Tensor:
    a, b = parts_of(input)
    return torch.atan2(b, a)


def to(self: ComplexTensor, *args: Any, **kwargs: Any) -> ComplexTensor:
    """Another device or dtype, with the arguments of torch.Tensor.to.

    A complex dtype stands for the dtype of its parts: `x.to(torch.complex64)` and
    `x.to(torch.float32)` are the same.
    """
    if args and isinstance(args[0], ComplexTensor):
        args = (args[0].device, args[0].real.dtype, *args[1:])
    args = tuple(map(dtype_of_parts, args))
    kwargs = {name: dtype_of_parts(value) for name, value in kwargs.items()}
    a, b = parts_of(self)
    real, imag = a.to(*args, **kwargs), b.to(*args, **kwargs)
    return self if real is a and imag is b else ComplexTensor(real, imag)


def _as_dtype(dtype: torch.dtype) -> Any:
    return lambda self, **kwargs: to(self, dtype, **kwargs)


def _stft(input: Any, *args: Any, **kwargs: Any) -> Any:
    return signal.stft(input, *args, **kwargs)


_ATTRIBUTES: dict[str, tuple[Any, Any]] = {"real": (real, _set_real), "imag": (imag, _set_imag)}
for _name, (_get, _set) in _ATTRIBUTES.items():
    _descriptor = getattr(torch.Tensor, _name)
    FUNCTIONS[_descriptor.__get__] = _get
    FUNCTIONS[_descriptor.__set__] = _set
FUNCTIONS[torch.Tensor.data.__set__] = _set_data  # type: ignore[attr-defined]
FUNCTIONS |= {
    torch.real: real,
    torch.imag: imag,
    torch.view_as_real: view_as_real,
    torch.conj: conj,
    torch.Tensor.conj: conj,
    torch.angle: angle,
    torch.Tensor.angle: angle,
    torch.adjoint: lambda input: conj(input.mT),
    torch.Tensor.adjoint: lambda self: conj(self.mT),
    torch.Tensor.mH.__get__: lambda self: conj(self.mT),  # type: ignore[attr-defined]
    torch.Tensor.H.__get__: lambda self: conj(self.T),  # type: ignore[attr-defined]
    torch.Tensor.to: to,
    torch.Tensor.half: _as_dtype(torch.float16),
    torch.Tensor.bfloat16: _as_dtype(torch.bfloat16),
    torch.Tensor.float: _as_dtype(torch.float32),
    torch.Tensor.double: _as_dtype(torch.float64),
    torch.stft: _stft,
    torch.Tensor.stft: _stft,
    torch.istft: signal.istft,
    torch.Tensor.istft: signal.istft,
}
FUNCTIONS.update(
    (getattr(torch.fft, name), getattr(transforms, name)) for name in _TRANSFORMS.split()
)
