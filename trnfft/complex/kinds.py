"""Which kind of complex tensor a result is: kind in, kind out.

Native numbers, real ones too, give native complex tensors where complex numbers have storage: where
the backend is "torch", and on NeuronCores by `set_complex_storage(True)`. A ComplexTensor gives a
ComplexTensor everywhere, and so does anything on the other backends, which are for devices without
complex storage, or stand for such.
"""

from typing import Any

import torch

from trnfft import config
from trnfft.backends.choice import COMPLEX_DEVICES, backend_for, stores_complex
from trnfft.complex.tensor import COMPLEX_DTYPES, ComplexTensor, join, join_to_read, parts_of
from trnfft.ops.sharded import is_sharded


def is_native(*inputs: Any) -> bool:
    """Whether complex results of these inputs are native; the first of them is a tensor."""
    if any(isinstance(x, ComplexTensor) or is_sharded(x) for x in inputs):
        return False
    return has_native(inputs[0].device)


def has_native(device: torch.device) -> bool:
    """Whether complex results of native tensors on a device are native.

    A graph knows the backend that was chosen last when it was compiled, and is compiled anew for
    another one.
    """
    if device.type not in COMPLEX_DEVICES and stores_complex(device):
        return True
    if torch.compiler.is_compiling():
        return device.type in COMPLEX_DEVICES and config.LATEST in ("auto", "torch")
    return backend_for(device) == "torch"


def made_of(real: torch.Tensor, imag: torch.Tensor, *inputs: Any) -> torch.Tensor:
    """The complex tensor of parts that nothing else has, of the kind that these inputs give."""
    if not is_native(*inputs):
        return join(real, imag)
    if real.dtype in (torch.float16, torch.bfloat16):  # of autocast
        real, imag = real.float(), imag.float()
    return torch.complex(real, imag)


def of_results(real: torch.Tensor, imag: torch.Tensor, *inputs: Any) -> torch.Tensor:
    """As `made_of`, of what a transform has made: views of that are nobody else's."""
    if is_native(*inputs):
        return made_of(real, imag, *inputs)
    return join_to_read(real, imag)


def of_kind(y: torch.Tensor, *inputs: Any) -> torch.Tensor:
    """A result, as a native tensor where these inputs give such."""
    return as_native(y) if isinstance(y, ComplexTensor) and is_native(*inputs) else y


def with_parts_in(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A real or complex tensor whose elements or parts are of a real dtype."""
    is_native = x.is_complex() and not isinstance(x, ComplexTensor)
    return x.to(COMPLEX_DTYPES[dtype] if is_native else dtype)


def parts_apart(z: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The parts of a complex tensor of either kind, of a native one in memory of their own."""
    if isinstance(z, ComplexTensor):
        return parts_of(z)
    pairs = torch.view_as_real(z.contiguous().resolve_conj())
    parts: Any = torch.unbind_copy(pairs, -1)  # type: ignore[func-returns-value]
    return tuple(parts)


def as_native(x: torch.Tensor) -> torch.Tensor:
    """A native tensor of either kind of tensor, for plots, files and tests. Differentiable.

    Args:
        x: a ComplexTensor, or any other tensor, which is returned as it is.

    Returns:
        torch.Tensor of the shape and dtype of `x`, on a device that has complex dtypes.

    Raises:
        TypeError: `x` is no tensor.
    """
    _check(x)
    return x.to_complex() if isinstance(x, ComplexTensor) else x


def as_complex_tensor(x: torch.Tensor) -> ComplexTensor:
    """A ComplexTensor of either kind of tensor. Differentiable.

    Args:
        x: a ComplexTensor, which is returned as it is, or a native tensor, which is copied; the
            imaginary part of real floating point numbers is zero.

    Returns:
        ComplexTensor of the shape and device of `x`.

    Raises:
        TypeError: `x` is no tensor, or of a dtype that is neither complex nor allowed for parts.
        RuntimeError: there is no memory for the copies.
    """
    _check(x)
    return ComplexTensor.from_complex(x)


def _check(x: object) -> None:
    if not isinstance(x, torch.Tensor):
        raise TypeError(
            f"argument 'x' is of type {type(x).__name__}, allowed is a torch.Tensor or a "
            f"ComplexTensor; convert it with torch.as_tensor"
        )
