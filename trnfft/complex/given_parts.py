"""The dtypes of complex numbers and of their parts, and the errors of parts that do not fit."""

from __future__ import annotations

from typing import Any

import torch

from trnfft.base.memory import check_memory, may_be_too_many

PART_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

# As dictionaries because torch.compile cannot look into dtype.to_complex() and dtype.to_real().
COMPLEX_DTYPES = {
    torch.float16: torch.complex32,
    torch.bfloat16: torch.complex64,
    torch.float32: torch.complex64,
    torch.float64: torch.complex128,
}
PART_DTYPE_OF = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


def check_part(name: str, part: object) -> None:
    if not isinstance(part, torch.Tensor):
        raise TypeError(
            f"argument '{name}' is of type {type(part).__name__}, allowed is a real "
            f"torch.Tensor; convert it with torch.as_tensor"
        )
    check_layout(name, part)
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


def check_parts(real: torch.Tensor, imag: torch.Tensor) -> None:
    """Raises the errors of `ComplexTensor(real, imag)`."""
    for name, part in (("real", real), ("imag", imag)):
        check_part(name, part)
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


def check_layout(name: str, x: torch.Tensor) -> None:
    if x.is_nested or x.layout != torch.strided:
        raise TypeError(
            f"argument '{name}' is {'nested' if x.is_nested else x.layout}, allowed is a "
            f"tensor of one shape and layout torch.strided; convert it, as with .to_dense()"
        )


def check_polar(abs: torch.Tensor, angle: torch.Tensor) -> None:
    """Raises the errors of `from_polar`."""
    for name, part in (("abs", abs), ("angle", angle)):
        check_part(name, part)
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
    check_part_fits(f"argument 'abs' has shape {tuple(abs.shape)}", shape, abs)


def check_part_fits(what: str, shape: torch.Size, like: torch.Tensor) -> None:
    """Raises RuntimeError where the memory is too small for another part."""
    if may_be_too_many(shape.numel()):
        check_memory(what, shape, like.element_size(), like.device)


def dtype_of_parts(argument: object) -> Any:
    """Returns the dtype of the parts for a complex dtype, and any other argument as it is."""
    return PART_DTYPE_OF.get(argument, argument) if isinstance(argument, torch.dtype) else argument
