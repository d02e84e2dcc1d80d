"""Plans of transforms over many devices: decomposition, exchanges, kernels, modelled time.

A tensor of d dimensions on a mesh of m < d axes has its first m dimensions split. The other
dimensions are transformed first. Then each axis of the mesh exchanges a dimension that it splits
for another one, which makes the first one whole. This is a slab decomposition for m = 1, and a
pencil decomposition for m = 2. In natural order as many exchanges restore the placements of the
input. `route.py` decides the order of the exchanges, as it does for transforms that run.

One dimension of N = N1 N2 points is split by the four-step algorithm, x[n1 N2 + n2]: an exchange
makes n1 whole, then follow transforms of N1, twiddle factors, an exchange that makes n2 whole, and
transforms of N2. Frequency k1 + N1 k2 is then on the device of k1, in planned order; one more
exchange makes the order natural. A length without such factors is Bluestein's convolution, three
transforms of a length that has them. Chunks that are not rows are aligned by an exchange:
`four_step.py`.

Times are modelled: kernels by the planner, exchanges by `network`. The time of a launch was
measured by others.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from torch.distributed.tensor import Shard

from nki_sim import hardware
from nki_sim.measured_times import about, in_words
from trnfft.base.checks import brief, check_flag
from trnfft.distributed.layout import layout_of
from trnfft.distributed.model.modelled_steps import (
    BLUESTEIN,
    COMPLEX_BYTES,
    Cluster,
    Group,
    way_alone,
)
from trnfft.distributed.model.network import Exchange, machine_of
from trnfft.distributed.model.route import Line, Problem
from trnfft.distributed.run.overlap import best_chunks

if TYPE_CHECKING:
    from trnfft.distributed.model.prices import Kernel

NATURAL, PLANNED = "natural", "planned"
LOCAL, SLAB, PENCIL = "local", "slab", "pencil"
SHARDS_HELD = 3  # shards on a device: data, and what is sent and received of it


@dataclass(frozen=True, kw_only=True)
class DistributedPlan:
    """A transform of `shape` over a mesh of devices: its steps in their order, with modelled times.

    `trnfft.distributed.plan` returns it. A device is what a process of torch.distributed has: a
    NeuronCore, whose degree of LNC is `cores`.

    Attributes:
        shape: shape of the tensor.
        mesh_shape: numbers of devices along the axes of the mesh.
        real: whether the data is real.
        order: "natural" or "planned".
        target: name of the chip.
        cores: the degree of LNC.
        precision: the precision mode.
        decomposition: "local", "slab", "pencil", or the algorithm for one split dimension.
        split: the two lengths of the four-step algorithm, which are those of Bluestein's
            convolution for "bluestein". Empty for other decompositions.
        steps: kernels and exchanges in their order.
        alone_ns: time of the quickest way of one device with all the data and enough memory, in ns,
            whatever the mesh. It may use kernels for more or fewer dimensions at once.
    """

    shape: tuple[int, ...]
    mesh_shape: tuple[int, ...]
    real: bool
    order: str
    target: str
    cores: int
    precision: str
    decomposition: str
    split: tuple[int, ...]
    steps: tuple[Kernel | Exchange, ...]
    alone_ns: float

    @property
    def devices(self) -> int:
        """Number of devices of the mesh."""
        return math.prod(self.mesh_shape)

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The all-to-all exchanges, first to last."""
        return tuple(step for step in self.steps if isinstance(step, Exchange))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that each device runs, first to last."""
        return tuple(step for step in self.steps if not isinstance(step, Exchange))

    @property
    def kernels_ns(self) -> float:
        """Modelled time of the kernels on each device, without their launches."""
        return sum(kernel.ns for kernel in self.kernels)

    @property
    def launches_ns(self) -> float:
        """About the time of the launches, counted for each chunk."""
        return sum(kernel.launches_ns for kernel in self.kernels)

    @property
    def exchanges_ns(self) -> float:
        """Modelled time of the exchanges, without the part that passes while kernels run."""
        return sum(exchange.total_ns for exchange in self.exchanges)

    @property
    def total_ns(self) -> float:
        """Modelled time from the first launch to the last exchange."""
        return self.kernels_ns + self.launches_ns + self.exchanges_ns

    @property
    def efficiency(self) -> float:
        """Time of one device with all the data, divided by `devices` times the total."""
        return self.alone_ns / (self.devices * self.total_ns) if self.total_ns else 1.0

    @property
    def bound(self) -> str:
        """What most of the time goes to: "kernels", "launches", a link, or "start" of exchanges."""
        times = {"kernels": self.kernels_ns, "launches": self.launches_ns}
        for exchange in self.exchanges:
            times[exchange.bound] = times.get(exchange.bound, 0.0) + exchange.ns
        return max(times, key=lambda name: times[name])

    @property
    def shard_bytes(self) -> int:
        """Bytes of the data, as complex numbers, that a device holds."""
        return COMPLEX_BYTES * -(-math.prod(self.shape) // self.devices)

    @property
    def fits(self) -> bool:
        """Whether HBM holds the shard, and the data that is sent and received."""
        chip = hardware.chip(self.target)
        memory = chip.chip_memory_bytes // chip.cores_per_chip * self.cores
        computed = [COMPLEX_BYTES * math.prod(step.lengths) * step.batch for step in self.kernels]
        # In Bluestein's algorithm, the spectrum of the data waits for that of the filter.
        shards = SHARDS_HELD + (self.decomposition == BLUESTEIN)
        return shards * max([self.shard_bytes, *computed]) <= memory

    def link_bytes(self) -> dict[str, float]:
        """Returns the bytes that a device sends over each link, in all exchanges."""
        sent: dict[str, float] = {}
        for exchange in self.exchanges:
            for part in exchange.traffic:
                sent[part.link] = sent.get(part.link, 0.0) + part.bytes
        return sent

    def tree(self) -> str:
        """Returns readable text: the transform, its modelled time, and its steps."""
        data = "real" if self.real else "complex"
        size, mesh = (" x ".join(map(str, sizes)) for sizes in (self.shape, self.mesh_shape))
        split = f" {' x '.join(map(str, self.split))}" if self.split else ""
        memory = "" if self.fits else ", more than the memory"
        lines = [
            f"FFT of {data} data, {size} on {mesh} devices, {self.decomposition}{split}, "
            f"{self.order} order, {self.precision}, {self.target}, LNC={self.cores}{memory}",
            f"{_us(self.total_ns)} modelled with launches, bound by {self.bound}, efficiency "
            f"{self.efficiency:.1%}, kernels {_us(self.kernels_ns)}, launches about "
            f"{about(self.launches_ns)}",
        ]
        for index, step in enumerate(self.steps, 1):
            is_last = index == len(self.steps)
            first, *rest = _lines(step)
            lines.append(f"{'└──' if is_last else '├──'} {first}")
            lines.extend(f"{' ' if is_last else '│'}   {line}" for line in rest)
        return "\n".join(lines)

    __str__ = tree

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields, and the times that follow from them, as JSON types."""
        steps = [
            {"step": "exchange" if isinstance(step, Exchange) else "kernel", **asdict(step)}
            for step in self.steps
        ]
        names = ("kernels_ns", "launches_ns", "exchanges_ns", "total_ns")
        totals = {name: getattr(self, name) for name in (*names, "efficiency")}
        entry: dict[str, Any] = json.loads(json.dumps({**vars(self), "steps": steps, **totals}))
        return entry


