"""Bluestein's DFT of any length N <= 2^20 by two long transforms: one launch.

Mathematics.  As in bluestein.py: X = b* . IDFT_M(H . DFT_M(b* . x, zeros)) with the chirp
b[n] = exp(+-pi i n^2 / N), n^2 reduced modulo 2N in integers, and M >= 2N - 1. The inverse is a
forward transform with real and imaginary part exchanged before and after.

Layout on the NeuronCore.  Both transforms run as in four_step.py, with the whole core on one
transform. Their loads and stores are in natural order, [r1, M/r1] and [C, M/C] on partitions, so
VectorE multiplies by chirp and filter right there; the spectrum passes through HBM scratch. Rows
beyond the data are zeros made on chip, and outputs beyond N are not stored.

    HBM [N] -> b* -> four-step -> HBM scratch [M] -> H -> four-step -> b* -> HBM [N]

Where M exceeds what four_step.py holds, ``split_bluestein`` does the same with the transforms of
split_four_step.py, and the factors pass through SBUF in pieces.

Why it is fast.  HBM is passed twice, whatever N (six times when split); the rest is the price of
M >= 2N - 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..nki_api import nki, nl
from ..packing import unpack
from ..tiles import PARTITIONS
from .dft_gemm import table_spec
from .four_step import (
    MAX_LENGTH,
    four_step_specs,
    four_step_tables,
    load_factors,
    load_plan,
    open_block,
    transform_rows,
)
from .split_four_step import (
    MAX_SPLIT_LENGTH,
    split_four_step_specs,
    split_four_step_tables,
    split_rows,
)

MAX_CONVOLVED = MAX_LENGTH // 2  # longest N of long_bluestein
MAX_SPLIT_CONVOLVED = MAX_SPLIT_LENGTH // 2  # longest N of split_bluestein


def long_bluestein_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """The kernel's tables for a convolution of length M = product of ``radices``.

    (chirp [2, r1, M/r1], spectrum [2, r1, M/r1], chirp [2, C, M/C], *four_step's tables), float32,
    computed in float64. Raises ValueError unless M >= 2n - 1 and r1 > 64.
    """
    m = math.prod(radices)
    if n < 1 or m < 2 * n - 1:
        raise ValueError(f"n = {n}, radices {radices}: Bluestein takes n >= 1, M = {m} >= 2 n - 1")
    if 2 * radices[0] <= PARTITIONS:
        raise ValueError(f"radices {radices}: the first must be 65 to 128")
    chirp, spectrum = _chirp_and_spectrum(n, m, inverse, scale)
    first, last = radices[0], radices[-1]
    # The second transform works on exchanged parts, i.e. on i times the conjugate.
    return (
        _split(chirp, first),
        _split(spectrum.conj(), first),
        _split(chirp.conj(), last),
        *four_step_tables(m, radices),
    )


def split_bluestein_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """``long_bluestein_tables`` for a split plan: radices P (2 or 4), r1, ..., C.

    (chirp [P, 2, r1, Q/r1], spectrum [P, 2, r1, Q/r1], chirp [2, C, M/C], *split_four_step's
    tables).
    """
    m = math.prod(radices)
    if n < 1 or m < 2 * n - 1:
        raise ValueError(f"n = {n}, radices {radices}: Bluestein takes n >= 1, M = {m} >= 2 n - 1")
    chirp, spectrum = _chirp_and_spectrum(n, m, inverse, scale)
    split, first, last = radices[0], radices[1], radices[-1]
    return (
        _split(chirp, split * first).reshape(2, split, first, -1).swapaxes(0, 1).copy(),
        _split(spectrum.conj(), split * first).reshape(2, split, first, -1).swapaxes(0, 1).copy(),
        _split(chirp.conj(), last),
        *split_four_step_tables(m, radices),
    )


def long_bluestein_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``long_bluestein_tables(n, radices, ...)``."""
    m, first, last = math.prod(radices), radices[0], radices[-1]
    opening = table_spec((2, first, m // first))
    return opening, opening, table_spec((2, last, m // last)), *four_step_specs(radices)


def split_bluestein_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``split_bluestein_tables(n, radices, ...)``."""
    m, split, first, last = math.prod(radices), radices[0], radices[1], radices[-1]
    opening = table_spec((split, 2, first, m // (split * first)))
    return opening, opening, table_spec((2, last, m // last)), *split_four_step_specs(radices)


def _chirp_and_spectrum(n: int, m: int, inverse: bool, scale: float) -> tuple[Any, Any]:
    """b* padded to m, and scale / m times the spectrum of the wrapped b."""
    chirp = np.zeros(m, np.complex128)
    exponent = np.arange(n, dtype=np.int64) ** 2 % (2 * n)
    chirp[:n] = np.exp((1j if inverse else -1j) * np.pi / n * exponent)
    wrapped = chirp.conj()
    wrapped[m - n + 1 :] = wrapped[n - 1 : 0 : -1]
    return chirp, scale / m * np.fft.fft(wrapped)


def _split(values: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    split = np.stack([values.real, values.imag]).astype(np.float32)
    return split.reshape(2, rows, -1)


@nki.jit
def long_bluestein(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N]. tables, places: ``pack(long_bluestein_tables(N, radices,
    ...))``. Returns (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    tables = unpack(tables, places)
    opening, spectrum, closing = tables[0], tables[1], tables[2]
    m = spectrum.shape[1] * spectrum.shape[2]
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    z_re = nl.ndarray((batch, m), dtype=nl.float32, buffer=nl.private_hbm)
    z_im = nl.ndarray((batch, m), dtype=nl.float32, buffer=nl.private_hbm)
    identity = nl.shared_identity_matrix(PARTITIONS, dtype=nl.float32)
    block = [1, 1]
    resident = load_plan(tables[3:], radices, block)
    chirp = [load_factors(opening, 1)]
    opened = open_block(x_re, x_im, 0, block, radices, chirp)
    transform_rows(x_re, x_im, z_re, z_im, resident, radices, identity, block, opened, chirp, [])
    filtered = [load_factors(spectrum, 1)]
    chirp = [load_factors(closing, 1)]
    opened = open_block(z_im, z_re, 0, block, radices, filtered)
    transform_rows(
        z_im, z_re, y_im, y_re, resident, radices, identity, block, opened, filtered, chirp
    )
    return y_re, y_im


@nki.jit
def split_bluestein(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """``long_bluestein`` with ``split_bluestein_tables(N, radices, ...)``."""
    batch, n = x_re.shape
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    tables = unpack(tables, places)
    opening, spectrum, closing, twiddle = tables[0], tables[1], tables[2], tables[3]
    m = closing.shape[1] * closing.shape[2]
    y = []
    z = []
    for _ in range(2):
        y.append(nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm))
        z.append(nl.ndarray((batch, m), dtype=nl.float32, buffer=nl.private_hbm))
    identity = nl.shared_identity_matrix(PARTITIONS, dtype=nl.float32)
    resident = load_plan(tables[4:], radices[1:], [1, 1])
    x = [x_re, x_im]
    split_rows(x, z, twiddle, resident, radices, False, identity, [opening], [])
    back = [z[1], z[0]]
    out = [y[1], y[0]]
    split_rows(back, out, twiddle, resident, radices, False, identity, [spectrum], [closing])
    return y[0], y[1]
