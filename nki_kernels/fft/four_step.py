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
Stockham's stages (stage.py) do the rest of A. The results of the last of these stages are
multiplied by the twiddles on their way out of PSUM (twiddles.py). The last DFT has its matrix as
the stationary operand and k_a as the moving columns. Its result [k_c, k_a] is y in natural order,
N / C contiguous numbers a line.

    HBM [r1, N/r1] -> PSUM [c, (part, k1)] -> stages -> twiddle -> PSUM [k_c, k_a] -> HBM

A block contains at most as many transforms as one tile of inputs holds. Several blocks are in
progress at a time: while one block is opened, which means its first stage, the block before it
passes the other stages, and an earlier block is closed by its last DFT. Their tasks are spread over
each other, so that VectorE's twiddles and the Tensor engine's products overlap. Of a long
transform, SBUF holds only two states; such a transform is closed while the next one is opened.
Inputs are loaded into a few tiles in turn (spread_lines.py), because only a small part of SBUF may
be written by DMA; where several long transforms follow each other, one tile holds all that the
partitions have of a transform. Twiddles and the tables of the last stage are streamed where they do
not fit, or where only one block reads them. A long batch is a loop on the device, and two cores
share its transforms.

Transforms are different columns or partitions in every product and never meet, so the values of one
transform cannot spoil another.

Why it is fast.  HBM is read and written once for every N <= 2^19, and for every N up to 2^20 whose
A is at most 9200. Streamed tables cost as much again where a transform is alone. For r1 = 32,
another radix <= 32 and C = 128, as modelled for trn1, the Tensor engine needs about 13 + 26 + 52 ps
a point against 59 ps of the DMA floor, and VectorE needs 56 ps. Even one transform alone fills the
array.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ..base.arguments import check_factors, check_tables, rows_and_length
from ..base.engines import (
    HALF,
    PSUM_BANK,
    SMALLEST_SBUF,
    SPLIT_TERMS,
    chunks,
    columns_read,
    element_count,
    evacuate,
    factor_views,
    hbm,
    multiply,
    multiply_row_tile,
    psum,
    sbuf,
)
from ..base.isa import Tensor, nki, nl
from ..base.launch import Rows, for_rows
from ..base.packing import unpack
from ..base.pipeline import TURN, After, Block, Item, Order, Task, late
from ..base.tables import Stream, load_identity, load_tables
from .four_step_tables import inner_stages
from .spread_lines import (
    LONG,
    RING_LENGTH,
    STORED,
    Chunk,
    Factors,
    Inputs,
    Lines,
    Place,
    Spread,
    column_of,
    spread_of,
    store_lines,
    with_whole_lines,
)
from .stage import Stage
from .stage_products import Put, Tabled, Tools, into_state, new_state, transform
from .twiddles import Sums, Twiddles, into_twiddled

_WORKING = 24 << 10  # bytes of a partition for operands, results and small tables
_STREAMED = 32 << 10  # bytes of a partition for pieces of streamed tables
_STREAMED_ONCE = 512  # A, from which on the tables of a single transform are streamed
_CHUNK = 1024  # numbers a partition of a streamed table that are loaded at a time
_RESULTS = 4  # tiles for results of a long block

# What multiplies results [C, 2, rows, n], in place, before they are stored at their place.
Weigh = Callable[[Tensor, Place], None]


