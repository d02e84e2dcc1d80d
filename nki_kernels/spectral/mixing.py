"""Channel mixing: for each kept frequency a complex matrix multiplies the channels of all samples.

Mathematics.  Y[b, o, f] = sum_i W[i, o, f] X[b, i, f], or with the adjoint weight X[b, i, f] =
sum_o conj W[i, o, f] Y[b, o, f]. In real numbers the weight of a frequency is a matrix of four
quarters,

    [Re Y]   [Re W  -Im W] [Re X]
    [Im Y] = [Im W   Re W] [Im X]

Layout on the NeuronCore.  X lies as [(half, part, i), b, f]: where both parts of the channels fill
half of the partitions, the other half has the second half of the frequencies, and the halves are
multiplied side by side, each in a row tile of the array. The weight of a frequency is stationary,
and its moving operand has a column for each sample:

    W [(half, part, i), (part, o), f] x X [(half, part, i), b] -> PSUM [(part, o), f, b]

The weight is packed on the chip: DMA loads runs of its real and imaginary part [i, o, f], as they
lie in HBM, and GpSimdE and ScalarE copy them into the four quarters. For the adjoint weight DMA
loads them with o on the partitions. A weight that fits stays in SBUF; another one is loaded in
chunks of frequencies, again for each block of samples.

A product over more than 128 rows has several terms. A PSUM bank holds only one sum of several
terms, so each term has banks of its own, and VectorE adds them on their way out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..base import chip
from ..base.engines import (
    HALF,
    PARTITIONS,
    PSUM_BANK,
    chunks,
    clear,
    itemsize,
    multiply_row_tile,
    psum,
    row_tiles,
    sbuf,
)
from ..base.isa import Tensor, nisa, nl
from ..base.pipeline import Item, Single
from .constants import STAGED, Job, Loader, Place
from .layer import Layer, Operand, Piece, operands

_RESIDENT = 72 << 10  # bytes a partition of a weight that stays in SBUF
_BEHIND = 1  # banks of products before their results are transposed
_CHUNK = 20 << 10  # bytes a partition of a chunk of one that does not


@dataclass(frozen=True)
class Modes:
    """The kept frequencies f = outer * inner + index of a layer, cut into halves by ``outer``."""

    outer: int  # frequencies of all axes but the last, or of the only axis
    inner: int  # frequencies of the last axis, or 1
    halves: int  # 2, where partitions have two halves, or 1
    each: int  # outer frequencies of a half; the last half may have fewer

    @property
    def total(self) -> int:
        """The number of frequencies."""
        return self.outer * self.inner

    def count(self, half: int) -> int:
        """Return the outer frequencies of a half."""
        return min(self.each, self.outer - half * self.each)


@dataclass(frozen=True)
class Mixed:
    """A bank of products: frequencies of one half, for all samples."""

    output: int  # the number of the operand of outputs
    low: int  # the first outer frequency
    first: int  # the first inner frequency
    bank: Tensor  # PSUM [(part, o), inner, outer, b]
    others: Sequence[Tensor]  # banks with the other terms of the sum


Put = Callable[[Mixed], None]
Follow = Callable[[int, int], Iterator[Item]]  # of the first inner frequency and their number


class Weight:
    """The weight of a layer in SBUF, as stationary operands for each frequency."""

    def __init__(
        self,
        parts: Sequence[Tensor],
        modes: Modes,
        layer: Layer,
        is_adjoint: bool,
        loader: Loader,
    ) -> None:
        """Describe a weight; parts: HBM [i, o, f]."""
        self.parts, self.modes, self.is_adjoint = parts, modes, is_adjoint
        self.loader = loader
        self.inputs, self.outputs = operands(layer.inputs), operands(layer.outputs)
        self.dtype = layer.dtype
        width = self._frequency_bytes
        self.is_resident = width * modes.each * modes.inner <= _RESIDENT
        most = modes.each if self.is_resident else max(1, _CHUNK // (width * modes.inner))
        self.chunks = chunks(modes.each, most)
        self.tiles = list[list[list[Tensor]]]()
        self.signs = list[Tensor]()  # [P, 1] of operands with both parts, and of those with one

    @property
    def held_bytes(self) -> int:
        """Bytes a partition of the operands in SBUF."""
        count = 1 if self.is_resident else min(2, len(self.chunks))
        return count * self._frequency_bytes * self.chunks[0][1] * self.modes.inner

    def inner_behind(self, batch: int) -> int:
        """Return how many inner frequencies are mixed before the first ones can follow.

        They can if a bank has all their outer frequencies.
        """
        inners = PSUM_BANK // batch // self.chunks[0][1]
        if len(self.chunks) > 1 or inners == 0:
            return self.modes.inner
        return min(self.modes.inner, (_BEHIND + 2) * inners)

    @property
    def _frequency_bytes(self) -> int:
        rows = sum(each.rows for each in self.outputs)
        return itemsize(self.dtype) * len(self.inputs) * rows

    def setup(self) -> None:
        """Allocate tiles, and ask for a weight that stays."""
        signs, minus = self.signs = [sbuf((PARTITIONS, 1)) for _ in range(2)]
        nisa.memset(dst=minus, value=-1.0)
        operand = self.inputs[0]
        for half in range(self.modes.halves):
            for piece in operand.pieces:
                start = half * operand.rows + piece.partition
                width = operand.rows // len(operand.pieces)
                sign = -1.0 if piece.part == int(not self.is_adjoint) else 1.0
                nisa.memset(dst=signs[start : start + width], value=sign)
        count = len(self.chunks) if self.is_resident else min(2, len(self.chunks))
        size = self.chunks[0][1] * self.modes.inner
        self.tiles = [
            [
                [self._new_tile((each, other), size) for other in self.outputs]
                for each in self.inputs
            ]
            for _ in range(count)
        ]
        if self.is_resident:
            self.ask(0)

    def ask(self, number: int) -> None:
        """Ask for the chunk of this number."""
        tiles = self.tiles[number % len(self.tiles)]
        for place, each in zip(tiles, self.inputs, strict=True):
            for tile, other in zip(place, self.outputs, strict=True):
                self._ask_operand(tile, (each, other), self.chunks[number])

    def of(self, number: int, each: int, other: int) -> Tensor:
        """Return the operand of a chunk, for an operand of inputs and one of outputs."""
        return self.tiles[number % len(self.tiles)][each][other]

    def _new_tile(self, both: tuple[Operand, Operand], size: int) -> Tensor:
        tile = sbuf((PARTITIONS, both[1].rows, size), self.dtype)
        if any(sum(piece.count for piece in one.pieces) < one.rows for one in both):
            clear(tile, nisa.engine.gpsimd)
        return tile

    def _ask_operand(
        self, tile: Tensor, both: tuple[Operand, Operand], chunk: tuple[int, int]
    ) -> None:
        """Ask for frequencies of an operand, by rectangles of outputs and f.

        Both halves are loaded at once where they have as many frequencies.
        """
        modes = self.modes
        counts = [min(chunk[1], modes.count(half) - chunk[0]) for half in range(modes.halves)]
        groups = [[half] for half in range(modes.halves)]
        if len(set(counts)) == 1:
            groups = [list(range(modes.halves))]
        for halves in groups:
            size = counts[halves[0]] * modes.inner
            if size <= 0:
                continue
            # Both parts of Y need the same numbers, where both parts of X are on the partitions.
            pieces = [[piece] for piece in both[1].pieces]
            if len(both[0].pieces) == len(both[1].pieces) == 2:
                pieces = [list(both[1].pieces)]
            for outputs in pieces:
                for rectangle in _rectangles(outputs[0].count, size):
                    self._ask_rectangle(tile, (both[0], outputs), halves, chunk[0], rectangle)

    def _ask_rectangle(
        self,
        tile: Tensor,
        both: tuple[Operand, Sequence[Piece]],
        halves: Sequence[int],
        low: int,
        rectangle: tuple[int, int, int, int],
    ) -> None:
        """Ask for some outputs and frequencies of halves, for all rows of an operand."""
        operand, outputs = both
        o_low, o_count, f_low, f_count = rectangle
        placed = list[Place]()
        for half in halves:
            first = (half * self.modes.each + low) * self.modes.inner + f_low
            for piece in operand.pieces:
                weight = self.parts[int(piece.part != outputs[0].part)]
                if self.is_adjoint:
                    weight = weight.permute((1, 0, 2))
                start = outputs[0].low + o_low
                source = weight[piece.range, start : start + o_count, first : first + f_count]
                placed.append(Place(half * operand.rows + piece.partition, 0, source))
        rows = slice(halves[0] * operand.rows, (halves[-1] + 1) * operand.rows)
        places = [
            tile[
                rows,
                output.partition + o_low : output.partition + o_low + o_count,
                f_low : f_low + f_count,
            ]
            for output in outputs
        ]
        used = sum(one.source.shape[0] for one in placed)
        has_gaps = used < rows.stop - rows.start
        copy = partial(self._copy, places, rows, operand, [one.part for one in outputs])
        self.loader.ask(Job(o_count * f_count, placed, copy, has_gaps))

    def _copy(
        self,
        places: Sequence[Tensor],
        rows: slice,
        operand: Operand,
        parts: Sequence[int],
        staged: Tensor,
    ) -> None:
        """Copy staged rows to their quarters: as they are, then with both parts exchanged."""
        data = staged[rows].reshape_dim(1, tuple(places[0].shape[1:]))
        width = operand.rows // len(operand.pieces)
        for turn, (place, part) in enumerate(zip(places, parts, strict=True)):
            for start in range(0, data.shape[0], width if turn else data.shape[0]):
                size = width if turn else data.shape[0]
                source = start ^ width if turn else start
                dst, src = place[start : start + size], data[source : source + size]
                signs = self._signs(operand, part)
                if signs is not None:
                    scale = signs[rows][start : start + size]
                    nisa.activation(dst=dst, op=nl.copy, data=src, scale=scale)
                else:
                    engines = (nisa.engine.gpsimd, nisa.engine.vector)
                    is_other = start // width % 2 == 1 and not chip.core().shared_sbuf_port
                    nisa.tensor_copy(dst=dst, src=src, engine=engines[is_other])

    def _signs(self, operand: Operand, part: int) -> Tensor | None:
        """Return the signs of the rows of an operand for a part of Y, or None if all are 1."""
        negative = 0 if self.is_adjoint else 1  # the part of X in the negative quarter
        if part == negative or all(piece.part != negative for piece in operand.pieces):
            return None
        return self.signs[0 if len(operand.pieces) > 1 else 1]


def _rectangles(outputs: int, size: int) -> list[tuple[int, int, int, int]]:
    """Return (first, count) of outputs and of frequencies that are loaded at once."""
    if size > STAGED:
        return [(o, 1, *cut) for o in range(outputs) for cut in chunks(size, STAGED)]
    return [(*cut, 0, size) for cut in chunks(outputs, STAGED // size)]


@dataclass
class Mixing:
    """The products of one block of samples."""

    weight: Weight
    spectra: Sequence[Tensor]  # SBUF [(half, part, i), b, f] for each operand of inputs
    put: Put
    follow: Follow  # what can follow as soon as some inner frequencies are mixed

    def run(self) -> Iterator[Item]:
        """Yield the products, and what follows them."""
        weight = self.weight
        waiting = deque[list[Item]]()  # until other products are done, so that no engine waits
        for number, (low, count) in enumerate(weight.chunks):
            if not weight.is_resident:
                yield Single(partial(self._load, number))
            for cut in self._cuts(count):
                for output in range(len(weight.outputs)):
                    yield Single(partial(self._multiply, number, output, low, cut))
                if len(weight.chunks) == 1 and cut[3] == count:
                    waiting.append(list(self.follow(cut[0], cut[1])))
                if len(waiting) > _BEHIND:
                    yield from waiting.popleft()
        if not waiting:
            yield from self.follow(0, weight.modes.inner)
        for items in waiting:
            yield from items

    def _load(self, number: int) -> None:
        self.weight.ask(number)
        self.weight.loader.finish()

    def _cuts(self, count: int) -> list[tuple[int, int, int, int]]:
        """Return (first, count) of inner and of outer frequencies of each bank."""
        inner, batch = self.weight.modes.inner, self.spectra[0].shape[1]
        most = PSUM_BANK // batch
        outers = chunks(count, min(count, most))
        # The same cut for all chunks of the weight, although the last one may have fewer.
        inners = chunks(inner, max(1, most // self.weight.chunks[0][1]))
        return [(*one, *other) for other in outers for one in inners]

    def _multiply(self, number: int, output: int, low: int, cut: tuple[int, int, int, int]) -> None:
        """Multiply the frequencies of a bank for each half, and put them where they belong."""
        weight, modes = self.weight, self.weight.modes
        first, inners, outer, outers = cut
        batch = self.spectra[0].shape[1]
        rows = weight.outputs[output].rows
        halves = list[tuple[int, list[Tensor]]]()
        for half in range(modes.halves):
            held = min(outers, modes.count(half) - low - outer)
            if held <= 0:
                continue
            banks = [_bank(rows, inners, held, batch) for _ in weight.inputs]
            halves.append((half, banks))
        tiles, size = row_tiles(modes.halves), PARTITIONS // modes.halves
        matrices = [weight.of(number, each, output) for each in range(len(weight.inputs))]
        for inner in range(inners):
            for place in range(outers):
                f = (outer + place) * modes.inner + first + inner
                for half, banks in halves:
                    if place >= banks[0].shape[2]:
                        continue
                    lanes = tiles[half]
                    for matrix, data, bank in zip(matrices, self.spectra, banks, strict=True):
                        moved = data[lanes, :, low * modes.inner + f]
                        dst, table = bank[:, inner, place], matrix[lanes, :, f]
                        multiply_row_tile(dst, table, moved, half * HALF, size, False)
        for half, banks in halves:
            start = half * modes.each + low + outer
            self.put(Mixed(output, start, first, banks[0], banks[1:]))


def _bank(rows: int, inners: int, outers: int, batch: int) -> Tensor:
    """Allocate a bank [rows, inner, outer, b], whose fastest numbers are those that move in runs.

    Of two axes and more the spectra of a sample are transposed, so that its outer ones are a run.
    """
    if inners == 1:
        return psum((rows, inners, outers, batch))
    return psum((rows, inners, batch, outers)).permute((0, 1, 3, 2))
