"""Stockham FFT of real data in two stages, half the numbers in each: one launch, natural order.

Mathematics.  N = R M, and n = K + R q is an output. The first stage contracts the top digit of
t = j M + m,

    Z[K, m] = sum_j exp(-+2 pi i j K / R) x[j M + m],      Z[R-K, m] = conj Z[K, m],

so slots K <= R/2 suffice, of which 0 and R/2 are real: they share one, K = 0 as its real part and
K = R/2 as its imaginary part (odd R has slot 0 for itself). The second stage makes two runs of
outputs of a slot, as X[N-n] = conj X[n]:

    X[K + R q]     = sum_m exp(-+2 pi i m (K + R q) / N)        Z[K, m]        q = 0, 1, ...
    X[(R-K) + R q] = sum_m exp(-+2 pi i m ((R-K) + R q) / N) conj Z[K, m]      up to n = N/2

The twiddles are part of that matrix, one a slot. Slot 0 makes the multiples of R/2. Nothing is
computed twice and there is no separate step that splits spectra, as there is where N/2 complex
numbers or two rows are transformed in place of one real row.

The inverse, real data from a half spectrum, is the transpose: runs of a spectrum to slots, then
x[j M + m] = sum_K exp(+-2 pi i j K / R) Z[K, m] over all K, which is Z[0, m] + (-1)^j Z[R/2, m]
plus twice the real part of the others. Imaginary parts of X[0] and X[N/2] are ignored.

Layout on the NeuronCore.  As in stockham: transforms lie on partitions, [128, rows, N], and the
Tensor engine transposes a slab, then multiplies it as the stationary operand, which it reads as one
strided run. In the first stage g <= 128 / R slabs M/g apart share a product, so that (j, slab) is
a run of stride M/g; in the second a product takes one slot, whose (part, m) lie side by side.

    HBM [B, N] -> SBUF [128, rows, N] -> [128, rows, slots, 2, M] -> [128, 2, rows, N/2+1] -> HBM

The inverse needs the two runs of a slot in one. So its spectra are first laid out by slots, slot 0,
then (part, q, run) of each of the others, by GpSimdE and ScalarE. Where transposes mix rows (v2),
bad ones are set aside before the first stage, and ScalarE adds their marks to results.

Why it is fast.  It has half the matrix products of a complex transform and half its DMA. What comes
before the first stage of a block is done in phases, among the steps of the block before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..row_blocks import HbmRows, Rows, blocks_of, load_rows, share_rows, store_rows
from ..row_guard import (
    advance_guard,
    begin_guard,
    marks_of,
    transposes_mix_rows,
)
from ..tiles import (
    DMA_RUN,
    NARROW,
    PARTITIONS,
    PSUM_BANK,
    evacuate,
    load_identity,
    load_tables,
    multiply,
    padded_columns,
    transpose,
)
from .dft_gemm import table_spec

MAX_REAL_RADIX = 128
MAX_SPECTRUM_RADIX = 64
MAX_LENGTH = MAX_REAL_RADIX * MAX_SPECTRUM_RADIX
_GROUP = 4  # products whose results share a PSUM bank, at most
_SLOTS = 8  # of which a DMA brings tables at a time
_STAGING = 3  # tiles for them
_RING = 8192  # numbers a partition of the tiles that DMA writes data into, at most

# Phases of what comes before the first stage of a block, and at which of them what begins.
PHASES = 16
LATER = 8  # phases after those of others, where something has to come first
_SQUARES_PHASE = 0
_VERDICT_PHASE = 4
_SLOTS_PHASE = 7
_SLOTS_PIECES = 6

# How results of several products lie in a PSUM bank.
BY_PRODUCT = 0  # one product after the other
BY_COLUMN = 1  # interleaved: next to each other are those of the same column
MIRRORED = 2  # interleaved, those of the second run the other way round
EDGE = 3  # one product, its columns for one result after the other


def slot_count(radix: int) -> int:
    """Complex numbers that hold the spectrum of ``radix`` real ones, Nyquist beside DC."""
    return (radix + 1) // 2


def slabs_together(radix: int, left: int) -> int:
    """Slabs g that one product of the real stage takes: 2 g slots <= 128, and g divides M."""
    best = 1
    for g in range(2, PARTITIONS // (2 * slot_count(radix)) + 1):
        if left % g == 0:
            best = g
    return best


def run_length(left: int) -> int:
    """Numbers q of the longer run of a slot: n = K + R q, n <= N/2."""
    return (left + 1) // 2


def multiples(radix: int, left: int) -> tuple[int, int]:
    """Step and count of those n <= N/2 that slot 0 makes: multiples of R/2, or of an odd R."""
    step = radix // 2 if radix % 2 == 0 else radix
    return step, radix * left // 2 // step + 1


def edge_size(radices: Any) -> int:
    """Real numbers of slot 0's outputs: two of each, but one of X[0] and of X[N/2]."""
    radix, left = radices
    return 2 * multiples(radix, left)[1] - own_outputs(radices)


