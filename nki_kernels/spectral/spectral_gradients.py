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
VectorE.

Why it is fast.  x is not read and not transformed again, and no weight is transposed in HBM.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from nki_sim.hardware import PARTITIONS

from ..engines import HALF, PSUM_BANK, clear, hbm, psum, sbuf, transfer
from ..isa import nki
from ..launch import Rows, for_rows, meet
from ..packing import unpack
from ..pipeline import TURN, Block, Single
from ..tensor import Tensor
from .evacuation import Balance
from .layer import Layer, chunks, row_tile
from .products import columns_of, multiply_in_slot
from .spectral_convolution import Convolution

_LOADED = 24 << 10  # bytes a partition of both spectra that are loaded at a time


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
    lengths, counts = layer
    inputs, outputs, frequencies = w_re.shape
    batch = dy.shape[0]
    sizes = Layer(outputs, inputs, lengths, counts, tables.dtype)
    dx = hbm((batch, inputs, sizes.points))
    work = Convolution(sizes, dy, dx, (w_re, w_im), unpack(tables, places), True)
    work.keep = of_dy = hbm((batch, frequencies, 3, outputs))
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
        self.samples = chunks(self.batch, HALF)
        self.slot = row_tile(2 * self.samples[0][1])  # partitions of both parts of the samples
        self.slots = PARTITIONS // self.slot
        widths = columns_of(min(self.inputs, PARTITIONS)), 2 * min(self.outputs, PARTITIONS)
        self.each = max(1, _LOADED // (4 * sum(widths)))  # frequencies of a slot
        self.most = self.each * self.slots
        self.balance = Balance()
        sizes = [width * self.each for width in widths]
        self.tiles = [[sbuf((PARTITIONS, size), dtype) for size in sizes] for _ in range(2)]
        last = chunks(self.inputs)[-1][1]
        if columns_of(last) > last:
            for x, _ in self.tiles:
                clear(x)

    def setup(self) -> None:
        """Load nothing, because blocks share nothing."""

    def split(self, base: Any, first: int, count: int) -> list[Rows]:
        """Return frequencies as blocks."""
        return [Rows(base, first + low, 1, size) for low, size in chunks(count, self.most)]

    def block(self, rows: Rows, number: int) -> Block:
        """The gradient of the weight for some frequencies."""
        yield TURN
        turn = number * len(chunks(self.inputs)) * len(chunks(self.outputs)) * len(self.samples)
        for cut in chunks(self.inputs):
            for other in chunks(self.outputs):
                yield Single(partial(self._sum, rows, cut, other, turn))
                turn += len(self.samples)
        self.balance.restart()

    def _sum(self, rows: Rows, cut: tuple[int, int], other: tuple[int, int], turn: int) -> None:
        """Sum over all samples, for some channels of x and of y; turn: of the tiles for loads."""
        each = -(-rows.each // self.slots)
        shape = (columns_of(cut[1]), 2, other[1], rows.each)
        sums = sbuf(shape)  # [i, part, o, f]
        for index, samples in enumerate(self.samples):
            x, d = self._load(rows, each, samples, (cut, other), self.tiles[(turn + index) % 2])
            for low, count in chunks(each, max(1, PSUM_BANK // (2 * other[1]))):
                banks = list[tuple[int, int, Tensor]]()
                for place in range(self.slots):
                    first = place * each + low
                    held = min(count, rows.each - first, each - low)
                    if held > 0:
                        bank = psum((shape[0], held, 2 * other[1]))
                        banks.append((place, first, bank))
                for f in range(count):
                    for place, _, bank in banks:
                        if f >= bank.shape[1]:
                            continue
                        partition = place * self.slot
                        slots = slice(partition, partition + 2 * samples[1])
                        held_x, moved = x[slots, low + f], d[slots, low + f]
                        multiply_in_slot(bank[:, f], held_x, moved, partition, self.slot, False)
                for _, first, bank in banks:
                    held = bank.shape[1]
                    data = bank.reshape_dim(2, (2, other[1])).permute((0, 2, 3, 1))
                    dst = sums[..., first : first + held]
                    if index == 0:
                        self.balance.move(dst, data)
                    else:
                        self.balance.add(dst, data)
        for part, target in enumerate(self.target):
            size = self.outputs * self.total
            rectangle = target.ap(
                [[size, cut[1]], [self.total, other[1]], [1, rows.each]],
                cut[0] * size + other[0] * self.total + rows.first,
                scalar_offset=rows.base,
                indirect_dim=2,
            )
            transfer(rectangle, sums[0 : cut[1], part], rows.base)

    def _load(
        self,
        rows: Rows,
        each: int,
        samples: tuple[int, int],
        channels: tuple[tuple[int, int], tuple[int, int]],
        tiles: Sequence[Tensor],
    ) -> tuple[Tensor, Tensor]:
        """Load X [(slot, part, b), f, i] and D [(slot, part, b), f, (part, o)]."""
        (first, count), (cut, other) = samples, channels
        widths = columns_of(cut[1]), 2 * other[1]
        x, d = (
            tile[:, 0 : each * width].reshape_dim(1, (each, width))
            for tile, width in zip(tiles, widths, strict=True)
        )
        for place in range(self.slots):
            held = min(each, rows.each - place * each)
            if held <= 0:
                continue
            for part in range(2):
                partition = place * self.slot + part * count
                b = slice(partition, partition + count)
                start = first, rows.first + place * each
                self._load_part(x[b, 0:held, 0 : cut[1]], self.of_x, start, (part, cut), rows)
                for half in range(2):
                    o = slice(half * other[1], (half + 1) * other[1])
                    of_part = part + half, other
                    self._load_part(d[b, 0:held, o], self.of_dy, start, of_part, rows)
        return x, d

    def _load_part(
        self,
        place: Tensor,
        source: Tensor,
        start: tuple[int, int],
        part: tuple[int, tuple[int, int]],
        rows: Rows,
    ) -> None:
        """Load one part of some channels, of samples and frequencies from ``start`` on."""
        number, (low, count) = part
        _, total, parts, channels = source.shape
        width = parts * channels
        data = source.ap(
            [[total * width, place.shape[0]], [width, place.shape[1]], [1, count]],
            (start[0] * total + start[1]) * width + number * channels + low,
            scalar_offset=rows.base,
            indirect_dim=1,
        )
        transfer(place, data, rows.base)
