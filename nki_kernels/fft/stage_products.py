"""The products of a stage: transposed slabs times its table, from a state in SBUF to a put.

A put is a function that takes results out of PSUM: into the next stage's state, into rows in
natural order, or anywhere else. So algorithms hand numbers to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..base import chip
from ..base.engines import (
    HALF,
    NARROW,
    PARTITIONS,
    WHOLE_RADIX,
    clear,
    evacuate,
    even_columns,
    multiply_row_tile,
    padded_columns,
    psum,
    row_tiles,
    sbuf,
    transfer,
    transpose,
    transposed_dtype,
)
from ..base.isa import Tensor, nisa
from ..base.pipeline import TURN, After, Block, Task
from ..base.row_guard import mark_of
from ..base.table_terms import PAIRS, evacuate_operand, table_terms, term_count
from ..base.tables import Stream
from .stage import Group, Stage

_CHUNK = 2048  # numbers a partition of a streamed table that are loaded at a time


@dataclass(frozen=True)
class Results:
    """Results of a stage in PSUM, on their way to a put."""

    bank: Tensor  # [P, part, k, slab, product], or where left = 1 [P, part, k, product, slab]
    row: int
    K: int  # of the first product
    m: int  # m' of the first product
    is_scalar: bool = True  # whether ScalarE evacuates them


Put = Callable[[Results], None]


@dataclass(frozen=True)
class Matrices:
    """Matrices of a stage in SBUF."""

    pieces: list[list[Tensor]]  # [piece][term], each [rows, matrices, columns]
    first: int  # the first product that reads them
    sharing: int  # products that share a matrix

    def matrices(self, product: int, tiles: int) -> list[list[list[Tensor]]]:
        """Return a product's matrices [piece][term][row tile], each [rows of the tile, columns]."""
        number = (product - self.first) // self.sharing
        return [
            [[term[rows, number] for rows in row_tiles(tiles)] for term in terms]
            for terms in self.pieces
        ]