def plan(
    shape: tuple[int, ...],
    mesh_shape: tuple[int, ...],
    *,
    real: bool = False,
    order: str = NATURAL,
    precision: str | None = None,
    target: str | None = None,
    cores: int | None = None,
) -> DistributedPlan:
    """Returns how a float32 tensor on a mesh of devices is transformed, and the modelled time.

    Nothing runs, and torch.distributed need not be initialised. Exchanges are done in chunks, each
    while the kernel before computes the next chunk. The number of chunks is the one with the
    shortest modelled time. One device uses the quickest way that it has. The inverse takes as long.
    See `docs/distributed.md` and `docs/scaling_model.md`.

    Args:
        shape: shape of the tensor; all of its dimensions are transformed.
        mesh_shape: numbers of devices along each axis of the mesh. The first axis splits the first
            dimension of the tensor, the second axis the second. Some devices may have no data.
            There are one or two axes, fewer than dimensions, and one axis for a tensor of one
            dimension.
        real: whether the data is real, and the result half a spectrum, except for one dimension in
            planned order. One dimension over several devices is transformed as complex numbers.
        order: "natural" leaves the result placed and ordered as the input. "planned" leaves it
            where the last transform does, which saves half of the exchanges, or one of three.
        precision, target, cores: as for `trnfft.plan`.

    Returns:
        A `DistributedPlan`.

    Raises:
        TypeError, ValueError: an argument has the wrong type, is out of range or is unknown.
        NotImplementedError: a dimension, or a part of its split, is longer than any kernel
            computes.

    Examples:
        >>> import trnfft
        >>> plan = trnfft.distributed.plan((64, 64, 64), (8,), target="trn2")
        >>> plan.decomposition, len(plan.kernels), len(plan.exchanges)
        ('slab', 2, 2)
        >>> len(trnfft.distributed.plan((64, 64, 64), (8,), order="planned").exchanges)
        1
    """
    from trnfft.distributed.model.prices import checked_launches
    from trnfft.planner.kinds.kind import checked_shape

    sizes, mesh = checked_shape("shape", shape), checked_shape("mesh_shape", mesh_shape)
    check_flag("real", real)
    if order not in (NATURAL, PLANNED):
        raise ValueError(f"argument 'order' is {brief(order)}, allowed are 'natural' and 'planned'")
    launches = checked_launches(target, cores, precision)
    _check_axes(sizes, mesh)
    machine = machine_of(hardware.chip(launches.target), launches.cores)
    try:
        way = alone = way_alone(launches, machine, sizes, bool(real))
        if math.prod(mesh) > 1:
            problem = _problem(sizes, mesh, bool(real), order == PLANNED)
            way = Cluster(launches, machine, mesh).way(problem)
    except NotImplementedError as error:
        raise NotImplementedError(f"argument 'shape' is {brief(sizes)}: {error}") from None
    return DistributedPlan(
        shape=sizes,
        mesh_shape=mesh,
        real=bool(real),
        order=order,
        target=launches.target,
        cores=launches.cores,
        precision=launches.precision,
        decomposition=way.algorithm or (LOCAL, SLAB, PENCIL)[sum(size > 1 for size in mesh)],
        split=way.split,
        steps=tuple(step for group in way.groups for step in _chunked(group)),
        alone_ns=alone.ns,
    )


