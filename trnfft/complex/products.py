"""Operators linear in each of their tensors: sums of products, convolutions, transforms."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from trnfft.base.autograd_types import Gradients
from trnfft.base.torch_private import DisableTorchFunctionSubclass, OpOverload
from trnfft.complex.arithmetic import add, mul
from trnfft.complex.dispatch import TABLE, Argument, Parts, aten, both, implements, joined, split
from trnfft.complex.shape import conj
from trnfft.complex.table import FUNCTIONS
from trnfft.complex.tensor import ComplexTensor

Real = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def bilinear(function: Real, x: object, y: object) -> ComplexTensor:
    return joined(*bilinear_parts(function, x, y))


def bilinear_parts(function: Real, x: object, y: object) -> Parts:
    """Returns (a * c - b * d) + i (a * d + b * c) = (a + ib) * (c + id), * real and bilinear.

    One of the factors may be real.
    """
    (a, b), (c, d) = split(x), split(y)
    if d is None:
        return Parts(function(a, c), function(b, c))
    if b is None:
        return Parts(function(a, c), function(a, d))
    return Parts(function(a, c) - function(b, d), function(a, d) + function(b, c))


def _bilinear(overload: OpOverload) -> Any:
    """Returns an implementation of an operator that is linear in its first two arguments each."""

    def implementation(x: Argument, y: Argument, *args: object, **kwargs: object) -> ComplexTensor:
        return bilinear(lambda a, b: overload(a, b, *args, **kwargs), x, y)

    return implementation


for _overload in (
    aten.bmm.default,
    aten.dot.default,
    aten.linalg_cross.default,
    aten.mm.default,
    aten.mv.default,
):
    TABLE[_overload] = _bilinear(_overload)


@implements(aten.vdot.default)
def vdot(self: torch.Tensor, other: object) -> ComplexTensor:
    self = conj(self) if isinstance(self, ComplexTensor) else self.conj()
    return bilinear(torch.dot, self, other)


@implements(aten._trilinear.default)
def trilinear(
    i1: object, i2: object, i3: object, *dims: object, **options: object
) -> ComplexTensor:
    """Computes torch.nn.functional.bilinear's sums of products, linear in each of the tensors."""
    c, d = both(i3)

    def with_factor(part: torch.Tensor) -> Parts:
        return bilinear_parts(
            lambda a, b: aten._trilinear(a, b, part, *dims, **options), both(i1), both(i2)
        )

    with_c, with_d = with_factor(c), with_factor(d)
    return joined(with_c.real - with_d.imag, with_c.imag + with_d.real)


def bilinear_layer(
    input1: torch.Tensor,
    input2: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Computes torch.nn.functional.bilinear, whose own operator has no derivative here."""
    sizes = input1.shape[-1:], input2.shape[-1:]
    if input1.shape[:-1] != input2.shape[:-1] or sizes != (weight.shape[1:2], weight.shape[2:]):
        with DisableTorchFunctionSubclass():
            return torch.nn.functional.bilinear(input1, input2, weight, bias)  # torch's error
    sums = torch.einsum("...i,oij,...j->...o", input1, weight, input2)
    return sums if bias is None else sums + bias


FUNCTIONS[torch.nn.functional.bilinear] = FUNCTIONS[torch.bilinear] = bilinear_layer


def _added_product(product: Real) -> Any:
    """Returns an implementation of beta self + alpha product(x, y)."""

    def implementation(
        self: torch.Tensor,
        x: torch.Tensor,
        y: torch.Tensor,
        *,
        beta: object = 1,
        alpha: complex = 1,
    ) -> Any:
        is_real = not isinstance(x, ComplexTensor) and not isinstance(y, ComplexTensor)
        scaled = product(x, y) if is_real else bilinear(product, x, y)
        scaled = scaled if alpha == 1 else mul(scaled, alpha)
        if beta == 0:
            shape = scaled.shape if scaled.ndim >= self.ndim else self.shape
            return scaled.expand(shape).clone()
        return add(self if beta == 1 else mul(self, beta), scaled)

    return implementation


for _overload, _product in (
    (aten.addmm.default, torch.mm),
    (aten.addmv.default, torch.mv),
    (aten.addr.default, torch.outer),
    (aten.baddbmm.default, torch.bmm),
    (aten.addbmm.default, lambda x, y: torch.bmm(x, y).sum(0)),
):
    TABLE[_overload] = _added_product(_product)


# Convolutions


@implements(aten.convolution.default)
def convolution(
    input: Argument, weight: torch.Tensor, bias: torch.Tensor | None, *arguments: object
) -> ComplexTensor:
    sums = bilinear(lambda x, w: aten.convolution(x, w, None, *arguments), input, weight)
    # The channels' dimension is followed by as many dimensions as a kernel has.
    return sums if bias is None else add(sums, bias.reshape(-1, *[1] * (weight.ndim - 2)))


@implements(aten.convolution_backward.default)
def convolution_backward(
    grad_output: torch.Tensor,
    input: object,
    weight: object,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Gradients:
    """Computes gradients by convolutions: of input by conj(weight), of weight by conj(input)."""
    settings = stride, padding, dilation, transposed, output_padding, groups

    def of(which: int, g: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        wanted = [which == i for i in range(3)]
        x, w = (split(input)[0], other) if which == 0 else (other, split(weight)[0])
        return aten.convolution_backward(g, x, w, bias_sizes, *settings, wanted)[which]

    gradients: list[torch.Tensor | None] = [None, None, None]
    for which, other in ((0, weight), (1, input)):
        if output_mask[which]:
            other = conj(other) if isinstance(other, ComplexTensor) else other
            gradients[which] = bilinear(functools.partial(of, which), grad_output, other)
    if output_mask[2]:
        gradients[2] = grad_output.sum([0, *range(2, grad_output.ndim)])
    return tuple(gradients)
