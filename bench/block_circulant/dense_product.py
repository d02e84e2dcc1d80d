"""A dense float32 product on the Tensor engine, for comparison with block circulant products."""

from __future__ import annotations

from typing import Any

from nki_kernels.base.engines import (
    PARTITIONS,
    PSUM_BANK,
    evacuate,
    multiply,
    transpose,
)
from nki_kernels.base.isa import nisa, nki, nl
from nki_kernels.base.tables import load_identity


@nki.jit
def dense_product(x, weight):
    """Multiplies rows [B, K] by a dense weight [K, N].

    x: float32 HBM [B, K]. weight: HBM [N / C, 128, K / 128, C], C <= 512, stored in the order in
    which this kernel loads it, without gaps. Returns y [B, N].
    """
    rows = x.shape[0]
    chunks, _, pieces, width = weight.shape
    y = nl.ndarray((rows, chunks * width), dtype=nl.float32, buffer=nl.shared_hbm)
    identity = load_identity(nl.float32)
    block = min(rows, PSUM_BANK)
    for start in range(0, rows, block):
        count = min(block, rows - start)
        columns = transposed_rows(x[start : start + count], identity)
        for chunk in range(chunks):
            tile = nl.ndarray((PARTITIONS, pieces, width), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=weight[chunk])
            left = chunk * width
            for low in range(0, count, PARTITIONS):
                length = min(PARTITIONS, count - low)
                bank = nl.ndarray((length, width), dtype=nl.float32, buffer=nl.psum)
                for piece in range(pieces):
                    held = columns[piece][:, low : low + length]
                    multiply(bank, held, tile[:, piece], piece > 0)
                rows_of_y = y[start + low : start + low + length]
                nisa.dma_copy(dst=rows_of_y[:, left : left + width], src=evacuate(bank))
    return y


def transposed_rows(x: Any, identity: Any) -> Any:
    """Returns HBM rows [count, K] transposed: SBUF tiles [128, count], one for each 128 of K."""
    count, depth = x.shape
    loaded = []
    for low in range(0, count, PARTITIONS):
        length = min(PARTITIONS, count - low)
        tile = nl.ndarray((length, depth), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[low : low + length])
        loaded.append(tile)
    tiles = []
    for first in range(0, depth, PARTITIONS):
        bank = nl.ndarray((PARTITIONS, count), dtype=nl.float32, buffer=nl.psum)
        for index in range(len(loaded)):
            low = index * PARTITIONS
            data = loaded[index][:, first : first + PARTITIONS]
            transpose(bank[:, low : low + data.shape[0]], data, identity)
        tiles.append(evacuate(bank, is_scalar=False))
    return tiles
