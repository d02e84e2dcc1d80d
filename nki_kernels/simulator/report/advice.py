"""What to try against a cause that bounds a kernel, on the chip that it was modelled for.

After the model's costs (docs/timing_model.md) and the Neuron SDK's nki/deep-dives/nki_perf_guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nki_kernels.hardware import NeuronCore

from . import causes
from .engine_advice import are_wide, engine_advice
from .units import time_text

if TYPE_CHECKING:
    from nki_kernels.simulator.timeline import Event, Timeline


def advice(cause: str, timeline: Timeline, chips: list[NeuronCore], events: list[Event]) -> str:
    """Sentences about a cause of `bottlenecks`, where its events ran on ``chips``."""
    chip = chips[0]
    texts = {
        causes.LATENCY: _latency(chip),
        causes.DMA_LATENCY: _dma_latency(chip, events),
        causes.DMA_MOVES: "Move fewer bytes: load each number once and keep it in SBUF, keep what "
        "comes between steps on the chip"
        + (", store 16-bit numbers where their precision will do." if are_wide(events) else "."),
        causes.DMA_SLOW: f"A run of bytes that follow each other in HBM takes at least "
        f"{time_text(chip.dma_least_ns)}, and each of the {chip.dma_engines} DMA engines takes "
        f"{chip.dma_partitions_per_engine} rows or more of a copy: let rows be 512 bytes or "
        "longer, use all 128 partitions, and read strided data whole, to pick from them in SBUF.",
        causes.DESCRIPTORS: _descriptors(chip, events),
        causes.DMA_TRIGGERS: "Make fewer, larger copies, or give some of them to another queue "
        "(dma_copy's engine).",
        causes.SBUF_REUSE: "Tiles are more than SBUF holds, so that new ones wait for old ones: "
        "use smaller tiles, or let what reads the old ones come earlier in the program.",
        causes.PSUM_REUSE: f"PSUM has {chip.psum_banks} banks of {chip.psum_bank_bytes >> 10} KiB "
        "a partition: copy results to SBUF sooner, by VectorE and ScalarE in turns, and add up in "
        "one bank what belongs together.",
        causes.READERS: "Reads and writes of one tile wait for each other, whichever parts they "
        "touch: declare a new tile in each iteration, or take two in turns.",
        causes.PORTS: _ports(chip),
        causes.BARRIER: "Give both cores the same amount of work, and let them meet less often.",
        causes.BRANCHES: f"Each iteration takes {time_text(chip.loop_iteration_ns)} beside its "
        "body, and no instruction runs ahead into the next one: do more in an iteration, or unroll "
        "the loop (Python's range).",
        causes.TABLES: f"A function's first use takes {time_text(chip.activation_table_ns)}: use "
        "fewer functions, or call one early on a small tile while data are loaded.",
    }
    return texts.get(cause) or _engine(cause, timeline, chip, events)


def _latency(chip: NeuronCore) -> str:
    cycles = chip.dependent_cycles + chip.tensor_access_cycles
    return (
        f"Others see a result {time_text(cycles / chip.vector_ghz)} after VectorE is done with it, "
        "and the like elsewhere. Give the engines other work meanwhile: two independent tiles in "
        "turns, or fewer steps that need each other."
    )


def _dma_latency(chip: NeuronCore, events: list[Event]) -> str:
    fixed = chip.software_dge_ns + chip.dma_start_ns + chip.dma_finish_ns
    ahead = (
        "Load the next tile while this one is computed with (a tile for each iteration, all loads "
        "on a queue that no store holds back)"
    )
    if any(event.times > 1 for event in events):  # nothing runs ahead into the next iteration
        ahead = (
            "Take several tiles in an iteration, so that one loads while others are computed with"
        )
    return (
        f"A copy takes about {time_text(fixed)} beside its bytes. {ahead}, and make copies "
        "larger: at 1 MiB the bytes take longer than that."
    )


def _descriptors(chip: NeuronCore, events: list[Event]) -> str:
    each = f"A copy takes GpSimdE {time_text(chip.software_dge_ns)}, one at a time, however small"
    hardware = (
        " On this chip dge_mode=nisa.dge_mode.hwdge leaves that to hardware, where a copy is no "
        "gather or scatter."
        if chip.hardware_dge
        else ""
    )
    less = (
        " Keep its other instructions for other engines."
        if any(event.engine == "gpsimd" for event in events)
        else ""
    )
    return f"{each}: make fewer, larger copies, several tiles in one.{hardware}{less}"


def _ports(chip: NeuronCore) -> str:
    if chip.shared_sbuf_port:
        return (
            f"On {chip.name} VectorE and GpSimdE take turns on SBUF, VectorE and ScalarE on PSUM: "
            "give the work to engines that do not share."
        )
    return "Let engines work on different banks of PSUM at the same time."


def _engine(cause: str, timeline: Timeline, chip: NeuronCore, events: list[Event]) -> str:
    """Of a compute engine that is busy."""
    if causes.SMALL in cause:
        if events[0].engine == "tensor":
            return "Take more columns at a time: up to 512 moving ones for each stationary operand."
        return (
            "Half or more of each is a fixed cost. Put more elements in each partition of one "
            "instruction (512 and more), and use all 128 partitions."
        )
    return engine_advice(timeline, chip, events)
