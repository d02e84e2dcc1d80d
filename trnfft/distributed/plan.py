"""What a transform over many devices does and takes: decomposition, exchanges, kernels, time.

A tensor of d dimensions on a mesh of m < d axes has its first m dimensions split. The others are
transformed first; then each axis of the mesh exchanges a dimension that it splits for another one,
which makes the first one whole. That is a slab for m = 1, a pencil for m = 2. In natural order as
many exchanges restore the placements of the input. Which follow one another is up to `route.py`,
as where it runs.

One dimension of N = N1 N2 points is split by the four-step algorithm, x[n1 N2 + n2]: an exchange
makes n1 whole, transforms of N1, twiddle factors, an exchange that makes n2 whole, transforms of
N2. Frequency k1 + N1 k2 is then on the device of k1, the planned order; one exchange more makes it
natural. A length without such factors is Bluestein's convolution, three transforms of one that has
them; chunks that are no rows are aligned by an exchange: `four_step.py`. Times are modelled:
kernels by the planner, exchanges by `network`. What a launch takes is what others measured.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from torch.distributed.tensor import Shard

from nki_kernels import hardware
from nki_kernels.measured_times import about, in_words
from trnfft.checks import check_flag, shown
from trnfft.distributed.layout import layout_of
from trnfft.distributed.network import Exchange, machine_of
from trnfft.distributed.overlap import best_chunks
from trnfft.distributed.route import Line, Problem
from trnfft.distributed.steps import BLUESTEIN, COMPLEX_BYTES, Cluster, Group, way_alone

if TYPE_CHECKING:
    from trnfft.distributed.prices import Kernel

NATURAL, PLANNED = "natural", "planned"
LOCAL, SLAB, PENCIL = "local", "slab", "pencil"
SHARDS_HELD = 3  # on a device: data, and what is sent and received of it


@dataclass(frozen=True, kw_only=True)
class DistributedPlan:
    """A transform of `shape` over a mesh of devices: its steps in their order, with modelled times.

    A device is what a process of torch.distributed has: a NeuronCore, of degree `cores` of LNC.
    `split` are the two lengths of the four-step algorithm, of Bluestein's convolution for
    "bluestein", empty for other decompositions. `alone_ns` is the time of the quickest way of one
    device that has all the data, and the memory, whatever the mesh: of kernels for more or fewer
    dimensions at once.
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
        """Devices of the mesh."""
        return math.prod(self.mesh_shape)

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """All-to-all exchanges, first to last."""
        return tuple(step for step in self.steps if isinstance(step, Exchange))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """What each device computes, first to last."""
        return tuple(step for step in self.steps if not isinstance(step, Exchange))

    @property
    def kernels_ns(self) -> float:
        """Modelled time of the kernels on each device, without their launches."""
        return sum(kernel.ns for kernel in self.kernels)

    @property
    def launches_ns(self) -> float:
        """About the time of the launches, of each chunk by itself."""
        return sum(kernel.launches_ns for kernel in self.kernels)

    @property
    def exchanges_ns(self) -> float:
        """Modelled time of the exchanges, without what passes while kernels run."""
        return sum(exchange.total_ns for exchange in self.exchanges)

    @property
    def total_ns(self) -> float:
        """Modelled time from the first launch to the last exchange."""
        return self.kernels_ns + self.launches_ns + self.exchanges_ns

    @property
    def efficiency(self) -> float:
        """Time of one device with all the data over `devices` times the total."""
        return self.alone_ns / (self.devices * self.total_ns) if self.total_ns else 1.0

    @property
    def bound(self) -> str:
        """What most of the time goes to: "kernels", "launches", a link, "start" of exchanges."""
        times = {"kernels": self.kernels_ns, "launches": self.launches_ns}
        for exchange in self.exchanges:
            times[exchange.bound] = times.get(exchange.bound, 0.0) + exchange.ns
        return max(times, key=lambda name: times[name])

    @property
    def shard_bytes(self) -> int:
        """What a device holds of the data as complex numbers."""
        return COMPLEX_BYTES * -(-math.prod(self.shape) // self.devices)

    @property
    def fits(self) -> bool:
        """Whether HBM holds the shard, and what is sent and received of it."""
        chip = hardware.chip(self.target)
        memory = chip.chip_memory_bytes // chip.cores_per_chip * self.cores
        computed = [COMPLEX_BYTES * math.prod(step.lengths) * step.batch for step in self.kernels]
        # Of Bluestein's, the spectrum of the data waits for that of the filter.
        shards = SHARDS_HELD + (self.decomposition == BLUESTEIN)
        return shards * max([self.shard_bytes, *computed]) <= memory

    def link_bytes(self) -> dict[str, float]:
        """Bytes that a device sends over each link, in all exchanges."""
        sent: dict[str, float] = {}
        for exchange in self.exchanges:
            for part in exchange.traffic:
                sent[part.link] = sent.get(part.link, 0.0) + part.bytes
        return sent

    def tree(self) -> str:
        """Readable text: what is computed, its modelled time, and the steps."""
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
        """As JSON types: the fields, and the times that follow from them."""
        steps = [
            {"step": "exchange" if isinstance(step, Exchange) else "kernel", **asdict(step)}
            for step in self.steps
        ]
        names = ("kernels_ns", "launches_ns", "exchanges_ns", "total_ns")
        totals = {name: getattr(self, name) for name in names}
        fields = {name: _listed(value) for name, value in vars(self).items()}
        return {**fields, "steps": _listed(steps), **totals, "efficiency": self.efficiency}


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
    """How a float32 tensor on a mesh of devices is transformed, and the modelled time of that.

    Nothing runs, and torch.distributed need not be initialised. Exchanges are done in as many
    chunks as make the modelled time the shortest, each while the kernel before computes the next.
    One device takes the quickest way that it has. The inverse takes as long.

    Args:
        shape: of the tensor; all of its dimensions are transformed.
        mesh_shape: devices along each axis of the mesh. The tensor is split along its first
            dimension by the first axis, along its second by the second; devices may be without
            data. One axis or two, fewer than dimensions; one for a tensor of one dimension.
        real: whether the data is real, and the result half a spectrum, but for one dimension in
            planned order. One dimension over several devices is transformed as complex numbers.
        order: "natural" leaves the result placed and ordered as the input, "planned" where the
            last transform does, which saves half of the exchanges, or one of three.
        precision, target, cores: as for `trnfft.plan`.

    Raises:
        TypeError, ValueError: an argument is of the wrong type, out of range or not known.
        NotImplementedError: a dimension, or a part of its split, is longer than any kernel takes.
    """
    from trnfft.distributed.prices import checked_launches
    from trnfft.planner.problem import checked_shape

    sizes, mesh = checked_shape("shape", shape), checked_shape("mesh_shape", mesh_shape)
    check_flag("real", real)
    if order not in (NATURAL, PLANNED):
        raise ValueError(f"argument 'order' is {shown(order)}, allowed are 'natural' and 'planned'")
    launches = checked_launches(target, cores, precision)
    _check_axes(sizes, mesh)
    machine = machine_of(hardware.chip(launches.target), launches.cores)
    try:
        way = alone = way_alone(launches, machine, sizes, bool(real))
        if math.prod(mesh) > 1:
            problem = _problem(sizes, mesh, bool(real), order == PLANNED)
            way = Cluster(launches, machine, mesh).way(problem)
    except NotImplementedError as error:
        raise NotImplementedError(f"argument 'shape' is {shown(sizes)}: {error}") from None
    return DistributedPlan(
        shape=sizes,
        mesh_shape=mesh,
        real=bool(real),
        order=order,
        target=launches.target,
        cores=launches.cores,
        precision=launches.precision,
        decomposition=way.algorithm or _decomposition(mesh),
        split=way.split,
        steps=tuple(step for group in way.groups for step in _chunked(group)),
        alone_ns=alone.ns,
    )


def _check_axes(shape: tuple[int, ...], mesh: tuple[int, ...]) -> None:
    """ValueError where the mesh has more axes than there are decompositions for."""
    axes = min(2, max(1, len(shape) - 1))
    if len(mesh) > axes:
        allowed = "one size" if axes == 1 else "one or two sizes"
        raise ValueError(
            f"argument 'mesh_shape' is {shown(mesh)}, allowed for shape {shown(shape)} is a tuple "
            f"of {allowed}: use ({math.prod(mesh)},), or a tensor of more dimensions"
        )


def _problem(shape: tuple[int, ...], mesh: tuple[int, ...], real: bool, planned: bool) -> Problem:
    """What a transform of all dimensions asks for."""
    across = planned and len(shape) == 1  # and with all its frequencies
    halved = real and not across
    kept = (*shape[:-1], shape[-1] // 2 + 1 if halved else shape[-1])
    lines = tuple(Line(n, n, (0, left)) for n, left in zip(shape, kept, strict=True))
    source = layout_of("mesh_shape", [Shard(axis) for axis in range(len(mesh))], mesh, shape)
    target = None if planned and not across else source
    operation, dims = "r2c" if halved else "c2c", tuple(range(len(shape)))
    return Problem(operation, lines, dims, real, across, source, target)


def _decomposition(mesh: tuple[int, ...]) -> str:
    return (LOCAL, SLAB, PENCIL)[sum(devices > 1 for devices in mesh)]


def _chunked(group: Group) -> Group:
    """While one chunk is exchanged the kernels compute the next; each chunk costs a start."""
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
    """A step of a plan as text."""
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


def _listed(value: Any) -> Any:
    """Tuples as lists, all the way down."""
    if isinstance(value, dict):
        return {name: _listed(item) for name, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, (list, tuple)) else value
