"""How a case is measured on each backend, on a chip at its degree of LNC (`hardware.degree`).

"nki-sim"           the timeline that the simulator models for the launches of one call. It holds no
                    launch overhead, and what runs between launches on a real device is not in it.
"torch", "matmul"   the host's clock around whole calls on this CPU.
"nki"               the host's clock around calls on the XLA device, and from chains of K calls in
                    one graph, each on the result of the one before, the line

                        time(K) = launch overhead + K * time of the kernel

                    fitted by least squares. A call whose result does not have the shape of its
                    input takes the input plus a tiny multiple of one number of the result instead,
                    an addition that counts as part of the kernel. So does whatever the call
                    does beside kernels, and the way to the host of what PyTorch-XLA lacks.

On the device "neuron" no graph holds several calls, and only whole calls are timed: by perf_counter
around torch.accelerator.synchronize(). Never by torch_neuronx.Event: its elapsed_time returns 25 to
30 us whatever runs, by others' record, so that a test refuses both names. The last way
never ran on a NeuronCore, only on PyTorch-XLA's CPU device. NKI 0.3 to 0.7
document neither `nki.benchmark` nor `nki.profile`: both are gone since NKI 0.2.0
(Neuron SDK, release-notes/components/nki.rst). What replaces them, `neuron-explorer`, profiles
whole processes from outside; its `total_time` is a check on the slope.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

import trnfft
from bench.cases.case import KERNEL_BACKENDS, Case, byte_count, on_device, on_host, relative_error
from bench.results import Latency, Row
from nki_kernels import hardware, simulator
from trnfft.backends import torch_neuron

SECONDS = 0.5  # to repeat a call for
CALLS = (10, 1000)  # at least and at most so many
CHAINS = (1, 2, 4, 8)  # calls in one graph
CHAIN_SECONDS = 0.2
TINY = 1e-30  # keeps the dependence between calls, changes no float32 of ordinary size
REPEATED = "repeated calls"
TIMELINE = "simulator timeline"
HOST = "host clock around a call"


class Line(NamedTuple):
    """time(K) = intercept + slope K, and the root mean square of what it misses."""

    slope: float
    intercept: float
    residual: float


@contextmanager
def settings(backend: str, target: str, precision: str = "fast") -> Iterator[None]:
    """Backend, chip and precision of everything inside.

    Raises:
        ValueError, ImportError: one is not known, or "nki" is not installed.
    """
    with (
        hardware.select(hardware.chip(target)),
        trnfft.backend(backend),
        trnfft.precision(precision),
    ):
        yield


def device_of(backend: str) -> str:
    """The device whose tensors a backend takes here. ImportError where "nki" has none."""
    if backend != "nki":
        return "cpu"
    if torch_neuron.has_launches():
        return "neuron"
    import torch_xla  # noqa: F401  # without which torch does not know the device

    return "xla"


def result_of(case: Case, backend: str, target: str) -> Any:
    """What one call returns, on the host."""
    device = device_of(backend)
    with settings(backend, target, case.precision):
        return on_host(case.call(*(on_device(array, device) for array in case.arrays())))


def measure(case: Case, backend: str, target: str) -> Row:
    """Time and error of a case.

    Raises:
        NotImplementedError: there is no kernel for it.
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
    """A row with what was asked for, and these values."""
    chip = hardware.chip(target)
    cores = hardware.degree(chip)
    return Row(**case.asked, backend=backend, target=chip.name, cores=cores, **values)


def predicted(case: Case, backend: str) -> dict[str, Any]:
    """What the planner says about a case on the chip selected, for backends that follow it."""
    if case.candidate is None or backend not in KERNEL_BACKENDS:
        return {}
    found = case.candidate(case.batch)
    us = None if found.predicted_ns is None else found.predicted_ns / 1e3
    return {
        "recipe": str(found.recipe),
        "predicted_us": us,
        "predicted_error": found.predicted_error,
        "launches": found.launches,
    }


def modelled(call: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """The call's result, and the times of its launches on the simulated chip."""
    with simulator.record() as timeline:
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
    """The call's result, and its times on a device; on an XLA device those of the kernel, too."""
    wait = waiting(device)

    def once() -> Any:
        result = call(*tensors)
        wait()
        return result

    result = once()  # compiles, and makes tables
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
    """A function that returns when the device has computed everything."""
    if device == "cpu":
        return lambda: None
    if device == "neuron":
        return torch.accelerator.synchronize
    import torch_xla  # only where there is an XLA device

    return lambda: torch_xla.sync(wait=True)


def repeated(call: Callable[[], Any], seconds: float = SECONDS) -> list[float]:
    """Microseconds of each of many calls: for so many seconds, within the limits of CALLS."""
    least, most = CALLS
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < least or (len(samples) < most and time.perf_counter() < end):
        start = time.perf_counter()
        call()
        samples.append(1e6 * (time.perf_counter() - start))
    return samples


def latency(samples_us: Sequence[float]) -> Latency:
    """Percentiles of one sample or more, interpolated linearly between them."""
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
    """Median microseconds of a chain of calls in one graph, each dependent on the one before."""

    def chain() -> Any:
        given = tuple(tensors)
        for _ in range(count):
            result = call(*given)
            given = following(given, result)
        wait()
        return result

    chain()  # compiles
    return float(np.median(repeated(chain, CHAIN_SECONDS)))


def following(given: tuple[Any, ...], result: Any) -> tuple[Any, ...]:
    """Inputs like `given` that are only there when `result` is: the result itself, if it fits."""
    first = result[0] if isinstance(result, tuple) else result
    x = given[0]
    if type(first) is type(x) and first.shape == x.shape and first.dtype == x.dtype:
        return first, *given[1:]
    number = first if isinstance(first, torch.Tensor) and not first.is_complex() else first.real
    return x + TINY * number.flatten()[0], *given[1:]


def fitted(counts: Sequence[int], times_us: Sequence[float]) -> Line:
    """The line through two or more times by least squares."""
    slope, intercept = np.polyfit(counts, times_us, 1).tolist()
    missed = np.asarray(times_us) - (intercept + slope * np.asarray(counts))
    return Line(slope, intercept, float(np.sqrt(np.mean(missed**2))))
