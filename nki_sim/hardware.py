"""The generations of the NeuronCore: their sizes, clocks and costs, each with its source.

Sources, as cited below:
  [v2], [v3], [v4]  Neuron SDK, nki/guides/architecture/trainium_inferentia2_arch.rst,
                    trainium2_arch.rst, trainium3_arch.rst
  [dma]             Neuron SDK, nki/deep-dives/nki-dma-bandwidth-guide.rst and
                    nki/get-started/about/nki-dma-overview.rst
  [isa]             Neuron SDK, nki/api/nki/isa/__init__.py and nki/api/nki.api.shared.rst
  [dge]             Neuron SDK, nki/deep-dives/nki-dge.rst
  [profile]         Neuron SDK, nki/guides/tutorials/kernel-optimization.rst, its profiles
  [lnc]             Neuron SDK, about-neuron/arch/neuron-features/logical-neuroncore-config.rst
  [chips]           Neuron SDK, about-neuron/arch/neuron-hardware/trainium.rst, trainium2.rst,
                    trainium3.rst
  [instances]       Neuron SDK, about-neuron/arch/neuron-hardware/trn1-arch.rst, trn2-arch.rst,
                    trn3-arch.rst
  [collectives]     Neuron SDK, neuron-runtime/about/collectives.rst and
                    neuron-runtime/explore/internode-collective-comm.rst
  [cs149]           assignment 4 of Stanford's CS149, write-ups of 2024 (trn1) and 2025 (trn2)
  [nkibench]        zhang677/AccelOpt 47e29a7, NKIBench: kernels and profiles on trn1.32xlarge
  [asst4]           xaviergonzalez/asst4-trainium2 d155261, assignment 4 of CS149 on trn2
  [autocomp]        ucb-bar/autocomp dd26a565, examples/trn-*: kernels and times on trn1.2xlarge
  [hw]              aws-samples/sample-spectral-dns-on-aws-neuron, docs/neuron-rules.md,
                    docs/results.md and kernels, measured on NeuronCore-v2
  [kiln]            foxl-ai/kiln, docs/neuron-notes.md and tools/probe_*.py: NKI 0.6 on trn1
  [labs]            yahavb/trainium-agent-labs: NKI 0.6 on trn2, October 2026
  [lm-head]         a megakernel of Qwen3-8B, examples/lm-head-walkthrough (2026-10-10), trn2
  [top-k]           nki-library's chunked top-k kernel, its header
  [split]           a log of split bf16 products on trn1 and trn2, SDK 2.29: three and six products
                    have the same error as one, 1.7e-3. Its author attributes that to a rounding of
                    products. A compiler that folds away the split, which XLA computed, would
                    explain it as well
The sources of times of launches and exchanges are in `measured_times`.
Sizes are in bytes, times in nanoseconds, and clocks in GHz (cycles per nanosecond).
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import measured_times
from .measured_times import LaunchTimes

PARTITIONS = 128  # rows of SBUF, PSUM and the systolic array [v2]
HBM_TENSOR_BYTES = 2 << 30  # DMA offsets are 32 bits wide [hw]
DMA_WRITTEN_BYTES = 64 << 10  # SBUF a partition that DMA fills and that stays live [hw]
MAX_FREE_DIMENSIONS = 4  # of an access pattern in SBUF or PSUM [v2]
MAX_ELEMENT_STRIDE = 32767  # strides of access patterns are int16, in elements [v2]
MAX_ELEMENT_COUNT = 65535  # sizes of access patterns are uint16 [v2]
MAX_SBUF_OPERAND = 64 << 10  # elements a partition of an operand of VectorE and ScalarE [v2]
MAX_PSUM_OPERAND = 4 << 10  # the same in PSUM: all banks of float32 [v2]
PSUM_ALIGNMENT_BYTES = 4  # of the first byte of an operand: nl.tile_size.psum_min_align
MOVING_ALIGNMENT = 4  # float32 elements of a moving operand: misaligned_moving_factor
REGISTERS = 64  # of 32 bits, of each engine's sequencer, v2 to v4 [isa register_alloc]
# How far published times lie outside of what `NeuronCore.ranges` explains: of 63 times to which
# nothing was fitted, as they were known in October 2026, 59 lie within this factor of the range.
UNEXPLAINED = 1.15
SLOW_STRIDE_BYTES = 16  # a longer innermost stride halves the access rate [v2]


# What is known of a construct on a chip: it gave wrong results or was refused; records contradict
# each other or are from another chip; there is a hint only; or it works.
WRONG, CONTESTED, DOUBTFUL, FINE = "wrong", "contested", "doubtful", "fine"
# Where `.ap` of a view counts from: from the view, or from the whole tensor. AWS's documents
# disagree: see views/access_patterns.py.
RELATIVE, ABSOLUTE = "relative", "absolute"


@dataclass(frozen=True)
class Range:
    """A cost on which records differ: the field, and its cheapest and its dearest reading."""

    field: str
    cheapest: float
    dearest: float


@dataclass(frozen=True)
class NeuronCore:
    """One NeuronCore: its sizes, its features and the costs of its instructions.

    ``ranges`` are the costs on which records differ. The fields themselves have the values that
    prices are modelled with; ``cheapest`` and ``dearest`` are the same core with other readings.
    """

    name: str
    generation: int
    tensor_ghz: float
    tensor_columns_per_ns: float  # the rate of moving columns that TensorE reaches in bf16
    vector_ghz: float
    scalar_ghz: float
    gpsimd_ghz: float
    sbuf_partition_bytes: int
    dma_bytes_per_ns: float  # one DMA engine [dma]
    dma_core_bytes_per_ns: float  # the measured rate of all DMA engines of a core together
    cores_per_chip: int  # [chips]
    chip_memory_bytes: int  # HBM of all its cores [chips]
    neuronlink_chip_bytes_per_ns: float  # out of a chip, by all of its links
    efa_instance_bytes_per_ns: float  # out of an instance [instances]
    launches: LaunchTimes  # what the framework on this chip adds; not part of a kernel's time
    # Features that v3 and v4 add.
    matmul_moving_max: int = 512  # elements [isa nc_matmul]
    smallest_row_tile: int = 64  # systolic array tiling [isa nc_matmul]
    shared_sbuf_port: bool = True  # VectorE and GpSimdE take turns in using SBUF [v2], not on [v3]
    shared_psum_port: bool = True  # VectorE and ScalarE take turns: PSUM [v2], only one bank [v3]
    background_transposes: bool = False  # run beside another product or transpose [v4]
    fast_16_bit_vector: bool = False  # VectorE's modes 2x and 4x for bf16 and fp16 [v3]
    fast_16_bit_scalar: bool = False  # ScalarE's mode 2x for tensor_copy and tensor_scalar [v4]
    native_transpose: bool = False  # is_transpose is bit-exact, and 2x for float32 [v3]
    hardware_dge: bool = False  # descriptors can be generated by hardware (hwdge) [v3]
    programs_per_launch: int = 1  # LNC: 1 or 2 on trn2 and trn3 only [lnc]
    # The rate of one HBM stack, of two on v2 and of four on v3 and v4, where two cores share it.
    # All stacks together have 820 GB/s, 2.9 or 3 TB/s, 4.7 or 4.9 TB/s by documents.
    hbm_stack_bytes_per_ns: float = 410.0  # [v2][v3][v4][chips]; sharing: [isa core_barrier]
    # Whether TensorE rounds each product to the dtype of the operands before PSUM accumulates it.
    rounds_bf16_products: bool = False  # a contested report says so [split]; no document does
    rounds_tfloat32_products: bool = False  # no record
    # Verdicts on the rules of rules/device_rules.py, which has the records.
    psum_bank_groups: str = WRONG  # seen on trn1 and trn2
    stationary_free_dimensions: int = 1  # seen on trn2; no record of trn1
    many_dimensional_stationary: str = CONTESTED
    tensors_in_sequences: str = CONTESTED
    small_array_tiles: str = CONTESTED  # seen on v2; tiles of 32x32 are documented from v3 on
    narrow_stationaries: str = DOUBTFUL
    column_tiles: str = CONTESTED
    # Documents and AWS's mamba kernel have it; one report against it may have another cause.
    activation_column_scale: str = FINE
    gpsimd_float32: str = DOUBTFUL  # documented; refused on trn1
    transposed_lines: str = WRONG  # the verifier of trn2's compiler; nki-library aligns for it
    transposed_pitch: str = DOUBTFUL  # one reading of that record; nki-library does so
    # The document of nc_transpose forbids it. A published kernel does it on trn1, and not on trn2.
    transposes_into_float32: str = CONTESTED
    accumulates_onto_others: str = CONTESTED  # undefined by documents; defined on v4
    live_registers: str = WRONG
    dynamic_rows: str = FINE  # documents use such addresses
    dma_written_ahead: str = CONTESTED  # measured on v2
    many_instructions: str = CONTESTED
    too_many_instructions: str = WRONG
    nested_device_loops: str = CONTESTED  # refused on trn1; AWS says that trn2 allows them
    ap_of_views: str = CONTESTED  # where the readings differ: no record of any chip
    reading_of_ap: str = RELATIVE  # not a verdict, but the reading that the simulator follows
    # Figures that hold for every generation until a document says otherwise.
    dma_engines: int = 16  # [dma]
    dma_partitions_per_engine: int = 4  # 4 rows use one engine [dma], 64 rows all, by records
    # Whether the host writes the descriptors of every copy with a known address, "static DMA". On
    # other chips it writes those of copies of few rows only: 4 rows, not 128 [dma].
    static_descriptors: bool = True  # [v3]
    host_descriptor_rows: int = 16
    dma_descriptor_ns: float = 21.0  # for a run of HBM: 512 bytes at 160 of 275 GB/s on v2 [kiln]
    dma_least_ns: float = 25.0  # for the shortest run: strided reloads of 4 bytes [top-k]
    # A DMA engine prepares one copy after the other, each for this time, while it moves the bytes
    # of copies before: 206 us for 600 copies of 128 numbers [cs149].
    dma_copy_ns: float = 340.0
    # The same for a copy that does not use all engines: 27,404 us for 76,800 of one number [cs149].
    dma_partial_copy_ns: float = 340.0
    dma_start_ns: float = 700.0  # trigger to first byte: 620 to 740 on trn2 [dma, figures]
    dma_finish_ns: float = 350.0  # last byte to use: loads need 1.05 us beside their bytes [dma]
    hardware_dge_ns: float = 600.0  # a dma_copy occupies its queue [dge]
    software_dge_ns: float = 1000.0  # a copy to or from an address in a register: GpSimdE [kiln]
    static_dma_ns: float = 64.0  # occupies the queue if the host made the descriptors: assumed
    loop_iteration_ns: float = 1400.0  # for a device loop with an almost empty body, trn1 [kiln]
    psum_banks: int = 8  # [v2]
    psum_bank_bytes: int = 2048  # a partition [v2]
    # Banks of an operand of VectorE or ScalarE: one by nki/get-started/about/tiling-overview.rst,
    # eight by [v2] (4K elements). On v4 matmuls themselves write eight [isa nc_matmul].
    psum_operand_banks: int = 1
    tiles_share_bank: bool = False  # whether parallel array tiles can write one bank: no document
    tracks_whole_tensors: bool = True  # dependencies in SBUF and PSUM are of whole tiles [kiln]
    matmul_min_cycles: int = 64  # MM_INIT_LATENCY [v2]
    fp32_matmul_factor: int = 4  # cycles for a row, relative to bf16 [v2]
    # Of float32 products whose moving rows do not begin at a multiple of 16 bytes; see trn2.
    misaligned_moving_factor: float = 1.0
    onezero_speedup: int = 2  # for a float32 operand of zeros and ones [isa nc_matmul]
    load_stationary_speedup: int = 4  # Fast LoadStationary [v2]
    stream_min_cycles: int = 64  # VectorE, ScalarE, GpSimdE: MIN_II [isa of neuronxcc.nki]
    stream_start_cycles: int = 48  # start-up; 584 ns for 512 elements on trn2 [profile]
    gpsimd_start_cycles: int = 150  # start-up of GpSimdE: iota [isa of neuronxcc.nki]
    dependent_cycles: int = 100  # added if an instruction needs the result of the one before [v2]
    tensor_access_cycles: int = 60  # from the write of an engine to a visible result [v2]
    activation_table_ns: float = 1300.0  # before the first use of a function [dma, figures]
    # Cycles for an element. The SDK's table of engines has 8, by which the reciprocals of silu
    # alone would take longer than all that VectorE did there, 985 us [nkibench].
    vector_reciprocal_factor: int = 1
    gpsimd_rsqrt_factor: int = 4  # relative to ScalarE [isa, engine selection]
    gpsimd_dma_bytes_per_ns: float = 153.0  # GpSimdE's own DMA engines, each direction [v3]
    # The time of a semaphore that the other core writes. No document has it, so it is assumed to
    # equal that of a DMA from trigger to first byte.
    core_barrier_ns: float = 700.0
    # Links between cores, for all-to-all exchanges of one or more whole instances. Documents seem
    # to count both directions of NeuronLink, so half of their figures is used here.
    chips_per_instance: int = 16  # trn1.32xlarge, trn2.48xlarge, a server of trn3 [instances]
    # The average number of links between two chips of an instance: 32 links in all to the 15 other
    # chips of a 4 x 4 torus.
    neuronlink_hops: float = 32 / 15  # [instances]
    # The fraction that an all-to-all reaches: 26.6 of 45 GB/s a core, 25.7 to 27.5 on 32 cores of
    # trn1 [hw]. There is no record of other chips.
    neuronlink_reached: float = 0.59
    efa_latency_ns: float = 15e3  # HBM to HBM of another instance, trn2 [collectives]
    # The time of the smallest all-to-all. Documents speak of 1 to 10 us inside an instance of trn2
    # [collectives], which the measured software does not reach.
    all_to_all_start_ns: float = measured_times.XLA_ALL_TO_ALL.about_ns
    message_ns: float = 700.0  # for one more message: assumed, a DMA from trigger to first byte
    ranges: tuple[Range, ...] = ()

    def __post_init__(self) -> None:
        if self.reading_of_ap not in (RELATIVE, ABSOLUTE):
            raise ValueError(
                f"argument 'reading_of_ap' is {self.reading_of_ap!r}, "
                f"allowed are {RELATIVE!r} and {ABSOLUTE!r}"
            )

    @property
    def cheapest(self) -> NeuronCore:
        """The same core with the cheapest reading of each cost in ``ranges``."""
        costs: dict[str, Any] = {one.field: one.cheapest for one in self.ranges}
        return replace(self, ranges=(), **costs)

    @property
    def dearest(self) -> NeuronCore:
        """The same core with the dearest reading of each cost in ``ranges``."""
        costs: dict[str, Any] = {one.field: one.dearest for one in self.ranges}
        return replace(self, ranges=(), **costs)

    @property
    def dma_total_bytes_per_ns(self) -> float:
        """The documented rate of all DMA engines of a core together."""
        return self.dma_engines * self.dma_bytes_per_ns

    @property
    def psum_partition_bytes(self) -> int:
        """The bytes of PSUM in one partition."""
        return self.psum_banks * self.psum_bank_bytes

    def dma_floor_ns(self, points: int, bytes_per_point: int = 16, cores: int = 1) -> float:
        """Returns the least time in which DMA reads and writes ``points`` complex points once.

        Args:
            points: the number of points.
            bytes_per_point: bytes read and written for a point, 16 for two parts of float32.
            cores: 1, or 2 for twice the DMA engines, which share one HBM stack.
        """
        rate = min(cores * self.dma_total_bytes_per_ns, self.hbm_stack_bytes_per_ns)
        return points * bytes_per_point / rate

    def with_launches_ns(self, kernel_ns: float, launches: int, operators: int = 0) -> float:
        """Returns the approximate time of an eager call: kernels, and what launches add to them.

        ``operators`` is the number of torch's operators beside the launches.
        """
        return kernel_ns + self.launches.added_ns(launches, operators)

    def clock_ghz(self, engine: str) -> float:
        """Returns the clock of ``tensor``, ``vector``, ``scalar`` or ``gpsimd`` in GHz."""
        return float(getattr(self, f"{engine}_ghz"))


TRN1 = NeuronCore(
    name="trn1",
    generation=2,
    tensor_ghz=2.8,
    tensor_columns_per_ns=2.45,  # for any number of columns [kiln]
    vector_ghz=1.12,
    scalar_ghz=1.4,
    gpsimd_ghz=1.4,
    sbuf_partition_bytes=192 << 10,
    dma_bytes_per_ns=17.0,
    nested_device_loops=WRONG,
    gpsimd_float32=WRONG,
    transposed_lines=CONTESTED,  # its DMA engines have no transpose of their own
    dma_core_bytes_per_ns=263.0,  # 261 to 264; 224 to 230 including the launch [kiln]
    cores_per_chip=2,
    chip_memory_bytes=32 << 30,
    neuronlink_chip_bytes_per_ns=192.0,  # half of 384 GB/s [chips]
    efa_instance_bytes_per_ns=100.0,  # 800 Gbit/s; trn1n has twice as much [instances]
    launches=measured_times.XLA_LAUNCHES,
    ranges=(
        Range("dma_copy_ns", 133.0, 425.0),  # 100 tiles [128, 2] [cs149]; the step of 64^3 [hw]
        Range("static_dma_ns", 0.0, 320.0),  # at most that of 600 copies [cs149]
        Range("dma_core_bytes_per_ns", 272.0, 227.0),  # by documents; with the launch [kiln]
        Range(
            "dma_descriptor_ns", 6.0, 21.0
        ),  # as on trn2; [kiln]. Products of [autocomp] need few
        Range("dma_start_ns", 620.0, 740.0),  # on trn2 [dma]
        Range("tensor_columns_per_ns", 2.56, 2.08),  # 0.39 to 0.48 ns a column [kiln]
        Range("matmul_min_cycles", 53, 74),  # 21.5 to 30 ns [kiln]
        Range("stream_start_cycles", 38, 64),  # 91 ns for 64 columns [kiln]; about 60 cycles [v2]
        # Effective clocks: 64 small instructions are 10 % and 13 % faster than modelled, and eight
        # products in SBUF 14 % slower [kiln].
        Range("vector_ghz", 1.24, 0.98),
        Range("scalar_ghz", 1.61, 1.4),
    ),
)
TRN2 = replace(
    TRN1,
    name="trn2",
    generation=3,
    tensor_ghz=2.4,
    tensor_columns_per_ns=2.4,  # the clock; in float32 28.16 ms instead of 27.96 [profile]
    vector_ghz=0.96,
    scalar_ghz=1.2,
    gpsimd_ghz=1.2,
    sbuf_partition_bytes=224 << 10,
    dma_bytes_per_ns=23.0,
    dma_core_bytes_per_ns=368.0,  # 388 from the difference of copies of 1 and 2 MiB [labs]
    dma_descriptor_ns=6.0,  # from times of packets with rows of 512 and 2048 bytes [profile]
    static_descriptors=False,
    # Every copy of at least 16 rows: 580 to 610 [cs149], 608 [profile], 670 [labs], 930 [dma].
    software_dge_ns=745.0,
    dma_copy_ns=230.0,  # at most, by 3,556 copies of [128, 448 bytes] in 824 us [asst4]
    dma_partial_copy_ns=480.0,  # 37,318 us for 76,800 copies of one number [cs149]
    # 7,992 float32 products of 222 columns take 479 ns each; two of three begin 4 or 8 bytes behind
    # a multiple of 16. Products of 512 aligned columns take the time of their columns [profile].
    misaligned_moving_factor=1.4,  # [asst4]
    smallest_row_tile=32,
    small_array_tiles=FINE,
    nested_device_loops=CONTESTED,
    gpsimd_float32=DOUBTFUL,
    transposes_into_float32=WRONG,
    transposed_lines=WRONG,
    narrow_stationaries=FINE,
    shared_sbuf_port=False,
    shared_psum_port=False,
    fast_16_bit_vector=True,
    native_transpose=True,
    hardware_dge=True,
    programs_per_launch=2,
    hbm_stack_bytes_per_ns=566.0,  # 280 to 285 a core if both work [lm-head]; 725 by documents
    cores_per_chip=8,
    chip_memory_bytes=96 << 30,
    neuronlink_chip_bytes_per_ns=512.0,  # half of 1024 GB/s inside an instance [instances]
    efa_instance_bytes_per_ns=400.0,  # 3200 Gbit/s [instances]
    launches=measured_times.TORCH_NEURON_LAUNCHES,
    ranges=(
        Range("software_dge_ns", 580.0, 930.0),  # [cs149]; [dma]
        Range("hardware_dge_ns", 600.0, 854.0),  # [dge]; the busy time of Sync's queue [labs]
        Range("dma_copy_ns", 97.0, 230.0),  # busy with [128, 128] [dma]; [asst4]
        Range("dma_partial_copy_ns", 97.0, 486.0),  # [dma]; copies of a number [cs149]
        Range("static_dma_ns", 0.0, 480.0),  # no record but that of one number
        Range("dma_core_bytes_per_ns", 388.0, 320.0),  # [labs]; as far below the documents as trn1
        Range("dma_start_ns", 620.0, 740.0),  # [dma]
        Range("misaligned_moving_factor", 1.0, 1.45),  # without; all that [asst4] leaves
        Range("hbm_stack_bytes_per_ns", 725.0, 560.0),  # by documents; [lm-head]
        Range("stream_start_cycles", 38, 64),  # no record of this and the next: as on trn1
        Range("vector_ghz", 1.06, 0.84),
        Range("scalar_ghz", 1.38, 1.2),
    ),
    all_to_all_start_ns=measured_times.TORCH_ALL_TO_ALL.about_ns,
)
TRN3 = replace(
    TRN2,
    name="trn3",
    generation=4,
    vector_ghz=1.2,
    sbuf_partition_bytes=256 << 10,
    dma_bytes_per_ns=33.0,
    dma_core_bytes_per_ns=528.0,  # no record: the documented rate, as on trn2
    hbm_stack_bytes_per_ns=917.0,  # no record: the same fraction of 1175 as trn2 reaches
    matmul_moving_max=4096,
    psum_operand_banks=8,
    background_transposes=True,
    fast_16_bit_scalar=True,
    accumulates_onto_others=FINE,
    psum_bank_groups=CONTESTED,
    ranges=(  # no record: those of trn2, and rates as far below and above the modelled ones
        *[one for one in TRN2.ranges if not one.field.endswith(("bytes_per_ns", "vector_ghz"))],
        Range("vector_ghz", 1.33, 1.05),
        Range("dma_core_bytes_per_ns", 528.0, 449.0),
        Range("hbm_stack_bytes_per_ns", 1175.0, 907.0),
    ),
    chip_memory_bytes=144 << 30,
    # There is no record of launches and of all_to_all_start_ns, so those of trn2 are used. Links
    # are switched: 320 GB/s to the 12 chips of other boards, which receive four fifths of the
    # bytes. The same page has a table with 2048 GiB/s, unlike the sum of these links [instances].
    neuronlink_chip_bytes_per_ns=400.0,
    neuronlink_hops=1.0,
    efa_instance_bytes_per_ns=400.0,  # 12,800 Gbit/s to 64 chips [instances]
)

_CHIPS = {
    "trn1": TRN1,
    "inf2": TRN1,
    "gen2": TRN1,
    "trn2": TRN2,
    "gen3": TRN2,
    "trn3": TRN3,
    "gen4": TRN3,
}
NAMES = tuple(dict.fromkeys(core.name for core in _CHIPS.values()))  # without aliases
TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"
LNC_VARIABLE = "NEURON_LOGICAL_NC_CONFIG"  # the runtime's degree of LNC [lnc]
# The file in which Linux shows the type of an EC2 instance, such as trn2.48xlarge.
INSTANCE_TYPE = Path("/sys/devices/virtual/dmi/id/product_name")


def chip(name: str) -> NeuronCore:
    """Returns the NeuronCore of the chip ``name``; raises ValueError if it is unknown."""
    try:
        return _CHIPS[name]
    except KeyError:
        raise ValueError(f"target {name!r} is not known: use one of {', '.join(_CHIPS)}") from None


_selected: ContextVar[NeuronCore | None] = ContextVar("neuron_core", default=None)


@contextmanager
def select(core: NeuronCore) -> Iterator[None]:
    """Selects the chip ``core`` inside a ``with`` block, in this thread or task only.

    Raises:
        TypeError: ``core`` is no NeuronCore, such as a chip's name.
    """
    if not isinstance(core, NeuronCore):
        rule = f"it must be a NeuronCore, such as hardware.chip({NAMES[0]!r})"
        raise TypeError(f"the core of hardware.select is {core!r}, but {rule}")
    token = _selected.set(core)
    try:
        yield
    finally:
        _selected.reset(token)


def current() -> NeuronCore:
    """Returns the chip for which kernels are planned, simulated and launched.

    ``current_and_why`` says how the chip is chosen.
    """
    return current_and_why()[0]


def current_and_why() -> tuple[NeuronCore, str]:
    """Returns the chip, and the reason for the choice as a text.

    The choice is made by ``select``, else by NEURON_PLATFORM_TARGET_OVERRIDE, else by the type of
    the EC2 instance. Otherwise the chip is trn2 if TorchNeuron is loaded, and trn1 if not.

    Raises:
        ValueError: the variable names no chip.
    """
    if (selected := _selected.get()) is not None:
        return selected, "selected"
    return _own_and_why() or (TRN1, "the default, as nothing names a chip")


def _own_and_why() -> tuple[NeuronCore, str] | None:
    """Returns the chip of this process apart from ``select``, and the reason; or None."""
    if name := os.environ.get(TARGET_VARIABLE):
        return chip(name), TARGET_VARIABLE
    if (core := _chip_of_instance(INSTANCE_TYPE)) is not None:
        return core, "the instance's type"
    if hasattr(sys.modules.get("torch"), "neuron"):
        return TRN2, "the default of TorchNeuron, which runs on trn2 and trn3"
    return None


def degree(core: NeuronCore | None = None) -> int:
    """Returns the degree of LNC of launches on a chip, by default the current chip.

    ``degree_and_why`` says how the degree is chosen.
    """
    return degree_and_why(core)[0]


def degree_and_why(core: NeuronCore | None = None) -> tuple[int, str]:
    """Returns the degree of LNC, the number of cores of a launch, and the reason for the choice.

    The degree is the value of NEURON_LOGICAL_NC_CONFIG, or else the default, the largest degree of
    the chip: 2 on trn2 and trn3, and 1 on trn1 [lnc]. The variable is about the chip of this
    process. For another chip, given as ``core`` or by ``select``, its value holds if that chip
    allows it, and the default holds otherwise.

    Raises:
        ValueError: the variable is not a degree, or the chip of this process does not allow it.
    """
    asked = _selected.get() if core is None else core
    core = current() if asked is None else asked
    most = core.programs_per_launch
    given = os.environ.get(LNC_VARIABLE)
    if not given:
        return most, f"the default of {core.name}"
    if given in _degrees(core):
        return int(given), LNC_VARIABLE
    own = _own_and_why()
    is_another = asked is not None and (own is None or own[0] != core)
    if is_another and any(given in _degrees(other) for other in _CHIPS.values()):
        return most, f"the default of {core.name}, which has no degree {given}"
    raise ValueError(
        f"{LNC_VARIABLE} is {given!r}, allowed on {core.name} is {' or '.join(_degrees(core))}; "
        f"unset it, or name the chip that it is for in {TARGET_VARIABLE}"
    )


def _degrees(core: NeuronCore) -> tuple[str, ...]:
    return tuple(str(n + 1) for n in range(core.programs_per_launch))


@functools.lru_cache(1)
def _chip_of_instance(file: Path) -> NeuronCore | None:
    """Returns the chip of the EC2 instance on which this process runs, or None."""
    try:
        family = file.read_text().partition(".")[0]
    except OSError:
        return None
    # trn1n, trn2u and trn3gen2 are trn1, trn2 and trn3 with other networks.
    return _CHIPS.get(family[:4])
