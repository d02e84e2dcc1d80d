"""Random tensors for tests, and results converted to torch's own tensors."""

import torch

from trnfft import as_native


def random(*shape, dtype=torch.float64, seed=0):
    """Normal numbers, the same at each call."""
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def single(*shape, seed=0):
    """As `random`, in float32."""
    return random(*shape, dtype=torch.float32, seed=seed)


def random_complex(*shape, dtype=torch.complex128, seed=0):
    """As `random`, with imaginary parts."""
    return random(*shape, dtype=dtype, seed=seed)


def native(x):
    """A complex tensor of either kind as a native one; others as they are."""
    return as_native(x) if isinstance(x, torch.Tensor) else x
