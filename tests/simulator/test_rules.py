"""Every documented rule refuses the kernel that breaks it, and no legal kernel.

A rule of TABLE is the beginning of the error's message, ``instruction: operand: rule``, and a
kernel. ``{broken | legal}`` in it stands for code that breaks the rule, and for the nearest code
that does not. Both run in strict mode, on trn1 unless a chip stands behind ``#``. A chip that
"accepts" has the feature that the first one lacks: what breaks the rule must pass there.
"""

import re
import textwrap
from contextlib import nullcontext
from contextvars import ContextVar
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import NkiSimulationWarning, NkiValidationError
from nki_sim.base import releases

from .conftest import broken, copied, index, kernel_of, legal, refuses, sample, to_hbm

TARGET = "NEURON_PLATFORM_TARGET_OVERRIDE"
s_, ERROR, SKIP = np.s_, nisa.oob_mode.error, nisa.oob_mode.skip
SWDGE, HWDGE, NO_DGE = (nisa.dge_mode[name] for name in ("swdge", "hwdge", "none"))
VECTOR, SCALAR, GPSIMD = (nisa.engine[name] for name in ("vector", "scalar", "gpsimd"))
RESET_REDUCE, LOAD_REDUCE = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.load_reduce
NAMES = {"nullcontext": nullcontext, "partial": partial}  # which only TABLE uses


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


# Kernels of several rules.


def _copy(src=sb, **settings):
    nisa.tensor_copy(raw(4, 4), src(4, 4), **settings)


def _load(dst=raw, src=hbm, **settings):
    nisa.dma_copy(dst(4, 4), src(4, 4), **settings)


def _gather(first=5, last=1, **settings):
    """Two rows of eight."""
    nisa.dma_copy(raw(2, 4), hbm(8, 4).vector_select(0, index(first, last)), **settings)


def _select_block(number, **settings):
    """One of three blocks of rows, at an address known at run time."""
    nisa.dma_copy(raw(2, 4), hbm(3, 2, 4).select(0, index(number)), **settings)


def _move(x, dst, src):
    nisa.dma_copy(x[dst], x[src])


def _hardware_transpose(rows, columns, dtype=nl.bfloat16):
    mode = HWDGE
    nisa.dma_transpose(
        raw(columns, rows, dtype=dtype), hbm(rows, columns, dtype=dtype), None, None, mode
    )


def _predicated(src=sb, predicate=sb, dtype=nl.uint8):
    nisa.tensor_copy_predicated(sb(4, 4), src(4, 4), predicate(4, 4, dtype=dtype))


def _shuffle(mask):
    nisa.nc_stream_shuffle(sb(32, 4), sb(32, 4), mask)


def _matmul(k=32, m=32, n=32, dst=None, dtype=nl.float32, **settings):
    dst = psum(m, n) if dst is None else dst
    nisa.nc_matmul(dst, sb(k, m, dtype=dtype), sb(k, n, dtype=dtype), **settings)


def _row_tile(stationary=64, moving=64, rows=64, position=64):
    """A product of partitions from such ones on, in the lower half of the array."""
    tiles = [sb(128, 32)[first : first + rows] for first in (stationary, moving)]
    settings = {"tile_position": (position, 0), "tile_size": (64, 128)}
    nisa.nc_matmul(psum(32, 32), *tiles, **settings)


def _double_row(dtype=nl.float8_e5m2, planes=2, **settings):
    mode = nisa.matmul_perf_mode.double_row
    stationary, moving = sb(32, planes, 16, dtype=dtype), sb(32, planes, 8, dtype=dtype)
    dst = psum(16, 8)
    nisa.nc_matmul(dst, stationary, moving, perf_mode=mode, **settings)


def _transpose(dst, moving, dtype=nl.float32, **settings):
    nisa.nc_matmul(dst, sb(32, 32, dtype=dtype), moving, is_transpose=True, **settings)


def _hinted(fills=(1, 1), dtype=nl.float32, **hint):
    operands = [sb(32, 32, dtype=dtype, fill=fill) for fill in fills]
    nisa.nc_matmul(psum(32, 32), *operands, **hint)


def _transposed(shape=(8, 16), dtype=nl.bfloat16, data=nl.bfloat16):
    nisa.nc_transpose(psum(*shape, dtype=dtype), sb(16, 8, dtype=data))


def _pair(op=nl.add, first=sb, second=sb, dtype=nl.float32, engine=nisa.engine.unknown):
    tiles = first(4, 4, dtype=dtype), second(4, 4, dtype=dtype)
    nisa.tensor_tensor(raw(4, 4, dtype=dtype), *tiles, op=op, engine=engine)


def _scalar(op0, operand0, dtype=nl.float32, data=sb, **settings):
    nisa.tensor_scalar(raw(4, 4, dtype=dtype), data(4, 4, dtype=dtype), op0, operand0, **settings)


def _three(op0=nl.multiply, op1=nl.add, data=sb, operand1=sb, operand0=2.0, n=4):
    nisa.scalar_tensor_tensor(raw(4, 4), data(4, 4), op0, operand0, op1, operand1(4, n))


def _scan(op0=nl.multiply, op1=nl.add, data0=sb, data1=sb, initial=0.0, n=4):
    nisa.tensor_tensor_scan(raw(4, 4), data0(4, n), data1(4, 4), initial, op0, op1)


def _activate(op=nl.exp, fill=1.0, **settings):
    nisa.activation(raw(4, 4), op, sb(4, 4, fill=fill), **settings)


def _affine(on_true=sb, cmp_op=nl.greater_equal, on_false=0.0, n=8):
    nisa.affine_select(raw(4, 8), [[1, n]], -1, on_true(4, 8), on_false, cmp_op)


def _select(predicate=None, on_true=None, **settings):
    predicate = sb(4, 8, dtype=nl.uint8) if predicate is None else predicate
    on_true = sb(4, 8) if on_true is None else on_true
    nisa.select_reduce(raw(4, 8), predicate, on_true, 0.0, **settings)


def _range(on_true=nl.float32, bound=nl.float32, comp_op1=nl.less, width=1, **settings):
    bounds = sb(4, width, dtype=bound), sb(4, width, dtype=bound)
    tile = sb(4, 8, dtype=on_true)
    nisa.range_select(raw(4, 8), tile, nl.greater_equal, comp_op1, *bounds, **settings)


def _placed(first, second, together, buffer=nl.sbuf):
    """Two placed tiles, alive together or one after the other."""
    a = nl.ndarray((4, 256), nl.float32, buffer, address=(0, first))
    nisa.memset(a, 0)
    if not together:
        nisa.tensor_copy(raw(4, 256), a)
    b = nl.ndarray((4, 256), nl.float32, buffer, address=(0, second))
    nisa.memset(b, 0)
    nisa.tensor_copy(raw(4, 256), a if together else b)


def _pattern(**settings):
    hbm(4, 8).ap([[8, 2], [1, 8]], **settings)


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


