"""Transforms that are compared with known results and timed, and the links between processes."""

from __future__ import annotations

import math
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.placement_types import Placement

import trnfft
from nki_sim import hardware
from trnfft.base import config
from trnfft.base.devices import choose_backend
from trnfft.complex.dtensor import Kind, distributed
from trnfft.complex.tensor import ComplexTensor
from trnfft.distributed import functions
from trnfft.distributed.check import known, processes
from trnfft.distributed.check.stopwatch import COPIES, EXCHANGE, TRANSFORMS, Stopwatch, synchronizer
from trnfft.distributed.layout import Box, layout_of
from trnfft.distributed.run.convolution import convolve
from trnfft.distributed.run.transforms import dtensors_of
from trnfft.planner.accuracy import MAX_ERRORS

ROUNDS = 3  # rounds, of which the fastest counts
LINK_BYTES = 1 << 23  # bytes that each process sends at a time
UNEVEN = (66, 50, 36)  # sizes that few numbers of processes divide
CHIP, HOST, NETWORK = "inside a chip", "inside a host", "between hosts"
OK, WRONG, REFUSED = "ok", "wrong", "refused"
OTHER = "other"
KINDS = (TRANSFORMS, EXCHANGE, COPIES, OTHER)
ROUNDING = 1e-7  # relative rounding error of float32

T = TypeVar("T")


class Place(NamedTuple):
    """The place of a process: the name of its computer, and the number of its chip there."""

    host: str
    chip: int


@dataclass(frozen=True)
class Case:
    """A transform of a tensor that is split along some dimensions.

    Attributes:
        function: a function of `trnfft.distributed`, or "fft".
        shape: the shape of the signal.
        mesh: the shape of the mesh of all processes.
        split: for each dimension of the mesh, the dimension of the input that it splits.
        out: the same for the result.
    """

    function: str
    shape: tuple[int, ...]
    mesh: tuple[int, ...]
    split: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def is_inverse(self) -> bool:
        return self.function in ("ifftn", "irfftn")

    def shape_of(self, is_result: bool) -> tuple[int, ...]:
        """Returns the shape of the result, or of the input."""
        is_spectrum = is_result != self.is_inverse
        if self.function in ("rfftn", "irfftn") and is_spectrum:
            return (*self.shape[:-1], self.shape[-1] // 2 + 1)
        return self.shape

    def numbers(self, is_result: bool, mesh: DeviceMesh) -> torch.Tensor:
        """Returns what this process has of the exact result, or of the input."""
        shape, split = self.shape_of(is_result), self.out if is_result else self.split
        box = _box(shape, split, mesh)
        is_real = self.function in ("rfftn", "irfftn", "convolve")
        if is_result and self.function == "convolve":
            return known.convolved(shape, box)
        of_spectrum = is_result != self.is_inverse
        return (known.spectrum if of_spectrum else known.signal)(self.shape, box, is_real)


@dataclass(frozen=True)
class Result(Case):
    """A transform by all processes.

    Attributes:
        status: "ok", "wrong", or "refused" where the backend cannot do it.
        error: relative L2 error, or None where nothing could be compared.
        problem: what else is wrong, or why it is refused.
        seconds: time of the process that took the longest, in the fastest round.
        shares: shares of the time by kind, the mean of all processes.
        sent: bytes that a process sends over each link, the most of all processes.
        compute_to_exchange: time of everything but exchanges, divided by the time of exchanges.
        bytes_per_second: rate at which a process sends while it exchanges.
    """

    status: str
    error: float | None = None
    problem: str = ""
    seconds: float | None = None
    shares: dict[str, float] | None = None
    sent: dict[str, int] | None = None
    compute_to_exchange: float | None = None
    bytes_per_second: float | None = None


@dataclass(frozen=True)
class Link:
    """A link: bytes that each process sends to all that it reaches by the link, and seconds."""

    name: str
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Report:
    """What all processes have found together.

    Attributes:
        verdict: "ok", "wrong" or "refused".
        version: of trnfft.
        processes: their number.
        hosts: the names of their computers.
        cores, threads: those that the first process may use.
        device: the type of their devices.
        group: the backend of torch.distributed.
        backend, precision: those of trnfft.
        results, links: in the order in which they were measured.
        shares: shares of the time of all transforms together by kind; {} if none was done.
    """

    verdict: str
    version: str
    processes: int
    hosts: list[str]
    cores: int
    threads: int
    device: str
    group: str
    backend: str
    precision: str
    results: list[Result]
    shares: dict[str, float]
    links: list[Link]


@dataclass
class Part:
    """What one process finds of a transform.

    Attributes:
        refused: why the backend cannot do it.
        problem: what is wrong apart from numbers.
        difference: the sum of squares of this process's errors.
        norm: the sum of squares of its exact numbers.
        rounds: seconds of each round, in all and by kind.
        sent: bytes that it sends over each link.
    """

    refused: str = ""
    problem: str = ""
    difference: float = 0.0
    norm: float = 0.0
    rounds: list[dict[str, float]] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)


