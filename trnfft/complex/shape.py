"""Functions that change shapes, named as in torch, where it takes more than each part's."""

from typing import Any

import torch

from trnfft.complex.parts import both_parts_of, parts_of
from trnfft.complex.tensor import ComplexTensor


def view(input: ComplexTensor, *shape: Any) -> ComplexTensor:
    if isinstance(shape[0], torch.dtype):
        raise TypeError(
            f"argument 'dtype' is {shape[0]}, allowed is a shape only; convert with x.to(dtype), "
            f"or take both parts with torch.view_as_real(x)"
        )
    return ComplexTensor(input.real.view(*shape), input.imag.view(*shape))


def pad(input: ComplexTensor, pad: Any, mode: str = "constant", value: Any = None) -> ComplexTensor:
    parts = zip(
        parts_of(input), (None, None) if value is None else both_parts_of(value), strict=True
    )
    return ComplexTensor(*(torch.nn.functional.pad(x, pad, mode, v) for x, v in parts))


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    tensors = sequence(tensors)
    shape = torch.broadcast_shapes(*(x.shape for x in tensors))
    return tuple(x.expand(shape) for x in tensors)


def sequence(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, whether they were passed one by one or as one list."""
    return tuple(arguments[0]) if isinstance(arguments[0], (list, tuple)) else arguments
