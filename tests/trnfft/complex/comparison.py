"""ComplexTensors made of native complex tensors, and compared with them."""

import torch

from tests.tolerances import near, sums
from trnfft import ComplexTensor


def split(value):
    """Returns ComplexTensors for native complex tensors, also in lists; the rest as it is."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(split, value))
    is_complex = isinstance(value, torch.Tensor) and value.is_complex()
    return ComplexTensor.from_complex(value) if is_complex else value


def assert_same(results, expected, steps=8, *, scale=None, message=""):
    """Fails unless types, dtypes, shapes and values are the same; ComplexTensor for native complex.

    Args:
        results: a tensor, a number or a list of them.
        expected: as torch computes it of native complex tensors, or the exact numbers.
        steps: how many rounded operations lie between the arguments and an element of the results,
            one after the other or as terms of a sum. Integers have to be equal.
        scale, message: as for `near`.
    """
    if isinstance(expected, (list, tuple)):
        assert isinstance(results, (list, tuple)) and len(results) == len(expected), message
        for one, another in zip(results, expected, strict=True):
            assert_same(one, another, steps, scale=scale, message=message)
    elif isinstance(expected, torch.Tensor):
        assert isinstance(results, torch.Tensor), message
        assert isinstance(results, ComplexTensor) == expected.is_complex(), message
        assert results.dtype == expected.dtype, message
        if expected.is_floating_point() or expected.is_complex():
            tolerance = sums(steps, expected.dtype)
            near(results, expected, tolerance, scale=scale, message=message)
        else:
            assert torch.equal(results, expected), message
    else:
        assert type(results) is type(expected) and results == expected, message