def cases(count: int, points: int) -> Iterator[Case]:
    """Yields all cases, with about so many points for each of `count` processes."""
    line, (a, b) = (count,), _factors(count)
    total = 1 << max(6, math.ceil(math.log2(points * count)))
    sizes = cube(total)
    yield Case("fft", (total,), line, (0,), (0,))
    yield Case("fftn", sizes, line, (0,), (0,))
    yield Case("fftn", sizes, line, (0,), (1,))
    yield Case("ifftn", sizes, line, (1,), (0,))
    yield Case("rfftn", sizes, line, (0,), (0,))
    yield Case("irfftn", sizes, line, (0,), (0,))
    yield Case("convolve", sizes, line, (0,), (0,))
    yield Case("fftn", UNEVEN, line, (0,), (0,))
    if a > 1:
        for function in ("fftn", "rfftn", "irfftn"):
            yield Case(function, sizes, (a, b), (0, 1), (0, 1))


def run(device: str, points: int) -> Report:
    """Returns what all processes have found, for about so many points of each process."""
    count = dist.get_world_size()
    init_device_mesh(device, (count,))  # this gives each process of a host a device of its own
    places = _places(device)
    with torch.no_grad():
        results = [
            _result(case, _of_all(_tried(case, device, places))) for case in cases(count, points)
        ]
        links = [_link(name, device, places) for name in _links(places)]
    statuses = [result.status for result in results]
    return Report(
        verdict=next((status for status in (WRONG, REFUSED) if status in statuses), OK),
        version=trnfft.__version__,
        processes=count,
        hosts=sorted({place.host for place in places}),
        cores=processes.cores(),
        threads=torch.get_num_threads(),
        device=device,
        group=processes.backend_of(device),
        backend=choose_backend(torch.device(device))[0],
        precision=config.get_precision(),
        results=results,
        shares=_shares(results),
        links=links,
    )


def _of_all(own: T) -> list[T]:
    every = [own] * dist.get_world_size()
    dist.all_gather_object(every, own)
    return every


def transform(case: Case, x: torch.Tensor) -> torch.Tensor:
    """Calls the case's function on a DTensor."""
    if case.function == "fft":
        return trnfft.fft(x)
    if case.function == "convolve":
        h = known.small_filter().float().to(x.device)
        return convolve(x, h, mode="same")
    function = getattr(functions, case.function)
    sizes = case.shape if case.function == "irfftn" else None
    return function(x, sizes, out_placements=_placements(case.out))


def given(case: Case, device: str) -> torch.Tensor:
    """Returns the argument of the case's function: a DTensor, or a ComplexTensor of two."""
    mesh = init_device_mesh(device, case.mesh)
    numbers = case.numbers(False, mesh)
    parts = [numbers.real, numbers.imag] if numbers.is_complex() else [numbers]
    kind = Kind.in_rows(mesh, _placements(case.split), case.shape_of(False))
    made = [distributed(part.float().contiguous().to(device), kind) for part in parts]
    return ComplexTensor(*made) if len(made) == 2 else made[0]


def _tried(case: Case, device: str, places: list[Place]) -> Part:
    """Returns what this process finds of a case; errors have its name.

    A transform that no process can do is not an error.
    """
    try:
        return _measured(case, device, places)
    except NotImplementedError as error:
        return Part(refused=str(error))
    except Exception as error:
        sizes = " x ".join(map(str, case.shape))
        raise RuntimeError(
            f"{case.function} of {sizes}: {type(error).__name__}: {error}"
        ) from error


def _measured(case: Case, device: str, places: list[Place]) -> Part:
    x = given(case, device)
    part = _compared(case, transform(case, x))
    for _ in range(ROUNDS):
        dist.barrier()
        with Stopwatch(device) as watch:
            start = time.perf_counter()
            transform(case, x)
            seconds = time.perf_counter() - start
        part.rounds.append({"seconds": seconds, **watch.seconds})
    for rank, count in watch.sent.items():
        part.sent[_between(places[dist.get_rank()], places[rank])] += count
    return part


def _compared(case: Case, y: torch.Tensor) -> Part:
    """Compares a result with the exact one."""
    parts = dtensors_of(y)
    first = parts[0]
    if tuple(first.shape) != case.shape_of(True) or first.placements != _placements(case.out):
        return Part(problem=f"shape {tuple(first.shape)}, placements {first.placements}")
    wanted = case.numbers(True, first.device_mesh)
    local = [part.to_local().cpu().double() for part in parts]
    own = torch.complex(*local) if len(local) == 2 else local[0]
    if own.shape != wanted.shape:
        return Part(
            problem=f"a shard of shape {tuple(own.shape)} where {tuple(wanted.shape)} belongs"
        )
    difference, norm = (own - wanted).abs().square().sum(), wanted.abs().square().sum()
    return Part(difference=difference.item(), norm=norm.item())


