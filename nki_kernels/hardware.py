"""NeuronCore generations: sizes, clocks and costs, each with its source.

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
  [hw]              aws-samples/sample-spectral-dns-on-aws-neuron, docs/neuron-rules.md,
                    measured on NeuronCore-v2; all-to-all also docs/results.md
  [kiln]            foxl-ai/kiln, docs/neuron-notes.md and tools/probe_*.py: NKI 0.6 on trn1
  [labs]            yahavb/trainium-agent-labs: NKI 0.6 on trn2, October 2026
  [lm-head]         a megakernel of Qwen3-8B, examples/lm-head-walkthrough (2026-10-10), trn2
  [top-k]           nki-library's chunked top-k kernel, its header
  [split]           a log of split bf16 products on trn1 and trn2, SDK 2.29: three and six are as
                    far off as one, 1.7e-3. Its author's cause is a rounding of products; that a
                    compiler folded the split away, which XLA had to make, fits as well
Launches and exchanges have theirs in `measured_times`.
Bytes are bytes, times are nanoseconds, clocks are GHz (cycles per nanosecond).
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

from nki_kernels import measured_times
from nki_kernels.measured_times import LaunchTimes

PARTITIONS = 128  # rows of SBUF, PSUM and the systolic array [v2]
HBM_TENSOR_BYTES = 2 << 30  # DMA offsets are 32 bits wide [hw]
DMA_WRITTEN_BYTES = 64 << 10  # SBUF that DMA fills and that stays live, a partition [hw]
MAX_FREE_DIMENSIONS = 4  # of an SBUF/PSUM access pattern [v2]
MAX_ELEMENT_STRIDE = 32767  # access pattern strides are int16, in elements [v2]
MAX_ELEMENT_COUNT = 65535  # access pattern sizes are uint16 [v2]
MAX_SBUF_OPERAND = 64 << 10  # elements a partition, VectorE and ScalarE [v2]
MAX_PSUM_OPERAND = 4 << 10  # the same; every bank of fp32 [v2]
SLOW_STRIDE_BYTES = 16  # a longer innermost stride halves the access rate [v2]


# What is known of a construct on a chip: records of wrong results or refusals, a record of another
# chip or one that contradicts others, a hint, or that it works.
WRONG, CONTESTED, DOUBTFUL, FINE = "wrong", "contested", "doubtful", "fine"
# What `.ap` counts from where it is called on a view: the view, or the whole tensor. AWS's
# documents say either: simulator/access_patterns.py.
RELATIVE, ABSOLUTE = "relative", "absolute"


@dataclass(frozen=True)
class NeuronCore:
    """One NeuronCore: what fits, what it can do and what an instruction costs."""

    name: str
    generation: int
    tensor_ghz: float
    tensor_columns_per_ns: float  # moving columns that TensorE reaches, bf16
    vector_ghz: float
    scalar_ghz: float
    gpsimd_ghz: float
    sbuf_partition_bytes: int
    dma_bytes_per_ns: float  # one DMA engine [dma]
    dma_core_bytes_per_ns: float  # what all engines of a core reach together, measured
    cores_per_chip: int  # [chips]
    chip_memory_bytes: int  # HBM of all its cores [chips]
    neuronlink_chip_bytes_per_ns: float  # out of a chip, by all of its links
    efa_instance_bytes_per_ns: float  # out of an instance [instances]
    launches: LaunchTimes  # what the framework adds that runs on the chip; no part of a kernel
    # What v3 and v4 add.
    matmul_moving_max: int = 512  # elements [isa nc_matmul]
    smallest_row_tile: int = 64  # systolic array tiling [isa nc_matmul]
    shared_sbuf_port: bool = True  # VectorE and GpSimdE take turns on SBUF [v2]; lifted [v3]
    shared_psum_port: bool = True  # VectorE and ScalarE take turns on PSUM [v2]; on a bank [v3]
    background_transposes: bool = False  # beside another product or transpose [v4]
    fast_16_bit_vector: bool = False  # VectorE 2x/4x modes for bf16/fp16 [v3]
    fast_16_bit_scalar: bool = False  # ScalarE 2x mode for tensor_copy/tensor_scalar [v4]
    native_transpose: bool = False  # is_transpose: bit-exact and 2x for fp32 [v3]
    hardware_dge: bool = False  # hwdge descriptor generation [v3]
    programs_per_launch: int = 1  # LNC: 1 or 2 on trn2 and trn3 only [lnc]
    # One HBM stack, of two on v2 and four on v3 and v4; on these, two cores share it. By documents
    # all stacks give 820 GB/s; 2.9 or 3 TB/s; 4.7 or 4.9 TB/s, of which more is not reached.
    hbm_stack_bytes_per_ns: float = 410.0  # [v2][v3][v4][chips]; who shares it: [isa core_barrier]
    # Whether TensorE rounds a product to the dtype of its operands before PSUM adds it up.
    rounds_bf16_products: bool = False  # a contested report says so [split]; no document does
    rounds_tfloat32_products: bool = False  # no record
    # Verdicts of simulator/device_rules.py, which has the records.
    psum_bank_groups: str = WRONG  # seen on trn1 and trn2
    stationary_free_dimensions: int = 1  # seen on trn2; no record of trn1
    many_dimensional_stationary: str = CONTESTED
    tensors_in_sequences: str = CONTESTED
    small_array_tiles: str = CONTESTED  # seen on v2; tiles of 32x32 are documented from v3 on
    narrow_stationaries: str = DOUBTFUL
    column_tiles: str = CONTESTED
    # Documented, and in AWS's mamba kernel; one report against it may be about something else.
    activation_column_scale: str = FINE
    gpsimd_float32: str = FINE  # documented; refused on trn1
    dynamic_rows: str = FINE  # documents have such addresses
    dma_written_ahead: str = CONTESTED  # measured on v2
    many_instructions: str = CONTESTED
    too_many_instructions: str = WRONG
    nested_device_loops: str = CONTESTED  # refused on trn1; AWS says that trn2 takes them
    ap_of_views: str = CONTESTED  # where the readings differ: no record of any chip
    reading_of_ap: str = RELATIVE  # no verdict: how the simulator reads it
    # The same on every generation until a document says otherwise.
    dma_engines: int = 16  # [dma]
    dma_partitions_per_engine: int = 4  # 4 rows use one engine [dma], 64 all: hardware records
    host_descriptor_rows: int = 16  # copies of fewer have descriptors from the host: 4 do [dma]
    dma_descriptor_ns: float = 21.0  # a run of HBM: 512 bytes at 160 of 275 GB/s on v2 [kiln]
    dma_least_ns: float = 25.0  # a run, however short: strided reloads of 4 bytes [top-k]
    dma_start_ns: float = 700.0  # trigger to first byte: 620 to 740 on trn2 [dma, figures]
    dma_finish_ns: float = 350.0  # last byte to use: loads take 1.05 us beside their bytes [dma]
    hardware_dge_ns: float = 600.0  # of its queue, a dma_copy [dge]
    software_dge_ns: float = 1000.0  # of GpSimdE, a dma_copy, one at a time [kiln]
    static_dma_ns: float = 64.0  # of its queue, where the host made the descriptors: assumed
    loop_iteration_ns: float = 1400.0  # of a device loop with an almost empty body, trn1 [kiln]
    power_of_two_stride_slowdown: float = 2.0  # gapped rows a power of two apart: v2 [hw]
    psum_banks: int = 8  # [v2]
    psum_bank_bytes: int = 2048  # [v2]
    # Of an operand of VectorE or ScalarE: one by nki/get-started/about/tiling-overview.rst, eight
    # by [v2] (4K elements). On v4 matmuls themselves write eight [isa nc_matmul].
    psum_operand_banks: int = 1
    tiles_share_bank: bool = False  # array tiles side by side write one PSUM bank: no document
    tracks_whole_tensors: bool = True  # dependencies, of SBUF and PSUM tiles [kiln, on trn1]
    matmul_min_cycles: int = 64  # MM_INIT_LATENCY [v2]
    fp32_matmul_factor: int = 4  # cycles a row against bf16 [v2]
    onezero_speedup: int = 2  # fp32 operand of zeros and ones [isa nc_matmul]
    load_stationary_speedup: int = 4  # Fast LoadStationary [v2]
    stream_min_cycles: int = 64  # VectorE, ScalarE, GpSimdE: MIN_II [isa of neuronxcc.nki]
    stream_start_cycles: int = 48  # beside the elements; 584 ns for 512 of them on trn2 [profile]
    gpsimd_start_cycles: int = 150  # GpSimdE, beside the elements: iota [isa of neuronxcc.nki]
    dependent_cycles: int = 100  # more where an instruction needs the one before [v2]
    tensor_access_cycles: int = 60  # engine write to visible in SBUF/PSUM [v2]
    activation_table_ns: float = 1300.0  # ScalarE, before a function's first use [dma, figures]
    vector_reciprocal_factor: int = 8  # cycles an element [isa, engine selection]
    gpsimd_rsqrt_factor: int = 4  # against ScalarE [isa, engine selection]
    gpsimd_dma_bytes_per_ns: float = 153.0  # its own DMA engines, each direction [v3]
    # A semaphore that the other core writes: no document times it. As a DMA from trigger to first
    # byte.
    core_barrier_ns: float = 700.0
    # Links between cores, for all-to-all exchanges of a whole instance, or of several. Documents
    # count both directions of NeuronLink, as it seems: half of their figures is taken here.
    chips_per_instance: int = 16  # trn1.32xlarge, trn2.48xlarge, a server of trn3 [instances]
    # Links from one chip of an instance to another, on average: 32 to 15 others on a 4 x 4 torus.
    neuronlink_hops: float = 32 / 15  # [instances]
    # What all-to-all reaches: 26.6 of 45 GB/s a core, 25.7 to 27.5 on 32 cores of trn1 [hw]. No
    # record of other chips.
    neuronlink_reached: float = 0.59
    efa_latency_ns: float = 15e3  # HBM to HBM of another instance, trn2 [collectives]
    # An all-to-all however small. Documents speak of 1 to 10 us inside an instance of trn2
    # [collectives], which the software that was measured does not reach.
    all_to_all_start_ns: float = measured_times.XLA_ALL_TO_ALL.about_ns
    message_ns: float = 700.0  # one more message: no document. A DMA from trigger to first byte

    def __post_init__(self) -> None:
        if self.reading_of_ap not in (RELATIVE, ABSOLUTE):
            raise ValueError(
                f"argument 'reading_of_ap' is {self.reading_of_ap!r}, "
                f"allowed are {RELATIVE}, {ABSOLUTE}"
            )

    @property
    def dma_total_bytes_per_ns(self) -> float:
        """All DMA engines together."""
        return self.dma_engines * self.dma_bytes_per_ns

    @property
    def psum_partition_bytes(self) -> int:
        """PSUM of one partition."""
        return self.psum_banks * self.psum_bank_bytes

    def dma_floor_ns(self, points: int, bytes_per_point: int = 16, cores: int = 1) -> float:
        """Least time to read and write ``points`` complex points once (split fp32: 16 bytes).

        By ``cores`` together: twice the DMA engines of one, but they share a stack of HBM.
        """
        rate = min(cores * self.dma_total_bytes_per_ns, self.hbm_stack_bytes_per_ns)
        return points * bytes_per_point / rate

    def with_launches_ns(self, kernel_ns: float, launches: int) -> float:
        """About the time of kernels and so many launches, each by itself in eager mode."""
        return kernel_ns + launches * self.launches.eager.about_ns

    def clock_ghz(self, engine: str) -> float:
        """Clock of ``tensor``, ``vector``, ``scalar`` or ``gpsimd``."""
        return float(getattr(self, f"{engine}_ghz"))


TRN1 = NeuronCore(
    name="trn1",
    generation=2,
    tensor_ghz=2.8,
    tensor_columns_per_ns=2.45,  # at any width [kiln]
    vector_ghz=1.12,
    scalar_ghz=1.4,
    gpsimd_ghz=1.4,
    sbuf_partition_bytes=192 << 10,
    dma_bytes_per_ns=17.0,
    nested_device_loops=WRONG,
    gpsimd_float32=WRONG,
    dma_core_bytes_per_ns=263.0,  # 261 to 264; 224 to 230 with the launch counted in [kiln]
    cores_per_chip=2,
    chip_memory_bytes=32 << 30,
    neuronlink_chip_bytes_per_ns=192.0,  # half of 384 GB/s [chips]
    efa_instance_bytes_per_ns=100.0,  # 800 Gbit/s; trn1n has twice that [instances]
    launches=measured_times.XLA_LAUNCHES,
)
TRN2 = replace(
    TRN1,
    name="trn2",
    generation=3,
    tensor_ghz=2.4,
    tensor_columns_per_ns=2.4,  # its clock: 28.16 ms for 27.96 in float32 [profile]
    vector_ghz=0.96,
    scalar_ghz=1.2,
    gpsimd_ghz=1.2,
    sbuf_partition_bytes=224 << 10,
    dma_bytes_per_ns=23.0,
    dma_core_bytes_per_ns=368.0,  # 388 between copies of 1 and 2 MiB [labs]
    dma_descriptor_ns=6.0,  # packet times of products, rows of 512 and 2048 bytes [profile]
    software_dge_ns=750.0,  # between 608 [profile], 670 [labs] and 930 [dma, figure]
    smallest_row_tile=32,
    small_array_tiles=FINE,
    nested_device_loops=CONTESTED,
    gpsimd_float32=FINE,
    narrow_stationaries=FINE,
    shared_sbuf_port=False,
    shared_psum_port=False,
    fast_16_bit_vector=True,
    native_transpose=True,
    hardware_dge=True,
    programs_per_launch=2,
    hbm_stack_bytes_per_ns=566.0,  # 280 to 285 a core with both at work [lm-head]; 725 by documents
    power_of_two_stride_slowdown=1.0,  # 22 of 23 B/ns at strides of 16 and 32 KiB [profile]
    cores_per_chip=8,
    chip_memory_bytes=96 << 30,
    neuronlink_chip_bytes_per_ns=512.0,  # half of 1024 GB/s inside an instance [instances]
    efa_instance_bytes_per_ns=400.0,  # 3200 Gbit/s [instances]
    launches=measured_times.TORCH_NEURON_LAUNCHES,
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
    hbm_stack_bytes_per_ns=917.0,  # no record: of 1175 as much as trn2 reaches
    matmul_moving_max=4096,
    psum_operand_banks=8,
    background_transposes=True,
    fast_16_bit_scalar=True,
    psum_bank_groups=CONTESTED,
    chip_memory_bytes=144 << 30,
    # launches and all_to_all_start_ns: no record, those of trn2.
    # Switched: 320 GB/s to the 12 chips of other boards, which get four fifths of the bytes. The
    # same page has a table with 2048 GiB/s, which these links do not add up to [instances].
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
NAMES = tuple(dict.fromkeys(core.name for core in _CHIPS.values()))  # without other names
TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"
LNC_VARIABLE = "NEURON_LOGICAL_NC_CONFIG"  # the runtime's degree of LNC [lnc]
# Where Linux shows the type of an EC2 instance, trn2.48xlarge for example.
INSTANCE_TYPE = Path("/sys/devices/virtual/dmi/id/product_name")


def chip(name: str) -> NeuronCore:
    """The NeuronCore called ``name``; ValueError lists the known names."""
    try:
        return _CHIPS[name]
    except KeyError:
        raise ValueError(f"target {name!r} is not known: use one of {', '.join(_CHIPS)}") from None


_selected: ContextVar[NeuronCore | None] = ContextVar("neuron_core", default=None)


@contextmanager
def select(core: NeuronCore) -> Iterator[None]:
    """Simulate ``core`` inside a ``with`` block, in this thread or task only."""
    token = _selected.set(core)
    try:
        yield
    finally:
        _selected.reset(token)


def current() -> NeuronCore:
    """The chip that kernels are planned, simulated and launched for: see ``current_and_why``."""
    return current_and_why()[0]


def current_and_why() -> tuple[NeuronCore, str]:
    """The chip, and what says so: ``select``, NEURON_PLATFORM_TARGET_OVERRIDE, the instance.

    Where nothing does it is trn1, with TorchNeuron trn2. ValueError where the variable names none.
    """
    if (selected := _selected.get()) is not None:
        return selected, "selected"
    return _own_and_why() or (TRN1, "the default, as nothing names a chip")


def _own_and_why() -> tuple[NeuronCore, str] | None:
    """The chip of this process whatever is selected, and what says so; None where nothing does."""
    if name := os.environ.get(TARGET_VARIABLE):
        return chip(name), TARGET_VARIABLE
    if (core := _chip_of_instance(INSTANCE_TYPE)) is not None:
        return core, "the instance's type"
    if hasattr(sys.modules.get("torch"), "neuron"):
        return TRN2, "the default of TorchNeuron, which runs on trn2 and trn3"
    return None


def degree(core: NeuronCore | None = None) -> int:
    """The degree of LNC of launches on the (current) chip: see ``degree_and_why``."""
    return degree_and_why(core)[0]


def degree_and_why(core: NeuronCore | None = None) -> tuple[int, str]:
    """The degree of LNC, cores a launch: NEURON_LOGICAL_NC_CONFIG, else the chip's default.

    That is the most that a launch can have: 2 on trn2 and trn3, 1 on trn1 [lnc]. The variable is
    about this process's chip. For another one, given as ``core`` or by ``select``, it holds where
    such launches can have the degree, else the default does. ValueError where it is no degree, or
    one that no launch on this process's chip can have.
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
    """What the variable can hold on a chip."""
    return tuple(str(n + 1) for n in range(core.programs_per_launch))


@functools.lru_cache(1)
def _chip_of_instance(file: Path) -> NeuronCore | None:
    """The chip of the EC2 instance that this process runs on; None where it is none."""
    try:
        family = file.read_text().partition(".")[0]
    except OSError:
        return None
    # trn1n, trn2u and trn3gen2 are trn1, trn2 and trn3 with other networks.
    return _CHIPS.get(family[:4])
