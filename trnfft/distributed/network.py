"""What an all-to-all exchange takes: the model of the network, which is small.

Devices are numbered as a mesh numbers them, the last axis fastest, and fill chips, then instances.
Each device of a group of g sends to the g - 1 others, through the innermost link that joins the
two: HBM inside a chip, NeuronLink inside an instance, EFA between instances. Where shards are even
that is (g - 1) / g of its own, an equal part to each. All groups exchange at once and share the
links evenly. Then

    time = start + latency + messages * time of a message + the slowest link's bytes / its rate.

The links carry data side by side. Messages without bytes count as others. Packing is no part of
it: that is up to the kernels around it.
Constants of the chips are fields of `nki_kernels.hardware.NeuronCore`, with their sources.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_kernels.hardware import NeuronCore
from trnfft.distributed.layout import Box

HBM, NEURONLINK, EFA = "HBM", "NeuronLink", "EFA"


@dataclass(frozen=True)
class Link:
    """What joins devices: all those of one chip, of one instance, or all there are."""

    name: str
    devices: float  # so many with consecutive numbers; infinity for all
    bytes_per_ns: float  # that each of them sends, when all do
    latency_ns: float = 0.0  # of the first byte


@dataclass(frozen=True)
class Machine:
    """Devices and the links between them, the innermost first."""

    links: tuple[Link, ...]
    start_ns: float  # of an all-to-all, however small
    message_ns: float  # of every message


@dataclass(frozen=True)
class Traffic:
    """What the slowest device of an exchange sends over one link."""

    link: str
    messages: int
    bytes: float
    ns: float


@dataclass(frozen=True)
class Exchange:
    """An all-to-all between `devices`, in `chunks` parts, each while the next one is transformed.

    `dimensions` are those that change: the first is whole afterwards, the second split. Without
    any the positions of one long dimension are exchanged.
    """

    mesh_axis: int
    devices: int  # of a group
    dimensions: tuple[int, ...]
    traffic: tuple[Traffic, ...]
    fixed_ns: float  # of each chunk: start, latency and messages
    chunks: int = 1
    hidden_ns: float = 0.0  # that passes while kernels run

    @property
    def wire_ns(self) -> float:
        """Time of the bytes on the slowest link."""
        return max((part.ns for part in self.traffic), default=0.0)

    @property
    def ns(self) -> float:
        """Modelled time from the first byte to the last, with what is hidden."""
        return self.chunks * self.fixed_ns + self.wire_ns

    @property
    def total_ns(self) -> float:
        """Modelled time without what is hidden."""
        return self.ns - self.hidden_ns

    @property
    def bound(self) -> str:
        """The link that takes the longest, or "start" where the fixed time is longer."""
        slowest = max(self.traffic, key=lambda part: part.ns)
        return slowest.link if slowest.ns >= self.chunks * self.fixed_ns else "start"


def machine_of(chip: NeuronCore, cores: int) -> Machine:
    """The instances of a chip, with devices of so many cores, joined by EFA."""
    per_chip = chip.cores_per_chip // cores
    per_instance = per_chip * chip.chips_per_instance
    outward = chip.neuronlink_chip_bytes_per_ns * chip.neuronlink_reached / chip.neuronlink_hops
    links = (
        # Every byte is read from HBM and written to it.
        Link(HBM, per_chip, 1 / chip.dma_floor_ns(1, 2, cores)),
        Link(NEURONLINK, per_instance, outward / per_chip),
        Link(EFA, math.inf, chip.efa_instance_bytes_per_ns / per_instance, chip.efa_latency_ns),
    )
    return Machine(links, chip.all_to_all_start_ns, chip.message_ns)


def all_to_all(
    machine: Machine,
    mesh_shape: tuple[int, ...],
    mesh_axis: int,
    shard_bytes: float,
    dimensions: tuple[int, ...] = (),
) -> Exchange:
    """The exchange along one axis of a mesh, of even shards of so many bytes.

    Args:
        machine: devices and links.
        mesh_shape: of all devices.
        mesh_axis: the groups are lines along it.
        shard_bytes: what each device holds.
        dimensions: of the tensor, see `Exchange`.
    """
    piece = shard_bytes / mesh_shape[mesh_axis]
    return _slowest(machine, mesh_shape, mesh_axis, dimensions, lambda a, b: (b - a) * piece)


def between_boxes(
    machine: Machine,
    mesh_shape: tuple[int, ...],
    mesh_axis: int,
    sources: Sequence[Box],
    targets: Sequence[Box],
    number_bytes: int,
    dimensions: tuple[int, ...] = (),
) -> Exchange:
    """The exchange along one axis of a mesh from some boxes to others, which may be uneven.

    Args:
        machine, mesh_shape, mesh_axis, dimensions: as for `all_to_all`.
        sources, targets: what each device of a group has, and gets, in the group that has the
            most. Targets of devices that follow one another are one box together.
        number_bytes: of each number.
    """
    held, needed = np.array(sources), np.array(targets)  # [device, dimension, start and stop]

    def sent(first: Any, end: Any) -> Any:
        start = np.maximum(held[:, :, 0], needed[first, :, 0])
        stop = np.minimum(held[:, :, 1], needed[end - 1, :, 1])
        return number_bytes * np.maximum(stop - start, 0).prod(-1)

    return _slowest(machine, mesh_shape, mesh_axis, dimensions, sent)


def _slowest(
    machine: Machine,
    mesh_shape: tuple[int, ...],
    mesh_axis: int,
    dimensions: tuple[int, ...],
    sent: Callable[[Any, Any], Any],
) -> Exchange:
    """The exchange of the device whose links take the longest.

    Args:
        machine, mesh_shape, mesh_axis, dimensions: as for `all_to_all`.
        sent: the bytes that each device of a group sends to those from one to another, itself
            included; of arrays [group, device], the end is that after the last.
    """
    size, stride = mesh_shape[mesh_axis], math.prod(mesh_shape[mesh_axis + 1 :])
    devices = np.arange(math.prod(mesh_shape)).reshape(-1, size, stride)
    groups = devices.swapaxes(1, 2).reshape(-1, size)
    inner = np.broadcast_to(np.arange(size), groups.shape)  # the device itself
    met, passed = 1, sent(inner, inner + 1)
    links = []  # with messages and bytes of each device
    for link in machine.links:
        first, end = _joined(link, groups, stride)
        links.append((link, end - first - met, sent(first, end) - passed))
        met, passed = end - first, sent(first, end)
    times = np.max([total / link.bytes_per_ns for link, _, total in links], 0)
    at = np.unravel_index(times.argmax(), times.shape)
    used = [(link, int(count[at]), float(total[at])) for link, count, total in links if count[at]]
    traffic = tuple(
        Traffic(link.name, count, total, total / link.bytes_per_ns) for link, count, total in used
    )
    latency = max((link.latency_ns for link, _, _ in used), default=0.0)
    fixed = machine.start_ns + latency + (size - 1) * machine.message_ns
    return Exchange(mesh_axis, size, dimensions, traffic, fixed)


def _joined(link: Link, groups: Any, stride: int) -> tuple[Any, Any]:
    """Start and end, in its group, of what each device reaches by the link or one inside it."""
    size = groups.shape[1]
    if math.isinf(link.devices):
        return np.zeros_like(groups), np.full_like(groups, size)
    width = int(link.devices)
    start = groups // width * width - groups[:, :1]  # of the chip or instance
    first, end = (-(-x // stride) for x in (start, start + width))
    return np.maximum(first, 0), np.minimum(end, size)
