"""What kernels share that keep an image or a volume in SBUF between the stages of its transform.

Rows are loaded in pieces, into a ring of a few tiles, while arrays before them are transformed.
The first stage transposes runs of them. From then on the data itself is an operand of products: the
partitions that a product makes are the free run of its stationary operand. A product contracts
its partitions in one or two row tiles of the array at once, real and imaginary part one after the
other. A sum of both has a PSUM bank of its own.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..chip import transposes_mix_rows
from ..engines import (
    HALF,
    PARTITIONS,
    Turns,
    element_count,
    multiply_row_tile,
    psum,
    sbuf,
    transpose,
)
from ..isa import nisa, nl
from ..launch import Rows, for_rows
from ..pipeline import TURN, Beside, Block, Item, Order, Task
from ..tables import load_identity, load_tables
from ..tensor import Tensor

TOGETHER = 4  # operands of 128 columns that share a PSUM bank


@dataclass
class Piece:
    """Rows that are loaded together."""

    load: Callable[[Tensor], None]
    tile: Tensor = field(init=False)  # their place in SBUF, from when they are loaded
    number: int = field(init=False)  # of the tile in its ring


class Ring:
    """A few tiles for pieces, which are loaded in the order in which they are asked for."""

    def __init__(self, tiles: Sequence[Tensor]) -> None:
        self._tiles = tiles
        self._free = list(range(len(tiles)))  # in this order once more at the end of a loop's body
        self._waiting = deque[Piece]()

    def ask(self, pieces: Sequence[Piece]) -> Iterator[Item]:
        """Load pieces as far as there are tiles: the first one now, the others beside tasks."""
        self._waiting.extend(pieces)
        self.load(1)
        yield Beside(self.load)
        yield TURN

    @property
    def is_idle(self) -> bool:
        """Whether nothing is loaded, or waits for it."""
        return len(self._free) == len(self._tiles) and not self._waiting

    def load(self, most: int = PARTITIONS) -> None:
        """Load up to so many pieces into the free tiles."""
        for _ in range(min(most, len(self._free), len(self._waiting))):
            piece = self._waiting.popleft()
            piece.number = self._free.pop(0)
            piece.tile = self._tiles[piece.number]
            piece.load(piece.tile)

    def release(self, piece: Piece) -> None:
        """Load the next piece into the tile of one that has been used."""
        insort(self._free, piece.number)
        self.load()


class Products:
    """Transposes and products of a block, which ScalarE and VectorE move out of PSUM in turn."""

    def __init__(self, identity: Tensor, vector_turn: int) -> None:
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
            for low in range(0, PARTITIONS, HALF):
                half = slice(low, low + HALF)
                nisa.nc_matmul(
                    dst=bank[:, index, half],
                    stationary=run[half],
                    moving=self._identity[half, half],
                    is_moving_onezero=True,
                    accumulate=False,
                    tile_position=(low, 0),
                    tile_size=(HALF, PARTITIONS),
                )
        self._turns.evacuate(bank, dst)

    def multiply(
        self, places: Sequence[Tensor], stationary: Sequence[Tensor], moving: Tensor, size: int
    ) -> None:
        """Multiply in row tiles of ``size`` partitions, one for each of the places in SBUF.

        stationary: operands [K, part, M] whose products lie side by side in a PSUM bank; moving:
        [K, part, N]. A place has the numbers of [M, N, operand], and any dimensions after M.
        """
        columns = stationary[0].shape[2]
        banks = [psum((columns, moving.shape[2], len(stationary))) for _ in places]
        for index, operand in enumerate(stationary):
            for part in range(operand.shape[1]):
                for tile, bank in enumerate(banks):
                    rows = slice(tile * size, (tile + 1) * size)
                    held, moved = operand[rows, part], moving[rows, part]
                    multiply_row_tile(
                        bank[:, :, index], held, moved, tile * size, size, accumulate=part > 0
                    )
        for place, bank in zip(places, banks, strict=True):
            self._turns.evacuate(bank.reshape(place.shape), place)

    def task(self, places: Sequence[Tensor], stationary: Tensor, moving: Tensor, size: int) -> Task:
        """Return the task of one operand's products, behind what has been begun before."""
        yield
        self.multiply(places, [stationary], moving, size)


class ResidentArrays:
    """Arrays of a launch, images or volumes, and what all of them share.

    A kernel's own class has the blocks, each with up to ``together`` arrays.
    """

    def __init__(
        self,
        source: Sequence[Tensor],
        target: Sequence[Tensor],
        tables: Sequence[Tensor],
        together: int,
        vector_turn: int,
    ) -> None:
        self.source, self.target = source, target  # HBM [B, ..., columns] of each part
        self.together = together
        self._in_hbm, self._vector_turn = tables, vector_turn

    def run(self, piece: Sequence[int], pieces: int, ahead: int) -> None:
        """Transform all arrays, a block of which has so many pieces of this shape.

        ahead: pieces that are loaded and not yet used, at most.
        """
        batch = self.source[0].shape[0]
        blocks = -(-batch // (self.together * nl.num_programs()))
        self.ring = Ring([sbuf(piece) for _ in range(min(ahead, pieces * blocks))])
        for_rows(batch, self, self.together, self._split, Order(1))

    def block(self, rows: Rows, number: int) -> Block:
        """Return the block of ``rows.each`` arrays."""
        raise NotImplementedError

    def setup(self) -> None:
        """Load the identity and the tables."""
        self._identity = load_identity()
        self.tables = load_tables(self._in_hbm)

    def products(self) -> Products:
        """Return what makes the products of one block."""
        return Products(self._identity, self._vector_turn)

    def _split(self, base: Any, first: int, count: int) -> list[Rows]:
        """Cut arrays into blocks, which count arrays in place of a partition's rows."""
        step = self.together
        return [Rows(base, first + low, 1, min(step, count - low)) for low in range(0, count, step)]


def lines(
    x: Tensor, rows: Rows, member: int, first: int, apart: int, shape: tuple[int, int]
) -> Tensor:
    """Return rows of one of a block's arrays in HBM x [B, ..., columns], [count, each, columns].

    shape: (count, each): from row ``first`` on, ``each`` rows of every ``apart`` rows.
    """
    count, each = shape
    columns = x.shape[-1]
    offset = (rows.first + member) * element_count(x.shape[1:]) + first * columns
    pattern = [[apart * columns, count], [columns, each], [1, columns]]
    return x.ap(pattern, offset, scalar_offset=rows.base)