def own_outputs(radices: Any) -> int:
    """Outputs of slot 0 that are real: X[0], and of even N X[N/2]."""
    return 2 - radices[0] * radices[1] % 2


def real_stockham_tables(
    n: int, radices: tuple[int, int], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """The tables of ``real_stockham``, float32: (real stage, slot 0, slots 1, 2, ...).

    Shapes: [g R, 2 slots g], rows (j, slab), columns (slot, part, slab); [2 M, 2 E], rows (part,
    m), columns (part, multiple) of complex outputs, then of real ones; [2 M, slots - 1, 4 Q], rows
    (part, m), columns (part, q, run), which is missing if there is one slot. inverse: the sign of
    the exponent, True for exp(+...). Raises ValueError where the radices do not multiply to n, or
    one is too large.
    """
    _check(n, radices)
    radix, left = radices
    sign = 2j * np.pi / n * (1 if inverse else -1)
    g, slots = slabs_together(radix, left), slot_count(radix)
    real = np.zeros((radix, slots, 2))
    for slot in range(slots):
        w = np.exp(sign * left * (np.arange(radix) * slot % radix))
        real[:, slot, 0], real[:, slot, 1] = w.real, w.imag
    real[:, 0, 1] = (-1.0) ** np.arange(radix) if radix % 2 == 0 else 0
    opening = np.einsum("jkp,st->jskpt", real, np.eye(g)).reshape(g * radix, -1)
    m = np.arange(left)[:, None]
    step, count = multiples(radix, left)
    w = scale * np.exp(sign * (m * (step * np.arange(count)) % n))
    edge = np.stack([w, w])
    if radix % 2 == 0:
        edge[0, :, 1::2] = edge[1, :, 0::2] = 0
    else:
        edge[1] = 0
    own = _are_real(n, step * np.arange(count))
    outputs = _split(edge)
    columns = [outputs[:, :, part, mine] for mine in (~own, own) for part in range(2)]
    # The scale comes last: rows are judged by what the stages make of them without it.
    pairs = [scale * _pair(n, radix, left, slot, sign) for slot in range(1, slots)]
    return (
        opening.astype(np.float32),
        np.concatenate(columns, 2).reshape(2 * left, -1).astype(np.float32),
        *_stacked(pairs),
    )


def inverse_real_stockham_tables(
    n: int, radices: tuple[int, int], inverse: bool = True, scale: float = 1.0
) -> tuple[Any, ...]:
    """The tables of ``inverse_real_stockham``, float32: (real stage, slot 0, slots 1, 2, ...).

    Shapes: [2 slots g, g R], rows (slot, part, slab), columns (j, slab); [edge_size, 2 M], rows
    (part, multiple) of complex outputs, then real ones, columns (part, m); [4 Q, slots - 1, 2 M],
    rows (part, q, run), columns (part, m), which is missing if there is one slot. Otherwise as
    ``real_stockham_tables``.
    """
    _check(n, radices)
    radix, left = radices
    sign = 2j * np.pi / n * (1 if inverse else -1)
    g, slots = slabs_together(radix, left), slot_count(radix)
    step, count = multiples(radix, left)
    numbers = step * np.arange(count)
    w = np.exp(sign * (numbers[:, None] * np.arange(left) % n)) * 2
    own = _are_real(n, numbers)
    w[own] = w[own].real / 2
    edge = np.zeros((count, 2, 2, left))
    for part in range(2 - radix % 2):
        mine = slice(part, None, 2) if radix % 2 == 0 else slice(None)
        edge[mine, 0, part], edge[mine, 1, part] = w.real[mine], -w.imag[mine]
    rows = np.concatenate([edge[~own, 0], edge[~own, 1], edge[own, 0]])
    # The transpose of the forward stage with the other sign, which conjugates.
    pairs = [_pair(n, radix, left, slot, -sign).T for slot in range(1, slots)]
    j = np.arange(radix)
    real = np.zeros((slots, 2, radix))
    for slot in range(slots):
        w = (1 if slot == 0 else 2) * np.exp(sign * left * (j * slot % radix))
        real[slot, 0], real[slot, 1] = w.real, -w.imag
    real[0, 1] = (-1.0) ** j if radix % 2 == 0 else 0
    closing = np.einsum("kpj,st->kpsjt", scale * real, np.eye(g)).reshape(2 * slots * g, -1)
    return (
        closing.astype(np.float32),
        rows.reshape(-1, 2 * left).astype(np.float32),
        *_stacked(pairs),
    )


def real_stockham_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``real_stockham_tables(n, radices, ...)``."""
    radix, left = radices
    g, slots = slabs_together(radix, left), slot_count(radix)
    opening = table_spec((g * radix, 2 * slots * g))
    pairs = table_spec((2 * left, slots - 1, 4 * run_length(left)))
    edge = table_spec((2 * left, 2 * multiples(radix, left)[1]))
    return (opening, edge, pairs) if slots > 1 else (opening, edge)


def inverse_real_stockham_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``inverse_real_stockham_tables(n, radices, ...)``."""
    radix, left = radices
    g, slots = slabs_together(radix, left), slot_count(radix)
    edge = table_spec((edge_size(radices), 2 * left))
    pairs = table_spec((4 * run_length(left), slots - 1, 2 * left))
    closing = table_spec((2 * slots * g, g * radix))
    return (closing, edge, pairs) if slots > 1 else (closing, edge)


def _check(n: int, radices: tuple[int, int]) -> None:
    if len(radices) != 2 or radices[0] * radices[1] != n:
        raise ValueError(f"radices {radices}: must be two with the product n = {n}")
    limits = MAX_REAL_RADIX, MAX_SPECTRUM_RADIX
    if any(not 2 <= r <= limit for r, limit in zip(radices, limits, strict=True)):
        raise ValueError(f"radices {radices}: the first must be 2 to 128, the second 2 to 64")


def _pair(n: int, radix: int, left: int, slot: int, sign: complex) -> np.ndarray[Any, Any]:
    """Rows (part, m), columns (part, q, run): the two runs of outputs of a slot; [2 M, 4 Q]."""
    starts = np.array([slot, radix - slot])
    outputs = starts + radix * np.arange(run_length(left))[:, None]  # [q, run]
    w = np.exp(sign * (np.arange(left)[:, None, None] * outputs % n))
    w[:, 2 * outputs > n] = 0
    return _split(np.stack([w, w * np.array([1j, -1j])])).reshape(2 * left, -1)


def _are_real(n: int, outputs: np.ndarray[Any, Any]) -> Any:
    """Which outputs of real data are real."""
    return (outputs == 0) | (2 * outputs == n)


def _stacked(pairs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The tables of slots 1, 2, ... as one, float32, or none."""
    return [np.stack(pairs, 1).astype(np.float32)] if pairs else []


def _split(w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Complex [part, m, ...], where part 1 has its factor i, as reals [part, m, part', ...]."""
    return np.stack([w.real, w.imag], 2)


class Stages(nl.NKIObject):
    """Both stages, with their tables in SBUF."""

    radix: int  # R of the stage on real numbers
    left: int  # M of the stage on spectra
    real: Any  # table of the stage on real numbers
    edge: Any  # table of slot 0
    slots: Any  # tiles with tables of slots 1, 2, ..., so many in each


class Step(nl.NKIObject):
    """Products whose results share a PSUM bank."""

    data: Any  # strided runs of SBUF [P, K or more], one a product, which are transposed
    tables: Any  # SBUF [K, columns], one a product
    order: int  # of results in the bank: one of those above
    results: Any  # SBUF views that take them
    marks: Any  # added to them: [SBUF [P, 1]] of rows that may be set aside, or []
    is_dependent: bool  # whether it reads what the step before writes
    stores: Any  # stores that may begin after it


class Store(nl.NKIObject):
    """Results on their way to HBM."""

    target: HbmRows
    tile: Any  # SBUF [P, rows, N or more]
    rows: Rows


class Pipeline(nl.NKIObject):
    """Steps one after the other: transposes of one, then products of the one before."""

    identity: Any  # of load_identity
    is_scalar: bool  # whether ScalarE takes transposes from PSUM, instead of VectorE
    waiting: Any  # [the step whose products are still to do], or []
    moved: Any  # its data, transposed, SBUF [K or more, products, P or more]


class Work(nl.NKIObject):
    """One direction, for all rows of a launch."""

    is_inverse: bool  # whether spectra come in
    source: Any  # HbmRows of each part
    target: Any  # HbmRows of each part
    stages: Stages
    tables: Any  # of the stages, in HBM
    identity: Any  # of load_identity
    ring: Any  # flat SBUF tiles that DMA writes, by turns


class Guard(nl.NKIObject):
    """Rows that a chip's transposes would mix, on the way to be set aside."""

    x: Any  # SBUF [P, rows, ...]
    growth: float  # as of set_rows_aside
    steps: Any  # of begin_guard
    marks: Any  # [SBUF [P, rows]], or [] where transposes are exact


class Block(nl.NKIObject):
    """Rows on their way through SBUF."""

    rows: Rows
    loaded: Any  # [what DMA writes, to be copied], or []
    tile: Any  # flat SBUF [P, ...] that the first stage reads
    guard: Guard


@nki.jit
def real_stockham(x, tables, places, radices):  # type: ignore[no-untyped-def]
    """Spectra of the rows of real ``x``: n = 0 .. N/2.

    x: float32 HBM [B, N]. tables, places: ``pack(real_stockham_tables(N, radices, ...))``. Returns
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
    """Half spectra of HbmRows of up to N numbers, zeros after them, into HbmRows of each part.

    tables: those of ``real_stockham_tables``, in HBM. Of a spectrum the target takes its columns.
    """
    transform_rows(False, [source], target, radices, tables)


@nki.jit
def inverse_real_stockham(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Real rows of half spectra ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N // 2 + 1]. tables, places: ``pack(inverse_real_stockham_tables(N,
    radices, ...))``. Returns y, float32 HBM [B, N].
    """
    batch, half = x_re.shape
    n = radices[0] * radices[1]
    y = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    source = [HbmRows(x_re, half), HbmRows(x_im, half)]
    inverse_real_stockham_rows(source, HbmRows(y, n), radices, unpack(tables, places))
    return y


def inverse_real_stockham_rows(source: Any, target: Any, radices: Any, tables: Any) -> None:
    """Real rows of half spectra, HbmRows of each part, into HbmRows of up to N columns."""
    transform_rows(True, source, [target], radices, tables)


def transform_rows(is_inverse: bool, source: Any, target: Any, radices: Any, tables: Any) -> None:
    """All rows of this program: a loop on the device, and what it leaves."""
    batch = source[0].tensor.shape[0]
    most = rows_of_partition(radices)
    share = share_rows(batch, most * PARTITIONS, instructions_of_block(radices, most))
    blocks = blocks_of(None, share.first + share.trips * share.step, share.rest, most)
    if share.trips == 0 and len(blocks) > 0:
        most = blocks[0].each
    stages = Stages(radices[0], radices[1], None, [])
    ring = open_ring(ring_size(is_inverse, radices, most))
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
    """Blocks one after the other; the next one is loaded and opened among the steps of one."""
    if len(blocks) == 0:
        return
    pipeline = Pipeline(work.identity, False, [], None)
    block = load_block(work, blocks[0], 0, len(blocks) > 1)
    for phase in range(PHASES):
        open_block(work, block, phase)
    if not has_tables:
        # Behind the first block, which is needed first.
        load_stages(work.stages, work.tables, work.is_inverse, open_staging())
    for index in range(len(blocks)):
        following = []
        if index + 1 < len(blocks):
            has_next = index + 2 < len(blocks)
            following.append(load_block(work, blocks[index + 1], index + 1, has_next))
        if work.is_inverse:
            steps = inverse_steps(work.stages, block, work.target[0])
        else:
            steps = forward_steps(work.stages, block, work.target)
        for number in range(len(steps)):
            advance(pipeline, steps[number])
            for phase in phases_of(number, len(steps)):
                for each in following:
                    open_block(work, each, phase)
        for each in following:
            block = each
    drain(pipeline)


def phases_of(number: int, steps: int) -> Any:
    """The phases of opening that go with a step of so many."""
    return range(PHASES * number // steps, PHASES * (number + 1) // steps)


def rows_of_partition(radices: Any) -> int:
    """The most rows that a partition takes at once."""
    return max(1, DMA_RUN // (radices[0] * radices[1]))


def instructions_of_block(radices: Any, rows: int) -> int:
    """A block of so many rows a partition takes at most so many instructions."""
    radix, left = radices
    slots = slot_count(radix)
    products = left // slabs_together(radix, left)
    steps = -(-products // _GROUP) + -(-slots // slots_together(left)) + 1
    return (2 * _GROUP + 3) * steps * rows + slots + 8 * rows + 20


def slots_together(left: int) -> int:
    """Slots whose results share a PSUM bank."""
    return min(_GROUP, PSUM_BANK // (4 * run_length(left)))


def open_staging() -> Any:
    """Tiles that DMA writes tables of slots into, by turns."""
    tiles = []
    for _ in range(_STAGING):
        shape = (PARTITIONS, _SLOTS * PARTITIONS)
        tiles.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    return tiles


def load_stages(stages: Stages, tables: Any, is_inverse: bool, staging: Any) -> None:
    """Bring tables of HBM into SBUF, in the order in which they are needed."""
    first = [tables[1]] if is_inverse else [tables[1], tables[0]]
    loaded = load_tables(first)
    stages.edge = loaded[0]
    for table in tables[2:]:
        stages.slots = load_slots(table, staging)
    stages.real = load_tables([tables[0]])[0] if is_inverse else loaded[1]


def load_slots(table: Any, staging: Any) -> Any:
    """Tables of slots 1, 2, ... in SBUF, by way of ``staging``: tiles of so many slots."""
    depth, count, width = table.shape
    tiles = []
    for first in range(0, count, _SLOTS):
        last = min(first + _SLOTS, count)
        staged = staging[first // _SLOTS % len(staging)][0:depth, 0 : (last - first) * width]
        staged = staged.reshape_dim(1, (last - first, width))
        nisa.dma_copy(dst=staged, src=table[:, first:last], dge_mode=nisa.dge_mode.none)
        tile = nl.ndarray((depth, last - first, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=staged, engine=nisa.engine.gpsimd)
        tiles.append(tile)
    return tiles


def table_of_slot(stages: Stages, slot: int) -> Any:
    """The table [K, columns] of a slot from 1 on."""
    return stages.slots[(slot - 1) // _SLOTS][:, (slot - 1) % _SLOTS]


def numbers_read(count: int) -> int:
    """Numbers that a transpose takes where ``count`` are meant: v2 refuses few."""
    return count if count > NARROW else NARROW + 1


def tail_of(count: int, step: int) -> int:
    """Numbers behind a tile whose last run of ``count``, one every ``step``, is transposed."""
    return (numbers_read(count) - count) * step


def run_of(tile: Any, start: int, count: int, step: int) -> Any:
    """``count`` numbers or more of flat SBUF [P, L], one every ``step``."""
    return tile[:, start : start + (numbers_read(count) - 1) * step + 1 : step]


def flat_tile(partitions: int, size: int, tail: int) -> Any:
    """SBUF [partitions, size + tail], with zeros in its tail."""
    tile = nl.ndarray((partitions, size + tail), dtype=nl.float32, buffer=nl.sbuf)
    if tail > 0:
        nisa.memset(dst=tile[:, size : size + tail], value=0.0, engine=nisa.engine.gpsimd)
    return tile


def spectrum_length(radices: Any) -> int:
    """Numbers of a part of a spectrum in natural order, as whole runs of R of them."""
    radix, left = radices
    return max(radix * left // 2 + 1, run_length(left) * radix)


def slots_size(radices: Any) -> int:
    """Numbers of a spectrum by slots: slot 0, then (part, q, run) of each of the others."""
    return slot_place(radices, slot_count(radices[0]))


def slots_tail(radices: Any) -> int:
    """The tail of spectra by slots."""
    return max(tail_of(edge_size(radices), 1), tail_of(4 * run_length(radices[1]), 1))


def slot_place(radices: Any, slot: int) -> int:
    """Where a slot begins in a spectrum by slots."""
    if slot == 0:
        return 0
    return edge_size(radices) + (slot - 1) * 4 * run_length(radices[1])


def state_size(radices: Any) -> int:
    """Numbers of a row between the stages: slots by parts by M."""
    return 2 * slot_count(radices[0]) * radices[1]


def real_tail(radices: Any) -> int:
    """The tail of real data, which the forward stage takes slabs of."""
    together = slabs_together(radices[0], radices[1])
    return tail_of(together * radices[0], radices[1] // together)


def open_ring(size: int) -> Any:
    """Tiles of so many numbers that DMA writes by turns: two, or one for long rows."""
    tiles = []
    for _ in range(max(1, min(2, _RING // size))):
        tiles.append(nl.ndarray((PARTITIONS, size), dtype=nl.float32, buffer=nl.sbuf))
    return tiles


def ring_size(is_inverse: bool, radices: Any, rows: int) -> int:
    """Numbers of a tile of the ring."""
    if is_inverse:
        return 2 * rows * spectrum_length(radices)
    return rows * radices[0] * radices[1] + real_tail(radices)


def load_block(work: Work, rows: Rows, index: int, has_next: bool) -> Block:
    """Load the rows of the block of this index, in natural order."""
    stages = work.stages
    radices = [stages.radix, stages.left]
    tile = work.ring[index % len(work.ring)][0 : rows.partitions]
    if work.is_inverse:
        return load_spectra(tile, work.source, rows, radices)
    # A ring of one tile is needed for the rows to come.
    return load_real(tile, work.source[0], rows, radices, has_next and len(work.ring) == 1)


def load_real(tile: Any, source: Any, rows: Rows, radices: Any, is_copied: bool) -> Block:
    """Load real rows into a flat tile; is_copied: they will be opened in another one."""
    n = radices[0] * radices[1]
    size, tail = rows.each * n, real_tail(radices)
    opened = tile
    if is_copied:
        opened = flat_tile(rows.partitions, size, tail)
    elif tail > 0:
        nisa.memset(dst=tile[:, size : size + tail], value=0.0, engine=nisa.engine.gpsimd)
    load_rows(tile[:, 0:size].reshape_dim(1, (rows.each, n)), source.tensor, rows, source.columns)
    x = opened[:, 0:size].reshape_dim(1, (rows.each, n))
    loaded = [tile[:, 0:size]] if is_copied else []
    return Block(rows, loaded, opened, Guard(x, n, None, []))


def load_spectra(tile: Any, source: Any, rows: Rows, radices: Any) -> Block:
    """Load half spectra into a flat tile, part by part."""
    length = spectrum_length(radices)
    data = tile[:, 0 : 2 * rows.each * length].reshape_dim(1, (2, rows.each, length))
    for part in range(2):
        load_rows(data[:, part], source[part].tensor, rows, source[part].columns)
    x = data.permute((0, 2, 1, 3))
    return Block(rows, [x], None, Guard(x, 2 * radices[0] * radices[1], None, []))


def open_block(work: Work, block: Block, phase: int) -> None:
    """A phase of what comes before the first stage: finite rows, spectra by slots."""
    if not work.is_inverse:
        open_real(block, phase)
        return
    guard_rows(block.guard, phase)
    radices = [work.stages.radix, work.stages.left]
    piece = phase - (_SLOTS_PHASE if transposes_mix_rows() else _SLOTS_PHASE - 1)
    if piece == 0:
        block.tile = open_slots(block.loaded[0], radices)
    if 0 <= piece < _SLOTS_PIECES:
        count = slot_count(radices[0]) - 1
        last = 1 + count * (piece + 1) // _SLOTS_PIECES
        slots = range(1 + count * piece // _SLOTS_PIECES, last)
        fill_slots(block.tile, block.loaded[0], radices, slots)


def open_real(block: Block, phase: int) -> None:
    """A phase of finite rows; if they are copied, when there is room for both copies."""
    for tile in block.loaded:
        if phase == LATER:
            x = block.guard.x.reshape((block.rows.partitions, tile.shape[1]))
            nisa.tensor_copy(dst=x, src=tile, engine=nisa.engine.gpsimd)
    guard_rows(block.guard, phase - LATER * len(block.loaded))


def guard_rows(guard: Guard, phase: int) -> None:
    """A phase of setting rows aside where transposes would mix them with others.

    ScalarE's sums, the verdict and zeros in place of bad rows come some time apart, as the next
    block's results have to leave PSUM in between.
    """
    if guard.x.shape[0] == 1 or not transposes_mix_rows():
        return
    if phase == _SQUARES_PHASE:
        guard.steps = begin_guard(guard.x, guard.growth)
        advance_guard(guard.steps, len(guard.steps.pieces))
    if phase == _VERDICT_PHASE:
        advance_guard(guard.steps, 1)
        guard.marks.append(marks_of(guard.steps.good))
    if _VERDICT_PHASE < phase < _SLOTS_PHASE:
        count, phases = len(guard.steps.pieces), _SLOTS_PHASE - _VERDICT_PHASE - 1
        turn = phase - _VERDICT_PHASE - 1
        advance_guard(guard.steps, count * (turn + 1) // phases - count * turn // phases)


def open_slots(data: Any, radices: Any) -> Any:
    """A flat tile for SBUF spectra [P, rows, part, ...] by slots, as ``slots_size`` says; slot 0.

    Slot 0 has the parts of its complex outputs, then the real ones.
    """
    partitions, rows, _, _ = data.shape
    size, edge = slots_size(radices), edge_size(radices)
    tile = flat_tile(partitions, rows * size, slots_tail(radices))
    spectra = tile[:, 0 : rows * size].reshape_dim(1, (rows, size))
    step, count = multiples(radices[0], radices[1])
    own = own_outputs(radices)
    pairs = count - own
    if pairs > 0:
        dst = spectra[:, :, 0 : 2 * pairs].reshape_dim(2, (2, pairs))
        move_aside(dst, data[:, :, :, step : step * pairs + 1 : step], 1)
    last = step * (count - 1)
    move_aside(spectra[:, :, 2 * pairs : edge], data[:, :, 0, 0 : last * (own - 1) + 1 : last], 1)
    return tile


def fill_slots(tile: Any, data: Any, radices: Any, slots: Any) -> None:
    """Some slots of what ``open_slots`` opened: the Tensor engine takes each as one run."""
    rows, radix = data.shape[1], radices[0]
    size, run = slots_size(radices), run_length(radices[1])
    spectra = tile[:, 0 : rows * size].reshape_dim(1, (rows, size))
    runs = data[:, :, :, 0 : run * radix].reshape_dim(3, (run, radix))
    for slot in slots:
        low = slot_place(radices, slot)
        both = runs[:, :, :, :, slot : radix - slot + 1 : radix - 2 * slot]
        move_aside(spectra[:, :, low : low + 4 * run], both, slot)


def move_aside(dst: Any, src: Any, number: int) -> None:
    """Copy SBUF on the engines that have time, by turns."""
    if number % 2 == 0:
        nisa.activation(dst=dst, op=nl.copy, data=src)
    else:
        nisa.tensor_copy(dst=dst, src=src, engine=nisa.engine.gpsimd)


def marks_of_row(marks: Any, row: int) -> Any:
    """The marks [P, 1] of one row of each partition, in a list as above."""
    found = []
    for each in marks:
        found.append(each[:, row : row + 1])
    return found


def forward_steps(stages: Stages, block: Block, target: Any) -> Any:
    """Steps from real rows to spectra in natural order, stored in HbmRows of each part."""
    rows = block.rows
    radices = [stages.radix, stages.left]
    shape = (rows.partitions, 2, rows.each, spectrum_length(radices))
    y = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    state = open_state(False, stages, rows)
    steps = state_of_real(stages, block.tile, state, rows)
    number = len(steps)
    for row in range(rows.each):
        marks = marks_of_row(block.guard.marks, row)
        for step in spectrum_of_state(stages, state, row, y, marks):
            steps.append(step)
    steps[number].is_dependent = reads_last_row(stages, rows, 2 * stages.left, 1)
    for part in range(2):
        steps[len(steps) - 1].stores.append(Store(target[part], y[:, part], rows))
    return steps


def slots_steps(stages: Stages, block: Block, spectra: Any) -> Any:
    """Steps from real rows to flat spectra by slots."""
    rows = block.rows
    state = open_state(False, stages, rows)
    steps = state_of_real(stages, block.tile, state, rows)
    number = len(steps)
    for step in steps_of_slots(stages, False, state, spectra, block):
        steps.append(step)
    steps[number].is_dependent = reads_last_row(stages, rows, 2 * stages.left, 1)
    return steps


def inverse_steps(stages: Stages, block: Block, target: Any) -> Any:
    """Steps from spectra by slots to real rows, stored in HbmRows."""
    rows = block.rows
    n = stages.radix * stages.left
    result = nl.ndarray((rows.partitions, rows.each, n), dtype=nl.float32, buffer=nl.sbuf)
    state = open_state(True, stages, rows)
    steps = steps_of_slots(stages, True, block.tile, state, block)
    number = len(steps)
    for step in real_of_state(stages, state, result, rows, block.guard.marks):
        steps.append(step)
    together = slabs_together(stages.radix, stages.left)
    count = 2 * slot_count(stages.radix) * together
    steps[number].is_dependent = reads_last_row(stages, rows, count, stages.left // together)
    steps[len(steps) - 1].stores.append(Store(target, result, rows))
    return steps


def open_state(is_inverse: bool, stages: Stages, rows: Rows) -> Any:
    """The flat tile between the stages: slots by parts by M, of each row."""
    radix, left = stages.radix, stages.left
    tail = tail_of(2 * left, 1)
    if is_inverse:
        together = slabs_together(radix, left)
        tail = tail_of(2 * slot_count(radix) * together, left // together)
    return flat_tile(rows.partitions, rows.each * state_size([radix, left]), tail)


def reads_last_row(stages: Stages, rows: Rows, count: int, step: int) -> bool:
    """Whether the run of ``count`` that begins the state's first row reaches into its last."""
    size = state_size([stages.radix, stages.left])
    return (numbers_read(count) - 1) * step >= (rows.each - 1) * size


def state_of_real(stages: Stages, data: Any, state: Any, rows: Rows) -> Any:
    """Steps of the stage on real numbers: flat data [P, rows N] to the state."""
    radix, left = stages.radix, stages.left
    together = slabs_together(radix, left)
    length = left // together
    size = state_size([radix, left])
    steps: Any = []
    for row in range(rows.each):
        slabs = state[:, row * size : (row + 1) * size].reshape_dim(1, (size // length, length))
        source = data[:, row * radix * left : data.shape[1]]
        steps = steps + steps_of_slabs(stages, source, radix * together, slabs, [])
    return steps


def real_of_state(stages: Stages, state: Any, result: Any, rows: Rows, marks: Any) -> Any:
    """Steps of the stage to real numbers: the state to result [P, rows, N]."""
    radix, left = stages.radix, stages.left
    together = slabs_together(radix, left)
    length = left // together
    size = state_size([radix, left])
    steps: Any = []
    for row in range(rows.each):
        slabs = result[:, row].reshape_dim(1, (radix * together, length))
        source = state[:, row * size : state.shape[1]]
        added = marks_of_row(marks, row)
        steps = steps + steps_of_slabs(stages, source, size // length, slabs, added)
    return steps


def steps_of_slabs(stages: Stages, source: Any, count: int, slabs: Any, marks: Any) -> Any:
    """Steps of the stage with real numbers of a row: slabs [P, numbers, M] of flat source."""
    length = slabs.shape[2]
    steps = []
    for first in range(0, length, _GROUP):
        last = min(first + _GROUP, length)
        runs = []
        for m in range(first, last):
            runs.append(run_of(source, m, count, length))
        tables = [stages.real] * len(runs)
        target = slabs[:, :, first:last]
        steps.append(Step(runs, tables, BY_COLUMN, [target], marks, False, []))
    return steps


def spectrum_of_state(stages: Stages, state: Any, row: int, y: Any, marks: Any) -> Any:
    """Steps of a row from the state to its spectrum in natural order, y [P, part, rows, ...]."""
    radix, left = stages.radix, stages.left
    low, slots = row * state_size([radix, left]), slot_count(radix)
    run = run_length(left)
    runs = [run_of(state, low, 2 * left, 1)]
    targets = outputs_of_edge(y[:, :, row], [radix, left])
    steps = [Step(runs, [stages.edge], EDGE, targets, marks, False, [])]
    numbers = y[:, :, row, 0 : run * radix].reshape_dim(2, (run, radix))
    others = left // 2  # outputs of the second run, of an odd M less than of the first
    group = slots_together(left)
    for first in range(1, slots, group):
        last = min(first + group, slots)
        runs = []
        tables = []
        for slot in range(first, last):
            runs.append(run_of(state, low + slot * 2 * left, 2 * left, 1))
            tables.append(table_of_slot(stages, slot))
        targets = [
            numbers[:, :, :, first:last],
            numbers[:, :, 0:others, radix - last + 1 : radix - first + 1],
        ]
        steps.append(Step(runs, tables, MIRRORED, targets, marks, False, []))
    return steps


def outputs_of_edge(y: Any, radices: Any) -> Any:
    """Where slot 0's outputs are in spectra [P, part, ...]: complex ones, if any, and real ones."""
    step, count = multiples(radices[0], radices[1])
    own = own_outputs(radices)
    pairs = count - own
    last = step * (count - 1)
    targets = []
    if pairs > 0:
        targets.append(y[:, :, step : step * pairs + 1 : step])
    targets.append(y[:, :, 0 : last * (own - 1) + 1 : last])
    return targets


def steps_of_slots(stages: Stages, is_inverse: bool, source: Any, target: Any, block: Block) -> Any:
    """Steps between the flat state and flat spectra by slots, to the state if ``is_inverse``."""
    radix, left = stages.radix, stages.left
    slots, group = slot_count(radix), slots_together(left)
    steps = []
    for row in range(block.rows.each):
        # Of spectra the marks are those of their rows; the state is of rows without bad ones.
        marks = [] if is_inverse else marks_of_row(block.guard.marks, row)
        spectrum, state = [], []
        for slot in range(slots + 1):
            spectrum.append(row * slots_size([radix, left]) + slot_place([radix, left], slot))
            state.append(row * state_size([radix, left]) + slot * 2 * left)
        places, made = (spectrum, state) if is_inverse else (state, spectrum)
        runs = [run_of(source, places[0], places[1] - places[0], 1)]
        results = [target[:, made[0] : made[1]]]
        steps.append(Step(runs, [stages.edge], EDGE, results, marks, False, []))
        for first in range(1, slots, group):
            last = min(first + group, slots)
            runs = []
            tables = []
            for slot in range(first, last):
                runs.append(run_of(source, places[slot], places[slot + 1] - places[slot], 1))
                tables.append(table_of_slot(stages, slot))
            results = [target[:, made[first] : made[last]]]
            steps.append(Step(runs, tables, BY_PRODUCT, results, marks, False, []))
    return steps


def advance(pipeline: Pipeline, step: Step) -> None:
    """Transposes of a step, then the products of the one before."""
    if step.is_dependent:
        drain(pipeline)
    partitions = step.data[0].shape[0]
    depth = numbers_read(step.tables[0].shape[0])
    columns = padded_columns(partitions, step.tables[0].shape[0])
    bank = nl.ndarray((depth, len(step.data), columns), dtype=nl.float32, buffer=nl.psum)
    for product in range(len(step.data)):
        transpose(bank[:, product], step.data[product], pipeline.identity)
    moved = evacuate(bank, nl.float32, pipeline.is_scalar)
    drain(pipeline)
    pipeline.waiting = [step]
    pipeline.moved = moved


def drain(pipeline: Pipeline) -> None:
    """Products of the step that waits, their evacuation by ScalarE, and its stores."""
    if len(pipeline.waiting) == 0:
        return
    step, moved = pipeline.waiting[0], pipeline.moved
    pipeline.waiting = []
    depth, width = step.tables[0].shape
    count = len(step.data)
    bank = bank_of(step.order, moved.shape[2], count, width)
    for product in range(count):
        place = place_of(bank, step.order, product)
        multiply(place, moved[0:depth, product], step.tables[product], False)
    made = bank[0 : step.data[0].shape[0]]
    if step.order == EDGE:
        low = 0
        for result in step.results:
            high = low + width_of(result)
            leave(result, made[:, 0, low:high], step.marks)
            low = high
    elif step.order == MIRRORED:
        others = step.results[1].shape[2]
        leave(step.results[0], made[:, :, :, 0:count], step.marks)
        leave(step.results[1], made[:, :, 0:others, count : 2 * count], step.marks)
    else:
        leave(step.results[0], made, step.marks)
    for store in step.stores:
        store_rows(store.target.tensor, store.tile, store.rows, store.target.columns)


def width_of(tile: Any) -> int:
    """Numbers of a partition."""
    width = 1
    for size in tile.shape[1:]:
        width *= size
    return width


def bank_of(order: int, columns: int, count: int, width: int) -> Any:
    """A PSUM bank for ``count`` products of so many columns, in an order of those above."""
    shape: Any = (columns, count, width)
    if order == BY_COLUMN:
        shape = (columns, width, count)
    if order == MIRRORED:
        shape = (columns, 2, width // 4, 2 * count)
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)


def place_of(bank: Any, order: int, product: int) -> Any:
    """Where the results of a product go in a PSUM bank."""
    if order in (BY_PRODUCT, EDGE):
        return bank[:, product]
    if order == BY_COLUMN:
        return bank[:, :, product]
    last = bank.shape[3] - 1 - product
    return bank[:, :, :, product : last + 1 : last - product]


def leave(dst: Any, bank: Any, marks: Any) -> None:
    """ScalarE takes results from PSUM, with the marks of rows that were set aside."""
    if len(marks) == 0:
        nisa.activation(dst=dst, op=nl.copy, data=bank)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=bank, bias=marks[0])
