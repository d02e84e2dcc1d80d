"""Results in PSUM times twiddles: the products, their sums behind them, and the twiddles' table.

VectorE multiplies results by twiddles as it evacuates them, which takes a cycle a number because
one operand is in PSUM. It also computes the sums of these products, later, when the products of the
next bank are on their way. From v3 on, one of the two products of a sum stays in PSUM, so that the
sum takes a cycle a number, too. On v2 that does not pay, because VectorE and ScalarE take turns in
using PSUM there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.engines import chunks, sbuf, times, transfer
from ..base.isa import Tensor, nisa, nl
from ..base.roots import roots
from ..base.table_terms import Array
from .stage import Stage
from .stage_products import Put, Results, natural_places

_PIECE = 1024  # numbers of a streamed piece, at least
_HELD = 1536  # numbers of a piece that stays in SBUF, which DMA loads at a time


class Sums:
    """Products of numbers with twiddles, which are added while the next products are made."""

    def __init__(self) -> None:
        self._products: tuple[Tensor, Tensor, Tensor] | None = None  # with the place of their sums

    def twiddle(self, target: Tensor, bank: Tensor, factors: Sequence[Tensor]) -> None:
        """Set target = PSUM [C, 2, ...] times factors, later; add the products before these."""
        by_imaginary = times(bank, factors[1], False)
        by_real = times(bank, factors[0], True)
        self.finish()
        self._products = target, by_real, by_imaginary

    def finish(self) -> None:
        """Add the products, if there are any."""
        if self._products is None:
            return
        (target, by_real, by_imaginary), self._products = self._products, None
        by_real, by_imaginary = by_real.reshape(target.shape), by_imaginary.reshape(target.shape)
        for part, op in enumerate((nl.subtract, nl.add)):
            data, other = by_real[:, part], by_imaginary[:, 1 - part]
            nisa.tensor_tensor(dst=target[:, part], data1=data, data2=other, op=op)


class Twiddles:
    """The twiddles of a stage's results: they stay in SBUF, or come in pieces, group by group."""

    def __init__(self, stage: Stage, table: Tensor) -> None:
        """table: HBM [C, products, numbers], with the numbers of ``twiddle_table``."""
        self._stage, self._table = stage, table
        self._tiles: list[Tensor] = []  # [C, products, numbers] of a piece
        self._each = 0  # products of a piece
        self._is_streamed = False
        self._piece: tuple[int, int] | None = None  # the row and the piece that are in use

    def pieces(self) -> list[Tensor]:
        """Return the table in HBM in pieces, for ``hold``."""
        self._set_piece(_HELD)
        cuts = chunks(self._table.shape[1], self._each)
        return [self._table[:, low : low + count] for low, count in cuts]

    def hold(self, tiles: Sequence[Tensor]) -> None:
        """Use the pieces that are loaded."""
        self._tiles, self._is_streamed = list(tiles), False

    def stream(self) -> None:
        """Load pieces when they are used, each while the one before is in use."""
        self._set_piece(_PIECE)
        columns, _, width = self._table.shape
        self._tiles = [sbuf((columns, self._each, width)) for _ in range(2)]
        self._is_streamed = True

    def restart(self) -> None:
        """Begin with the first piece again."""
        self._piece = None

    def factors(self, results: Results) -> list[Tensor]:
        """Return real and imaginary twiddles of results, each for both of their parts."""
        stage, (_, _, radix, count, slabs) = self._stage, results.bank.shape
        product, side = divmod(results.K // stage.slabs, stage.tiles)
        number = product // self._each
        if self._is_streamed and self._piece != (results.row, number):
            self._load_ahead(results.row, number)
        tile = self._tiles[number % 2 if self._is_streamed else number]
        columns, held, width = tile.shape
        numbers = radix * count * slabs
        at = (product - number * self._each) * width + side * 2 * numbers
        pattern = [[held * width, columns], [0, 2], [count * slabs, radix]]
        pattern += [[slabs, count], [1, slabs]]
        return [tile.ap(pattern, at), tile.ap(pattern, at + numbers)]

    def _set_piece(self, least: int) -> None:
        """Let a piece have whole groups, of about so many numbers."""
        together = self._stage.most * self._table.shape[2]
        self._each = self._stage.most * max(1, least // together)

    def _load_ahead(self, row: int, number: int) -> None:
        """Load the piece after the one that is used next, and of a row's first piece that, too."""
        for piece in range(number if number == 0 else number + 1, number + 2):
            low = piece * self._each
            high = min(low + self._each, self._table.shape[1])
            if low < high:
                transfer(self._tiles[piece % 2][:, 0 : high - low], self._table[:, low:high])
        self._piece = row, number


def into_twiddled(stage: Stage, state: Tensor, twiddles: Twiddles, sums: Sums) -> Put:
    """Return the put of a last stage into state [C, 2, row, A], times twiddles."""
    twiddles.restart()

    def put(results: Results) -> None:
        place = natural_places(stage, state[:, :, results.row], results.K, results.bank.shape[3])
        sums.twiddle(place, results.bank, twiddles.factors(results))

    return put


def twiddle_table(stage: Stage, columns: int, inverse: bool) -> Array:
    """Return W_N^(c k) for all outputs k of a last stage: [C, 1, 2 A].

    They lie in the order of results in PSUM: groups, row tiles, part, k, product, slab.
    """
    slabs, radix, length = stage.slabs, stage.produced, stage.outputs
    found = []
    each = stage.most if stage.pieces == 1 else 1  # products of a PSUM bank
    for first, count in chunks(stage.products, each):
        products = first + np.arange(count)
        for tile in range(stage.tiles):
            K = (products[:, None] * stage.tiles + tile) * slabs + np.arange(slabs)
            outputs = K.ravel() + stage.done * np.arange(radix)[:, None]
            w = roots(np.arange(columns)[:, None] * outputs.ravel(), length * columns, inverse)
            found += [w.real, w.imag]
    return np.concatenate(found, 1).astype(np.float32)[:, None]
