"""FFT over three axes in one trip over HBM: between its axes a volume rests in SBUF.

Mathematics.  The transform of a volume [n0, n1, n2] of real or complex numbers transforms n2, then
n0, then n1, each by one product with the axis's DFT matrix. For real data, n2/2 + 1 outputs of the
first are kept. Where n1 = 128, VectorE first computes sums and differences of rows 64 apart: the
outputs k1 = 2 q are products of the 64 sums, and k1 = 2 q + 1 are products of the 64 differences.

Layout on the NeuronCore.  A volume is loaded with n0 on partitions, each with all of its [n1, n2];
two volumes are loaded at once where n0 = 64. The Tensor engine transposes runs of 128 numbers, one
or two rows n1, and multiplies them as its stationary operand. From then on the data is the
stationary operand, too: the partitions of a product are the free run of its stationary operand,
which here is the axis that comes next.

    [n0, (n1, n2)] -> [(n1, n2), n0] -> [n0, (part, k2, n1)] -> [(k2, n1), (part, k0)]
        -> [k0, (part, k1, k2)]

Real and imaginary part are contracted one after the other. Where an axis has 64 numbers, the
partitions form two halves, with one volume or one k2 in each. Both halves are contracted at once,
each on half of the array. Where n1 = 128, sums and differences are the two halves. The result is
stored in two parts along k1, as runs of k1; the first part is stored while the second is computed.

Where transposes mix rows, on NeuronCore-v2, each volume has transposes of its own, so that no
volume reaches another.

Why it is fast.  HBM is read once and written once. A pass for each axis would move three times as
much, in runs of one row of a half spectrum. Real data has half the work from the first axis on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..base.arguments import check_shapes
from ..base.engines import HALF, PARTITIONS, PSUM_BANK, element_count, hbm, sbuf, transfer
from ..base.isa import Tensor, nisa, nki, nl
from ..base.launch import Rows
from ..base.packing import unpack
from ..base.pipeline import TURN, After, Block, Task
from ..base.roots import dft_matrix
from ..base.table_terms import Array, TableSpec, table_spec
from ..base.tables import load_identity, load_tables
from .resident_products import TOGETHER, Piece, Products, Ring, for_arrays, lines, real_matrices

SIZES = (HALF, PARTITIONS)  # sizes of an axis
MAX_STATE = 65 * 128  # numbers k2 n1 of a part; the smallest chip holds two states
_PIECE = 4096  # numbers a partition that are loaded at a time
_RING = 12288  # numbers a partition that are loaded and not yet used
_PRODUCED = 32  # outputs of n1 that a product makes
_STEPS = 2  # parts of the result, each with its products of 64 n1
_SPLIT = 4  # outputs k2 whose sums and differences are made at a time


def check_shape(shape: tuple[int, ...], is_real: bool) -> str:
    """Return why volumes of this shape are not transformed, or "" where they are."""
    if len(shape) != 3:
        return f"takes 3 axes, not {len(shape)}"
    for size in shape:
        if size not in SIZES:
            return f"takes axes of {HALF} or {PARTITIONS}"
    state = outputs(shape, is_real) * shape[1]
    return "" if state <= MAX_STATE else f"takes up to {MAX_STATE} outputs k2 times rows n1"


def outputs(shape: tuple[int, ...], is_real: bool) -> int:
    """Return how many outputs of the last axis are kept."""
    return shape[2] // 2 + 1 if is_real else shape[2]


def resident_volumes_tables(
    shape: tuple[int, ...], is_real: bool, inverse: bool = False, scale: float = 1.0
) -> tuple[Array, ...]:
    """Return a table for each axis of ``resident_volumes`` or ``resident_real_volumes``.

    They are computed in float64 and rounded once. Rows are the inputs, which are there twice if
    there are 64, then the part. The table of n2 is [128, 1 or 2, 2 kept], columns (part, k2). The
    table of n0 is [128, 2, 2 n0], columns (part, k0). The table of n1 is [128, 2, 128], columns (q
    in steps of 32, part, q of a step), where k1 is q, or 2 q for sums and 2 q + 1 for differences.

    Args:
        shape: (n0, n1, n2), each 64 or 128.
        is_real: whether the data is real.
        inverse, scale: as for ``stockham_tables``.

    Returns:
        Three float32 arrays, of n2, n0 and n1.
    """
    if reason := check_shape(shape, is_real):
        raise ValueError(f"shape {shape}: the kernel {reason}")
    n0, n1, n2 = shape
    kept = outputs(shape, is_real)
    last = real_matrices(dft_matrix(n1, inverse)[:HALF])
    if n1 > HALF:
        last = np.concatenate([last[..., 0::2], last[..., 1::2]])
    found = (
        real_matrices(scale * dft_matrix(n2, inverse))[:, : 1 if is_real else 2, :, :kept],
        real_matrices(dft_matrix(n0, inverse)),
        last.reshape(-1, 2, 2, _STEPS, _PRODUCED).swapaxes(2, 3),
    )
    flat = [table.reshape(*table.shape[:2], -1).astype(np.float32) for table in found]
    return tuple(np.tile(table, (PARTITIONS // len(table), 1, 1)) for table in flat)


def resident_volumes_specs(shape: tuple[int, ...], is_real: bool) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``resident_volumes_tables(shape, is_real, ...)``."""
    opening = (PARTITIONS, 1 if is_real else 2, 2 * outputs(shape, is_real))
    shapes = (opening, (PARTITIONS, 2, 2 * shape[0]), (PARTITIONS, 2, 2 * HALF))
    return tuple(table_spec(each) for each in shapes)


