"""Transforms as real matrix products in plain torch operations, by the same plans as the kernels.

Mathematics.  As in nki_kernels/fft/stockham.py: after stage i the state is Z_i[K, m], where K <
R_i = r1...ri and m < M_i = N / R_i, and a stage contracts the top digit j of m:

    Z_i[K + R_(i-1) k, m'] = sum_j W_r^(j k) W_(R_i)^(j K) Z_(i-1)[K, j M_i + m']

Layout.  The state is [(part, j), m', K, batch]. A stage is therefore a product with the twiddles
[j, 1, K, 1], one real matrix product [(part', k), (part, j)] with all other dimensions as columns,
and one copy that brings k beside K. Every plan of stages on the Tensor engine is a list of radices
here; Bluestein's convolution is two such lists. No complex dtype, no gather and no dynamic shape
occurs, so that XLA devices run the code as it is. Derivatives, vmap and forward mode are those of
torch's own operations.

In planned order (trnfft/planner/order.py) k stays where j was, which saves the copy: the state is
[K, (part, j), m', batch] or, for few rows, [batch, K, (part, j), m'], with K in planned order, and
the inverse goes back in the same way.

All rows form one dimension, the batch, except on XLA devices. There, dimensions that XLA's
partitioner may split (torch_xla.distributed.spmd) stay apart, because the partitioner gathers
dimensions that are merged with others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from nki_kernels.base.roots import roots
from trnfft.backends.backend import Backend, Call, Parts
from trnfft.backends.device_tables import tables_for
from trnfft.backends.half_spectrum import whole_of, with_real_mirrors

FLOAT64_DEVICES = ("cpu", "cuda", "meta")
SMALL_RADIX = 4  # a radix below this is quicker as the last stage than as the first
WIDE_BATCH = 64  # rows from which on planned stages have the batch in their columns
WIDE_NUMBERS = 1 << 22  # largest table that has the twiddles of a planned stage in its matrices

Tables = tuple[torch.Tensor, ...]
Transform = Callable[[Parts], Parts]


class _Chirp(NamedTuple):
    """Tables of Bluestein's convolution: `_chirp_tables`, and tables of its two transforms."""

    factors: Tables
    forward: Tables
    inverse: Tables


class Matmul(Backend):
    """Real matrix products. The bfloat16 modes are computed in the dtype of the input."""

    name = "matmul"
    has_derivatives = True
    has_planned_order = True

    def c2c_rows(self, parts: Parts, call: Call) -> Parts:
        """Computes `c2c` along the last dimension only."""
        real = parts[0]
        return _transform(real.shape[-1], real.dtype, real.device, call)(parts)

    def r2c_rows(self, parts: Parts, call: Call) -> Parts:
        real = parts[0]
        return _half_transform(real.shape[-1], real.dtype, real.device, call)(parts)

    def r2c(self, parts: Parts, call: Call) -> Parts:
        half = super().r2c(parts, call)
        return half if len(call.sizes) == 1 else _with_real_mirrors(half, call)

    def prepared(self, like: torch.Tensor, call: Call) -> Transform:
        # tables on XLA devices depend on modes
        if len(call.sizes) > 1 or like.device.type == "xla":
            return super().prepared(like, call)
        n = call.sizes[0]
        if call.kind == "r2c":
            return _half_transform(n, like.dtype, like.device, call)
        rows = _transform(n, like.dtype, like.device, call)
        if call.kind == "c2r":
            return lambda parts: rows(whole_of(parts[0], parts[1], n))[:1]
        return rows


def _half_transform(n: int, dtype: torch.dtype, device: torch.device, call: Call) -> Transform:
    """Returns a function from one real part [..., n] to the parts of its half spectrum.

    The first stage contracts no imaginary parts, and only half of the numbers are brought back to
    rows.
    """
    if n == 1:
        scale = call.scale
        return lambda parts: _with_real_mirrors(
            (parts[0] * scale, torch.zeros_like(parts[0])), call
        )
    rows = _transform(n, dtype, device, call, True)
    if _is_real_at_mirrors(call):
        return rows
    return lambda parts: _with_real_mirrors(rows(parts), call)


