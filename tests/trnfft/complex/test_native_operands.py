"""Native complex tensors that autograd follows, as operands of ComplexTensors."""

import pytest
import torch

import trnfft
from tests.tolerances import near, sums
from tests.trnfft.samples import random_complex

FUNCTIONS = {
    "mul": torch.mul,
    "add": lambda a, b: torch.add(a, b, alpha=2),
    "dot": torch.dot,
    "kron": torch.kron,
    "cat": lambda a, b: torch.cat([a, b]),
    "stack": lambda a, b: torch.stack([a, b]),
    "an operator": lambda a, b: a - 2 * b,
}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_native_operands_are_native(name, is_first):
    """Also where a function gets them first, which is kept as it is by functions in place only."""
    a, b = random_complex(3), random_complex(3, seed=1)

    def energy(w, z):
        pair = (w, z) if is_first else (z, w)
        return FUNCTIONS[name](*pair).abs().square().sum()

    native, expected = a.clone().requires_grad_(), a.clone().requires_grad_()
    energy(native, trnfft.as_complex_tensor(b)).backward()
    energy(expected, b).backward()
    assert type(native.grad) is torch.Tensor
    near(native.grad, expected.grad, sums(48, native.dtype))  # sums of 3 products for kron


def test_functions_in_place_write_into_a_native_tensor():
    native = torch.zeros(3, dtype=torch.complex64, requires_grad=True)
    z = trnfft.as_complex_tensor(torch.tensor([1 + 2j, 3j, -1]))
    written = native * 1
    same = written.add_(z)
    assert same is written and type(same) is torch.Tensor
    assert torch.equal(written, trnfft.as_native(z))