@nki.jit
def resident_volumes(x_re, x_im, tables, places):  # type: ignore[no-untyped-def]
    """Transform the volumes of ``x_re + i x_im`` over three axes.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, n0, n1, n2].
        tables, places: the two results of ``pack(resident_volumes_tables((n0, n1, n2), False,
            ...))``.

    Returns:
        (y_re, y_im), float32 HBM [B, n0, n1, n2].
    """
    return transform_volumes([x_re, x_im], unpack(tables, places, 3))


@nki.jit
def resident_real_volumes(x, tables, places):  # type: ignore[no-untyped-def]
    """Transform real volumes over three axes.

    The arguments are those of ``resident_volumes``, but for one part of x and
    ``resident_volumes_tables((n0, n1, n2), True, ...)``. The results are [B, n0, n1, n2/2 + 1].
    """
    return transform_volumes([x], unpack(tables, places, 3))


def transform_volumes(source: Sequence[Tensor], tables: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Transform HBM source, one part or two, by tables in HBM; return both parts of the result."""
    check_shapes(("B", "n0", "n1", "n2"), *source)
    shape = (*source[0].shape[:3], tables[0].shape[2] // 2)
    target = hbm(shape), hbm(shape)
    for_arrays(source[0], Volumes(source, target, tables), PARTITIONS // shape[1])
    return target


@dataclass
class Volumes:
    """What the volumes [n0, n1, n2] of a launch share; a block has one or, if n0 = 64, two."""

    source: Sequence[Tensor]  # HBM [B, n0, n1, n2] of each part
    target: Sequence[Tensor]
    in_hbm: Sequence[Tensor]  # tables of n2, n0 and n1

    def __post_init__(self) -> None:
        _, self.n0, self.n1, self.n2 = self.source[0].shape
        self.parts, self.kept = len(self.source), self.target[0].shape[3]
        self.count = min(self.n1, _PIECE // (self.parts * self.n2))  # rows n1 of a piece
        shape = (PARTITIONS, self.parts, self.count, self.n2)  # [(member, n0), part, n1, n2]
        self.ring = Ring(self._load, shape, _RING // element_count(shape[1:]))

    def setup(self) -> None:
        self.identity, self.tables = load_identity(), load_tables(self.in_hbm)

    def block(self, rows: Rows, number: int) -> Block:
        pieces = [Piece(rows, first) for first in range(0, self.n1, self.count)]
        yield from self.ring.ask(pieces)
        # Where n1 = 128, VectorE has the sums and differences, too.
        products = Products(self.identity, 2 if self.n1 == HALF else 3)
        width, numbers = rows.each * self.n0, self.kept * self.n1
        state = sbuf((width, 2, self.kept, self.n1))  # [(member, n0), part, k2, n1]
        for piece in pieces:
            for low in range(0, self.count, TOGETHER * PARTITIONS // self.n2):
                yield self._open(products, piece, low, state)
            yield After(partial(self.ring.release, piece))
            yield TURN
        ends = range(numbers, 0, -PARTITIONS)
        slabs = [sbuf((min(PARTITIONS, end), 2, width)) for end in ends]  # [(k2, n1), part, ...]
        for k2 in range(0, self.kept, _SPLIT):
            yield self._transform_first(products, state, k2, slabs)
        del state
        for step in range(_STEPS):
            yield from self._close(products, rows, slabs, step)

    def _load(self, piece: Piece) -> None:
        for data, place in self._members(self.source, piece.rows, piece.first, piece.tile):
            transfer(place, data, piece.rows.base)

    def _store(self, rows: Rows, first: int, result: Tensor) -> None:
        for place, data in self._members(self.target, rows, first, result):
            transfer(place, data, rows.base)

    def _members(
        self, parts: Sequence[Tensor], rows: Rows, first: int, tile: Tensor
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield where rows from ``first`` on are in HBM and in SBUF [(member, n0), part, ...]."""
        for part, x in enumerate(parts):
            for member in range(rows.each):
                low, shape = member * self.n0, (self.n0, tile.shape[2])
                yield lines(x, rows, member, first, self.n1, shape), tile[low : low + self.n0, part]

    def _open(self, products: Products, piece: Piece, low: int, state: Tensor) -> Task:
        """Transform n2 in four runs of a piece, from its row ``low`` on."""
        width, each = state.shape[0], PARTITIONS // self.n2
        data = piece.tile[0:width].reshape((width, self.parts, self.count // each, PARTITIONS))
        turned = sbuf((PARTITIONS, self.parts, TOGETHER, width))  # [(n1, n2), part, run, ...]
        for part in range(self.parts):
            runs = [data[:, part, low // each + index] for index in range(TOGETHER)]
            products.transpose(turned[:, part], runs, width // self.n0)
        yield
        # A sum of two parts has a bank of its own. Single products share one.
        fits = 2 * TOGETHER * self.kept <= PSUM_BANK
        together = 1 if self.parts == 2 else TOGETHER if fits else TOGETHER // 2
        for run in range(0, TOGETHER, together):
            operands = [turned[:, :, run + index] for index in range(together)]
            n1 = piece.first + low + run * each
            rows = state[..., n1 : n1 + together * each]
            places = [rows[..., half::each] for half in range(each)]
            products.multiply(places, operands, self.tables[0], self.n2)

    def _transform_first(
        self, products: Products, state: Tensor, first: int, slabs: list[Tensor]
    ) -> Task:
        """Transform n0 for some k2 from ``first`` on."""
        some = state[:, :, first : min(first + _SPLIT, self.kept)]
        runs = (some if self.n1 == HALF else _sums(some)).flatten_dims(2, 3)
        del state, some
        yield
        for low in range(0, runs.shape[2], PARTITIONS):
            slab = slabs[(first * self.n1 + low) // PARTITIONS]
            firsts = range(0, slab.shape[2], self.n0)
            places = [slab[..., low : low + self.n0] for low in firsts]
            run = runs[:, :, low : low + slab.shape[0]]
            products.multiply(places, [run], self.tables[1], self.n0)

    def _close(self, products: Products, rows: Rows, slabs: list[Tensor], step: int) -> Block:
        """Transform n1 for a part of its outputs, and store them in HBM."""
        count, columns = _PRODUCED * self.n1 // HALF, 2 * _PRODUCED  # k1 of the part; of a product
        result = sbuf((rows.each * self.n0, 2, count, self.kept))
        table = self.tables[2][:, :, step * columns : (step + 1) * columns]
        for index, slab in enumerate(slabs):
            if self.n1 == HALF:  # a half has a k2 of its own
                halves = slab.shape[0] // HALF
                places = [result[..., 2 * index + half] for half in range(halves)]
            else:  # a half has every second k1
                places = [result[:, :, half::2, index] for half in range(2)]
            yield products.task(places, slab, table, HALF)
        yield After(partial(self._store, rows, step * count, result))


def _sums(state: Tensor) -> Tensor:
    """Return the sums and the differences of rows n1 [..., 128] that are 64 apart."""
    found = sbuf(state.shape)
    one, other = state[..., :HALF], state[..., HALF:]
    for place, op in ((found[..., :HALF], nl.add), (found[..., HALF:], nl.subtract)):
        nisa.tensor_tensor(dst=place, data1=one, data2=other, op=op, engine=nisa.engine.vector)
    return found