def _transform(
    n: int, dtype: torch.dtype, device: torch.device, call: Call, is_real: bool = False
) -> Transform:
    """Returns a function that transforms parts [..., n], with its plan and tables.

    is_real: whether it transforms one part to the parts of a half spectrum, if n > 1.
    """
    if call.precision == "kahan" and dtype != torch.float64:
        if device.type not in FLOAT64_DEVICES:
            raise NotImplementedError(
                f'precision "kahan" needs float64 in backend "matmul", which device '
                f'\'{device}\' may not have; use precision "fast", or "double" on the host'
            )
        wide = _transform(n, torch.float64, device, call, is_real)
        return lambda parts: tuple(y.to(dtype) for y in wide(tuple(x.double() for x in parts)))
    if n == 1:  # without a sum, in which -0.0 would become 0.0 and an infinity NaN
        return lambda parts: tuple(part * call.scale for part in parts)
    radices, padded = _radices(n)
    inverse, scale = call.inverse, call.scale
    kept = n // 2 + 1 if is_real else n
    if call.planned and padded == n and len(radices) > 1:
        return lambda parts: _planned(parts[0], parts[1], radices, inverse, scale)

    def made(make: Callable[..., object], *arguments: Hashable) -> Tables:
        return tables_for(device, dtype, make, *arguments)

    if padded == n:
        radices = _even_last(radices)
        tables = made(_stage_tables, radices, inverse, scale)
        if is_real:  # the columns for real parts
            tables = tables[0][:, : radices[0]], *tables[1:]
        return lambda parts: _by_columns(parts, kept, lambda x: _stages(x, radices, tables))
    chirp = _Chirp(
        made(_chirp_tables, n, padded, inverse, scale),
        made(_stage_tables, radices, False, 1.0),
        made(_stage_tables, radices, True, 1.0),
    )
    return lambda parts: _by_columns(parts, kept, lambda x: _convolved(x, radices, chirp))


def _by_columns(
    parts: Parts,
    kept: int,
    transform: Callable[[torch.Tensor], Sequence[torch.Tensor]],
) -> Parts:
    """Transforms parts [..., N] as [parts, N, *batch]; returns the first `kept` results."""
    *lead, n = parts[0].shape
    x = torch.stack([row.movedim(-1, 0) for row in _rows(parts)])
    results = transform(x)
    if kept < n:
        results = [part[:kept] for part in results]
    return tuple(part.movedim(0, -1).reshape(*lead, kept) for part in results)


def _rows(parts: Parts) -> list[torch.Tensor]:
    """Returns parts [..., N] as [*batch, N]: one batch dimension, or on XLA devices all."""
    if parts[0].device.type == "xla" and parts[0].ndim > 1:
        return list(parts)
    return [part.reshape(-1, part.shape[-1]) for part in parts]


def _radices(n: int) -> tuple[tuple[int, ...], int]:
    from trnfft.planner import order  # here, so that only its users load the planner

    return order.stages(n)


