"""The number of chunks of an exchange, so that it passes while a transform computes.

While one chunk is exchanged, the next one is transformed; each chunk costs a start. With t the time
of the transform, l the time of its launch, f the fixed time of an exchange and w the time of its
bytes, c chunks take

    t + c l + c f + w - (c - 1) min(f + w / c, t / c + l).

The rule is the same for `plan`, which models a cluster, and for transforms that run. All devices of
a mesh find the same number, because it follows from shapes, mesh and configuration alone.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nki_sim import hardware
from trnfft.base.config import NEURON_DEVICES
from trnfft.distributed.model.network import Link, Machine, all_to_all, machine_of

if TYPE_CHECKING:
    from trnfft.distributed.model.prices import Launches

MOST_CHUNKS = 64

# Measured for gloo with one thread each: 2 and 4 processes on one computer had starts of 42 and 142
# us at best, 106 and 311 in the middle, 0.6 to 2 bytes a ns, and 1.4 to 2 ns in torch.fft. Ethernet
# of 10 Gbit/s has 1.25 bytes a ns. Starts and messages keep the host busy, which computes, too.
HOSTS = Machine((Link("TCP", math.inf, 1.0),), start_ns=100e3, message_ns=50e3)
HOST_NS = 1.5  # for a point and a factor of 2 of the length


def best_chunks(
    fixed_ns: float,
    wire_ns: float,
    computed_ns: float,
    most: int,
    busy_ns: float = 0.0,
    launch_ns: float = 0.0,
) -> tuple[int, float]:
    """Returns the number of chunks that takes the least time, a power of two, and the hidden time.

    Args:
        fixed_ns: time of each chunk for start, latency and messages.
        wire_ns: time of the bytes of all chunks.
        computed_ns: time of the transforms of all chunks.
        most: number of rows that can be cut.
        busy_ns: further time of each chunk, during which nothing is computed.
        launch_ns: time of each chunk's launches, before the transforms compute.
    """
    fixed = fixed_ns + busy_ns + launch_ns
    best, hides = 1, 0.0
    chunks = 2
    while chunks <= min(MOST_CHUNKS, most):
        computed = computed_ns / chunks + launch_ns
        hidden = (chunks - 1) * min(fixed_ns + wire_ns / chunks, computed)
        if chunks * fixed - hidden < best * fixed - hides:
            best, hides = chunks, hidden
        chunks *= 2
    return best, hides


@dataclass(frozen=True)
class Work:
    """A transform and the exchanges around it, for the device with the most numbers.

    Attributes:
        device: the type of the devices.
        mesh: the shape of their mesh.
        exchanges: for each exchange, the dimension of the mesh and the bytes that the device holds.
        lengths: the lengths of the transforms.
        rows: the number of transforms.
        is_real: whether they are of real numbers.
        most: the numbers along the dimension that is cut.
    """

    device: str
    mesh: tuple[int, ...]
    exchanges: tuple[tuple[int, int], ...]
    lengths: tuple[int, ...]
    rows: int
    is_real: bool
    most: int


def settings_of(device: str) -> Launches | type[Exception] | None:
    """Returns the settings of this context on which `chunks_of` depends, besides the work.

    It is None on devices on which it depends on none, and a type of error where it raises one.
    """
    if device not in NEURON_DEVICES:
        return None
    from trnfft.distributed.model.prices import checked_launches  # here: it loads the planner

    try:
        return checked_launches(None, None, None)
    except Exception as error:
        return type(error)


def chunks_of(work: Work) -> int:
    """Returns the number of chunks of a transform and its exchanges, for this context's settings.

    It is 1 on devices for which no times are known.
    """
    if not work.exchanges:
        return 1
    if work.device == "cpu":
        return _priced(work, None)
    if work.device not in NEURON_DEVICES:
        return 1
    from trnfft.distributed.model.prices import checked_launches  # here: it loads the planner

    try:
        return _priced(work, checked_launches(None, None, None))
    except NotImplementedError:  # a length or a precision has no price
        return 1


@functools.lru_cache(1024)
def _priced(work: Work, launches: Launches | None) -> int:
    """Returns the number of chunks; on hosts there are no launches."""
    machine = machine_of(hardware.chip(launches.target), launches.cores) if launches else HOSTS
    exchanges = [all_to_all(machine, work.mesh, along, held) for along, held in work.exchanges]
    fixed = sum(exchange.fixed_ns for exchange in exchanges)
    wire = sum(exchange.wire_ns for exchange in exchanges)
    points = work.rows * math.prod(work.lengths)
    if not launches:
        computed = HOST_NS * points * math.log2(max(2, math.prod(work.lengths)))
        return best_chunks(0.0, wire, computed, work.most, busy_ns=fixed)[0]
    if best_chunks(fixed, wire, math.inf, work.most)[0] == 1:  # for any time of the kernels
        return 1
    kernels = launches.transforms(work.lengths, points, work.is_real)
    computed, launch = (sum(getattr(k, name) for k in kernels) for name in ("ns", "launches_ns"))
    return best_chunks(fixed, wire, computed, work.most, launch_ns=launch)[0]
