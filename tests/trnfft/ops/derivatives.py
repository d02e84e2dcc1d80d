"""Results with their derivatives, and the same in float64 by torch.fft."""

from collections.abc import Callable, Iterable, Sequence

import torch

import trnfft
from tests.tolerances import near

BACKENDS = ["torch", "matmul", "nki-sim"]


def weights_of(y: torch.Tensor) -> torch.Tensor:
    """Returns weights of a sum of a result, of which no frequency is much larger than others."""
    return torch.cos(torch.arange(y.numel()).double().square()).to(y.dtype).reshape(y.shape)


def parts(z: torch.Tensor) -> torch.Tensor:
    """Returns real and imaginary parts as one real tensor."""
    return torch.stack([z.real, z.imag])


def gradients(function: Callable, *leaves: torch.Tensor, power: int = 1) -> list[torch.Tensor]:
    """Returns the result of a function, and the gradients of its arguments.

    They are those of a weighted sum of the result, or of the sum of a higher power of it. The
    gradient of an energy is a sum in which the squares of a convolution's argument do not cancel.
    """
    leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    y = function(*leaves)
    energy = y * weights_of(y) if power == 1 else y.pow(power)
    return [y.detach(), *torch.autograd.grad(energy.sum(), leaves)]


def layer_gradients(
    layer: torch.nn.Module, x: torch.Tensor, derive: Callable = gradients
) -> list[torch.Tensor]:
    """Returns the result of a layer, and the gradients of the input and of the parameters."""
    names = [name for name, _ in layer.named_parameters()]

    def function(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        values = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, values, (x,))

    return derive(function, x, *layer.parameters())


def second_derivatives(function: Callable, *leaves: torch.Tensor) -> list[torch.Tensor]:
    """Returns the gradients of a function's sum, and those of the sum of their squares."""
    leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    first = torch.autograd.grad(function(*leaves).sum(), leaves, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), leaves)
    return [g.detach() for g in (*first, *second)]


def double(layer: torch.nn.Module) -> Callable:
    """Returns the function of a layer in float64, with copies of its parameters and buffers."""
    state = {name: x.detach().double() for name, x in layer.state_dict().items()}
    return lambda x: torch.func.functional_call(layer, state, (x,))


def in_double(derive: Callable, function: Callable, *leaves: torch.Tensor, **options: int) -> list:
    """Returns `derive(function, *leaves)`, of one of the functions above, in float64."""
    with trnfft.backend("torch"):
        return derive(function, *(leaf.double() for leaf in leaves), **options)


def all_near(found: Iterable, expected: Iterable, tolerances: float | Sequence[float]) -> None:
    """Fails unless each result is `near` the expected one, to within its own tolerance or one."""
    found, expected = list(found), list(expected)
    if isinstance(tolerances, float):
        tolerances = [tolerances] * len(found)
    for place, (one, other, tolerance) in enumerate(zip(found, expected, tolerances, strict=True)):
        near(one, other, tolerance, message=f"result {place}")
