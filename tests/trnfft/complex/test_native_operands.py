"""Native complex tensors that autograd follows, as operands of ComplexTensors."""

import pytest
import torch

import trnfft

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
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(3, dtype=torch.complex128, generator=generator) for _ in range(2))

    def energy(w, z):
        pair = (w, z) if is_first else (z, w)
        return FUNCTIONS[name](*pair).abs().square().sum()

    native, expected = a.clone().requires_grad_(), a.clone().requires_grad_()
    energy(native, trnfft.as_complex_tensor(b)).backward()
    energy(expected, b).backward()
    assert type(native.grad) is torch.Tensor
    torch.testing.assert_close(native.grad, expected.grad)


def test_functions_in_place_write_into_a_native_tensor():
    native = torch.zeros(3, dtype=torch.complex64, requires_grad=True)
    z = trnfft.as_complex_tensor(torch.tensor([1 + 2j, 3j, -1]))
    written = native * 1
    same = written.add_(z)
    assert same is written and type(same) is torch.Tensor
    torch.testing.assert_close(written.detach(), trnfft.as_native(z))
