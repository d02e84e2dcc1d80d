"""Circular convolution of real rows with a filter, by its spectrum: one launch.

Mathematics.  y = F^-1 (F x . H), where H is the half spectrum of the filter, N/2 + 1 numbers. Rows
x may be shorter than N; zeros follow them. Of y, only the first numbers are kept.

Layout on the NeuronCore.  real_stockham's forward stages leave half spectra in SBUF, in the order
of slots that its inverse stages read. Between the two, VectorE multiplies the spectra by H. H lies
in the same order, and is either repeated on all partitions or has a row for each row of x. Only x,
H and y pass through HBM.

    HBM [B, L] -> SBUF -> stages -> half spectra, times H -> stages -> SBUF -> HBM [B, kept]

Three blocks are in progress at any time: one in the forward stages, the block before it in the
product, and the block before that in the inverse stages, so that no stage waits for its own
results. VectorE only multiplies, and ScalarE moves all results out of PSUM. Where transposes mix
rows, bad rows are set aside before the forward stages, and once more before the inverse stages,
because the product may overflow.

Why it is fast.  DMA moves 8 bytes a point instead of the 28 bytes of three launches, and moves
neither the padding nor the cropped outputs. The limit is the Tensor engine, with two real
transforms.
"""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nki, nl
from ..packing import unpack
from ..real.real_stockham import (
    ring_size,
    rows_of_partition,
)
from ..real.real_stockham_blocks import (
    LATER,
    PHASES,
    Block,
    Guard,
    fill_slots,
    flat_tile,
    guard_rows,
    load_real,
    open_ring,
    open_slots,
    phases_of,
    slot_place,
    slots_size,
    slots_tail,
    spectrum_length,
)
from ..real.real_stockham_stages import (
    Stages,
    instructions_of_block,
    inverse_steps,
    load_stages,
    open_staging,
    slots_steps,
)
from ..real.real_stockham_steps import (
    Pipeline,
    advance,
    drain,
)
from ..real.real_stockham_tables import (
    edge_size,
    inverse_real_stockham_specs,
    inverse_real_stockham_tables,
    own_outputs,
    pairs_rows,
    real_stockham_specs,
    real_stockham_tables,
    run_length,
    slot_count,
)
from ..row_blocks import HbmRows, Rows, blocks_of, load_rows, share_rows
from ..tiles import PARTITIONS, load_identity, multiply_complex

MAX_LENGTH = 5120
_LONG = 4096  # numbers of a partition's rows, from which a ring has one tile
_CHUNK = 1024  # numbers a partition that are multiplied at a time


def convolution_tables(n: int, radices: tuple[int, int]) -> tuple[Any, ...]:
    """Return the tables of ``convolve_rows``, float32.

    They are real_stockham's tables, then its inverse's, which contain 1/N.

    Args:
        n: length of the convolution, up to 5120.
        radices: two radices with product n, the first up to 128, the second up to 64.

    Returns:
        A tuple of float32 arrays.

    Raises:
        ValueError: the radices do not multiply to n, or n or a radix is too large.
    """
    if n > MAX_LENGTH:
        raise ValueError(f"n = {n}: convolutions in SBUF accept lengths up to {MAX_LENGTH}")
    forward = real_stockham_tables(n, radices)
    return *forward, *inverse_real_stockham_tables(n, radices, True, 1.0 / n)


