"""Inverse of the real four-step FFT: real rows from half spectra, in one launch.

Mathematics.  The steps of real_four_step are taken backwards, in its notation. From a half spectrum

    u[c, k_a] = sum_(k' < C/2) W_C^(-c k') X[k_a + A k']
                             + W_C^(-c (C-1-k')) conj X[(A - k_a) + A k']

is computed for slots K <= R/2 only; the second term contains the numbers beyond N/2. Then follow
the twiddle W_N^(-c k_a), DFTs of length L over k2, which contain the twiddles between R and L, and

    x[a1, j, c] = sum_(K <= R/2) w_K Re (W_R^(-a1 K) Z[K, j, c]),      w_0 = w_(R/2) = 1, else 2

The imaginary parts of Z[0] and Z[R/2] do not enter this sum, and so the imaginary parts of X[0] and
X[N/2] do not enter the result. R real numbers are left to contract for every j and c.

Layout on the NeuronCore.  Spectra are loaded with (part, k') on partitions, A + 1 neighbouring
numbers on each. As in real_four_step, slots have an order: R/2 first, then K = s + S t, where t
runs down. ScalarE and VectorE copy the numbers of the first term in runs of s, one instruction for
each t. The numbers of the second term lie in the opposite direction, and are copied in runs of t,
one instruction for each s and k2. Both terms are then columns of a product with a matrix, whose
results have c on partitions. VectorE applies the twiddles as the results leave PSUM. The second
stage is that of real_four_step. Its results are transposed once more, j by j, so that the R real
numbers lie on partitions; the last product has its matrix as the stationary operand.

    HBM [(part, k'), k_a] -> PSUM [c, k_a] -> twiddle -> (stage) -> [(part, K), c] -> HBM [R, N/R]

Transforms are different columns or partitions in every product, and never meet.

Why it is fast.  It has about half the products of a complex transform, and half of its DMA.
"""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nki, nl
from ..packing import unpack
from ..row_blocks import descriptors, rows_together, share_rows
from ..tiles import PSUM_BANK, load_identity, load_tables
from .inverse_real_four_step_stages import (
    CLOSE,
    COPY,
    FINISH,
    OPEN,
    RUNS,
    TURN,
    Bundle,
    Lines,
    Pipeline,
    Spread,
    Step,
    Tables,
    copy,
    multiply_last,
    open_slots,
    turn_last,
    turn_slots,
)
from .real_four_step_tables import (
    FEWEST_BUNDLES,
    MAX_INVERSE_LENGTH,
    copy_count,
    digits_of,
    fine_slots,
    groups_of,
    runs_paired,
    slot_count,
    slots_together,
)

_LOADED = 2048  # numbers a partition of an input tile that holds several rows
_RING = 2  # number of input tiles