def _check_axes(shape: tuple[int, ...], mesh: tuple[int, ...]) -> None:
    """Checks the number of axes of the mesh."""
    axes = min(2, max(1, len(shape) - 1))
    if len(mesh) > axes:
        allowed = "one size" if axes == 1 else "one or two sizes"
        raise ValueError(
            f"argument 'mesh_shape' is {brief(mesh)}, allowed for shape {brief(shape)} is a tuple "
            f"of {allowed}: use ({math.prod(mesh)},), or a tensor of more dimensions"
        )


def _problem(shape: tuple[int, ...], mesh: tuple[int, ...], real: bool, planned: bool) -> Problem:
    """Returns the routing problem of a transform of all dimensions."""
    across = planned and len(shape) == 1  # and the result has all frequencies
    halved = real and not across
    kept = (*shape[:-1], shape[-1] // 2 + 1 if halved else shape[-1])
    lines = tuple(Line(n, n, (0, left)) for n, left in zip(shape, kept, strict=True))
    source = layout_of("mesh_shape", [Shard(axis) for axis in range(len(mesh))], mesh, shape)
    target = None if planned and not across else source
    operation, dims = "r2c" if halved else "c2c", tuple(range(len(shape)))
    return Problem(operation, lines, dims, real, across, source, target)


def _chunked(group: Group) -> Group:
    """Returns the steps of a group in chunks; one is exchanged while kernels compute the next.

    Each chunk costs a start.
    """
    kernels = [step for step in group if not isinstance(step, Exchange)]
    exchanges = [step for step in group if isinstance(step, Exchange)]
    if not kernels or not exchanges:
        return group
    fixed, wire = (
        sum(getattr(step, name) for step in exchanges) for name in ("fixed_ns", "wire_ns")
    )
    computed, launch = (sum(getattr(k, name) for k in kernels) for name in ("ns", "launches_ns"))
    most = min(step.batch for step in kernels)
    chunks, hidden = best_chunks(fixed, wire, computed, most, launch_ns=launch)
    if chunks == 1 or not wire:
        return group
    return tuple(
        replace(step, chunks=chunks, hidden_ns=hidden * step.wire_ns / wire)
        if isinstance(step, Exchange)
        else replace(step, launches=chunks * step.launches)
        for step in group
    )


def _lines(step: Kernel | Exchange) -> list[str]:
    """Returns a step of a plan as lines of text."""
    if not isinstance(step, Exchange):
        text = f"kernel: {step.recipe}, batch {step.batch}, {_us(step.ns)}, bound by {step.bound}"
        return [f"{text}; with {in_words(step.launches)}, about {about(step.total_ns)}"]
    what = "positions"
    if step.dimensions:
        whole, divided = step.dimensions
        what = f"dimension {whole} whole, {divided} split"
    chunks = f" in {step.chunks} chunks, {_us(step.hidden_ns)} hidden" if step.chunks > 1 else ""
    each = " a chunk" if step.chunks > 1 else ""
    lines = [
        f"exchange of {step.devices} devices along mesh axis {step.mesh_axis}: {what}, "
        f"{_us(step.ns)}{chunks}",
        f"├── start, latency and messages {_us(step.fixed_ns)}{each}",
    ]
    for part in step.traffic:
        branch = "└──" if part is step.traffic[-1] else "├──"
        sent = f"{part.bytes:.4g} bytes in {part.messages} messages"
        lines.append(f"{branch} {part.link}: {sent}, {_us(part.ns)}")
    return lines


def _us(ns: float) -> str:
    return f"{ns / 1e3:.4g} us"
