"""Transforms that are compared with known results and timed, and the links between processes."""

from __future__ import annotations

import math
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.placement_types import Placement

import trnfft
from nki_sim import hardware
from trnfft import config
from trnfft.backends.choice import choose_backend
from trnfft.complex.dtensor import Kind, distributed
from trnfft.complex.parts import parts_of
from trnfft.complex.tensor import ComplexTensor
from trnfft.distributed import functions
from trnfft.distributed.check import known, processes
from trnfft.distributed.check.stopwatch import Stopwatch, synchronizer
from trnfft.distributed.convolution import convolve
from trnfft.distributed.layout import Box, layout_of

ROUNDS = 3  # rounds, of which the fastest counts
LINK_BYTES = 1 << 23  # bytes that each process sends at a time
UNEVEN = (66, 50, 36)  # sizes that few numbers of processes divide
CHIP, HOST, NETWORK = "inside a chip", "inside a host", "between hosts"


class Place(NamedTuple):
    """The place of a process: the name of its computer, and the number of its chip there."""

    rank: int
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
    def is_real(self) -> bool:
        return self.function in ("rfftn", "irfftn", "convolve")

    @property
    def is_inverse(self) -> bool:
        return self.function in ("ifftn", "irfftn")

    @property
    def half(self) -> tuple[int, ...]:
        """Returns the sizes of the spectrum."""
        if self.function in ("rfftn", "irfftn"):
            return (*self.shape[:-1], self.shape[-1] // 2 + 1)
        return self.shape


def cases(count: int, points: int) -> Iterator[Case]:
    """Yields all cases.

    Args:
        count: the number of processes.
        points: about the number of points of each process.
    """
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
        yield Case("fftn", sizes, (a, b), (0, 1), (0, 1))
        yield Case("rfftn", sizes, (a, b), (0, 1), (0, 1))
        yield Case("irfftn", sizes, (a, b), (0, 1), (0, 1))


def run(device: str, points: int) -> dict[str, Any]:
    """Returns what this process has found: about itself, each case and each link.

    Args:
        device: the type of its device, for which torch.distributed is initialised.
        points: about the number of points of each process.
    """
    rank, count = dist.get_rank(), dist.get_world_size()
    init_device_mesh(device, (count,))  # this gives each process of a host a device of its own
    places = _places(device)
    with torch.no_grad():
        found = [_tried(case, device, places) for case in cases(count, points)]
        links = {name: _link(name, device, places) for name in _links(places)}
    return {
        "rank": rank,
        "host": places[rank].host,
        "cores": processes.cores(),
        "threads": torch.get_num_threads(),
        "backend": choose_backend(torch.device(device))[0],
        "precision": config.get_precision(),
        "cases": found,
        "links": links,
    }


def transform(case: Case, x: Any) -> Any:
    """Calls the case's function on a DTensor."""
    if case.function == "fft":
        return trnfft.fft(x)
    if case.function == "convolve":
        h = known.small_filter(len(case.shape)).float().to(x.device)
        return convolve(x, h, mode="same")
    function = getattr(functions, case.function)
    sizes = case.shape if case.function == "irfftn" else None
    return function(x, sizes, out_placements=_placements(case.out))


def given(case: Case, device: str) -> Any:
    """Returns the argument of the case's function: a DTensor, or a ComplexTensor of two."""
    mesh = init_device_mesh(device, case.mesh)
    shape = case.half if case.is_inverse else case.shape
    box = _box(shape, case.split, mesh)
    if case.is_inverse:
        numbers = known.spectrum(case.shape, box, case.is_real)
    else:
        numbers = known.signal(case.shape, box, case.is_real)
    parts = [numbers.real, numbers.imag] if numbers.is_complex() else [numbers]
    kind = Kind.in_rows(mesh, _placements(case.split), shape)
    made = [distributed(part.float().contiguous().to(device), kind) for part in parts]
    return ComplexTensor(*made) if len(made) == 2 else made[0]


def _tried(case: Case, device: str, places: list[Place]) -> dict[str, Any]:
    """Returns what is found of a case; errors have its name.

    A transform that no process can do is not an error.
    """
    try:
        return asdict(case) | _measured(case, device, places)
    except NotImplementedError as error:
        return asdict(case) | {"refused": str(error)}
    except Exception as error:
        sizes = " x ".join(map(str, case.shape))
        raise RuntimeError(
            f"{case.function} of {sizes}: {type(error).__name__}: {error}"
        ) from error


def _measured(case: Case, device: str, places: list[Place]) -> dict[str, Any]:
    """Returns squares of the error and of the result, times by round, and bytes over each link."""
    x = given(case, device)
    difference, norm, problem = _compared(case, transform(case, x))
    rounds = []
    for _ in range(ROUNDS):
        dist.barrier()
        with Stopwatch(device) as watch:
            start = time.perf_counter()
            transform(case, x)
            seconds = time.perf_counter() - start
        rounds.append({"seconds": seconds, **watch.seconds})
    sent: Counter[str] = Counter()
    for rank, count in watch.sent.items():
        sent[_between(places[dist.get_rank()], places[rank])] += count
    return {
        "difference": difference,
        "norm": norm,
        "problem": problem,
        "rounds": rounds,
        "sent": dict(sent),
    }


def _compared(case: Case, y: Any) -> tuple[float, float, str]:
    """Returns sums of squares of this process's errors and numbers, and any other problem."""
    parts: tuple[Any, ...] = parts_of(y) if isinstance(y, ComplexTensor) else (y,)
    part = parts[0]
    shape = case.shape if case.is_inverse or case.function == "convolve" else case.half
    if tuple(part.shape) != shape or tuple(part.placements) != _placements(case.out):
        problem = f"shape {tuple(part.shape)}, placements {part.placements}"
        return 0.0, 0.0, problem
    box = _box(shape, case.out, part.device_mesh)
    if case.function == "convolve":
        wanted = known.convolved(shape, box)
    elif case.is_inverse:
        wanted = known.signal(case.shape, box, case.is_real)
    else:
        wanted = known.spectrum(case.shape, box, case.is_real)
    local = [one.to_local().cpu().double() for one in parts]
    own = torch.complex(*local) if len(local) == 2 else local[0]
    if own.shape != wanted.shape:
        return 0.0, 0.0, f"a shard of shape {tuple(own.shape)} where {tuple(wanted.shape)} belongs"
    return ((own - wanted).abs() ** 2).sum().item(), (wanted.abs() ** 2).sum().item(), ""


def _link(name: str, device: str, places: list[Place]) -> dict[str, float]:
    """Returns the bytes that this process sends over a link, and the seconds that this takes."""
    is_joined = [[a != b and _between(a, b) == name for b in places] for a in places]
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
    return {"bytes": 4 * sum(splits), "seconds": min(seconds[1:])}


def _places(device: str) -> list[Place]:
    """Returns the place of each process."""
    hosts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(hosts, socket.gethostname())
    per_chip = 1
    if device == "neuron":
        chip = hardware.current()
        per_chip = chip.cores_per_chip // hardware.degree(chip)
    return [
        Place(rank, host, hosts[:rank].count(host) // per_chip) for rank, host in enumerate(hosts)
    ]


def _links(places: Sequence[Place]) -> list[str]:
    """Returns the links that join any two processes."""
    found = {_between(a, b) for a in places for b in places if a != b}
    return [name for name in (CHIP, HOST, NETWORK) if name in found]


def _between(a: Place, b: Place) -> str:
    """Returns the link that joins two processes."""
    if a.host != b.host:
        return NETWORK
    return CHIP if a.chip == b.chip else HOST


def _placements(dims: Sequence[int]) -> tuple[Placement, ...]:
    return tuple(map(Shard, dims))


def _box(shape: Sequence[int], split: Sequence[int], mesh: DeviceMesh) -> Box:
    """Returns what this process has of a tensor."""
    layout = layout_of("split", _placements(split), tuple(mesh.shape), shape)
    return layout.box(shape, mesh.get_coordinate() or ())


def _factors(count: int) -> tuple[int, int]:
    """Returns two numbers with this product, as close to each other as possible."""
    first = next(d for d in range(math.isqrt(count), 0, -1) if count % d == 0)
    return first, count // first


def cube(points: int) -> tuple[int, ...]:
    """Returns three sizes with this product, a power of two."""
    exponent = points.bit_length() - 1
    return tuple(1 << (exponent + 2 - i) // 3 for i in range(3))
