"""What a transform over many devices does and takes: decomposition, exchanges, kernels, time.

A tensor of d dimensions on a mesh of m < d axes has its first m dimensions split. The others are
transformed first; then one mesh axis after the other, the last first, exchanges dimension i for
i + 1, which makes i whole. That is a slab for m = 1, a pencil for m = 2. In natural order as many
exchanges follow that restore the placements of the input.

One dimension of N = N1 N2 points is split by the four-step algorithm, x[n1 N2 + n2]: an exchange
makes n1 whole, transforms of N1, twiddle factors, an exchange that makes n2 whole, transforms of
N2. Frequency k1 + N1 k2 is then on the device of k1, the planned order; one exchange more makes it
natural. All times are modelled: kernels by the planner, exchanges by `network`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from nki_kernels import hardware
from trnfft.checks import check_flag, shown
from trnfft.distributed.network import Exchange, Machine, all_to_all, machine_of
from trnfft.distributed.overlap import best_chunks
from trnfft.distributed.split import split_of

if TYPE_CHECKING:
    from trnfft.distributed.prices import Kernel, Launches

NATURAL, PLANNED = "natural", "planned"
LOCAL, SLAB, PENCIL, FOUR_STEP = "local", "slab", "pencil", "four-step"
COMPLEX_BYTES = 8  # two float32
SHARDS_HELD = 3  # on a device: data, and what is sent and received of it


@dataclass(frozen=True, kw_only=True)
class DistributedPlan:
    """A transform of `shape` over a mesh of devices: its steps in their order, with modelled times.

    A device is what a process of torch.distributed has: a NeuronCore, of degree `cores` of LNC.
    `split` are the two lengths of the four-step algorithm, empty for other decompositions.
    `alone_ns` is the time of the same kernels if one device had all the data, and the memory.
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
        """Modelled time of the kernels on each device."""
        return sum(kernel.ns for kernel in self.kernels)

    @property
    def exchanges_ns(self) -> float:
        """Modelled time of the exchanges, without what passes while kernels run."""
        return sum(exchange.ns - exchange.hidden_ns for exchange in self.exchanges)

    @property
    def total_ns(self) -> float:
        """Modelled time from the first kernel to the last exchange."""
        return self.kernels_ns + self.exchanges_ns

    @property
    def efficiency(self) -> float:
        """Time of one device with all the data over `devices` times the total."""
        return self.alone_ns / (self.devices * self.total_ns) if self.total_ns else 1.0

    @property
    def bound(self) -> str:
        """What most of the time goes to: "kernels", a link, or "start" of exchanges."""
        times = {"kernels": self.kernels_ns}
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
        return SHARDS_HELD * self.shard_bytes <= memory

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
            f"{_us(self.total_ns)} modelled, bound by {self.bound}, efficiency "
            f"{self.efficiency:.1%}, kernels {_us(self.kernels_ns)}",
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
        totals = {name: getattr(self, name) for name in ("kernels_ns", "exchanges_ns", "total_ns")}
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
    The inverse takes as long.

    Args:
        shape: of the tensor; all of its dimensions are transformed.
        mesh_shape: devices along each axis of the mesh. The tensor is split along its first
            dimension by the first axis, along its second by the second. One axis or two, fewer
            than dimensions; one for a tensor of one dimension, which is split as four-step.
        real: whether the data is real, and the result half a spectrum. One dimension over several
            devices is transformed as complex numbers either way.
        order: "natural" leaves the result placed and ordered as the input, "planned" where the
            last transform does, which saves half of the exchanges, or one of three.
        precision, target, cores: as for `trnfft.plan`.

    Raises:
        TypeError, ValueError: an argument is of the wrong type, out of range or not known, or
            more devices than a dimension has elements.
        NotImplementedError: a dimension is longer than any kernel takes, or does not split.
    """
    from trnfft.distributed.prices import checked_launches
    from trnfft.planner.problem import checked_shape

    sizes, mesh = checked_shape("shape", shape), checked_shape("mesh_shape", mesh_shape)
    check_flag("real", real)
    if order not in (NATURAL, PLANNED):
        raise ValueError(f"argument 'order' is {shown(order)}, allowed are 'natural' and 'planned'")
    launches = checked_launches(target, cores, precision)
    _check_axes(sizes, mesh, bool(real))
    split = _split(sizes, mesh) if len(sizes) == 1 else ()
    machine = machine_of(hardware.chip(launches.target), launches.cores)
    request = _Request(sizes, split, bool(real) and not split, order, launches, machine)
    steps, alone = list(request.steps(mesh)), request.steps((1,) * len(mesh))
    return DistributedPlan(
        shape=sizes,
        mesh_shape=mesh,
        real=bool(real),
        order=order,
        target=launches.target,
        cores=launches.cores,
        precision=launches.precision,
        decomposition=_decomposition(split, mesh),
        split=split,
        steps=tuple(_overlapped(steps)),
        alone_ns=sum(step.ns for step in alone),
    )


@dataclass(frozen=True)
class _Request:
    """A transform, checked, whatever the mesh."""

    shape: tuple[int, ...]
    split: tuple[int, ...]
    real: bool
    order: str
    launches: Launches
    machine: Machine

    def steps(self, mesh: tuple[int, ...]) -> Iterator[Kernel | Exchange]:
        """Kernels and exchanges in their order, without overlap."""
        return self._four_step(mesh) if self.split else self._dimensions(mesh)

    def _dimensions(self, mesh: tuple[int, ...]) -> Iterator[Kernel | Exchange]:
        whole = len(mesh) if len(self.shape) > 1 else 0  # dimensions from here on are whole
        shard = [-(-n // devices) for n, devices in zip(self.shape, mesh, strict=False)]
        shard = [*shard[:whole], *self.shape[whole:]]
        yield from self.launches.transforms(self.shape[whole:], math.prod(shard), self.real)
        if self.real:
            shard[-1] = shard[-1] // 2 + 1
        full = [*self.shape[:-1], shard[-1]]
        back = []
        for axis in reversed(range(whole)):
            devices = mesh[axis]
            if devices > 1:
                held = COMPLEX_BYTES * math.prod(shard)
                yield all_to_all(self.machine, mesh, axis, held, (axis, axis + 1))
            shard[axis], shard[axis + 1] = full[axis], -(-full[axis + 1] // devices)
            if devices > 1:
                held = COMPLEX_BYTES * math.prod(shard)
                back.append(all_to_all(self.machine, mesh, axis, held, (axis + 1, axis)))
            yield from self.launches.transforms((full[axis],), math.prod(shard), False)
        if self.order == NATURAL:
            yield from reversed(back)

    def _four_step(self, mesh: tuple[int, ...]) -> Iterator[Kernel | Exchange]:
        (devices,) = mesh
        first, second = self.split
        rows, columns = -(-first // devices), -(-second // devices)
        across, along = first * columns, rows * second  # points that a device holds

        def exchange(points: int) -> tuple[Exchange, ...]:
            if devices == 1:
                return ()
            return (all_to_all(self.machine, mesh, 0, COMPLEX_BYTES * points),)

        yield from exchange(along)
        yield from self.launches.transforms((first,), across, False)
        yield self.launches.twiddles(across)
        yield from exchange(across)
        yield from self.launches.transforms((second,), along, False)
        if self.order == NATURAL:
            yield from exchange(along)


def _check_axes(shape: tuple[int, ...], mesh: tuple[int, ...], real: bool) -> None:
    """ValueError where the mesh does not split the tensor, or leaves devices without data."""
    axes = min(2, max(1, len(shape) - 1))
    if len(mesh) > axes:
        allowed = "one size" if axes == 1 else "one or two sizes"
        raise ValueError(
            f"argument 'mesh_shape' is {shown(mesh)}, allowed for shape {shown(shape)} is a tuple "
            f"of {allowed}: use ({math.prod(mesh)},), or a tensor of more dimensions"
        )
    if len(shape) == 1:
        return
    held = (*shape[:-1], shape[-1] // 2 + 1) if real else shape
    for axis, devices in enumerate(mesh):
        most = min(held[axis], held[axis + 1])
        if devices > most:
            raise ValueError(
                f"argument 'mesh_shape' is {shown(mesh)}, allowed along axis {axis} are up to "
                f"{most} devices, which split dimensions {axis} and {axis + 1} of shape "
                f"{shown(held)} in turn: use fewer, or a mesh of two axes"
            )


def _split(shape: tuple[int, ...], mesh: tuple[int, ...]) -> tuple[int, ...]:
    """Rows and columns of a long dimension; () where one device does it whole.

    Raises:
        NotImplementedError: there are none that kernels take, and no fewer than devices.
    """
    (n,), (devices,) = shape, mesh
    longest = _longest()
    if devices == 1 and n <= longest:
        return ()
    if _splits(n, devices, longest):
        return split_of(n, max(2, devices))
    raise NotImplementedError(
        f"argument 'shape' is {shown(shape)}: no two lengths of {devices} to {longest} points each "
        f"have this product; {_nearest(n, devices, longest)}"
    )


def _splits(n: int, devices: int, longest: int) -> bool:
    """Whether devices, or one that has too many points, have rows and columns for kernels."""
    if n > longest * longest:
        return False
    rows, columns = split_of(n, max(2, devices))
    return rows > 1 and max(rows, columns) <= longest


def _nearest(n: int, devices: int, longest: int) -> str:
    """What to use instead of a length that does not split."""
    if n < devices * devices:
        return f"use fewer devices, up to {math.isqrt(n)} for so many points"
    if n > longest * longest:
        return f"allowed are up to {longest * longest} points"
    power = 1 << math.isqrt(n).bit_length()
    near = {n // step * step + more for step in (devices, power // 2, power) for more in (0, step)}
    splitting = [length for length in near if _splits(length, devices, longest)]
    below = max((length for length in splitting if length < n), default=None)
    above = min((length for length in splitting if length > n), default=None)
    found = " and ".join(str(length) for length in (below, above) if length is not None)
    return f"lengths near it that split: {found}"


def _longest() -> int:
    from trnfft.planner.planner import LONGEST

    return LONGEST


def _decomposition(split: tuple[int, ...], mesh: tuple[int, ...]) -> str:
    if split:
        return FOUR_STEP
    axes = sum(devices > 1 for devices in mesh)
    return (LOCAL, SLAB, PENCIL)[axes]


def _overlapped(steps: list[Kernel | Exchange]) -> Iterator[Kernel | Exchange]:
    """Every exchange in chunks that pass while the kernels before it compute.

    The first of four-step has none before it: it goes with the kernels after it, as theirs does.
    """
    group: list[Kernel | Exchange] = []
    for step in steps:
        group.append(step)
        if isinstance(step, Exchange) and len(group) > 1:
            yield from _chunked(group)
            group = []
    yield from _chunked(group)


def _chunked(group: list[Kernel | Exchange]) -> list[Kernel | Exchange]:
    """While one chunk is exchanged the kernels compute the next; each chunk costs a start."""
    kernels = [step for step in group if not isinstance(step, Exchange)]
    exchanges = [step for step in group if isinstance(step, Exchange)]
    if not kernels or not exchanges:
        return group
    fixed, wire = (
        sum(getattr(step, name) for step in exchanges) for name in ("fixed_ns", "wire_ns")
    )
    computed, most = sum(step.ns for step in kernels), min(step.batch for step in kernels)
    chunks, hidden = best_chunks(fixed, wire, computed, most)
    return [
        replace(step, chunks=chunks, hidden_ns=hidden * step.wire_ns / wire)
        if isinstance(step, Exchange)
        else step
        for step in group
    ]


def _lines(step: Kernel | Exchange) -> list[str]:
    """A step of a plan as text."""
    if not isinstance(step, Exchange):
        return [f"kernel: {step.recipe}, batch {step.batch}, {_us(step.ns)}, bound by {step.bound}"]
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