def convolution_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``convolution_tables(n, radices)``."""
    return *real_stockham_specs(radices), *inverse_real_stockham_specs(radices)


class Filter(nl.NKIObject):
    """Half spectra of the filter, in the order of slots."""

    tile: Any  # flat SBUF [P, ...]
    # numbers from one row's filter to the next on a partition; 0 where all rows have the same
    # filter
    pitch: int


class Convolution(nl.NKIObject):
    """What all blocks of a launch share."""

    source: HbmRows
    target: HbmRows
    filters: Any  # HbmRows of the real and the imaginary part of H
    forward: Stages
    inverse: Stages
    # the filter in natural order, [SBUF [128, 1, part, ...]], if all rows have the same; else []
    loaded: Any
    # [Filter] once the filter is in the order of slots, if all rows have the same; else []
    spectrum: Any
    identity: Any  # SBUF, see load_identity
    ring: Any  # flat SBUF tiles that DMA writes in turn


@nki.jit
def convolve_rows(x, h_re, h_im, tables, places, radices, kept):  # type: ignore[no-untyped-def]
    """Convolve every row of real ``x`` with a filter, circularly in N points.

    Args:
        x: float32 HBM [B, L] with L <= N; zeros follow.
        h_re, h_im: the half spectrum of the filter, float32 HBM [1, N // 2 + 1] for all rows or
            [B, N // 2 + 1].
        tables, places: the two results of ``pack(convolution_tables(N, radices))``.
        radices: two radices with product N.
        kept: how many of the N results are returned, from the first on.

    Returns:
        y, float32 HBM [B, kept].
    """
    batch, held = x.shape
    half = radices[0] * radices[1] // 2 + 1
    y = nl.ndarray((batch, kept), dtype=nl.float32, buffer=nl.shared_hbm)
    work = Convolution(
        HbmRows(x, held),
        HbmRows(y, kept),
        [HbmRows(h_re, half), HbmRows(h_im, half)],
        Stages(radices[0], radices[1]),
        Stages(radices[0], radices[1]),
        [],
        [],
        None,
        [],
    )
    convolve_share(work, unpack(tables, places))
    return y


def convolve_share(work: Convolution, tables: Any) -> None:
    """Convolve all rows of this program: a loop on the device, then the remainder."""
    radices = [work.forward.radix, work.forward.left]
    batch = work.source.tensor.shape[0]
    most = rows_of_partition(radices, batch)
    # Both transforms, and a few instructions for each row's products.
    instructions = 2 * instructions_of_block(radices, most) + 8 * slot_count(radices[0])
    share = share_rows(batch, most * PARTITIONS, instructions)
    blocks = blocks_of(None, share.first + share.trips * share.step, share.rest, most)
    if share.trips == 0 and len(blocks) > 0:
        most = blocks[0].each
    work.forward.are_rows_paired = work.inverse.are_rows_paired = most > 1 and pairs_rows(radices)
    work.identity = load_identity(nl.float32)
    size = ring_size(False, radices, most)
    # Beside a filter for each row, DMA may write only one tile of long rows.
    is_alone = work.filters[0].tensor.shape[0] > 1 and size >= _LONG
    work.ring = open_ring(size, 1 if is_alone or size > _LONG else 2)
    if share.trips > 0:
        staging = open_staging()
        load_ahead(work, tables, staging)
        load_rest(work, tables, staging)

        def body(row):  # type: ignore[no-untyped-def]
            convolve_blocks(work, blocks_of(row, 0, share.step, most), [])

        end = share.first + share.trips * share.step
        nl.fori_loop(share.first, end, body, share.step)
        convolve_blocks(work, blocks, [])
    else:
        convolve_blocks(work, blocks, tables)


def load_ahead(work: Convolution, tables: Any, staging: Any) -> None:
    """Load what is needed first: the forward stages' tables, and H if all rows have the same."""
    load_stages(work.forward, tables[0 : len(tables) // 2], False, staging)
    if work.filters[0].tensor.shape[0] == 1:
        work.loaded.append(load_filter(work, Rows(None, 0, PARTITIONS, 1)))


def load_rest(work: Convolution, tables: Any, staging: Any) -> None:
    """After ``load_ahead``, load the inverse stages' tables and bring H into the order of slots."""
    load_stages(work.inverse, tables[len(tables) // 2 :], True, staging)
    for loaded in work.loaded:
        work.spectrum.append(open_filter(work, loaded))


def load_filter(work: Convolution, rows: Rows) -> Any:
    """Load H for these rows, or the one H of all rows, as SBUF [P, rows, part, ...]."""
    length = spectrum_length([work.forward.radix, work.forward.left])
    half = work.filters[0].columns
    shape = (rows.partitions, 2, rows.each, length)
    loaded = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    is_shared = work.filters[0].tensor.shape[0] == 1
    for part in range(2):
        h = work.filters[part].tensor
        if not is_shared:
            load_rows(loaded[:, part], h, rows, half)
        else:
            if half < length:
                nisa.memset(dst=loaded[:, part, :, half:length], value=0.0)
            repeated = h.ap([[0, rows.partitions], [1, half]]).expand_dim(1)
            nisa.dma_copy(dst=loaded[:, part, :, 0:half], src=repeated)
    return loaded.permute((0, 2, 1, 3))


def open_filter(work: Convolution, loaded: Any) -> Filter:
    """Bring H, as ``load_filter`` returned it, into the order of slots."""
    radices = [work.forward.radix, work.forward.left]
    tile = open_slots(loaded, radices)
    fill_slots(tile, loaded, radices, range(1, slot_count(radices[0])))
    return Filter(tile, 0 if work.filters[0].tensor.shape[0] == 1 else slots_size(radices))


def convolve_blocks(work: Convolution, blocks: Any, tables: Any) -> None:
    """Convolve blocks one after the other; three blocks are in progress at any time.

    tables: tables in HBM that are to be loaded behind the first block, or an empty list.
    """
    if len(blocks) == 0:
        return
    ahead = load_next(work, blocks, 0)
    open_now(ahead)
    staging = open_staging() if len(tables) > 0 else []
    if len(tables) > 0:
        load_ahead(work, tables, staging)
    multiplied: Any = []
    waiting: Any = []
    is_early = len(work.ring) > 1
    for index in range(len(blocks) + 2):
        following = load_next(work, blocks, index + 1) if is_early else []
        products = open_products(work, ahead)
        forward: Any = []
        inverse: Any = []
        for number in range(len(ahead)):
            forward = slots_steps(work.forward, ahead[number], products[number].tile)
        for block in waiting:
            inverse = inverse_steps(work.inverse, block, work.target)
        transform_both(work, forward, inverse, following, multiplied)
        if index == 0 and len(tables) > 0:
            # These loads follow the first results of the forward stages.
            load_rest(work, tables, staging)
        if not is_early:
            following = load_next(work, blocks, index + 1)
            open_now(following)
        for block in products:
            multiply_spectra(work, block, filter_of(work, block.rows))
        waiting = multiplied
        multiplied = products
        ahead = following


def load_next(work: Convolution, blocks: Any, index: int) -> Any:
    """Return [the block of this index], loaded, or [] after the last block."""
    if index >= len(blocks):
        return []
    rows = blocks[index]
    radices = [work.forward.radix, work.forward.left]
    tile = work.ring[index % len(work.ring)][0 : rows.partitions]
    return [load_real(tile, work.source, rows, radices, False)]


def open_now(blocks: Any) -> None:
    """Set bad rows of blocks aside at once, rather than among steps of other blocks."""
    for block in blocks:
        for phase in range(PHASES):
            guard_rows(block.guard, phase)


def open_products(work: Convolution, ahead: Any) -> Any:
    """Return a block for each of ``ahead`` that will hold its spectra by slots, then products."""
    radices = [work.inverse.radix, work.inverse.left]
    size = slots_size(radices)
    products = []
    for block in ahead:
        rows = block.rows
        tile = flat_tile(rows.partitions, rows.each * size, slots_tail(radices))
        x = tile[:, 0 : rows.each * size].reshape_dim(1, (rows.each, size))
        guard = Guard(x, 2 * radices[0] * radices[1], None, [])
        products.append(Block(rows, [], tile, guard))
    return products


def transform_both(
    work: Convolution, forward: Any, inverse: Any, following: Any, multiplied: Any
) -> None:
    """Let the forward steps of one block take turns with the inverse steps of another block.

    Among these steps, bad rows are set aside in the following block and, later, in the products.
    """
    count = max(len(forward), len(inverse))
    if count == 0:
        open_now(multiplied)
    made = Pipeline(work.identity, True, [], None)
    taken = Pipeline(work.identity, True, [], None)
    for number in range(count):
        if number < len(forward):
            advance(made, forward[number])
        if number < len(inverse):
            advance(taken, inverse[number])
        for phase in phases_of(number, count):
            for block in following:
                guard_rows(block.guard, phase)
            for block in multiplied:
                # Until then VectorE computes the products.
                guard_rows(block.guard, phase - LATER)
    drain(made)
    drain(taken)


def filter_of(work: Convolution, rows: Rows) -> Filter:
    """Return H for these rows."""
    if len(work.spectrum) > 0:
        return work.spectrum[0]
    return open_filter(work, load_filter(work, rows))


def multiply_spectra(work: Convolution, block: Block, h: Filter) -> None:
    """Multiply spectra, in the order of slots, by H in place, on VectorE."""
    radices = [work.inverse.radix, work.inverse.left]
    x = block.guard.x
    own = own_outputs(radices)
    edge = edge_size(radices)
    pairs = (edge - own) // 2
    if pairs > 0:
        multiply_slots(x, h, 0, 1, pairs)
    real = x[:, :, edge - own : edge]
    factors = factors_of(h, x, edge - own, [[1, own]])
    nisa.tensor_tensor(dst=real, data1=real, data2=factors, op=nl.multiply)
    slots, run = slot_count(radices[0]), run_length(radices[1])
    step = max(1, _CHUNK // (4 * run * x.shape[1]))
    for first in range(1, slots, step):
        count = min(step, slots - first)
        multiply_slots(x, h, slot_place(radices, first), count, 2 * run)


def multiply_slots(x: Any, h: Any, low: int, slots: int, length: int) -> None:
    """Multiply some slots of ``length`` complex numbers, from ``low`` on, by those of H."""
    data = x[:, :, low : low + slots * 2 * length].reshape_dim(2, (slots, 2, length))
    data = data.permute((0, 3, 1, 2, 4))
    pattern = [[2 * length, slots], [1, length]]
    real = factors_of(h, x, low, [[0, 2]] + pattern)
    imaginary = factors_of(h, x, low + length, [[0, 2]] + pattern)
    multiply_complex(data, data, [real, imaginary])


def factors_of(h: Filter, x: Any, low: int, pattern: Any) -> Any:
    """Return a view of H, from number ``low`` of each row on, for all rows of x [P, rows, L].

    pattern: the other dimensions; a first dimension of stride 0 is placed before the rows.
    """
    whole = [[h.tile.shape[1], x.shape[0]]]
    rows = [[h.pitch, x.shape[1]]]
    if pattern[0][0] == 0:
        return h.tile.ap(whole + pattern[0:1] + rows + pattern[1:], low)
    return h.tile.ap(whole + rows + pattern, low)
