"""Small kernels that others timed on NeuronCores, rebuilt with the original shapes and order.

`device` has the measured times with their sources, and says how they are modelled.
As in `published_kernels`, the code is written for this project; loads, computation and reuse of
data follow the original probes.
"""

from __future__ import annotations

from typing import Any

from bench.model_check.tiles import TILE, WIDE, load, part, stored
from nki_kernels.base.isa import nisa, nki, nl

HALF = 64  # columns that share a scale in `scale_blocks`
RING = 4  # buffers of a stream, which are filled in turn

# TensorE.


@nki.jit
def matmul_chain(stationaries, moving, count):
    """Adds up ``count`` products in one PSUM tile; product i uses the stationary operand i % S.

    stationaries [128, S, M], moving [128, N]. Returns [M, N] in float32.
    """
    rows, columns = stationaries.shape[2], moving.shape[1]
    left, right = load(stationaries), load(moving)
    bank = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    for i in range(count):
        stationary = left[:, i % left.shape[1], :]
        nisa.nc_matmul(dst=bank, stationary=stationary, moving=right, accumulate=i > 0)
    total = nl.ndarray(bank.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=bank, engine=nisa.engine.vector)
    return stored(total)


# VectorE and ScalarE: products of 8-bit codes and scales, in bfloat16.


@nki.jit
def scale_blocks(codes, scales, blocks, way):
    """Scales 32 tiles of 128 columns, ``blocks`` times; returns the sums of their rows, [128, 1].

    codes [2, 128, 4096] are bytes of float8_e4m3, whose two halves alternate; scales [128, 2, 32]
    has a scale for every 64 columns, by half and tile. The scaled tiles of a block are the
    stationary operands of 32 products with ones, whose sums VectorE adds one block later. The delay
    follows the chip, where 8 products with PSUM left no time to wait.

    ``way`` says how the tiles are scaled:
        vector, scalar: one instruction for every 64 columns, on VectorE or on ScalarE.
        both: the same, with tiles 0 to 15 on VectorE and the others on ScalarE.
        sbuf: one product for every 512 columns on VectorE.
        psum: the same, of ones in PSUM with the first scale of each tile.
    """
    loaded = [load(codes[0]), load(codes[1])]
    factors = load(scales)
    ones = filled((TILE, HALF), nl.bfloat16, nl.sbuf)
    psum_ones = filled((TILE, WIDE), nl.float32, nl.psum)
    total = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    pending: Any = None
    for block in range(blocks):
        scaled = nl.ndarray((TILE, 32, TILE), dtype=nl.bfloat16, buffer=nl.sbuf)
        source = loaded[block % 2].view(nl.float8_e4m3).reshape(scaled.shape)
        if way in ("sbuf", "psum"):
            scale_by_broadcast(scaled, source, factors, psum_ones if way == "psum" else None)
        else:
            scale_halves(scaled, source, factors, {"vector": 32, "both": 16, "scalar": 0}[way])
        sums = nl.ndarray((TILE, HALF), dtype=nl.float32, buffer=nl.psum)
        for tile in range(32):
            stationary = scaled[:, tile, :]
            nisa.nc_matmul(dst=sums, stationary=stationary, moving=ones, accumulate=tile > 0)
        if pending is not None:
            add_column(total, pending[:, HALF - 1 : HALF])
        pending = sums
    add_column(total, pending[:, HALF - 1 : HALF])
    return stored(total)


def filled(shape: Any, dtype: Any, buffer: Any) -> Any:
    """Returns a tile of ones."""
    tile = nl.ndarray(shape, dtype=dtype, buffer=buffer)
    nisa.memset(dst=tile, value=1.0)
    return tile


def add_column(total: Any, column: Any) -> None:
    """Adds a column to total [128, 1]."""
    nisa.tensor_tensor(dst=total, data1=total, data2=column, op=nl.add, engine=nisa.engine.vector)


def scale_halves(scaled: Any, source: Any, factors: Any, vector_tiles: int) -> None:
    """Scales every 64 columns by an instruction, first tiles on VectorE, the others on ScalarE."""
    for tile in range(scaled.shape[1]):
        for half in range(2):
            columns = part(half, HALF)
            factor = factors[:, half, tile : tile + 1]
            scale(scaled[:, tile, columns], source[:, tile, columns], factor, tile < vector_tiles)


def scale(destination: Any, source: Any, factor: Any, on_vector: bool) -> None:
    """Multiplies source by factor [128, 1], on VectorE or ScalarE."""
    if on_vector:
        nisa.tensor_scalar(
            dst=destination,
            data=source,
            op0=nl.multiply,
            operand0=factor,
            engine=nisa.engine.vector,
        )
    else:
        nisa.activation(dst=destination, op=nl.copy, data=source, scale=factor)


