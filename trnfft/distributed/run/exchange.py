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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh

from trnfft.base.autograd_types import Context
from trnfft.base.cache import cached
from trnfft.base.torch_private import functional_collectives
from trnfft.distributed.layout import Box, Interval, Layout
from trnfft.distributed.run import exclusive_exchanges

collectives = functional_collectives()

Parts = tuple[torch.Tensor, ...]

_MOST_BOXES = 2**13  # of exchanges that are kept: some MiB with what follows from them

# For a piece of a tensor, the dimensions along which it is narrower, their starts and sizes.
Window = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, eq=False)
class Pieces:
    """What one device sends to each device, or gets from each."""

    box: Box
    boxes: tuple[Box, ...]

    @cached_property
    def elements(self) -> list[int]:
        """Returns how many numbers each piece has."""
        return [elements(box) for box in self.boxes]

    @cached_property
    def shapes(self) -> list[list[int]]:
        """Returns the shape of each piece."""
        return [[interval.size for interval in box] for box in self.boxes]

    def windows(self, box: Box) -> list[tuple[Window, Window] | None]:
        """Returns where the common part of a box and each piece is in the box, and in the piece.

        It is None where they have nothing in common. The box is some or all of this device's box.
        """
        return self._windows if box == self.box else list(self._common_windows(box))

    @cached_property
    def _windows(self) -> list[tuple[Window, Window] | None]:
        return list(self._common_windows(self.box))

    def _common_windows(self, box: Box) -> Iterator[tuple[Window, Window] | None]:
        for piece in self.boxes:
            common = _overlap(box, piece)
            yield (_window(box, common), _window(piece, common)) if elements(common) else None


@dataclass(frozen=True, eq=False)
class Boxes:
    """The boxes of an exchange, and what follows from them.

    Two of them are equal only if they are the same object, so that caches find them at once.
    """

    rank: int
    sources: tuple[Box, ...]
    targets: tuple[Box, ...]

    @cached_property
    def back(self) -> Boxes:
        """Returns the boxes of the exchange in the opposite direction."""
        return Boxes(self.rank, self.targets, self.sources)

    @cached_property
    def sent(self) -> Pieces:
        """Returns what this device sends to each device."""
        own = self.sources[self.rank]
        return Pieces(own, tuple(_overlap(own, target) for target in self.targets))

    @cached_property
    def received(self) -> Pieces:
        """Returns what this device gets from each device."""
        own = self.targets[self.rank]
        return Pieces(own, tuple(_overlap(source, own) for source in self.sources))

    @property
    def count(self) -> int:
        """Returns the number of devices, to which the memory is proportional."""
        return len(self.sources)


@dataclass(frozen=True)
class Exchange:
    """The part of one device in an exchange.

    Attributes:
        group: the devices, in the order of the boxes.
        boxes: the boxes that each device has and gets.
        last: the dimensions that the received box has last in memory; the others keep their order.
    """

    group: ProcessGroup
    boxes: Boxes
    last: tuple[int, ...] = ()

    @staticmethod
    def of_layouts(
        mesh: DeviceMesh, along: int, shape: Sequence[int], before: Layout, after: Layout
    ) -> Exchange:
        """Returns the exchange along a mesh dimension between two layouts of such a tensor."""
        boxes = boxes_of(coordinate_of(mesh), along, tuple(shape), before, after)
        return Exchange(mesh.get_group(along), boxes)

    @property
    def source(self) -> Box:
        """Returns the box that this device has."""
        return self.boxes.sources[self.boxes.rank]

    @property
    def target(self) -> Box:
        """Returns the box that this device gets."""
        return self.boxes.targets[self.boxes.rank]

    def back(self) -> Exchange:
        """Returns the exchange in the opposite direction."""
        return Exchange(self.group, self.boxes.back)

    def chunk(self, of_sources: bool, dim: int, index: int, count: int) -> Exchange:
        """Returns the exchange of one of `count` chunks of what devices have, or get."""
        if count == 1:
            return self
        return replace(self, boxes=_chunks(self.boxes, of_sources, dim, index, count))


class Flight:
    """An exchange under way: packed, started, and unpacked when it has arrived."""

    def __init__(self, exchange: Exchange, count: int, like: torch.Tensor) -> None:
        """Prepares an exchange of `count` parts with the dtype and device of `like`."""
        self.exchange, self.count, self._like = exchange, count, like.new_empty(0)
        self._sent, self._received = exchange.boxes.sent, exchange.boxes.received
        self._numbers: Any = like.new_empty(count * sum(self._sent.elements))
        self._views = list(_views(self._numbers, self._sent, count))

    def pack(self, parts: Sequence[torch.Tensor], box: Box) -> None:
        """Copies what is sent of this box, which is some or all of this device's box."""
        for part, inner, packed, piece in self._common(parts, self._sent, box):
            _narrowed(packed, piece).copy_(_narrowed(part, inner))

    def start(self) -> None:
        """Starts the exchange, and returns at once."""
        sent, received = (
            [self.count * size for size in pieces.elements]
            for pieces in (self._sent, self._received)
        )
        self._views = []
        group = self.exchange.group
        exclusive_exchanges.start(group)
        with exclusive_exchanges.interrupted(group):
            self._numbers = _all_to_all(self._numbers, received, sent, group)

    def wait(self) -> None:
        """Returns when everything has arrived, and the memory of what was sent is free."""
        if not self._views:
            with exclusive_exchanges.interrupted(self.exchange.group):
                self._numbers = collectives.wait_tensor(self._numbers)
            exclusive_exchanges.arrive(self.exchange.group)
            self._views = list(_views(self._numbers, self._received, self.count))

    def unpack(self, parts: Sequence[torch.Tensor], box: Box) -> None:
        """Copies what has arrived of this box, which is some or all of this device's box."""
        self.wait()
        for part, inner, packed, piece in self._common(parts, self._received, box):
            _narrowed(part, inner).copy_(_narrowed(packed, piece))

    def made(self, box: Box, others: Sequence[Flight] = ()) -> list[torch.Tensor]:
        """Allocates the parts of a box of this device, zero where the flights do not fill it."""
        brought = sum(sum(x._received.elements) for x in (self, *others))
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
        if torch.compiler.is_compiling() and not any(self._received.elements):
            return self._numbers.sum()
        return None

    def _common(
        self, parts: Sequence[torch.Tensor], pieces: Pieces, box: Box
    ) -> Iterator[tuple[torch.Tensor, Window, torch.Tensor, Window]]:
        """Yields what a box of the parts and the buffer have in common: parts, pieces, windows."""
        for position, windows in enumerate(pieces.windows(box)):
            if windows:
                views = self._views[position * self.count : (position + 1) * self.count]
                for part, packed in zip(parts, views, strict=True):
                    yield part, windows[0], packed, windows[1]


