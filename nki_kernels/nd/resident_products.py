"""What kernels share that keep images or volumes in SBUF between the stages of a transform.

Rows are loaded in pieces, into a ring of a few tiles, while arrays before them are transformed. The
first stage transposes them. From then on the data itself is an operand of products: the partitions
that a product makes are the free run of its stationary operand. A product contracts its partitions
in one or two row tiles of the array at once, real and imaginary part one after the other. A sum of
both has a PSUM bank of its own.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..base.chip import transposes_mix_rows
from ..base.engines import (
    HALF,
    PARTITIONS,
    Turns,
    chunks,
    element_count,
    multiply_row_tile,
    psum,
    sbuf,
    transpose,
)
from ..base.isa import Tensor
from ..base.launch import Rows, Work, for_rows
from ..base.pipeline import TURN, Beside, Block, Order, Task
from ..base.table_terms import Array

TOGETHER = 4  # operands of 128 columns that share a PSUM bank


@dataclass
class Piece:
    """Rows that are loaded together."""

    rows: Rows  # the block
    first: int  # the first row, as its kernel counts
    tile: Tensor = field(init=False)  # their place in SBUF, from when they are loaded
    number: int = field(init=False)  # of the tile in its ring


class Ring:
    """A few tiles in SBUF for pieces, which are loaded in the order in which they are asked for."""

    def __init__(self, load: Callable[[Piece], None], shape: Sequence[int], count: int) -> None:
        self._load, self._tiles = load, [sbuf(shape) for _ in range(count)]
        self._free = list(range(count))  # a device loop's body leaves them in the same order
        self._waiting = deque[Piece]()

    @property
    def is_idle(self) -> bool:
        """Whether no piece is loaded or waits."""
        return not self._waiting and len(self._free) == len(self._tiles)

    def ask(self, pieces: Sequence[Piece]) -> Block:
        """Load pieces as far as there are tiles: the first one now, the others beside tasks."""
        self._waiting.extend(pieces)
        self._load_next(1)
        yield Beside(self._load_next)
        yield TURN

    def release(self, piece: Piece) -> None:
        """Load the next piece into the tile of one that has been used."""
        insort(self._free, piece.number)
        self._load_next()

    def _load_next(self, most: int = PARTITIONS) -> None:
        """Load up to so many pieces into the free tiles."""
        for _ in range(min(most, len(self._free), len(self._waiting))):
            piece = self._waiting.popleft()
            piece.number = self._free.pop(0)
            piece.tile = self._tiles[piece.number]
            self._load(piece)


class Products:
    """Transposes and products of a block, which ScalarE and VectorE move out of PSUM in turn."""

    def __init__(self, identity: Tensor, vector_turn: int = 2) -> None:
        self._identity, self._turns = identity, Turns(vector_turn)

    def transpose(self, dst: Tensor, runs: Sequence[Tensor], members: int = 1) -> None:
        """Transpose runs, each SBUF [P, K], into SBUF dst [K, run, P].

        members: arrays that the partitions hold. Where transposes mix rows, each of two has half of
        the array, which does not read the other one.
        """
        bank = psum(dst.shape)
        for index, run in enumerate(runs):
            if members == 1 or not transposes_mix_rows():
                transpose(bank[:, index], run, self._identity)
                continue
            for low in (0, HALF):
                half = slice(low, low + HALF)
                place, one = bank[:, index, half], self._identity[half, half]
                multiply_row_tile(place, run[half], one, low, HALF, False, is_onezero=True)
        self._turns.evacuate(bank, dst)

    def multiply(
        self, places: Sequence[Tensor], stationary: Sequence[Tensor], moving: Tensor, size: int
    ) -> None:
        """Multiply in row tiles of ``size`` partitions, one for each of the places in SBUF.

        stationary: operands [K, part, M] whose products lie side by side in a PSUM bank; moving:
        [K, part, N]. A place has the numbers of [M, N, operand], and any dimensions after M.
        """
        shape = (stationary[0].shape[2], moving.shape[2], len(stationary))
        banks = [psum(shape) for _ in places]
        for index, operand in enumerate(stationary):
            for part in range(operand.shape[1]):
                for tile, bank in enumerate(banks):
                    low = tile * size
                    held, moved = operand[low : low + size, part], moving[low : low + size, part]
                    multiply_row_tile(bank[:, :, index], held, moved, low, size, part > 0)
        for place, bank in zip(places, banks, strict=True):
            self._turns.evacuate(bank.reshape(place.shape), place)

    def task(self, places: Sequence[Tensor], stationary: Tensor, moving: Tensor, size: int) -> Task:
        """Return the task of one operand's products."""
        yield
        self.multiply(places, [stationary], moving, size)


def for_arrays(x: Tensor, work: Work, together: int) -> None:
    """Run the blocks of all arrays of HBM x [B, ...], each with up to ``together`` of them.

    ``Rows.first`` and ``Rows.each`` count arrays.
    """

    def split(base: object, first: int, count: int) -> list[Rows]:
        return [Rows(base, first + low, 1, each) for low, each in chunks(count, together)]

    for_rows(x.shape[0], work, together, split, Order(1))


def lines(
    x: Tensor, rows: Rows, member: int, first: int, apart: int, shape: tuple[int, int]
) -> Tensor:
    """Return rows of one of a block's arrays in HBM x [B, ..., columns], [count, each, columns].

    shape: (count, each): from row ``first`` on, ``each`` rows of every ``apart`` rows.
    """
    columns = x.shape[-1]
    offset = (rows.first + member) * element_count(x.shape[1:]) + first * columns
    pattern = [[apart * columns, shape[0]], [columns, shape[1]], [1, columns]]
    return x.ap(pattern, offset, scalar_offset=rows.base)


def real_matrices(w: Array) -> Array:
    """Return complex [input, ...] as real [input, part, part', ...]."""
    rows = [np.stack([w.real, w.imag], 1), np.stack([-w.imag, w.real], 1)]
    return np.stack(rows, 1)
