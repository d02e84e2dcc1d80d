"""The kernels of the naive block circulant flow, with which the layers are compared.

The naive flow transforms back before it sums. Its forward direction on the chip has one launch for
each step:

    F x, F w     the planner's kernel for real transforms
    products     [b, j, i, f] of all pairs of blocks, on VectorE
    F^-1         of all pairs, the planner's kernel
    sums         over j, on the Tensor engine, with ones

Tiles are full, and every tile holds whole rows. The times contain neither the overhead of launches
nor the time between launches.
"""

from __future__ import annotations

from nki_kernels.base.engines import PARTITIONS, PSUM_BANK, multiply
from nki_kernels.base.isa import nisa, nki, nl


@nki.jit
def multiply_pairs(x_re, x_im, w_re, w_im):
    """Returns the products [B, q, p, F] of spectra x [B, q, F] and w [q, p, F], for q <= 64."""
    rows, q, length = x_re.shape
    p = w_re.shape[1]
    shape = (rows, q, p, length)
    y_re = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
    pair = min(rows, PARTITIONS // q)
    w = nl.ndarray((pair * q, 2, p, length), dtype=nl.float32, buffer=nl.sbuf)
    for index in range(pair):
        nisa.dma_copy(dst=w[index * q : (index + 1) * q, 0], src=w_re)
        nisa.dma_copy(dst=w[index * q : (index + 1) * q, 1], src=w_im)
    for start in range(0, rows, pair):
        held = min(pair, rows - start)
        factors = w[0 : held * q]
        x = nl.ndarray((held * q, 2, length), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=x[:, 0], src=x_re[start : start + held].flatten_dims(0, 1))
        nisa.dma_copy(dst=x[:, 1], src=x_im[start : start + held].flatten_dims(0, 1))
        re = x[:, 0:1].broadcast(1, p)
        im = x[:, 1:2].broadcast(1, p)
        result = nl.ndarray((held * q, 2, p, length), dtype=nl.float32, buffer=nl.sbuf)
        by_im = nl.ndarray((held * q, p, length), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=result[:, 0], data1=factors[:, 0], data2=re, op=nl.multiply)
        nisa.tensor_tensor(dst=by_im, data1=factors[:, 1], data2=im, op=nl.multiply)
        nisa.tensor_tensor(dst=result[:, 0], data1=result[:, 0], data2=by_im, op=nl.subtract)
        nisa.dma_copy(
            dst=y_re[start : start + held].flatten_dims(0, 1),
            src=result[:, 0],
        )
        nisa.tensor_tensor(dst=result[:, 1], data1=factors[:, 0], data2=im, op=nl.multiply)
        nisa.tensor_tensor(dst=by_im, data1=factors[:, 1], data2=re, op=nl.multiply)
        nisa.tensor_tensor(dst=result[:, 1], data1=result[:, 1], data2=by_im, op=nl.add)
        nisa.dma_copy(
            dst=y_im[start : start + held].flatten_dims(0, 1),
            src=result[:, 1],
        )
    return y_re, y_im


@nki.jit
def sum_blocks(x, ones):
    """Returns the sums over q of x [B, q, N], for q <= 64.

    ones: [128, 128 // q], with 1 where row // q is the number of the column, and 0 elsewhere.
    """
    rows, q, n = x.shape
    y = nl.ndarray((rows, n), dtype=nl.float32, buffer=nl.shared_hbm)
    pair = PARTITIONS // q
    sums = nl.ndarray(ones.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=sums, src=ones)
    for start in range(0, rows, pair):
        held = min(pair, rows - start)
        tile = nl.ndarray((held * q, n), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + held].flatten_dims(0, 1))
        result = nl.ndarray((held, n), dtype=nl.float32, buffer=nl.sbuf)
        for low in range(0, n, PSUM_BANK):
            high = min(low + PSUM_BANK, n)
            bank = nl.ndarray((held, high - low), dtype=nl.float32, buffer=nl.psum)
            multiply(bank, sums[0 : held * q, 0:held], tile[:, low:high], False)
            nisa.activation(dst=result[:, low:high], op=nl.copy, data=bank)
        nisa.dma_copy(dst=y[start : start + held], src=result)
    return y
