"""The modelled time of an all-to-all exchange, by a small model of the network.

Devices have the numbers of a mesh, whose last axis counts fastest. They fill chips, then instances.
Each device of a group of g sends to the g - 1 others through the innermost link that joins the two:
HBM inside a chip, NeuronLink inside an instance, EFA between instances. Where shards are even, it
sends (g - 1) / g of its shard, an equal part to each. All groups exchange at once and share the
links evenly. Then

    time = start + latency + messages * time of a message + the slowest link's bytes / its rate.

The links carry data side by side. A message without bytes counts like any other. Packing is not
part of the time, but of the kernels around the exchange. The constants of the chips are fields of
`nki_sim.hardware.NeuronCore`, which has their sources.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nki_sim.hardware import NeuronCore
from trnfft.distributed.layout import Box

HBM, NEURONLINK, EFA = "HBM", "NeuronLink", "EFA"


@dataclass(frozen=True)
class Link:
    """A link that joins devices: those of one chip, those of one instance, or all."""

    name: str
    devices: float  # number of devices with consecutive numbers that it joins; infinity for all
    bytes_per_ns: float  # rate at which each device sends while all of them do
    latency_ns: float = 0.0  # time until the first byte


@dataclass(frozen=True)
class Machine:
    """Devices and the links between them, the innermost link first."""

    links: tuple[Link, ...]
    start_ns: float  # time of an all-to-all of any size
    message_ns: float  # time of every message


@dataclass(frozen=True)
class Traffic:
    """The data that the slowest device of an exchange sends over one link.

    Attributes:
        link: name of the link: "HBM", "NeuronLink" or "EFA".
        messages: number of messages.
        bytes: number of bytes.
        ns: modelled time in ns.
    """

    link: str
    messages: int
    bytes: float
    ns: float


@dataclass(frozen=True)
class Exchange:
    """An all-to-all exchange between devices, in parts, each while the next part is transformed.

    Attributes:
        mesh_axis: axis of the mesh along which the devices lie.
        devices: number of devices of a group.
        dimensions: the dimension that is whole afterwards, and the dimension that is split
            afterwards. Empty where the positions of one long dimension are exchanged.
        traffic: the data that is sent, for each link.
        fixed_ns: time of each chunk for start, latency and messages, in ns.
        chunks: number of parts.
        hidden_ns: time that passes while kernels run, in ns.
    """

    mesh_axis: int
    devices: int
    dimensions: tuple[int, ...]
    traffic: tuple[Traffic, ...]
    fixed_ns: float
    chunks: int = 1
    hidden_ns: float = 0.0

    @property
    def wire_ns(self) -> float:
        """Time of the bytes on the slowest link."""
        return max((part.ns for part in self.traffic), default=0.0)

    @property
    def ns(self) -> float:
        """Modelled time from the first byte to the last, also of the part beside kernels."""
        return self.chunks * self.fixed_ns + self.wire_ns

    @property
    def total_ns(self) -> float:
        """Modelled time without the part that passes while kernels run."""
        return self.ns - self.hidden_ns

    @property
    def bound(self) -> str:
        """The link that takes the longest, or "start" where the fixed time is longer."""
        slowest = max(self.traffic, key=lambda part: part.ns)
        return slowest.link if slowest.ns >= self.chunks * self.fixed_ns else "start"


def machine_of(chip: NeuronCore, cores: int) -> Machine:
    """Returns the instances of a chip, with devices of `cores` cores, joined by EFA."""
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
) -> Exchange:
    """Returns the exchange of even shards along one axis of a mesh.

    Args:
        machine: devices and links.
        mesh_shape, mesh_axis: the mesh of all devices, and the axis along which the groups lie.
        shard_bytes: the bytes that each device holds.
    """
    piece = shard_bytes / mesh_shape[mesh_axis]
    return _slowest(machine, mesh_shape, mesh_axis, (), lambda a, b: (b - a) * piece)


def between_boxes(
    machine: Machine,
    mesh_shape: tuple[int, ...],
    mesh_axis: int,
    sources: Sequence[Box],
    targets: Sequence[Box],
    number_bytes: int,
    dimensions: tuple[int, ...] = (),
) -> Exchange:
    """Returns the exchange along one axis of a mesh from some boxes to others, which may be uneven.

    Args:
        machine, mesh_shape, mesh_axis: as for `all_to_all`.
        sources, targets: what each device of a group has, and gets, in the group that has the
            most. The targets of consecutive devices together are one box.
        number_bytes: bytes of each number.
        dimensions: dimensions of the tensor, as in `Exchange`.
    """
    held, needed = np.array(sources), np.array(targets)  # [device, dimension, start and stop]

    def sent(first: np.ndarray, end: np.ndarray) -> np.ndarray:
        start = np.maximum(held[:, :, 0], needed[first, :, 0])
        stop = np.minimum(held[:, :, 1], needed[end - 1, :, 1])
        numbers: np.ndarray = np.maximum(stop - start, 0).prod(-1)
        return number_bytes * numbers

    return _slowest(machine, mesh_shape, mesh_axis, dimensions, sent)


def _slowest(
    machine: Machine,
    mesh_shape: tuple[int, ...],
    mesh_axis: int,
    dimensions: tuple[int, ...],
    sent: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Exchange:
    """Returns the exchange of the device whose links take the longest.

    Args:
        machine, mesh_shape, mesh_axis, dimensions: as for `between_boxes`.
        sent: the bytes that each device of a group sends to the devices from a first one up to an
            end, which is not included; it may send to itself. The arguments are arrays [group,
            device].
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


def _joined(link: Link, groups: np.ndarray, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns first and end of the devices that each reaches by the link or one inside it."""
    size = groups.shape[1]
    if math.isinf(link.devices):
        return np.zeros_like(groups), np.full_like(groups, size)
    width = int(link.devices)
    start = groups // width * width - groups[:, :1]  # start of the chip or instance
    first, end = (-(-x // stride) for x in (start, start + width))
    return np.maximum(first, 0), np.minimum(end, size)
