"""Stockham FFT of real data in two stages, half the numbers in each: one launch, natural order.

Mathematics.  N = R M, and n = K + R q is an output. The first stage contracts the top digit of t =
j M + m,

    Z[K, m] = sum_j exp(-+2 pi i j K / R) x[j M + m],      Z[R-K, m] = conj Z[K, m],

so slots K <= R/2 suffice. Slots 0 and R/2 are real, and share one slot: K = 0 is its real part and
K = R/2 its imaginary part (for odd R, slot 0 stands alone). The second stage computes two runs of
outputs from a slot, because X[N-n] = conj X[n]:

    X[K + R q]     = sum_m exp(-+2 pi i m (K + R q) / N)        Z[K, m]        q = 0, 1, ...
    X[(R-K) + R q] = sum_m exp(-+2 pi i m ((R-K) + R q) / N) conj Z[K, m]      up to n = N/2

The twiddles are part of the second stage's matrix, of which each slot has its own. Slot 0 computes
the multiples of R/2. Nothing is computed twice. There is no separate step that splits spectra, as
there is where N/2 complex numbers or two rows are transformed in place of one real row.

The inverse, real data from a half spectrum, is the transpose: it goes from runs of a spectrum to
slots, then computes x[j M + m] = sum_K exp(+-2 pi i j K / R) Z[K, m] over all K, which is Z[0, m] +
(-1)^j Z[R/2, m] plus twice the real part of the other slots. The imaginary parts of X[0] and X[N/2]
are ignored.

Layout on the NeuronCore.  As in stockham, transforms lie on partitions, [128, rows, N]. The Tensor
engine transposes a slab, then multiplies it as the stationary operand, which it reads as one
strided run. In the first stage g <= 128 / R slabs, M/g apart, share a product, so that (j, slab) is
a run of stride M/g. In the second stage a product takes one slot, whose (part, m) lie side by side.
Products that fill only half of the array are done in pairs, by two row tiles side by side: slabs of
two rows where R divides 64, and two slots where M = 32.

    HBM [B, N] -> SBUF [128, rows, N] -> [128, rows, slots, 2, M] -> [128, 2, rows, N/2+1] -> HBM

The inverse needs the two runs of a slot as one run. So GpSimdE and ScalarE first lay out its
spectra by slots: slot 0, then (part, q, run) of each other slot. Where transposes mix rows (v2),
bad rows are set aside before the first stage, and ScalarE adds their marks to the results.

Why it is fast.  It has half the matrix products of a complex transform and half its DMA. A stage
reads what the stage before it wrote last; so that it need not wait, the second stage of a block
takes turns with the first stage of the next block, and the phases that prepare a block run among
these steps. Where ScalarE shares PSUM's port with VectorE (v2), ScalarE alone evacuates, as VectorE
sets rows aside.
"""

from __future__ import annotations

from typing import Any

from ..isa import nki, nl
from ..packing import unpack
from ..row_blocks import HbmRows, Rows, blocks_of, row_count, share_rows
from ..row_guard import prepare_guard, transposes_mix_rows
from ..tiles import DMA_RUN, PARTITIONS, load_identity
from .real_stockham_blocks import (
    PHASES,
    Block,
    load_real,
    load_spectra,
    open_real,
    open_ring,
    open_spectra,
    phases_of,
    real_tail,
    spectrum_length,
)
from .real_stockham_stages import (
    Halves,
    Stages,
    forward_halves,
    instructions_of_block,
    inverse_halves,
    load_stages,
    open_staging,
)
from .real_stockham_steps import Pipeline, advance, drain
from .real_stockham_tables import MAX_REAL_RADIX, MAX_SPECTRUM_RADIX, pairs_rows

MAX_LENGTH = MAX_REAL_RADIX * MAX_SPECTRUM_RADIX
_PAIRED = 512  # rows of a program, from which on a partition takes two long rows
_INTERLEAVED = 4096  # numbers of a row, up to which SBUF has room for the stages of two blocks
_FEWEST = 3  # blocks, from which on their stages take turns
_TILES = 3  # tiles into which DMA loads data in turn
_RING = 12544  # numbers a partition of these tiles, at most