def _even_last(radices: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the radices with an even one last, if any is even, as natural order allows any order.

    X[N/2] is then made of Z[0, j] with factors 1 and -1. For real data, whose Z[0, j] are real, it
    has no imaginary part, at no cost. After an odd last radix its imaginary part would be a sum of
    rounding errors. A last radix of 3 stays, because a first radix of 3 takes a tenth longer.
    """
    even = [index for index, radix in enumerate(radices) if radix % 2 == 0]
    if not even or radices[-1] < SMALL_RADIX:
        return radices
    last = even[-1]
    return radices[:last] + radices[last + 1 :] + radices[last : last + 1]


def _with_real_mirrors(half: Parts, call: Call) -> Parts:
    if _is_real_at_mirrors(call):
        return half
    return with_real_mirrors(half, call.sizes, call.inverse)


def _is_real_at_mirrors(call: Call) -> bool:
    """Returns whether half spectra come out real where they must, with zeros of the right sign.

    No sum is -0.0, but the zeros of an inverse would have to be.
    """
    return not call.inverse and all(n == 1 or _is_exact(n) for n in call.sizes)


def _is_exact(n: int) -> bool:
    """Returns whether X[0] and X[N/2] of real data come out real; with a chirp they do not."""
    radices, padded = _radices(n)
    return padded == n and (n % 2 == 1 or _even_last(radices)[-1] % 2 == 0)


def _planned(
    real: torch.Tensor, imag: torch.Tensor, radices: tuple[int, ...], inverse: bool, scale: float
) -> Parts:
    """Computes `c2c` with the frequencies in planned order, without a copy between the stages."""
    n = real.shape[-1]
    rows = _rows((real, imag))
    if rows[0].numel() // n >= WIDE_BATCH and 4 * n * max(radices[1:]) <= WIDE_NUMBERS:
        tables = tables_for(real.device, real.dtype, _wide_tables, radices, inverse, scale)
        y = _wide(rows, tables, inverse)
    else:
        tables = tables_for(real.device, real.dtype, _narrow_tables, radices, inverse, scale)
        y = (_narrow_inverse if inverse else _narrow_forward)(rows, radices, tables)
    return tuple(part.reshape(real.shape) for part in y)


def _wide(rows: list[torch.Tensor], tables: Tables, inverse: bool) -> list[torch.Tensor]:
    """Transforms both parts [*batch, N] of many rows, by `_wide_tables`; returns both parts."""
    *batch, n = rows[0].shape
    x = torch.stack([row.movedim(-1, 0) for row in rows], 1 if inverse else 0)
    *first, last = tables
    for matrix in first:
        done, size, _ = matrix.shape
        x = _times_second(matrix, x.reshape(done, size, 2 * n // (done * size), *batch))
    done, size, _ = last.shape
    x = x.reshape(done, size, 2 * n // (done * size), *batch)
    halves = last.chunk(2, 1) if inverse else last.unflatten(1, (-1, 2)).unbind(2)
    return [_times_second(half, x).reshape(n, *batch).movedim(0, -1) for half in halves]


def _narrow_forward(
    rows: list[torch.Tensor], radices: tuple[int, ...], tables: Tables
) -> list[torch.Tensor]:
    """Transforms both parts [*batch, N] to planned order, by the tables of `_narrow_tables`."""
    *batch, n = rows[0].shape
    x, done = torch.stack(rows, -2), 1
    for stage, radix in enumerate(radices):
        left = n // (done * radix)
        if stage > 0:
            twiddles = tables[3 * stage - 2 : 3 * stage]
            x = _multiply(x.reshape(*batch, done, 2, radix, left), *twiddles, dim=-3)
        if left > 1:
            x = _times_rows(tables[3 * stage], x.reshape(*batch, done, 2 * radix, left))
        done *= radix
    x = x.reshape(*batch, n // radices[-1], 2 * radices[-1])
    return [_times_last(half, x).reshape(*batch, n) for half in tables[-1].chunk(2)]


def _narrow_inverse(
    rows: list[torch.Tensor], radices: tuple[int, ...], tables: Tables
) -> list[torch.Tensor]:
    """Transforms both parts [*batch, N] in planned order to natural order."""
    *batch, n = rows[0].shape
    real, imag = (row.reshape(*batch, n // radices[-1], radices[-1]) for row in rows)
    first, second = tables[-1].chunk(2, 1)
    x = _times_last(second, imag, plus=_times_last(first, real))
    left = 1
    for stage, radix in reversed(list(enumerate(radices))[1:]):
        done = n // (radix * left)
        if left > 1:
            x = _times_rows(tables[3 * stage], x.reshape(*batch, done, 2 * radix, left))
        twiddles = tables[3 * stage - 2 : 3 * stage]
        x = _multiply(x.reshape(*batch, done, 2, radix, left), *twiddles, dim=-3)
        left *= radix
    x = x.reshape(*batch, 1, 2 * radices[0], left)
    return [_times_rows(half, x).reshape(*batch, n) for half in tables[0].chunk(2)]


def _stages(x: torch.Tensor, radices: tuple[int, ...], tables: Tables) -> list[torch.Tensor]:
    """Transforms x [2, N, *batch] along N by `_stage_tables`; returns parts [N, *batch].

    Real data is x [1, N, *batch], and the first matrix has columns for one part.
    """
    parts, n, *batch = x.shape
    done, left = 1, n
    state = x
    for stage, radix in enumerate(radices):
        left //= radix
        if stage > 0:
            twiddles = _for_batch(tables[3 * stage - 2 : 3 * stage], batch)
            state = _multiply(state.reshape(2, radix, left, done, *batch), *twiddles)
            parts = 2
        state = state.reshape(parts * radix, left * done, *batch)
        if left == 1:  # the last stage; parts that share no memory need no further copy
            break
        product = _times_first(tables[3 * stage], state)
        # The next K is K + R k, and the next digit of m leads.
        state = product.reshape(2, radix, left, done, *batch).transpose(1, 2)
        done *= radix
    return [_times_first(half, state).reshape(n, *batch) for half in tables[-1].chunk(2)]


def _convolved(x: torch.Tensor, radices: tuple[int, ...], chirp: _Chirp) -> list[torch.Tensor]:
    """Transforms x [2 or 1, N, *batch] along N by Bluestein's convolution with a chirp."""
    _, n, *batch = x.shape
    m = math.prod(radices)
    factors = _for_batch(chirp.factors, batch)
    before, filter, after = factors[:2], factors[2:4], factors[4:]
    opened = _multiply(x, *before) if len(x) == 2 else torch.cat([x * f for f in before])
    z = torch.nn.functional.pad(opened, (0, 0) * len(batch) + (0, m - n))
    spectrum = _stages(z, radices, chirp.forward)
    y = _stages(torch.stack(_product(spectrum, *filter)), radices, chirp.inverse)
    return _product([part[:n] for part in y], *after)


def _for_batch(tables: Tables, batch: list[int]) -> Sequence[torch.Tensor]:
    """Returns factors [..., 1] that broadcast to [..., *batch]."""
    more = (None,) * (len(batch) - 1)
    return [table[(..., *more)] for table in tables] if more else tables


# The following products have the right order of numbers, but the caller has to reshape them.


def _times_first(matrix: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Returns a matrix [P, Q] times x [Q, ...]: [P, ...]."""
    if x.device.type == "xla":
        return _contracted(matrix, x, "pq,q...->p...")
    return matrix @ x.flatten(1)


def _times_second(matrices: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Returns matrices [K, P, Q] times x [K, Q, ...]: [K, P, ...]."""
    if x.device.type == "xla":
        return _contracted(matrices, x, "kpq,kq...->kp...")
    return matrices @ x.flatten(2)


def _times_rows(matrix: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Returns a matrix [P, Q] times x [..., Q, M]: [..., P, M]."""
    if x.device.type == "xla":
        return _contracted(matrix, x, "pq,...qm->...pm")
    return matrix @ x.flatten(0, -3)


def _times_last(
    matrix: torch.Tensor, x: torch.Tensor, plus: torch.Tensor | None = None
) -> torch.Tensor:
    """Returns a matrix [P, Q] times x [..., Q], plus another product: [..., P]."""
    if x.device.type == "xla":
        product = _contracted(matrix, x, "pq,...q->...p")
        return product if plus is None else plus + product
    rows = x.flatten(0, -2)
    return rows @ matrix.mT if plus is None else torch.addmm(plus, rows, matrix.mT)


def _contracted(matrix: torch.Tensor, x: torch.Tensor, equation: str) -> torch.Tensor:
    """Returns torch.einsum of a matrix [..., p, q] and x with q: one XLA product, nothing merged.

    torch_xla lowers it so. Its derivative in torch_xla is not differentiable, and is not used.
    """
    if x.requires_grad and torch.is_grad_enabled():
        return _Contracted.apply(matrix, x, equation)
    return torch.einsum(equation, matrix, x)


class _Contracted(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(matrix: torch.Tensor, x: torch.Tensor, equation: str) -> torch.Tensor:
        return torch.einsum(equation, matrix, x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
        matrix, _, ctx.equation = inputs
        ctx.save_for_backward(matrix)
        ctx.save_for_forward(matrix)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        (matrix,) = ctx.saved_tensors
        return None, _Contracted.apply(matrix.mT, *grads, ctx.equation), None

    @staticmethod
    def jvp(ctx: Any, _: None, x: torch.Tensor, equation: None) -> torch.Tensor:
        (matrix,) = ctx.saved_tensors
        return _Contracted.apply(matrix, x, ctx.equation)


def _multiply(
    x: torch.Tensor, real: torch.Tensor, imag: torch.Tensor, *, dim: int = 0
) -> torch.Tensor:
    return torch.stack(_product(x.unbind(dim), real, imag), dim)


def _product(
    parts: Sequence[torch.Tensor], real: torch.Tensor, imag: torch.Tensor
) -> list[torch.Tensor]:
    a, b = parts
    return [a * real - b * imag, a * imag + b * real]


def _stage_tables(radices: tuple[int, ...], inverse: bool, scale: float) -> list[np.ndarray]:
    """Returns the first stage's matrix [(part', k), (part, j)], then others' twiddles and matrix.

    Twiddles are two parts [j, 1, K, 1]. Exponents are reduced exactly. The first matrix contains
    the scale.
    """
    tables: list[np.ndarray] = []
    done = 1
    for r in radices:
        if done > 1:
            twiddle = roots(np.arange(r)[:, None] * np.arange(done), done * r, inverse)
            twiddle = twiddle[:, None, :, None]
            tables += [twiddle.real, twiddle.imag]
        digits = np.arange(r)
        dft = roots(digits[:, None] * digits, r, inverse)
        tables.append(_of_parts(dft * scale if done == 1 else dft))
        done *= r
    return tables


def _of_parts(z: np.ndarray) -> np.ndarray:
    """Returns a complex matrix [k, j] as a real one [(part', k), (part, j)]."""
    return np.block([[z.real, -z.imag], [z.imag, z.real]])


def _narrow_tables(radices: tuple[int, ...], inverse: bool, scale: float) -> list[np.ndarray]:
    """Returns `_stage_tables` for planned order: twiddles [K, j, 1], K in this order, and matrices.

    The matrices are those of `_planned_matrix`. The last one has the parts outside, for one product
    for each part.
    """
    tables = []
    for dft, twiddle in _planned_factors(radices, inverse, scale):
        if len(twiddle) > 1:
            tables += [twiddle.real[..., None], twiddle.imag[..., None]]
        tables.append(_planned_matrix(dft, inverse))
    tables[-1] = _of_parts(dft)
    return tables


def _wide_tables(radices: tuple[int, ...], inverse: bool, scale: float) -> list[np.ndarray]:
    """Returns the stages' matrices [K, 2 r, 2 r], with twiddles in them, in the order of use."""
    tables = []
    for dft, twiddle in _planned_factors(radices, inverse, scale):
        twiddle = twiddle[:, :, None] if inverse else twiddle[:, None, :]
        tables.append(_planned_matrix(dft * twiddle, inverse))
    return tables[::-1] if inverse else tables


def _planned_factors(
    radices: tuple[int, ...], inverse: bool, scale: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the DFT matrix [r, r] and twiddles [K, j] of every stage; the first has the scale."""
    known = np.zeros(1, np.int64)  # K, in planned order
    for r in radices:
        digits, done = np.arange(r), len(known)
        dft = roots(digits[:, None] * digits, r, inverse) * (scale if done == 1 else 1.0)
        yield dft, roots(known[:, None] * digits, done * r, inverse)
        known = (known[:, None] + done * digits).reshape(-1)


def _planned_matrix(z: np.ndarray, inverse: bool) -> np.ndarray:
    """Returns complex matrices [..., k, j] as real ones [..., (k, part'), (part, j)].

    For an inverse, [..., j, k] becomes [..., (part', j), (k, part)]. So the parts of every stage's
    result are where the next stage's product reads them.
    """
    size = 2 * z.shape[-1]
    real = np.stack([np.stack([z.real, -z.imag], -1), np.stack([z.imag, z.real], -1)], -2)
    ordered = np.einsum("...jkqp->...qjkp" if inverse else "...kjqp->...kqpj", real)
    return ordered.reshape(*z.shape[:-2], size, size)


def _chirp_tables(n: int, m: int, inverse: bool, scale: float) -> list[np.ndarray]:
    """Returns the parts of the factors [n, 1], [m, 1] and [n, 1] of a convolution with a chirp."""
    from nki_kernels.fft import bluestein  # here, so that only its users load the kernels

    opening, spectrum, closing = bluestein.chirp_factors(n, m, inverse, scale)
    factors = opening[:n], spectrum, closing[:n]
    return [part[:, None] for z in factors for part in (z.real, z.imag)]
