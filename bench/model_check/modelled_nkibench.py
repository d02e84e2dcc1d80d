"""Modelled values of the measurements in `nkibench_records`, by the names of the measurements."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType

from bench.model_check import nkibench_kernels as kernels
from bench.model_check.modelled_launch import Modelled, Spec, readings_us, spec, timeline_of
from bench.model_check.nkibench_records import ADAMW, BMM, ENGINES, MATMUL, NKIBENCH, NORM, ROPE
from nki_sim import hardware
from nki_sim.report.timeline import Timeline


def single(*shape: int) -> Spec:
    """Returns the spec of a float32 argument."""
    return spec("float32", *shape)


@functools.cache
def timelines() -> Mapping[str, Timeline]:
    """Returns the modelled launches of all kernels in full size."""
    state, half = single(10_944, 2048), single(64, 262_144)
    left, right = single(16, 4096, 64), single(16, 64, 4096)
    with hardware.select(hardware.TRN1):
        found = {
            ADAMW: timeline_of(kernels.adamw, state, state, state, state),
            ROPE: timeline_of(kernels.rotate, single(128, 262_144), half, half),
            BMM: timeline_of(kernels.batched_matmul, left, right),
            NORM: timeline_of(kernels.norm_matmul, single(4096, 1024), single(1024, 2048)),
            MATMUL: timeline_of(
                kernels.matmul_transposing, single(4096, 5120), single(5120, 12_288)
            ),
        }
    return MappingProxyType(found)


def whole() -> Modelled:
    """Returns the times of the kernels."""
    return {name: readings_us(timeline) for name, timeline in timelines().items()}


def busy() -> Modelled:
    """Returns for how long VectorE and ScalarE are busy, added."""
    found: Modelled = {}
    for name, timeline in timelines().items():
        found[name] = sum(timeline.engine_busy_ns[engine] for engine in ("vector", "scalar")) / 1e3
    return found


GROUPS: dict[str, Callable[[], Modelled]] = {NKIBENCH: whole, ENGINES: busy}
