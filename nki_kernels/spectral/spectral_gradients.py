"""Gradients of a spectral convolution in its data and its weight, in one launch.

Mathematics.  With the gradient dy of y = F^-1 (W . F x), let D[b, o, f] = c_f sum_n dy[b, o, n]
exp(-2 pi i f n / N) / N, where c_f are the factors of the inverse transform of real data. Then

    dx = F^-1 (W^H . D) without these factors,    dW[i, o, f] = sum_b conj X[b, i, f] D[b, o, f]

where X are the kept frequencies of x, which the forward launch has stored.

Layout on the NeuronCore.  The first pass is spectral_convolution with the adjoint weight. It stores
D as (Re D, Im D, -Re D). The second pass loads both spectra with the samples on the partitions,
once for each part of X, so that one product contracts samples and parts:

    X [(part, b), f, i] x [(Re D, Im D), (Im D, -Re D)] [(part, b), f, (part, o)]
        -> [i, (part, o), f]

Frequencies are shared among slots of the partitions, whose products run side by side, and among the
programs of the launch, which first wait for each other. Samples beyond those that fit are added by
VectorE, many of them in a loop on the device. Both parts of few samples lie far apart in a slot,
with zeros between them, because the DMA engines share the work by partitions.

Why it is fast.  x is not read and not transformed again, and no weight is transposed in HBM.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any

from ..base import counting
from ..base.arguments import check_dimensions
from ..base.engines import (
    HALF,
    PARTITIONS,
    PSUM_BANK,
    addressed,
    chunks,
    clear,
    cuts,
    hbm,
    multiply_row_tile,
    psum,
    sbuf,
    transfer,
)
from ..base.isa import Tensor, nisa, nki, nl
from ..base.launch import Rows, for_rows, meet
from ..base.packing import unpack
from ..base.pipeline import TURN, Block, Single
from .layer import Layer, check_layer, row_tile
from .products import Balance, columns_of
from .spectral_convolution import Convolution

_FEW = 48  # channels
_LOADED = 24 << 10  # bytes a partition of both spectra that are loaded at a time
_UNROLLED = 16  # times that samples are loaded, up to which they are in no loop

Channels = tuple[tuple[int, int], tuple[int, int]]  # (first, count) of those of x and of y


@nki.jit
def spectral_gradients(dy, spectra, w_re, w_im, tables, places, layer):  # type: ignore[no-untyped-def]
    """Compute the gradients of a spectral convolution.

    Args:
        dy: gradient of the result, float32 HBM [B, Co, points].
        spectra: the second result of ``spectral_convolution``, float32 HBM [B, frequencies, part,
            Ci].
        w_re, w_im: the parts of the weight, float32 HBM [Ci, Co, frequencies].
        tables, places: the two results of ``pack(spectral_tables(..., is_gradient=True))``.
        layer: (lengths, counts): tuples of ints.

    Returns:
        (dx, dw_re, dw_im): gradients, float32 HBM of the shapes [B, Ci, points] and of the weight.
    """
    check_dimensions("dy", dy, ("B", "Co", "points"))
    check_dimensions("spectra", spectra, ("B", "frequencies", "part", "Ci"))
    check_dimensions("w_re", w_re, ("Ci", "Co", "frequencies"))
    check_dimensions("w_im", w_im, ("Ci", "Co", "frequencies"))
    check_layer(layer, 2)
    lengths, counts = layer
    inputs, outputs, frequencies = w_re.shape
    batch = dy.shape[0]
    sizes = Layer(outputs, inputs, lengths, counts, tables.dtype)
    dx = hbm((batch, inputs, sizes.points))
    of_dy = hbm((batch, frequencies, 3, outputs))
    work = Convolution(sizes, dy, dx, (w_re, w_im), unpack(tables, places), True, of_dy)
    for_rows(batch, work, work.most, work.split, None)
    del work  # and its tiles for loads, of which only so many bytes may live
    meet(of_dy)
    by_weight = [hbm(w_re.shape) for _ in range(2)]
    sums = WeightGradient(spectra, of_dy, by_weight, tables.dtype)
    for_rows(frequencies, sums, sums.most, sums.split, None)
    return dx, by_weight[0], by_weight[1]


class WeightGradient:
    """The second pass, whose rows are frequencies; a block has as many as are loaded at once."""

    def __init__(self, of_x: Tensor, of_dy: Tensor, target: Sequence[Tensor], dtype: Any) -> None:
        self.of_x, self.of_dy, self.target = of_x, of_dy, target
        self.batch, self.total, _, self.inputs = of_x.shape
        self.outputs = of_dy.shape[3]
        self.samples = [Rows(None, low, 1, count) for low, count in chunks(self.batch, HALF)]
        self.slot = row_tile(2 * self.samples[0].each)  # partitions of both parts of the samples
        self.slots = PARTITIONS // self.slot
        # Whole runs of HBM are loaded where few channels would be short runs, else only what is
        # used: the numbers of a frequency in each tile.
        self.in_runs = max(self.inputs, self.outputs) <= _FEW
        self.widths = columns_of(min(self.inputs, PARTITIONS)), 2 * min(self.outputs, PARTITIONS)
        if self.in_runs:
            self.widths = 2 * self.inputs, 3 * self.outputs
        self.each = max(1, _LOADED // (4 * sum(self.widths)))  # frequencies of a slot
        self.most = self.each * self.slots
        # Partitions of a slot from one part of the samples to the other. Where all samples fit they
        # are far apart, so that more DMA engines load them.
        self.apart = self.slot // 2
        self.balance = Balance()
        rest = columns_of(1) - 1  # what a stationary operand of one column reads beyond it
        self.tiles = [
            [sbuf((PARTITIONS, width * self.each + rest), dtype) for width in self.widths]
            for _ in range(2)
        ]
        last = chunks(self.inputs)[-1][1]
        if columns_of(last) > last or self.samples[-1].each < self.apart:
            for pair in self.tiles:
                for tile, engine in zip(
                    pair, (nisa.engine.vector, nisa.engine.gpsimd), strict=True
                ):
                    clear(tile, engine)

    def setup(self) -> None:
        """Load nothing, because blocks share nothing."""

    def split(self, base: object, first: int, count: int) -> list[Rows]:
        """Return frequencies as blocks; where these have loops, as many in every program."""
        if self._has_loops(base):
            found = cuts(first, first + count, self._blocks)
            return [Rows(base, low, 1, end - low) for low, end in found]
        return [Rows(base, first + low, 1, size) for low, size in chunks(count, self.most)]

    @property
    def _blocks(self) -> int:
        return math.ceil(math.ceil(self.total / nl.num_programs()) / self.most)

    def block(self, rows: Rows, number: int) -> Block:
        """The gradient of the weight for some frequencies."""
        yield TURN
        turn = number * len(chunks(self.inputs)) * len(chunks(self.outputs)) * len(self.samples)
        for both in product(chunks(self.inputs), chunks(self.outputs)):
            yield Single(partial(self._sum, rows, both, turn))
            turn += len(self.samples)
        self.balance.restart()

    def _sum(self, rows: Rows, channels: Channels, turn: int) -> None:
        """Sum over all samples, for some channels of x and of y; turn: of the tiles for loads."""
        cut, other = channels
        sums = sbuf((columns_of(cut[1]), 2, other[1], rows.each))  # [i, part, o, f]
        pairs = self._pairs(rows)
        self._add(rows, channels, sums, turn, enumerate(self.samples[: 2 if pairs else None]))
        if pairs > 0:

            def body(base: object) -> None:
                both = ((index, Rows(base, index * HALF, 1, HALF)) for index in range(2))
                self._add(rows, channels, sums, turn, both, is_first=False)
                self.balance.restart()

            self.balance.restart()
            if counting.current() is None:
                nl.fori_loop(2 * HALF, 2 * HALF * (1 + pairs), body, 2 * HALF)
            else:
                body(None)
            rest = enumerate(self.samples[2 + 2 * pairs :])
            self._add(rows, channels, sums, turn, rest, is_first=False)
        self._store(rows, channels, sums)

    def _has_loops(self, base: object) -> bool:
        """Return whether blocks of frequencies add samples in loops on the device.

        An address has one register, and all programs must have the same loops.
        """
        is_same = base is None and self.total // nl.num_programs() >= self._blocks
        return len(self.samples) > _UNROLLED and is_same

    def _pairs(self, rows: Rows) -> int:
        """Return how many pairs of loads a loop on the device makes, after the first pair."""
        return self.batch // (2 * HALF) - 1 if self._has_loops(rows.base) else 0

    def _add(
        self,
        rows: Rows,
        channels: Channels,
        sums: Tensor,
        turn: int,
        samples: Iterable[tuple[int, Rows]],
        *,
        is_first: bool = True,
    ) -> None:
        """Add products of samples, with their numbers; is_first: whether sums hold nothing yet."""
        for index, some in samples:
            tiles = self.tiles[(turn + index) % 2]
            self._load(rows, some, channels, tiles)
            each = -(-rows.each // self.slots)
            for low, count in chunks(each, max(1, PSUM_BANK // (2 * channels[1][1]))):
                self._multiply(tiles, sums, (low, count), index > 0 or not is_first)

    def _multiply(
        self, tiles: Sequence[Tensor], sums: Tensor, cut: tuple[int, int], is_added: bool
    ) -> None:
        """Multiply some frequencies of each slot, side by side."""
        (low, count), (x, d), (i_width, o_width) = cut, tiles, self.widths
        columns, _, outputs, total = sums.shape
        each = -(-total // self.slots)
        banks = list[tuple[int, int, Tensor]]()
        for place in range(self.slots):
            first = place * each + low
            held = min(count, total - first, each - low)
            if held > 0:
                banks.append((place * self.slot, first, psum((columns, held, 2 * outputs))))
        for f in range(count):
            start, column = (low + f) * i_width, (low + f) * o_width
            for partition, _, bank in banks:
                if f >= bank.shape[1]:
                    continue
                slots = slice(partition, partition + self.slot)
                held_x = x[slots, start : start + columns]
                moved = d[slots, column : column + 2 * outputs]
                multiply_row_tile(bank[:, f], held_x, moved, partition, self.slot, False)
        for _, first, bank in banks:
            data = bank.reshape_dim(2, (2, outputs)).permute((0, 2, 3, 1))
            dst = sums[..., first : first + bank.shape[1]]
            if is_added:
                self.balance.add(dst, data)
            else:
                self.balance.move(dst, data)

    def _store(self, rows: Rows, channels: Channels, sums: Tensor) -> None:
        """Store the sums of some frequencies."""
        cut, other = channels
        for part, target in enumerate(self.target):
            size = self.outputs * self.total
            pattern = [[size, cut[1]], [self.total, other[1]], [1, rows.each]]
            start = cut[0] * size + other[0] * self.total + rows.first
            rectangle = addressed(target, pattern, start, rows.base, 2)
            transfer(rectangle, sums[0 : cut[1], part], rows.base)

    def _load(self, rows: Rows, samples: Rows, channels: Channels, tiles: Sequence[Tensor]) -> None:
        """Load X [(slot, part, b), f, i] and D [(slot, part, b), f, (part, o)].

        Whole runs of the second part begin a part later, so that what a product reads lies at the
        same place for both parts.
        """
        each = -(-rows.each // self.slots)
        if samples.each < self.samples[0].each:
            for tile in tiles:  # which holds the samples before, which are more
                clear(tile)
        (i, i_count), (o, o_count) = channels
        for place, part in product(range(self.slots), range(2)):
            held = min(each, rows.each - place * each)
            if held <= 0:
                continue
            partition = place * self.slot + part * self.apart
            x, d = (tile[partition : partition + samples.each] for tile in tiles)
            start = rows.first + place * each
            columns = part * self.inputs + i, part * self.outputs + o
            if self.in_runs:
                ends = [(held - 1) * width for width in self.widths]
                self._load_part(
                    x[:, 0 : ends[0] + i_count], self.of_x, (samples, start, columns[0]), rows
                )
                run = d[:, 0 : ends[1] + 2 * o_count]
                self._load_part(run, self.of_dy, (samples, start, columns[1]), rows)
                continue
            x, d = (
                tile[:, 0 : held * width].reshape_dim(1, (held, width))
                for tile, width in zip((x, d), self.widths, strict=True)
            )
            self._load_part(x[:, :, 0:i_count], self.of_x, (samples, start, columns[0]), rows)
            for half in range(2):
                low = columns[1] + half * self.outputs
                of_half = d[:, :, half * o_count : (half + 1) * o_count]
                self._load_part(of_half, self.of_dy, (samples, start, low), rows)

    def _load_part(
        self, place: Tensor, source: Tensor, start: tuple[Rows, int, int], rows: Rows
    ) -> None:
        """Load HBM [B, f, columns] from some samples, a frequency and a column on.

        place: [b, f, n], or [b, n] for a run of several frequencies.
        """
        samples, frequency, column = start
        width = source.shape[2] * source.shape[3]
        steps = [self.total * width, width, 1] if len(place.shape) == 3 else [self.total * width, 1]
        base, dim = (rows.base, 1) if samples.base is None else (samples.base, 0)
        pattern = [[step, count] for step, count in zip(steps, place.shape, strict=True)]
        number = (samples.first * self.total + frequency) * width + column
        transfer(place, addressed(source, pattern, number, base, dim), base)