@nki.jit
def four_step(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, each spread over all partitions.

    The arguments and the results are those of ``stockham``, with ``four_step_tables`` and
    radices r1, ..., C.
    """
    batch, n = rows_and_length(x_re, x_im)
    check_factors(radices, n)
    y_re, y_im = hbm(x_re.shape), hbm(x_re.shape)
    spread = spread_of(radices, batch)
    if spread.is_long and batch > nl.num_programs():
        # a single transform comes in parts, so that its first products begin early
        spread = with_whole_lines(spread)
    inputs = Inputs(spread, spread.tiles)
    is_once = -(-batch // nl.num_programs()) <= spread.rows
    kernel = FourStep(spread, unpack(tables, places), inputs, is_once)
    kernel.keep_results()
    work = Transforms(kernel, Lines([x_re, x_im], n), Lines([y_re, y_im], n))
    for_rows(batch, work, spread.rows, spread.blocks, kernel.order)
    return y_re, y_im


@dataclass
class Held:
    """Tables in SBUF that the first, the other, and the last steps use."""

    # For each part [r1, 2 r1], for each place [2 r1, 2 r1] from partition 0 and 64 on, or one.
    first: list[Tensor] = field(init=False)
    last: list[Tensor] = field(init=False)  # Wr, Wi, -Wi: [C, columns], with zeros from column C on
    factors: Tensor = field(init=False)  # twiddles [C, 2, A], where no stage follows the first one
    tools: Tools = field(init=False)  # for other stages


class FourStep:
    """Four-step transforms: what their blocks share, and what a block does."""

    def __init__(
        self, spread: Spread, tables: Sequence[Tensor], inputs: Inputs, is_once: bool = False
    ) -> None:
        """is_once: whether a single block reads the tables."""
        self.spread, self.inputs = spread, inputs
        stages = inner_stages(spread.radices)
        check_tables(tables, 3 + len(stages))
        self._ends = [tables[0], tables[-1]]
        self.stages = [
            Tabled(*each, None, _CHUNK) for each in zip(stages, tables[1:-2], strict=True)
        ]
        self._table = tables[-2]
        if stages:
            count = stages[-1].products
            shape = (spread.columns, count, 2 * spread.length // count)
            self._twiddles = Twiddles(stages[-1], self._table.reshape(shape))
        self._is_once = is_once and spread.length >= _STREAMED_ONCE
        self.held = Held()
        self._results: list[Tensor] = []
        self._is_busy = False  # whether a block is on its way to the last stage

    @property
    def order(self) -> Order:
        """How blocks follow each other.

        While one block is opened, the one before passes the stages, and an earlier one is closed.
        A long block is closed while the next one is opened, because SBUF holds two long states.
        """
        if self.spread.is_long:
            return Order(2, 0, is_settled=True)
        return Order(5 + len(self.stages), spread=late, begun=3)

    def keep_results(self) -> None:
        """Let results of long blocks take turns in a few tiles, where SBUF has room for these.

        Fresh tiles would be in memory that the next state needs, and it would wait for the stores.
        """
        if self.spread.is_long and self.spread.length <= RING_LENGTH:
            shape = (self.spread.columns, 2, 1, PSUM_BANK)
            self._results = [sbuf(shape) for _ in range(_RESULTS)]

    def setup(self) -> None:
        """Load the tables into SBUF, except for those that are streamed.

        Tables are streamed that do not fit, or that only one block reads.
        """
        held = self.held = Held()  # those of a count take no room any more
        first, last = load_tables(self._ends)
        held.first = opening_matrices(self.spread, first)
        held.last = [last[:, index] for index in range(3)]
        if not self.stages:
            (factors,) = load_tables([self._table])
            held.factors = factors.reshape((self.spread.columns, 2, self.spread.length))
            return
        for tabled in self.stages:
            tabled.held = None
        self._twiddles.hold([])
        wanted = [piece for tabled in self.stages[:-1] for piece in tabled.pieces()]
        final = self.stages[-1]
        sizes = 8 * self.spread.length, 4 * final.width * final.table.shape[1]
        has_twiddles, has_final = self._fitting(wanted, sizes)
        held.tools = Tools(load_identity(), is_scalar=True)  # VectorE has the twiddles
        if not has_final:
            held.tools.stream = Stream(final.chunk * final.width, nl.float32)
        wanted += final.pieces() if has_final else []
        loaded = iter(load_tables(wanted + (self._twiddles.pieces() if has_twiddles else [])))
        for tabled in self.stages if has_final else self.stages[:-1]:
            tabled.held = tabled.by_piece([next(loaded) for _ in tabled.pieces()])
        if has_twiddles:
            self._twiddles.hold(list(loaded))
        else:
            self._twiddles.stream()

    def _fitting(self, wanted: list[Tensor], sizes: Sequence[int]) -> list[bool]:
        """Return which tables stay in SBUF, of so many bytes, beside those that have to."""
        spread = self.spread
        room = SMALLEST_SBUF - _WORKING - 4 * spread.loaded * spread.tiles
        room -= 16 * spread.rows * spread.length
        room -= sum(4 * element_count(table.shape[1:]) for table in wanted)
        if self._is_once:
            room = 0
        elif sum(sizes) > room:
            room -= _STREAMED
        found = []
        for size in sizes:
            found.append(size <= room)
            room -= size if size <= room else 0
        return found

    def block(
        self,
        source: Lines,
        target: Lines,
        rows: Rows,
        before: Factors | None = None,
        weigh: Weigh | None = None,
    ) -> Block:
        """Transform some lines of the source into those of the target.

        before: factors of the inputs. weigh: what multiplies the results.
        """
        pieces = self.inputs.chunks(source, rows, before)
        yield TURN
        while self.spread.is_long and self._is_busy:
            yield TURN  # SBUF holds two long states: the block before has to leave the stages
        self._is_busy = True
        self.inputs.start()
        sums = Sums()
        if self.stages:
            state = new_state(self.stages[0].stage, self.spread.columns, rows.each, nl.float32)
            tasks = self._openings(pieces, state, sums)
            yield from tasks
            yield TURN
            moving = self._stages(state, rows, sums)
            del state, tasks
            results = yield from moving
            del moving
        else:
            self._is_busy = False
            results = self.new_results(rows.each)
            yield from self._openings(pieces, self.natural(results, rows.each), sums)
        if not self.spread.is_long:
            yield TURN  # the sums follow twiddles of another block, and have time
        yield After(sums.finish)
        yield TURN
        tasks = self.closings(results, target, rows, weigh)
        del results
        yield from tasks

    # The first stage, which leaves c on partitions.

    def _openings(self, pieces: list[Chunk], state: Tensor, sums: Sums) -> Block:
        """Yield the first stage of a block, into the state of the next stage or into results.

        A product contracts the digits a1 for one a' of one row, where a' is what a1 leaves of a.
        """
        spread, stages = self.spread, self.stages
        most = max(1, PSUM_BANK // (2 * spread.first)) if spread.parts == 1 else 1
        run = stages[0].stage.left if stages else 1  # a' that are neighbours in the state
        each, state = self.inputs.each(pieces[0].rows), self._digits(state, pieces[0].rows.each)
        for chunk in pieces:
            low = chunk.low // spread.columns
            end = low + chunk.size // spread.columns
            together = max(1, most // (end - low)) if len(pieces) == 1 else 1
            is_first = True
            for row, rows in chunks(each, together):
                for digit, count in _runs(low, end, run, most):
                    products = Products(chunk, row, rows, digit, count)
                    yield self._opened(products, state, sums, is_first)
                    is_first = False
            yield After(self.inputs.release)

    def _opened(self, products: Products, state: Tensor, sums: Sums, is_first: bool) -> Task:
        """Make products of the first stage, in a PSUM bank for each place of rows in a tile.

        Few numbers in one bank are evacuated in half the time; otherwise two banks are filled side
        by side.
        """
        chunk, each = products.chunk, self.inputs.each(products.chunk.rows)
        rows, columns = chunk.rows.each, columns_read(self.spread.columns)
        if is_first:
            self.inputs.weigh(chunk)
        is_shared = products.rows == each and 2 * rows * self.spread.length <= PSUM_BANK
        is_shared = is_shared and not self.stages
        targets, banks = list[Tensor](), list[Tensor]()
        for start in range(products.row, rows, each):
            count = min(products.rows, rows - start)
            if is_shared:
                count, start = rows, 0
            if not banks or not is_shared:
                targets.append(self._opened_at(state, start, count, products))
                banks.append(psum((columns, *targets[-1].shape[1:])))
        for row in range(products.rows):
            for digit in range(products.digit, products.digit + products.count):
                for place, start in enumerate(range(products.row + row, rows, each)):
                    bank = banks[0 if is_shared else place]
                    at = start if is_shared else row
                    if not self.stages:
                        dst = bank[:, :, at]
                    else:
                        part, m = divmod(digit - products.digit, bank.shape[4])
                        dst = bank[:, at, :, 2 * part : 2 * part + 2, m].permute((0, 2, 1))
                    self._contract(dst, chunk, place, products.row + row, digit)
        if not self.stages:
            yield  # VectorE multiplies the previous products by twiddles while these are made
        for target, bank in zip(targets, banks, strict=True):
            bank = bank[0 : self.spread.columns]
            if self.stages:
                evacuate(bank, target)
            else:
                self.put_opened(bank, target, sums)
        if self.stages:
            yield

    def _digits(self, state: Tensor, rows: int) -> Tensor:
        """Return a state as [C, rows, k1, (j, part), m], or as it is where no stage follows."""
        if not self.stages:
            return state
        stage = self.stages[0].stage
        y = state[:, 0 : rows * stage.numbers]
        y = y.reshape((state.shape[0], rows, stage.done, stage.pitch))
        y = y[:, :, :, 0 : 2 * stage.contracted * stage.left]
        return y.reshape_dim(3, (2 * stage.contracted, stage.left))

    def _opened_at(self, state: Tensor, row: int, count: int, products: Products) -> Tensor:
        """Return the place of products of ``count`` rows in the state.

        It is [C, rows, k1, (j, part), m] or, where no stage follows, [C, part, rows, k1].
        """
        if not self.stages:
            return state[:, :, row : row + count]
        left = self.stages[0].stage.left
        size = min(products.count, left)
        j, m = divmod(products.digit, left)
        end = 2 * (j + products.count // size)
        return state[:, row : row + count, :, 2 * j : end, m : m + size]

    def _contract(self, dst: Tensor, chunk: Chunk, place: int, row: int, digit: int) -> None:
        """Multiply one a' of one row, into PSUM [columns, part, k1]."""
        spread, tile, first = self.spread, chunk.tile, self.held.first
        radix, whole = spread.first, columns_read(spread.columns)
        at = column_of(spread, chunk, row, digit, 0)
        if spread.parts == 2:
            for part in range(2):
                at = column_of(spread, chunk, row, digit, part)
                multiply(dst, tile[0:radix, at : at + whole], first[part], part > 0)
        elif spread.places == 2:
            held = slice(place * HALF, place * HALF + spread.stacked)
            data = tile[held, at : at + whole]
            multiply_row_tile(dst, data, first[place], place * HALF, HALF, False)
        else:
            multiply(dst, tile[0 : spread.stacked, at : at + whole], first[0], False)

    # Stockham's stages, and the twiddles.

    def _stages(self, state: Tensor, rows: Rows, sums: Sums) -> Generator[Item, None, Tensor]:
        """Yield the other stages of a block; return its results [C, 2, rows, A], times twiddles."""
        tools = self.held.tools
        for tabled, after in pairwise(self.stages):
            following = new_state(after.stage, self.spread.columns, rows.each, nl.float32)
            put = into_state(tabled.stage, after.stage, following, rows.each)
            tasks = transform([tabled], state, rows.each, tools, put)
            state = following
            yield from tasks
            yield TURN
            del following, put, tasks
        self._is_busy, last = False, self.stages[-1]
        results = self.new_results(rows.each)
        put = self.into_results(last.stage, self.natural(results, rows.each), sums)
        tasks = transform([last], state, rows.each, tools, put)
        del state, put
        yield from tasks
        if tools.stream is not None:
            tools.stream.restart()
        return results

    def new_results(self, rows: int) -> Tensor:
        """Allocate SBUF for the results of the stages."""
        return sbuf((self.spread.columns, 2, rows, self.spread.length))

    def natural(self, results: Tensor, rows: int) -> Tensor:
        """Return results as [C, 2, rows, A]."""
        return results

    def into_results(self, last: Stage, results: Tensor, sums: Sums) -> Put:
        """Return the put of the last stage into results [C, 2, rows, A]."""
        return into_twiddled(last, results, self._twiddles, sums)

    def put_opened(self, bank: Tensor, target: Tensor, sums: Sums) -> None:
        """Put products of the first stage into results, where no stage follows it."""
        sums.twiddle(target, bank, factor_views(self.held.factors, target.shape))

    # The DFTs over c.

    def closings(self, state: Tensor, target: Lines, rows: Rows, weigh: Weigh | None) -> Block:
        """Yield the DFTs over c of [C, 2, rows, k_a], and the stores of their results."""
        length = self.spread.length
        most = STORED if length <= LONG else PSUM_BANK
        together = max(1, most // length)
        for top, count in chunks(rows.each, together):
            for low, size in chunks(length, most):
                store = Store(target, Place(rows.first + top, low, length), count, size, weigh)
                each = max(1, PSUM_BANK // size)
                block = state[:, :, top : top + count, low : low + size]
                for row, held in chunks(count, each):
                    for start, columns in chunks(size, PSUM_BANK):
                        data = block[:, :, row : row + held, start : start + columns]
                        yield self._closed(data, store, row, start)
                yield After(store.finish)

    def _closed(self, state: Tensor, store: Store, row: int, low: int) -> Task:
        """Compute the DFT over the partitions of [C, 2, rows, k_a], as many as a bank holds."""
        if store.tile is None:
            store.tile = self._result_tile(store)
        _, _, rows, size = state.shape
        last, parts = self.held.last, (state[:, 0], state[:, 1])
        for part in range(2):
            bank = psum((last[0].shape[1], rows, size))
            # W is symmetric.
            for term in range(2):
                multiply(bank, last[SPLIT_TERMS[part][term]], parts[term], term > 0)
            place = store.tile[:, part, row : row + rows, low : low + size]
            evacuate(bank[0 : self.spread.columns], place)
        yield

    def _result_tile(self, store: Store) -> Tensor:
        """Return a tile for results that are stored together, [C, 2, rows, n]."""
        if not self._results:
            return sbuf((self.spread.columns, 2, store.rows, store.size))
        turn = store.place.low // PSUM_BANK % len(self._results)
        return self._results[turn][:, :, :, 0 : store.size]


@dataclass(frozen=True)
class Products:
    """Products of the first stage that share a PSUM bank, for each place of rows in a tile."""

    chunk: Chunk
    row: int  # the first row of the first place
    rows: int  # rows of a place
    digit: int  # the first a', which is what a1 leaves of a
    count: int  # how many a'


@dataclass
class Store:
    """Results that are stored together."""

    lines: Lines
    place: Place
    rows: int
    size: int
    weigh: Weigh | None
    tile: Tensor | None = None  # SBUF [C, 2, rows, size]

    def finish(self) -> None:
        """Store the results, once they are complete."""
        tile, self.tile = self.tile, None
        assert tile is not None
        if self.weigh is not None:
            self.weigh(tile, self.place)
        for part in range(2):
            store_lines(tile[:, part], self.lines, part, self.place)


@dataclass
class Transforms:
    """The transforms of a launch, from lines into lines."""

    kernel: FourStep
    source: Lines
    target: Lines
    weigh: Weigh | None = None

    def setup(self) -> None:
        self.kernel.setup()

    def block(self, rows: Rows, number: int) -> Block:
        source, target = replace(self.source, base=rows.base), replace(self.target, base=rows.base)
        return self.kernel.block(source, target, rows, weigh=self.weigh)


def opening_matrices(spread: Spread, table: Tensor) -> list[Tensor]:
    """Return the matrices of the first stage, see ``Held``, of its table in SBUF.

    The table is [2 r1, 1, 2 r1], for r1 <= 32 again from partition 64 on, or [r1, 2, 2 r1]. For
    real data it is [r1, 1, 2 r1], for r1 <= 64 again from partition 64 on.
    """
    if spread.parts == 2:
        return [table[:, part] for part in range(2)]
    rows = spread.stacked
    return [table[place * HALF : place * HALF + rows, 0] for place in range(spread.places)]


def _runs(low: int, end: int, run: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the a' from low to end as (first, count): whole runs, or a part of one run."""
    while low < end:
        count = min(most, run - low % run, end - low)
        if count == run and most >= run:
            count = min(most, end - low) // run * run
        yield low, count
        low += count
