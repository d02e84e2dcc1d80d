"""Kernels whose times on hardware are published, rebuilt from their descriptions.

`documentation` has the published times with their sources, and says how they are modelled. The code
is written for this project. The order of loops, the sizes of tiles, and repeated loads follow the
descriptions; nothing is tuned.
"""

from __future__ import annotations

from typing import Any

from bench.model_check.tiles import TILE, WIDE, combined, load, load_by, new_like, part, store
from nki_kernels.base.isa import nisa, nki, nl

# Matrix products lhs_t.T @ rhs, [M, N], of lhs_t [K, M], which is the left operand transposed, and
# rhs [K, N].


@nki.jit
def matmul_tiled(lhs_t, rhs):
    """Loads both operand tiles before every product."""
    out = nl.ndarray((lhs_t.shape[1], rhs.shape[1]), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(lhs_t.shape[1] // TILE):
        for n in range(rhs.shape[1] // WIDE):
            bank = nl.ndarray((TILE, WIDE), dtype=nl.float32, buffer=nl.psum)
            for k in range(lhs_t.shape[0] // TILE):
                stationary = load(lhs_t[part(k, TILE), part(m, TILE)])
                moving = load(rhs[part(k, TILE), part(n, WIDE)])
                nisa.nc_matmul(dst=bank, stationary=stationary, moving=moving)
            store_product(out[part(m, TILE), part(n, WIDE)], bank)
    return out


@nki.jit
def matmul_free_blocks(lhs_t, rhs, m_tiles, n_tiles):
    """Computes blocks of ``m_tiles`` x ``n_tiles`` tiles; loads their operands once for all of K.

    With one tile each, this is the published version that hoists the loads out of the innermost
    loop.
    """
    out = nl.ndarray((lhs_t.shape[1], rhs.shape[1]), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(lhs_t.shape[1] // (m_tiles * TILE)):
        left = load_columns(lhs_t, m * m_tiles, m_tiles, TILE)
        for n in range(rhs.shape[1] // (n_tiles * WIDE)):
            right = load_columns(rhs, n * n_tiles, n_tiles, WIDE)
            for i in range(m_tiles):
                for j in range(n_tiles):
                    bank = nl.ndarray((TILE, WIDE), dtype=nl.float32, buffer=nl.psum)
                    for k in range(lhs_t.shape[0] // TILE):
                        nisa.nc_matmul(dst=bank, stationary=left[i][k], moving=right[j][k])
                    rows, columns = part(m * m_tiles + i, TILE), part(n * n_tiles + j, WIDE)
                    store_product(out[rows, columns], bank)
    return out


def load_columns(source: Any, first: int, count: int, width: int) -> Any:
    """Returns SBUF tiles [128, width] of ``count`` columns of tiles, by column, then by row."""
    found = []
    for column in range(first, first + count):
        tiles = []
        for k in range(source.shape[0] // TILE):
            tiles.append(load(source[part(k, TILE), part(column, width)]))
        found.append(tiles)
    return found


def store_product(destination: Any, bank: Any) -> None:
    """Evacuates a PSUM bank to HBM, in the output's dtype."""
    tile = nl.ndarray(bank.shape, dtype=destination.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=bank, engine=nisa.engine.vector)
    store(destination, tile)


@nki.jit
def matmul_blocks(lhs_t, rhs, m_tiles, n_tiles, k_tiles):
    """Blocks all three dimensions; VectorE adds the partial sums of each K block in SBUF."""
    rows, columns = lhs_t.shape[1] // TILE, n_tiles * WIDE
    out = nl.ndarray((lhs_t.shape[1], rhs.shape[1]), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for n in range(rhs.shape[1] // columns):
        sums = []
        for _ in range(rows * n_tiles):
            tile = nl.ndarray((TILE, WIDE), dtype=lhs_t.dtype, buffer=nl.sbuf)
            nisa.memset(dst=tile, value=0.0, engine=nisa.engine.vector)
            sums.append(tile)
        for k in range(lhs_t.shape[0] // (k_tiles * TILE)):
            right = load_rows(rhs, k * k_tiles, k_tiles, part(n, columns))
            for m in range(rows // m_tiles):
                left = load_rows(lhs_t, k * k_tiles, k_tiles, part(m, m_tiles * TILE))
                for j in range(n_tiles):
                    for i in range(m_tiles):
                        total = sums[(m * m_tiles + i) * n_tiles + j]
                        add_products(total, left, part(i, TILE), right, part(j, WIDE))
        for m in range(rows):
            packed = nl.ndarray((TILE, columns), dtype=out.dtype, buffer=nl.sbuf)
            for j in range(n_tiles):
                nisa.tensor_copy(
                    dst=packed[:, part(j, WIDE)],
                    src=sums[m * n_tiles + j],
                    engine=nisa.engine.vector,
                )
            store(out[part(m, TILE), part(n, columns)], packed)
    return out


def load_rows(source: Any, first: int, count: int, columns: slice) -> Any:
    """Returns ``count`` SBUF tiles of 128 rows each, with the given columns."""
    tiles = []
    for k in range(first, first + count):
        tiles.append(load(source[part(k, TILE), columns]))
    return tiles


def add_products(total: Any, left: Any, rows: slice, right: Any, columns: slice) -> None:
    """Adds the sum over all tiles of left[:, rows].T @ right[:, columns] to total."""
    bank = nl.ndarray((TILE, WIDE), dtype=nl.float32, buffer=nl.psum)
    for k in range(len(left)):
        nisa.nc_matmul(dst=bank, stationary=left[k][:, rows], moving=right[k][:, columns])
    nisa.tensor_tensor(dst=total, data1=total, data2=bank, op=nl.add)


# The selective state space layer of Mamba, with delta and u [channels, length], a [channels,
# states], b and c [states, length]: y = sum over states of c h, where h_t = exp(a delta_t) h_(t-1)
# + b u delta.


@nki.jit
def mamba_states_outside(delta, u, a, b, c):
    """Loops over states outside, over channels inside; loads delta and u again for every state."""
    channels, length = delta.shape
    out = nl.ndarray((channels, length), dtype=delta.dtype, buffer=nl.shared_hbm)
    ones = ones_row()
    sums = []
    for _ in range(channels // TILE):
        sums.append(zeros(length))
    for state in range(a.shape[1]):
        b_rows = on_all_partitions(ones, load(b[part(state, 1)]))
        c_rows = on_all_partitions(ones, load(c[part(state, 1)]))
        for tile in range(channels // TILE):
            rows = part(tile, TILE)
            delta_tile = load(delta[rows])
            drive = combined(delta_tile, load(u[rows]), nl.multiply)
            scale = load(a[rows, part(state, 1)])
            add_state(sums[tile], delta_tile, drive, scale, b_rows, c_rows, 0.0)
    for tile in range(channels // TILE):
        nisa.dma_copy(dst=out[part(tile, TILE)], src=sums[tile])
    return out


@nki.jit
def mamba_channels_outside(delta, u, a, b, c, step):
    """Loops over channels outside, so that delta and u are loaded once.

    The sequence is cut into parts of ``step`` points. The compiler moves delta * u out of the loop
    over states. The profile with 8192 points shows it: VectorE has 39695 events, five for each part
    and state, the last of which copies the carry.
    """
    channels, length = delta.shape
    out = nl.ndarray((channels, length), dtype=delta.dtype, buffer=nl.shared_hbm)
    ones = ones_row()
    for tile in range(channels // TILE):
        rows = part(tile, TILE)
        total = zeros(length)
        delta_tile, u_tile = load(delta[rows]), load(u[rows])
        drives = []
        for position in range(length // step):
            now = part(position, step)
            drives.append(combined(delta_tile[:, now], u_tile[:, now], nl.multiply))
        for state in range(a.shape[1]):
            scale = load(a[rows, part(state, 1)])
            carry = 0.0
            for position in range(length // step):
                now = part(position, step)
                b_rows = on_all_partitions(ones, load(b[part(state, 1), now]))
                c_rows = on_all_partitions(ones, load(c[part(state, 1), now]))
                last = add_state(
                    total[:, now],
                    delta_tile[:, now],
                    drives[position],
                    scale,
                    b_rows,
                    c_rows,
                    carry,
                )
                if step < length:
                    carry = new_like(last)
                    nisa.tensor_copy(dst=carry, src=last, engine=nisa.engine.vector)
        store(out[rows], total)
    return out


def zeros(length: int) -> Any:
    """Returns an SBUF tile of zeros, [128, length]."""
    tile = nl.ndarray((TILE, length), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0, engine=nisa.engine.vector)
    return tile


def ones_row() -> Any:
    """Returns an SBUF tile [1, 128] of ones; a product with it copies a row to every partition."""
    ones = nl.ndarray((1, TILE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0, engine=nisa.engine.gpsimd)
    return ones


def on_all_partitions(ones: Any, row: Any) -> Any:
    """Returns a tile [128, length] with the row [1, length] on every partition: ones times row.

    The tile is in PSUM where one bank can hold it. Longer rows are copied to SBUF, because VectorE
    reads one bank at a time.
    """
    length = row.shape[1]
    if length <= WIDE:
        return repeated(ones, row)
    rows = nl.ndarray((TILE, length), dtype=nl.float32, buffer=nl.sbuf)
    for position in range(-(-length // WIDE)):
        now = slice(position * WIDE, min((position + 1) * WIDE, length))
        nisa.activation(dst=rows[:, now], op=nl.copy, data=repeated(ones, row[:, now]))
    return rows


def repeated(ones: Any, row: Any) -> Any:
    """Returns the product of ones and a row, in a bank of PSUM."""
    bank = nl.ndarray((TILE, row.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=bank, stationary=ones, moving=row)
    return bank


def add_state(
    total: Any, delta: Any, drive: Any, scale: Any, b_rows: Any, c_rows: Any, carry: Any
) -> Any:
    """Adds one state's part to the output, and returns the last value of the state, [128, 1]."""
    decay, state = new_like(delta), new_like(delta)
    nisa.activation(dst=decay, op=nl.exp, data=delta, scale=scale)
    driven = combined(drive, b_rows, nl.multiply)
    nisa.tensor_tensor_scan(
        dst=state, data0=decay, data1=driven, initial=carry, op0=nl.multiply, op1=nl.add
    )
    read = combined(state, c_rows, nl.multiply)
    nisa.tensor_tensor(dst=total, data1=total, data2=read, op=nl.add)
    last = delta.shape[1] - 1
    return state[:, slice(last, last + 1)]


# Small kernels.


@nki.jit
def exponential(x):
    """Computes exp of one tile [P <= 128, F]: a load, one instruction of ScalarE, a store.

    The DMAs use software DGE.
    """
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.activation(dst=result, op=nl.exp, data=load_by(x, nisa.dge_mode.swdge))
    nisa.dma_copy(dst=out, src=result, dge_mode=nisa.dge_mode.swdge)
    return out


@nki.jit
def load_tiles(x):
    """Loads x [tiles, 128, F] by one DMA a tile with software DGE; returns the last tile."""
    out = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0] - 1):
        load_by(x[i], nisa.dge_mode.swdge)
    nisa.dma_copy(dst=out, src=load(x[x.shape[0] - 1]))
    return out


@nki.jit
def dependent_scalars(x, count):
    """Returns x + count for x [128, 1], by ``count`` dependent instructions of ScalarE."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    one = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=one, value=1.0)
    tile = load(x)
    for _ in range(count):
        following = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=following, op=nl.copy, data=tile, bias=one)
        tile = following
    store(out, tile)
    return out


@nki.jit
def add(x, y):
    """Returns x + y of tiles [P <= 128, F], by one instruction of VectorE."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    left, right = load(x), load(y)
    nisa.tensor_tensor(dst=total, data1=left, data2=right, op=nl.add, engine=nisa.engine.vector)
    store(out, total)
    return out
