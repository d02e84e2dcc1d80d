"""Decides which kind of complex tensor a result is: the kind of the input.

Native numbers, complex or real, give native complex tensors where complex numbers have storage: on
the backend "torch", and on NeuronCores after `set_complex_storage(True)`. A ComplexTensor gives a
ComplexTensor everywhere. The other backends always return ComplexTensors, because they serve
devices without complex storage, or stand in for such devices.
"""

import torch

from trnfft.base.devices import has_native
from trnfft.complex.given_parts import COMPLEX_DTYPES
from trnfft.complex.parts import is_sharded, join, native_of, parts_of
from trnfft.complex.tensor import ComplexTensor


def is_native(*inputs: torch.Tensor) -> bool:
    """Whether complex results of these inputs are native; the first input is a tensor."""
    if any(isinstance(x, ComplexTensor) or is_sharded(x) for x in inputs):
        return False
    return has_native(inputs[0].device)


def made_of(real: torch.Tensor, imag: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
    """Returns the complex tensor of two parts, of the kind that these inputs give.

    Nothing else may use the memory of the parts.
    """
    return native_of(real, imag) if is_native(*inputs) else join(real, imag)


def of_kind(y: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
    """Returns a result, as a native tensor where these inputs give native tensors."""
    return as_native(y) if isinstance(y, ComplexTensor) and is_native(*inputs) else y


def with_parts_in(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns a real or complex tensor whose elements or parts have the given real dtype."""
    if isinstance(x, ComplexTensor):  # under `trnfft.patch_torch`, x.to(dtype) is x.real.to(dtype)
        real, imag = parts_of(x)
        return x if real.dtype == dtype else join(real.to(dtype), imag.to(dtype))
    return x.to(COMPLEX_DTYPES[dtype] if x.is_complex() else dtype)


def as_native(x: torch.Tensor) -> torch.Tensor:
    """Returns a native tensor for a tensor of either kind. Differentiable.

    Plots, files and tests need native tensors. See `docs/complex_tensor.md`.

    Args:
        x: a ComplexTensor, or any other tensor, which is returned as it is.

    Returns:
        torch.Tensor with the shape and dtype of `x`, on a device that has complex dtypes.

    Raises:
        TypeError: `x` is not a tensor.

    Examples:
        >>> import torch, trnfft
        >>> z = trnfft.ComplexTensor(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
        >>> trnfft.as_native(z)
        tensor([1.+3.j, 2.+4.j])
    """
    _check(x)
    return x.to_complex() if isinstance(x, ComplexTensor) else x


def as_complex_tensor(x: torch.Tensor) -> ComplexTensor:
    """Returns a ComplexTensor for a tensor of either kind. Differentiable.

    See `docs/complex_tensor.md`.

    Args:
        x: a ComplexTensor, which is returned as it is, or a native tensor, which is copied. Real
            floating-point numbers get imaginary parts of zero.

    Returns:
        ComplexTensor with the shape and device of `x`.

    Raises:
        TypeError: `x` is not a tensor, or has a dtype that is neither complex nor allowed for
            parts.
        RuntimeError: the memory is too small for the copies.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.as_complex_tensor(torch.tensor([1 + 3j, 2 + 4j]))
        ComplexTensor([1.+3.j, 2.+4.j])
    """
    _check(x)
    return ComplexTensor.from_complex(x)


def _check(x: object) -> None:
    if not isinstance(x, torch.Tensor):
        raise TypeError(
            f"argument 'x' is of type {type(x).__name__}, allowed is a torch.Tensor or a "
            f"ComplexTensor; convert it with torch.as_tensor"
        )