def scale_by_broadcast(scaled: Any, source: Any, factors: Any, instead: Any) -> None:
    """Scales four tiles by each product on VectorE, which reads every scale many times.

    ``instead``: a PSUM tile [128, 512] that replaces the source.
    """
    for position in range(scaled.shape[1] // 4):
        tiles = part(position, 4)
        if instead is None:
            columns: tuple[int, ...] = (TILE, 4, 2, HALF)
            pattern = [[64, TILE], [1, 4], [32, 2], [0, HALF]]
            left = source[:, tiles, :].reshape(columns)
        else:
            columns = (TILE, 4, TILE)
            pattern = [[64, TILE], [1, 4], [0, TILE]]
            left = instead.reshape(columns)
        multiply(
            scaled[:, tiles, :].reshape(columns),
            left,
            factors.ap(pattern=pattern, offset=position * 4),
        )


def multiply(destination: Any, left: Any, right: Any) -> None:
    """Multiplies element by element on VectorE."""
    nisa.tensor_tensor(
        dst=destination, data1=left, data2=right, op=nl.multiply, engine=nisa.engine.vector
    )


@nki.jit
def scale_tiles(codes, scales, rounds, way):
    """Scales codes [128, n, 512], bytes of float8_e4m3, ``rounds`` times into one tile; returns it.

    scales [128, n, 4] has a scale for every 128 columns.

    ``way`` says how:
        vector, scalar: one instruction for each scale, on VectorE or on ScalarE.
        both: the same, with the two engines in turn.
        sbuf: one product with repeated scales.
        psum: the same, with the first four scales in PSUM.
    """
    count = codes.shape[1]
    source, factors = load(codes).view(nl.float8_e4m3), load(scales)
    scaled = nl.ndarray(codes.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    repeated = [[count * 4, TILE], [1, 4], [0, TILE]]
    row = nl.ndarray((TILE, WIDE), dtype=nl.float32, buffer=nl.psum)
    nisa.tensor_copy(dst=row, src=factors.ap(pattern=repeated, offset=0), engine=nisa.engine.vector)
    for _ in range(rounds):
        for i in range(count):
            if way == "psum":
                multiply(scaled[:, i, :], source[:, i, :], row)
            elif way == "sbuf":
                multiply(
                    scaled[:, i, :],
                    source[:, i, :],
                    factors.ap(pattern=repeated, offset=i * 4),
                )
            else:
                for j in range(4):
                    columns, factor = part(j, TILE), factors[:, i, j : j + 1]
                    on_vector = way == "vector" or (way == "both" and j % 2 == 0)
                    scale(scaled[:, i, columns], source[:, i, columns], factor, on_vector)
    return stored(scaled)


# Streams from HBM. The first column of every buffer is read, so that a compiler cannot remove the
# load as unused.


@nki.jit
def stream(x, width, rows):
    """Loads x [parts, 128, F] in chunks [128, width], by DMAs of ``rows`` rows each, into a ring.

    The number of the part is an address that a tile holds. Returns the sum of the first columns of
    all chunks, [128, 1].
    """
    parts, _, length = x.shape
    numbers = nl.ndarray((1, parts), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=numbers, pattern=[[1, parts]], offset=0, channel_multiplier=0)
    ring = new_ring((TILE, width), x.dtype)
    total = zero_column()
    for number in range(parts):
        for position in range(length // width):
            buffer = ring[(number * (length // width) + position) % RING]
            for group in range(TILE // rows):
                source = x.ap(
                    pattern=[[length, rows], [1, width]],
                    offset=group * rows * length + position * width,
                    scalar_offset=numbers[:, number : number + 1],
                    indirect_dim=0,
                )
                nisa.dma_copy(dst=buffer[part(group, rows), :], src=source)
            use_first_column(total, buffer)
    return stored(total)


@nki.jit
def stream_runs(x, run):
    """Loads the first ``run`` elements of every row of x [parts, 128, rows, F], by one DMA a part.

    The number of the part is an address that a tile holds. Returns the sum of the first elements,
    [128, 1].
    """
    parts, _, rows, length = x.shape
    numbers = nl.ndarray((1, parts), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=numbers, pattern=[[1, parts]], offset=0, channel_multiplier=0)
    ring = new_ring((TILE, rows, run), x.dtype)
    total = zero_column()
    for number in range(parts):
        buffer = ring[number % RING]
        source = x.ap(
            pattern=[[rows * length, TILE], [length, rows], [1, run]],
            offset=0,
            scalar_offset=numbers[:, number : number + 1],
            indirect_dim=0,
        )
        nisa.dma_copy(dst=buffer, src=source)
        use_first_column(total, buffer.reshape((TILE, rows * run)))
    return stored(total)


def new_ring(shape: Any, dtype: Any) -> list[Any]:
    """Returns the buffers that a stream fills in turn, each a tile of its own."""
    ring = []
    for _ in range(RING):
        ring.append(nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf))
    return ring


def zero_column() -> Any:
    """Returns a tile of zeros, [128, 1]."""
    column = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=column, value=0.0)
    return column


def use_first_column(total: Any, buffer: Any) -> None:
    """Adds buffer[:, 0] to total, by two instructions of VectorE."""
    column = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=column, src=buffer[:, 0:1], engine=nisa.engine.vector)
    add_column(total, column)


@nki.jit
def load_lanes(x, rows, blobs, experts, gathers, loads):
    """Gathers rows of x [C, H] and loads a blob, for one tile after the other.

    rows [128, tiles] names the rows of each tile, experts [1, tiles] its blob among blobs [E, 128,
    F]. ``gathers`` and ``loads`` switch the two steps on. Returns the sums of the last columns,
    [128, 2].
    """
    tiles, width, blob = rows.shape[1], x.shape[1], blobs.shape[2]
    names, numbers = load(rows), load(experts)
    lanes, weights = new_ring((TILE, width), x.dtype), new_ring((TILE, blob), blobs.dtype)
    totals = nl.ndarray((TILE, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=totals, value=0.0)
    for tile in range(tiles):
        lane, weight = lanes[tile % RING], weights[tile % RING]
        if gathers:
            source = x.ap(
                pattern=[[width, TILE], [1, width]],
                offset=0,
                vector_offset=names.ap(pattern=[[tiles, TILE], [1, 1]], offset=tile),
                indirect_dim=0,
            )
            nisa.dma_copy(dst=lane, src=source, oob_mode=nisa.oob_mode.skip)
        if loads:
            source = blobs.ap(
                pattern=[[blob, TILE], [1, blob]],
                offset=0,
                scalar_offset=numbers[:, tile : tile + 1],
                indirect_dim=0,
            )
            nisa.dma_copy(dst=weight, src=source, oob_mode=nisa.oob_mode.skip)
        if gathers:
            add_column(totals[:, 0:1], lane[:, width - 1 : width])
        if loads:
            add_column(totals[:, 1:2], weight[:, blob - 1 : blob])
    return stored(totals)


@nki.jit
def load_experts(blobs, experts):
    """Loads the blobs [E, 128, F] that experts [1, loads] names into four slices of one tile.

    Nothing reads a slice before the end. Returns the sums of the first 64 elements of each slice,
    [128, 4].
    """
    numbers = load(experts)
    slots = nl.ndarray((TILE, RING, blobs.shape[2]), dtype=blobs.dtype, buffer=nl.sbuf)
    nisa.memset(dst=slots, value=0)
    for i in range(experts.shape[1]):
        source = blobs.select(0, numbers[:, i : i + 1])
        nisa.dma_copy(dst=slots[:, i % RING, :], src=source, oob_mode=nisa.oob_mode.skip)
    sums = nl.ndarray((TILE, RING), dtype=nl.float32, buffer=nl.sbuf)
    for slot in range(RING):
        nisa.tensor_reduce(
            dst=sums[:, slot : slot + 1], op=nl.add, data=slots[:, slot, 0:64], axis=1
        )
    return stored(sums)


@nki.jit
def stream_weights(x, width, is_hardware):
    """Loads x [K, V] in tiles [128, width], one row of tiles after the other.

    ``is_hardware`` selects hardware DGE, which uses the queues of Sync and ScalarE in turn, instead
    of software DGE. Every program loads all of x. Returns the sum of the first columns for each
    program, [128 x programs, 1].
    """
    ring, total = new_ring((TILE, width), x.dtype), zero_column()
    columns = x.shape[1] // width
    for i in range(x.shape[0] // TILE * columns):
        source = x[part(i // columns, TILE), part(i % columns, width)]
        if is_hardware:
            queue = nisa.engine.sync if i % 2 == 0 else nisa.engine.scalar
            nisa.dma_copy(
                dst=ring[i % RING], src=source, dge_mode=nisa.dge_mode.hwdge, engine=queue
            )
        else:
            nisa.dma_copy(dst=ring[i % RING], src=source)
        use_first_column(total, ring[i % RING])
    out = nl.ndarray((nl.num_programs() * TILE, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[part(nl.program_id(0), TILE)], src=total)
    return out
