"""Four-step FFT of real data, with half the work of the complex kernel: one launch, natural order.

It serves real transforms that are too long, or too few, for Stockham with one transform on each
partition.

Mathematics.  As in four_step, N = A C, n = a C + c, k = k_a + A k_c, and A = R L with a = a1 L + j
and k_a = K + R k2. The data is real, so the first stage,

    Z[K, j, c] = sum_a1 W_R^(a1 K) x[a1, j, c],      Z[R-K] = conj Z[K],

computes only the slots K <= R/2. The following steps are done for these slots: DFTs of length L
over j, which contain the twiddles between R and L, and the twiddle W_N^(c k_a). They leave v[c,
k_a] for half of all k_a. From these, the last DFT computes all outputs; outputs beyond N/2 are
computed as conjugates, X[N-k] = conj X[k]. For k' < C/2:

    X[k_a + A k']       = sum_c W_C^(c k') v[c, k_a]
    X[(A - k_a) + A k'] = sum_c conj (W_C^(c (C-1-k')) v[c, k_a])

For K = 0 the second line repeats outputs of the first line, and contains X[N/2] as well.

Layout on the NeuronCore.  Transforms are loaded with a1 on partitions. The data is the stationary
operand of the first product, C neighbouring numbers at a time; the result has c on partitions and
one slot in each column. For L > 1 slots are transposed, as many as fill the array, and multiplied
by one matrix with diagonal blocks. VectorE applies the twiddle to the products in PSUM. The last
DFT has a matrix as the stationary operand and k_a as the moving columns. The results' rows are the
real parts of all k', then the imaginary parts: the outputs of both lines arrive on the same
partition, which holds A neighbouring outputs.

    HBM [R, N/R] -> PSUM [c, (part, K)] -> (stage) -> twiddle -> PSUM [(part, k'), k_a] -> HBM

Columns of the second line run backwards, and no instruction does. So slots have an order: K = s + S
t, where t runs down and s runs up. ScalarE moves the first line out of PSUM in runs of s, one
instruction for each t. It moves the second line in runs of t, one instruction for each s and k2.

Transforms are different columns or partitions in every product, and never meet.

Why it is fast.  It has half of the products of four_step, half of its twiddles, half of its DMA.
"""

from __future__ import annotations

from typing import Any

from ..fft.twiddled_stage import Sums, finish_sums, twiddle
from ..isa import nisa, nki, nl
from ..packing import unpack
from ..row_blocks import share_rows
from ..tiles import (
    PARTITIONS,
    PSUM_BANK,
    evacuate,
    load_identity,
    load_tables,
    multiply,
    multiply_complex,
    multiply_half,
    transpose,
    transposed_dtype,
)
from .real_four_step_bundles import (
    RING,
    Bundle,
    Middle,
    Opening,
    Pipeline,
    Portion,
    Source,
    Spread,
    Tables,
    Target,
    Work,
    bundles_of,
    chunks_of,
    half_rows,
    input_tiles,
    spread_of,
    start_loads,
)
from .real_four_step_last import close_some, closing_steps, queue_steps
from .real_four_step_tables import FEW_ROWS

_LATE = 3  # stage steps after which VectorE has multiplied a portion by its twiddles


