"""Four-step FFT, which spreads one transform over all partitions: one launch, natural order.

It serves lengths and batches that Stockham, with one transform on each partition, cannot hold.

Mathematics (Bailey).  N = A C, n = a C + c, k = k_a + A k_c:

    Y[k_c, k_a] = sum_c W_C^(c k_c) W_N^(c k_a) sum_a W_A^(a k_a) x[a, c]

The steps are: 1. transforms of length A = r1 r2 ... over a, 2. the twiddle W_N^(c k_a), 3. DFTs of
length C <= 128 over c. The fourth step, a transpose, costs nothing here.

Layout on the NeuronCore.  Transforms are loaded with a1, the top digit of a, on partitions, so that
every descriptor reads up to N / r1 contiguous numbers. For r1 <= 64 the real and imaginary parts
lie on the partitions one after the other, and one product contracts both. For r1 <= 32 two
transforms are contracted at once, each on half of the array. For r1 > 64 one part is contracted
after the other. The data is the stationary operand, C neighbouring numbers at a time, so that the
products arrive with c on partitions. They form Stockham's state of C transforms after one stage:
Stockham's stages do the rest of A, and the last of these stages also applies the twiddles
(twiddled_stage.py). The last DFT has its matrix as the stationary operand and k_a as the moving
columns. Its result [k_c, k_a] is y in natural order, N / C contiguous numbers a line.

    HBM [r1, N/r1] -> PSUM [c, (part, k1)] -> stages -> twiddle -> PSUM [k_c, k_a] -> HBM

A bundle contains at most as many transforms as one tile of inputs holds. Three bundles are in
progress at a time. While one bundle is opened, which means its first stage (four_step_opening.py),
the bundle before it passes the other stages (four_step_middle.py), and an earlier bundle is closed
by its last DFT (four_step_closing.py). Their instructions alternate, so that VectorE's twiddles and
the Tensor engine's products overlap. Of a long transform, SBUF holds only two states; such a
transform is closed after the next one has been opened. Inputs are loaded into a few tiles in turn
(spread_lines.py), because only a small part of SBUF may be written by DMA; where several long
transforms follow each other, one tile holds all that the partitions have of a transform. Tables of
the last stage and twiddles are streamed where they do not fit, or where only one transform reads
them (four_step_shared.py). A long batch is a loop on the device, and two cores share its
transforms.

Transforms are different columns or partitions in every product and never meet, so the values of one
transform cannot spoil another.

Why it is fast.  HBM is read and written once for every N <= 2^19, and for every N up to 2^20 whose
A is at most 9200. Streamed tables cost as much again where a transform is alone. For r1 = 32,
another radix <= 32 and C = 128, as modelled for trn1, the Tensor engine needs about 13 + 26 + 52 ps
a point against 59 ps of the DMA floor, and VectorE needs 56 ps. Even one transform alone fills the
array.
"""

from __future__ import annotations

from typing import Any

from ..isa import nki, nl
from ..packing import unpack
from ..row_blocks import Rows, share_rows
from .four_step_closing import close, closing_work
from .four_step_middle import finish_pending, middle_step, middle_work
from .four_step_opening import open_step, opening_work, twiddle_opened
from .four_step_passage import Flow, Passage, Results
from .four_step_shared import Tables, hold_tables, is_long, result_tiles, spread_of
from .four_step_tables import last_turn, middle_stages
from .spread_lines import (
    RING,
    Bundle,
    Inputs,
    Lines,
    Loads,
    Spread,
    input_tiles,
    load_whole_lines,
    loads_of,
    start_loads,
)
from .stockham_blocks import Block
from .stockham_stages import piece_count, product_count
from .twiddled_stage import Sums, finish_sums, operand_count, pieces_for

_PIECES = 2  # tiles for pieces of a streamed table


