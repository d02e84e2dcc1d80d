"""Every documented rule refuses the kernel that breaks it, and no legal kernel.

A rule is a kernel with one parameter and two values of it: the first breaks the rule, and with the
second the kernel is the nearest legal one. Both run in strict mode, on trn1 unless the rule names a
chip. A rule with ``accepted_on`` is a feature that trn1 lacks: what breaks the rule must pass on
that chip.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import NkiSimulationWarning, NkiValidationError
from nki_sim.base import releases

from .conftest import copied, index, refuses

TARGET = "NEURON_PLATFORM_TARGET_OVERRIDE"


@dataclass(frozen=True)
class Rule:
    """A kernel of one argument, two values of it, and the error that the first one causes."""

    name: str
    kernel: Callable[[Any], object]
    broken: Any
    legal: Any
    instruction: str
    operand: str
    match: str
    chip: str
    accepted_on: str
    release: str


RULES: list[Rule] = []


def rules_of(instruction):
    """Registers rules of an instruction, in one of three forms.

    ``memset(operand, match)(kernel, broken, legal)`` calls the kernel with either value.
    ``memset(operand, match)(kernel, *given, engine=(broken, legal))`` varies a keyword's value.
    As a decorator, it takes a kernel of ``broken``, True or False, and the kernel's name.
    """

    def rule(operand, match, name="", chip="trn1", accepted_on="", release="0.7"):
        def register(kernel, *given, **varied):
            if varied:
                ((keyword, values),) = varied.items()
                kernel = partial(_by_keyword, kernel, given, keyword)
            else:
                values = given or (True, False)
            said = kernel.__name__ if not (given or varied) else f"{operand} {match}"
            called = name or f"{instruction} {said}"
            error = instruction, operand, match
            RULES.append(Rule(called, kernel, *values, *error, chip, accepted_on, release))
            return kernel

        return register

    return rule


def _by_keyword(kernel, given, keyword, value):
    return kernel(*given, **{keyword: value})


nc_matmul = rules_of("nisa.nc_matmul")
nc_transpose = rules_of("nisa.nc_transpose")
nc_stream_shuffle = rules_of("nisa.nc_stream_shuffle")
dma_copy = rules_of("nisa.dma_copy")
dma_transpose = rules_of("nisa.dma_transpose")
tensor_copy = rules_of("nisa.tensor_copy")
tensor_copy_predicated = rules_of("nisa.tensor_copy_predicated")
memset = rules_of("nisa.memset")
tensor_tensor = rules_of("nisa.tensor_tensor")
tensor_scalar = rules_of("nisa.tensor_scalar")
scalar_tensor_tensor = rules_of("nisa.scalar_tensor_tensor")
reciprocal = rules_of("nisa.reciprocal")
tensor_reduce = rules_of("nisa.tensor_reduce")
tensor_partition_reduce = rules_of("nisa.tensor_partition_reduce")
bn_stats = rules_of("nisa.bn_stats")
bn_aggr = rules_of("nisa.bn_aggr")
max8 = rules_of("nisa.max8")
tensor_tensor_scan = rules_of("nisa.tensor_tensor_scan")
activation = rules_of("nisa.activation")
activation_reduce = rules_of("nisa.activation_reduce")
iota = rules_of("nisa.iota")
affine_select = rules_of("nisa.affine_select")
select_reduce = rules_of("nisa.select_reduce")
range_select = rules_of("nisa.range_select")
register_alloc = rules_of("nisa.register_alloc")
register_move = rules_of("nisa.register_move")
register_load = rules_of("nisa.register_load")
register_store = rules_of("nisa.register_store")
virtual_register = rules_of("VirtualRegister")
ndarray = rules_of("nl.ndarray")
tensor = rules_of("NkiTensor")
fori_loop = rules_of("nl.fori_loop")
while_loop = rules_of("nl.while_loop")
depends_on = rules_of("depends_on")
launch = rules_of("kernel")

s_, ERROR, SKIP = np.s_, nisa.oob_mode.error, nisa.oob_mode.skip
SWDGE, HWDGE, NO_DGE = (nisa.dge_mode[name] for name in ("swdge", "hwdge", "none"))
VECTOR, SCALAR, GPSIMD = (nisa.engine[name] for name in ("vector", "scalar", "gpsimd"))
RESET_REDUCE, LOAD_REDUCE = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.load_reduce


def hidden(value):
    """Holds a value for a loop's body: a list would be refused as Python state that it changes."""
    held = ContextVar("held")
    held.set(value)
    return held


def sb(*shape, dtype=nl.float32, fill=0):
    """A written SBUF tile."""
    tile = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
    nisa.memset(tile, fill)
    return tile


def ps(*shape, dtype=nl.float32):
    """A written PSUM tile."""
    tile = nl.ndarray(shape, dtype=dtype, buffer=nl.psum)
    nisa.memset(tile, 0)
    return tile


