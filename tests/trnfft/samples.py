"""Random tensors for tests, results as torch's own tensors, noted operators, patched programs."""

import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from trnfft import as_native, patch_torch

BACKENDS = ["torch", "matmul", "nki-sim"]
NORMS = [None, "backward", "ortho", "forward"]


def random(*shape, dtype=torch.float64, seed=0):
    """Returns normal numbers, the same at each call."""
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def single(*shape, seed=0):
    """Returns `random` numbers in float32."""
    return random(*shape, dtype=torch.float32, seed=seed)


def random_complex(*shape, dtype=torch.complex128, seed=0):
    """Returns `random` numbers with imaginary parts."""
    return random(*shape, dtype=dtype, seed=seed)


def native(x):
    """Returns a complex tensor of either kind as a native one; others as they are."""
    return as_native(x) if isinstance(x, torch.Tensor) else x


def derivative(function, x, weights):
    """Returns the gradient of x of a weighted sum of a function's results, real or complex."""
    leaf = x.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad((native(function(leaf)) * weights).real.sum(), leaf)
    return gradient


class Noted(TorchDispatchMode):
    """A mode that notes each operator with its arguments and its result, in `calls`."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        self.calls.append((operator, args, result))
        return result


@contextlib.contextmanager
def whole_program():
    """A block in which torch is patched as for a whole program, in all threads."""
    patch = patch_torch()
    patch.start()
    try:
        yield patch
    finally:
        patch.stop()


def patched(in_a_block):
    """Returns a block of `patch_torch`, or one in which it is started for the whole program."""
    return patch_torch() if in_a_block else whole_program()
