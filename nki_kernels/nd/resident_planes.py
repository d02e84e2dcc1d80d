"""FFT of images in one trip over HBM: between its stages an image rests in SBUF.

Mathematics.  An image [R, C] has R = r1 r2 and C = c1 c2, rows r = j r2 + m and columns c = i c2 +
n. Four stages contract i, j, n and m, in this order, and W_N = exp(-+2 pi i / N):

    X[K + r1 k, L + c1 l] =
        sum_m W_R^(m (K + r1 k)) sum_n W_C^(n (L + c1 l)) sum_j W_r1^(j K) sum_i W_c1^(i L) x[r, c]

The twiddles are part of the matrices of the last two stages, which have one matrix for each L and
for each K.

Layout on the NeuronCore.  Rows are loaded onto partitions (half, j), with m = half F + f, where f
and the columns lie on the free axis. The Tensor engine transposes runs (f, part, i) of two f, and
multiplies them as its stationary operand, so that rows return to the partitions. From then on the
data is the stationary operand, too: the partitions of a product are the free run of its stationary
operand, which here holds the digits that the next stage contracts. No stage needs a transposition
of its own:

    [(half, j), (f, part, i)] -> [(half, j), (part, L, n)] -> [(L, n), (part, K, m)]
        -> [(K, m), (part, L + c1 l)] -> [(part, K + r1 k), C]

The partitions form two halves of 64. Each half holds all numbers that one or several slabs
contract. Both halves are contracted at once, each on half of the array, real and imaginary part one
after the other. The last stage multiplies the data as its moving operand, and leaves rows on
partitions.

The rows K + r1 k of a half are r2 apart. Therefore K = a + r2 s, and a block of two halves stores
two neighbouring rows on each of 64 partitions.

Why it is fast.  HBM is read once and written once, 16 bytes a point; two passes move twice as much.
As modelled, a stage takes 26 ps a point of the Tensor engine at any radix up to 64; the first stage
takes as much together with its transposition. Products with the first rows run while other rows are
loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..base.arguments import check_shapes
from ..base.engines import HALF, PARTITIONS, PSUM_BANK, hbm, sbuf, transfer
from ..base.isa import Tensor, nki
from ..base.launch import Rows
from ..base.packing import unpack
from ..base.pipeline import TURN, After, Block, Task
from ..base.table_terms import Array, TableSpec, table_spec
from ..base.tables import load_identity, load_tables
from .resident_products import TOGETHER, Piece, Products, Ring, for_arrays, lines, real_matrices

ROW_RADIX = 64  # r1
COLUMN_RADIX = 32  # c1
MAX_POINTS = 2**20  # points of an image, which take 64 KiB of a partition
ROWS = (256, 4096)  # least and most rows of an image
COLUMNS = (128, 2048)  # least and most columns of an image
_LOADED = 48 << 10  # bytes a partition of rows that are loaded ahead


def slabs_in_half(left: int) -> int:
    """Return how many slabs of ``left`` numbers half of the partitions hold."""
    return HALF // left


def check_shape(rows: int, columns: int) -> str:
    """Return why images of this shape are not transformed, or "" where they are."""
    for name, size, (least, most) in (("rows", rows, ROWS), ("columns", columns, COLUMNS)):
        if not least <= size <= most or size & (size - 1):
            return f"takes powers of two from {least} to {most} as {name}"
    return "" if rows * columns <= MAX_POINTS else f"takes up to {MAX_POINTS} points an image"


def stages(rows: int, columns: int) -> tuple[int, ...]:
    """Return the radices, in the order of the stages."""
    return COLUMN_RADIX, ROW_RADIX, columns // COLUMN_RADIX, rows // ROW_RADIX


def resident_planes_tables(
    rows: int, columns: int, inverse: bool = False, scale: float = 1.0
) -> tuple[Array, ...]:
    """Return a table for each stage of ``resident_planes``.

    They are computed in float64 and rounded once. The first is [128, 64], rows (f, part, i),
    columns (part, L). The second is [128, 2, 128], rows (half, j), then part, columns (part, K),
    with K = a + r2 s at the place (a, s). The third is [128, blocks, 2, 128], rows (half, L, n),
    then part, columns (part, l, L). The fourth is [128, blocks, 2, 128], rows (half, s, m), then
    part, columns (part, k, s).

    Args:
        rows, columns: sizes of an image, powers of two from 256 to 4096 and from 128 to 2048,
            up to 2^20 points.
        inverse, scale: as for ``stockham_tables``.
    """
    if reason := check_shape(rows, columns):
        raise ValueError(f"shape ({rows}, {columns}): the kernel {reason}")
    sign = 2j * np.pi * (1 if inverse else -1)
    i, j = np.arange(COLUMN_RADIX), np.arange(ROW_RADIX)
    r2, c2 = rows // ROW_RADIX, columns // COLUMN_RADIX
    opening = scale * np.exp(sign / COLUMN_RADIX * (np.outer(i, i) % COLUMN_RADIX))
    order = (np.arange(r2)[:, None] + r2 * np.arange(slabs_in_half(r2))).reshape(-1)
    row_table = np.exp(sign / ROW_RADIX * (np.outer(j, order) % ROW_RADIX))
    tables = (
        np.tile(real_matrices(opening).swapaxes(0, 1).reshape(HALF, 1, -1), (2, 1, 1)),
        np.tile(real_matrices(row_table).reshape(HALF, 2, -1), (2, 1, 1)),
        _twiddled(sign, i.reshape(-1, 2, slabs_in_half(c2)), c2, COLUMN_RADIX),
        _twiddled(sign, order.reshape(-1, 2, slabs_in_half(r2)), r2, ROW_RADIX),
    )
    return tuple(table.astype(np.float32) for table in tables)


def _twiddled(sign: complex, firsts: Array, left: int, radix: int) -> Array:
    """Return the table [128, blocks, 2, 128] of one of the last two stages.

    Its outputs are K + radix k, with K in ``firsts`` [blocks, half, slab]. Rows are (half, slab, m
    < left), columns (part, k, slab).
    """
    n, m = radix * left, np.arange(left)
    outputs = firsts[..., None] + radix * m  # [block, half, slab, k]
    w = np.exp(sign / n * (m[:, None, None, None, None] * outputs % n))  # [m, block, half, slab, k]
    table = np.einsum("mapbhsk,st->hsmbapkt", real_matrices(w), np.eye(firsts.shape[2]))
    return table.reshape(PARTITIONS, len(firsts), 2, PARTITIONS)


def resident_planes_specs(rows: int, columns: int) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``resident_planes_tables(rows, columns, ...)``."""
    first = [(PARTITIONS, 1, 2 * COLUMN_RADIX), (PARTITIONS, 2, 2 * ROW_RADIX)]
    last = [(PARTITIONS, size // PARTITIONS, 2, PARTITIONS) for size in (columns, rows)]
    return tuple(table_spec(shape) for shape in (*first, *last))


@nki.jit
def resident_planes(x_re, x_im, tables, places):  # type: ignore[no-untyped-def]
    """Transform the images of ``x_re + i x_im`` along both axes.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, R, C].
        tables, places: the two results of ``pack(resident_planes_tables(R, C, ...))``.

    Returns:
        (y_re, y_im), float32 HBM [B, R, C].
    """
    check_shapes(("B", "R", "C"), x_re, x_im)
    y_re, y_im = hbm(x_re.shape), hbm(x_re.shape)
    for_arrays(x_re, Images([x_re, x_im], [y_re, y_im], unpack(tables, places, 4)), 1)
    return y_re, y_im


@dataclass
class Images:
    """What the images [R, C] of a launch share; a block has one."""

    source: Sequence[Tensor]  # HBM [B, R, C] of each part
    target: Sequence[Tensor]
    in_hbm: Sequence[Tensor]  # tables in the order of the stages

    def __post_init__(self) -> None:
        _, rows, self.width = self.source[0].shape
        self.rows, self.columns = rows // ROW_RADIX, self.width // COLUMN_RADIX  # r2 and c2
        shape = (PARTITIONS, 2, 2, self.width)  # [(half, j), f, part, C]
        self.ring = Ring(self._load, shape, max(1, _LOADED // (16 * self.width)))

    def setup(self) -> None:
        """Load tables, those of the last two stages only if no rows are on their way."""
        self.identity, self.tables = load_identity(), load_tables(self.in_hbm[0:2])
        if self.ring.is_idle:
            self._load_last_tables()

    def _load_last_tables(self) -> None:
        # They come after the rows of the first image.
        if len(self.tables) == 2:
            self.tables += load_tables(self.in_hbm[2:4])

    def block(self, rows: Rows, number: int) -> Block:
        pieces = [Piece(rows, first) for first in range(0, self.rows // 2, 2)]
        yield from self.ring.ask(pieces)
        products = Products(self.identity)
        shape = (PARTITIONS, 2, ROW_RADIX, self.rows)  # [(L, n), part, K, m]
        slabs = [sbuf(shape) for _ in range(self.width // PARTITIONS)]
        for piece in pieces:
            yield from self._open(products, piece, slabs)
            yield TURN
        self._load_last_tables()
        for block in range(ROW_RADIX * self.rows // PARTITIONS):
            yield self._close(products, rows, slabs, block)

    def _load(self, piece: Piece) -> None:
        """Load two rows of each partition."""
        for part, source in enumerate(self.source):
            for half in range(2):
                row = half * self.rows // 2 + piece.first
                data = lines(source, piece.rows, 0, row, self.rows, (HALF, 2))
                place = piece.tile[half * HALF : (half + 1) * HALF, :, part]
                transfer(place, data, piece.rows.base)

    def _open(self, products: Products, piece: Piece, slabs: list[Tensor]) -> Block:
        """Run the first two stages of a piece."""
        state = sbuf((PARTITIONS, 2, 2, COLUMN_RADIX, self.columns))  # [(half, j), part, f, L, n]
        for n in range(0, self.columns, TOGETHER):
            yield self._open_columns(products, piece, n, state)
        yield After(partial(self.ring.release, piece))
        runs = state.reshape((PARTITIONS, 2, 2, self.width))
        for index, slab in enumerate(slabs):
            for f in range(2):
                run = runs[:, :, f, index * PARTITIONS : (index + 1) * PARTITIONS]
                m = piece.first + f
                places = [slab[..., m], slab[..., self.rows // 2 + m]]
                yield products.task(places, run, self.tables[1], HALF)

    def _open_columns(self, products: Products, piece: Piece, first: int, state: Tensor) -> Task:
        """Run the first stage of columns n from ``first`` on, both f at once."""
        data = piece.tile.reshape((PARTITIONS, 4 * COLUMN_RADIX, self.columns))
        turned = sbuf((PARTITIONS, TOGETHER, PARTITIONS))  # [(f, part, i), n, (half, j)]
        products.transpose(turned, [data[:, :, first + index] for index in range(TOGETHER)])
        yield
        operands = [turned[:, index : index + 1] for index in range(TOGETHER)]
        places = [state[:, :, f, :, first : first + TOGETHER] for f in range(2)]
        products.multiply(places, operands, self.tables[0], HALF)

    def _close(self, products: Products, rows: Rows, slabs: list[Tensor], block: int) -> Task:
        """Run the last two stages of a block of 128 (K, m), and store its rows in HBM."""
        columns = sbuf((PARTITIONS, 2, self.width))  # [(K, m), part, (l, L)]
        outputs = columns.reshape((PARTITIONS, 2, self.columns, COLUMN_RADIX))
        group = slabs_in_half(self.columns)
        for index, slab in enumerate(slabs):
            runs = slab.reshape((PARTITIONS, 2, ROW_RADIX * self.rows))
            run = runs[:, :, block * PARTITIONS : (block + 1) * PARTITIONS]
            firsts = (2 * index * group, (2 * index + 1) * group)
            places = [outputs[..., first : first + group] for first in firsts]
            products.multiply(places, [run], self.tables[2][:, index], HALF)
        del slabs, slab, runs, run
        yield
        result = sbuf((PARTITIONS, 2, self.width))  # [(part, k, s), half, C]
        step = min(self.width, PSUM_BANK)
        for low in range(0, self.width, step):
            moving = columns[:, :, low : low + step]
            places = [result[:, half, low : low + step] for half in range(2)]
            products.multiply(places, [self.tables[3][:, block]], moving, HALF)
        for part, target in enumerate(self.target):
            place = lines(target, rows, 0, 2 * block, self.rows, (HALF, 2))
            transfer(place, result[part * HALF : (part + 1) * HALF], rows.base)
