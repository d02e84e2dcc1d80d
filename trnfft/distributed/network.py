"""What an all-to-all exchange takes: the model of the network, which is small.

Devices are numbered as a mesh numbers them, the last axis fastest, and fill chips, then instances.
Each device of a group of g sends (g - 1) / g of its shard, an equal part to each other one, through
the innermost link that joins the two: HBM inside a chip, NeuronLink inside an instance, EFA between
instances. All groups exchange at once and share the links evenly. Then

    time = start + latency + messages * time of a message + the slowest link's bytes / its rate.

The links carry data side by side. Packing is no part of it: that is up to the kernels around it.
Constants of the chips are fields of `nki_kernels.hardware.NeuronCore`, with their sources.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from nki_kernels.hardware import NeuronCore

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
    """The exchange along one axis of a mesh, of shards of so many bytes, as its slowest device.

    Args:
        machine: devices and links.
        mesh_shape: of all devices.
        mesh_axis: the groups are lines along it.
        shard_bytes: what each device holds.
        dimensions: of the tensor, see `Exchange`.
    """
    size = mesh_shape[mesh_axis]
    piece = shard_bytes / size
    slowest: tuple[Traffic, ...] = ()
    for peers in _peers(machine, mesh_shape, mesh_axis):
        traffic = tuple(
            Traffic(link.name, count, count * piece, count * piece / link.bytes_per_ns)
            for link, count in zip(machine.links, peers, strict=True)
            if count
        )
        slowest = max(slowest, traffic, key=_duration)
    used = {part.link for part in slowest}
    latency = max((link.latency_ns for link in machine.links if link.name in used), default=0.0)
    fixed = machine.start_ns + latency + (size - 1) * machine.message_ns
    return Exchange(mesh_axis, size, dimensions, slowest, fixed)


def _duration(traffic: tuple[Traffic, ...]) -> float:
    return max((part.ns for part in traffic), default=-1.0)


def _peers(machine: Machine, mesh_shape: tuple[int, ...], mesh_axis: int) -> set[tuple[int, ...]]:
    """How many others a device reaches by each link, for every kind of device that there is."""
    size = mesh_shape[mesh_axis]
    stride = math.prod(mesh_shape[mesh_axis + 1 :])
    devices = range(math.prod(mesh_shape))
    groups = [device - device // stride % size * stride for device in devices]
    reached = []  # by each link or one inside it, the device itself included
    for link in machine.links:
        joined = [device // link.devices for device in devices]
        together = Counter(zip(groups, joined, strict=True))
        reached.append([together[key] for key in zip(groups, joined, strict=True)])
    kinds = set(zip(*reached, strict=True))
    return {
        tuple(outer - inner for inner, outer in zip((1, *kind[:-1]), kind, strict=True))
        for kind in kinds
    }
