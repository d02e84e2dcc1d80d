"""Whole kernels of trainium-agent-labs, timed on trn2, rebuilt with the structure of their sources.

Tiles, loops, dtypes, engines and queues are those of the sources; the code is written for this
project. `labs` has the times. The tiled matrix product of the labs is the one of
`published_kernels`.
"""

from __future__ import annotations

from typing import Any

from bench.model_check.tiles import TILE, WIDE, load, part, transposed
from nki_kernels.base.isa import nisa, nki, nl

EPSILON = 1e-6  # of `rms_norm`


@nki.jit
def copy_tiles(x):
    """Copies x [rows, F] by tiles of 128 rows, with a load and a store for each tile."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0] // TILE):
        nisa.dma_copy(dst=out[part(i, TILE), :], src=load(x[part(i, TILE), :]))
    return out


@nki.jit
def copy_packed(x, chunks):
    """Copies x [rows, F] as [128, rows / 128 * F], in ``chunks`` of columns."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    packed = (TILE, x.shape[0] // TILE * x.shape[1])
    source, destination = x.reshape(packed), out.reshape(packed)
    for i in range(chunks):
        columns = part(i, packed[1] // chunks)
        nisa.dma_copy(dst=destination[:, columns], src=load(source[:, columns]))
    return out


@nki.jit
def rms_norm(x, w):
    """Returns x [rows, F] / rms(x) * w [1, F], by tiles of 128 rows.

    w is loaded once for each partition.
    """
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    length = x.shape[1]
    weights = nl.ndarray((TILE, length), dtype=w.dtype, buffer=nl.sbuf)
    for p in range(TILE):
        nisa.dma_copy(dst=weights[p : p + 1, :], src=w)
    for i in range(x.shape[0] // TILE):
        rows = load(x[part(i, TILE), :])
        squares, total, inverse = new(length), new(1), new(1)
        nisa.activation_reduce(
            dst=squares, op=nl.square, data=rows, reduce_op=nl.add, reduce_res=total
        )
        nisa.activation(dst=inverse, op=nl.rsqrt, data=total, scale=1 / length, bias=EPSILON)
        normal, weighted = new(length), new(length, x.dtype)
        nisa.tensor_scalar(dst=normal, data=rows, op0=nl.multiply, operand0=inverse)
        nisa.tensor_tensor(dst=weighted, data1=normal, data2=weights, op=nl.multiply)
        nisa.dma_copy(dst=out[part(i, TILE), :], src=weighted)
    return out


def new(length: int, dtype: Any = nl.float32, rows: int = TILE) -> Any:
    """Returns a new SBUF tile [rows, length]."""
    return nl.ndarray((rows, length), dtype=dtype, buffer=nl.sbuf)


# A matrix product lhs_t.T @ rhs with all dimensions blocked: lhs_t [K, M], rhs [K, N].


@nki.jit
def matmul_blocks(lhs_t, rhs, m_tiles, n_tiles, k_tiles):
    """Adds up blocks of K in float32; the DMA that stores 128 rows of a block rounds the sums.

    A block of an operand is one tile of SBUF, which k_tiles DMAs fill.
    """
    rows, columns = lhs_t.shape[1] // TILE, n_tiles * WIDE
    out = nl.ndarray((lhs_t.shape[1], rhs.shape[1]), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for n in range(rhs.shape[1] // columns):
        sums = []
        for _ in range(rows):
            tile = nl.ndarray((TILE, n_tiles, WIDE), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=tile, value=0.0)
            sums.append(tile)
        for k in range(lhs_t.shape[0] // (k_tiles * TILE)):
            right = load_block(rhs, k * k_tiles, k_tiles, part(n, columns))
            for m in range(rows // m_tiles):
                left = load_block(lhs_t, k * k_tiles, k_tiles, part(m, m_tiles * TILE))
                for j in range(n_tiles):
                    for i in range(m_tiles):
                        total = sums[m * m_tiles + i][:, j, :]
                        add_products(total, left, part(i, TILE), right, part(j, WIDE))
        for i in range(rows):
            block = sums[i].reshape((TILE, columns))
            nisa.dma_copy(dst=out[part(i, TILE), part(n, columns)], src=block)
    return out


def load_block(source: Any, first: int, count: int, columns: slice) -> Any:
    """Returns ``count`` tiles of 128 rows side by side in one tile [128, count, columns]."""
    width = columns.stop - columns.start
    block = nl.ndarray((TILE, count, width), dtype=source.dtype, buffer=nl.sbuf)
    for k in range(count):
        nisa.dma_copy(dst=block[:, k, :], src=source[part(first + k, TILE), columns])
    return block


def add_products(total: Any, left: Any, rows: slice, right: Any, columns: slice) -> None:
    """Adds the products of all tiles of two blocks to total [128, 512]."""
    bank = nl.ndarray((TILE, WIDE), dtype=nl.float32, buffer=nl.psum)
    for k in range(left.shape[1]):
        nisa.nc_matmul(dst=bank, stationary=left[:, k, rows], moving=right[:, k, columns])
    nisa.tensor_tensor(dst=total, data1=total, data2=bank, op=nl.add)


# Attention softmax(q k' / sqrt(F)) v over at most 128 positions of at most 128 numbers.


@nki.jit
def attention(q, k, v, is_hardware):
    """Computes one head from q, k and v [positions, F] in float32.

    ``is_hardware`` selects hardware DGE with two queues.
    """
    out = nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.shared_hbm)
    tiles = load_head(q, k, v, is_hardware)
    move(out, attend_fused(*tiles, nl.float32), is_hardware)
    return out


@nki.jit
def attention_heads(q, k, v):
    """Computes each head of q, k, v [positions, heads, F], with loads and a store of its own."""
    out = nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.shared_hbm)
    for h in range(q.shape[1]):
        tiles = load_head(q[:, h, :], k[:, h, :], v[:, h, :], False)
        move(out[:, h, :], attend_by_steps(*tiles), False)
    return out


@nki.jit
def attention_heads_hardware(q, k, v):
    """Computes the same with hardware DGE, fused steps, and the product with v in bfloat16."""
    out = nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.shared_hbm)
    for h in range(q.shape[1]):
        tiles = load_head(q[:, h, :], k[:, h, :], v[:, h, :], True)
        move(out[:, h, :], attend_fused(*tiles, nl.bfloat16), True)
    return out


def load_head(q: Any, k: Any, v: Any, is_hardware: bool) -> tuple[Any, Any, Any]:
    """Loads three tiles; with hardware DGE, k uses ScalarE's queue, and q and v use Sync's."""
    tiles = [new(t.shape[1], t.dtype, t.shape[0]) for t in (q, k, v)]
    move(tiles[0], q, is_hardware)
    move(tiles[1], k, is_hardware, nisa.engine.scalar)
    move(tiles[2], v, is_hardware)
    return tiles[0], tiles[1], tiles[2]


def move(destination: Any, source: Any, is_hardware: bool, queue: Any = None) -> None:
    """Copies by DMA, with hardware DGE in the given queue or Sync's, or as the compiler chooses."""
    if is_hardware:
        mode, queue = nisa.dge_mode.hwdge, queue or nisa.engine.sync
        nisa.dma_copy(dst=destination, src=source, dge_mode=mode, engine=queue)
    else:
        nisa.dma_copy(dst=destination, src=source)


def attend_fused(q: Any, k: Any, v: Any, narrow: Any) -> Any:
    """Scales q as it leaves PSUM; the instruction that computes exponentials also adds them up.

    The weights and v are converted to ``narrow``.
    """
    count, length = q.shape
    q_t, k_t = transposed(q), transposed(k)
    left, right = new(count, rows=length), new(count, rows=length)
    nisa.activation(dst=left, op=nl.copy, data=q_t, scale=length**-0.5)
    nisa.tensor_copy(dst=right, src=k_t, engine=nisa.engine.vector)
    scores = product(left, right)
    least, total = new(1, rows=count), new(1, rows=count)
    nisa.tensor_reduce(dst=least, op=nl.maximum, data=scores, axis=1, negate=True)
    values = v
    if narrow != v.dtype:
        values = new(length, narrow, count)
        nisa.tensor_copy(dst=values, src=v, engine=nisa.engine.vector)
    weights = new(count, narrow, count)
    nisa.activation_reduce(
        dst=weights, op=nl.exp, data=scores, bias=least, reduce_op=nl.add, reduce_res=total
    )
    return normalised(weighted_sum(weights, values), total)


def attend_by_steps(q: Any, k: Any, v: Any) -> Any:
    """Computes every step by its own instruction.

    VectorE scales the maximum for exp, and adds up the results of exp.
    """
    count, length = q.shape
    q_t, k_t = transposed(q), transposed(k)
    left, right = new(count, rows=length), new(count, rows=length)
    nisa.tensor_copy(dst=left, src=q_t, engine=nisa.engine.vector)
    nisa.tensor_copy(dst=right, src=k_t, engine=nisa.engine.vector)
    scores = product(left, right)
    most, bias, total = new(1, rows=count), new(1, rows=count), new(1, rows=count)
    nisa.tensor_reduce(dst=most, op=nl.maximum, data=scores, axis=1)
    nisa.tensor_scalar(dst=bias, data=most, op0=nl.multiply, operand0=-(length**-0.5))
    weights = new(count, rows=count)
    nisa.activation(dst=weights, op=nl.exp, data=scores, scale=length**-0.5, bias=bias)
    nisa.tensor_reduce(dst=total, op=nl.add, data=weights, axis=1)
    return normalised(weighted_sum(weights, v), total)


def product(left: Any, right: Any) -> Any:
    """Returns left.T @ right, in PSUM."""
    bank = nl.ndarray((left.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=bank, stationary=left, moving=right)
    return bank


def weighted_sum(weights: Any, values: Any) -> Any:
    """Returns weights @ values, in PSUM."""
    turned = transposed(weights)
    stationary = new(turned.shape[1], weights.dtype, turned.shape[0])
    nisa.tensor_copy(dst=stationary, src=turned, engine=nisa.engine.vector)
    return product(stationary, values)


def normalised(sums: Any, total: Any) -> Any:
    """Returns sums / total [positions, 1]."""
    inverse, result = new(1, rows=sums.shape[0]), new(sums.shape[1], rows=sums.shape[0])
    nisa.reciprocal(dst=inverse, data=total)
    nisa.tensor_scalar(dst=result, data=sums, op0=nl.multiply, operand0=inverse)
    return result
