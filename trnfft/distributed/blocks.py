"""Transforms of a shard in chunks and blocks, with the exchanges before and after them.

Rows along the dimensions of a transform are independent, so that along another one a shard can be
cut into chunks. While the all-to-all of one is under way the device works on the next:

    exchange before    start 0, wait 0, start 1, transform 0, wait 1, start 2, transform 1, ...
    exchange after     transform 0, start 0, transform 1, wait 0, start 1, transform 2, wait 1, ...

How many is up to `overlap.py`. A chunk is transformed in blocks of a few MiB, which is enough for a
backend to be as fast, as one may take several times the memory of what it transforms; torch.fft
does so. Blocks come out of the buffer of one exchange and go into that of the other, without a
copy of the shard between them. No more than one chunk is under way at a time after a transform,
so that what a device holds stays within three shards: what it had, what has arrived, and chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trnfft.complex.kinds import parts_apart
from trnfft.complex.tensor import join_to_read
from trnfft.distributed.exchange import (
    End,
    Exchange,
    Flight,
    Passage,
    Start,
    elements,
    exchanged,
    is_followed,
    unpacked,
    within,
)
from trnfft.distributed.layout import Interval

Held = list[torch.Tensor]  # parts; who gets such a list empties it when it needs them no more

_BLOCK = 8 << 20  # bytes


@dataclass(frozen=True)
class Rows:
    """A transform of what this device has, and how to cut that.

    Attributes:
        function: the parts of the result of those of some rows, which are this interval.
        dims: a dimension that the function does not work along, as its argument has it, and as its
            result does; None where there is none.
        chunks: the number of exchanges in place of one.
    """

    function: Callable[[Held, Interval], Held]
    dims: tuple[int, int] | None
    chunks: int = 1


def of_last(
    function: Callable[[Any], Any], dims: Sequence[int]
) -> Callable[[Held, Interval], Held]:
    """A function of a tensor, or of a ComplexTensor, as one of parts, wherever their rows are.

    It gets these dimensions as the last ones. That is how kernels need them, and in its result they
    are back by a view: exchanges bring them into an order in memory anyway.
    """
    ends = range(-len(dims), 0)

    def of_parts(parts: Held, interval: Interval) -> Held:
        moved = [part.movedim(tuple(dims), tuple(ends)) for part in parts]
        parts.clear()
        y = function(join_to_read(*moved) if len(moved) == 2 else moved[0])
        results = parts_apart(y) if y.is_complex() else (y,)
        return [part.movedim(tuple(ends), tuple(dims)) for part in results]

    return of_parts


def transformed(
    parts: Held, rows: Rows, before: Exchange | None = None, after: Exchange | None = None
) -> Held:
    """The parts of an exchange, a transform and an exchange. Differentiable.

    Args:
        parts: of what this device has; the list is emptied.
        rows: the transform, with a dimension that neither exchange makes whole or splits, but for
            the sources of the one after.
        before, after: the exchanges, None for none. Along `rows.dims` what this device has between
            them is the same box.
    """
    if rows.dims is None:
        held = exchanged(parts, before) if before else taken(parts)
        held = rows.function(held, Interval(0, 1))
        return exchanged(held, after) if after else held
    if before:
        own = before.target[rows.dims[0]]
    elif after:
        own = after.source[rows.dims[1]]
    else:
        own = Interval(0, parts[0].shape[rows.dims[0]])
    if is_followed(parts):
        return _followed(parts, rows, rows.dims, own, before, after)
    return _in_blocks(parts, rows, rows.dims, own, before, after)


def _followed(
    parts: Held,
    rows: Rows,
    dims: tuple[int, int],
    own: Interval,
    before: Exchange | None,
    after: Exchange | None,
) -> Held:
    """With operations that autograd knows, each of a whole chunk."""
    count = rows.chunks
    chunks = [own.chunk(index, count) for index in range(count)]
    given = taken(parts)
    if before:
        starts = tuple(
            Passage(before.of_targets(dims[0], index, count), len(given)) for index in range(count)
        )
        tokens = Start.apply(starts, *given)
        given.clear()
    elif count == 1:  # a split would have a copy as its derivative
        cut = [given]
    else:
        sizes = [chunk.size for chunk in chunks]
        cut = [list(x) for x in zip(*(part.split(sizes, dims[0]) for part in given), strict=True)]
    made: list[Held] = []
    ends: list[Passage] = []
    for index, chunk in enumerate(chunks):
        x = list(End.apply((starts[index],), tokens[index])) if before else cut[index]
        y = rows.function(x, chunk)
        if after:
            ends.append(Passage(after.of_sources(dims[1], index, count), len(y)))
            y = list(Start.apply((ends[-1],), *y))
        made.append(y)
    if after:
        return list(End.apply(tuple(ends), *(token for (token,) in made)))
    return made[0] if count == 1 else [torch.cat(part, dims[1]) for part in zip(*made, strict=True)]


def _in_blocks(
    parts: Held,
    rows: Rows,
    dims: tuple[int, int],
    own: Interval,
    before: Exchange | None,
    after: Exchange | None,
) -> Held:
    """Without autograd, in memory that is given back as soon as can be."""
    count, held = rows.chunks, taken(parts)
    source = _Source(held, before, dims[0], own, count)
    target = _Target(after, dims[1], own, count)
    step = _step(held, before, own.size)
    source.start(0)
    for index in range(count):
        chunk = own.chunk(index, count)
        source.next(index)
        is_last = index == count - 1
        for start in range(chunk.start, max(chunk.stop, chunk.start + 1), step):
            block = Interval(start, min(start + step, chunk.stop))
            x = source.block(block)
            if is_last and block.stop == chunk.stop:
                source.clear()
            target.put(rows.function(x, block), block, index)
        target.start(index)
    return target.parts()


class _Source:
    """What is transformed: the shard of this device, or what comes by an exchange."""

    def __init__(
        self, parts: Held, exchange: Exchange | None, dim: int, own: Interval, count: int
    ) -> None:
        self._parts, self._exchange, self._dim, self._own = parts, exchange, dim, own
        self._count = count
        self._flight: Flight | None = None
        self._following: Flight | None = None

    def start(self, index: int) -> None:
        """Sends what is exchanged for a chunk, if there is one of this index."""
        if self._exchange and index < self._count:
            exchange = self._exchange.of_targets(self._dim, index, self._count)
            self._following = Flight(exchange, len(self._parts), self._parts[0])
            self._following.pack(self._parts, exchange.source)
            if index == self._count - 1:
                self._parts.clear()
            self._following.start()

    def next(self, index: int) -> None:
        """Waits for a chunk, and sends that which follows."""
        if self._exchange:
            self._flight, self._following = self._following, None
            assert self._flight is not None
            self._flight.wait()
            self.start(index + 1)

    def block(self, block: Interval) -> Held:
        """The parts of an interval of the chunk."""
        if self._flight is None:
            narrowed = block.start - self._own.start, block.size
            return [part.narrow(self._dim, *narrowed) for part in self._parts]
        box = within(self._flight.exchange.target, self._dim, block)
        made = self._flight.made(box)
        self._flight.unpack(made, box)
        return made

    def clear(self) -> None:
        """Nothing more is needed."""
        self._parts.clear()
        self._flight = None


class _Target:
    """Where results go: parts of a shard, or the buffers of an exchange."""

    def __init__(self, exchange: Exchange | None, dim: int, own: Interval, count: int) -> None:
        self._exchange, self._dim, self._own, self._count = exchange, dim, own, count
        self._parts: Held = []
        self._flights: list[Flight] = []

    def put(self, results: Held, block: Interval, index: int) -> None:
        """The results of an interval, which is in the chunk of this index."""
        if self._exchange:
            if len(self._flights) == index:
                exchange = self._exchange.of_sources(self._dim, index, self._count)
                self._flights.append(Flight(exchange, len(results), results[0]))
            self._flights[-1].pack(results, within(self._exchange.source, self._dim, block))
            return
        if block == self._own:
            self._parts = results
            return
        if not self._parts:
            shape = list(results[0].shape)
            shape[self._dim] = self._own.size
            self._parts = [part.new_empty(shape) for part in results]
        for whole, part in zip(self._parts, results, strict=True):
            whole.narrow(self._dim, block.start - self._own.start, block.size).copy_(part)

    def start(self, index: int) -> None:
        """Sends the chunk of this index, when the one before has arrived."""
        if self._exchange:
            if index:
                self._flights[index - 1].wait()
            self._flights[index].start()

    def parts(self) -> Held:
        """All results."""
        return unpacked(self._flights) if self._exchange else self._parts


def _step(parts: Held, before: Exchange | None, size: int) -> int:
    """How much of a dimension of this size a block takes."""
    numbers = elements(before.target) if before else parts[0].numel()
    held = len(parts) * parts[0].element_size() * numbers
    return max(1, size) if held < 2 * _BLOCK else max(1, size * _BLOCK // held)


def taken(parts: Held) -> Held:
    """The parts in a list of one's own, the given one emptied."""
    taken = list(parts)
    parts.clear()
    return taken