TABLE = """
# Access patterns of on-chip operands.
nisa.tensor_copy: dst: at most 4 free dimensions
    nisa.tensor_copy(sb(2, 32).reshape({(2, 2, 2, 2, 2, 2) | (2, 2, 2, 2, 4)}), sb(2, 32))
nisa.tensor_copy: src: strides are at most 32767
    wide = raw(1, 40000)
    stride = {32768 | 32767}
    nisa.memset(wide, 0)
    nisa.tensor_copy(raw(1, 2), wide.ap([[40000, 1], [stride, 2]]))
nisa.memset: dst: at most 65535 elements
    nisa.memset(raw(1, 70000, dtype=nl.uint8)[:, 0 : {65536 | 65535}], 0)
nisa.memset: dst: 65 partitions must start at one of (0,)
    n = {32 | 0}
    nisa.memset(raw(128, 4)[n : n + 65], 0)
nisa.memset: dst: 33 partitions must start at one of (0, 64)
    n = {32 | 64}
    nisa.memset(raw(128, 4)[n : n + 33], 0)
nisa.memset: dst: 8 partitions must start at one of (0, 32, 64, 96)
    n = {16 | 96}
    nisa.memset(raw(128, 4)[n : n + 8], 0)
nisa.reciprocal: dst: 33 partitions must start at one of (0, 64)
    placed = nl.ndarray((64, 4), nl.float32, nl.sbuf, address=({32 | 64}, 0))
    nisa.reciprocal(placed[0:33], sb(33, 4, fill=1))
nisa.tensor_copy: dst: cannot be written
    wide, narrow = sb(4, 8), sb(4, 1).broadcast(1, 8)
    nisa.tensor_copy({narrow | wide}, {wide | narrow})

# No document orders the writes of one instruction, so an element written twice is refused.
nisa.tensor_copy: dst: writes an element twice
    nisa.tensor_copy(raw(4, 16).ap([[16, 4], [{2 | 3}, 3], [1, 3]]), sb(4, 9))
nisa.memset: dst: writes an element twice
    nisa.memset(raw(4, 16).ap([[16, 4], [2, {4 | 3}], [3, 3]]), 0)
nisa.nc_matmul: dst: writes an element twice
    _matmul(dst=psum(32, 64).ap([[64, 32], [{7 | 8}, 4], [1, 8]]))
nisa.dma_copy: dst: writes an element twice
    nisa.dma_copy(hbm(64).ap([[{3 | 4}, 8], [1, 4]]), sb(8, 4))

# trainium_inferentia2_arch.rst, Vector and Scalar Engine: tiles of "up to 64K elements for SBUF or
# 4K elements for PSUM"; the guides of v3 and v4 change nothing.
nisa.memset: dst: at most 65536 elements a partition of SBUF
    nisa.memset(raw(1, 4, {16385 | 16384}, dtype=nl.bfloat16), 0)
nisa.memset: dst: at most 4096 elements a partition of PSUM  # trn3
    nisa.memset(psum(1, 8192, dtype=nl.bfloat16)[:, 0 : {4097 | 4096}], 0)

# nki/get-started/about/tiling-overview.rst, constraint 2: "For tiles in PSUM, the F dimension size
# must not exceed psum_bank_fmax == 512"; the guide above has 4K. A tensor may fill all banks.
nisa.tensor_copy: src: at most the 2048 bytes of a bank  # accepted on trn3
    banks = psum(4, 4096)
    for bank in range(8):
        nisa.memset(banks[:, 512 * bank : 512 * bank + 512], 0)
    count = {513 | 512}
    nisa.tensor_copy(raw(4, count), banks[:, 256 : 256 + count])
    nisa.tensor_copy(raw(4, 8, 64), banks.reshape((4, 8, 512))[:, :, 0:64])
nisa.tensor_copy: src: must be a tensor
    nisa.tensor_copy(raw(4, 4), {1.0 | sb(4, 4)})
nisa.tensor_copy: src: must be in SBUF or PSUM
    _copy({hbm | sb})
nisa.tensor_copy: the number of partitions: all operands must cover the same number of
    nisa.tensor_copy(raw(8, 4), sb({4 | 8}, 4))
nisa.tensor_copy: the number of elements a partition: all operands must have the same number of
    nisa.tensor_copy(raw(4, 6), sb(4, {8 | 6}))

# nl.load: "src: HBM tensor to load"; nl.store: "from on-chip memory (SBUF)" to "HBM tensor".
nl.store: dst: must be in HBM
    nl.store({raw | hbm}(4, 4), sb(4, 4))
nl.store: value: must be a tile in SBUF
    nl.store(hbm(4, 4), {hbm | sb}(4, 4))
nl.load: src: must be in HBM
    nl.load({sb | hbm}(4, 4))
nisa.dma_copy: src: DMA cannot access PSUM
    _load(hbm, src={ps | sb})
nisa.dma_copy: dst: DMA cannot access PSUM
    _load(dst={psum | raw})
nisa.dma_copy: the shape from src to dst: the same number of elements
    nisa.dma_copy(raw(4, 4), {hbm(4, 5) | hbm(2, 8)})
nisa.dma_copy: dst: cannot be written
    narrow, wide = hbm(4, 1).broadcast(1, 8), sb(4, 8)
    nisa.dma_copy({narrow | wide}, {wide | narrow})
nisa.dma_copy: dge_mode: must be a member of nki.isa.dge_mode
    _load(dge_mode={1 | SWDGE})
nisa.dma_copy: oob_mode: must be a member of nki.isa.oob_mode
    _load(oob_mode={0 | ERROR})
nisa.dma_copy: priority: needs NeuronCore-v4  # accepted on trn3
    _load(priority={1 | None})
nisa.dma_copy: priority: 0, 1, 2 or 3  # trn3
    _load(priority={4 | 3})
nisa.dma_copy: dge_mode: needs NeuronCore-v3  # accepted on trn2
    _load(dge_mode={HWDGE | NO_DGE})
nisa.dma_copy: dtype: all operands must have the same dtype  # trn2
    _load(partial(raw, dtype={nl.bfloat16 | nl.float32}), dge_mode=HWDGE)
nisa.dma_copy: dge_mode: the hardware descriptor generator cannot gather  # trn2
    _gather(dge_mode={HWDGE | SWDGE})
nisa.dma_copy: dge_mode: a dynamic address needs a descriptor generator
    _select_block(2, dge_mode={NO_DGE | SWDGE})
nisa.dma_copy: engine: only valid with dge_mode=nisa.dge_mode.hwdge  # trn2
    _load(dge_mode={SWDGE | HWDGE}, engine=nisa.engine.sync)
nisa.dma_copy: engine: engine.sync or engine.scalar  # trn2
    _load(dge_mode=HWDGE, engine={VECTOR | SCALAR})
nisa.dma_copy: oob_mode: oob_mode has an effect with a dynamic address only
    source = hbm(3, 2, 4)
    source = {source[1] | source.select(0, index(1))}
    nisa.dma_copy(raw(2, 4), source, oob_mode=SKIP)
nisa.dma_copy: vector_offset: out of bounds
    _gather(last={8 | 7})
nisa.dma_copy: vector_offset: out of bounds
    _gather(0, 8, oob_mode={ERROR | SKIP})
nisa.dma_copy: scalar_offset: out of bounds
    _select_block({3 | 2})
nisa.dma_copy: scalar_offset: out of bounds
    nisa.dma_copy(raw(4, 4), hbm(8, 4)[nl.ds(nisa.register_alloc({5 | 4}), 4)])
nisa.dma_copy: vector_offset: one index for each partition
    rows = {index(0, 1, 2) | index(0, 1)}
    nisa.dma_copy(raw(2, 4), hbm(8, 4).ap([[4, 2], [1, 4]], vector_offset=rows))

# A DMA reads and writes a tensor in an undefined order (nki-dma-overview.rst).
nisa.dma_copy: dst: it overlaps src
    _move(hbm(8, 4), s_[1:4], {s_[0:3] | s_[5:8]})
nisa.dma_copy: dst: it overlaps src, the view [[8, 4], [1, 3]]
    _move(hbm(4, 8), {s_[:, 2:5] | s_[:, 3:6]}, s_[:, 0:3])
nisa.dma_copy: dst: it overlaps src
    _move(hbm(8, 4), s_[0:8:2], {s_[0:4] | s_[1:8:2]})
nisa.dma_copy: dst: it overlaps src
    x = hbm(8, 4)
    for row in (6, 4, {1 | 2}):
        nisa.dma_copy(x[row : row + 2], x[0:2])
nisa.dma_copy: dst: it overlaps src
    _move(sb(64, 16), {s_[:, 4:12] | s_[:, 8:16]}, s_[:, 0:8])
nisa.dma_copy: dst: it overlaps src
    x = hbm(8, 4)
    rows = {2 | 1}
    def body(i):
        place = x.ap([[4, rows], [1, 4]], offset=4, scalar_offset=i, indirect_dim=0)
        nisa.dma_copy(place, x.ap([[4, rows], [1, 4]], scalar_offset=i, indirect_dim=0))
    nl.fori_loop(0, 3, body)
nisa.dma_copy: dst: the copy changes nothing
    x = hbm(8, 4)
    nisa.dma_copy(x[2:4], {x[2:4] | hbm(2, 4)})
nisa.dma_transpose: dst: it overlaps src
    tile = sb(16, 16)
    nisa.dma_transpose(tile, {tile | sb(16, 16)})
nisa.dma_compute: dst: it overlaps src
    x = hbm(8, 4)
    nisa.dma_compute(x[1:3], [x[{0 | 1} : {2 | 3}], hbm(2, 4)], reduce_op=nl.add)
nisa.dma_transpose: axes: must be (1, 0)
    nisa.dma_transpose(raw(4, 8), hbm(8, 4), axes={(0, 1) | (1, 0)})
nisa.dma_transpose: axes: (3, 1, 2, 0)
    n = {5 | 4}
    nisa.dma_transpose(raw(*(2,) * n), hbm(*(2,) * n))
nisa.dma_transpose: dst: must be in SBUF
    nisa.dma_transpose({hbm | raw}(4, 8), hbm(8, 4))
nisa.dma_transpose: dtype: all operands must have the same dtype
    nisa.dma_transpose(raw(4, 8, dtype={nl.bfloat16 | nl.float32}), hbm(8, 4))
nisa.dma_transpose: dst: permuted
    nisa.dma_transpose(raw(*{(8, 4) | (4, 8)}), hbm(8, 4))
nisa.dma_transpose: dge_mode: must be unknown or hwdge
    nisa.dma_transpose(raw(4, 8), hbm(8, 4), dge_mode={SWDGE | nisa.dge_mode.unknown})
nisa.dma_transpose: src: 16 rows  # trn2
    _hardware_transpose({8 | 16}, 128)
nisa.dma_transpose: src: % 16 == 0  # trn2
    rows = {4 | 8}
    dst, src = raw(64, 2, rows, dtype=nl.bfloat16), hbm(rows, 2, 64, dtype=nl.bfloat16)
    nisa.dma_transpose(dst, src, dge_mode=HWDGE)
nisa.dma_transpose: src.dtype: 2-byte dtypes  # trn2
    _hardware_transpose(16, 64, {nl.float32 | nl.float16})

# Partitions of an operand follow each other (nki/deep-dives/nki-aps.rst, "Restriction on SBUF/PSUM
# Tensors").
NkiTensor: the index of dimension 0: the step must be 1
    nisa.tensor_copy(raw(64, 8), sb(128, 8)[{::2 | 64:}])
NkiTensor: the index of dimension 0: the step must be 1
    nisa.memset(raw(96, 8)[{slice(0, 96, 3) | slice(0, 32)}], 0)
NkiTensor: the index of dimension 0: the step must be 1
    bank = ps(64, 8)
    nisa.activation(raw(2, 8), nl.copy, {bank.slice(0, 0, 64, 32) | bank[32:34]})
NkiTensor: the index of dimension 0: the step must be 1
    nisa.dma_copy(hbm(128, 8)[::2], sb(128, 8)[{::2 | 0:64}])
NkiTensor: the index of dimension 0: the step must be 1
    nisa.nc_matmul(psum(40, 40), sb(128, 40)[{0:128:2 | 0:64}], sb(64, 40))
NkiTensor: the index of dimension 0: its step must be at least 1
    nisa.tensor_copy(raw(32, 8), sb(32, 8)[:: {-1 | 1}])

# An access to PSUM begins at a multiple of 4 bytes (nl.tile_size.psum_min_align).
nisa.nc_transpose: dst: begins at a multiple of 4 bytes
    bank = psum(64, 3, {5 | 6}, dtype=nl.bfloat16)
    for slot in range(3):
        nisa.nc_transpose(bank[:, slot, 0:5], sb(5, 64, dtype=nl.bfloat16))
nisa.nc_matmul: dst: begins at a multiple of 4 bytes  # trn3
    bank, first = psum(64, 65, dtype=nl.bfloat16), {1 | 0}
    _matmul(64, 64, 64, bank[:, first : first + 64], nl.bfloat16)
nisa.tensor_copy: src: begins at a multiple of 4 bytes
    nisa.tensor_copy(raw(64, 3), ps(64, 8, dtype=nl.bfloat16)[{:, 1:4 | :, 2:5}])
nisa.memset: dst: begins at a multiple of 4 bytes
    nisa.memset(psum(64, 16, dtype=nl.uint8)[{:, 6:9 | :, 8:11}], 1)
nisa.tensor_tensor: data2: begins at a multiple of 4 bytes
    column = ps(64, 4, dtype=nl.bfloat16)[:, {3:4 | 2:3}]
    nisa.tensor_tensor(raw(64, 1), sb(64, 1), column, nl.add)
nisa.tensor_copy: engine: ScalarE of NeuronCore-v2 has no tensor_copy: use  # accepted on trn2
    _copy(engine={SCALAR | VECTOR})
nisa.tensor_copy: engine: GpSimdE cannot access PSUM
    _copy({ps | sb}, engine=GPSIMD)
nisa.tensor_copy: engine: the allowed engines are vector, gpsimd
    _copy(engine={nisa.engine.tensor | GPSIMD})
nisa.tensor_copy: engine: must be a member of nki.isa.engine
    _copy(engine={5 | VECTOR})
nisa.memset: value: must be an integer for dtype int32
    nisa.memset(raw(4, 4, dtype=nl.int32), {2.0 | 2})
nisa.memset: value: must be from 0 to 255 for dtype uint8
    nisa.memset(raw(4, 4, dtype=nl.uint8), {256 | 255})
nisa.memset: value: a tile of float8_e4m3fn_x4 can be set to 0 only
    nisa.memset(raw(4, 4, dtype=nl.float8_e4m3fn_x4), {1 | 0})
nisa.memset: value: compile-time number
    nisa.memset(raw(4, 4), {sb(4, 1) | 0.5})
nisa.memset: engine: GpSimdE cannot access PSUM
    nisa.memset(psum(4, 4), 0, engine={GPSIMD | VECTOR})
nisa.memset: engine: the allowed engines are vector, gpsimd
    nisa.memset(raw(4, 4), 0, engine={SCALAR | GPSIMD})
nisa.tensor_copy_predicated: predicate.dtype: uint16, uint32, uint8
    _predicated(dtype={nl.float32 | nl.uint32})
nisa.tensor_copy_predicated: dtype: all operands must have the same dtype
    _predicated(partial(sb, dtype={nl.bfloat16 | nl.float32}))
nisa.tensor_copy_predicated: the memory of src and predicate: at most one of them may be in PSUM:
  copy one to
    _predicated(ps, predicate={ps | sb})
nisa.tensor_copy_predicated: the number of elements a partition: all operands must have the same
  number of
    nisa.tensor_copy_predicated(sb(4, 4), 1.0, sb(4, {1 | 4}, dtype=nl.uint8))
nisa.nc_stream_shuffle: shuffle_mask: 32 entries
    _shuffle(list(range({31 | 32})))
nisa.nc_stream_shuffle: shuffle_mask: must have 32 entries from 0 to 31, or 255 to keep
    _shuffle([0] * 31 + [{32 | 255}])
nisa.nc_stream_shuffle: dtype: all operands must have the same dtype
    nisa.nc_stream_shuffle(sb(32, 4, dtype={nl.bfloat16 | nl.float32}), sb(32, 4), [0] * 32)
nisa.nc_stream_shuffle: the number of elements a partition: dst and src must have the same number
  of elements
    nisa.nc_stream_shuffle(sb(32, 4), sb(32, {5 | 4}), [0] * 32)
nisa.nc_stream_shuffle: dst: 64 active partitions must start at one of (0, 64)
    n = {32 | 64}
    nisa.nc_stream_shuffle(raw(128, 4)[n : n + 32], sb(64, 4), [0] * 32)
nisa.nc_stream_shuffle: a source partition of shuffle_mask: src has only 8 partitions
    nisa.nc_stream_shuffle(raw(32, 4), sb(8, 4), [{8 | 7}] * 32)
nisa.nc_stream_shuffle: a source partition of shuffle_mask: src has 40 partitions
    nisa.nc_stream_shuffle(raw(64, 4), sb(40, 4), [{8 | 7}] * 32)
nisa.nc_stream_shuffle: src: must be in SBUF or PSUM
    nisa.nc_stream_shuffle(raw(32, 4), {hbm | sb}(32, 4), [0] * 32)
nisa.nc_stream_shuffle: dst: cannot be written
    nisa.nc_stream_shuffle({raw(32, 1).broadcast(1, 4) | raw(32, 4)}, sb(32, 4), [0] * 32)
nisa.nc_matmul: the free size of moving: at most 512 on trn1  # accepted on trn3
    _matmul(n={513 | 512})
nisa.nc_matmul: the free size of moving: at most 4096 on trn3  # trn3
    _matmul(m=1, n={4097 | 4096}, dst=psum(1, 4096))
nisa.nc_matmul: the free size of moving: at most 8192 on trn3  # trn3
    _matmul(m=1, n={8193 | 8192}, dst=psum(1, 8192, dtype=nl.bfloat16))
nisa.nc_matmul: the free size of stationary: at most 128
    _matmul(m={129 | 128}, dst=psum(128, 32))
nisa.nc_matmul: the number of partitions: both must have the same number of partitions
    nisa.nc_matmul(psum(8, 8), sb({16 | 32}, 8), sb(32, 8))
nisa.nc_matmul: dst: must be in PSUM
    _matmul(dst=raw(32, 32, buffer={nl.sbuf | nl.psum}))
nisa.nc_matmul: stationary: must be in SBUF
    nisa.nc_matmul(psum(8, 8), {ps | sb}(8, 8), sb(8, 8))
nisa.nc_matmul: moving: must be in SBUF
    nisa.nc_matmul(psum(8, 8), sb(8, 8), {ps | sb}(8, 8))
nisa.nc_matmul: dst: must have 32 partitions of 16 elements
    _matmul(n=16, dst=psum(32, {32 | 16}))
nisa.nc_matmul: stationary.dtype: must be one of
    _matmul(dtype={nl.int32 | nl.bfloat16})
nisa.nc_matmul: dtype: float32 and tfloat32 can be multiplied with
    nisa.nc_matmul(psum(8, 8), sb(8, 8), sb(8, 8, dtype={nl.bfloat16 | nl.tfloat32}))
nisa.nc_matmul: dst.dtype: must be one of float32  # accepted on trn3
    _matmul(dst=psum(32, 32, dtype={nl.bfloat16 | nl.float32}))
nisa.nc_matmul: stationary.dtype: needs NeuronCore-v4  # accepted on trn3
    _matmul(dtype={nl.float8_e4m3fn | nl.float8_e4m3})
nisa.nc_matmul: dtype: cannot be mixed  # trn3
    moving = sb(8, 8, dtype=nl.float8_e4m3fn)
    stationary = sb(8, 8, dtype={nl.float8_e4m3 | nl.float8_e5m2})
    nisa.nc_matmul(psum(8, 8), stationary, moving)
nisa.nc_matmul: dst: one PSUM bank  # accepted on trn3
    n = {256 | 512}
    _matmul(n=512, dst=psum(32, 1024)[:, n : n + 512])
nisa.nc_matmul: accumulate: another instruction than a matmul  # accepted on trn3
    dst = psum(32, 32)
    {nisa.memset(dst, 0) | _matmul(dst=dst, accumulate=False)}
    _matmul(dst=dst, accumulate=True)
nisa.nc_matmul: accumulate: nothing has initialised this PSUM: pass  # trn3
    dst = psum(32, 32)
    {None | nisa.memset(dst[:, 0:16], 0)}
    _matmul(n=16, dst=dst[:, 0:16], accumulate=True)
nisa.nc_matmul: accumulate: nothing has initialised this PSUM
    dst = psum(32, 32)
    first = {dst[:, 0:16] | dst}
    _matmul(n=first.shape[1], dst=first, accumulate=False)
    _matmul(dst=dst, accumulate=True)
nisa.nc_matmul: accumulate: another instruction than a matmul  # accepted on trn3
    dst = psum(32, 32)
    _matmul(dst=dst, accumulate=False)
    nisa.tensor_copy({dst | psum(32, 32)}, sb(32, 32))
    _matmul(dst=dst, accumulate=True)
nisa.nc_matmul: accumulate: another instruction wrote  # accepted on trn3
    dst = ps(32, 32)
    _matmul(dst=dst, accumulate={None | False})
    _matmul(dst=dst)
nisa.nc_matmul: (tile_position, tile_size): both or neither of them must be set
    _matmul(tile_size=(64, 128), tile_position={() | (0, 0)})
nisa.nc_matmul: (tile_position, tile_size): both must be pairs (row, column)
    _matmul(tile_size={(64,) | (64, 128)}, tile_position=(0, 0))
nisa.nc_matmul: tile_size[0]: must be one of (64, 128)  # accepted on trn2
    _matmul(tile_size=({32 | 64}, 128), tile_position=(0, 0))
nisa.nc_matmul: tile_position[0]: must be a multiple of 64
    _row_tile(64, 64, 32, position={32 | 64})
nisa.nc_matmul: stationary: must start at partition 64, the row of
    _row_tile(stationary={0 | 64})
nisa.nc_matmul: moving: must start at partition 64, the row of
    _row_tile(moving={0 | 64})
nisa.nc_matmul: stationary: at most 64
    _matmul(k={65 | 64}, tile_position=(0, 0), tile_size=(64, 128))
nisa.nc_matmul: the free size of stationary: at most 64
    _matmul(m={65 | 64}, tile_position=(0, 0), tile_size=(128, 64))
nisa.nc_matmul: perf_mode: must be a member of nki.isa.matmul_perf_mode
    _matmul(perf_mode={"none" | nisa.matmul_perf_mode.none})
nisa.nc_matmul: perf_mode: needs NeuronCore-v3  # accepted on trn2
    {_double_row() | None}
nisa.nc_matmul: stationary.dtype: must be one of float8  # trn2
    _double_row({nl.bfloat16 | nl.float8_e4m3})
nisa.nc_matmul: stationary: must have a shape (K, 2, ...) with perf_mode  # trn2
    _double_row(planes={4 | 2})
nisa.nc_matmul: tile_size: perf_mode double_row needs all columns of the  # trn2
    _double_row(tile_position=(0, 0), tile_size=(32, {64 | 128}))
nisa.nc_matmul: is_transpose: is_transpose cannot be combined with perf_mode  # trn2
    _double_row(is_transpose={True | False})
nisa.nc_matmul: dst.dtype: must be one of bfloat16  # trn2
    dtype, identity = nl.bfloat16, nl.shared_identity_matrix(32, nl.bfloat16)
    _transpose(psum(32, 32, dtype={nl.float32 | nl.bfloat16}), identity, dtype)

# nki.isa.nc_matmul, "Transpose mode": "using an identity matrix as the moving tile". From v3 the
# array moves data instead of multiplying; v2 multiplies, and any matrix is right there.
nisa.nc_matmul: moving: is_transpose needs an identity  # trn2, accepted on trn1
    moving = {sb(32, 32, fill=1) | nl.shared_identity_matrix(32, nl.float32)}
    _transpose(psum(32, 32), moving)
nisa.nc_matmul: moving: is_transpose needs an identity  # trn3, accepted on trn1
    n = {16 | 32}
    _transpose(psum(32, n), nl.shared_identity_matrix(32, nl.float32)[:, 0:n])

# nki.isa.nc_matmul: the onezero hints are of tiles "with ones/zeros only" and have "no impact" on
# operands that are not float32.
nisa.nc_matmul: stationary: is_stationary_onezero claims so, and the chip
    _hinted(({0.5 | 1}, 0.5), is_stationary_onezero=True)
nisa.nc_matmul: moving: is_moving_onezero claims so, and the chip would
    _hinted((0, 2), {nl.float32 | nl.bfloat16}, is_moving_onezero=True)
nisa.nc_transpose: dst: needs a dst of the dtype of its data
    _transposed(dtype={nl.float32 | nl.bfloat16})
nisa.nc_transpose: dtype: all operands must have the same dtype
    _transposed(dtype={nl.float16 | nl.bfloat16})
nisa.nc_transpose: dst: must have 8 partitions of 16 elements
    _transposed({(16, 8) | (8, 16)})
nisa.nc_transpose: data: VectorE transposes at most 32x32
    n = {33 | 32}
    nisa.nc_transpose(raw(n, n), sb(n, n), engine=VECTOR)
nisa.nc_transpose: data: must be in SBUF
    nisa.nc_transpose(psum(32, 32), {ps | sb}(32, 32), engine=nisa.engine.tensor)
nisa.nc_transpose: dst: must be in PSUM
    nisa.nc_transpose({raw | psum}(32, 32), sb(32, 32), engine=nisa.engine.tensor)
nisa.nc_transpose: engine: engine.tensor or engine.vector
    nisa.nc_transpose(raw(32, 32), sb(32, 32), engine={SCALAR | VECTOR})
nisa.nc_transpose: dst: one PSUM bank
    n = {448 | 512}
    nisa.nc_transpose(psum(32, 1024)[:, n : n + 128], sb(128, 32))
nisa.tensor_tensor: the memory of data1 and data2: at most one of them may be in PSUM: copy one to
    _pair(nl.add, {ps | sb}, ps)
nisa.tensor_tensor: op: multiply by nl.reciprocal
    _pair({nl.divide | nl.multiply})
nisa.tensor_tensor: op: the hardware has no such instruction: it runs in
    _pair({nl.mod | nl.subtract})
nisa.tensor_tensor: op: must be an operator of nki.language
    _pair({np | nl}.add)
nisa.tensor_tensor: op: must be an operator of two operands
    _pair({nl.exp | nl.maximum})
nisa.tensor_tensor: op: must be an operator of two operands
    _pair({nl.average | nl.add})
nisa.tensor_tensor: op: needs NeuronCore-v4  # accepted on trn3
    _pair({nl.abs_max | nl.maximum})
nisa.tensor_tensor: op: cannot access PSUM
    _pair(nl.power, first={ps | sb})
nisa.tensor_tensor: engine: nl.power runs on GpSimdE
    _pair(nl.power, engine={VECTOR | GPSIMD})
nisa.tensor_tensor: engine: GpSimdE cannot access PSUM
    _pair(first={ps | sb}, engine=GPSIMD)
nisa.tensor_tensor: engine: the allowed engines are vector, gpsimd
    _pair(engine={SCALAR | VECTOR})
nisa.tensor_tensor: dst.dtype: bitvec operators need integer dtypes
    _pair(nl.bitwise_xor, dtype={nl.float32 | nl.int32})
nisa.tensor_scalar: operand1: must be None where op1 is None
    _scalar(nl.add, 1.0, op1={None | nl.multiply}, operand1=2.0)
nisa.tensor_scalar: (op0, op1): both must be bitvec operators, or both arithmetic
    _scalar(nl.bitwise_and, 1, nl.int32, op1={nl.add | nl.bitwise_or}, operand1=2)
nisa.tensor_scalar: dst.dtype: bitvec operators need integer dtypes
    _scalar(nl.left_shift, 1, {nl.float32 | nl.uint16})
nisa.tensor_scalar: operand0: must be an int for nl.left_shift
    _scalar(nl.left_shift, {1.0 | 1}, nl.int32)

# nki.api.shared.rst names the shifts and nl.left_shift points to NumPy; neither says what a shift
# by all bits or more, or by less than none, gives.
nisa.tensor_scalar: operand0: shifted by 0 to 31
    _scalar(nl.right_shift, {32 | 31}, nl.int32)
nisa.tensor_scalar: operand1: shifted by 0 to 7
    _scalar(nl.bitwise_and, 255, nl.uint8, op1=nl.left_shift, operand1={-1 | 0})
nisa.tensor_scalar: operand: shifted by 0 to 15
    _scalar(nl.left_shift, sb(4, 1, dtype=nl.int16, fill={-1 | 15}), nl.int16)
nisa.tensor_scalar: data: shifted by 0 to 31
    data = sb(4, 4, dtype=nl.int32, fill={40 | 3})
    nisa.tensor_scalar(raw(4, 4, dtype=nl.int32), data, nl.left_shift, 40, reverse0=True)
nisa.tensor_tensor: data2: shifted by 0 to 31
    shifts = sb(4, 4, dtype=nl.int32, fill={40 | 31})
    data = sb(4, 4, dtype=nl.int32, fill=40)
    nisa.tensor_tensor(raw(4, 4, dtype=nl.int32), data, shifts, nl.left_shift)
nisa.tensor_scalar: operand0.dtype: bitvec operators need integer dtypes
    _scalar(nl.bitwise_and, sb(4, 1, dtype={nl.float32 | nl.int32}), nl.int32)
nisa.tensor_scalar: engine: bitvec operators run on VectorE
    _scalar(nl.bitwise_and, 1, nl.int32, engine={SCALAR | VECTOR})
nisa.tensor_scalar: operand0.dtype: must be one of float32
    _scalar(nl.add, sb(4, 1, dtype={nl.bfloat16 | nl.float32}))
nisa.tensor_scalar: operand1.dtype: must be one of float32
    _scalar(nl.add, 1.0, op1=nl.multiply, operand1=sb(4, 1, dtype={nl.int32 | nl.float32}))
nisa.tensor_scalar: operand0: must have 1 element a partition
    _scalar(nl.add, sb(4, {2 | 1}))
nisa.tensor_scalar: the number of partitions: all operands must cover the same number of
    _scalar(nl.add, sb({2 | 4}, 1))
nisa.tensor_scalar: operand0: must be a number
    _scalar(nl.add, {"1" | 1})
nisa.tensor_scalar: operand0: must be None or 0, as nl.abs has one operand
    _scalar(nl.abs, {1.0 | 0})
nisa.tensor_scalar: op0: needs NeuronCore-v4  # accepted on trn3
    _scalar({nl.square | nl.abs}, None)
nisa.tensor_scalar: op0: must be an operator of one or two operands
    _scalar({nl.tanh | nl.maximum}, 0.0)
nisa.tensor_scalar: engine: GpSimdE runs tensor_scalar with nl.rsqrt only
    _scalar({nl.add | nl.rsqrt}, 0.0, engine=GPSIMD)
nisa.tensor_scalar: engine: GpSimdE cannot access PSUM
    _scalar(nl.rsqrt, 0.0, data={ps | sb})
nisa.tensor_scalar: engine: nl.rsqrt runs on GpSimdE
    _scalar(nl.rsqrt, 0.0, engine={VECTOR | nisa.engine.unknown})
nisa.tensor_scalar: engine: no tensor_scalar on NeuronCore-v2  # accepted on trn2
    _scalar(nl.multiply, 2.0, op1=nl.add, operand1=1.0, engine={SCALAR | VECTOR})
nisa.tensor_scalar: engine: ScalarE computes nl.multiply then nl.add,  # trn2, accepted on trn3
    _scalar({nl.subtract | nl.add}, 2.0, engine=SCALAR)
nisa.scalar_tensor_tensor: op1: must be an arithmetic operator, not a bitvec
    _three(op1={nl.bitwise_or | nl.maximum})
nisa.scalar_tensor_tensor: the memory of data and operand1: at most one of them may be in PSUM:
  copy one to
    _three(data=ps, operand1={ps | sb})
nisa.scalar_tensor_tensor: the number of elements a partition: all operands must have the same
  number of
    _three(n={8 | 4})
nisa.scalar_tensor_tensor: operand0: must have 1 element a partition
    _three(operand0=sb(4, {4 | 1}))
nisa.scalar_tensor_tensor: op0: must be an operator of two operands
    _three(op0={nl.abs | nl.subtract})
nisa.reciprocal: the number of elements a partition: all operands must have the same number of
    nisa.reciprocal(raw(4, 8), sb(4, {4 | 8}, fill=1))

# Reductions and statistics.
nisa.tensor_reduce: axis: to reduce across the partitions, axis 0
    nisa.tensor_reduce(raw(4, 1), nl.add, sb(4, 8), axis={(0, 1) | 1})
nisa.tensor_reduce: axis: must be the last ones of the axes 1 to 2:
    nisa.tensor_reduce(raw(4, 2), nl.add, sb(4, 2, 2), axis={1 | 2})
nisa.tensor_reduce: axis: must be the last ones of the axes 1 to 2:
    nisa.tensor_reduce(raw(4, 2), nl.add, sb(4, 2, 2), axis={5 | -1})
nisa.tensor_reduce: op: must be an operator that can reduce
    nisa.tensor_reduce(raw(4, 1), {nl.equal | nl.multiply}, sb(4, 8), axis=1)
nisa.tensor_reduce: op: only nisa.tensor_partition_reduce can average
    nisa.tensor_reduce(raw(4, 1), {nl.average | nl.add}, sb(4, 8), axis=1)
nisa.tensor_reduce: dst: must have 2 elements a partition
    nisa.tensor_reduce(raw(4, {4 | 2}), nl.add, sb(4, 2, 3), axis=-1)
nisa.tensor_reduce: negate: a bitvec operator cannot negate its result
    tile = sb(4, 8, dtype=nl.int32)
    nisa.tensor_reduce(raw(4, 1, dtype=nl.int32), nl.bitwise_or, tile, 1, negate={True | False})
nisa.tensor_reduce: data.dtype: bitvec operators need integer dtypes
    tile = sb(4, 8, dtype={nl.float32 | nl.int32})
    nisa.tensor_reduce(raw(4, 1, dtype=nl.int32), nl.bitwise_or, tile, 1)
nisa.tensor_partition_reduce: op: must be nl.add, nl.average, nl.maximum,
    nisa.tensor_partition_reduce(raw(1, 4), {nl.multiply | nl.average}, sb(8, 4))
nisa.tensor_partition_reduce: dst: must have 1 partition
    nisa.tensor_partition_reduce(raw({2 | 1}, 4), nl.add, sb(8, 4))
nisa.tensor_partition_reduce: data: must be in SBUF
    nisa.tensor_partition_reduce(raw(1, 4), nl.add, {ps | sb}(8, 4))
nisa.tensor_partition_reduce: dst: must have 4 elements a partition
    nisa.tensor_partition_reduce(raw(1, {8 | 4}), nl.add, sb(8, 4))
nisa.bn_stats: data: at most 512
    nisa.bn_stats(raw(4, 6), sb(4, {513 | 512}))
nisa.bn_stats: dst: must have 6 elements a partition
    nisa.bn_stats(raw(4, {3 | 6}), sb(4, 32))
nisa.bn_aggr: data: a multiple of 3
    nisa.bn_aggr(raw(4, 2), sb(4, {8 | 6}, fill=1))
nisa.bn_aggr: dst: must have 2 elements a partition
    nisa.bn_aggr(raw(4, {6 | 2}), sb(4, 6, fill=1))
nisa.max8: src: 8 to 16384
    nisa.max8(raw(4, 8), sb(4, {7 | 8}))
nisa.max8: src: 8 to 16384
    nisa.max8(raw(1, 8), sb(1, {16385 | 16384}))
nisa.max8: src: at most 3
    nisa.max8(raw(4, 8), sb(*{(4, 2, 2, 4) | (4, 4, 4)}))
nisa.max8: dst: must have the shape (partitions, 8)
    nisa.max8(raw(*{(4, 2, 4) | (4, 8)}), sb(4, 16))
nisa.tensor_tensor_scan: op0: must be an arithmetic operator
    _scan(op0={nl.bitwise_and | nl.maximum})
nisa.tensor_tensor_scan: the memory of data0 and data1: at most one of them may be in PSUM: copy
  one to
    _scan(data0=ps, data1={ps | sb})
nisa.tensor_tensor_scan: initial: must have 1 element a partition
    _scan(initial=sb(4, {2 | 1}))
nisa.tensor_tensor_scan: the number of elements a partition: all operands must have the same number
  of
    _scan(n={8 | 4})
nisa.activation: op: must be an activation function
    _activate({nl.maximum | nl.tanh})
nisa.activation: an element of data: is valid for
    _activate(nl.log, fill=2.0 ** (-{65 | 64}))
nisa.activation: scale.dtype: must be one of float32
    _activate(scale=sb(4, 1, dtype={nl.bfloat16 | nl.float32}))
nisa.activation: scale: must have 1 element a partition
    _activate(scale=sb(4, {4 | 1}))
nisa.activation: bias: needs NeuronCore-v3  # accepted on trn2
    _activate(bias={1.0 | sb(4, 1)})
nisa.activation: bias: needs NeuronCore-v3  # accepted on trn2
    _activate(nl.reciprocal, bias={sb(4, 1) | None})
nisa.activation: bias.dtype: must be another dtype than tfloat32
    _activate(bias=sb(4, 1, dtype={nl.tfloat32 | nl.bfloat16}))
nisa.activation: reduce_op: must be nl.add
    _activate(reduce_op={nl.maximum | nl.add}, reduce_res=raw(4, 1), reduce_cmd=RESET_REDUCE)
nisa.activation: reduce_op: must be nl.add with reduce_cmd.reset_reduce
    _activate(reduce_op={None | nl.add}, reduce_cmd=RESET_REDUCE)
nisa.activation: reduce_cmd: activation does not support it
    _activate(reduce_op=nl.add, reduce_cmd={LOAD_REDUCE | RESET_REDUCE})
nisa.activation: reduce_cmd: must be a member of nki.isa.reduce_cmd
    _activate(reduce_op=nl.add, reduce_cmd={3 | RESET_REDUCE})
nisa.activation_reduce: reduce_res: must have 1 element a partition
    nisa.activation_reduce(raw(4, 4), nl.exp, sb(4, 4), nl.add, raw(4, {4 | 1}))
nisa.activation_reduce: reduce_op: must be nl.add
    nisa.activation_reduce(raw(4, 4), nl.exp, sb(4, 4), {nl.minimum | nl.add}, raw(4, 1))
nisa.iota: dst: must be in SBUF
    nisa.iota(raw(4, 8, buffer={nl.psum | nl.sbuf}), [[1, 8]])
nisa.iota: pattern: 1 to 4 pairs
    nisa.iota(raw(4, 32), {[[1, 2]] * 5 | [[1, 2]] * 3 + [[1, 4]]})
nisa.iota: pattern: dst has 8 elements a partition
    nisa.iota(raw(4, 8), {[[1, 4]] | [[4, 2], [1, 4]]})
nisa.iota: offset: must be an int32
    nisa.iota(raw(4, 8), [[1, 8]], offset=(1 << 31) - {0 | 1})
nisa.iota: channel_multiplier: must be an int32
    nisa.iota(raw(4, 8), [[1, 8]], channel_multiplier={0.5 | 1})
nisa.affine_select: on_true_tile: must be in SBUF
    _affine(on_true={ps | sb})
nisa.affine_select: cmp_op: must be a comparison
    _affine(cmp_op={nl.add | nl.equal})
nisa.affine_select: on_false_value: must be a float32 number
    _affine(on_false={sb(4, 1) | -1.0})
nisa.affine_select: pattern: dst has 8 elements a partition
    _affine(n={4 | 8})
nisa.select_reduce: predicate.dtype: int16, int8, uint16, uint8
    _select(predicate=sb(4, 8, dtype={nl.int32 | nl.int16}))
nisa.select_reduce: on_true.dtype: must not be tfloat32, int32 or uint32
    _select(on_true=sb(4, 8, dtype={nl.int32 | nl.int16}))
nisa.select_reduce: the memory of predicate and on_true: at most one of them may be in PSUM: copy
  one to
    _select(predicate={ps | sb}(4, 8, dtype=nl.uint8), on_true=ps(4, 8))
nisa.select_reduce: reduce_op: must be nl.maximum
    _select(reduce_op={nl.add | nl.maximum})
nisa.select_reduce: reduce_res: must have 1 element a partition
    _select(reduce_res=raw(4, {8 | 1}), reduce_cmd=RESET_REDUCE)
nisa.select_reduce: reduce_res.dtype: must be one of
    _select(reduce_res=raw(4, 1, dtype={nl.int32 | nl.bfloat16}), reduce_cmd=RESET_REDUCE)
nisa.select_reduce: reduce_cmd: this instruction does not support it
    _select(reduce_cmd={LOAD_REDUCE | RESET_REDUCE})
nisa.range_select: instruction: needs NeuronCore-v3  # accepted on trn2
    {_range() | None}
nisa.range_select: on_true_tile.dtype: must be one of  # trn2
    _range(on_true={nl.int32 | nl.bfloat16})
nisa.range_select: bound0.dtype: must be one of float32  # trn2
    _range(bound={nl.bfloat16 | nl.float32})
nisa.range_select: bound0: must have 1 element a partition  # trn2
    _range(width={2 | 1})
nisa.range_select: comp_op: must be nl.equal, nl.less, nl.less_equal,  # trn2
    _range(comp_op1={nl.not_equal | nl.equal})
nisa.range_select: comp_op1: must be a comparison  # trn2
    _range(comp_op1={nl.add | nl.less_equal})
nisa.range_select: on_false_value: FP32_MIN  # trn2
    _range(on_false_value={0.0 | float(np.finfo(np.float32).min)})
nisa.range_select: range_start: below 2^24  # trn2
    _range(range_start=(1 << 24) - {7 | 8})

# Registers.
nisa.register_alloc: x: must be an int or None
    nisa.register_alloc({1.0 | 1})

# nki.isa.register_alloc: "64x 32-bit registers per engine sequencer in NeuronCore v2-v4".
nisa.register_alloc: x: a register holds 32 bits
    for value in (-(2**31), {2**40 | 2**32 - 1}):
        nisa.register_alloc(value)
nisa.register_move: src: a register holds 32 bits
    nisa.register_move(nisa.register_alloc(), {-(2**31) - 1 | -(2**31)})
nl.fori_loop: a bound: a register holds 32 bits
    value = {2**40 | 2**31 - 1}
    nl.fori_loop(value - 1, value, lambda i: None)
nisa.register_store: src: must be from -128 to 127 for a dst of int8
    nisa.register_store(raw(1, 1, dtype=nl.int8), nisa.register_alloc({128 | -128}))
nisa.register_move: src: must be an int or a VirtualRegister
    nisa.register_move(nisa.register_alloc(), {sb(1, 1) | nisa.register_alloc(3)})
nisa.register_move: dst: must be a VirtualRegister
    nisa.register_move({0 | nisa.register_alloc()}, 3)
nisa.register_load: src: a tensor with one element
    nisa.register_load(nisa.register_alloc(), sb(1, {2 | 1}, dtype=nl.int32))
nisa.register_load: src: must be in HBM or SBUF
    nisa.register_load(nisa.register_alloc(), {ps | sb}(1, 1, dtype=nl.int32))
nisa.register_store: dst: a tensor with one element
    nisa.register_store(raw(*{(1, 2) | (1,)}, dtype=nl.int32), nisa.register_alloc(1))
VirtualRegister: its value: an instruction reads it: write the register
    nisa.register_store(raw(1, 1, dtype=nl.int32), nisa.register_alloc({None | 1}))
VirtualRegister: the loop variable: read-only  # NKI 0.6
    other = nisa.register_alloc()
    with pytest.warns(DeprecationWarning, match="fori_loop"):
        for i in nl.dynamic_range(1):
            nisa.register_move({i | other}, 0)

# Allocation.
nl.ndarray: shape[0]: at most 128 partitions
    raw({129 | 128}, 4)
nl.ndarray: the tile's size: SBUF of trn1 holds 196608 bytes a partition:  # accepted on trn2
    raw(1, (192 << 10) + {4 | 0}, dtype=nl.uint8)
nl.ndarray: the tile's size: SBUF of trn2 holds 229376 bytes a partition:  # trn2, accepted on trn3
    raw(1, (224 << 10) + {4 | 0}, dtype=nl.uint8)
nl.ndarray: the tile's size: PSUM of trn1 holds 16384 bytes a partition:
    psum(1, {4097 | 4096})
nl.ndarray: shape: at least 2 dimensions
    nl.ndarray({(8,) | (8, 1)}, nl.float32, buffer=nl.sbuf)
nl.ndarray: shape: positive sizes
    raw(8, {0 | 1})
nl.ndarray: buffer: nl.sbuf, nl.psum
    raw(8, 8, buffer={"sbuf" | nl.sbuf})
nl.ndarray: address: the tile ends outside of SBUF, which has 128
    nl.ndarray((4, 256), nl.float32, nl.sbuf, address=(0, (192 << 10) - {512 | 1024}))
nl.ndarray: address: the tile ends outside of SBUF, which has 128
    nl.ndarray((64, 4), nl.float32, nl.sbuf, address=({96 | 64}, 0))
nl.ndarray: address: must be a pair (partition, byte) in SBUF or PSUM,
    nl.ndarray((4, 4), nl.float32, {nl.hbm | nl.sbuf}, address=(0, 0))
nl.ndarray: address: must be the start of a PSUM bank: its byte a
    nl.ndarray((4, 4), nl.float32, nl.psum, address=(0, {1024 | 2048}))
nl.ndarray: address: which is live at the same time
    _placed(0, {1020 | 1024}, together=True)
nl.ndarray: address: which is live at the same time
    _placed(0, 512, together={True | False})
nl.ndarray: address: which is live at the same time
    _placed(2048, {2048 | 4096}, together=True, buffer=nl.psum)

# Views.
NkiTensor: the index of dimension 1: out of bounds
    raw(4, 8)[:, {8 | -8}]
NkiTensor: the index of dimension 1: out of bounds
    raw(4, 8)[:, 0 : {9 | 8}]
NkiTensor: the index of dimension 1: empty
    raw(4, 8)[:, 4 : {4 | 5}]
NkiTensor: the index of dimension 1: its step must be at least 1
    raw(4, 8)[:, 0 : 8 : {-1 | 2}]
NkiTensor: the index of dimension 1: must be an int, a slice, an Ellipsis or
    raw(4, 8)[:, {1.0 | 1}]
NkiTensor: the index of dimension 1: out of bounds
    raw(4, 8)[:, nl.ds(4, {5 | 4})]
NkiTensor: the index: it has more entries than the shape (4, 8)
    raw(4, 8)[{(0, 0, 0) | (0, 0)}]
NkiTensor: the index: at most one Ellipsis
    raw(4, 8, 2)[{(..., 0, ...) | (..., 0)}]
NkiTensor: (start, end, step) of slice(dim=1): 0 <= start < end <= 8
    raw(4, 8).slice(1, 0, {9 | 8})
NkiTensor: the index of dimension 1: out of bounds
    raw(4, 8).select(1, {-1 | 0})
NkiTensor: the index of select(dim=0): select cannot remove the partition dimension:
    raw(4, 8, 2).select({0 | 1}, 0)
NkiTensor: the index of select(dim=0): the partition dimension needs an index known at
    sb(4, 8, 2).select({0 | 1}, index(0))
NkiTensor: the index of select: a tensor can have only one dynamic index
    hbm(4, 4, 8).select(0, index(0)).select(0, {index(0) | 0})
NkiTensor: the dynamic index: must be in SBUF
    hbm(4, 8).select(0, {hbm(1, 1, dtype=nl.int32) | index(0)})
NkiTensor: the dynamic index: must have one element
    hbm(4, 8).select(0, {index(0, 1) | index(0)})
NkiTensor: dim of vector_select: must be 0
    hbm(4, 8).vector_select({1 | 0}, index(0, 1))
NkiTensor: the tensor's memory: vector_select needs a tensor in HBM
    {sb | hbm}(4, 8).vector_select(0, index(0, 1))
NkiTensor: the tensor of vector_select: a tensor can have only one dynamic index
    hbm(4, 8, 2).select(0, {index(1) | 1}).vector_select(0, index(0, 1))
NkiTensor: the index of dimension 0: cannot be indexed again
    hbm(4, 8).vector_select(0, index(0, 1))[{0:1 | :, 0:1}]
NkiTensor: dims of permute: dims[0] must be 0
    hbm(4, 8, 2).vector_select(0, index(0, 1)).permute({(1, 0, 2) | (0, 2, 1)})
NkiTensor: dim of flatten_dims: dimension 0 is the partition dimension, which
    hbm(4, 8, 2).vector_select(0, index(0, 1)).flatten_dims({0 | 1}, 2)
NkiTensor: the result of ap: vector_offset needs a tensor in HBM and
    {sb | hbm}(4, 8).ap([[8, 2], [1, 8]], vector_offset=index(0, 1))
NkiTensor: the result of ap: indirect_dim=0
    _pattern(vector_offset=index(0, 1), indirect_dim={1 | 0})
NkiTensor: indirect_dim of ap: the shape (4, 8) has no such dimension
    _pattern(scalar_offset=index(0), indirect_dim={2 | 1})
NkiTensor: the dynamic index of ap: ap accepts at most one of scalar_offset and
    _pattern(scalar_offset={index(0) | None}, vector_offset=index(0, 1))
NkiTensor: pattern of ap: it reaches outside of sbuf tile 4x8
    raw(4, 8).ap([[8, 4], [2, {5 | 4}]])
NkiTensor: pattern of ap: it reaches outside of sbuf tile 4x8
    raw(4, 8).ap([[8, 4], [1, 8]], offset={8 | 0})
NkiTensor: pattern of ap: it reaches outside of private_hbm tile
    hbm(4, 8).ap([[8, 4], [1, 8]], offset={1 | 0})
NkiTensor: pattern of ap: the partition stride must be the storage's free size 8
    raw(4, 8).ap([[{16 | 8}, 2], [1, 8]])
NkiTensor: pattern of ap: must have counts of at least 1 and strides of at
    raw(4, 8).ap([[8, 4], [{-1 | 0}, 8]])
NkiTensor: dims of permute: dims[0] must be 0
    raw(4, 8, 2).permute({(1, 0, 2) | (0, 2, 1)})
NkiTensor: dims of permute: must be a permutation
    hbm(4, 8, 2).permute((1, 0, {1 | 2}))
NkiTensor: dim of broadcast: dimension 0 is the partition dimension, which
    raw(1, 1).broadcast({0 | 1}, 4)
NkiTensor: the size of dimension 1: broadcast needs a dimension of size 1
    raw(4, {2 | 1}).broadcast(1, 4)
NkiTensor: dim of expand_dim: must not be 0
    raw(4, 8).expand_dim({0 | 1})
NkiTensor: dim of squeeze_dim: dimension 0 is the partition dimension, which
    raw(1, 1, 8).squeeze_dim({0 | 1})
NkiTensor: the size of dimension 1: squeeze_dim needs a dimension of size 1
    raw(4, {2 | 1}, 8).squeeze_dim(1)
NkiTensor: shape of reshape_dim(dim=0): cannot be split
    raw(4, 8).reshape_dim(0, {(2, 2) | (4,)})
NkiTensor: shape of reshape_dim(dim=1): the number of elements must stay 8
    raw(4, 8).reshape_dim(1, ({3 | 2}, -1))
NkiTensor: dim of flatten_dims: dimension 0 is the partition dimension, which
    raw(4, 8, 2).flatten_dims({0 | 1}, 2)
NkiTensor: (start_dim, end_dim) of flatten_dims: these dimensions do not follow each other in
    raw(4, 8, 2).permute({(0, 2, 1) | (0, 1, 2)}).flatten_dims(1, 2)
NkiTensor: shape of reshape: partition dimension must stay 4
    raw(4, 8).reshape({(8, 4) | (4, 4, 2)})
NkiTensor: shape of reshape: the number of elements must stay 32
    raw(4, 8).reshape({(4, 9) | (4, 8, 1)})
NkiTensor: shape of reshape: does not allow this shape without a copy
    raw(4, 4, 4).permute({(0, 2, 1) | (0, 1, 2)}).reshape((4, 16))
NkiTensor: dst_pattern of rearrange: must name each of the dimensions ['p', 'a', 'b']
    raw(4, 8).rearrange(("p", ("a", "b")), ("p", "b", {"c" | "a"}), {"a": 2})
NkiTensor: dtype of view: must be contiguous
    raw(4, 8)[:, {slice(0, 8, 2) | slice(0, 4)}].view(nl.int16)
NkiTensor: dtype of view: does not hold whole elements of
    raw(4, {7 | 8}, dtype=nl.uint8).view(nl.int32)
NkiTensor: dtype of view: an indirect view cannot be reinterpreted
    {hbm(4, 8).vector_select(0, index(0, 1)) | hbm(4, 8)}.view(nl.int32)
NkiTensor: dtype of view: are not whole numbers of elements
    raw(4, 2, {6 | 8}, dtype=nl.uint8)[:, :, 0:4].view(nl.int32)
NkiTensor: dim: the shape (4, 1, 8) has no such dimension
    raw(4, 1, 8).squeeze_dim({3 | -2})
NkiTensor: dim of expand_dim: must be from 0 to 2
    raw(4, 8).expand_dim({3 | 2})
NkiTensor: src_pattern of rearrange: must have 2 entries, one for each dimension
    shape = {("p", "a", "b") | ("p", "a")}
    raw(4, 8).rearrange(shape, shape)
NkiTensor: the index of dimension 0: cannot select a partition
    register = nisa.register_alloc(0)
    sb(4, 8)[{(register, 0) | (0, register)}]
NkiTensor: the tensor of ap: a tensor can have only one dynamic index, and no
    view = hbm(4, 8, 2)
    view = {view.select(0, index(1)) | view}
    view.ap([[2, 8], [1, 2]], scalar_offset=index(0))

# Loops and scheduling.
nisa.tensor_copy: operand: the body of a fori_loop or while_loop allocated
    kept = hidden(sb(4, 4))
    def body(i):
        inner = sb(4, 4)
        nisa.tensor_copy(raw(4, 4), inner)
        {kept.set(inner) | None}
    nl.fori_loop(0, 2, body)
    nisa.tensor_copy(raw(4, 4), kept.get())
nisa.dma_copy: operand: the body of a fori_loop or while_loop allocated
    kept = hidden(sb(4, 4))
    def body(register):
        inner = sb(4, 4)
        {kept.set(inner) | None}
        nisa.register_move(register, 0)
        return register
    nl.while_loop(nisa.register_alloc(1), body)
    nisa.dma_copy(hbm(4, 4), kept.get())
nisa.tensor_copy: operand: the body of a fori_loop or while_loop allocated
    kept = hidden(sb(4, 4))
    def body(i):
        nisa.tensor_copy(raw(4, 4), kept.get())
        {kept.set(sb(4, 4)) | None}
    nl.fori_loop(0, 2, body)
nl.fori_loop: body_fun: must not return a value
    nl.fori_loop(0, 2, lambda i: {i | None})
nl.fori_loop: step: positive compile-time int
    nl.fori_loop(0, 2, lambda i: None, step={0 | 2})
nl.fori_loop: step: positive compile-time int
    nl.fori_loop(0, 2, lambda i: None, step={nisa.register_alloc(1) | 1})
nl.fori_loop: a bound: must be an int, a VirtualRegister, or in NKI 0.7 an NkiScalar
    nl.fori_loop(0, {1.5 | nisa.register_alloc(1)}, lambda i: None)
nl.dynamic_range: the range: a loop on the device cannot be inside of  # NKI 0.6
    with pytest.warns(DeprecationWarning, match="fori_loop"), {nl.no_reorder() | nullcontext()}:
        for _ in nl.dynamic_range(2):
            with nl.no_reorder():
                sb(4, 4)
nl.fori_loop: the range: a loop on the device cannot be inside of
    with nl.no_reorder():
        {nl.fori_loop(0, 2, lambda i: None) | [sb(4, 4) for _ in nl.static_range(2)]}
nl.while_loop: the range: a loop on the device cannot be inside of
    with {nl.no_reorder() | nullcontext()}:
        nl.while_loop(nisa.register_alloc(0), lambda r: r)
nl.while_loop: init: must be a VirtualRegister
    nl.while_loop({0 | nisa.register_alloc(0)}, lambda r: r)
nl.while_loop: the result of body_fun: must be a VirtualRegister, the condition of the
    nl.while_loop(nisa.register_alloc(1), lambda r: {None | nisa.register_alloc(0)})
depends_on: a producer: an edge cannot leave a loop
    tile = sb(4, 4)
    found = hidden(nisa.reciprocal(raw(4, 4), tile))
    def body(i):
        instruction = nisa.reciprocal(raw(4, 4), tile)
        {found.set(instruction) | None}
    nl.fori_loop(0, 1, body)
    nisa.reciprocal(raw(4, 4), tile).depends_on(found.get())
depends_on: a producer: an edge cannot leave a loop
    tile = sb(4, 4)
    inside = hidden(None)
    def inner(i):
        inside.set(nisa.reciprocal(raw(4, 4), tile))
    def outer(i):
        first = nisa.reciprocal(raw(4, 4), tile)
        nl.fori_loop(0, 1, inner)
        {
            first.depends_on(inside.get())
            | nl.fori_loop(0, 1, lambda j: nisa.memset(raw(4, 4), 0).depends_on(first) and None)
        }
    nl.fori_loop(0, 1, outer)
nl.divide: the function: multiply by nl.reciprocal
    x, y = sb(4, 4), sb(4, 4, fill=2)
    {nl.divide(x, y) | nl.multiply(x, nl.reciprocal(y))}
nl.mod: the function: the hardware has no such instruction: it runs in
    {nl.mod | nl.subtract}(sb(4, 4), sb(4, 4))
nl.fmod: the function: the hardware has no such instruction: it runs in
    {nl.fmod | nl.subtract}(sb(4, 4), sb(4, 4))
nl.power: (x, y): both must be tiles: make a tile of a number by
    nl.power(sb(4, 4), {2.0 | nl.full((4, 4), 2.0, nl.float32)})
nl.add: the shape: x and y must have the same shape, except for dimensions of size 1
    nl.add(sb(4, 8), sb(4, {2 | 1}))
nl.add: (x, y): at least one must be a tile
    nl.add({1.0 | sb(4, 4)}, 2.0)
nl.matmul: transpose_x: must be True: pass x transposed
    nl.matmul(sb(8, 8), sb(8, 8), transpose_x={False | True})
nisa.tensor_scalar: engine: GpSimdE cannot access PSUM
    nl.rsqrt({ps | sb}(4, 4))
nisa.dma_copy: src: DMA cannot access PSUM
    nl.store(hbm(4, 4), {ps | sb}(4, 4))
nl.store: value: must be a tile in SBUF
    nl.store(hbm(4, 4), {1.0 | sb(4, 4)})
nl.exp: x: must be a tile
    nl.exp({1.0 | sb(4, 4)})
nl.var: axis: must be all free axes
    nl.var(sb(4, 2, 8), axis={2 | (1, 2)})
nl.softmax: axis: must cover all free axes
    nl.softmax(sb(4, 2, 8), axis={-1 | (1, 2)})
nl.load_transpose2d: src: must be a view with 2 dimensions of an argument
    {nl.load_transpose2d(hbm(4, 8)) | None}
nisa.tensor_reduce: axis: to reduce across the partitions, axis 0
    nl.sum(sb(4, 8), axis={0 | 1})
nl.transpose: x: must have 2 dimensions
    nl.transpose({sb(4, 2, 2) | sb(4, 4)})
nl.broadcast_to: shape: must have the sizes of x, (4, 1), except where x
    nl.broadcast_to(sb(4, 1), ({8 | 4}, 8))
nisa.tensor_tensor: dst.dtype: bitvec operators need integer dtypes
    dtype = {nl.float32 | nl.int8}
    nl.bitwise_and(sb(4, 4, dtype=dtype), sb(4, 4, dtype=dtype))

# Capacity: what lives at the same time must fit.
kernel: the tile to allocate: trn1 has 196608: use fewer or smaller tiles  # accepted on trn2
    _live(50 << 10, 4, together={True | False})
kernel: the tile to allocate: trn1 has 16384: use fewer or smaller tiles
    _live(2048, {9 | 8}, together=True, buffer=nl.psum)
kernel: the tile to allocate: trn1 has 16384: use fewer or smaller tiles
    _live(2048, 20, together={True | False}, buffer=nl.psum)
kernel: the tile to allocate: trn1 has 16384: use fewer or smaller tiles
    # 1.5 KiB take a bank; tiles of half a bank share one.
    _live({1536 | 1024}, 9, together=True, buffer=nl.psum)

# Memory that was never written, and the budget of DMA-written SBUF.
nisa.tensor_copy: operand: nothing has written
    tile = raw(4, 8)
    nisa.memset(tile[:, 0 : {4 | 8}], 0)
    nisa.tensor_copy(raw(4, 8), tile)
nisa.dma_copy: operand: nothing has written
    scratch = nl.ndarray((4, 8), nl.float32, buffer=nl.private_hbm)
    {None | nisa.dma_copy(scratch, sb(4, 8))}
    nisa.dma_copy(raw(4, 8), scratch)
nisa.nc_matmul: operand: nothing has written
    nisa.nc_matmul(psum(8, 8), sb(8, 8), {raw | sb}(8, 8))
nisa.dma_copy: SBUF that DMA writes and that is live at once: at most 65536 bytes a partition
    _loads(together={True | False})
"""

