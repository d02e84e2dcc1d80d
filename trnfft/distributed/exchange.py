"""The exchange of which all distributed transforms consist: from some boxes to others.

    device i holds box S_i and needs box T_i:    i sends to j what S_i and T_j have in common

With S_i rows and T_j columns of a matrix, it is the transpose of a slab decomposition. With two
chunkings of one dimension, it pads, trims or aligns. Numbers that no S_i has are zero. The numbers
for all devices, of both parts of complex numbers, are packed into one buffer by one copy, go
through one all-to-all with uneven splits, and leave the received buffer by one copy. No device ever
holds more than its own boxes. The derivative is the exchange in the opposite direction.

Between its start and its end, other work goes on: `blocks.py` starts the exchange of one chunk of a
box, and transforms the next chunk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed._functional_collectives as collectives
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh

from trnfft.distributed import turns
from trnfft.distributed.layout import Box, Interval, Layout

Parts = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Exchange:
    """The part of one device in an exchange.

    Attributes:
        group: the devices, in the order of the boxes.
        rank: the rank of this device among them.
        sources, targets: the boxes that each device has and gets.
        last: the dimensions that the received box has last in memory; the others keep their order.
    """

    group: ProcessGroup
    rank: int
    sources: tuple[Box, ...]
    targets: tuple[Box, ...]
    last: tuple[int, ...] = ()

    @staticmethod
    def of_layouts(
        mesh: DeviceMesh, along: int, shape: Sequence[int], before: Layout, after: Layout
    ) -> Exchange:
        """Returns the exchange along a mesh dimension between two layouts of such a tensor."""
        coordinate = coordinate_of(mesh)
        held, needed = (tuple(x.boxes(shape, coordinate, along)) for x in (before, after))
        return Exchange(mesh.get_group(along), coordinate[along], held, needed)

    @property
    def source(self) -> Box:
        """Returns the box that this device has."""
        return self.sources[self.rank]

    @property
    def target(self) -> Box:
        """Returns the box that this device gets."""
        return self.targets[self.rank]

    def back(self) -> Exchange:
        """Returns the exchange in the opposite direction."""
        return Exchange(self.group, self.rank, self.targets, self.sources)

    def of_sources(self, dim: int, index: int, count: int) -> Exchange:
        """Returns the exchange of one of `count` chunks of each device's box."""
        return replace(self, sources=tuple(chunk_of(x, dim, index, count) for x in self.sources))

    def of_targets(self, dim: int, index: int, count: int) -> Exchange:
        """Returns the exchange of one of `count` chunks of what each device gets."""
        return replace(self, targets=tuple(chunk_of(x, dim, index, count) for x in self.targets))

    def sent(self) -> list[Box]:
        """Returns what this device sends to each device."""
        return [_overlap(self.source, target) for target in self.targets]

    def received(self) -> list[Box]:
        """Returns what this device gets from each device."""
        return [_overlap(source, self.target) for source in self.sources]


