"""A step through a linear layer and back, and the size of what it sums."""

import copy

import torch


def step(layer, x, cotangent):
    """Returns the output of a layer, and the gradients of its input and of its parameters."""
    x = x.detach().clone().requires_grad_()
    layer.zero_grad()
    y = layer(x)
    y.backward(cotangent)
    return [y.detach(), x.grad, *(parameter.grad for parameter in layer.parameters())]


def exact_step(layer, x, cotangent):
    """Returns `step` in float64, of a copy of the layer."""
    return step(copy.deepcopy(layer).double(), x.double(), cotangent.double())


def terms_of_step(layer, x, cotangent):
    """Returns for each number of `exact_step` the norm of the terms of its sum.

    Sums of few numbers may cancel. Their rounding is relative to the root of the sum of the squares
    of their terms, for which the same layer adds squares.
    """
    squares = copy.deepcopy(layer).double()
    with torch.no_grad():
        for parameter in squares.parameters():
            parameter.square_()
    sums_of_squares = step(squares, x.double().square(), cotangent.double().square())
    return [each.sqrt() for each in sums_of_squares]
