"""What to try if a compute engine bounds a kernel, given the instructions that it runs."""

from __future__ import annotations

import re

from nki_sim.base.enums import ENGINE_NAMES
from nki_sim.hardware import NeuronCore
from nki_sim.timeline.recording import Event, Recording

_IDLE = 0.5  # an engine that is busy for a smaller share of the time can take over work
# The engines that have the instruction, or another one that does the same: ScalarE has activation.
_ENGINES = {
    "nisa.tensor_copy": ("vector", "scalar", "gpsimd"),
    "nisa.tensor_scalar": ("vector", "scalar"),
    "nisa.tensor_tensor": ("vector", "gpsimd"),
    "nisa.memset": ("vector", "gpsimd"),
    "nisa.reciprocal": ("vector", "scalar"),
}
_TWO_IN_ONE = {"nisa.tensor_scalar", "nisa.tensor_tensor"}
_FASTER_AT_16_BIT = {"nisa.tensor_copy", "nisa.tensor_scalar", "nisa.tensor_tensor"}
_WIDE = re.compile(r" (t?float32|u?int32)\b")
_WIDE_MATMUL = re.compile(r"\b(stationary|moving|data) .*? t?float32\b")


def engine_advice(timeline: Recording, chip: NeuronCore, events: list[Event]) -> str:
    """Returns sentences for an engine that is busy with ``events``.

    Without known operands they name everything that may help.
    """
    if events[0].engine == "tensor":
        return _of_tensor(chip, events)
    found = _others(timeline, chip, events)
    used = {event.instruction for event in events}
    if events[0].engine == "vector":
        if used & _TWO_IN_ONE:
            found.append(
                "Do two operations in one pass: tensor_scalar does two operations with scalars, "
                "scalar_tensor_tensor one with a scalar and one with a tensor."
            )
        if chip.fast_16_bit_vector and any(_may_be_narrower(event) for event in events):
            found.append("On this chip VectorE is faster with 16-bit operands in SBUF.")
    elif events[0].engine == "scalar":
        found.append(
            "Do several operations in one pass: activation computes func(data * scale + bias), and "
            "activation_reduce adds up the results, too."
        )
    else:
        found.append(
            "GpSimdE also writes the descriptors of DMA. No document says how long its operations "
            "on elements take, so the model uses the cycles of VectorE."
        )
    return " ".join(found) or (
        f"Only {ENGINE_NAMES[events[0].engine]} has these instructions. Fewer elements, or "
        "fewer passes over them, make the kernel faster."
    )


def are_wide(events: list[Event]) -> bool:
    """Tells whether an event has operands of 32 bits. Without noted operands it may have some."""
    return any(not event.operands or _WIDE.search(event.operands) for event in events)


def _of_tensor(chip: NeuronCore, events: list[Event]) -> str:
    found = []
    if any(not event.operands or _WIDE_MATMUL.search(event.operands) for event in events):
        found.append(f"Operands of 16 bits are {chip.fp32_matmul_factor} times as fast as float32.")
    matmuls = [event for event in events if event.instruction != "nisa.nc_transpose"]
    if any(not re.search(r"stationary sbuf.*? 128x128 ", event.operands) for event in matmuls):
        found.append(
            "Fill the array: contract over 128 partitions, and use 128 stationary columns."
        )
    if len(matmuls) < len(events):
        found.append(
            "Use fewer transposes: choose the stationary operand so that it needs none, or store "
            "data transposed."
        )
    return " ".join(found) or (
        "The array is full and works at its full rate. Only fewer products make the kernel faster."
    )


def _others(timeline: Recording, chip: NeuronCore, events: list[Event]) -> list[str]:
    """Returns a sentence that names idle engines and instructions for them, or none."""
    found = []
    for other in ("vector", "scalar", "gpsimd"):
        if timeline.engine_busy_ns[other] >= _IDLE * timeline.total_ns:
            continue
        names = [e.instruction for e in events if other != e.engine and _runs(chip, other, e)]
        if names:
            shown = " and ".join(name.removeprefix("nisa.") for name in dict.fromkeys(names))
            found.append(f"{ENGINE_NAMES[other]} could take some of {shown}")
    return [f"{', '.join(found)}."] if found else []


def _runs(chip: NeuronCore, engine: str, event: Event) -> bool:
    if engine == "gpsimd" and (chip.shared_sbuf_port or " psum " in event.operands):
        return False
    if engine == "gpsimd" and not are_wide([event]):
        return False  # VectorE's fast modes use GpSimdE's bus [nki: trainium2_arch]
    return engine in _ENGINES.get(event.instruction, ())


def _may_be_narrower(event: Event) -> bool:
    return are_wide([event]) and event.instruction in _FASTER_AT_16_BIT
