"""Functions linear in each of their tensors, named as in torch: sums of products, convolutions."""

import itertools
from typing import Any

import torch

from trnfft.complex.lifting import Function
from trnfft.complex.parts import parts_of
from trnfft.complex.shape import sequence
from trnfft.complex.tensor import ComplexTensor


def multilinear(function: Function, *operands: Any) -> ComplexTensor:
    """The function of every choice of parts, summed as the terms of (a + ib)(c + id) are."""
    sums: list[Any] = [None, None]
    for choice in itertools.product(*(enumerate(parts_of(operand)) for operand in operands)):
        # The factor of this term is i ** power: 1, i, -1, -i.
        power = sum(i for i, _ in choice)
        term = function(*(part for _, part in choice))
        term = -term if power % 4 >= 2 else term
        total = sums[power % 2]
        sums[power % 2] = term if total is None else total + term
    return ComplexTensor(*sums)


def bilinear(function: Function) -> Function:
    """The function of real tensors that is linear in the first two arguments, of complex ones."""

    def implementation(input: Any, other: Any, *args: Any, **kwargs: Any) -> ComplexTensor:
        return multilinear(lambda a, b: function(a, b, *args, **kwargs), input, other)

    return implementation


def vdot(input: Any, other: Any) -> ComplexTensor:
    return multilinear(torch.dot, input.conj(), other)


def einsum(equation: str, *operands: Any) -> ComplexTensor:
    operands = sequence(operands)
    return multilinear(lambda *parts: torch.einsum(equation, *parts), *operands)


def linear(input: Any, weight: Any, bias: Any = None) -> ComplexTensor:
    product = multilinear(torch.nn.functional.linear, input, weight)
    return product if bias is None else product + bias


def convolution(function: Function) -> Function:
    """As `bilinear`, for a convolution of torch.nn.functional and its bias."""

    def implementation(input: Any, weight: Any, bias: Any = None, *args: Any, **kwargs: Any) -> Any:
        sums = multilinear(lambda x, w: function(x, w, None, *args, **kwargs), input, weight)
        # The dimensions after that of the channels are as many as those of a kernel.
        return sums if bias is None else sums + bias.reshape(-1, *[1] * (weight.ndim - 2))

    return implementation