@dataclass
class Tabled:
    """A stage with its table."""

    stage: Stage
    table: Tensor  # HBM [rows, matrices, columns], or two such terms
    held: list[list[Tensor]] | None = None  # in SBUF, [piece][term], or None: it is streamed
    chunk_numbers: int = _CHUNK  # about the numbers of a partition that are streamed at a time

    @property
    def terms(self) -> int:
        """Terms of the table: 2 if it is refined."""
        return term_count(self.table, 3)

    @property
    def steps(self) -> int:
        """Products that are summed for each piece."""
        return 2 * self.terms - 1

    @property
    def sharing(self) -> int:
        """Products that share a matrix."""
        return self.stage.products // self.table.shape[-2]

    @property
    def width(self) -> int:
        """Numbers a partition of each of its matrices, with all pieces and terms."""
        return self.terms * self.stage.pieces * self.table.shape[-1]

    @property
    def chunk(self) -> int:
        """Matrices of a chunk, where the table is streamed: whole groups of products."""
        return self.stage.most * max(1, self.chunk_numbers // (self.stage.most * self.width))

    def pieces(self) -> list[Tensor]:
        """Return the table in HBM by pieces, each by terms: [rows, matrices, columns]."""
        rows = self.stage.rows
        return [
            term[piece * rows : (piece + 1) * rows]
            for piece in range(self.stage.pieces)
            for term in table_terms(self.table, 3)
        ]

    def by_piece(self, tiles: Sequence[Tensor]) -> list[list[Tensor]]:
        """Return tiles in the order of ``pieces`` as [piece][term]."""
        return [list(tiles[at : at + self.terms]) for at in range(0, len(tiles), self.terms)]


@dataclass
class Tools:
    """What stages use beside their tables."""

    identity: Tensor
    stream: Stream | None = None  # for streamed tables
    is_scalar: bool = False  # whether ScalarE, not VectorE, evacuates transposed slabs


def new_state(stage: Stage, partitions: int, rows: int, dtype: Any) -> Tensor:
    """Allocate SBUF for a stage's input, with zeros between and behind its slabs."""
    numbers = rows * stage.numbers
    state = sbuf((partitions, numbers + stage.padding), dtype)
    clear_padding(stage, state, rows)
    used = stage.parts * stage.contracted * stage.left
    if used < stage.pitch:
        gaps = state[:, 0:numbers].reshape((partitions, rows * stage.done, stage.pitch))
        clear(gaps[:, :, used:], nisa.engine.gpsimd)
    return state


def clear_padding(stage: Stage, state: Tensor, rows: int) -> None:
    """Write zeros behind so many rows of a state, where transposes read them."""
    if stage.padding > 0:
        end = rows * stage.numbers
        clear(state[:, end : end + stage.padding])


def natural_rows(stage: Stage, state: Tensor, rows: int) -> Tensor:
    """Return a first stage's state as [P, row, part, n]."""
    whole = state[:, 0 : rows * stage.numbers].reshape((state.shape[0], rows, stage.numbers))
    numbers = whole[:, :, 0 : stage.parts * stage.inputs]
    return numbers.reshape_dim(2, (stage.parts, stage.inputs))


def transform(
    stages: Sequence[Tabled],
    state: Tensor,
    rows: int,
    tools: Tools,
    put: Put,
    finish: Callable[[int], None] | None = None,
) -> Block:
    """Transform the rows in a state of the first stage; ``put`` takes the last one's results.

    finish: called with each row when its results are on their way.
    """
    for index, tabled in enumerate(stages):
        stage, is_last = tabled.stage, index + 1 == len(stages)
        following, put_here = state, put
        if not is_last:
            after = stages[index + 1].stage
            following = new_state(after, state.shape[0], rows, state.dtype)
            put_here = into_state(stage, after, following, rows)
        for row in range(0, rows, stage.pair):
            yield from row_products(
                tabled, state, row, min(stage.pair, rows - row), tools, put_here
            )
            if is_last and finish is not None:
                yield After(partial(finish, row))
        if not is_last:
            yield TURN
        state = following


def row_products(
    tabled: Tabled, state: Tensor, row: int, pair: int, tools: Tools, put: Put
) -> Block:
    """Yield the products of a row or, in row tiles of a first stage, of ``pair`` rows."""
    stage = tabled.stage
    tiles = pair if stage.done == 1 else stage.tiles
    if tabled.held is not None:
        matrices = Matrices(tabled.held, 0, tabled.sharing)
        for group in stage.groups():
            yield product_group(tabled, state, row, tiles, group, tools, matrices, put)
        return
    each = tabled.chunk * tabled.sharing  # products of a chunk
    ahead, load = _chunk(tabled, tools.stream, 0)
    yield After(load)
    matrices = ahead
    for group in _within_chunks(stage, each):
        if group.first % each == 0:
            matrices = ahead
            if group.first + each < stage.products:
                # The load follows the last products of the chunk before, whose tile it takes.
                ahead, load = _chunk(tabled, tools.stream, group.first // each + 1)
                yield After(load)
        yield product_group(tabled, state, row, tiles, group, tools, matrices, put)


def _within_chunks(stage: Stage, each: int) -> Iterable[Group]:
    """Yield a stage's groups, parted where a chunk of ``each`` products ends."""
    for group in stage.groups():
        end = (group.first // each + 1) * each
        if group.first + group.count <= end:
            yield group
            continue
        count = end - group.first
        step = stage.slabs * stage.tiles if stage.left == 1 else 0
        yield Group(group.first, group.K, group.m, count)
        m = group.m if stage.left == 1 else group.m + count
        yield Group(end, group.K + count * step, m, group.count - count)


def _chunk(
    tabled: Tabled, stream: Stream | None, number: int
) -> tuple[Matrices, Callable[[], None]]:
    """Return a chunk of a streamed table, and a function that issues its loads."""
    assert stream is not None
    first = number * tabled.chunk
    last = min(first + tabled.chunk, tabled.table.shape[-2])
    sources = [piece[:, first:last] for piece in tabled.pieces()]
    places = stream.places(sources)

    def load() -> None:
        for place, source in zip(places, sources, strict=True):
            transfer(place, source)

    return Matrices(tabled.by_piece(places), first * tabled.sharing, tabled.sharing), load


def product_group(
    tabled: Tabled,
    state: Tensor,
    row: int,
    tiles: int,
    group: Group,
    tools: Tools,
    matrices: Matrices,
    put: Put,
) -> Task:
    """Make the products of a group: transpose slabs, multiply them in ``tiles`` row tiles."""
    stage, pieces, left = tabled.stage, tabled.stage.pieces, tabled.stage.left
    steps, count = PAIRS[: tabled.steps], stage.together
    operands = [
        _transposed(tabled, state, row, tiles, group, low, tools)
        for low in range(0, group.count, count)
    ]
    yield
    is_sum = len(steps) * pieces > 1  # a sum has a PSUM bank of its own
    together = 1 if is_sum else group.count
    halves, size = row_tiles(stage.tiles)[:tiles], PARTITIONS // stage.tiles
    shape = (operands[0][0].shape[-1], stage.result_parts, stage.produced, stage.slabs, together)
    if left == 1:  # consecutive K side by side
        shape = (*shape[:3], together, stage.slabs)
    number, matrix = -1, list[list[list[Tensor]]]()
    for low in range(0, group.count, together):
        banks = [psum(shape) for _ in range(tiles)]
        products = []  # views of them all come first, as Python is fast at equal work in a row
        for index in range(low, low + together):
            terms, here = operands[index // count], index % count
            if number != (number := (group.first + index) // matrices.sharing):
                matrix = matrices.matrices(group.first + index, stage.tiles)
            places = [
                bank[:, :, :, index - low] if left == 1 else bank[..., index - low]
                for bank in banks
            ]
            for step, (term, factor) in enumerate(steps):
                for piece in range(pieces):
                    for tile, (place, rows) in enumerate(zip(places, halves, strict=True)):
                        data, held = terms[term][rows, here, piece], matrix[piece][factor][tile]
                        products.append((place, data, held, tile * HALF, step + piece > 0))
        for place, data, held, first, is_more in products:
            multiply_row_tile(place, data, held, first, size, is_more)
        for tile, bank in enumerate(banks):
            # With refined tables ScalarE alone would take longer than the products. VectorE helps,
            # unless it would keep ScalarE from PSUM.
            helps = len(steps) > 1 and (low + tile) % 2 == 1 and not chip.psum_port_is_shared()
            results = bank[0 : state.shape[0]]
            put(Results(results, *stage.results_at(row, group, low, tile), not helps))


def _transposed(
    tabled: Tabled, state: Tensor, row: int, tiles: int, group: Group, low: int, tools: Tools
) -> list[Tensor]:
    """Transpose slabs of a PSUM bank's products; return terms [rows, product, piece, P]."""
    stage, partitions, pieces = tabled.stage, state.shape[0], tabled.stage.pieces
    depth = stage.rows if tiles == stage.tiles else WHOLE_RADIX  # else the other tile has no row
    wide, count = max(depth, NARROW + 1), min(stage.together, group.count - low)
    columns, dtype = padded_columns(partitions, depth), transposed_dtype(state.dtype)
    bank = psum((wide, count, pieces, even_columns(columns, dtype)), dtype)[..., 0:columns]
    identity, stride = tools.identity[0:partitions, 0:columns], stage.stride
    views = []
    for index in range(count):
        for piece in range(pieces):
            first = stage.first_number(row, group, low + index, piece)
            end = first + (wide - 1) * stride + 1
            views.append((bank[:, index, piece], state[:, first:end:stride]))
    for place, data in views:
        transpose(place, data, identity)
    is_scalar = tools.is_scalar or (stage.done > 1 and chip.transposes_mix_rows())
    return evacuate_operand(bank[0:depth], tabled.table.dtype, tabled.terms, is_scalar)


# Puts.


def into_state(stage: Stage, after: Stage, following: Tensor, rows: int) -> Put:
    """Return the put that makes results the next stage's input."""
    y = following[:, 0 : rows * after.numbers]
    y = y.reshape((following.shape[0], rows, after.done, after.pitch))
    y = y[:, :, :, 0 : 2 * after.contracted * after.left]
    y = y.reshape_dim(3, (after.contracted, 2, after.left))
    ends_axis = after.before == after.done  # its outputs are in natural order from then on
    order = (stage.before, stage.produced, stage.inside) if ends_axis else None
    y = y.reshape_dim(2, order or (stage.produced, stage.done))

    def put(results: Results) -> None:
        here = y[:, results.row]
        if ends_axis:
            own, others = divmod(results.K, stage.before)
            here = here[:, others, :, own]
        else:
            here = here[:, :, results.K]
        for place, data in _state_places(stage, here, results):
            evacuate(data, place, is_scalar=results.is_scalar)

    return put


def _state_places(stage: Stage, y: Tensor, results: Results) -> list[tuple[Tensor, Tensor]]:
    """Return where results belong in y, their K's [P, k, j', part, m''] in the next state."""
    bank, m = results.bank, results.m
    g, count = stage.slabs, bank.shape[4]
    inner = stage.left // stage.following
    if stage.following % g > 0:  # slab = (j', slab): with the parts that is a dimension too many
        digits = (stage.following, g // stage.following)
        y = y.reshape_dim(4, (digits[1], stage.spacing))[:, :, :, :, :, m : m + count]
        return [(y[:, :, :, part], bank[:, part].reshape_dim(2, digits)) for part in range(2)]
    y = y.reshape_dim(2, (g, stage.following // g))  # j' = (slab, j'')
    if inner == 1:
        return [(y[:, :, :, m : m + count, :, 0].permute((0, 4, 1, 2, 3)), bank)]
    j, m = divmod(m, inner)
    return [(y[:, :, :, j, :, m : m + count].permute((0, 3, 1, 2, 4)), bank)]


def natural_places(stage: Stage, y: Tensor, K: int, count: int) -> Tensor:
    """Return where results belong in outputs [..., n] in natural order: [..., k, product, slab]."""
    last, g = len(y.shape) - 1, stage.slabs
    if stage.before == 1:
        y = y.reshape_dim(last, (stage.produced, stage.done))
    else:
        own, K = divmod(K, stage.run)
        y = y.reshape_dim(last, (stage.before, stage.produced, stage.inside))[..., own]
        y = y.permute((*range(last), last + 1, last))
    step = g * stage.tiles // stage.pair  # K of a product
    low = K // step * step
    y = y[..., low : low + count * step].reshape_dim(len(y.shape) - 1, (count, step))
    return y[..., K - low : K - low + g]


def _natural_runs(stage: Stage, y: Tensor, results: Results) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield ``natural_places`` of results with these, in parts where the run of their K ends."""
    step = stage.slabs * (stage.tiles // stage.pair)
    count, first = results.bank.shape[3], 0
    while first < count:
        K = results.K + first * step
        some = min(count - first, -(-(stage.run - K % stage.run) // step))
        yield natural_places(stage, y, K, some), results.bank[:, :, :, first : first + some]
        first += some


def into_rows(stage: Stage, row_of: Callable[[int], Tensor], marks: Tensor | None = None) -> Put:
    """Return the put of a last stage into rows [P, part, n] in natural order.

    marks: [P, rows], added to the results of rows that may be set aside.
    """

    def put(results: Results) -> None:
        row, is_scalar = results.row, results.is_scalar
        mark = mark_of(marks, row)
        for place, bank in _natural_runs(stage, row_of(row), results):
            evacuate(bank, place, is_scalar=is_scalar, factor=stage.factor, marks=mark)

    return put
