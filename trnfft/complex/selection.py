"""Choices between numbers by a mask, named as in torch."""

from typing import Any

import torch

from trnfft.complex.parts import both_parts_of
from trnfft.complex.tensor import ComplexTensor


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    if input is None:
        return torch.nonzero(condition != 0, as_tuple=True)
    _check_mask("condition", condition)
    (a_real, a_imag), (b_real, b_imag) = both_parts_of(input), both_parts_of(other)
    return ComplexTensor(
        torch.where(condition, a_real, b_real), torch.where(condition, a_imag, b_imag)
    )


def masked_fill(input: ComplexTensor, mask: torch.Tensor, value: Any) -> ComplexTensor:
    _check_mask("mask", mask)
    real, imag = both_parts_of(value)
    return ComplexTensor(input.real.masked_fill(mask, real), input.imag.masked_fill(mask, imag))


def _check_mask(name: str, mask: Any) -> None:
    if isinstance(mask, ComplexTensor):
        raise TypeError(
            f"argument '{name}' has dtype {mask.dtype}, allowed is torch.bool; "
            f"compare first, for example x != 0"
        )
