"""opt_einsum's functions for ComplexTensors, compared with NumPy, whose arguments they have."""

import numpy as np
import pytest
import torch

import trnfft
from tests.tolerances import near, sums

from .samples import random

A = random(2, 3, 4, dtype=torch.complex128)
B = random(4, 3, dtype=torch.complex128, seed=1)
Z, Y = trnfft.ComplexTensor.from_complex(A), trnfft.ComplexTensor.from_complex(B)


def test_einsum_and_transpose():
    expected = np.einsum("ijk,kl->il", A, B)
    near(trnfft.einsum("ijk,kl->il", Z, Y), expected, sums(2 * 12, "float64"))
    np.testing.assert_array_equal(
        trnfft.transpose(Z, (2, 0, 1)), np.transpose(A.numpy(), (2, 0, 1))
    )


@pytest.mark.parametrize("axes", [1, ((2,), (0,)), ((1, 2), (1, 0))])
def test_tensordot(axes):
    near(trnfft.tensordot(Z, Y, axes), np.tensordot(A, B, axes), sums(2 * 12, "float64"))


def test_opt_einsum_finds_them():
    opt_einsum = pytest.importorskip("opt_einsum", reason="opt_einsum is not installed")
    result = opt_einsum.contract("ijk,kl,ml->im", Z, Y, B)
    assert isinstance(result, trnfft.ComplexTensor)
    near(result, np.einsum("ijk,kl,ml->im", A, B, B), sums(4 * 36, "float64"))
