"""Packed spectra lose nothing, and a pair of rows has the transforms of the single rows."""

import pytest
import torch

import trnfft
from tests.tolerances import near, transforms
from trnfft import ComplexTensor
from trnfft.functions.row_pairs import irfft_of_pairs, rfft_of_pairs, separate_pair

from ..samples import random


def check(actual, expected):
    """Each is at most two transforms of up to 30 numbers."""
    near(actual, expected, transforms(30, 4, "float64"))


@pytest.mark.parametrize("n", [2, 4, 6, 16, 30])
def test_pack_and_unpack(n):
    spectrum = trnfft.rfft(random(3, n))
    packed = trnfft.pack_spectrum(spectrum)
    assert packed.shape == (3, n // 2)
    assert torch.equal(packed.real[:, 0], spectrum.real[:, 0])
    assert torch.equal(packed.imag[:, 0], spectrum.real[:, -1])
    check(trnfft.unpack_spectrum(packed), spectrum)
    check(trnfft.irfft(trnfft.unpack_spectrum(packed), n), random(3, n))
    native = trnfft.pack_spectrum(trnfft.as_native(spectrum), n)
    assert torch.equal(native.real, packed.real) and torch.equal(native.imag, packed.imag)


@pytest.mark.parametrize(
    "size, n, sentence",
    [
        (4, 7, "'n' is 7, allowed are even numbers from 2 on"),
        (1, None, "'n' is 0, allowed are even numbers from 2 on"),
        (4, 8, "has 4 numbers in its last dimension, allowed is 5 for n=8"),
    ],
)
def test_spectra_that_cannot_be_packed(size, n, sentence):
    with pytest.raises(RuntimeError, match=sentence):
        trnfft.pack_spectrum(ComplexTensor(random(size), random(size)), n)


def test_wrong_types():
    for function in (trnfft.pack_spectrum, trnfft.unpack_spectrum):
        with pytest.raises(TypeError, match="float64, allowed are complex tensors"):
            function(random(4))
        with pytest.raises(RuntimeError, match="no dimensions"):
            function(ComplexTensor(random(), random()))
    with pytest.raises(TypeError, match="'n' must be an int, not float"):
        trnfft.pack_spectrum(ComplexTensor(random(4), random(4)), 6.0)
    with pytest.raises(RuntimeError, match="allowed is 1 or more"):
        trnfft.unpack_spectrum(ComplexTensor(random(3, 0), random(3, 0)))


@pytest.mark.parametrize("dim", [-1, -2])
def test_a_pair_is_separated(dim):
    x = random(2, 3, 6, 5)
    spectra = separate_pair(trnfft.fft(ComplexTensor(*x), dim=dim), dim)
    for part, spectrum in zip(x, spectra, strict=True):
        check(spectrum, trnfft.fft(part, dim=dim))


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("n", [2, 8, 9, 12])
def test_pairs_of_rows(rows, n):
    x = random(2, rows, min(n, 7))
    check(rfft_of_pairs(x, n), trnfft.rfft(x, n))
    if n % 2 == 0:
        check(irfft_of_pairs(trnfft.rfft(x, n), n), trnfft.irfft(trnfft.rfft(x, n), n))