def psum(*shape, dtype=nl.float32):
    """An unwritten PSUM tile."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def raw(*shape, dtype=nl.float32, buffer=nl.sbuf):
    """An unwritten tile."""
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def hbm(*shape, dtype=nl.float32):
    """A written HBM tensor."""
    return nl.zeros(shape, dtype=dtype, buffer=nl.private_hbm)


def run(kernel, *args):
    """Simulate ``kernel``."""
    return nki_sim.simulate(kernel)(*args)


# Access patterns of on-chip operands.


@tensor_copy("dst", "at most 4 free dimensions")
def four_free_dimensions(broken):
    shape = (2, 2, 2, 2, 2, 2) if broken else (2, 2, 2, 2, 4)
    nisa.tensor_copy(sb(2, 32).reshape(shape), sb(2, 32))


@tensor_copy("src", "strides are at most 32767")
def stride_is_int16(broken):
    wide = raw(1, 40000)
    stride = 32768 if broken else 32767
    nisa.memset(wide, 0)
    nisa.tensor_copy(raw(1, 2), wide.ap([[40000, 1], [stride, 2]]))


memset("dst", "at most 65535 elements")(
    lambda n: nisa.memset(raw(1, 70000, dtype=nl.uint8)[:, 0:n], 0), 65536, 65535
)
memset("dst", "65 partitions must start at one of (0,)")(
    lambda n: nisa.memset(raw(128, 4)[n : n + 65], 0), 32, 0
)
memset("dst", "33 partitions must start at one of (0, 64)")(
    lambda n: nisa.memset(raw(128, 4)[n : n + 33], 0), 32, 64
)
memset("dst", "8 partitions must start at one of (0, 32, 64, 96)")(
    lambda n: nisa.memset(raw(128, 4)[n : n + 8], 0), 16, 96
)


@reciprocal("dst", "33 partitions must start at one of (0, 64)")
def start_partition_counts_the_placement(broken):
    placed = nl.ndarray((64, 4), nl.float32, nl.sbuf, address=(32 if broken else 64, 0))
    nisa.reciprocal(placed[0:33], sb(33, 4, fill=1))


@tensor_copy("dst", "cannot be written")
def broadcast_views_are_read_only(broken):
    wide, narrow = sb(4, 8), sb(4, 1).broadcast(1, 8)
    nisa.tensor_copy(*((narrow, wide) if broken else (wide, narrow)))


# No document orders the writes of one instruction, so an element written twice is refused.


tensor_copy("dst", "writes an element twice")(
    lambda n: nisa.tensor_copy(raw(4, 16).ap([[16, 4], [n, 3], [1, 3]]), sb(4, 9)), 2, 3
)
memset("dst", "writes an element twice")(
    lambda n: nisa.memset(raw(4, 16).ap([[16, 4], [2, n], [3, 3]]), 0), 4, 3
)
nc_matmul("dst", "writes an element twice")(
    lambda n: _matmul(dst=psum(32, 64).ap([[64, 32], [n, 4], [1, 8]])), 7, 8
)
dma_copy("dst", "writes an element twice")(
    lambda n: nisa.dma_copy(hbm(64).ap([[n, 8], [1, 4]]), sb(8, 4)), 3, 4
)


# trainium_inferentia2_arch.rst, Vector and Scalar Engine: tiles of "up to 64K elements for SBUF or
# 4K elements for PSUM"; the guides of v3 and v4 change nothing.


memset("dst", "at most 65536 elements a partition of SBUF")(
    lambda n: nisa.memset(raw(1, 4, n, dtype=nl.bfloat16), 0), 16385, 16384
)
memset("dst", "at most 4096 elements a partition of PSUM", chip="trn3")(
    lambda n: nisa.memset(psum(1, 8192, dtype=nl.bfloat16)[:, 0:n], 0), 4097, 4096
)


# nki/get-started/about/tiling-overview.rst, constraint 2: "For tiles in PSUM, the F dimension size
# must not exceed psum_bank_fmax == 512"; the guide above has 4K. A tensor may fill all banks.


@tensor_copy("src", "at most the 2048 bytes of a bank", accepted_on="trn3")
def psum_operands_fit_a_bank(broken):
    banks = psum(4, 4096)
    for bank in range(8):
        nisa.memset(banks[:, 512 * bank : 512 * bank + 512], 0)
    count = 513 if broken else 512
    nisa.tensor_copy(raw(4, count), banks[:, 256 : 256 + count])
    nisa.tensor_copy(raw(4, 8, 64), banks.reshape((4, 8, 512))[:, :, 0:64])


@tensor_copy("src", "must be a tensor")
def operands_are_tensors(broken):
    nisa.tensor_copy(raw(4, 4), 1.0 if broken else sb(4, 4))


def _copy(src=sb, **settings):
    nisa.tensor_copy(raw(4, 4), src(4, 4), **settings)


tensor_copy("src", "must be in SBUF or PSUM")(_copy, hbm, sb)
tensor_copy("the number of partitions", "all operands must cover the same number of")(
    lambda n: nisa.tensor_copy(raw(8, 4), sb(n, 4)), 4, 8
)
tensor_copy("the number of elements a partition", "all operands must have the same number of")(
    lambda n: nisa.tensor_copy(raw(4, 6), sb(4, n)), 8, 6
)


# nl.load: "src: HBM tensor to load"; nl.store: "from on-chip memory (SBUF)" to "HBM tensor".


rules_of("nl.store")("dst", "must be in HBM")(lambda make: nl.store(make(4, 4), sb(4, 4)), raw, hbm)
rules_of("nl.store")("value", "must be a tile in SBUF", "stores_begin_in_sbuf")(
    lambda make: nl.store(hbm(4, 4), make(4, 4)), hbm, sb
)
rules_of("nl.load")("src", "must be in HBM")(lambda make: nl.load(make(4, 4)), sb, hbm)


# dma_copy.


def _load(dst=raw, src=hbm, **settings):
    nisa.dma_copy(dst(4, 4), src(4, 4), **settings)


dma_copy("src", "DMA cannot access PSUM", "dma_does_not_read_psum")(_load, hbm, src=(ps, sb))
dma_copy("dst", "DMA cannot access PSUM")(_load, dst=(psum, raw))


@dma_copy("the shape from src to dst", "the same number of elements")
def dma_moves_equal_sizes(broken):
    nisa.dma_copy(raw(4, 4), hbm(4, 5) if broken else hbm(2, 8))


@dma_copy("dst", "cannot be written")
def dma_does_not_write_a_broadcast(broken):
    narrow, wide = hbm(4, 1).broadcast(1, 8), sb(4, 8)
    nisa.dma_copy(*((narrow, wide) if broken else (wide, narrow)))


dma_copy("dge_mode", "must be a member of nki.isa.dge_mode")(_load, dge_mode=(1, SWDGE))
dma_copy("oob_mode", "must be a member of nki.isa.oob_mode")(_load, oob_mode=(0, ERROR))
dma_copy("priority", "needs NeuronCore-v4", accepted_on="trn3")(_load, priority=(1, None))
dma_copy("priority", "0, 1, 2 or 3", chip="trn3")(_load, priority=(4, 3))
dma_copy("dge_mode", "needs NeuronCore-v3", accepted_on="trn2")(_load, dge_mode=(HWDGE, NO_DGE))
dma_copy("dtype", "all operands must have the same dtype", chip="trn2")(
    lambda dtype: _load(partial(raw, dtype=dtype), dge_mode=HWDGE), nl.bfloat16, nl.float32
)


def _gather(first=5, last=1, **settings):
    """Two rows of eight."""
    nisa.dma_copy(raw(2, 4), hbm(8, 4).vector_select(0, index(first, last)), **settings)


def _select_block(number, **settings):
    """One of three blocks of rows, at an address known at run time."""
    nisa.dma_copy(raw(2, 4), hbm(3, 2, 4).select(0, index(number)), **settings)


dma_copy("dge_mode", "the hardware descriptor generator cannot gather", chip="trn2")(
    _gather, dge_mode=(HWDGE, SWDGE)
)
dma_copy("dge_mode", "a dynamic address needs a descriptor generator")(
    _select_block, 2, dge_mode=(NO_DGE, SWDGE)
)
dma_copy("engine", "only valid with dge_mode=nisa.dge_mode.hwdge", chip="trn2")(
    lambda mode: _load(dge_mode=mode, engine=nisa.engine.sync), SWDGE, HWDGE
)
dma_copy("engine", "engine.sync or engine.scalar", chip="trn2")(
    lambda engine: _load(dge_mode=HWDGE, engine=engine), VECTOR, SCALAR
)


@dma_copy("oob_mode", "oob_mode has an effect with a dynamic address only")
def skipping_needs_a_dynamic_address(broken):
    source = hbm(3, 2, 4)
    source = source[1] if broken else source.select(0, index(1))
    nisa.dma_copy(raw(2, 4), source, oob_mode=SKIP)


dma_copy("vector_offset", "out of bounds", "gathered_rows_are_inside")(_gather, last=(8, 7))
dma_copy("vector_offset", "out of bounds", "gathered_rows_outside_are_skipped_on_request")(
    _gather, 0, 8, oob_mode=(ERROR, SKIP)
)
dma_copy("scalar_offset", "out of bounds", "dynamic_address_is_inside")(_select_block, 3, 2)
dma_copy("scalar_offset", "out of bounds", "dynamic_slice_is_inside")(
    lambda n: nisa.dma_copy(raw(4, 4), hbm(8, 4)[nl.ds(nisa.register_alloc(n), 4)]), 5, 4
)


@dma_copy("vector_offset", "one index for each partition")
def one_index_a_partition(broken):
    rows = index(0, 1, 2) if broken else index(0, 1)
    nisa.dma_copy(raw(2, 4), hbm(8, 4).ap([[4, 2], [1, 4]], vector_offset=rows))


# A DMA reads and writes a tensor in an undefined order (nki-dma-overview.rst).


def _move(x, dst, src):
    nisa.dma_copy(x[dst], x[src])


dma_copy("dst", "it overlaps src", "rows_are_not_copied_onto_overlapping_rows")(
    lambda src: _move(hbm(8, 4), s_[1:4], src), s_[0:3], s_[5:8]
)
dma_copy("dst", "it overlaps src, the view [[8, 4], [1, 3]]")(
    lambda dst: _move(hbm(4, 8), dst, s_[:, 0:3]), s_[:, 2:5], s_[:, 3:6]
)
dma_copy("dst", "it overlaps src", "interleaved_copies_are_disjoint")(
    lambda src: _move(hbm(8, 4), s_[0:8:2], src), s_[0:4], s_[1:8:2]
)


@dma_copy("dst", "it overlaps src")
def copies_of_one_signature_are_checked_one_by_one(broken):
    x = hbm(8, 4)
    for row in (6, 4, 1 if broken else 2):
        nisa.dma_copy(x[row : row + 2], x[0:2])


dma_copy("dst", "it overlaps src", "copies_within_a_tile_are_disjoint")(
    lambda dst: _move(sb(64, 16), dst, s_[:, 0:8]), s_[:, 4:12], s_[:, 8:16]
)


@dma_copy("dst", "it overlaps src")
def copies_at_the_address_of_a_loop_are_disjoint(broken):
    x = hbm(8, 4)
    rows = 2 if broken else 1

    def body(i):
        place = x.ap([[4, rows], [1, 4]], offset=4, scalar_offset=i, indirect_dim=0)
        nisa.dma_copy(place, x.ap([[4, rows], [1, 4]], scalar_offset=i, indirect_dim=0))

    nl.fori_loop(0, 3, body)


@dma_copy("dst", "the copy changes nothing")
def copies_have_an_effect(broken):
    x, y = hbm(8, 4), hbm(8, 4)
    nisa.dma_copy(x[2:4], x[2:4] if broken else y[2:4])


@dma_transpose("dst", "it overlaps src")
def transposes_are_not_in_place(broken):
    tile, other = sb(16, 16), sb(16, 16)
    nisa.dma_transpose(tile, tile if broken else other)


@rules_of("nisa.dma_compute")("dst", "it overlaps src")
def sums_by_dma_are_in_place_or_apart(broken):
    x, y = hbm(8, 4), hbm(2, 4)
    nisa.dma_compute(x[1:3], [x[0:2] if broken else x[1:3], y], reduce_op=nl.add)


# dma_transpose.


dma_transpose("axes", "must be (1, 0)")(
    lambda axes: nisa.dma_transpose(raw(4, 8), hbm(8, 4), axes=axes), (0, 1), (1, 0)
)
dma_transpose("axes", "(3, 1, 2, 0)")(
    lambda n: nisa.dma_transpose(raw(*(2,) * n), hbm(*(2,) * n)), 5, 4
)
dma_transpose("dst", "must be in SBUF")(
    lambda make: nisa.dma_transpose(make(4, 8), hbm(8, 4)), hbm, raw
)
dma_transpose("dtype", "all operands must have the same dtype")(
    lambda dtype: nisa.dma_transpose(raw(4, 8, dtype=dtype), hbm(8, 4)), nl.bfloat16, nl.float32
)
dma_transpose("dst", "permuted")(
    lambda shape: nisa.dma_transpose(raw(*shape), hbm(8, 4)), (8, 4), (4, 8)
)


@dma_transpose("dge_mode", "must be unknown or hwdge")
def dma_transpose_modes(broken):
    mode = SWDGE if broken else nisa.dge_mode.unknown
    nisa.dma_transpose(raw(4, 8), hbm(8, 4), dge_mode=mode)


def _hardware_transpose(rows, columns, dtype=nl.bfloat16):
    mode = HWDGE
    nisa.dma_transpose(
        raw(columns, rows, dtype=dtype), hbm(rows, columns, dtype=dtype), None, None, mode
    )


dma_transpose("src", "16 rows", chip="trn2")(lambda n: _hardware_transpose(n, 128), 8, 16)


@dma_transpose("src", "% 16 == 0", chip="trn2")
def hardware_transpose_of_three_dimensions(broken):
    rows = 4 if broken else 8
    dst, src = raw(64, 2, rows, dtype=nl.bfloat16), hbm(rows, 2, 64, dtype=nl.bfloat16)
    nisa.dma_transpose(dst, src, dge_mode=HWDGE)


dma_transpose("src.dtype", "2-byte dtypes", chip="trn2")(
    lambda dtype: _hardware_transpose(16, 64, dtype), nl.float32, nl.float16
)


# Partitions of an operand follow each other (nki/deep-dives/nki-aps.rst, "Restriction on SBUF/PSUM
# Tensors").

STEP = "the step must be 1"


tensor("the index of dimension 0", STEP, "partitions_are_read_without_a_step")(
    lambda rows: nisa.tensor_copy(raw(64, 8), sb(128, 8)[rows]), s_[::2], s_[64:]
)
tensor("the index of dimension 0", STEP, "partitions_are_written_without_a_step")(
    lambda value: nisa.memset(raw(96, 8)[value], 0), slice(0, 96, 3), slice(0, 32)
)


@tensor("the index of dimension 0", STEP)
def partitions_of_psum_have_no_step(broken):
    bank = ps(64, 8)
    nisa.activation(raw(2, 8), nl.copy, bank.slice(0, 0, 64, 32) if broken else bank[32:34])


tensor("the index of dimension 0", STEP, "dma_moves_partitions_without_a_step")(
    lambda rows: nisa.dma_copy(hbm(128, 8)[::2], sb(128, 8)[rows]), s_[::2], s_[0:64]
)
tensor("the index of dimension 0", STEP, "stationary_operands_have_no_step")(
    lambda rows: nisa.nc_matmul(psum(40, 40), sb(128, 40)[rows], sb(64, 40)), s_[0:128:2], s_[0:64]
)
tensor("the index of dimension 0", "its step must be at least 1")(
    lambda n: nisa.tensor_copy(raw(32, 8), sb(32, 8)[::n]), -1, 1
)


# An access to PSUM begins at a multiple of 4 bytes (nl.tile_size.psum_min_align).

ALIGNED = "begins at a multiple of 4 bytes"


@nc_transpose("dst", ALIGNED)
def transposes_begin_at_4_bytes(broken):
    bank = psum(64, 3, 5 if broken else 6, dtype=nl.bfloat16)
    for slot in range(3):
        nisa.nc_transpose(bank[:, slot, 0:5], sb(5, 64, dtype=nl.bfloat16))


@nc_matmul("dst", ALIGNED, chip="trn3")
def products_begin_at_4_bytes(broken):
    bank = psum(64, 65, dtype=nl.bfloat16)
    place = bank[:, 1:65] if broken else bank[:, 0:64]
    nisa.nc_matmul(place, sb(64, 64, dtype=nl.bfloat16), sb(64, 64, dtype=nl.bfloat16))


tensor_copy("src", ALIGNED)(
    lambda at: nisa.tensor_copy(raw(64, 3), ps(64, 8, dtype=nl.bfloat16)[at]),
    s_[:, 1:4],
    s_[:, 2:5],
)
memset("dst", ALIGNED)(
    lambda at: nisa.memset(psum(64, 16, dtype=nl.uint8)[at], 1), s_[:, 6:9], s_[:, 8:11]
)


@tensor_tensor("data2", ALIGNED)
def second_operands_in_psum_begin_at_4_bytes(broken):
    bank = ps(64, 4, dtype=nl.bfloat16)
    column = bank[:, 3:4] if broken else bank[:, 2:3]
    nisa.tensor_tensor(raw(64, 1), sb(64, 1), column, nl.add)


# tensor_copy, memset, tensor_copy_predicated, nc_stream_shuffle.


tensor_copy("engine", "ScalarE of NeuronCore-v2 has no tensor_copy: use", accepted_on="trn2")(
    _copy, engine=(SCALAR, VECTOR)
)
tensor_copy("engine", "GpSimdE cannot access PSUM")(lambda src: _copy(src, engine=GPSIMD), ps, sb)
tensor_copy("engine", "the allowed engines are vector, gpsimd")(
    _copy, engine=(nisa.engine.tensor, GPSIMD)
)
tensor_copy("engine", "must be a member of nki.isa.engine")(_copy, engine=(5, VECTOR))
memset("value", "must be an integer for dtype int32")(
    lambda n: nisa.memset(raw(4, 4, dtype=nl.int32), n), 2.0, 2
)
memset("value", "must be from 0 to 255 for dtype uint8")(
    lambda n: nisa.memset(raw(4, 4, dtype=nl.uint8), n), 256, 255
)
memset("value", "a tile of float8_e4m3fn_x4 can be set to 0 only")(
    lambda n: nisa.memset(raw(4, 4, dtype=nl.float8_e4m3fn_x4), n), 1, 0
)


@memset("value", "compile-time number")
def memset_value_is_a_number(broken):
    nisa.memset(raw(4, 4), sb(4, 1) if broken else 0.5)


memset("engine", "GpSimdE cannot access PSUM")(
    lambda engine: nisa.memset(psum(4, 4), 0, engine=engine), GPSIMD, VECTOR
)
memset("engine", "the allowed engines are vector, gpsimd")(
    lambda engine: nisa.memset(raw(4, 4), 0, engine=engine), SCALAR, GPSIMD
)


def _predicated(src=sb, predicate=sb, dtype=nl.uint8):
    nisa.tensor_copy_predicated(sb(4, 4), src(4, 4), predicate(4, 4, dtype=dtype))


tensor_copy_predicated("predicate.dtype", "uint16, uint32, uint8")(
    _predicated, dtype=(nl.float32, nl.uint32)
)
tensor_copy_predicated("dtype", "all operands must have the same dtype")(
    lambda dtype: _predicated(partial(sb, dtype=dtype)), nl.bfloat16, nl.float32
)
tensor_copy_predicated(
    "the memory of src and predicate", "at most one of them may be in PSUM: copy one to"
)(_predicated, ps, predicate=(ps, sb))
tensor_copy_predicated(
    "the number of elements a partition", "all operands must have the same number of"
)(lambda n: nisa.tensor_copy_predicated(sb(4, 4), 1.0, sb(4, n, dtype=nl.uint8)), 1, 4)


def _shuffle(mask):
    nisa.nc_stream_shuffle(sb(32, 4), sb(32, 4), mask)


nc_stream_shuffle("shuffle_mask", "32 entries")(lambda n: _shuffle(list(range(n))), 31, 32)
nc_stream_shuffle("shuffle_mask", "must have 32 entries from 0 to 31, or 255 to keep")(
    lambda n: _shuffle([0] * 31 + [n]), 32, 255
)
nc_stream_shuffle("dtype", "all operands must have the same dtype")(
    lambda dtype: nisa.nc_stream_shuffle(sb(32, 4, dtype=dtype), sb(32, 4), [0] * 32),
    nl.bfloat16,
    nl.float32,
)
nc_stream_shuffle(
    "the number of elements a partition", "dst and src must have the same number of elements"
)(lambda n: nisa.nc_stream_shuffle(sb(32, 4), sb(32, n), [0] * 32), 5, 4)
nc_stream_shuffle("dst", "64 active partitions must start at one of (0, 64)")(
    lambda n: nisa.nc_stream_shuffle(raw(128, 4)[n : n + 32], sb(64, 4), [0] * 32), 32, 64
)
nc_stream_shuffle("a source partition of shuffle_mask", "src has only 8 partitions")(
    lambda n: nisa.nc_stream_shuffle(raw(32, 4), sb(8, 4), [n] * 32), 8, 7
)
nc_stream_shuffle("a source partition of shuffle_mask", "src has 40 partitions")(
    lambda n: nisa.nc_stream_shuffle(raw(64, 4), sb(40, 4), [n] * 32), 8, 7
)
nc_stream_shuffle("src", "must be in SBUF or PSUM")(
    lambda make: nisa.nc_stream_shuffle(raw(32, 4), make(32, 4), [0] * 32), hbm, sb
)


@nc_stream_shuffle("dst", "cannot be written")
def shuffle_does_not_write_a_broadcast(broken):
    dst = raw(32, 1).broadcast(1, 4) if broken else raw(32, 4)
    nisa.nc_stream_shuffle(dst, sb(32, 4), [0] * 32)


# nc_matmul, nc_transpose.


def _matmul(k=32, m=32, n=32, dst=None, dtype=nl.float32, **settings):
    dst = psum(m, n) if dst is None else dst
    nisa.nc_matmul(dst, sb(k, m, dtype=dtype), sb(k, n, dtype=dtype), **settings)


@nc_matmul("the free size of moving", "at most 512 on trn1", accepted_on="trn3")
def moving_free_size(broken):
    _matmul(n=513 if broken else 512)


nc_matmul("the free size of moving", "at most 4096 on trn3", chip="trn3")(
    lambda n: _matmul(m=1, n=n, dst=psum(1, 4096)), 4097, 4096
)
nc_matmul("the free size of moving", "at most 8192 on trn3", chip="trn3")(
    lambda n: _matmul(m=1, n=n, dst=psum(1, 8192, dtype=nl.bfloat16)), 8193, 8192
)
nc_matmul("the free size of stationary", "at most 128")(
    lambda m: _matmul(m=m, dst=psum(128, 32)), 129, 128
)
nc_matmul("the number of partitions", "both must have the same number of partitions")(
    lambda n: nisa.nc_matmul(psum(8, 8), sb(n, 8), sb(32, 8)), 16, 32
)
nc_matmul("dst", "must be in PSUM")(
    lambda buffer: _matmul(dst=raw(32, 32, buffer=buffer)), nl.sbuf, nl.psum
)
nc_matmul("stationary", "must be in SBUF")(
    lambda make: nisa.nc_matmul(psum(8, 8), make(8, 8), sb(8, 8)), ps, sb
)
nc_matmul("moving", "must be in SBUF")(
    lambda make: nisa.nc_matmul(psum(8, 8), sb(8, 8), make(8, 8)), ps, sb
)
nc_matmul("dst", "must have 32 partitions of 16 elements")(
    lambda n: _matmul(n=16, dst=psum(32, n)), 32, 16
)
nc_matmul("stationary.dtype", "must be one of")(_matmul, dtype=(nl.int32, nl.bfloat16))
nc_matmul("dtype", "float32 and tfloat32 can be multiplied with")(
    lambda dtype: nisa.nc_matmul(psum(8, 8), sb(8, 8), sb(8, 8, dtype=dtype)),
    nl.bfloat16,
    nl.tfloat32,
)
nc_matmul("dst.dtype", "must be one of float32", accepted_on="trn3")(
    lambda dtype: _matmul(dst=psum(32, 32, dtype=dtype)), nl.bfloat16, nl.float32
)
nc_matmul("stationary.dtype", "needs NeuronCore-v4", accepted_on="trn3")(
    _matmul, dtype=(nl.float8_e4m3fn, nl.float8_e4m3)
)


@nc_matmul("dtype", "cannot be mixed", chip="trn3")
def fp8_formats_do_not_mix(broken):
    moving = sb(8, 8, dtype=nl.float8_e4m3fn)
    stationary = sb(8, 8, dtype=nl.float8_e4m3 if broken else nl.float8_e5m2)
    nisa.nc_matmul(psum(8, 8), stationary, moving)


nc_matmul("dst", "one PSUM bank", accepted_on="trn3")(
    lambda n: _matmul(n=512, dst=psum(32, 1024)[:, n : n + 512]), 256, 512
)


@nc_matmul("accumulate", "another instruction than a matmul", accepted_on="trn3")
def accumulation_starts_with_a_matmul(broken):
    dst = psum(32, 32)
    if broken:
        nisa.memset(dst, 0)
    else:
        _matmul(dst=dst, accumulate=False)
    _matmul(dst=dst, accumulate=True)


@nc_matmul("accumulate", "nothing has initialised this PSUM: pass", chip="trn3")
def nothing_accumulates_on_unwritten_psum(broken):
    dst = psum(32, 32)
    if not broken:
        nisa.memset(dst[:, 0:16], 0)
    _matmul(n=16, dst=dst[:, 0:16], accumulate=True)


@nc_matmul("accumulate", "nothing has initialised this PSUM")
def accumulation_needs_every_element(broken):
    dst = psum(32, 32)
    first = dst[:, 0:16] if broken else dst
    _matmul(n=first.shape[1], dst=first, accumulate=False)
    _matmul(dst=dst, accumulate=True)


@nc_matmul("accumulate", "another instruction than a matmul", accepted_on="trn3")
def a_copy_into_psum_ends_the_accumulation(broken):
    dst = psum(32, 32)
    _matmul(dst=dst, accumulate=False)
    nisa.tensor_copy(dst if broken else psum(32, 32), sb(32, 32))
    _matmul(dst=dst, accumulate=True)


@nc_matmul("accumulate", "another instruction wrote", accepted_on="trn3")
def matmul_follows_no_other_instruction(broken):
    dst = ps(32, 32)
    _matmul(dst=dst, accumulate=None if broken else False)
    _matmul(dst=dst)


nc_matmul("(tile_position, tile_size)", "both or neither of them must be set")(
    lambda tile_position: _matmul(tile_size=(64, 128), tile_position=tile_position), (), (0, 0)
)
nc_matmul("(tile_position, tile_size)", "both must be pairs (row, column)")(
    lambda tile_size: _matmul(tile_size=tile_size, tile_position=(0, 0)), (64,), (64, 128)
)
nc_matmul("tile_size[0]", "must be one of (64, 128)", accepted_on="trn2")(
    lambda n: _matmul(tile_size=(n, 128), tile_position=(0, 0)), 32, 64
)


def _row_tile(stationary=64, moving=64, rows=64, position=64):
    """A product of partitions from such ones on, in the lower half of the array."""
    tiles = [sb(128, 32)[first : first + rows] for first in (stationary, moving)]
    settings = {"tile_position": (position, 0), "tile_size": (64, 128)}
    nisa.nc_matmul(psum(32, 32), *tiles, **settings)


nc_matmul("tile_position[0]", "must be a multiple of 64")(_row_tile, 64, 64, 32, position=(32, 64))
nc_matmul("stationary", "must start at partition 64, the row of")(_row_tile, stationary=(0, 64))
nc_matmul("moving", "must start at partition 64, the row of")(_row_tile, moving=(0, 64))
nc_matmul("stationary", "at most 64")(
    lambda k: _matmul(k=k, tile_position=(0, 0), tile_size=(64, 128)), 65, 64
)
nc_matmul("the free size of stationary", "at most 64")(
    lambda m: _matmul(m=m, tile_position=(0, 0), tile_size=(128, 64)), 65, 64
)
nc_matmul("perf_mode", "must be a member of nki.isa.matmul_perf_mode")(
    _matmul, perf_mode=("none", nisa.matmul_perf_mode.none)
)


def _double_row(dtype=nl.float8_e5m2, planes=2, **settings):
    mode = nisa.matmul_perf_mode.double_row
    stationary, moving = sb(32, planes, 16, dtype=dtype), sb(32, planes, 8, dtype=dtype)
    dst = psum(16, 8)
    nisa.nc_matmul(dst, stationary, moving, perf_mode=mode, **settings)


@nc_matmul("perf_mode", "needs NeuronCore-v3", accepted_on="trn2")
def double_row_needs_v3(broken):
    if broken:
        _double_row()


nc_matmul("stationary.dtype", "must be one of float8", chip="trn2")(
    _double_row, nl.bfloat16, nl.float8_e4m3
)
nc_matmul("stationary", "must have a shape (K, 2, ...) with perf_mode", chip="trn2")(
    _double_row, planes=(4, 2)
)
nc_matmul("tile_size", "perf_mode double_row needs all columns of the", chip="trn2")(
    lambda n: _double_row(tile_position=(0, 0), tile_size=(32, n)), 64, 128
)
nc_matmul("is_transpose", "is_transpose cannot be combined with perf_mode", chip="trn2")(
    _double_row, is_transpose=(True, False)
)


def _transpose(dst, moving, dtype=nl.float32, **settings):
    nisa.nc_matmul(dst, sb(32, 32, dtype=dtype), moving, is_transpose=True, **settings)


@nc_matmul("dst.dtype", "must be one of bfloat16", chip="trn2")
def native_transpose_keeps_the_dtype(broken):
    dst = psum(32, 32, dtype=nl.float32 if broken else nl.bfloat16)
    _transpose(dst, nl.shared_identity_matrix(32, nl.bfloat16), nl.bfloat16)


# nki.isa.nc_matmul, "Transpose mode": "using an identity matrix as the moving tile". From v3 the
# array moves data instead of multiplying; v2 multiplies, and any matrix is right there.


@nc_matmul("moving", "is_transpose needs an identity", chip="trn2", accepted_on="trn1")
def native_transpose_takes_an_identity(broken):
    moving = sb(32, 32, fill=1) if broken else nl.shared_identity_matrix(32, nl.float32)
    _transpose(psum(32, 32), moving)


nc_matmul(
    "moving",
    "is_transpose needs an identity",
    "native_transpose_takes_a_square_identity",
    chip="trn3",
    accepted_on="trn1",
)(lambda n: _transpose(psum(32, n), nl.shared_identity_matrix(32, nl.float32)[:, 0:n]), 16, 32)


# nki.isa.nc_matmul: the onezero hints are of tiles "with ones/zeros only" and have "no impact" on
# operands that are not float32.


def _hinted(fills=(1, 1), dtype=nl.float32, **hint):
    operands = [sb(32, 32, dtype=dtype, fill=fill) for fill in fills]
    nisa.nc_matmul(psum(32, 32), *operands, **hint)


nc_matmul("stationary", "is_stationary_onezero claims so, and the chip")(
    lambda fill: _hinted((fill, 0.5), is_stationary_onezero=True), 0.5, 1
)
nc_matmul("moving", "is_moving_onezero claims so, and the chip would")(
    lambda dtype: _hinted((0, 2), dtype, is_moving_onezero=True), nl.float32, nl.bfloat16
)


def _transposed(shape=(8, 16), dtype=nl.bfloat16, data=nl.bfloat16):
    nisa.nc_transpose(psum(*shape, dtype=dtype), sb(16, 8, dtype=data))


nc_transpose("dst", "needs a dst of the dtype of its data")(
    _transposed, dtype=(nl.float32, nl.bfloat16)
)
nc_transpose("dtype", "all operands must have the same dtype")(
    _transposed, dtype=(nl.float16, nl.bfloat16)
)
nc_transpose("dst", "must have 8 partitions of 16 elements")(_transposed, (16, 8), (8, 16))
nc_transpose("data", "VectorE transposes at most 32x32")(
    lambda n: nisa.nc_transpose(raw(n, n), sb(n, n), engine=VECTOR), 33, 32
)
nc_transpose("data", "must be in SBUF")(
    lambda make: nisa.nc_transpose(psum(32, 32), make(32, 32), engine=nisa.engine.tensor), ps, sb
)
nc_transpose("dst", "must be in PSUM")(
    lambda make: nisa.nc_transpose(make(32, 32), sb(32, 32), engine=nisa.engine.tensor), raw, psum
)
nc_transpose("engine", "engine.tensor or engine.vector")(
    lambda engine: nisa.nc_transpose(raw(32, 32), sb(32, 32), engine=engine), SCALAR, VECTOR
)
nc_transpose("dst", "one PSUM bank")(
    lambda n: nisa.nc_transpose(psum(32, 1024)[:, n : n + 128], sb(128, 32)),
    448,
    512,
)


# tensor_tensor, tensor_scalar, scalar_tensor_tensor, reciprocal.


def _pair(op=nl.add, first=sb, second=sb, dtype=nl.float32, engine=nisa.engine.unknown):
    tiles = first(4, 4, dtype=dtype), second(4, 4, dtype=dtype)
    nisa.tensor_tensor(raw(4, 4, dtype=dtype), *tiles, op=op, engine=engine)


tensor_tensor("the memory of data1 and data2", "at most one of them may be in PSUM: copy one to")(
    lambda value: _pair(nl.add, value, ps), ps, sb
)
tensor_tensor("op", "multiply by nl.reciprocal")(_pair, nl.divide, nl.multiply)
tensor_tensor("op", "the hardware has no such instruction: it runs in")(_pair, nl.mod, nl.subtract)
tensor_tensor("op", "must be an operator of nki.language")(lambda value: _pair(value.add), np, nl)
tensor_tensor("op", "must be an operator of two operands", "tensor_tensor_takes_binary_operators")(
    _pair, nl.exp, nl.maximum
)
tensor_tensor("op", "must be an operator of two operands", "average_is_not_elementwise")(
    _pair, nl.average, nl.add
)
tensor_tensor("op", "needs NeuronCore-v4", accepted_on="trn3")(_pair, nl.abs_max, nl.maximum)
tensor_tensor("op", "cannot access PSUM")(_pair, nl.power, first=(ps, sb))
tensor_tensor("engine", "nl.power runs on GpSimdE")(_pair, nl.power, engine=(VECTOR, GPSIMD))
tensor_tensor("engine", "GpSimdE cannot access PSUM")(
    lambda first: _pair(first=first, engine=GPSIMD), ps, sb
)
tensor_tensor("engine", "the allowed engines are vector, gpsimd")(_pair, engine=(SCALAR, VECTOR))
tensor_tensor("dst.dtype", "bitvec operators need integer dtypes", "bitvec_works_on_integers")(
    _pair, nl.bitwise_xor, dtype=(nl.float32, nl.int32)
)


def _scalar(op0, operand0, dtype=nl.float32, data=sb, **settings):
    nisa.tensor_scalar(raw(4, 4, dtype=dtype), data(4, 4, dtype=dtype), op0, operand0, **settings)


tensor_scalar("operand1", "must be None where op1 is None")(
    lambda op1: _scalar(nl.add, 1.0, op1=op1, operand1=2.0), None, nl.multiply
)
tensor_scalar("(op0, op1)", "both must be bitvec operators, or both arithmetic")(
    lambda op1: _scalar(nl.bitwise_and, 1, nl.int32, op1=op1, operand1=2), nl.add, nl.bitwise_or
)
tensor_scalar("dst.dtype", "bitvec operators need integer dtypes")(
    lambda dtype: _scalar(nl.left_shift, 1, dtype), nl.float32, nl.uint16
)
tensor_scalar("operand0", "must be an int for nl.left_shift")(
    lambda n: _scalar(nl.left_shift, n, nl.int32), 1.0, 1
)


# nki.api.shared.rst names the shifts and nl.left_shift points to NumPy; neither says what a shift
# by all bits or more, or by less than none, gives.


tensor_scalar("operand0", "shifted by 0 to 31")(
    lambda n: _scalar(nl.right_shift, n, nl.int32), 32, 31
)


@tensor_scalar("operand1", "shifted by 0 to 7")
def shifts_are_not_negative(broken):
    second = -1 if broken else 0
    _scalar(nl.bitwise_and, 255, nl.uint8, op1=nl.left_shift, operand1=second)


tensor_scalar("operand", "shifted by 0 to 15")(
    lambda fill: _scalar(nl.left_shift, sb(4, 1, dtype=nl.int16, fill=fill), nl.int16), -1, 15
)


@tensor_scalar("data", "shifted by 0 to 31")
def reversed_shifts_are_shorter_than_the_element(broken):
    data = sb(4, 4, dtype=nl.int32, fill=40 if broken else 3)
    nisa.tensor_scalar(raw(4, 4, dtype=nl.int32), data, nl.left_shift, 40, reverse0=True)


@tensor_tensor("data2", "shifted by 0 to 31")
def tiles_of_shifts_are_shorter_than_the_element(broken):
    shifts = sb(4, 4, dtype=nl.int32, fill=40 if broken else 31)
    data = sb(4, 4, dtype=nl.int32, fill=40)
    nisa.tensor_tensor(raw(4, 4, dtype=nl.int32), data, shifts, nl.left_shift)


tensor_scalar("operand0.dtype", "bitvec operators need integer dtypes")(
    lambda dtype: _scalar(nl.bitwise_and, sb(4, 1, dtype=dtype), nl.int32), nl.float32, nl.int32
)
tensor_scalar("engine", "bitvec operators run on VectorE")(
    _scalar, nl.bitwise_and, 1, nl.int32, engine=(SCALAR, VECTOR)
)
tensor_scalar("operand0.dtype", "must be one of float32")(
    lambda dtype: _scalar(nl.add, sb(4, 1, dtype=dtype)), nl.bfloat16, nl.float32
)
tensor_scalar("operand1.dtype", "must be one of float32")(
    lambda dtype: _scalar(nl.add, 1.0, op1=nl.multiply, operand1=sb(4, 1, dtype=dtype)),
    nl.int32,
    nl.float32,
)
tensor_scalar("operand0", "must have 1 element a partition")(
    lambda n: _scalar(nl.add, sb(4, n)), 2, 1
)
tensor_scalar("the number of partitions", "all operands must cover the same number of")(
    lambda n: _scalar(nl.add, sb(n, 1)), 2, 4
)
tensor_scalar("operand0", "must be a number")(lambda n: _scalar(nl.add, n), "1", 1)
tensor_scalar("operand0", "must be None or 0, as nl.abs has one operand")(
    lambda n: _scalar(nl.abs, n), 1.0, 0
)
tensor_scalar("op0", "needs NeuronCore-v4", accepted_on="trn3")(
    lambda op: _scalar(op, None), nl.square, nl.abs
)
tensor_scalar("op0", "must be an operator of one or two operands")(
    lambda op: _scalar(op, 0.0), nl.tanh, nl.maximum
)
tensor_scalar("engine", "GpSimdE runs tensor_scalar with nl.rsqrt only")(
    lambda op: _scalar(op, 0.0, engine=GPSIMD), nl.add, nl.rsqrt
)
tensor_scalar("engine", "GpSimdE cannot access PSUM", "rsqrt_stays_out_of_psum")(
    _scalar, nl.rsqrt, 0.0, data=(ps, sb)
)
tensor_scalar("engine", "nl.rsqrt runs on GpSimdE")(
    _scalar, nl.rsqrt, 0.0, engine=(VECTOR, nisa.engine.unknown)
)
tensor_scalar("engine", "no tensor_scalar on NeuronCore-v2", accepted_on="trn2")(
    lambda engine: _scalar(nl.multiply, 2.0, op1=nl.add, operand1=1.0, engine=engine),
    SCALAR,
    VECTOR,
)
tensor_scalar(
    "engine", "ScalarE computes nl.multiply then nl.add,", chip="trn2", accepted_on="trn3"
)(lambda op: _scalar(op, 2.0, engine=SCALAR), nl.subtract, nl.add)


def _three(op0=nl.multiply, op1=nl.add, data=sb, operand1=sb, operand0=2.0, n=4):
    nisa.scalar_tensor_tensor(raw(4, 4), data(4, 4), op0, operand0, op1, operand1(4, n))


scalar_tensor_tensor("op1", "must be an arithmetic operator, not a bitvec")(
    _three, op1=(nl.bitwise_or, nl.maximum)
)
scalar_tensor_tensor(
    "the memory of data and operand1", "at most one of them may be in PSUM: copy one to"
)(lambda operand1: _three(data=ps, operand1=operand1), ps, sb)
scalar_tensor_tensor(
    "the number of elements a partition", "all operands must have the same number of"
)(_three, n=(8, 4))
scalar_tensor_tensor("operand0", "must have 1 element a partition")(
    lambda n: _three(operand0=sb(4, n)), 4, 1
)
scalar_tensor_tensor("op0", "must be an operator of two operands")(
    _three, op0=(nl.abs, nl.subtract)
)
reciprocal("the number of elements a partition", "all operands must have the same number of")(
    lambda n: nisa.reciprocal(raw(4, 8), sb(4, n, fill=1)), 4, 8
)


# Reductions and statistics.


tensor_reduce("axis", "to reduce across the partitions, axis 0", "partitions_are_not_reduced")(
    lambda axis: nisa.tensor_reduce(raw(4, 1), nl.add, sb(4, 8), axis=axis), (0, 1), 1
)
tensor_reduce("axis", "must be the last ones of the axes 1 to 2: ", "last_axes_are_reduced")(
    lambda axis: nisa.tensor_reduce(raw(4, 2), nl.add, sb(4, 2, 2), axis=axis), 1, 2
)
tensor_reduce("axis", "must be the last ones of the axes 1 to 2: ", "reduced_axes_exist")(
    lambda axis: nisa.tensor_reduce(raw(4, 2), nl.add, sb(4, 2, 2), axis=axis), 5, -1
)
tensor_reduce("op", "must be an operator that can reduce")(
    lambda op: nisa.tensor_reduce(raw(4, 1), op, sb(4, 8), axis=1), nl.equal, nl.multiply
)
tensor_reduce("op", "only nisa.tensor_partition_reduce can average")(
    lambda op: nisa.tensor_reduce(raw(4, 1), op, sb(4, 8), axis=1), nl.average, nl.add
)
tensor_reduce("dst", "must have 2 elements a partition")(
    lambda n: nisa.tensor_reduce(raw(4, n), nl.add, sb(4, 2, 3), axis=-1), 4, 2
)


@tensor_reduce("negate", "a bitvec operator cannot negate its result")
def bitvec_reduction_is_not_negated(broken):
    tile = sb(4, 8, dtype=nl.int32)
    nisa.tensor_reduce(raw(4, 1, dtype=nl.int32), nl.bitwise_or, tile, 1, negate=broken)


@tensor_reduce("data.dtype", "bitvec operators need integer dtypes")
def bitvec_reduction_works_on_integers(broken):
    tile = sb(4, 8, dtype=nl.float32 if broken else nl.int32)
    nisa.tensor_reduce(raw(4, 1, dtype=nl.int32), nl.bitwise_or, tile, 1)


tensor_partition_reduce("op", "must be nl.add, nl.average, nl.maximum,")(
    lambda op: nisa.tensor_partition_reduce(raw(1, 4), op, sb(8, 4)), nl.multiply, nl.average
)
tensor_partition_reduce("dst", "must have 1 partition")(
    lambda n: nisa.tensor_partition_reduce(raw(n, 4), nl.add, sb(8, 4)), 2, 1
)
tensor_partition_reduce("data", "must be in SBUF")(
    lambda make: nisa.tensor_partition_reduce(raw(1, 4), nl.add, make(8, 4)), ps, sb
)
tensor_partition_reduce("dst", "must have 4 elements a partition")(
    lambda n: nisa.tensor_partition_reduce(raw(1, n), nl.add, sb(8, 4)), 8, 4
)
bn_stats("data", "at most 512")(lambda n: nisa.bn_stats(raw(4, 6), sb(4, n)), 513, 512)
bn_stats("dst", "must have 6 elements a partition")(
    lambda n: nisa.bn_stats(raw(4, n), sb(4, 32)), 3, 6
)
bn_aggr("data", "a multiple of 3")(lambda n: nisa.bn_aggr(raw(4, 2), sb(4, n, fill=1)), 8, 6)
bn_aggr("dst", "must have 2 elements a partition")(
    lambda n: nisa.bn_aggr(raw(4, n), sb(4, 6, fill=1)), 6, 2
)
max8("src", "8 to 16384", "max8_needs_eight")(lambda n: nisa.max8(raw(4, 8), sb(4, n)), 7, 8)
max8("src", "8 to 16384", "max8_takes_16384")(
    lambda n: nisa.max8(raw(1, 8), sb(1, n)), 16385, 16384
)
max8("src", "at most 3")(lambda shape: nisa.max8(raw(4, 8), sb(*shape)), (4, 2, 2, 4), (4, 4, 4))
max8("dst", "must have the shape (partitions, 8)")(
    lambda shape: nisa.max8(raw(*shape), sb(4, 16)), (4, 2, 4), (4, 8)
)


def _scan(op0=nl.multiply, op1=nl.add, data0=sb, data1=sb, initial=0.0, n=4):
    nisa.tensor_tensor_scan(raw(4, 4), data0(4, n), data1(4, 4), initial, op0, op1)


tensor_tensor_scan("op0", "must be an arithmetic operator")(_scan, op0=(nl.bitwise_and, nl.maximum))
tensor_tensor_scan(
    "the memory of data0 and data1", "at most one of them may be in PSUM: copy one to"
)(lambda data1: _scan(data0=ps, data1=data1), ps, sb)
tensor_tensor_scan("initial", "must have 1 element a partition")(
    lambda n: _scan(initial=sb(4, n)), 2, 1
)
tensor_tensor_scan(
    "the number of elements a partition", "all operands must have the same number of"
)(_scan, n=(8, 4))


# activation, activation_reduce.


def _activate(op=nl.exp, fill=1.0, **settings):
    nisa.activation(raw(4, 4), op, sb(4, 4, fill=fill), **settings)


activation("op", "must be an activation function")(_activate, nl.maximum, nl.tanh)
activation("an element of data", "is valid for")(
    lambda n: _activate(nl.log, fill=2.0 ** (-n)), 65, 64
)
activation("scale.dtype", "must be one of float32")(
    lambda dtype: _activate(scale=sb(4, 1, dtype=dtype)), nl.bfloat16, nl.float32
)
activation("scale", "must have 1 element a partition")(lambda n: _activate(scale=sb(4, n)), 4, 1)


@activation("bias", "needs NeuronCore-v3", accepted_on="trn2")
def bias_is_a_vector_on_v2(broken):
    _activate(bias=1.0 if broken else sb(4, 1))


@activation("bias", "needs NeuronCore-v3", accepted_on="trn2")
def reciprocal_has_no_bias_on_v2(broken):
    _activate(nl.reciprocal, bias=sb(4, 1) if broken else None)


activation("bias.dtype", "must be another dtype than tfloat32")(
    lambda dtype: _activate(bias=sb(4, 1, dtype=dtype)), nl.tfloat32, nl.bfloat16
)


@activation("reduce_op", "must be nl.add")
def activation_sums(broken):
    op = nl.maximum if broken else nl.add
    _activate(reduce_op=op, reduce_res=raw(4, 1), reduce_cmd=RESET_REDUCE)


activation("reduce_op", "must be nl.add with reduce_cmd.reset_reduce")(
    lambda reduce_op: _activate(reduce_op=reduce_op, reduce_cmd=RESET_REDUCE), None, nl.add
)
activation("reduce_cmd", "activation does not support it")(
    lambda reduce_cmd: _activate(reduce_op=nl.add, reduce_cmd=reduce_cmd), LOAD_REDUCE, RESET_REDUCE
)
activation("reduce_cmd", "must be a member of nki.isa.reduce_cmd")(
    lambda reduce_cmd: _activate(reduce_op=nl.add, reduce_cmd=reduce_cmd), 3, RESET_REDUCE
)
activation_reduce("reduce_res", "must have 1 element a partition")(
    lambda n: nisa.activation_reduce(raw(4, 4), nl.exp, sb(4, 4), nl.add, raw(4, n)), 4, 1
)
activation_reduce("reduce_op", "must be nl.add")(
    lambda op: nisa.activation_reduce(raw(4, 4), nl.exp, sb(4, 4), op, raw(4, 1)),
    nl.minimum,
    nl.add,
)


# iota, affine_select, select_reduce, range_select.


iota("dst", "must be in SBUF")(
    lambda buffer: nisa.iota(raw(4, 8, buffer=buffer), [[1, 8]]), nl.psum, nl.sbuf
)
iota("pattern", "1 to 4 pairs")(
    lambda value: nisa.iota(raw(4, 32), value), [[1, 2]] * 5, [[1, 2]] * 3 + [[1, 4]]
)
iota("pattern", "dst has 8 elements a partition")(
    lambda shape: nisa.iota(raw(4, 8), shape), [[1, 4]], [[4, 2], [1, 4]]
)
iota("offset", "must be an int32")(
    lambda n: nisa.iota(raw(4, 8), [[1, 8]], offset=(1 << 31) - n), 0, 1
)


@iota("channel_multiplier", "must be an int32")
def iota_counts_whole_steps(broken):
    nisa.iota(raw(4, 8), [[1, 8]], channel_multiplier=0.5 if broken else 1)


def _affine(on_true=sb, cmp_op=nl.greater_equal, on_false=0.0, n=8):
    nisa.affine_select(raw(4, 8), [[1, n]], -1, on_true(4, 8), on_false, cmp_op)


affine_select("on_true_tile", "must be in SBUF")(_affine, on_true=(ps, sb))
affine_select("cmp_op", "must be a comparison")(_affine, cmp_op=(nl.add, nl.equal))


@affine_select("on_false_value", "must be a float32 number")
def affine_select_fills_with_a_number(broken):
    _affine(on_false=sb(4, 1) if broken else -1.0)


affine_select("pattern", "dst has 8 elements a partition")(_affine, n=(4, 8))


def _select(predicate=None, on_true=None, **settings):
    predicate = sb(4, 8, dtype=nl.uint8) if predicate is None else predicate
    on_true = sb(4, 8) if on_true is None else on_true
    nisa.select_reduce(raw(4, 8), predicate, on_true, 0.0, **settings)


select_reduce("predicate.dtype", "int16, int8, uint16, uint8")(
    lambda dtype: _select(predicate=sb(4, 8, dtype=dtype)), nl.int32, nl.int16
)
select_reduce("on_true.dtype", "must not be tfloat32, int32 or uint32")(
    lambda dtype: _select(on_true=sb(4, 8, dtype=dtype)), nl.int32, nl.int16
)
select_reduce(
    "the memory of predicate and on_true", "at most one of them may be in PSUM: copy one to"
)(lambda make: _select(predicate=make(4, 8, dtype=nl.uint8), on_true=ps(4, 8)), ps, sb)
select_reduce("reduce_op", "must be nl.maximum")(_select, reduce_op=(nl.add, nl.maximum))
select_reduce("reduce_res", "must have 1 element a partition")(
    lambda n: _select(reduce_res=raw(4, n), reduce_cmd=RESET_REDUCE), 8, 1
)


@select_reduce("reduce_res.dtype", "must be one of")
def select_result_dtype(broken):
    dtype = nl.int32 if broken else nl.bfloat16
    cmd = RESET_REDUCE
    _select(reduce_res=raw(4, 1, dtype=dtype), reduce_cmd=cmd)


select_reduce("reduce_cmd", "this instruction does not support it")(
    _select, reduce_cmd=(LOAD_REDUCE, RESET_REDUCE)
)


def _range(on_true=nl.float32, bound=nl.float32, comp_op1=nl.less, width=1, **settings):
    bounds = sb(4, width, dtype=bound), sb(4, width, dtype=bound)
    tile = sb(4, 8, dtype=on_true)
    nisa.range_select(raw(4, 8), tile, nl.greater_equal, comp_op1, *bounds, **settings)


@range_select("instruction", "needs NeuronCore-v3", accepted_on="trn2")
def range_select_needs_v3(broken):
    if broken:
        _range()


range_select("on_true_tile.dtype", "must be one of", chip="trn2")(
    _range, on_true=(nl.int32, nl.bfloat16)
)
range_select("bound0.dtype", "must be one of float32", chip="trn2")(
    _range, bound=(nl.bfloat16, nl.float32)
)
range_select("bound0", "must have 1 element a partition", chip="trn2")(_range, width=(2, 1))
range_select("comp_op", "must be nl.equal, nl.less, nl.less_equal,", chip="trn2")(
    _range, comp_op1=(nl.not_equal, nl.equal)
)
range_select("comp_op1", "must be a comparison", chip="trn2")(
    _range, comp_op1=(nl.add, nl.less_equal)
)
range_select("on_false_value", "FP32_MIN", chip="trn2")(
    _range, on_false_value=(0.0, float(np.finfo(np.float32).min))
)
range_select("range_start", "below 2^24", chip="trn2")(
    lambda n: _range(range_start=(1 << 24) - n), 7, 8
)


# Registers.


register_alloc("x", "must be an int or None")(lambda n: nisa.register_alloc(n), 1.0, 1)


# nki.isa.register_alloc: "64x 32-bit registers per engine sequencer in NeuronCore v2-v4".


@register_alloc("x", "a register holds 32 bits")
def registers_have_32_bits(broken):
    for value in (-(2**31), 2**40 if broken else 2**32 - 1):
        nisa.register_alloc(value)


register_move("src", "a register holds 32 bits")(
    lambda n: nisa.register_move(nisa.register_alloc(), n), -(2**31) - 1, -(2**31)
)
fori_loop("a bound", "a register holds 32 bits")(
    lambda value: nl.fori_loop(value - 1, value, lambda i: None), 2**40, 2**31 - 1
)
register_store("src", "must be from -128 to 127 for a dst of int8")(
    lambda n: nisa.register_store(raw(1, 1, dtype=nl.int8), nisa.register_alloc(n)), 128, -128
)


@register_move("src", "must be an int or a VirtualRegister")
def registers_move_integers(broken):
    nisa.register_move(nisa.register_alloc(), sb(1, 1) if broken else nisa.register_alloc(3))


@register_move("dst", "must be a VirtualRegister")
def moves_end_in_registers(broken):
    nisa.register_move(0 if broken else nisa.register_alloc(), 3)


register_load("src", "a tensor with one element")(
    lambda n: nisa.register_load(nisa.register_alloc(), sb(1, n, dtype=nl.int32)), 2, 1
)
register_load("src", "must be in HBM or SBUF")(
    lambda make: nisa.register_load(nisa.register_alloc(), make(1, 1, dtype=nl.int32)), ps, sb
)


@register_store("dst", "a tensor with one element")
def registers_store_one_element(broken):
    dst = raw(1, 2, dtype=nl.int32) if broken else raw(1, dtype=nl.int32)
    nisa.register_store(dst, nisa.register_alloc(1))


virtual_register("its value", "an instruction reads it: write the register")(
    lambda n: nisa.register_store(raw(1, 1, dtype=nl.int32), nisa.register_alloc(n)), None, 1
)


@virtual_register("the loop variable", "read-only", release="0.6")
def the_variable_of_dynamic_range_is_read_only(broken):
    other = nisa.register_alloc()
    with pytest.warns(DeprecationWarning, match="fori_loop"):
        for i in nl.dynamic_range(1):
            nisa.register_move(i if broken else other, 0)


# Allocation.


ndarray("shape[0]", "at most 128 partitions")(lambda n: raw(n, 4), 129, 128)
ndarray("the tile's size", "SBUF of trn1 holds 196608 bytes a partition:", accepted_on="trn2")(
    lambda n: raw(1, (192 << 10) + n, dtype=nl.uint8), 4, 0
)
ndarray(
    "the tile's size",
    "SBUF of trn2 holds 229376 bytes a partition:",
    chip="trn2",
    accepted_on="trn3",
)(lambda n: raw(1, (224 << 10) + n, dtype=nl.uint8), 4, 0)
ndarray("the tile's size", "PSUM of trn1 holds 16384 bytes a partition:")(
    lambda n: psum(1, n), 4097, 4096
)
ndarray("shape", "at least 2 dimensions")(
    lambda shape: nl.ndarray(shape, nl.float32, buffer=nl.sbuf), (8,), (8, 1)
)
ndarray("shape", "positive sizes")(lambda n: raw(8, n), 0, 1)
ndarray("buffer", "nl.sbuf, nl.psum")(raw, 8, 8, buffer=("sbuf", nl.sbuf))
ndarray("address", "the tile ends outside of SBUF, which has 128", "placements_fit_the_partition")(
    lambda n: nl.ndarray((4, 256), nl.float32, nl.sbuf, address=(0, (192 << 10) - n)), 512, 1024
)
ndarray("address", "the tile ends outside of SBUF, which has 128", "placements_fit_the_partitions")(
    lambda n: nl.ndarray((64, 4), nl.float32, nl.sbuf, address=(n, 0)), 96, 64
)
ndarray("address", "must be a pair (partition, byte) in SBUF or PSUM,")(
    lambda buffer: nl.ndarray((4, 4), nl.float32, buffer, address=(0, 0)), nl.hbm, nl.sbuf
)
ndarray("address", "must be the start of a PSUM bank: its byte a")(
    lambda n: nl.ndarray((4, 4), nl.float32, nl.psum, address=(0, n)), 1024, 2048
)


def _placed(first, second, together, buffer=nl.sbuf):
    """Two placed tiles, alive together or one after the other."""
    a = nl.ndarray((4, 256), nl.float32, buffer, address=(0, first))
    nisa.memset(a, 0)
    if not together:
        nisa.tensor_copy(raw(4, 256), a)
    b = nl.ndarray((4, 256), nl.float32, buffer, address=(0, second))
    nisa.memset(b, 0)
    nisa.tensor_copy(raw(4, 256), a if together else b)


ndarray("address", "which is live at the same time", "placed_tiles_do_not_overlap")(
    lambda n: _placed(0, n, together=True), 1020, 1024
)
ndarray("address", "which is live at the same time", "placed_tiles_follow_each_other")(
    _placed, 0, 512, together=(True, False)
)
ndarray("address", "which is live at the same time", "placed_psum_tiles_do_not_overlap")(
    lambda n: _placed(2048, n, together=True, buffer=nl.psum), 2048, 4096
)


# Views.


tensor("the index of dimension 1", "out of bounds", "an_index_is_inside")(
    lambda n: raw(4, 8)[:, n], 8, -8
)
tensor("the index of dimension 1", "out of bounds", "a_slice_is_inside")(
    lambda n: raw(4, 8)[:, 0:n], 9, 8
)
tensor("the index of dimension 1", "empty")(lambda n: raw(4, 8)[:, 4:n], 4, 5)
tensor("the index of dimension 1", "its step must be at least 1")(
    lambda n: raw(4, 8)[:, 0:8:n], -1, 2
)
tensor("the index of dimension 1", "must be an int, a slice, an Ellipsis or")(
    lambda n: raw(4, 8)[:, n], 1.0, 1
)
tensor("the index of dimension 1", "out of bounds", "a_static_ds_is_inside")(
    lambda n: raw(4, 8)[:, nl.ds(4, n)], 5, 4
)
tensor("the index", "it has more entries than the shape (4, 8)")(
    lambda shape: raw(4, 8)[shape], (0, 0, 0), (0, 0)
)
tensor("the index", "at most one Ellipsis")(
    lambda shape: raw(4, 8, 2)[shape], (..., 0, ...), (..., 0)
)
tensor("(start, end, step) of slice(dim=1)", "0 <= start < end <= 8")(
    lambda n: raw(4, 8).slice(1, 0, n), 9, 8
)
tensor("the index of dimension 1", "out of bounds", "select_takes_no_negative_index")(
    lambda n: raw(4, 8).select(1, n), -1, 0
)
tensor("the index of select(dim=0)", "select cannot remove the partition dimension:")(
    lambda n: raw(4, 8, 2).select(n, 0), 0, 1
)
tensor("the index of select(dim=0)", "the partition dimension needs an index known at")(
    lambda n: sb(4, 8, 2).select(n, index(0)), 0, 1
)


@tensor("the index of select", "a tensor can have only one dynamic index")
def one_dynamic_select(broken):
    view = hbm(4, 4, 8).select(0, index(0))
    view.select(0, index(0) if broken else 0)


@tensor("the dynamic index", "must be in SBUF")
def dynamic_indices_lie_in_sbuf(broken):
    hbm(4, 8).select(0, hbm(1, 1, dtype=nl.int32) if broken else index(0))


@tensor("the dynamic index", "must have one element")
def a_scalar_index_is_one_number(broken):
    hbm(4, 8).select(0, index(0, 1) if broken else index(0))


tensor("dim of vector_select", "must be 0")(lambda n: hbm(4, 8).vector_select(n, index(0, 1)), 1, 0)
tensor("the tensor's memory", "vector_select needs a tensor in HBM")(
    lambda make: make(4, 8).vector_select(0, index(0, 1)), sb, hbm
)


@tensor("the tensor of vector_select", "a tensor can have only one dynamic index")
def vector_select_comes_once(broken):
    view = hbm(4, 8, 2)
    view = view.select(0, index(1)) if broken else view[1]
    view.vector_select(0, index(0, 1))


@tensor("the index of dimension 0", "cannot be indexed again")
def gathered_rows_are_not_indexed(broken):
    view = hbm(4, 8).vector_select(0, index(0, 1))
    view[0:1] if broken else view[:, 0:1]


tensor("dims of permute", "dims[0] must be 0", "gathered_rows_stay_first")(
    lambda dims: hbm(4, 8, 2).vector_select(0, index(0, 1)).permute(dims), (1, 0, 2), (0, 2, 1)
)
tensor(
    "dim of flatten_dims",
    "dimension 0 is the partition dimension, which",
    "gathered_rows_are_not_flattened",
)(lambda n: hbm(4, 8, 2).vector_select(0, index(0, 1)).flatten_dims(n, 2), 0, 1)
tensor("the result of ap", "vector_offset needs a tensor in HBM and")(
    lambda make: make(4, 8).ap([[8, 2], [1, 8]], vector_offset=index(0, 1)), sb, hbm
)


def _pattern(**settings):
    hbm(4, 8).ap([[8, 2], [1, 8]], **settings)


tensor("the result of ap", "indirect_dim=0")(
    lambda dim: _pattern(vector_offset=index(0, 1), indirect_dim=dim), 1, 0
)
tensor("indirect_dim of ap", "the shape (4, 8) has no such dimension")(
    lambda dim: _pattern(scalar_offset=index(0), indirect_dim=dim), 2, 1
)


@tensor("the dynamic index of ap", "ap accepts at most one of scalar_offset and")
def one_kind_of_offset(broken):
    scalar = index(0) if broken else None
    hbm(4, 8).ap([[8, 2], [1, 8]], scalar_offset=scalar, vector_offset=index(0, 1))


tensor("pattern of ap", "it reaches outside of sbuf tile 4x8", "a_pattern_stays_inside")(
    lambda n: raw(4, 8).ap([[8, 4], [2, n]]), 5, 4
)
tensor("pattern of ap", "it reaches outside of sbuf tile 4x8", "a_pattern_stays_on_its_partitions")(
    lambda offset: raw(4, 8).ap([[8, 4], [1, 8]], offset=offset), 8, 0
)
tensor("pattern of ap", "it reaches outside of private_hbm tile")(
    lambda offset: hbm(4, 8).ap([[8, 4], [1, 8]], offset=offset), 1, 0
)
tensor("pattern of ap", "the partition stride must be the storage's free size 8")(
    lambda n: raw(4, 8).ap([[n, 2], [1, 8]]), 16, 8
)
tensor("pattern of ap", "must have counts of at least 1 and strides of at")(
    lambda n: raw(4, 8).ap([[8, 4], [n, 8]]), -1, 0
)
tensor("dims of permute", "dims[0] must be 0", "the_partition_dimension_stays_first")(
    lambda dims: raw(4, 8, 2).permute(dims), (1, 0, 2), (0, 2, 1)
)
tensor("dims of permute", "must be a permutation")(lambda n: hbm(4, 8, 2).permute((1, 0, n)), 1, 2)
tensor("dim of broadcast", "dimension 0 is the partition dimension, which")(
    lambda n: raw(1, 1).broadcast(n, 4), 0, 1
)
tensor("the size of dimension 1", "broadcast needs a dimension of size 1")(
    lambda n: raw(4, n).broadcast(1, 4), 2, 1
)
tensor("dim of expand_dim", "must not be 0")(lambda n: raw(4, 8).expand_dim(n), 0, 1)
tensor("dim of squeeze_dim", "dimension 0 is the partition dimension, which")(
    lambda n: raw(1, 1, 8).squeeze_dim(n), 0, 1
)
tensor("the size of dimension 1", "squeeze_dim needs a dimension of size 1")(
    lambda n: raw(4, n, 8).squeeze_dim(1), 2, 1
)
tensor("shape of reshape_dim(dim=0)", "cannot be split")(
    lambda shape: raw(4, 8).reshape_dim(0, shape), (2, 2), (4,)
)
tensor("shape of reshape_dim(dim=1)", "the number of elements must stay 8")(
    lambda n: raw(4, 8).reshape_dim(1, (n, -1)), 3, 2
)
tensor(
    "dim of flatten_dims",
    "dimension 0 is the partition dimension, which",
    "partitions_are_not_flattened",
)(lambda n: raw(4, 8, 2).flatten_dims(n, 2), 0, 1)


@tensor("(start_dim, end_dim) of flatten_dims", "these dimensions do not follow each other in")
def only_contiguous_dimensions_are_flattened(broken):
    view = raw(4, 8, 2)
    (view.permute((0, 2, 1)) if broken else view).flatten_dims(1, 2)


tensor("shape of reshape", "partition dimension must stay 4")(
    lambda shape: raw(4, 8).reshape(shape), (8, 4), (4, 4, 2)
)
tensor("shape of reshape", "the number of elements must stay 32")(
    lambda shape: raw(4, 8).reshape(shape), (4, 9), (4, 8, 1)
)


@tensor("shape of reshape", "does not allow this shape without a copy")
def reshape_does_not_copy(broken):
    view = raw(4, 4, 4)
    (view.permute((0, 2, 1)) if broken else view).reshape((4, 16))


tensor("dst_pattern of rearrange", "must name each of the dimensions ['p', 'a', 'b']")(
    lambda value: raw(4, 8).rearrange(("p", ("a", "b")), ("p", "b", value), {"a": 2}), "c", "a"
)
tensor("dtype of view", "must be contiguous")(
    lambda value: raw(4, 8)[:, value].view(nl.int16), slice(0, 8, 2), slice(0, 4)
)
tensor("dtype of view", "does not hold whole elements of")(
    lambda n: raw(4, n, dtype=nl.uint8).view(nl.int32), 7, 8
)


@tensor("dtype of view", "an indirect view cannot be reinterpreted")
def indirect_views_are_not_reinterpreted(broken):
    view = hbm(4, 8)
    (view.vector_select(0, index(0, 1)) if broken else view).view(nl.int32)


tensor("dtype of view", "are not whole numbers of elements")(
    lambda n: raw(4, 2, n, dtype=nl.uint8)[:, :, 0:4].view(nl.int32), 6, 8
)
tensor("dim", "the shape (4, 1, 8) has no such dimension")(
    lambda n: raw(4, 1, 8).squeeze_dim(n), 3, -2
)
tensor("dim of expand_dim", "must be from 0 to 2")(lambda n: raw(4, 8).expand_dim(n), 3, 2)
tensor("src_pattern of rearrange", "must have 2 entries, one for each dimension")(
    lambda shape: raw(4, 8).rearrange(shape, shape), ("p", "a", "b"), ("p", "a")
)


@tensor("the index of dimension 0", "cannot select a partition")
def a_register_does_not_select_a_partition(broken):
    register = nisa.register_alloc(0)
    sb(4, 8)[(register, 0) if broken else (0, register)]


@tensor("the tensor of ap", "a tensor can have only one dynamic index, and no")
def a_pattern_adds_no_second_index(broken):
    view = hbm(4, 8, 2)
    view = view.select(0, index(1)) if broken else view
    view.ap([[2, 8], [1, 2]], scalar_offset=index(0))


# Loops and scheduling.


@tensor_copy("operand", "the body of a fori_loop or while_loop allocated")
def tiles_of_a_fori_loop_stay_inside(broken):
    kept = hidden(sb(4, 4))

    def body(i):
        inner = sb(4, 4)
        nisa.tensor_copy(raw(4, 4), inner)
        if broken:
            kept.set(inner)

    nl.fori_loop(0, 2, body)
    nisa.tensor_copy(raw(4, 4), kept.get())


@dma_copy("operand", "the body of a fori_loop or while_loop allocated")
def tiles_of_a_while_loop_stay_inside(broken):
    kept = hidden(sb(4, 4))

    def body(register):
        inner = sb(4, 4)
        if broken:
            kept.set(inner)
        nisa.register_move(register, 0)
        return register

    nl.while_loop(nisa.register_alloc(1), body)
    nisa.dma_copy(hbm(4, 4), kept.get())


@tensor_copy("operand", "the body of a fori_loop or while_loop allocated")
def tiles_do_not_pass_from_one_iteration_to_the_next(broken):
    kept = hidden(sb(4, 4))

    def body(i):
        nisa.tensor_copy(raw(4, 4), kept.get())
        if broken:
            kept.set(sb(4, 4))

    nl.fori_loop(0, 2, body)


@fori_loop("body_fun", "must not return a value")
def fori_loop_bodies_return_nothing(broken):
    nl.fori_loop(0, 2, lambda i: i if broken else None)


fori_loop("step", "positive compile-time int", "the_step_is_positive")(
    nl.fori_loop, 0, 2, lambda i: None, step=(0, 2)
)


@fori_loop("step", "positive compile-time int")
def the_step_is_known_at_compile_time(broken):
    nl.fori_loop(0, 2, lambda i: None, step=nisa.register_alloc(1) if broken else 1)


@fori_loop("a bound", "must be an int, a VirtualRegister, or in NKI 0.7 an NkiScalar")
def loop_bounds_are_integers(broken):
    nl.fori_loop(0, 1.5 if broken else nisa.register_alloc(1), lambda i: None)


@rules_of("nl.dynamic_range")(
    "the range", "a loop on the device cannot be inside of", release="0.6"
)
def no_dynamic_range_inside_no_reorder(broken):
    with pytest.warns(DeprecationWarning, match="fori_loop"):
        if broken:
            with nl.no_reorder():
                nl.dynamic_range(2)
        for _ in nl.dynamic_range(2):
            with nl.no_reorder():
                sb(4, 4)


@fori_loop("the range", "a loop on the device cannot be inside of")
def no_loop_inside_no_reorder(broken):
    if broken:
        with nl.no_reorder():
            nl.fori_loop(0, 2, lambda i: None)
    else:
        with nl.no_reorder():
            for _ in nl.static_range(2):
                sb(4, 4)


@while_loop("the range", "a loop on the device cannot be inside of")
def no_while_loop_inside_no_reorder(broken):
    register = nisa.register_alloc(0)
    if broken:
        with nl.no_reorder():
            nl.while_loop(register, lambda r: r)
    nl.while_loop(register, lambda r: r)


@while_loop("init", "must be a VirtualRegister")
def while_loops_test_a_register(broken):
    nl.while_loop(0 if broken else nisa.register_alloc(0), lambda r: r)


@while_loop("the result of body_fun", "must be a VirtualRegister, the condition of the")
def while_loop_bodies_return_the_condition(broken):
    nl.while_loop(nisa.register_alloc(1), lambda r: None if broken else nisa.register_alloc(0))


@depends_on("a producer", "an edge cannot leave a loop")
def no_dependency_out_of_a_loop(broken):
    tile = sb(4, 4)
    found = hidden(nisa.reciprocal(raw(4, 4), tile))

    def body(i):
        instruction = nisa.reciprocal(raw(4, 4), tile)
        if broken:
            found.set(instruction)

    nl.fori_loop(0, 1, body)
    nisa.reciprocal(raw(4, 4), tile).depends_on(found.get())


@depends_on("a producer", "an edge cannot leave a loop")
def dependencies_come_from_around(broken):
    tile = sb(4, 4)
    inside = hidden(None)

    def inner(i):
        inside.set(nisa.reciprocal(raw(4, 4), tile))

    def outer(i):
        first = nisa.reciprocal(raw(4, 4), tile)
        nl.fori_loop(0, 1, inner)
        if broken:
            first.depends_on(inside.get())
        else:
            nl.fori_loop(0, 1, lambda j: nisa.memset(raw(4, 4), 0).depends_on(first) and None)

    nl.fori_loop(0, 1, outer)


# nki.language.


@rules_of("nl.divide")("the function", "multiply by nl.reciprocal")
def nl_divide(broken):
    x, y = sb(4, 4), sb(4, 4, fill=2)
    nl.divide(x, y) if broken else nl.multiply(x, nl.reciprocal(y))


rules_of("nl.mod")("the function", "the hardware has no such instruction: it runs in")(
    lambda make: make(sb(4, 4), sb(4, 4)), nl.mod, nl.subtract
)
rules_of("nl.fmod")("the function", "the hardware has no such instruction: it runs in")(
    lambda make: make(sb(4, 4), sb(4, 4)), nl.fmod, nl.subtract
)


@rules_of("nl.power")("(x, y)", "both must be tiles: make a tile of a number by")
def nl_power_of_a_scalar(broken):
    nl.power(sb(4, 4), 2.0 if broken else nl.full((4, 4), 2.0, nl.float32))


rules_of("nl.add")(
    "the shape", "x and y must have the same shape, except for dimensions of size 1"
)(lambda n: nl.add(sb(4, 8), sb(4, n)), 2, 1)


@rules_of("nl.add")("(x, y)", "at least one must be a tile")
def nl_takes_a_tile(broken):
    nl.add(1.0 if broken else sb(4, 4), 2.0)


rules_of("nl.matmul")("transpose_x", "must be True: pass x transposed")(
    lambda transpose_x: nl.matmul(sb(8, 8), sb(8, 8), transpose_x=transpose_x), False, True
)
tensor_scalar("engine", "GpSimdE cannot access PSUM", "nl_rsqrt_stays_out_of_psum")(
    lambda make: nl.rsqrt(make(4, 4)), ps, sb
)
dma_copy("src", "DMA cannot access PSUM", "nl_store_takes_sbuf")(
    lambda make: nl.store(hbm(4, 4), make(4, 4)), ps, sb
)


@rules_of("nl.store")("value", "must be a tile in SBUF")
def nl_store_takes_a_tile(broken):
    nl.store(hbm(4, 4), 1.0 if broken else sb(4, 4))


@rules_of("nl.exp")("x", "must be a tile")
def nl_functions_take_a_tile(broken):
    nl.exp(1.0 if broken else sb(4, 4))


rules_of("nl.var")("axis", "must be all free axes")(
    lambda axis: nl.var(sb(4, 2, 8), axis=axis), 2, (1, 2)
)
rules_of("nl.softmax")("axis", "must cover all free axes")(
    lambda axis: nl.softmax(sb(4, 2, 8), axis=axis), -1, (1, 2)
)


@rules_of("nl.load_transpose2d")("src", "must be a view with 2 dimensions of an argument")
def nl_load_transpose_takes_arguments(broken):
    if broken:
        nl.load_transpose2d(hbm(4, 8))


tensor_reduce("axis", "to reduce across the partitions, axis 0", "nl_sum_keeps_partitions")(
    lambda axis: nl.sum(sb(4, 8), axis=axis), 0, 1
)


@rules_of("nl.transpose")("x", "must have 2 dimensions")
def nl_transpose_is_two_dimensional(broken):
    nl.transpose(sb(4, 2, 2) if broken else sb(4, 4))


rules_of("nl.broadcast_to")("shape", "must have the sizes of x, (4, 1), except where x")(
    lambda n: nl.broadcast_to(sb(4, 1), (n, 8)), 8, 4
)
tensor_tensor("dst.dtype", "bitvec operators need integer dtypes", "nl_bitwise_works_on_integers")(
    lambda dtype: nl.bitwise_and(sb(4, 4, dtype=dtype), sb(4, 4, dtype=dtype)), nl.float32, nl.int8
)


# Capacity: what lives at the same time must fit.


def _live(bytes_each, count, together, buffer=nl.sbuf):
    """Tiles that are all read at the end, or each right after its write."""
    tiles = []
    for _ in range(count):
        tile = raw(1, bytes_each // 4, buffer=buffer)
        nisa.memset(tile[:, 0:1], 0)
        tiles.append(tile)
        if not together:
            nisa.tensor_copy(raw(1, 1), tile[:, 0:1])
    if together:
        for tile in tiles:
            nisa.tensor_copy(raw(1, 1), tile[:, 0:1])


@launch("the tile to allocate", "trn1 has 196608: use fewer or smaller tiles", accepted_on="trn2")
def live_tiles_fit_sbuf(broken):
    _live(50 << 10, 4, together=broken)


launch("the tile to allocate", "trn1 has 16384: use fewer or smaller tiles", "live_tiles_fit_psum")(
    lambda n: _live(2048, n, together=True, buffer=nl.psum), 9, 8
)
launch(
    "the tile to allocate",
    "trn1 has 16384: use fewer or smaller tiles",
    "psum_banks_are_used_again",
)(lambda together: _live(2048, 20, together=together, buffer=nl.psum), True, False)


@launch("the tile to allocate", "trn1 has 16384: use fewer or smaller tiles")
def a_psum_tile_does_not_share_part_of_a_bank(broken):
    # 1.5 KiB take a bank; tiles of half a bank share one.
    _live(1536 if broken else 1024, 9, together=True, buffer=nl.psum)


# Memory that was never written, and the budget of DMA-written SBUF.


@tensor_copy("operand", "nothing has written")
def reads_come_after_writes(broken):
    tile = raw(4, 8)
    nisa.memset(tile[:, 0 : 4 if broken else 8], 0)
    nisa.tensor_copy(raw(4, 8), tile)


@dma_copy("operand", "nothing has written")
def hbm_reads_come_after_writes(broken):
    scratch = nl.ndarray((4, 8), nl.float32, buffer=nl.private_hbm)
    if not broken:
        nisa.dma_copy(scratch, sb(4, 8))
    nisa.dma_copy(raw(4, 8), scratch)


nc_matmul("operand", "nothing has written")(
    lambda make: nisa.nc_matmul(psum(8, 8), sb(8, 8), make(8, 8)), raw, sb
)


def _loads(together, count=2):
    """Tiles of 40 KiB a partition that DMA writes, alive together or in turn."""
    tiles = []
    for _ in range(count):
        tile = raw(1, 40 << 8)
        nisa.dma_copy(tile, hbm(1, 40 << 8))
        tiles.append(tile)
        if not together:
            nisa.tensor_copy(raw(1, 1), tile[:, 0:1])
    for tile in tiles if together else ():
        nisa.tensor_copy(raw(1, 1), tile[:, 0:1])


dma_copy("SBUF that DMA writes and that is live at once", "at most 65536 bytes a partition")(
    _loads, together=(True, False)
)


# Running the rules.


@pytest.mark.parametrize("case", RULES, ids=lambda case: case.name)
def test_rule(case, monkeypatch):
    def attempt(value):
        def kernel():
            case.kernel(value)

        run(kernel)

    monkeypatch.setenv(TARGET, case.chip)
    with nki_sim.strict(), releases.select(case.release):
        with pytest.raises(NkiValidationError) as caught:
            attempt(case.broken)
        error = caught.value
        assert (error.instruction, error.operand) == (case.instruction, case.operand)
        assert case.match in error.rule
        text = str(error)
        assert text.startswith(f"{error.instruction}: {error.operand} is {error.value}, but ")
        assert text.endswith(error.rule)
        attempt(case.legal)
        if case.accepted_on:
            monkeypatch.setenv(TARGET, case.accepted_on)
            attempt(case.broken)


@pytest.mark.lenient
def test_strict_mode_ends_with_its_block():
    def kernel():
        nisa.tensor_copy(raw(4, 4), raw(4, 4))

    with nki_sim.strict():
        refuses("nothing has written", run, kernel)
    with pytest.warns(NkiSimulationWarning, match="nothing has written"):
        run(kernel)


# Warnings name the instruction and the tile.


@pytest.mark.lenient
def test_an_operand_of_two_psum_banks_warns_every_time():
    def kernel():
        banks, copied = psum(4, 1024), raw(4, 1024)
        nisa.memset(banks[:, 0:512], 0)
        nisa.memset(banks[:, 512:1024], 0)
        nisa.tensor_copy(copied, banks)

    for _ in range(2):
        with pytest.warns(NkiSimulationWarning, match="4096 bytes a partition") as caught:
            run(kernel)
        assert len(caught) == 1
    with nki_sim.strict():
        refuses("at most the 2048 bytes of a bank", run, kernel)


@pytest.mark.lenient
def test_a_large_dma_budget_warns():
    with pytest.warns(NkiSimulationWarning, match="with sbuf tile 1x10240 float32") as w:
        run(lambda: _loads(together=True))
    assert "81920 bytes a partition" in str(w[0].message)


@pytest.mark.lenient
def test_tiles_that_an_engine_writes_are_not_in_the_dma_budget(recwarn):
    def kernel():
        tiles = [sb(1, 40 << 8) for _ in range(4)]
        for tile in tiles:
            nisa.tensor_copy(raw(1, 1), tile[:, 0:1])

    run(kernel)
    assert not recwarn.list


@pytest.mark.lenient
def test_an_unwritten_output_warns():
    def kernel():
        return nl.ndarray((2, 3), nl.float32, buffer=nl.shared_hbm, name="result")

    with pytest.warns(NkiSimulationWarning, match="return: operand is shared_hbm tile 'result'"):
        result = run(kernel)
    assert np.isnan(result).all()
    with nki_sim.strict(), pytest.raises(NkiValidationError) as caught:
        run(kernel)
    assert caught.value.instruction == "return"


@pytest.mark.lenient
def test_a_dry_run_checks_operands_and_capacity():
    refuses("at most 512 on trn1", nki_sim.dry_run, moving_free_size, True)
    refuses("trn1 has 196608: use fewer", nki_sim.dry_run, live_tiles_fit_sbuf, True)
    nki_sim.dry_run(live_tiles_fit_sbuf, False)


# Launches.


def test_outputs_lie_in_shared_hbm():
    def kernel(buffer):
        out = nl.ndarray((4, 4), nl.float32, buffer=buffer)
        (nisa.memset if buffer is nl.sbuf else nl.store)(out, 0 if buffer is nl.sbuf else sb(4, 4))
        return out

    for buffer in (nl.sbuf, nl.hbm, nl.private_hbm):
        with pytest.raises(NkiValidationError, match="buffer=nl.shared_hbm") as caught:
            run(kernel, buffer)
        assert (caught.value.instruction, caught.value.operand) == ("return", "tensor")
    assert run(kernel, nl.shared_hbm).shape == (4, 4)


def test_every_output_of_a_tuple_lies_in_shared_hbm():
    def kernel(x):
        return x, {"tile": sb(4, 4)}

    refuses("shared_hbm", run, kernel, np.zeros((4, 4), np.float32))


def test_arguments_are_not_lists():
    array = np.zeros((4, 4), np.float32)

    def kernel(pair):
        return copied(pair[0])

    for broken in ([array, array], ([array], array)):
        with pytest.raises(TypeError, match="pass a tuple"):
            run(kernel, broken)
    assert run(kernel, (array, array)).shape == (4, 4)


def test_arguments_hold_elements_of_known_types():
    with pytest.raises(ValueError, match="needs arrays with elements"):
        run(copied, np.zeros((4, 0), np.float32))
    with pytest.raises(
        TypeError, match="argument 'x' of kernel copied is an array of float64.*astype"
    ):
        run(copied, np.zeros((4, 4)))
    assert run(copied, np.zeros((4, 4), ml_dtypes.bfloat16)).dtype == ml_dtypes.bfloat16


def test_annotated_shapes_are_checked():
    @nki.jit
    def kernel(x: nki_sim.typing.tensor[4, None]):
        return copied(x)

    assert kernel(np.zeros((4, 7), np.float32)).shape == (4, 7)
    with pytest.raises(TypeError, match=r"but its annotation is tensor\[4, None\]"):
        kernel(np.zeros((5, 7), np.float32))


def test_a_tensor_in_hbm_has_at_most_2_gib():
    def kernel(rows):
        nl.ndarray((rows, 1 << 20), nl.float32, buffer=nl.hbm)

    with pytest.raises(NkiValidationError, match="2 GiB") as caught:
        run(kernel, 513)
    assert (caught.value.instruction, caught.value.operand) == ("nl.ndarray", "the tensor's size")
    nki_sim.dry_run(kernel, 512)  # 2 GiB: legal, and too much to allocate in a test
    nki_sim.dry_run(lambda x: None, ((512, 1 << 20), "float32"))


@nki.jit
def _named(x):
    first, second = raw(4, 4), raw(4, 4)
    nisa.dma_copy(first, x, name="load")
    nisa.reciprocal(second, first, name="invert")
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, second, name="store")
    return out


@pytest.mark.parametrize("edge", [("invert", "lod"), ("inv", "load"), ("store", ["load", "x"])])
def test_schedules_name_instructions(edge):
    array = np.ones((4, 4), np.float32)
    with pytest.raises(NkiValidationError, match="instructions are: load, invert, store") as caught:
        _named.with_schedule([edge])(array)
    assert (caught.value.instruction, caught.value.operand) == (
        "with_schedule",
        "a name in 'edges'",
    )
    assert caught.value.value in ("lod", "inv", "x")
    np.testing.assert_array_equal(_named.with_schedule([("store", ["load"])])(array), array)


def test_a_register_is_stored_bit_by_bit():
    """Register_store "writes the scalar value (up to 32-bit)": -1 and 2**32 - 1 are one pattern."""

    def kernel():
        out = nl.ndarray((1, 2), nl.int32, buffer=nl.shared_hbm)
        bits = nl.ndarray((1, 2), nl.uint32, buffer=nl.shared_hbm)
        for i, value in enumerate((2**32 - 1, -1)):
            nisa.register_store(out[:, i : i + 1], nisa.register_alloc(value))
            nisa.register_store(bits[:, i : i + 1], nisa.register_alloc(value))
        return out, bits

    signed, unsigned = run(kernel)
    assert (signed.tolist(), unsigned.tolist()) == ([[-1, -1]], [[2**32 - 1] * 2])


# Legal kernels, as tutorials write them, pass in strict mode.


def strict_run(kernel, *args):
    """Simulate ``kernel`` in strict mode."""
    with nki_sim.strict():
        return run(kernel, *args)


def _random(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("accumulate", [None, True])
def test_v4_accumulates_onto_what_other_instructions_wrote(accumulate, monkeypatch):
    monkeypatch.setenv(TARGET, "trn3")

    def kernel(x):
        tile, total = nl.load(x), nl.ndarray((8, 8), nl.float32, buffer=nl.psum)
        nisa.memset(total, 1.0)
        nisa.nc_matmul(total, tile, tile, accumulate=accumulate)
        out = nl.ndarray((8, 8), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(total))
        return out

    x = _random(8, 8)
    np.testing.assert_allclose(strict_run(kernel, x), x.T @ x + 1, rtol=1e-5)