@nki.jit
def real_four_step(x, tables, places, radices):  # type: ignore[no-untyped-def]
    """Compute half spectra, frequencies 0 to N/2, of the rows of real ``x``.

    Args:
        x: float32 HBM [B, N].
        tables, places: the two results of ``pack(real_four_step_tables(N, radices, ...))``.
        radices: (R, C) or (R, L, C) with product N.

    Returns:
        (y_re, y_im), float32 HBM [B, N // 2 + 1].
    """
    batch, n = x.shape
    y_re = nl.ndarray((batch, n // 2 + 1), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n // 2 + 1), dtype=nl.float32, buffer=nl.shared_hbm)
    y = [y_re, y_im]
    spread = spread_of(radices, batch)
    share = share_rows(batch, spread.rows, instructions_of(spread))
    tiles = input_tiles(spread)
    end = share.first + share.trips * share.step
    bundles = bundles_of(spread, end, share.rest)
    source = Source(x, None, tiles, chunks_of(bundles), 0)
    if share.trips == 0:
        # Data comes first: the first products run while the last tables arrive.
        start_loads(source, spread, 1)
    held = hold_tables(unpack(tables, places), spread)
    if share.trips > 0:

        def body(row: Any) -> None:
            inner = bundles_of(spread, 0, share.step)
            inside = Source(x, row, tiles, chunks_of(inner), 0)
            start_loads(inside, spread, RING)
            transform_bundles(inner, inside, Target(y, row), held, spread)

        nl.fori_loop(share.first, end, body, share.step)
    start_loads(source, spread, RING - source.issued)
    transform_bundles(bundles, source, Target(y, None), held, spread)
    return y_re, y_im


def instructions_of(spread: Spread) -> int:
    """Return about how many instructions a bundle takes."""
    groups = spread.slots // spread.together
    opening = spread.rows * (2 * spread.middle + 2)
    middle = spread.rows * 4 * groups if spread.middle > 1 else 2 * spread.rows
    evacuations = spread.portion // spread.fine + spread.middle * spread.fine
    portions = -(-spread.radix // (2 * spread.portion))
    return int(opening + middle + portions * (evacuations + 4) + 8)


def hold_tables(tables: Any, spread: Spread) -> Tables:
    """Load the tables into SBUF."""
    columns, width = spread.columns, 2 * spread.middle * spread.slots
    wanted = [tables[0]]
    if spread.middle > 1:
        wanted.append(tables[1])
    wanted.append(tables[len(tables) - 2].reshape((columns, width)))
    wanted.append(tables[len(tables) - 1])
    loaded = load_tables(wanted)
    twiddle = loaded[len(loaded) - 2].reshape((columns, 2, width // 2))
    middle = loaded[1] if spread.middle > 1 else None
    identity = load_identity(nl.float32) if spread.middle > 1 else None
    return Tables(identity, loaded[0], middle, twiddle, loaded[len(loaded) - 1])


def transform_bundles(
    bundles: Any, source: Source, target: Target, tables: Tables, spread: Spread
) -> None:
    """Transform bundles; each is opened while earlier bundles are closed."""
    line = Pipeline(tables, spread, source, target, None, [], 0, 0, Sums(None, None, None), _LATE)
    for bundle in bundles:
        allocate(bundle, spread)
        work = work_of(bundle, spread)
        count = closing_steps(spread)
        if len(bundle.portions) == 1:
            line.late = max(_LATE, len(work) * 4 // 3)
        for index in range(len(work)):
            if work[index].opening != None:
                open_step(work[index].opening, line)
            else:
                transpose_slots(work[index].middle, line)
            line.opened += 1
            if index == 0 and line.pending != None:
                multiply_slots(line)
            close_some(line, count * (index + 1) // len(work) - count * index // len(work))
    if line.pending != None:
        multiply_slots(line)
    for step in line.steps:
        step.ready = 0
    close_some(line, len(line.steps))


def allocate(bundle: Bundle, spread: Spread) -> None:
    """Allocate tiles for the results of a bundle's stages."""
    shape: Any = (spread.columns, 2 * spread.middle * spread.slots)
    for _ in range(bundle.rows if spread.middle > 1 else 0):
        bundle.states.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    half = spread.radix // 2
    for low in range(0, half, spread.portion):
        is_last = low + spread.portion >= half
        slots = spread.slots - low if is_last else spread.portion
        shape = (spread.columns, 2, bundle.rows, spread.middle, slots)
        tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        bundle.portions.append(Portion(bundle, low, slots, tile, is_last))
    shape = (spread.columns, bundle.rows, spread.radix * spread.middle + 1)
    bundle.result = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)


def work_of(bundle: Bundle, spread: Spread) -> Any:
    """Return the steps of both stages of a bundle.

    The second stage of a row runs among the steps of the next row's first stage.
    """
    work: Any = []
    most = max(1, PSUM_BANK // (2 * spread.slots))
    held = half_rows(bundle, spread)
    if spread.middle == 1:
        each = -(-held // -(-held // most))
        for row in range(0, held, each):
            rows = min(each, held - row)
            work.append(Work(Opening(bundle, bundle.chunks[0], row, rows, 0, 1, False), None))
        work[len(work) - 1].opening.is_last = True
        return work
    for row in range(held + 1):
        openings: Any = []
        for chunk in bundle.chunks if row < held else []:
            each = -(-chunk.digits // -(-chunk.digits // most))
            for low in range(chunk.low, chunk.low + chunk.digits, each):
                digits = min(each, chunk.low + chunk.digits - low)
                openings.append(Opening(bundle, chunk, row, 1, low, digits, False))
            openings[len(openings) - 1].is_last = row + 1 == held
        middles: Any = []
        for opened in range(row - 1, bundle.rows, held) if row > 0 else []:
            is_last = row == held and opened + held >= bundle.rows
            for middle in middles_of(bundle, opened, is_last, spread):
                middles.append(middle)
        for index in range(max(len(openings), len(middles))):
            if index < len(openings):
                work.append(Work(openings[index], None))
            if index < len(middles):
                work.append(Work(None, middles[index]))
    return work


def middles_of(bundle: Bundle, row: int, is_last: bool, spread: Spread) -> Any:
    """Return the second stage of a row, PSUM bank by PSUM bank.

    is_last: whether it is the last row of the bundle.
    """
    together = spread.together
    most = PSUM_BANK // max(PARTITIONS, 2 * spread.middle * together)
    found = []
    for portion in bundle.portions:
        groups = portion.slots // together
        banks = -(-groups // most)
        for bank in range(banks):
            first = groups * bank // banks
            count = groups * (bank + 1) // banks - first
            group = portion.low // together + first
            is_end = is_last and bank + 1 == banks
            found.append(Middle(portion, row, group, count, is_end, None))
    return found


def open_step(opening: Opening, line: Pipeline) -> None:
    """Contract top digits, which leaves c on partitions, for a PSUM bank in each half."""
    spread, bundle = line.spread, opening.bundle
    held = half_rows(bundle, spread)
    banks: Any = []
    for half in range(spread.halves):
        rows = min(opening.rows, bundle.rows - half * held - opening.row)
        # [C, part, row, slot], or in the order of the state [C, (slot, part), digit]
        shape: Any = (spread.columns, 2, rows, spread.slots)
        if spread.middle > 1:
            shape = (spread.columns, spread.slots, 2, opening.digits)
        if rows > 0:
            banks.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum))
    for row in range(opening.rows):
        for digit in range(opening.digits):
            for half in range(len(banks)):
                if half * held + opening.row + row < bundle.rows:
                    open_digit(opening, row, digit, half, banks[half], line)
    for half in range(len(banks)):
        leave_opening(opening, half * held + opening.row, banks[half], line)
    if opening.is_last:
        if spread.middle == 1:
            queue_steps(bundle.portions[0], line)
        start_loads(line.source, spread, 1)


def open_digit(
    opening: Opening, row: int, digit: int, half: int, bank: Any, line: Pipeline
) -> None:
    """Multiply a digit of a row of an opening, in the whole array or in a row tile."""
    spread, chunk = line.spread, opening.chunk
    low = (opening.low + digit - chunk.low) * spread.columns
    place = bank[:, :, row]
    if spread.middle > 1:
        place = bank[:, :, :, digit].permute((0, 2, 1))
    data = chunk.tile[:, opening.row + row, low : low + spread.columns]
    if spread.halves > 1:
        multiply_half(place, data, line.tables.first, half, False)
    else:
        multiply(place, data, line.tables.first[0 : spread.radix], False)


def leave_opening(opening: Opening, row: int, bank: Any, line: Pipeline) -> None:
    """Move a bank of the first stage, with rows from ``row`` on, to where the next stage reads."""
    spread, bundle = line.spread, opening.bundle
    columns, slots = spread.columns, spread.slots
    if spread.middle > 1:
        state = bundle.states[row].reshape((columns, 2 * slots, spread.middle))
        target = state[:, :, opening.low : opening.low + opening.digits]
        flat = bank.reshape((columns, 2 * slots, opening.digits))
        nisa.activation(dst=target, op=nl.copy, data=flat)
        return
    rows = bank.shape[2]
    target = bundle.portions[0].tile[:, :, row : row + rows, 0]
    pattern = [[2 * slots, columns], [0, 2], [0, rows], [1, slots]]
    twiddle_bank(target, bank, factors_of(line.tables.twiddle, pattern, 0), line)


def twiddle_bank(target: Any, bank: Any, factors: Any, line: Pipeline) -> None:
    """Set target = PSUM bank times factors; where there are many rows, the sums follow later."""
    if line.spread.rows > FEW_ROWS:
        twiddle(target, bank, factors, line.sums)
    else:
        multiply_complex(target, bank, factors)


def factors_of(twiddle: Any, pattern: Any, low: int) -> Any:
    """Return the real and imaginary parts of twiddles from ``low`` on."""
    return [twiddle.ap(pattern, low), twiddle.ap(pattern, twiddle.shape[2] + low)]


def transpose_slots(middle: Middle, line: Pipeline) -> None:
    """Transpose some groups of slots, then multiply the groups before."""
    spread = line.spread
    state, columns = middle.portion.bundle.states[middle.row], spread.columns
    size = 2 * spread.middle * spread.together
    dtype = transposed_dtype(nl.float32)
    bank = nl.ndarray((size, middle.count, columns), dtype=dtype, buffer=nl.psum)
    for group in range(middle.count):
        low = (middle.first + group) * size
        transpose(bank[:, group], state[:, low : low + size], line.tables.identity)
    middle.operands = evacuate(bank, nl.float32, True)
    if line.pending != None:
        multiply_slots(line)
    line.pending = middle


def multiply_slots(line: Pipeline) -> None:
    """Run the second stage of the groups of slots that are transposed, and apply their twiddles."""
    spread, middle = line.spread, line.pending
    line.pending = None
    left, together, slots = spread.middle, spread.together, spread.slots
    count = middle.count * together
    shape = (spread.columns, 2, left, count)
    bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    for group in range(middle.count):
        place = bank[:, :, :, group * together : (group + 1) * together]
        table = line.tables.middle[:, middle.first + group]
        multiply(place, middle.operands[:, group], table, False)
    low = middle.first * together
    pattern = [[2 * left * slots, spread.columns], [0, 2], [slots, left], [1, count]]
    first = low - middle.portion.low
    target = middle.portion.tile[:, :, middle.row, :, first : first + count]
    twiddle_bank(target, bank, factors_of(line.tables.twiddle, pattern, low), line)
    finish_sums(line.sums)
    if middle.is_last:
        queue_steps(middle.portion, line)