@nki.jit
def four_step(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, each spread over all partitions.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, N].
        tables, places: the two results of ``pack(four_step_tables(N, radices, ...))``.
        radices: a tuple of ints r1, ..., C with product N.

    Returns:
        (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    x, y = [x_re, x_im], [y_re, y_im]
    spread = spread_of(radices, batch)
    if is_long(spread) and batch > nl.num_programs():
        # a single transform comes in parts, so that its first products begin early
        load_whole_lines(spread)
    share = share_rows(batch, spread.rows, instructions_of(spread))
    inputs = Inputs(input_tiles(spread, RING), [], [])
    tiles = result_tiles(spread)
    end = share.first + share.trips * share.step
    loads = loads_of(Lines(x, None, 0, n), inputs, spread, end, share.rest)
    if share.trips == 0:
        # Data comes first: the first products run while the last tables arrive.
        start_loads(loads, 1)
    held = hold_tables(unpack(tables, places), spread, loads if share.trips == 0 else None)
    if share.trips > 0:

        def body(row: Any) -> None:
            inside = loads_of(Lines(x, row, 0, n), inputs, spread, 0, share.step)
            start_loads(inside, RING)
            transform_rows(inside, Results(Lines(y, row, 0, n), [], [], 0, tiles), held)

        nl.fori_loop(share.first, end, body, share.step)
    start_loads(loads, RING)
    transform_rows(loads, Results(Lines(y, None, 0, n), [], [], 0, tiles), held)
    return y_re, y_im


def instructions_of(spread: Spread) -> int:
    """Return about how many instructions a bundle takes."""
    opening = spread.length // spread.radices[0] * (spread.parts + 1)
    middle = 0
    for stage in middle_stages(spread.radices):
        middle += product_count(stage) * (2 * piece_count(stage) + 1)
    turn = last_turn(spread.radices)
    if turn != None:
        products = operand_count(turn)
        middle += products * piece_count(turn.stage) * (1 + turn.halves)
        middle += 6 * turn.halves * (products // turn.together + 1)
    closing = 10 * len(closing_work(spread, spread.rows))
    return int(spread.rows * (opening + middle + 6) + closing)


def transform_rows(loads: Loads, results: Results, tables: Tables) -> None:
    """Transform all inputs of ``loads``, of which the tiles hold a few at a time."""
    flow = Flow(loads, results, tables, loads.spread, [])
    passages: Any = []
    for bundle in loads.bundles:
        passages.append(passage_of(bundle, flow))
    count = len(passages)
    if is_long(loads.spread):
        # SBUF holds two long states, but no more: a bundle is closed while the next one is opened.
        for index in range(count + 1):
            take_turns(at(passages, index), at(passages, index - 1), flow)
            run_together(None, at(passages, index), None, None, flow)
            settle(at(passages, index), flow)
        return
    # While one bundle is opened, the one before passes the stages, and an earlier one is closed.
    for index in range(count + 3):
        moving, settling = at(passages, index - 1), at(passages, index - 2)
        run_together(at(passages, index), moving, settling, at(passages, index - 3), flow)


def at(passages: Any, index: int) -> Any:
    """Return the passage of that number, or None where there is none."""
    return passages[index] if 0 <= index < len(passages) else None


def take_turns(opening: Any, closing: Any, flow: Flow) -> None:
    """Open a long bundle and close another one; either may be None.

    The bundle is opened while the other's last twiddles are on their way. Only its last products
    wait: they let the next load begin, which would delay the other's stores.
    """
    openings = opening.openings if opening != None else []
    closings = closing.closings if closing != None else []
    for index in range(len(openings) - 1):
        open_step(openings[index], opening, flow)
    for index in range(len(closings) - 1):
        close(closings[index], closing, flow)
    if opening != None:
        open_step(openings[len(openings) - 1], opening, flow)
    if closing != None:
        close(closings[len(closings) - 1], closing, flow)


def run_together(opening: Any, moving: Any, settling: Any, closing: Any, flow: Flow) -> None:
    """Open a bundle, move one through the stages, finish one and close one; each may be None."""
    openings = opening.openings if opening != None else []
    middles = moving.middles if moving != None else []
    closings = closing.closings if closing != None else []
    steps = max(len(openings), len(middles), len(closings))
    for step in range(steps):
        first, end = share_of(openings, step, steps)
        for index in range(first, end):
            open_step(openings[index], opening, flow)
        first, end = share_of(middles, step, steps)
        for index in range(first, end):
            middle_step(middles[index], moving, flow)
        if opening == None and step == 0:
            twiddle_opened(flow)
        if step == 0:
            settle(settling, flow)
        first, end = share_of(closings, step, steps)
        for index in range(first, end):
            close(closings[index], closing, flow)
    if steps == 0:
        twiddle_opened(flow)
        settle(settling, flow)


def settle(passage: Any, flow: Flow) -> None:
    """Finish the last products and twiddles of a bundle, if there is one."""
    if passage != None:
        finish_pending(passage, flow)
        finish_sums(passage.sums)


def share_of(work: Any, step: int, steps: int) -> Any:
    """Return [first, end] of the items due in a step, where ``work`` is spread over ``steps``."""
    count = len(work)
    return [count * step // steps, count * (step + 1) // steps]


def passage_of(bundle: Bundle, flow: Flow) -> Passage:
    """Return a bundle's Passage, with tiles for streamed pieces, before its first step."""
    spread, tables = flow.spread, flow.tables
    matrices: Any = []
    if tables.turn != None:
        matrices = pieces_for(tables.matrices, _PIECES)
    passage = Passage(
        bundle,
        opening_work(bundle, spread),
        middle_work(bundle, tables),
        closing_work(spread, bundle.rows),
        [],
        Block(Rows(None, 0, spread.columns, bundle.rows), None),
        matrices,
        pieces_for(tables.twiddle, _PIECES),
        Sums(None, None, None),
    )
    return passage