def coordinate_of(mesh: DeviceMesh) -> tuple[int, ...]:
    """Returns the coordinates of this process on a mesh."""
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
    def forward(ctx: Context, passages: tuple[Passage, ...], *parts: torch.Tensor) -> Parts:
        ctx.passages = passages
        for passage in passages:
            passage.flight = Flight(passage.exchange, passage.count, parts[0])
            passage.flight.pack(parts, passage.exchange.source)
            passage.flight.start()
        return tuple(parts[0].new_empty(0) for _ in passages)

    @staticmethod
    def backward(ctx: Context, *tokens: torch.Tensor) -> Any:
        return None, *End.apply(tuple(passage.back for passage in ctx.passages), *tokens)


class End(torch.autograd.Function):
    """The end of some passages to the same box; it returns the parts of the box."""

    @staticmethod
    def forward(ctx: Context, passages: tuple[Passage, ...], *tokens: torch.Tensor) -> Parts:
        ctx.passages = passages
        return tuple(unpacked([passage.taken() for passage in passages]))

    @staticmethod
    def backward(ctx: Context, *grads: torch.Tensor) -> Any:
        for passage in ctx.passages:
            passage.back = Passage(passage.exchange.back(), passage.count)
        # Derivatives are computed from the last chunk on, so its exchange starts first.
        backs = tuple(passage.back for passage in reversed(ctx.passages))
        return None, *reversed(Start.apply(backs, *grads))


def kept(function: Callable[..., Boxes]) -> Any:
    """Decorates a function of boxes: the boxes that were used last are kept by its arguments."""
    return cached(_MOST_BOXES, lambda boxes: boxes.count)(function)


@kept
def boxes_of(
    coordinate: tuple[int, ...], along: int, shape: tuple[int, ...], before: Layout, after: Layout
) -> Boxes:
    """Returns the boxes of an exchange along a mesh dimension between two layouts of a tensor."""
    held, needed = (tuple(x.boxes(shape, coordinate, along)) for x in (before, after))
    return Boxes(coordinate[along], held, needed)


@kept
def _chunks(boxes: Boxes, of_sources: bool, dim: int, index: int, count: int) -> Boxes:
    """Returns the boxes with one of `count` chunks of each source, or of each target."""
    sources, targets = boxes.sources, boxes.targets
    chunks = tuple(
        within(box, dim, box[dim].chunk(index, count))
        for box in (sources if of_sources else targets)
    )
    return Boxes(boxes.rank, *((chunks, targets) if of_sources else (sources, chunks)))


def within(box: Box, dim: int, interval: Interval) -> Box:
    """Returns the box with another interval along a dimension."""
    return (*box[:dim], interval, *box[dim + 1 :])


def _all_to_all(
    numbers: torch.Tensor, received: list[int], sent: list[int], group: ProcessGroup
) -> torch.Tensor:
    """Starts an all-to-all; its result may be read after `collectives.wait_tensor`."""
    if torch.compiler.is_compiling():
        return collectives.all_to_all_single(numbers, received, sent, group)
    # torch's function would wrap the result in a tensor that waits where it is read, which takes
    # most of the time of a small exchange.
    return torch.ops._c10d_functional.all_to_all_single(numbers, received, sent, group.group_name)


def _views(buffer: torch.Tensor, pieces: Pieces, count: int) -> Iterator[torch.Tensor]:
    """Yields the pieces of a buffer in its order, `count` of each, in their shapes."""
    parts = iter(buffer.split([size for size in pieces.elements for _ in range(count)]))
    for shape in pieces.shapes:
        for _ in range(count):
            yield next(parts).view(shape)


def _window(own: Box, piece: Box) -> Window:
    """Returns where a piece is in a box, of which it is a part."""
    return tuple(
        (dim, inner.start - outer.start, inner.size)
        for dim, (outer, inner) in enumerate(zip(own, piece, strict=True))
        if inner != outer
    )


def _narrowed(x: torch.Tensor, window: Window) -> torch.Tensor:
    for dim, start, size in window:
        x = x.narrow(dim, start, size)
    return x


def _overlap(first: Box, second: Box) -> Box:
    return tuple(Interval.overlap(a, b) for a, b in zip(first, second, strict=True))


def elements(box: Box) -> int:
    """Returns how many numbers a box has."""
    return math.prod(interval.size for interval in box)