def _result(case: Case, parts: list[Part]) -> Result:
    """Returns the result of a transform, from what every process found."""
    names = asdict(case)
    if refused := next((part.refused for part in parts if part.refused), ""):
        return Result(**names, status=REFUSED, problem=refused)
    allowed = 4 * max(MAX_ERRORS[config.get_precision()], ROUNDING)
    problem = next((part.problem for part in parts if part.problem), "")
    error = None
    if not problem:
        norm = sum(part.norm for part in parts)
        error = math.sqrt(sum(part.difference for part in parts) / norm)
        if not error <= allowed:  # also NaN
            problem = f"error {error:.1e}, allowed {allowed:.0e}"
    fastest = min(
        zip(*(part.rounds for part in parts), strict=True),
        key=lambda each: max(times["seconds"] for times in each),
    )
    seconds, total = (of(times["seconds"] for times in fastest) for of in (max, sum))
    shares = {kind: sum(times[kind] for times in fastest) / total for kind in KINDS[:-1]}
    exchange = shares[EXCHANGE]
    links = {link for part in parts for link in part.sent}
    sent = {link: max(part.sent[link] for part in parts) for link in links}
    return Result(
        **names,
        status=WRONG if problem else OK,
        error=error,
        problem=problem,
        seconds=seconds,
        shares=shares | {OTHER: 1 - sum(shares.values())},
        sent=sent,
        compute_to_exchange=(1 - exchange) / exchange if exchange else None,
        bytes_per_second=sum(sent.values()) / (exchange * seconds) if sent else None,
    )


def _shares(results: list[Result]) -> dict[str, float]:
    timed = [
        (result.seconds, result.shares) for result in results if result.seconds and result.shares
    ]
    total = sum(seconds for seconds, _ in timed)
    kinds = KINDS if timed else ()
    return {
        kind: sum(seconds * shares[kind] for seconds, shares in timed) / total for kind in kinds
    }


def _link(name: str, device: str, places: list[Place]) -> Link:
    """Returns a link with the most bytes and the seconds of the slowest process."""
    ranks = range(len(places))
    is_joined = [[a != b and _between(places[a], places[b]) == name for b in ranks] for a in ranks]
    piece = LINK_BYTES // 4 // max(map(sum, is_joined))
    splits = [piece * joined for joined in is_joined[dist.get_rank()]]
    x = torch.zeros(sum(splits), device=device)
    received, synchronize, seconds = torch.empty_like(x), synchronizer(device), []
    for _ in range(ROUNDS + 1):
        dist.barrier()
        start = time.perf_counter()
        dist.all_to_all_single(received, x, splits, splits)
        synchronize()
        seconds.append(time.perf_counter() - start)
    sent, slowest = map(max, zip(*_of_all((4 * sum(splits), min(seconds[1:]))), strict=True))
    return Link(name, sent, slowest)


def _places(device: str) -> list[Place]:
    """Returns the place of each process."""
    hosts = _of_all(socket.gethostname())
    per_chip = 1
    if device == "neuron":
        chip = hardware.current()
        per_chip = chip.cores_per_chip // hardware.degree(chip)
    return [Place(host, hosts[:rank].count(host) // per_chip) for rank, host in enumerate(hosts)]


def _links(places: Sequence[Place]) -> list[str]:
    names = {_between(a, b) for i, a in enumerate(places) for b in places[:i]}
    return [name for name in (CHIP, HOST, NETWORK) if name in names]


def _between(a: Place, b: Place) -> str:
    if a.host != b.host:
        return NETWORK
    return CHIP if a.chip == b.chip else HOST


def _placements(dims: Sequence[int]) -> tuple[Placement, ...]:
    return tuple(map(Shard, dims))


def _box(shape: Sequence[int], split: Sequence[int], mesh: DeviceMesh) -> Box:
    layout = layout_of("split", _placements(split), tuple(mesh.shape), shape)
    return layout.box(shape, mesh.get_coordinate() or ())


def _factors(count: int) -> tuple[int, int]:
    # As close to each other as possible.
    first = next(d for d in range(math.isqrt(count), 0, -1) if count % d == 0)
    return first, count // first


def cube(points: int) -> tuple[int, ...]:
    """Returns three sizes with this product, a power of two."""
    exponent = points.bit_length() - 1
    return tuple(1 << (exponent + 2 - i) // 3 for i in range(3))