@nki.jit
def inverse_real_four_step(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Compute real rows from half spectra ``x_re + i x_im``.

    Args:
        x_re, x_im: the half spectra, float32 HBM [B, N // 2 + 1].
        tables, places: the two results of ``pack(inverse_real_four_step_tables(N, radices, ...))``.
        radices: (R, C) or (R, L, C) with product N.

    Returns:
        y, float32 HBM [B, N].
    """
    batch = x_re.shape[0]
    n = 2 * (x_re.shape[1] - 1)
    y = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    x = [x_re, x_im]
    spread = spread_of(radices, batch)
    share = share_rows(batch, spread.rows, instructions_of(spread))
    tiles = input_tiles(spread)
    end = share.first + share.trips * share.step
    bundles = bundles_of(end, share.rest, spread)
    if share.trips == 0 and len(bundles) > 0:
        # Data comes first: it is copied while the tables arrive.
        load_bundle(bundles[0], Lines(x, None), tiles[0], spread)
    held = hold_tables(unpack(tables, places), spread)
    if share.trips > 0:

        def body(row: Any) -> None:
            inner = bundles_of(0, share.step, spread)
            transform_bundles(inner, Lines(x, row), tiles, Lines([y], row), held, spread)

        nl.fori_loop(share.first, end, body, share.step)
    transform_bundles(bundles, Lines(x, None), tiles, Lines([y], None), held, spread)
    return y


def spread_of(radices: Any, batch: int) -> Spread:
    """Return how transforms of a batch are spread."""
    radix, middle, columns = digits_of(radices)
    rows = _LOADED // (middle * max(radix, columns))
    few = -(-batch // (FEWEST_BUNDLES * nl.num_programs()))
    together = slots_together(radix, middle)
    fine = fine_slots(radix, middle)
    rows = max(1, min(rows, few))
    return Spread(radix, middle, columns, slot_count(radix), fine, together, rows)


def instructions_of(spread: Spread) -> int:
    """Return about how many instructions a bundle takes."""
    groups = len(groups_of(spread.radix, spread.middle)) if spread.middle > 1 else 0
    each = 4 * groups + 4 * spread.middle + 12
    return int(copy_count(spread.radix, spread.middle, spread.fine) + spread.rows * each + 8)


def input_tiles(spread: Spread) -> Any:
    """Allocate the tiles that DMA fills in turn."""
    shape = (spread.columns, spread.rows * (spread.radix * spread.middle + 1))
    tiles = []
    for _ in range(_RING):
        tiles.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    return tiles


def hold_tables(tables: Any, spread: Spread) -> Tables:
    """Load the tables into SBUF."""
    width = spread.slots * spread.middle
    wanted = [tables[0], tables[1].reshape((spread.columns, 2 * width))]
    for table in tables[2:]:
        wanted.append(table)
    loaded = load_tables(wanted)
    twiddle = loaded[1].reshape((spread.columns, 2, width))
    middle = loaded[2] if spread.middle > 1 else None
    identity = load_identity(nl.float32)
    return Tables(identity, loaded[0], twiddle, middle, loaded[len(loaded) - 1])


# Loads and the store.


def bundles_of(first: int, count: int, spread: Spread) -> Any:
    """Return ``count`` rows from ``first`` on, bundle by bundle."""
    bundles = []
    for start in range(first, first + count, spread.rows):
        rows = min(spread.rows, first + count - start)
        bundles.append(Bundle(start, rows, None, [], [], [], None))
    return bundles


def load_bundle(bundle: Bundle, source: Lines, tile: Any, spread: Spread) -> None:
    """Load a bundle's spectra: A + 1 neighbouring numbers on each partition."""
    length, half = spread.radix * spread.middle, spread.columns // 2
    line = half * length + 1
    flat = tile[:, 0 : bundle.rows * (length + 1)]
    bundle.loaded = flat.reshape_dim(1, (bundle.rows, length + 1))
    for part in range(2):
        pattern = [[length, half], [line, bundle.rows], [1, length + 1]]
        offset = bundle.first * line
        data = source.parts[part].ap(pattern, offset, scalar_offset=source.base)
        place = bundle.loaded[part * half : (part + 1) * half]
        nisa.dma_copy(dst=place, src=data, dge_mode=descriptors(source.base))


def store_bundle(bundle: Bundle, target: Lines, spread: Spread) -> None:
    """Store a bundle's rows: N / R numbers of each partition."""
    size = spread.middle * spread.columns
    together = rows_together(target.base, spread.radix, bundle.rows, size)
    for row in range(0, bundle.rows, together):
        pattern = [[size, spread.radix], [spread.radix * size, together], [1, size]]
        offset = (bundle.first + row) * spread.radix * size
        place = target.parts[0].ap(pattern, offset, scalar_offset=target.base)
        tile = bundle.result[:, row : row + together]
        nisa.dma_copy(dst=place, src=tile, dge_mode=descriptors(target.base))


# Transforms.


def transform_bundles(
    bundles: Any, source: Lines, tiles: Any, target: Lines, tables: Tables, spread: Spread
) -> None:
    """Transform bundles: one is copied, the one before is opened, and an earlier one is closed."""
    count = len(bundles)
    line = Pipeline(tables, spread, target, count == 1, [], [])
    # Where SBUF has room for results of one more bundle, a bundle ends among the next one's steps.
    is_late = spread.radix * spread.middle * spread.columns < MAX_INVERSE_LENGTH
    for index in range(min(_RING, count)):
        if bundles[index].loaded == None:
            load_bundle(bundles[index], source, tiles[index], spread)
    for index in range(count + 2 if count > 0 else 0):
        copies: Any = []
        openings: Any = []
        others: Any = []
        if index < count:
            allocate(bundles[index], spread)
            copies = copies_of(bundles[index], spread)
        if 0 < index < count + 1:
            openings = openings_of(bundles[index - 1], spread)
        if index > 1:
            before = bundles[max(0, index - 3) : index - 2] if is_late else []
            others = closings_of(bundles[index - 2], before, spread)
        if index == count + 1 or (index > 1 and not is_late):
            append_end(others, bundles[index - 2], spread)
        total = max(len(copies), len(openings), len(others))
        for number in range(total):
            run_steps(line, copies, number, total)
            run_steps(line, openings, number, total)
            run_steps(line, others, number, total)
        if index < count and index + _RING < count:
            # Its tile is that of this bundle, which has been copied.
            load_bundle(bundles[index + _RING], source, tiles[index % _RING], spread)


def run_steps(line: Pipeline, steps: Any, number: int, total: int) -> None:
    """Run the steps whose turn it is, where steps are spread over ``total`` turns."""
    # Steps whose results the next turn reads come early; the store comes late.
    low, high = -(-len(steps) * number // total), -(-len(steps) * (number + 1) // total)
    if len(steps) > 0 and steps[0].kind >= TURN:
        low, high = len(steps) * number // total, len(steps) * (number + 1) // total
    for step in steps[low:high]:
        if step.kind == COPY:
            copy(step, line)
        elif step.kind == OPEN:
            open_slots(step, line)
        elif step.kind == TURN:
            turn_slots(step, line)
        elif step.kind == CLOSE:
            turn_last(step, line)
        else:
            if len(line.closed) > 0 and line.closed[0].step.bundle.first == step.bundle.first:
                multiply_last(line)
            store_bundle(step.bundle, line.target, line.spread)


def allocate(bundle: Bundle, spread: Spread) -> None:
    """Allocate tiles for the results of a bundle's stages."""
    shape: Any = (spread.columns, bundle.rows, spread.slots, spread.middle)
    for _ in range(2):
        bundle.terms.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    if spread.middle == 1:
        shape = (spread.columns, bundle.rows, 1, spread.radix)
        bundle.lasts.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    for _ in range(bundle.rows if spread.middle > 1 else 0):
        shape = (spread.columns, 2 * spread.slots * spread.middle)
        bundle.states.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
        shape = (spread.columns, 1, spread.middle, spread.radix)
        bundle.lasts.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    shape = (spread.radix, bundle.rows, spread.middle * spread.columns)
    bundle.result = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)


def copies_of(bundle: Bundle, spread: Spread) -> Any:
    """Return the steps that bring a bundle's numbers into the order of slots."""
    total = copy_count(spread.radix, spread.middle, spread.fine)
    steps = []
    for number in range(total):
        steps.append(Step(COPY, bundle, 0, bundle.rows, number, 1))
    return steps


def openings_of(bundle: Bundle, spread: Spread) -> Any:
    """Return the steps of the first product, of whole rows or of some slots of one row."""
    steps = []
    most = PSUM_BANK // spread.middle
    if most >= spread.slots:
        each = 1 if spread.middle > 1 else most // spread.slots
        for row in range(0, bundle.rows, each):
            rows = min(each, bundle.rows - row)
            steps.append(Step(OPEN, bundle, row, rows, 0, spread.slots))
        return steps
    for row in range(bundle.rows):
        for first in range(0, spread.slots, most):
            steps.append(Step(OPEN, bundle, row, 1, first, min(most, spread.slots - first)))
    return steps


def closings_of(bundle: Bundle, before: Any, spread: Spread) -> Any:
    """Return the steps of the second stage and of the last product, row by row, without the end.

    before: [the bundle before], whose end is among these steps, or [].
    """
    steps: Any = []
    if spread.middle == 1:
        runs = RUNS * runs_paired(spread.radix)
        for row in range(0, bundle.rows, runs):
            steps.append(Step(CLOSE, bundle, row, min(runs, bundle.rows - row), 0, 1))
            for ended in before if row == 0 else []:
                steps.append(Step(FINISH, ended, 0, ended.rows, 0, 0))
        return steps
    groups = len(groups_of(spread.radix, spread.middle))
    for row in range(bundle.rows):
        for first in range(0, groups, RUNS):
            steps.append(Step(TURN, bundle, row, 1, first, min(RUNS, groups - first)))
            if first == 0 and row > 0:
                append_last(steps, bundle, row - 1, spread)
            for ended in before if first == 0 and row == 0 else []:
                append_last(steps, ended, ended.rows - 1, spread)
        for ended in before if row == 0 else []:
            steps.append(Step(FINISH, ended, 0, ended.rows, 0, 0))
    return steps


def append_end(steps: Any, bundle: Bundle, spread: Spread) -> None:
    """Append the steps that end the last bundle."""
    if spread.middle > 1:
        steps.append(Step(TURN, bundle, bundle.rows, 1, 0, 0))
        append_last(steps, bundle, bundle.rows - 1, spread)
    steps.append(Step(FINISH, bundle, 0, bundle.rows, 0, 0))


def append_last(steps: Any, bundle: Bundle, row: int, spread: Spread) -> None:
    """Append the steps of the last product of a row."""
    runs = RUNS * runs_paired(spread.radix)
    for first in range(0, spread.middle, runs):
        steps.append(Step(CLOSE, bundle, row, 1, first, min(runs, spread.middle - first)))
