"""Transforms of a shard in chunks and blocks, with the exchanges before and after them.

Rows along the dimensions of a transform are independent, so that a shard can be cut into chunks
along another dimension. While the all-to-all of one chunk is under way, the device works on the
next chunk:

    exchange before    start 0, wait 0, start 1, transform 0, wait 1, start 2, transform 1, ...
    exchange after     transform 0, start 0, transform 1, wait 0, start 1, transform 2, wait 1, ...

`overlap.py` decides the number of chunks. A chunk is transformed in blocks of a few MiB. This is
enough for a backend to reach its full speed, and limits the memory: a backend may need several
times the memory of what it transforms, as torch.fft does. Blocks are read from the buffer of one
exchange and written to the buffer of the other, without a copy of the shard in between. After a
transform at most one chunk is under way at a time, so that a device holds at most three shards:
what it had, what has arrived, and chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from trnfft.complex.parts import join_to_read, parts_apart, parts_to_transform
from trnfft.complex.tensor import ComplexTensor
from trnfft.distributed.layout import Interval
from trnfft.distributed.run.exchange import (
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

# parts; a function that gets such a list empties it when it no longer needs the parts
Held = list[torch.Tensor]

_BLOCK = 8 << 20  # bytes of a block


@dataclass(frozen=True)
class Rows:
    """A transform of what this device has, and how to cut its input.

    Attributes:
        function: maps the parts of some rows, and their interval, to the parts of the result.
        dims: a dimension along which the function does not work, in its argument and in its result;
            None where there is none.
        chunks: the number of exchanges in place of one.
    """

    function: Callable[[Held, Interval], Held]
    dims: tuple[int, int] | None
    chunks: int = 1


def of_last(
    function: Callable[[torch.Tensor], torch.Tensor], dims: Sequence[int]
) -> Callable[[Held, Interval], Held]:
    """Returns a function of parts, wherever their rows are, from one of a tensor or ComplexTensor.

    The function gets the given dimensions as the last ones, as kernels need them. In its result
    they are moved back by a view, because exchanges change the order in memory anyway.
    """
    ends = range(-len(dims), 0)

    def of_parts(parts: Held, interval: Interval) -> Held:
        moved = [part.movedim(tuple(dims), tuple(ends)) for part in parts]
        parts.clear()
        y = function(join_to_read(*moved) if len(moved) == 2 else moved[0])
        if isinstance(y, ComplexTensor):
            results: tuple[torch.Tensor, ...] = parts_to_transform(y)  # nothing else has the result
        else:
            results = parts_apart(y) if y.is_complex() else (y,)
        return [part.movedim(tuple(ends), tuple(dims)) for part in results]

    return of_parts


def transformed(
    parts: Held, rows: Rows, before: Exchange | None = None, after: Exchange | None = None
) -> Held:
    """Returns the parts after an exchange, a transform and an exchange. Differentiable.

    Args:
        parts: the parts of what this device has; the list is emptied.
        rows: the transform. Neither exchange makes its dimension `dims` whole or splits it, except
            for the sources of the exchange after it.
        before, after: the exchanges, or None. Between them, what this device has is the same
            interval along `rows.dims`.
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
    """Does the work with operations that autograd knows, each on a whole chunk."""
    count = rows.chunks
    chunks = [own.chunk(index, count) for index in range(count)]
    given = taken(parts)
    if before:
        starts = tuple(
            Passage(before.chunk(False, dims[0], index, count), len(given))
            for index in range(count)
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
            ends.append(Passage(after.chunk(True, dims[1], index, count), len(y)))
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
    """Does the work without autograd, in memory that is given back as soon as possible."""
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
    """The input of the transform: the shard of this device, or what arrives by an exchange."""

    def __init__(
        self, parts: Held, exchange: Exchange | None, dim: int, own: Interval, count: int
    ) -> None:
        self._parts, self._exchange, self._dim, self._own = parts, exchange, dim, own
        self._count = count
        self._flight: Flight | None = None
        self._following: Flight | None = None

    def start(self, index: int) -> None:
        """Starts the exchange for the chunk of this index, if there is one."""
        if self._exchange and index < self._count:
            exchange = self._exchange.chunk(False, self._dim, index, self._count)
            self._following = Flight(exchange, len(self._parts), self._parts[0])
            self._following.pack(self._parts, exchange.source)
            if index == self._count - 1:
                self._parts.clear()
            self._following.start()

    def next(self, index: int) -> None:
        """Waits for a chunk, and starts the exchange of the next one."""
        if self._exchange:
            self._flight, self._following = self._following, None
            assert self._flight is not None
            self._flight.wait()
            self.start(index + 1)

    def block(self, block: Interval) -> Held:
        """Returns the parts of an interval of the chunk."""
        if self._flight is None:
            narrowed = block.start - self._own.start, block.size
            return [part.narrow(self._dim, *narrowed) for part in self._parts]
        box = within(self._flight.exchange.target, self._dim, block)
        made = self._flight.made(box)
        self._flight.unpack(made, box)
        return made

    def clear(self) -> None:
        """Frees the input, because nothing more is needed."""
        self._parts.clear()
        self._flight = None


class _Target:
    """The place of the results: the parts of a shard, or the buffers of an exchange."""

    def __init__(self, exchange: Exchange | None, dim: int, own: Interval, count: int) -> None:
        self._exchange, self._dim, self._own, self._count = exchange, dim, own, count
        self._parts: Held = []
        self._flights: list[Flight] = []

    def put(self, results: Held, block: Interval, index: int) -> None:
        """Stores the results of an interval, which is in the chunk of this index."""
        if self._exchange:
            if len(self._flights) == index:
                exchange = self._exchange.chunk(True, self._dim, index, self._count)
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
        """Sends the chunk of this index, when the chunk before it has arrived."""
        if self._exchange:
            if index:
                self._flights[index - 1].wait()
            self._flights[index].start()

    def parts(self) -> Held:
        """Returns all results."""
        return unpacked(self._flights) if self._exchange else self._parts


def _step(parts: Held, before: Exchange | None, size: int) -> int:
    numbers = elements(before.target) if before else parts[0].numel()
    held = len(parts) * parts[0].element_size() * numbers
    return max(1, size) if held < 2 * _BLOCK else max(1, size * _BLOCK // held)


def taken(parts: Held) -> Held:
    """Returns the parts in a new list, and empties the given list."""
    taken = list(parts)
    parts.clear()
    return taken
