"""Real part of the transform of real planes: one launch, which reads and writes HBM once.

Mathematics.  For a real plane x [S, H], with angles a = 2 pi s k / S and b = 2 pi h l / H,

    Y[k, l] = Re sum_s sum_h exp(-i a) exp(-i b) x[s, h]
    E[k, l] = sum_s sum_h cos(a) cos(b) x[s, h],  O[k, l] = sum_s sum_h sin(a) sin(b) x[s, h]
    Y[k, l] = Y[S - k, H - l] = E[k, l] - O[k, l],  Y[S - k, l] = Y[k, H - l] = E[k, l] + O[k, l]

so that k <= S/2 and l <= H/2 suffice. The sums are products with matrices of cosines and sines: P
and Q over s, then E of P and O of Q over h. For an even length N of an axis, the two halves of
the data are added before, for even frequencies, and subtracted, for odd ones, because exp(-2 pi i
(n + N/2) k / N) = (-1)^k exp(-2 pi i n k / N). This halves the products. A scale belongs to the
matrices of the first axis.

Layout on the NeuronCore.  Rows s lie on partitions. The plane is the stationary operand of the
first product, whose results therefore lie on the partitions of h, which the second product
contracts, as its moving operand:

    HBM -> x [s, h] -> halves added and subtracted [s, sign, h] -> P, Q [h, part, k]
        -> halves added and subtracted [h, sign, part, k] -> E, O -> E - O, E + O [l, sign, k]
        -> products with I for l, with J for H - l: [k, h] -> HBM
        -> the same with E + O and E - O in turn, times J: [S - k, h] -> HBM

J is the matrix that reverses an order, because access patterns cannot. Axes are cut into chunks of
up to 128. The numbers of a plane meet only each other, so that planes are independent.

Why it is fast.  Neither spectra nor imaginary parts pass through HBM, and nothing is left to be
mirrored. A plane of 512 x 768 moves 12300 columns of products at 4 cycles each, and 4600 columns of
transposes and reversals at 2 cycles, over the Tensor engine. This grows with S H (S + H), so that
the planner may prefer separate launches for large planes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..base.arguments import check_dimensions, check_tables
from ..base.engines import (
    PARTITIONS,
    PSUM_BANK,
    Turns,
    chunks,
    cuts,
    evacuate,
    hbm,
    multiply,
    psum,
    sbuf,
    transfer,
    transpose,
)
from ..base.isa import Tensor, nisa, nki, nl
from ..base.launch import Rows, for_rows, singles
from ..base.packing import unpack
from ..base.pipeline import TURN, After, Block, Order, Single, Task, early
from ..base.table_terms import Array, TableSpec, table_spec
from ..base.tables import load_few_tables, load_identity
from ..nd.resident_products import Piece, Ring, lines

SHORTEST = 66  # points of an axis; shorter ones have chunks that some chips refuse as stationary
_FOLDED = 2 * SHORTEST  # points from which on an even axis is folded
_LOADED = 24 << 10  # bytes a partition of rows that are loaded ahead
_ORDER = Order(3, spread=early, begun=3)
_DMA_WRITTEN = 56 << 10  # bytes a partition of rows and tables that may stay where DMA wrote them


@dataclass(frozen=True)
class Axis:
    """An axis of N points, whose halves are added and subtracted where its ``radix`` is 2."""

    n: int

    @property
    def radix(self) -> int:
        """2 where N is even, except for short axes."""
        return 2 if self.n % 2 == 0 and self.n >= _FOLDED else 1

    @property
    def points(self) -> int:
        """Points that are contracted."""
        return self.n // self.radix

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """The chunks of these points."""
        return cuts(0, self.points)

    @property
    def half(self) -> int:
        """Frequencies 0 .. N/2."""
        return self.n // 2 + 1

    def kept(self, residue: int) -> int:
        """Return how many of the frequencies have a residue modulo the radix."""
        return len(range(residue, self.half, self.radix))

    def column(self, residue: int, part: int) -> int:
        """Return the first column in tables of a residue and of its cosines or its sines."""
        return 2 * residue * self.kept(0) + part * self.kept(residue)

    def matrices(self, scale: float) -> list[Array]:
        """Return a table [point, (residue, part, frequency)] for each chunk."""
        frequencies = [np.arange(first, self.half, self.radix) for first in range(self.radix)]
        point, found = np.arange(self.points)[:, None], []
        for some in frequencies:
            angle = 2 * np.pi / self.n * (point * some % self.n)
            found += [np.cos(angle), np.sin(angle)]
        whole = (scale * np.concatenate(found, 1)).astype(np.float32)
        return [whole[low:end] for low, end in self.chunks]

    def specs(self) -> list[Any]:
        """Return the (shape, dtype) of each of ``matrices``."""
        return [table_spec((end - low, 2 * self.half)) for low, end in self.chunks]


def check_shape(rows: int, columns: int) -> str:
    """Return why planes of this shape are not transformed, or "" where they are."""
    for name, n in (("rows", rows), ("columns", columns)):
        if n < SHORTEST:
            return f"takes {SHORTEST} {name} or more"
    down, along = Axis(rows), Axis(columns)
    if 2 * down.kept(0) > PSUM_BANK:
        return "takes up to 1022 rows, and up to 511 for odd numbers"
    if along.points > PSUM_BANK:
        return "takes up to 1024 columns, and up to 511 for odd numbers"
    return ""


def real_planes_tables(rows: int, columns: int, scale: float = 1.0) -> tuple[Array, ...]:
    """Return the tables of ``real_planes``, computed in float64 and rounded once.

    The first is J [128, 128]. Then follows a table for each chunk of rows s, [s, 2 (S // 2 + 1)],
    and one for each chunk of columns h, [h, 2 (H // 2 + 1)]. Their columns are cosines and then
    sines of all frequencies. For axes that are folded, those of even frequencies come first.

    Args:
        rows, columns: S and H, see ``check_shape``.
        scale: a factor on the transform.
    """
    if reason := check_shape(rows, columns):
        raise ValueError(f"shape ({rows}, {columns}): the kernel {reason}")
    reversal = np.eye(PARTITIONS, dtype=np.float32)[::-1]
    return reversal, *Axis(rows).matrices(scale), *Axis(columns).matrices(1.0)


def real_planes_specs(rows: int, columns: int) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``real_planes_tables(rows, columns, ...)``."""
    reversal = table_spec((PARTITIONS, PARTITIONS))
    return reversal, *Axis(rows).specs(), *Axis(columns).specs()


@nki.jit
def real_planes(x, tables, places):  # type: ignore[no-untyped-def]
    """Compute the real part of the transform of real planes along both axes.

    Args:
        x: float32 HBM [B, S, H].
        tables, places: the two results of ``pack(real_planes_tables(S, H, ...))``.

    Returns:
        y, float32 HBM [B, S, H].
    """
    check_dimensions("x", x, ("B", "S", "H"))
    y = hbm(x.shape)
    work = RealPlanes(x, y, unpack(tables, places))
    for_rows(x.shape[0], work, 1, singles, _ORDER)
    return y


@dataclass
class RealPlanes:
    """What the planes of a launch share; a block has one."""

    source: Tensor  # HBM [B, S, H]
    target: Tensor
    in_hbm: Sequence[Tensor]  # J, and the tables of chunks of s and of h

    def __post_init__(self) -> None:
        _, rows, columns = self.source.shape
        self.down, self.along = Axis(rows), Axis(columns)
        shape = (PARTITIONS, self.down.radix, columns)  # [s, half, h]
        least, size = len(self.down.chunks), 4 * self.down.radix * columns
        held = 2 * least if self.down.radix == 1 else max(least, min(2 * least, _LOADED // size))
        self.ring = Ring(self._load, shape, held)
        check_tables(self.in_hbm, 1 + len(self.down.chunks) + len(self.along.chunks))
        self.count = 1 + len(self.down.chunks)  # tables of the first product, and J
        numbers = held * self.down.radix * columns
        numbers += sum(table.shape[1] for table in self.in_hbm)
        self.is_little = 4 * numbers <= _DMA_WRITTEN
        self.identity = sbuf((PARTITIONS, PARTITIONS))
        self.cosines = list[Tensor]()  # tables of the first product, in SBUF
        self.later = list[Tensor]()  # J, and the tables of the second product

    def setup(self) -> None:
        """Load tables, those of the second axis only if no rows are on their way."""
        self.cosines = load_few_tables(self.in_hbm[1 : self.count], self.is_little)
        self.later = list[Tensor]()
        if self.ring.is_idle:
            self._load_later()

    def _load_later(self) -> None:
        """Load what the first product does not need, which comes after the first plane's rows."""
        if not self.later:
            load_identity(tile=self.identity)
            later = [self.in_hbm[0], *self.in_hbm[self.count :]]
            self.later = load_few_tables(later, self.is_little)

    def block(self, rows: Rows, number: int) -> Block:
        pieces = [Piece(rows, index) for index in range(len(self.down.chunks))]
        yield from self.ring.ask(pieces)
        self._load_later()
        state: list[Tensor] = []
        for chunk in self.along.chunks:
            yield self._contract_rows(pieces, chunk, state)
        if self.down.radix == 1:  # products read what was loaded
            for piece in pieces:
                yield After(partial(self.ring.release, piece))
        yield TURN
        made: list[list[Tensor]] = [[] for _ in range(self.along.radix)]
        for residue, tiles in enumerate(made):
            for cut in cuts(0, self.along.kept(residue)):
                yield Single(partial(self._contract_columns, state, residue, cut, tiles))
        yield TURN
        del state
        turns = Turns(2)
        for cut in cuts(0, (self.down.n + 1) // 2):
            yield self._close(rows, made, cut, False, turns)
        for cut in cuts(1, self.down.half):
            yield self._close(rows, made, cut, True, turns)

    def _load(self, piece: Piece) -> None:
        """Load a chunk of rows, with the rows half a plane below."""
        low, end = self.down.chunks[piece.first]
        for half in range(self.down.radix):
            first = low + half * self.down.points
            data = lines(self.source, piece.rows, 0, first, 1, (end - low, 1))
            transfer(piece.tile[0 : end - low, half : half + 1], data, piece.rows.base)

    def _contract_rows(
        self, pieces: Sequence[Piece], chunk: tuple[int, int], state: list[Tensor]
    ) -> Task:
        """Add P and Q of a chunk of columns, folded: [h, sign, part, k]."""
        low, end = chunk
        down, radix = self.down, self.along.radix
        folded = [self._folded(piece, chunk) for piece in pieces]
        if down.radix == 2 and end == self.along.points:
            for piece in pieces:
                self.ring.release(piece)
        yield
        kept = [down.kept(residue) for residue in range(down.radix)]
        banks = [[psum((end - low, 2 * count)) for _ in range(radix)] for count in kept]
        for index, (x, table) in enumerate(zip(folded, self.cosines, strict=True)):
            for residue, pair in enumerate(banks):
                first = down.column(residue, 0)
                moving = table[:, first : first + 2 * kept[residue]]
                for half, bank in enumerate(pair):
                    multiply(bank, x[:, residue, half], moving, index > 0)
        tile = sbuf((end - low, radix, 2, down.half))
        for residue, pair in enumerate(banks):
            self._fold_banks(pair, tile[..., residue :: down.radix])
        state.append(tile)

    def _folded(self, piece: Piece, chunk: tuple[int, int]) -> Tensor:
        """Return some columns of a piece, sum and difference of its halves, [s, sign, half, h]."""
        low, end = self.down.chunks[piece.first]
        x = piece.tile[0 : end - low].reshape_dim(2, (self.along.radix, self.along.points))
        x = x[..., chunk[0] : chunk[1]]
        if self.down.radix == 1:
            return x
        tile = sbuf(x.shape)
        for sign, op in enumerate((nl.add, nl.subtract)):
            nisa.tensor_tensor(dst=tile[:, sign], data1=x[:, 0], data2=x[:, 1], op=op)
        return tile

    def _fold_banks(self, banks: Sequence[Tensor], places: Tensor) -> None:
        """Move sum and difference of two banks, or one bank, to SBUF [h, sign, part, k]."""
        one, *others = (bank.reshape((*places.shape[:1], *places.shape[2:])) for bank in banks)
        if not others:
            evacuate(one, places[:, 0])
            return
        held = evacuate(one)
        for sign, op in enumerate((nl.add, nl.subtract)):
            nisa.tensor_tensor(dst=places[:, sign], data1=held, data2=others[0], op=op)

    def _contract_columns(
        self, state: Sequence[Tensor], residue: int, cut: tuple[int, int], made: list[Tensor]
    ) -> None:
        """Add E - O and E + O of some frequencies l, [l, sign, k]."""
        low, end = cut
        banks = []
        for part in range(2):
            first = self.along.column(residue, part)
            bank = psum((end - low, self.down.half))
            for index, (x, table) in enumerate(zip(state, self.later[1:], strict=True)):
                stationary = table[:, first + low : first + end]
                multiply(bank, stationary, x[:, residue, part], index > 0)
            banks.append(bank)
        odd, tile = evacuate(banks[1]), sbuf((end - low, 2, self.down.half))
        for sign, op in enumerate((nl.subtract, nl.add)):
            nisa.tensor_tensor(dst=tile[:, sign], data1=banks[0], data2=odd, op=op)
        made.append(tile)

    def _close(
        self,
        rows: Rows,
        made: Sequence[Sequence[Tensor]],
        cut: tuple[int, int],
        is_mirrored: bool,
        turns: Turns,
    ) -> Task:
        """Store rows k, or S - k, of the result."""
        low, end = cut
        result = sbuf((end - low, self.along.n))
        for residue, tiles in enumerate(made):
            bank = psum((end - low, len(range(residue, self.along.n, self.along.radix))))
            for (first, last), tile in zip(cuts(0, self.along.kept(residue)), tiles, strict=True):
                one, other = tile[:, int(is_mirrored), low:end], tile[:, 1 - is_mirrored, low:end]
                transpose(bank[:, first:last], one, self.identity)
                self._mirror(bank, other, residue, (first, last))
            turns.evacuate(bank, result[:, residue :: self.along.radix])
        yield
        if is_mirrored:
            result, low = self._reversed(result, turns), self.down.n - end + 1
        place = lines(self.target, rows, 0, low, 1, (result.shape[0], 1))
        transfer(place, result.expand_dim(1), rows.base)

    def _mirror(self, bank: Tensor, data: Tensor, residue: int, cut: tuple[int, int]) -> None:
        """Write columns H - l of a chunk of l, from SBUF data [l, k], where they differ from l."""
        n, radix = self.along.n, self.along.radix
        first = max(cut[0], 1 - residue)
        last = min(cut[1], -(-(n - 2 * residue) // (2 * radix)))
        place = (n - 2 * residue) // radix - last + 1
        column = PARTITIONS - (last - cut[0])
        reversal = self.later[0][0 : data.shape[0], column : column + last - first]
        dst = bank[:, place : place + last - first]
        multiply(dst, data, reversal, False, is_moving_onezero=True)

    def _reversed(self, data: Tensor, turns: Turns) -> Tensor:
        """Return the rows of SBUF [k, h] in reversed order."""
        count, columns = data.shape
        found = sbuf(data.shape)
        reversal = self.later[0][0:count, PARTITIONS - count :]
        for low, width in chunks(columns, PSUM_BANK):
            bank = psum((count, width))
            multiply(bank, reversal, data[:, low : low + width], False, is_stationary_onezero=True)
            turns.evacuate(bank, found[:, low : low + width])
        return found
