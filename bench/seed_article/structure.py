"""FFT as a chain of small launches: the structure of the article "FFT is a GEMM", rebuilt.

Every stage has three launches, each of which reads all points from HBM and writes them back: a
permute, an element-wise twiddle product, and either a radix-8 product with W8 on the Tensor engine
or a radix-4 butterfly on VectorE. The model check predicts
the article's times with this chain. With Z_i[K, m] of
nki_kernels/fft/stockham.py, K = output digits so far, and m = (j, m'):

    radix 8   state [K, m', j] for the stage, [K, m', k] after it: s + 1 permutes for s stages
    radix 4   state [j, K, m'] for the stage, [k, K, m'] after it, which is natural: s - 1 permutes

Where the article says nothing, tiles are full and hold whole rows. Two costs in the simulator
decide the total: a strided DMA pays for every contiguous run, and a transposing load of [128, 8]
fills 8 partitions, which one of the 16 DMA engines serves. Tables are resident in HBM. The times
contain neither the overhead of launches nor the time between launches.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim.hardware import PARTITIONS

MAX_LENGTH = 4096  # SBUF holds whole rows of operands, table and products


@nki.jit
def permute(x_re, x_im, sizes, axes, permuted):
    """Reorders the axes of rows [B, N], seen as [B, sizes...].

    ``permuted`` has the sizes in their new order.
    """
    y_re = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray(x_im.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    # One DMA from HBM to HBM moves each part. Both are in one launch, so that only the latency of
    # the first one shows.
    nisa.dma_copy(dst=y_re.reshape_dim(1, permuted), src=x_re.reshape_dim(1, sizes).permute(axes))
    nisa.dma_copy(dst=y_im.reshape_dim(1, permuted), src=x_im.reshape_dim(1, sizes).permute(axes))
    return y_re, y_im


@nki.jit
def twiddle(x_re, x_im, w_re, w_im):
    """Multiplies every row of [B, N] by the complex row [1, N], on VectorE."""
    batch, n = x_re.shape
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    # Partitions hold transforms, in whole rows: such runs are the widest, without the gaps at which
    # DMA runs at half rate. The table is one row, not an expanded [B, N], and is read once.
    rows = min(PARTITIONS, batch)
    re_table = nl.load(w_re.broadcast(0, rows))
    im_table = nl.ndarray((rows, n), dtype=nl.float32, buffer=nl.sbuf)
    for start in range(0, batch, PARTITIONS):
        stop = min(start + PARTITIONS, batch)
        re = nl.load(x_re[start:stop])
        if start == 0:
            nisa.dma_copy(dst=im_table, src=w_im.broadcast(0, rows))
        im = nl.load(x_im[start:stop])
        c, s = re_table[0 : stop - start], im_table[0 : stop - start]
        # The products follow the order in which the loads end: VectorE starts after two of four.
        re_c, re_s = product(re, c), product(re, s)
        y = nl.ndarray((stop - start, 2, n), dtype=nl.float32, buffer=nl.sbuf)
        im_c = product(im, c)
        nisa.tensor_tensor(dst=y[:, 1], data1=re_s, data2=im_c, op=nl.add)
        nisa.dma_copy(dst=y_im[start:stop], src=y[:, 1])
        im_s = product(im, s)
        nisa.tensor_tensor(dst=y[:, 0], data1=re_c, data2=im_s, op=nl.subtract)
        nisa.dma_copy(dst=y_re[start:stop], src=y[:, 0])
    return y_re, y_im


def product(a: Any, b: Any) -> Any:
    """Returns an SBUF tile with a * b, element by element."""
    result = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=result, data1=a, data2=b, op=nl.multiply)
    return result


@nki.jit
def radix8(x_re, x_im, w8):
    """Multiplies every row of [groups, 8] by W8, on the Tensor engine.

    w8: [3, 8, 8], the matrices Wr, Wi and -Wi.
    """
    groups = x_re.shape[0]
    y_re = nl.ndarray((groups, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((groups, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    w = nl.ndarray((8, 3, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=w, src=w8.permute((1, 0, 2)))
    for start in range(0, groups, PARTITIONS):
        stop = min(start + PARTITIONS, groups)
        re = nl.load_transpose2d(x_re[start:stop, 0:8])
        im = nl.load_transpose2d(x_im[start:stop, 0:8])
        bank = nl.ndarray((stop - start, 2, 8), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=bank[:, 0], stationary=re, moving=w[:, 0], accumulate=False)
        nisa.nc_matmul(dst=bank[:, 0], stationary=im, moving=w[:, 2], accumulate=True)
        nisa.nc_matmul(dst=bank[:, 1], stationary=re, moving=w[:, 1], accumulate=False)
        nisa.nc_matmul(dst=bank[:, 1], stationary=im, moving=w[:, 0], accumulate=True)
        # Both parts share a bank, so that one instruction evacuates them.
        y = nl.ndarray((stop - start, 2, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=y, src=bank, engine=nisa.engine.vector)
        nisa.dma_copy(dst=y_re[start:stop], src=y[:, 0])
        nisa.dma_copy(dst=y_im[start:stop], src=y[:, 1])
    return y_re, y_im


@nki.jit
def radix4(x_re, x_im):
    """Computes butterflies over the first digit of [B, 4, N / 4] on VectorE: sixteen sums each."""
    batch, _, quarter = x_re.shape
    y_re = nl.ndarray((batch, 4, quarter), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, 4, quarter), dtype=nl.float32, buffer=nl.shared_hbm)
    # The digit is outermost, not innermost, for unit strides on VectorE and fewer, wider permutes.
    # Rows are whole as in ``twiddle``; VectorE starts when it has the real parts.
    for start in range(0, batch, PARTITIONS):
        stop = min(start + PARTITIONS, batch)
        re_sum, re_difference = halves(nl.load(x_re[start:stop]))
        im_sum, im_difference = halves(nl.load(x_im[start:stop]))
        re = nl.ndarray((stop - start, 4, quarter), dtype=nl.float32, buffer=nl.sbuf)
        im = nl.ndarray((stop - start, 4, quarter), dtype=nl.float32, buffer=nl.sbuf)
        # y1 = d0 - i d1 and y3 = d0 + i d1 need sign flips instead of products.
        add_and_subtract(re[:, 0], re[:, 2], re_sum[:, 0], re_sum[:, 1])
        add_and_subtract(re[:, 1], re[:, 3], re_difference[:, 0], im_difference[:, 1])
        nisa.dma_copy(dst=y_re[start:stop], src=re)
        add_and_subtract(im[:, 0], im[:, 2], im_sum[:, 0], im_sum[:, 1])
        add_and_subtract(im[:, 3], im[:, 1], im_difference[:, 0], re_difference[:, 1])
        nisa.dma_copy(dst=y_im[start:stop], src=im)
    return y_re, y_im


def halves(x: Any) -> Any:
    """Returns SBUF tiles (x0 + x2, x1 + x3) and (x0 - x2, x1 - x3) of one part [P, 4, F]."""
    shape = (x.shape[0], 2, x.shape[2])
    total = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    difference = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    add_and_subtract(total, difference, x[:, 0:2], x[:, 2:4])
    return total, difference


def add_and_subtract(total: Any, difference: Any, a: Any, b: Any) -> None:
    """Computes a + b and a - b."""
    nisa.tensor_tensor(dst=total, data1=a, data2=b, op=nl.add)
    nisa.tensor_tensor(dst=difference, data1=a, data2=b, op=nl.subtract)


@dataclass(frozen=True)
class Launch:
    """A kernel, the shape of its (real, imaginary) pair, and its other arguments."""

    kernel: Any
    shape: tuple[int, ...]
    arguments: tuple[Any, ...]

    @property
    def kind(self) -> str:
        """The kind of the launch: permute, twiddle, radix8 or radix4."""
        return str(self.kernel.__name__)


def launches(n: int, radix: int, batch: int) -> list[Launch]:
    """Returns the launches of ``batch`` transforms of length n = 8^k or 4^k, in order.

    Raises:
        ValueError: the radix is not 4 or 8, or the length is no power of it or longer than 4096.
    """
    if radix not in (4, 8):
        raise ValueError(f"radix {radix}: must be 4 or 8")
    if n < radix or radix ** round(np.log2(n) / np.log2(radix)) != n:
        raise ValueError(f"n = {n}: must be a power of {radix}")
    if n > MAX_LENGTH:
        raise ValueError(f"n = {n}: whole rows fit SBUF up to {MAX_LENGTH}")
    found = []
    done = 1
    while done < n:
        left = n // (done * radix)
        digits = (done, radix, left)
        if radix == 4:
            # [K, j, m'] to [j, K, m']; the first stage has nothing to move.
            if done > 1:
                found.append(_permute(batch, digits, (1, 0, 2)))
        elif done == 1:
            found.append(_permute(batch, (radix, left), (1, 0)))
        else:
            # [K', j, m', k] to [k, K', m', j], where (k, K') are the digits of K.
            found.append(_permute(batch, (done // radix, radix, left, radix), (3, 0, 2, 1)))
        # All twiddles of the first stage are one.
        if done > 1:
            found.append(Launch(twiddle, (batch, n), _factors(digits)))
        if radix == 8:
            found.append(Launch(radix8, (batch * n // 8, 8), (_w8(),)))
        else:
            found.append(Launch(radix4, (batch, 4, n // 4), ()))
        done *= radix
    if radix == 8 and n > 8:
        found.append(_permute(batch, (n // 8, 8), (1, 0)))
    return found


def _permute(batch: int, sizes: tuple[int, ...], axes: tuple[int, ...]) -> Launch:
    n = int(np.prod(sizes))
    permuted = tuple([sizes[a] for a in axes])
    return Launch(permute, (batch, n), (sizes, (0, *[a + 1 for a in axes]), permuted))


@functools.lru_cache
def _factors(digits: tuple[int, int, int]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns exp(-2 pi i j K / R) as rows [1, N].

    The factors are ordered [K, m', j] for radix 8 and [j, K, m'] for radix 4.
    """
    done, radix, left = digits
    j, outputs = np.arange(radix), np.arange(done)
    if radix == 8:
        exponent = np.broadcast_to(outputs[:, None, None] * j, (done, left, radix))
    else:
        exponent = np.broadcast_to(j[:, None, None] * outputs[:, None], (radix, done, left))
    angle = 2 * np.pi / (done * radix) * exponent.reshape(1, -1)
    return np.cos(angle).astype(np.float32), (-np.sin(angle)).astype(np.float32)


