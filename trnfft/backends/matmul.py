"""Transforms as real matrix products in plain torch operations, by the same plans as the kernels.

Mathematics.  As in nki_kernels/kernels/stockham.py: after stage i the state is Z_i[K, m], where
K < R_i = r1...ri and m < M_i = N / R_i, and a stage contracts the top digit j of m:

    Z_i[K + R_(i-1) k, m'] = sum_j W_r^(j k) W_(R_i)^(j K) Z_(i-1)[K, j M_i + m']

Layout.  The state is [(part, j), m', K, batch], so that a stage is a product with the twiddles
[j, 1, K, 1], one real matrix product [(part', k), (part, j)] with everything else as
columns, and one copy that brings k beside K. Every plan of Tensor-engine stages is a list of
radices here; Bluestein's convolution is two such lists. No complex dtype, no gather and no dynamic
shape occurs, so XLA devices run it as it is. Derivatives, vmap and forward mode are those of
torch's own operations.

In planned order (trnfft/planner/order.py) k stays where j was, which saves that copy: the state is
[K, (part, j), m', batch] or, for few rows, [batch, K, (part, j), m'], with K in planned order, and
the inverse goes the same way back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from trnfft.backends.backend import Backend, Call, Parts
from trnfft.backends.device_tables import tables_like

FLOAT64_DEVICES = ("cpu", "cuda", "meta")
WIDE_BATCH = 64  # rows from which on planned stages have the batch in their columns
WIDE_NUMBERS = 1 << 22  # in a table that has the twiddles of a planned stage in its matrices

Tables = tuple[torch.Tensor, ...]


class Matmul(Backend):
    """Real matrix products. The bfloat16 modes are computed in the dtype of the input."""

    name = "matmul"
    has_derivatives = True
    has_planned_order = True

    def c2c_rows(self, parts: Parts, call: Call) -> Parts:
        """`c2c` along the last dimension alone.

        Raises:
            NotImplementedError: "kahan" on a device that may have no float64, or no plan.
        """
        real, imag = parts
        if call.precision == "kahan" and real.dtype != torch.float64:
            if real.device.type not in FLOAT64_DEVICES:
                raise NotImplementedError(
                    f'precision "kahan" needs float64 in backend "matmul", which device '
                    f'\'{real.device}\' may not have; use precision "fast", or "double" on the host'
                )
            wide = self.c2c_rows((real.double(), imag.double()), call)
            return wide[0].to(real.dtype), wide[1].to(imag.dtype)
        n = real.shape[-1]
        if n == 1:  # no sum, in which -0.0 would become 0.0 and an infinity NaN
            return tuple(part * call.scale for part in parts)
        radices, padded = _radices(n)
        inverse, scale = call.inverse, call.scale
        if call.planned and padded == n and len(radices) > 1:
            return _planned(real, imag, radices, inverse, scale)
        x = torch.stack([part.reshape(-1, n).mT for part in parts])  # [2, N, B]
        if padded == n:
            y = _stages(x, radices, tables_like(x, _stage_tables, radices, inverse, scale))
        else:
            y = _convolved(x, radices, inverse, scale)
        return tuple(part.mT.reshape(real.shape) for part in y)


def _radices(n: int) -> tuple[tuple[int, ...], int]:
    """The radices of the plan for length n, and the length that they transform."""
    from trnfft.planner import order  # here, so that only its users load the planner

    return order.stages(n)


def _planned(
    real: torch.Tensor, imag: torch.Tensor, radices: tuple[int, ...], inverse: bool, scale: float
) -> Parts:
    """As `c2c` with the frequencies in planned order: no copy between the stages."""
    n = real.shape[-1]
    rows = [part.reshape(-1, n) for part in (real, imag)]
    if len(rows[0]) >= WIDE_BATCH and 4 * n * max(radices[1:]) <= WIDE_NUMBERS:
        y = _wide(rows, tables_like(real, _wide_tables, radices, inverse, scale), inverse)
    else:
        tables = tables_like(real, _narrow_tables, radices, inverse, scale)
        y = (_narrow_inverse if inverse else _narrow_forward)(rows, radices, tables)
    return tuple(part.reshape(real.shape) for part in y)


def _wide(rows: list[torch.Tensor], tables: Tables, inverse: bool) -> list[torch.Tensor]:
    """From both parts [B, N] of many rows to both of the result, by `_wide_tables`."""
    batch, n = rows[0].shape
    x = torch.stack([row.mT for row in rows], 1 if inverse else 0)
    *first, last = tables
    for matrix in first:
        done, size, _ = matrix.shape
        x = matrix @ x.reshape(done, size, 2 * n // (done * size) * batch)
    done, size, _ = last.shape
    x = x.reshape(done, size, 2 * n // (done * size) * batch)
    halves = last.chunk(2, 1) if inverse else last.unflatten(1, (-1, 2)).unbind(2)
    return [(half @ x).reshape(n, batch).mT for half in halves]


def _narrow_forward(
    rows: list[torch.Tensor], radices: tuple[int, ...], tables: Tables
) -> list[torch.Tensor]:
    """From both parts [B, N] to both in planned order, by the tables of `_narrow_tables`."""
    batch, n = rows[0].shape
    x, done = torch.stack(rows, 1), 1
    for stage, radix in enumerate(radices):
        left = n // (done * radix)
        if stage > 0:
            twiddles = tables[3 * stage - 2 : 3 * stage]
            x = _multiply(x.reshape(batch, done, 2, radix, left), *twiddles, dim=2)
        if left > 1:
            x = tables[3 * stage] @ x.reshape(batch * done, 2 * radix, left)
        done *= radix
    x = x.reshape(batch * n // radices[-1], 2 * radices[-1])
    return [(x @ half.mT).reshape(batch, n) for half in tables[-1].chunk(2)]


def _narrow_inverse(
    rows: list[torch.Tensor], radices: tuple[int, ...], tables: Tables
) -> list[torch.Tensor]:
    """From both parts [B, N] in planned order to both in natural order."""
    batch, n = rows[0].shape
    real, imag = (row.reshape(batch * n // radices[-1], radices[-1]) for row in rows)
    first, second = tables[-1].chunk(2, 1)
    x = torch.addmm(real @ first.mT, imag, second.mT)
    left = 1
    for stage, radix in reversed(list(enumerate(radices))[1:]):
        done = n // (radix * left)
        if left > 1:
            x = tables[3 * stage] @ x.reshape(batch * done, 2 * radix, left)
        twiddles = tables[3 * stage - 2 : 3 * stage]
        x = _multiply(x.reshape(batch, done, 2, radix, left), *twiddles, dim=2)
        left *= radix
    x = x.reshape(batch, 2 * radices[0], left)
    return [(half @ x).reshape(batch, n) for half in tables[0].chunk(2)]


def _stages(x: torch.Tensor, radices: tuple[int, ...], tables: Tables) -> list[torch.Tensor]:
    """Transform x [2, N, B] along N, by the tables of `_stage_tables`: both parts [N, B]."""
    _, n, batch = x.shape
    done, left = 1, n
    state = x
    for stage, radix in enumerate(radices):
        left //= radix
        if stage > 0:
            twiddles = tables[3 * stage - 2 : 3 * stage]
            state = _multiply(state.reshape(2, radix, left, done, batch), *twiddles)
        state = state.reshape(2 * radix, left * done * batch)
        if left == 1:  # the last one: parts that share no memory take no copy more
            break
        product = tables[3 * stage] @ state
        # The next K is K + R k, and the next digit of m leads.
        state = product.reshape(2, radix, left, done * batch).transpose(1, 2)
        done *= radix
    return [(half @ state).reshape(n, batch) for half in tables[-1].chunk(2)]


def _convolved(
    x: torch.Tensor, radices: tuple[int, ...], inverse: bool, scale: float
) -> list[torch.Tensor]:
    """Bluestein: transform x [2, N, B] along N by a convolution with a chirp: parts [N, B]."""
    n, m = x.shape[1], math.prod(radices)
    tables = tables_like(x, _chirp_tables, n, m, inverse, scale)
    before, filter, after = tables[:2], tables[2:4], tables[4:]
    z = torch.nn.functional.pad(_multiply(x, *before), (0, 0, 0, m - n))
    spectrum = _stages(z, radices, tables_like(x, _stage_tables, radices, False, 1.0))
    z = torch.stack(_product(spectrum, *filter))
    y = _stages(z, radices, tables_like(x, _stage_tables, radices, True, 1.0))
    return _product([part[:n] for part in y], *after)


def _multiply(
    x: torch.Tensor, real: torch.Tensor, imag: torch.Tensor, *, dim: int = 0
) -> torch.Tensor:
    """Complex product of x, whose parts are along `dim`, and a factor, which broadcasts to one."""
    return torch.stack(_product(x.unbind(dim), real, imag), dim)


def _product(
    parts: Sequence[torch.Tensor], real: torch.Tensor, imag: torch.Tensor
) -> list[torch.Tensor]:
    """Parts of the complex product of two and a factor, which broadcasts to one."""
    a, b = parts
    return [a * real - b * imag, a * imag + b * real]


def _stage_tables(radices: tuple[int, ...], inverse: bool, scale: float) -> list[np.ndarray]:
    """The first stage's matrix [(part', k), (part, j)], then twiddles and matrix of each other.

    Twiddles are two parts [j, 1, K, 1]. Exponents are reduced exactly. The first matrix has the
    scale in it.
    """
    tables, done = [], 1
    for r in radices:
        j = np.arange(r)
        if done > 1:
            twiddle = _root(j[:, None] * np.arange(done), done * r, inverse)
            twiddle = twiddle[:, None, :, None]
            tables += [twiddle.real, twiddle.imag]
        w = _root(j[:, None] * j, r, inverse) * (scale if done == 1 else 1.0)
        tables.append(np.block([[w.real, -w.imag], [w.imag, w.real]]))
        done *= r
    return tables


def _narrow_tables(radices: tuple[int, ...], inverse: bool, scale: float) -> list[np.ndarray]:
    """As `_stage_tables`, for planned order: twiddles [K, j, 1] with K in that order, and matrices.

    Those are as in `_planned_matrix`; the last one has the parts outside, for a product each.
    """
    tables = []
    for dft, twiddle in _planned_factors(radices, inverse, scale):
        if len(twiddle) > 1:
            tables += [twiddle.real[..., None], twiddle.imag[..., None]]
        tables.append(_planned_matrix(dft, inverse))
    tables[-1] = np.block([[dft.real, -dft.imag], [dft.imag, dft.real]])
    return tables


def _wide_tables(radices: tuple[int, ...], inverse: bool, scale: float) -> list[np.ndarray]:
    """The matrices [K, 2 r, 2 r] of the stages, with their twiddles, in the order of their use."""
    tables = []
    for dft, twiddle in _planned_factors(radices, inverse, scale):
        twiddle = twiddle[:, :, None] if inverse else twiddle[:, None, :]
        tables.append(_planned_matrix(dft * twiddle, inverse))
    return tables[::-1] if inverse else tables


def _planned_factors(
    radices: tuple[int, ...], inverse: bool, scale: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """DFT matrix [r, r] and twiddles [K, j] of every stage; the first matrix has the scale."""
    known = np.zeros(1, np.int64)  # K, in planned order
    for r in radices:
        digits, done = np.arange(r), len(known)
        dft = _root(digits[:, None] * digits, r, inverse) * (scale if done == 1 else 1.0)
        yield dft, _root(known[:, None] * digits, done * r, inverse)
        known = (known[:, None] + done * digits).reshape(-1)


def _planned_matrix(z: np.ndarray, inverse: bool) -> np.ndarray:
    """Complex matrices [..., k, j] as real ones [..., (k, part'), (part, j)].

    Of an inverse, [..., j, k] as [..., (part', j), (k, part)]. So the parts of every stage's
    result are where the next one's product takes them.
    """
    size = 2 * z.shape[-1]
    real = np.stack([np.stack([z.real, -z.imag], -1), np.stack([z.imag, z.real], -1)], -2)
    ordered = np.einsum("...jkqp->...qjkp" if inverse else "...kjqp->...kqpj", real)
    return ordered.reshape(*z.shape[:-2], size, size)


def _root(exponent: np.ndarray, n: int, inverse: bool) -> np.ndarray:
    """exp(-+2 pi i exponent / n)."""
    return np.exp((2j if inverse else -2j) * np.pi / n * (exponent % n))


def _chirp_tables(n: int, m: int, inverse: bool, scale: float) -> list[np.ndarray]:
    """Parts of the factors [n, 1], [m, 1] and [n, 1] of a convolution with a chirp."""
    from nki_kernels.kernels import bluestein  # here, so that only its users load the kernels

    opening, spectrum, closing = bluestein.chirp_factors(n, m, inverse, scale)
    factors = opening[:n], spectrum, closing[:n]
    return [part[:, None] for z in factors for part in (z.real, z.imag)]
