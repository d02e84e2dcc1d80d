"""The ways to measure a case, by backend, on a chip at its degree of LNC (`hardware.degree`).

"nki-sim"           The time is the timeline that the simulator models for the launches of one
                    call. It contains neither the overhead of launches nor the work that a real
                    device does between launches.
"torch", "matmul"   The time is that of the host's clock around whole calls on this CPU.
"nki"               The host's clock measures calls on the XLA device. It also measures chains of
                    K calls in one graph, each of which computes with the result of the call
                    before. Least squares fit the line

                        time(K) = launch overhead + K * time of the kernel

                    If a result does not have the shape of the input, the next call gets the
                    input plus a tiny multiple of one number of the result. This addition counts
                    as part of the kernel, and so does everything else that a call does beside its
                    kernels, such as moving data to the host for what PyTorch-XLA lacks.

On the device "neuron" no graph holds several calls, and only whole calls are timed: by perf_counter
around torch.accelerator.synchronize(). The program never uses torch_neuronx.Event: others recorded
that its elapsed_time returns 25 to 30 us whatever runs, so that a test refuses both names. The way
by chains never ran on a NeuronCore, only on PyTorch-XLA's CPU device. NKI 0.3 to 0.7 document
neither `nki.benchmark` nor `nki.profile`: both were removed in NKI 0.2.0 (Neuron SDK,
release-notes/components/nki.rst). Their replacement, `neuron-explorer`, profiles whole processes
from outside; its `total_time` can check the slope.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

import nki_sim
import trnfft
from bench.cases.case import KERNEL_BACKENDS, Case, byte_count, on_device, on_host, relative_error
from bench.results import Latency, Row
from nki_sim import hardware
from trnfft.base import neuron_launchers

SECONDS = 0.5  # how long a call is repeated
CALLS = (10, 1000)  # least and largest number of repetitions
CHAINS = (1, 2, 4, 8)  # numbers of calls in one graph
CHAIN_SECONDS = 0.2
TINY = 1e-30  # makes a call depend on the one before; changes no float32 of ordinary size
REPEATED = "repeated calls"
TIMELINE = "simulator timeline"
HOST = "host clock around a call"


class Line(NamedTuple):
    """time(K) = intercept + slope K, and the root mean square of the differences from the line."""

    slope: float
    intercept: float
    residual: float


@contextmanager
def settings(backend: str, target: str, precision: str = "fast") -> Iterator[None]:
    """Selects the backend, the chip and the precision mode for the block.

    Raises:
        ValueError: a name is not known.
        ImportError: the backend is "nki", and the package nki is not installed.
    """
    with (
        hardware.select(hardware.chip(target)),
        trnfft.backend(backend),
        trnfft.precision(precision),
    ):
        yield


def device_of(backend: str) -> str:
    """Returns the device whose tensors a backend computes with on this computer.

    Raises:
        ImportError: the backend is "nki", and no framework here has a device for it.
    """
    if backend != "nki":
        return "cpu"
    if neuron_launchers.has_launches():
        return "neuron"
    import torch_xla  # noqa: F401 # its import makes the device known to torch

    return "xla"


def result_of(case: Case, backend: str, target: str) -> Any:
    """Returns the result of one call, on the host."""
    device = device_of(backend)
    with settings(backend, target, case.precision):
        return on_host(case.call(*(on_device(array, device) for array in case.arrays())))


def measure(case: Case, backend: str, target: str) -> Row:
    """Measures the time and the error of a case.

    Raises:
        NotImplementedError: there is no kernel for the case.
    """
    arrays, device = case.arrays(), device_of(backend)
    chip = hardware.chip(target)
    with settings(backend, target, case.precision):
        tensors = [on_device(array, device) for array in arrays]
        if backend == "nki-sim":
            result, timing = modelled(lambda: case.call(*tensors))
        else:
            result, timing = measured(case.call, tensors, device)
        result = on_host(result)
        values = predicted(case, backend) | timing
    exact = case.exact(arrays)
    moved = byte_count(arrays) + byte_count(result)
    return described(
        case,
        backend,
        target,
        dma_floor_us=chip.dma_floor_ns(1, moved, hardware.degree(chip)) / 1e3,
        relative_error=relative_error(result, exact),
        **values,
    )


def described(case: Case, backend: str, target: str, **values: Any) -> Row:
    """Returns a row with the request and the given values."""
    chip = hardware.chip(target)
    cores = hardware.degree(chip)
    return Row(**case.asked, backend=backend, target=chip.name, cores=cores, **values)


def predicted(case: Case, backend: str) -> dict[str, Any]:
    """Returns the planner's predictions of a case on the current chip.

    The dictionary is empty for a backend that does not follow the planner's choice, and for a case
    whose call the planner does not plan as a whole.
    """
    if case.candidate is None or backend not in KERNEL_BACKENDS:
        return {}
    found = case.candidate()
    us = None if found.predicted_ns is None else found.predicted_ns / 1e3
    return {
        "recipe": str(found.recipe),
        "predicted_us": us,
        "predicted_error": found.predicted_error,
        "launches": found.launches,
    }


def modelled(call: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """Returns the call's result, and the times of its launches on the simulated chip."""
    with nki_sim.record() as timeline:
        result = call()
    return result, {
        "kernel_us": timeline.total_ns / 1e3,
        "kernel_time_source": "modelled",
        "with_launches_us": timeline.with_launches_ns / 1e3,
        "method": TIMELINE,
        "launches": timeline.launches,
    }