class Flight:
    """An exchange under way: packed, started, and unpacked when it has arrived."""

    def __init__(self, exchange: Exchange, count: int, like: torch.Tensor) -> None:
        """Prepares an exchange of `count` parts with the dtype and device of `like`."""
        self.exchange, self.count, self._like = exchange, count, like.new_empty(0)
        self._sent, self._received = exchange.sent(), exchange.received()
        self._numbers: Any = like.new_empty(count * sum(map(elements, self._sent)))
        self._views = list(_views(self._numbers, self._sent, count))

    def pack(self, parts: Sequence[torch.Tensor], box: Box) -> None:
        """Copies what is sent of this box, which is some or all of this device's box."""
        for (piece, i), packed in zip(_pieces(self._sent, self.count), self._views, strict=True):
            _copy(parts[i], box, packed, piece)

    def start(self) -> None:
        """Starts the exchange, and returns at once."""
        sent, received = (
            [self.count * elements(box) for box in boxes] for boxes in (self._sent, self._received)
        )
        self._views = []
        group = self.exchange.group
        turns.start(group)
        with turns.interrupted(group):
            self._numbers = collectives.all_to_all_single(self._numbers, received, sent, group)

    def wait(self) -> None:
        """Returns when everything has arrived, and the memory of what was sent is free."""
        if not self._views:
            with turns.interrupted(self.exchange.group):
                self._numbers = collectives.wait_tensor(self._numbers)
            turns.arrive(self.exchange.group)
            self._views = list(_views(self._numbers, self._received, self.count))

    def unpack(self, parts: Sequence[torch.Tensor], box: Box) -> None:
        """Copies what has arrived of this box, which is some or all of this device's box."""
        self.wait()
        pieces = _pieces(self._received, self.count)
        for (piece, i), packed in zip(pieces, self._views, strict=True):
            _copy(packed, piece, parts[i], box)

    def made(self, box: Box, others: Sequence[Flight] = ()) -> list[torch.Tensor]:
        """Allocates the parts of a box of this device, zero where the flights do not fill it."""
        brought = sum(elements(piece) for x in (self, *others) for piece in x._received)
        order = [dim for dim in range(len(box)) if dim not in self.exchange.last]
        order += self.exchange.last
        shape = [box[dim].size for dim in order]
        back = [order.index(dim) for dim in range(len(box))]
        is_filled = brought == elements(self.exchange.target)
        new = self._like.new_empty if is_filled else self._like.new_zeros
        return [new(shape).permute(back) for _ in range(self.count)]

    def nothing(self) -> torch.Tensor | None:
        """Returns a 0 that depends on the exchange, in a graph where it brings this device nothing.

        Otherwise the graph would leave the exchange out, while the other devices wait.
        """
        if torch.compiler.is_compiling() and not any(map(elements, self._received)):
            return self._numbers.sum()
        return None


def coordinate_of(mesh: DeviceMesh) -> tuple[int, ...]:
    """Returns the coordinates of this process on a mesh.

    Raises:
        RuntimeError: the mesh does not include this process.
    """
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise RuntimeError(
            "argument 'input' is on a mesh that does not include this process; call the function "
            "only on the processes of the mesh"
        )
    return tuple(coordinate)


def exchanged(parts: list[torch.Tensor], exchange: Exchange) -> list[torch.Tensor]:
    """Returns the box that this device needs, for each part of the box that it has. Differentiable.

    Args:
        parts: tensors of the shape of its box in `exchange.sources`, of one dtype. The list is
            emptied, so that their memory is free once they are packed.
        exchange: the exchange, which is the same on all devices except for the rank.

    Returns:
        As many tensors of the shape of its box in `exchange.targets`.
    """
    if is_followed(parts):
        passage = Passage(exchange, len(parts))
        given = tuple(parts)
        parts.clear()
        return list(End.apply((passage,), *Start.apply((passage,), *given)))
    flight = Flight(exchange, len(parts), parts[0])
    flight.pack(parts, exchange.source)
    parts.clear()
    flight.start()
    return unpacked([flight])


def is_followed(parts: Sequence[torch.Tensor]) -> bool:
    """Returns whether autograd, or a trace, records operations on the parts."""
    is_differentiated = torch.is_grad_enabled() and any(part.requires_grad for part in parts)
    return is_differentiated or torch.compiler.is_compiling()


def unpacked(flights: list[Flight]) -> list[torch.Tensor]:
    """Returns the box of this device, of which each flight brings some; the list is emptied."""
    # what was sent is freed before memory for what was received is allocated
    for flight in flights:
        flight.wait()
    box = flights[0].exchange.target
    made = flights[0].made(box, flights[1:])
    while flights:
        flight = flights.pop(0)
        flight.unpack(made, box)
        if (zero := flight.nothing()) is not None:
            made = [part + zero for part in made]
    return made