RULE = re.compile(r"(\S.*(?:\n  \S.*)?)\n((?: {4}.*\n?)+)")


def rules():
    """Returns the parts of the message, the code, the chips and the release of each rule."""
    found = []
    for block in re.split(r"\n+(?=\S)", TABLE.strip()):
        if block.startswith("#"):
            continue
        heading, code = RULE.fullmatch(block).groups()
        message, _, conditions = " ".join(heading.split()).partition(" # ")
        chip = re.search(r"^trn\d", conditions)
        accepted_on = re.search(r"accepted on (trn\d)", conditions)
        where = chip[0] if chip else "trn1", accepted_on and accepted_on[1]
        release = "0.6" if "NKI 0.6" in conditions else "0.7"
        found.append(
            pytest.param(
                *message.split(": ", 2), textwrap.dedent(code), *where, release, id=message
            )
        )
    return found


@pytest.mark.parametrize("instruction, operand, match, code, chip, accepted_on, release", rules())
def test_rule(instruction, operand, match, code, chip, accepted_on, release, monkeypatch):
    def attempt(code):
        run(kernel_of(code, globals() | NAMES))

    monkeypatch.setenv(TARGET, chip)
    with nki_sim.strict(), releases.select(release):
        with pytest.raises(NkiValidationError) as caught:
            attempt(broken(code))
        error = caught.value
        assert (error.instruction, error.operand) == (instruction, operand)
        assert match in error.rule
        text = str(error)
        assert text.startswith(f"{instruction}: {operand} is {error.value}, but ")
        assert text.endswith(error.rule)
        attempt(legal(code))
        if accepted_on:
            monkeypatch.setenv(TARGET, accepted_on)
            attempt(broken(code))


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
    refuses("at most 512 on trn1", nki_sim.dry_run, lambda: _matmul(n=513))
    refuses("trn1 has 196608: use fewer", nki_sim.dry_run, lambda: _live(50 << 10, 4, True))
    nki_sim.dry_run(lambda: _live(50 << 10, 4, False))


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

    for pair in ([array, array], ([array], array)):
        with pytest.raises(TypeError, match="pass a tuple"):
            run(kernel, pair)
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


@pytest.mark.parametrize("accumulate", [None, True])
def test_v4_accumulates_onto_what_other_instructions_wrote(accumulate, monkeypatch):
    monkeypatch.setenv(TARGET, "trn3")

    def kernel(x):
        tile, total = nl.load(x), psum(8, 8)
        nisa.memset(total, 1.0)
        nisa.nc_matmul(total, tile, tile, accumulate=accumulate)
        return to_hbm(total)

    x = sample((8, 8))
    with nki_sim.strict():
        np.testing.assert_allclose(run(kernel, x), x.T @ x + 1, rtol=1e-5)
