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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from nki_sim.hardware import PARTITIONS

from ..engines import PSUM_BANK, clear, multiply_tile, psum, sbuf
from ..isa import nisa, nl
from ..pipeline import Item, Single, Task
from ..tensor import Tensor
from .constants import STAGED, Job, Loader
from .layer import Operand, chunks, operands

_RESIDENT = 72 << 10  # bytes a partition of a weight that stays in SBUF
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


class Weight:
    """The weight of a layer in SBUF, as stationary operands for each frequency."""

    def __init__(
        self, parts: Sequence[Tensor], modes: Modes, channels: tuple[int, int], is_adjoint: bool
    ) -> None:
        """Describe a weight; parts: HBM [i, o, f]; channels: those of X and of Y."""
        self.parts, self.modes, self.is_adjoint = parts, modes, is_adjoint
        self.inputs, self.outputs = operands(channels[0]), operands(channels[1])
        width = 4 * len(self.inputs) * sum(each.rows for each in self.outputs)
        self.is_resident = width * modes.each * modes.inner <= _RESIDENT
        most = modes.each if self.is_resident else max(1, _CHUNK // (width * modes.inner))
        self.chunks = chunks(modes.each, most)
        self.tiles = list[list[list[Tensor]]]()

    def setup(self, loader: Loader) -> None:
        """Allocate tiles, and ask for a weight that stays."""
        self.loader = loader
        count = len(self.chunks) if self.is_resident else min(2, len(self.chunks))
        size = self.chunks[0][1] * self.modes.inner
        self.tiles = [
            [[self._new_tile(each, other, size) for other in self.outputs] for each in self.inputs]
            for _ in range(count)
        ]
        if self.is_resident:
            self.ask(0)

    def ask(self, number: int) -> None:
        """Ask for the chunk of this number."""
        tiles = self.tiles[number % len(self.tiles)]
        for place, each in zip(tiles, self.inputs, strict=True):
            for tile, other in zip(place, self.outputs, strict=True):
                for half in range(self.modes.halves):
                    self._ask_operand(tile, (each, other), half, self.chunks[number])

    def of(self, number: int, each: int, other: int) -> Tensor:
        """Return the operand of a chunk, for an operand of inputs and one of outputs."""
        return self.tiles[number % len(self.tiles)][each][other]

    def _new_tile(self, each: Operand, other: Operand, size: int) -> Tensor:
        tile = sbuf((PARTITIONS, other.rows, size))
        both = (each, other)
        if any(sum(piece.count for piece in one.pieces) < one.rows for one in both):
            clear(tile, nisa.engine.gpsimd)
        return tile

    def _ask_operand(
        self, tile: Tensor, both: tuple[Operand, Operand], half: int, chunk: tuple[int, int]
    ) -> None:
        """Ask for frequencies of one half of an operand, by rectangles of outputs and f."""
        inner = self.modes.inner
        count = min(chunk[1], self.modes.count(half) - chunk[0])
        if count <= 0:
            return
        first = (half * self.modes.each + chunk[0]) * inner
        parts = self.parts
        if self.is_adjoint:
            parts = [part.permute((1, 0, 2)) for part in parts]
        rows, columns = both[0].pieces[0].range, both[1].pieces[0]
        for part, weight in enumerate(parts):
            for o_low, o_count, f_low, f_count in _rectangles(columns.count, count * inner):
                start = columns.low + o_low
                source = weight[
                    rows, start : start + o_count, first + f_low : first + f_low + f_count
                ]
                place = (slice(o_low, o_low + o_count), slice(f_low, f_low + f_count))
                copy = partial(self._spread, tile, both, half, part, place)
                self.loader.ask(Job(o_count * f_count, [(0, source)], copy))

    def _spread(
        self,
        tile: Tensor,
        both: tuple[Operand, Operand],
        half: int,
        part: int,
        place: tuple[slice, slice],
        staged: Tensor,
    ) -> None:
        """Copy a rectangle of one part into the quarters of the weight that it belongs to."""
        outputs, frequencies = place
        shape = (outputs.stop - outputs.start, frequencies.stop - frequencies.start)
        minus = (0, 1) if self.is_adjoint else (1, 0)  # parts of X and Y of the negative quarter
        for piece in both[0].pieces:
            data = staged[0 : piece.count].reshape_dim(1, shape)
            for other in both[1].pieces:
                if (piece.part != other.part) != (part == 1):
                    continue
                start = half * both[0].rows + piece.partition
                low, high = (other.partition + end for end in (outputs.start, outputs.stop))
                dst = tile[start : start + piece.count, low:high, frequencies]
                if part == 1 and (piece.part, other.part) == minus:
                    nisa.activation(dst=dst, op=nl.copy, data=data, scale=-1.0)
                else:
                    nisa.tensor_copy(dst=dst, src=data, engine=nisa.engine.gpsimd)


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

    def run(self) -> Iterator[Item]:
        """Yield the products."""
        weight = self.weight
        for number, (low, count) in enumerate(weight.chunks):
            if not weight.is_resident:
                yield Single(partial(self._load, number))
            for output in range(len(weight.outputs)):
                for cut in self._cuts(count):
                    yield self._multiply(number, output, low, cut)

    def _load(self, number: int) -> None:
        self.weight.ask(number)
        self.weight.loader.finish()

    def _cuts(self, count: int) -> list[tuple[int, int, int, int]]:
        """Return (first, count) of inner and of outer frequencies of each bank."""
        inner, batch = self.weight.modes.inner, self.spectra[0].shape[1]
        most = PSUM_BANK // batch
        outers = chunks(count, min(count, most))
        inners = chunks(inner, max(1, most // count))
        return [(*one, *other) for other in outers for one in inners]

    def _multiply(self, number: int, output: int, low: int, cut: tuple[int, int, int, int]) -> Task:
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
            banks = [psum((rows, inners, held, batch)) for _ in weight.inputs]
            halves.append((half, banks))
        for inner in range(inners):
            for place in range(outers):
                for half, banks in halves:
                    if place >= banks[0].shape[2]:
                        continue
                    for each, bank in enumerate(banks):
                        f = (outer + place) * modes.inner + first + inner
                        held, moved = (
                            weight.of(number, each, output)[:, :, f],
                            self.spectra[each][:, :, low * modes.inner + f],
                        )
                        multiply_tile(bank[:, inner, place], held, moved, half, modes.halves, False)
        yield
        for half, banks in halves:
            start = half * modes.each + low + outer
            self.put(Mixed(output, start, first, banks[0], banks[1:]))
