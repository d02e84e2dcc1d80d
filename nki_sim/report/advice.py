"""What to try against a cause that bounds a kernel, on the chip that it was modelled for.

The advice follows from the costs of the model (docs/timing_model.md) and from the Neuron SDK's
nki/deep-dives/nki_perf_guide.
"""

from __future__ import annotations

import re

from nki_sim.base.enums import ENGINE_NAMES
from nki_sim.hardware import NeuronCore
from nki_sim.timeline.recording import Event, Recording

from . import causes
from .units import time_text

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


def advice(cause: str, timeline: Recording, chips: list[NeuronCore], events: list[Event]) -> str:
    """Returns sentences about a cause of `bottlenecks` whose events ran on ``chips``."""
    chip = chips[0]
    texts = {
        causes.LATENCY: _latency(chip),
        causes.DMA_LATENCY: _dma_latency(chip, events),
        causes.DMA_MOVES: "Move fewer bytes. Load each number once and keep it in SBUF, and keep "
        "the results between two steps on the chip."
        + (" Store 16-bit numbers where their precision is enough." if _are_wide(events) else ""),
        causes.DMA_SLOW: f"Each run of contiguous bytes in HBM takes at least "
        f"{time_text(chip.dma_least_ns)}, and each of the {chip.dma_engines} DMA engines copies "
        f"{chip.dma_partitions_per_engine} rows or more. Make the rows 512 bytes or longer and "
        "use all 128 partitions. Load strided data together with the bytes between the elements, "
        "and pick the elements in SBUF.",
        causes.DESCRIPTORS: _descriptors(chip, events),
        causes.DMA_COPIES: f"Each DMA engine spends {time_text(chip.dma_copy_ns)} on each copy, "
        "however small. Make fewer and larger copies, with several tiles in one.",
        causes.DMA_TRIGGERS: "Make fewer and larger copies, or give some of them to another queue "
        "with the argument engine of dma_copy.",
        causes.SBUF_REUSE: "SBUF does not hold all tiles at once, so that new tiles wait for old "
        "ones. Use smaller tiles, or move the instructions that read old tiles to an earlier "
        "place.",
        causes.PSUM_REUSE: f"PSUM has {chip.psum_banks} banks of {chip.psum_bank_bytes >> 10} KiB "
        "a partition. Copy results to SBUF sooner, with VectorE and ScalarE in turns, and add up "
        "products of the same result in one bank.",
        causes.READERS: "Reads and writes of a tile wait for each other, even if they touch "
        "different parts. Declare a new tile in each iteration, or use two tiles in turns.",
        causes.NO_REORDER: "The block is no way to keep the order of several engines, which wait "
        "for each other in it. Leave instructions of one engine in the block, or name the few "
        "dependencies that matter by depends_on.",
        causes.PORTS: _ports(chip),
        causes.BARRIER: "Give both cores the same amount of work, and let them wait for each "
        "other less often.",
        causes.BRANCHES: f"Each iteration takes {time_text(chip.loop_iteration_ns)} beside its "
        "body, and no instruction of the next iteration starts early. Do more in each iteration, "
        "or unroll the loop with Python's range.",
        causes.TABLES: f"The first use of a function takes {time_text(chip.activation_table_ns)}. "
        "Use fewer functions, or call the function early on a small tile while data are loaded.",
    }
    return texts.get(cause) or _engine(cause, timeline, chip, events)


def _latency(chip: NeuronCore) -> str:
    cycles = chip.dependent_cycles + chip.tensor_access_cycles
    return (
        f"Other engines see a result {time_text(cycles / chip.vector_ghz)} after VectorE has "
        "finished it; the results of other engines have similar delays. Give the engines other "
        "work during this time: work on two independent tiles in turns, or use fewer steps that "
        "depend on each other."
    )


def _dma_latency(chip: NeuronCore, events: list[Event]) -> str:
    fixed = _descriptors_ns(events) + chip.dma_start_ns + chip.dma_finish_ns
    ahead = (
        "Load the next tile during the work on this one: declare a tile in each iteration, and put "
        "all loads on a queue without stores."
    )
    if any(event.times > 1 for event in events):  # the next iteration does not start early
        ahead = (
            "Work on several tiles in an iteration, so that one loads during the work on others."
        )
    return (
        f"A copy takes about {time_text(fixed)} beside its bytes. {ahead} Make copies larger: the "
        "bytes of a copy of 1 MiB take longer than this latency."
    )


def _descriptors_ns(events: list[Event]) -> float:
    return max((event.descriptors_ns for event in events), default=0.0)


def _descriptors(chip: NeuronCore, events: list[Event]) -> str:
    each = (
        f"GpSimdE spends {time_text(_descriptors_ns(events) or chip.software_dge_ns)} on each "
        "copy, however small, and does one at a time."
    )
    hardware = (
        " On this chip hardware does this with dge_mode=nisa.dge_mode.hwdge, unless the copy is a "
        "gather or scatter."
        if chip.hardware_dge
        else ""
    )
    less = (
        " Give the other instructions of GpSimdE to other engines."
        if any(event.engine == "gpsimd" for event in events)
        else ""
    )
    return f"{each} Make fewer and larger copies, with several tiles in one.{hardware}{less}"


def _ports(chip: NeuronCore) -> str:
    if chip.shared_sbuf_port:
        return (
            f"On {chip.name} VectorE and GpSimdE take turns on SBUF, and VectorE and ScalarE take "
            "turns on PSUM. Give the work to engines that do not share a port."
        )
    return "Let the engines work on different banks of PSUM at the same time."


def _engine(cause: str, timeline: Recording, chip: NeuronCore, events: list[Event]) -> str:
    """Returns advice for a compute engine that is busy."""
    if causes.SMALL in cause:
        if events[0].engine == "tensor":
            return "Give each matmul more moving columns, up to 512 for each stationary operand."
        return (
            "Half or more of the time of each instruction is a fixed cost. Give one instruction "
            "more elements in each partition, 512 or more, and use all 128 partitions."
        )
    return _busy_engine(timeline, chip, events)


def _busy_engine(timeline: Recording, chip: NeuronCore, events: list[Event]) -> str:
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


def _are_wide(events: list[Event]) -> bool:
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
            instructions = " and ".join(name.removeprefix("nisa.") for name in dict.fromkeys(names))
            found.append(f"{ENGINE_NAMES[other]} could take some of {instructions}")
    return [f"{', '.join(found)}."] if found else []


def _runs(chip: NeuronCore, engine: str, event: Event) -> bool:
    if engine == "gpsimd" and (chip.shared_sbuf_port or " psum " in event.operands):
        return False
    if engine == "gpsimd" and not _are_wide([event]):
        return False  # VectorE's fast modes use GpSimdE's bus [nki: trainium2_arch]
    return engine in _ENGINES.get(event.instruction, ())


def _may_be_narrower(event: Event) -> bool:
    return _are_wide([event]) and event.instruction in _FASTER_AT_16_BIT