def measured(
    call: Callable[..., Any], tensors: Sequence[Any], device: str
) -> tuple[Any, dict[str, Any]]:
    """Returns the call's result and its times; on an XLA device also the time of its kernels."""
    wait = waiting(device)

    def once() -> Any:
        result = call(*tensors)
        wait()
        return result

    result = once()  # compiles, and makes the tables
    values: dict[str, Any] = {"latency": latency(repeated(once)), "method": HOST}
    if device == "xla":
        line = fitted(CHAINS, [chain_us(call, tensors, wait, count) for count in CHAINS])
        values |= {
            "kernel_us": line.slope,
            "kernel_time_source": "measured",
            "launch_overhead_us": line.intercept,
            "fit_residual_us": line.residual,
            "method": REPEATED,
        }
    return result, values


def waiting(device: str) -> Callable[[], None]:
    """Returns a function that waits until the device has computed everything."""
    if device == "cpu":
        return lambda: None
    if device == "neuron":
        return torch.accelerator.synchronize
    import torch_xla  # installed only where there is an XLA device

    return lambda: torch_xla.sync(wait=True)


def repeated(call: Callable[[], Any], seconds: float = SECONDS) -> list[float]:
    """Returns the microseconds of each of many calls, which are repeated for `seconds`.

    The number of calls stays within the limits of CALLS.
    """
    least, most = CALLS
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < least or (len(samples) < most and time.perf_counter() < end):
        start = time.perf_counter()
        call()
        samples.append(1e6 * (time.perf_counter() - start))
    return samples


def latency(samples_us: Sequence[float]) -> Latency:
    """Returns the percentiles of one or more samples, interpolated linearly between samples."""
    p50, p90, p99 = np.percentile(samples_us, (50, 90, 99)).tolist()
    return Latency(
        min_us=float(min(samples_us)),
        p50_us=p50,
        p90_us=p90,
        p99_us=p99,
        mean_us=float(np.mean(samples_us)),
        calls=len(samples_us),
    )


def chain_us(
    call: Callable[..., Any], tensors: Sequence[Any], wait: Callable[[], None], count: int
) -> float:
    """Returns the median microseconds of a chain of dependent calls in one graph."""

    def chain() -> Any:
        given = tuple(tensors)
        for _ in range(count):
            result = call(*given)
            given = following(given, result)
        wait()
        return result

    chain()  # the first run compiles
    return float(np.median(repeated(chain, CHAIN_SECONDS)))


def following(given: tuple[Any, ...], result: Any) -> tuple[Any, ...]:
    """Returns inputs like `given` for the next call, which cannot be computed before `result`.

    The first input is the result itself if it has the same shape and dtype; otherwise it is the
    given input plus a tiny multiple of one number of the result.
    """
    first = result[0] if isinstance(result, tuple) else result
    x = given[0]
    if type(first) is type(x) and first.shape == x.shape and first.dtype == x.dtype:
        return first, *given[1:]
    number = first if isinstance(first, torch.Tensor) and not first.is_complex() else first.real
    return x + TINY * number.flatten()[0], *given[1:]


def fitted(counts: Sequence[int], times_us: Sequence[float]) -> Line:
    """Fits a line to two or more times by least squares."""
    slope, intercept = np.polyfit(counts, times_us, 1).tolist()
    missed = np.asarray(times_us) - (intercept + slope * np.asarray(counts))
    return Line(slope, intercept, float(np.sqrt(np.mean(missed**2))))
