"""The vector adds of a course's assignment, rebuilt with the structure of their sources.

The course is CS149 of Stanford. Its assignment 4 has two kernels: one adds chunks of ``rows``
numbers, one number a partition, and the other adds tiles [128, columns] that follow each other in
HBM. `small_copies` has the times.
"""

from __future__ import annotations

from bench.model_check.tiles import load, new_like
from nki_kernels.base.isa import nisa, nki, nl


@nki.jit
def add_chunks(a, b, rows):
    """Returns a + b of vectors, by chunks of ``rows`` numbers in as many partitions."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    chunks = (a.shape[0] // rows, rows, 1)
    left, right, sums = a.reshape(chunks), b.reshape(chunks), out.reshape(chunks)
    for i in range(chunks[0]):
        total, other = new_like(left[i]), load(right[i])
        nisa.tensor_scalar(dst=total, data=load(left[i]), op0=nl.add, operand0=other)
        nisa.dma_copy(dst=sums[i], src=total)
    return out


@nki.jit
def add_tiles(a, b):
    """Returns a + b of [tiles, 128, columns], by one instruction for each tile."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(a.shape[0]):
        total = new_like(a[i])
        nisa.tensor_tensor(dst=total, data1=load(a[i]), data2=load(b[i]), op=nl.add)
        nisa.dma_copy(dst=out[i], src=total)
    return out


@nki.jit
def add_often(x, count):
    """Returns x * 2, computed ``count`` times by instructions that do not depend on each other."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = load(x)
    totals = [new_like(x) for _ in range(count)]
    for total in totals:
        nisa.tensor_tensor(dst=total, data1=tile, data2=tile, op=nl.add, engine=nisa.engine.vector)
    nisa.dma_copy(dst=out, src=totals[-1])
    return out