class Work(nl.NKIObject):
    """What all rows of a launch share, for one direction."""

    is_inverse: bool  # whether spectra are the input
    source: Any  # HbmRows of each part
    target: Any  # HbmRows of each part
    stages: Stages
    tables: Any  # tables of the stages, in HBM
    identity: Any  # SBUF, see load_identity
    ring: Any  # flat SBUF tiles that DMA writes in turn


@nki.jit
def real_stockham(x, tables, places, radices):  # type: ignore[no-untyped-def]
    """Compute half spectra, frequencies 0 to N/2, of the rows of real ``x``.

    Args:
        x: float32 HBM [B, N].
        tables, places: the two results of ``pack(real_stockham_tables(N, radices, ...))``.
        radices: (R, M) with product N.

    Returns:
        (y_re, y_im), float32 HBM [B, N // 2 + 1].
    """
    batch, n = x.shape
    half = n // 2 + 1
    y_re = nl.ndarray((batch, half), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, half), dtype=nl.float32, buffer=nl.shared_hbm)
    target = [HbmRows(y_re, half), HbmRows(y_im, half)]
    real_stockham_rows(HbmRows(x, n), target, radices, unpack(tables, places))
    return y_re, y_im


def real_stockham_rows(source: Any, target: Any, radices: Any, tables: Any) -> None:
    """Write half spectra of source's rows to the two parts of target, all of them HbmRows.

    Zeros follow rows of fewer than N numbers. tables: those of ``real_stockham_tables``, in HBM.
    The target keeps as many numbers of a spectrum as it has columns.
    """
    transform_rows(False, [source], target, radices, tables)