class Passage:
    """One exchange for autograd, with a start and an end.

    Between them there is no tensor: the start returns a token, an empty tensor, and the end takes
    it. The derivative of the end can therefore start the exchange back, of other sizes, and the
    derivative of the start can end it, while derivatives of other chunks are computed in between.

    Attributes:
        exchange: the exchange.
        count: the number of parts.
        flight: the flight, from its start to its end.
        back: the passage of the derivative, from its start to its end.
    """

    def __init__(self, exchange: Exchange, count: int) -> None:
        self.exchange, self.count = exchange, count
        self.flight: Flight | None = None
        self.back: Passage | None = None

    def taken(self) -> Flight:
        """Returns the flight, and removes it from here."""
        flight, self.flight = self.flight, None
        assert flight is not None
        return flight


class Start(torch.autograd.Function):
    """The start of some passages of the same parts; it returns a token for each."""

    @staticmethod
    def forward(ctx: Any, passages: tuple[Passage, ...], *parts: torch.Tensor) -> Parts:
        ctx.passages = passages
        for passage in passages:
            passage.flight = Flight(passage.exchange, passage.count, parts[0])
            passage.flight.pack(parts, passage.exchange.source)
            passage.flight.start()
        return tuple(parts[0].new_empty(0) for _ in passages)

    @staticmethod
    def backward(ctx: Any, *tokens: torch.Tensor) -> Any:
        return None, *End.apply(tuple(passage.back for passage in ctx.passages), *tokens)


class End(torch.autograd.Function):
    """The end of some passages to the same box; it returns the parts of the box."""

    @staticmethod
    def forward(ctx: Any, passages: tuple[Passage, ...], *tokens: torch.Tensor) -> Parts:
        ctx.passages = passages
        return tuple(unpacked([passage.taken() for passage in passages]))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        for passage in ctx.passages:
            passage.back = Passage(passage.exchange.back(), passage.count)
        # Derivatives are computed from the last chunk on, so its exchange starts first.
        backs = tuple(passage.back for passage in reversed(ctx.passages))
        return None, *reversed(Start.apply(backs, *grads))


def chunk_of(box: Box, dim: int, index: int, count: int) -> Box:
    """Returns one of `count` chunks of a box along a dimension."""
    return within(box, dim, box[dim].chunk(index, count))


def within(box: Box, dim: int, interval: Interval) -> Box:
    """Returns the box with another interval along a dimension."""
    return (*box[:dim], interval, *box[dim + 1 :])


def _pieces(boxes: list[Box], count: int) -> Iterator[tuple[Box, int]]:
    """Yields the box and the part of each piece of a buffer, in the buffer's order."""
    return ((box, i) for box in boxes for i in range(count))


def _views(buffer: torch.Tensor, boxes: list[Box], count: int) -> Iterator[torch.Tensor]:
    """Yields the pieces of a buffer, each in the shape of its box."""
    sizes = [elements(box) for box, _ in _pieces(boxes, count)]
    for (box, _), piece in zip(_pieces(boxes, count), buffer.split(sizes), strict=True):
        yield piece.view([interval.size for interval in box])


def _copy(source: torch.Tensor, source_box: Box, target: torch.Tensor, target_box: Box) -> None:
    """Copies what the boxes of two tensors have in common from one to the other."""
    common = _overlap(source_box, target_box)
    if elements(common):
        _part(target, target_box, common).copy_(_part(source, source_box, common))


def _part(x: torch.Tensor, own: Box, piece: Box) -> torch.Tensor:
    """Returns the numbers of `piece`, a box of the whole, of a tensor that is the box `own`."""
    for dim, (outer, inner) in enumerate(zip(own, piece, strict=True)):
        if inner != outer:
            x = x.narrow(dim, inner.start - outer.start, inner.size)
    return x


def _overlap(first: Box, second: Box) -> Box:
    return tuple(Interval.overlap(a, b) for a, b in zip(first, second, strict=True))


def elements(box: Box) -> int:
    """Returns how many numbers a box has."""
    return math.prod(interval.size for interval in box)