@functools.lru_cache
def _w8() -> np.ndarray[Any, Any]:
    index = np.arange(8)
    angle = 2 * np.pi / 8 * (np.outer(index, index) % 8)
    return np.stack([np.cos(angle), -np.sin(angle), np.sin(angle)]).astype(np.float32)


# The article's structure breaks these rules, and stays as it was published.
AS_PUBLISHED = (
    "psum-bank-groups",
    "stationary-dimensions",
    "small-array-tile",
    "narrow-stationary",
    "tensors-in-sequences",
)


def transform(x: np.ndarray[Any, Any], radix: int) -> np.ndarray[Any, Any]:
    """Returns the FFT of every row of the complex [B, N], launch by launch in the simulator."""
    batch, n = x.shape
    re = np.ascontiguousarray(x.real, dtype=np.float32)
    im = np.ascontiguousarray(x.imag, dtype=np.float32)
    for launch in launches(n, radix, batch):
        re, im = re.reshape(launch.shape), im.reshape(launch.shape)
        with nki_sim.allow(*AS_PUBLISHED):
            re, im = nki_sim.simulate(launch.kernel)(re, im, *launch.arguments)
    return (re + 1j * im).reshape(batch, n)


def timelines(n: int, radix: int, batch: int) -> list[tuple[str, nki_sim.Timeline]]:
    """Returns (kind, modelled timeline) of every launch, without data."""
    found = []
    stage = None
    for launch in launches(n, radix, batch):
        spec = (launch.shape, "float32")
        with nki_sim.allow(*AS_PUBLISHED):
            if launch.kernel is radix8:
                # The launch is the same in every stage, so that it is modelled once.
                stage = stage or nki_sim.dry_run(radix8, spec, spec, *launch.arguments)
                found.append((launch.kind, stage))
            else:
                timeline = nki_sim.dry_run(launch.kernel, spec, spec, *launch.arguments)
                found.append((launch.kind, timeline))
    return found