@nki.jit
def inverse_real_stockham(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Compute real rows from half spectra ``x_re + i x_im``.

    Args:
        x_re, x_im: the half spectra, float32 HBM [B, N // 2 + 1].
        tables, places: the two results of ``pack(inverse_real_stockham_tables(N, radices, ...))``.
        radices: (R, M) with product N.

    Returns:
        y, float32 HBM [B, N].
    """
    batch, half = x_re.shape
    n = radices[0] * radices[1]
    y = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    source = [HbmRows(x_re, half), HbmRows(x_im, half)]
    inverse_real_stockham_rows(source, HbmRows(y, n), radices, unpack(tables, places))
    return y


def inverse_real_stockham_rows(source: Any, target: Any, radices: Any, tables: Any) -> None:
    """Write real rows from half spectra, HbmRows of each part, to HbmRows of up to N columns."""
    transform_rows(True, source, [target], radices, tables)


def transform_rows(is_inverse: bool, source: Any, target: Any, radices: Any, tables: Any) -> None:
    """Transform all rows of this program: a loop on the device, then the remainder."""
    batch = row_count(source[0].tensor)
    most = rows_of_partition(radices, batch)
    share = share_rows(batch, most * PARTITIONS, instructions_of_block(radices, most))
    blocks = blocks_of(None, share.first + share.trips * share.step, share.rest, most)
    if share.trips == 0 and len(blocks) > 0:
        most = blocks[0].each
    if transposes_mix_rows():
        prepare_guard()
    stages = Stages(radices[0], radices[1])
    stages.are_rows_paired = most > 1 and pairs_rows(radices)
    size = ring_size(is_inverse, radices, most)
    ring = open_ring(size, max(1, min(_TILES, _RING // size)))
    identity = load_identity(nl.float32)
    work = Work(is_inverse, source, target, stages, tables, identity, ring)
    if share.trips > 0:
        load_stages(stages, tables, is_inverse, open_staging())

        def body(row):  # type: ignore[no-untyped-def]
            transform_blocks(work, blocks_of(row, 0, share.step, most), True)

        end = share.first + share.trips * share.step
        nl.fori_loop(share.first, end, body, share.step)
    transform_blocks(work, blocks, share.trips > 0)


def transform_blocks(work: Work, blocks: Any, has_tables: bool) -> None:
    """Transform blocks one after the other; the next one is loaded and prepared meanwhile.

    The second stage of a block takes turns with the first stage of the next, if SBUF has room.
    """
    if len(blocks) == 0:
        return
    lines = [
        Pipeline(work.identity, transposes_mix_rows(), [], None),
        Pipeline(work.identity, transposes_mix_rows(), [], None),
    ]
    loaded: Any = []
    load_ahead(work, blocks, loaded, 1)
    for phase in range(PHASES):
        open_block(work, loaded[0], phase)
    if not has_tables:
        # The tables come behind the first block, which is needed first.
        load_stages(work.stages, work.tables, work.is_inverse, open_staging())
    lag = 1 if is_interleaved(work, len(blocks)) else 0
    made: Any = []
    for turn in range(len(blocks) + lag):
        load_ahead(work, blocks, loaded, turn + max(2, len(work.ring)))
        first: Any = []
        second: Any = []
        if turn < len(blocks):
            made.append(halves_of(work, loaded[turn]))
            first = made[turn].first
        if turn >= lag:
            second = made[turn - lag].second
            made[turn - lag] = None
        following = loaded[turn + 1 : turn + 2]
        if lag == 0:
            take_turns(work, lines, first + second, [], following)
        else:
            take_turns(work, lines, first, second, following)
    drain(lines[0])
    drain(lines[1])


def is_interleaved(work: Work, blocks: int) -> bool:
    """Return whether the stages of so many blocks take turns.

    They do where SBUF has room for two blocks, and where there are at least ``_FEWEST`` blocks.
    """
    fits = work.stages.radix * work.stages.left <= _INTERLEAVED
    return bool(fits and blocks >= _FEWEST)


def load_ahead(work: Work, blocks: Any, loaded: Any, count: int) -> None:
    """Load blocks until ``count`` of them are loaded."""
    for index in range(len(loaded), min(count, len(blocks))):
        loaded.append(load_block(work, blocks[index], index, index + 1 < len(blocks)))


def halves_of(work: Work, block: Block) -> Halves:
    """Return the steps of both stages of a block."""
    if work.is_inverse:
        return inverse_halves(work.stages, block, work.target[0])
    return forward_halves(work.stages, block, work.target)


def take_turns(work: Work, lines: Any, first: Any, second: Any, following: Any) -> None:
    """Let steps of a first and a second stage take turns; prepare ``following`` meanwhile."""
    count = max(len(first), len(second))
    if len(first) == 0:
        drain(lines[0])
    for number in range(count):
        # The first stage begins: the second stage then reads results of the turn before.
        low, high = -(-len(first) * number // count), -(-len(first) * (number + 1) // count)
        for step in first[low:high]:
            advance(lines[0], step)
        low, high = len(second) * number // count, len(second) * (number + 1) // count
        for step in second[low:high]:
            advance(lines[1], step)
        for phase in phases_of(number, count):
            for block in following:
                open_block(work, block, phase)


def rows_of_partition(radices: Any, batch: int) -> int:
    """Return how many rows of a batch a partition takes at once, at most.

    Two long rows are for row tiles, where enough blocks remain to overlap.
    """
    is_long = batch // nl.num_programs() >= _PAIRED
    return max(2 if is_long and pairs_rows(radices) else 1, DMA_RUN // (radices[0] * radices[1]))


def ring_size(is_inverse: bool, radices: Any, rows: int) -> int:
    """Return the numbers of a tile of the ring."""
    if is_inverse:
        return 2 * rows * spectrum_length(radices)
    return rows * radices[0] * radices[1] + real_tail(radices)


def load_block(work: Work, rows: Rows, index: int, has_next: bool) -> Block:
    """Load the rows of block ``index``, in natural order."""
    stages = work.stages
    radices = [stages.radix, stages.left]
    tile = work.ring[index % len(work.ring)][0 : rows.partitions]
    if work.is_inverse:
        return load_spectra(tile, work.source, rows, radices)
    # A ring of one tile is needed for the rows to come.
    return load_real(tile, work.source[0], rows, radices, has_next and len(work.ring) == 1)


def open_block(work: Work, block: Block, phase: int) -> None:
    """Run a phase of a block's preparation: finite rows, and spectra by slots."""
    if work.is_inverse:
        open_spectra(block, [work.stages.radix, work.stages.left], phase)
    else:
        open_real(block, phase)
