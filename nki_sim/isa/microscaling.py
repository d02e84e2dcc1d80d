"""Microscaling (MX): quantisation on VectorE, and products of quantised tiles on TensorE (v4).

An element of a packed dtype holds four numbers of the contraction. The 8 partitions of a group
share one scale for each such element, that is, for 32 numbers. The scale is a power of two. A
quadrant of 32 partitions of data has its scales in four partitions of the same quadrant, which
begin at its partition 0, 4, 8 or 12 (nki/deep-dives/mxfp-matmul.rst).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array
from nki_sim.instructions.instruction import NkiInstruction, instruction
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import active
from nki_sim.views.tensor import NkiTensor

from .costs import stream
from .rules import PSUM, SBUF, Rules, free_size, start_partition
from .tensor_engine import _array_tile, _matmul_cost, _note_device_rules, _with_accumulation

_GROUP = 8  # partitions that share a scale
_QUADRANT = 32
_QUADRANT_SCALES = _QUADRANT // _GROUP
_QUANTIZED_A_CYCLE = 4  # elements a partition [v4, MX quantization]
_SCALE_DTYPES = ("float8_e8m0fnu", "uint8")
_NOT_A_NUMBER = 255  # float8_e8m0fnu
_BIAS = 127
_ELEMENTS = {  # dtype of a single number, and its largest exponent
    "float8_e5m2_x4": (ml_dtypes.float8_e5m2, 15),
    "float8_e4m3fn_x4": (ml_dtypes.float8_e4m3fn, 8),
    "float4_e2m1fn_x4": (ml_dtypes.float4_e2m1fn, 2),
}


def quantize_mx(
    dst: NkiTensor, src: NkiTensor, dst_scale: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Quantises (partitions, 4 n) floats of 16 bits to (partitions, n) elements and scales."""
    rules = Rules("nisa.quantize_mx")
    rules.generation("instruction", "quantize_mx", 4)
    rules.tile("src", src, SBUF)
    scales = _scale_views(rules, "dst_scale", dst_scale, src)
    return _quantize(dst, src, *scales, name=name)


@instruction
def _quantize(
    dst: NkiTensor,
    src: NkiTensor,
    *scale: NkiTensor,
) -> Issue:
    """Quantises; ``scale`` are the views for the scales of each quadrant."""
    rules = Rules("nisa.quantize_mx")
    rules.tile("src", src, SBUF, ("float16", "bfloat16"))
    rules.output("dst", dst, SBUF, ("float8_e5m2_x4", "float8_e4m3fn_x4"))
    rules.same_partitions(dst=dst, src=src)
    rules.partitions_in("src", src, _QUADRANT)
    if free_size(src) % 4:
        raise rules.fail_free_size("src", src, "must have a multiple of 4 elements a partition")
    rules.free_size_is("dst", dst, free_size(src) // 4)
    for i, t in enumerate(scale):
        rules.free_size_is("dst_scale", t, free_size(dst))
        rules.written_once("dst_scale", t)
        rules.writes[f"scale{i}"] = t
    element, largest = _ELEMENTS[dst.dtype]
    rows, shape = src.shape[0], dst.shape

    def run(outs: list[Array], ins: list[Array]) -> None:
        groups = dtypes.to_float32(ins[0]).reshape(rows // _GROUP, _GROUP, -1, 4)
        codes = _codes(rules, np.abs(groups).max(axis=(1, 3)), largest)
        numbers = (groups / _powers(codes)[:, None, :, None]).astype(element).reshape(rows, -1)
        outs[0][...] = numbers.view(np.uint32).reshape(shape)
        for quadrant, out in enumerate(outs[1:]):
            first = quadrant * _QUADRANT_SCALES
            chosen = codes[first : first + _QUADRANT_SCALES].reshape(out.shape)
            out[...] = chosen.view(out.dtype)

    return stream(rules, "vector", run, 1 / _QUANTIZED_A_CYCLE, free_size(src))


def _codes(rules: Rules, largest: Array, exponent: int) -> Any:
    """Returns scales as bytes: floor(log2(largest)) - (exponent - 1), 2^-127 for zeros."""
    finite = np.isfinite(largest)
    if not finite.all():
        rule = (
            "no document says how infinities and NaN are quantised; the simulator makes the whole "
            "group NaN"
        )
        active().warn(rules.instruction, "an element of src", largest[~finite][0], rule)
    _, power = np.frexp(np.where(finite, largest, 1.0))  # largest is in [2^(power-1), 2^power)
    code = np.clip(power - 1 - (exponent - 1) + _BIAS, 0, _NOT_A_NUMBER - 1)
    code = np.where(largest == 0, 0, code)
    return np.where(finite, code, _NOT_A_NUMBER).astype(np.uint8)


def _powers(codes: Array) -> Any:
    # 2^-127 is a subnormal number.
    powers = np.ldexp(1.0, codes.astype(np.int32) - _BIAS).astype(np.float32)
    return np.where(codes == _NOT_A_NUMBER, np.float32(np.nan), powers)


def _scale_views(rules: Rules, name: str, scale: NkiTensor, data: NkiTensor) -> list[NkiTensor]:
    """Returns the four partitions of scales for each quadrant of ``data``."""
    rules.tensor(name, scale)
    if scale.buffer not in SBUF:
        raise rules.fail(name, f"a tensor in {scale.buffer.value}", "must be in SBUF")
    rules.dtype(name, scale, _SCALE_DTYPES)
    if scale._dynamic is not None:
        raise rules.fail(name, "an indirect view", "must have an address known at compile time")
    start = start_partition(scale)
    offset = start % _QUADRANT
    if offset not in (0, 4, 8, 12) or start // _QUADRANT != start_partition(data) // _QUADRANT:
        rule = "must start at partition 0, 4, 8 or 12 of the quadrant in which its data starts"
        raise rules.fail(name, f"a tile that starts at partition {start}", rule)
    quadrants = -(-data.shape[0] // _QUADRANT)
    needed = (quadrants - 1) * _QUADRANT + _QUADRANT_SCALES
    if scale.shape[0] < needed:
        rule = f"must have {needed} partitions or more: four in each quadrant of its data"
        raise rules.fail_partitions(name, scale, rule)
    firsts = [_QUADRANT * i for i in range(quadrants)]
    return [scale[p : p + _QUADRANT_SCALES] for p in firsts]


def nc_matmul_mx(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    stationary_scale: NkiTensor,
    moving_scale: NkiTensor,
    tile_position: tuple[int, int] | None = None,
    tile_size: tuple[int, int] | None = None,
    accumulate: bool | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Computes ``(stationary[4 K, M] * scales).T @ (moving[4 K, N] * scales)`` in PSUM."""
    rules = Rules("nisa.nc_matmul_mx")
    rules.generation("instruction", "nc_matmul_mx", 4)
    for label, t in (("stationary", stationary), ("moving", moving)):
        rules.tile(label, t, SBUF)
    views = _scale_views(rules, "stationary_scale", stationary_scale, stationary)
    views += _scale_views(rules, "moving_scale", moving_scale, moving)
    tiles = (() if tile_position is None else tile_position, () if tile_size is None else tile_size)
    return _matmul(dst, stationary, moving, *tiles, accumulate, *views, name=name)


@instruction
def _matmul(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    tile_position: tuple[int, ...],
    tile_size: tuple[int, ...],
    accumulate: bool | None,
    *scale: NkiTensor,
) -> Issue:
    """Multiplies; ``scale`` are the views for the quadrants of stationary, then of moving."""
    rules = Rules("nisa.nc_matmul_mx")
    rules.output("dst", dst, PSUM, ("float32", "bfloat16"))
    k, m, n = _sizes(rules, dst, stationary, moving, tile_size)
    rows, columns = _array_tile(rules, tile_position, tile_size, stationary, moving)
    if columns != (0, 4):
        rule = "must be (rows, 128) at tile_position (row, 0): there are no column tiles"
        raise rules.fail("tile_size", tile_size, rule)
    quadrants = len(scale) // 2
    for i, t in enumerate(scale):
        of, size = ("stationary_scale", m) if i < quadrants else ("moving_scale", n)
        rules.free_size_is(of, t, size)
    reads = ("stationary", "moving", *[f"scale{i}" for i in range(len(scale))])
    issue = Issue(rules.instruction, "tensor", 0.0, None, ("dst",), reads)
    # A cycle processes as many columns as at 16 bits, with four times the depth [v4, quad MX].
    _matmul_cost(issue, stationary, moving, m, n, False)
    issue.macs = 4 * k * m * n
    issue.rows, issue.columns = rows, columns
    issue.may_overtake = issue.may_overtake or rows != (0, 4)
    issue.takes_banks = rows != (0, 4) and not rules.chip.tiles_share_bank
    dtypes_ = stationary.dtype, moving.dtype
    product = _product(dtypes_, quadrants)
    issue.run, issue.onto = _with_accumulation(rules, product, accumulate, dst)
    _note_device_rules(rules, issue, (stationary, k, m), tile_size, accumulate)
    return issue


def _sizes(
    rules: Rules,
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    tile_size: tuple[int, ...],
) -> tuple[int, int, int]:
    for operand, t in (("stationary", stationary), ("moving", moving)):
        rules.dtype(operand, t, _ELEMENTS)
        rules.partitions_in(operand, t, _QUADRANT)
    rules.same_partitions(stationary=stationary, moving=moving)
    k, m, n = stationary.shape[0], free_size(stationary), free_size(moving)
    if tile_size and k > tile_size[0]:
        rule = f"must have at most {tile_size[0]} partitions, the rows of tile_size"
        raise rules.fail("stationary", f"a tile of {k} partitions", rule)
    if m % 2 or m > 128:
        raise rules.fail("the free size of stationary", m, "must be even and at most 128")
    limit = 4096 if dst.dtype == "float32" else 8192
    if n > limit:
        rule = f"must be at most {limit} with dst in {dst.dtype}"
        raise rules.fail("the free size of moving", n, rule)
    if dst.shape[0] != m or free_size(dst) != n:
        raise rules.fail_shape("dst", dst, f"must have {m} partitions of {n} elements")
    return k, m, n


def _product(names: tuple[str, str], quadrants: int) -> Any:
    """Returns a function that dequantises the operands, and multiplies them in float32."""

    def run(ins: list[Array], out: Array | None = None) -> Any:
        left = _dequantized(ins[0], names[0], ins[2 : 2 + quadrants])
        right = _dequantized(ins[1], names[1], ins[2 + quadrants :])
        return np.matmul(left.T, right, out=out)

    return run


def _dequantized(data: Array, name: str, scales: list[Array]) -> Any:
    """Returns (4 k, free) numbers in float32 from k partitions of packed elements."""
    k = data.shape[0]
    numbers = _unpacked(np.ascontiguousarray(data).reshape(k, -1), name)
    codes = np.concatenate([s.view(np.uint8).reshape(_QUADRANT_SCALES, -1) for s in scales])
    numbers *= np.repeat(_powers(codes), _GROUP, axis=0)[:, :, None]
    return numbers.transpose(0, 2, 1).reshape(4 * k, -1)


def _unpacked(data: Array, name: str) -> Any:
    """Returns the four numbers of each packed element, (k, free, 4), the lowest bits first."""
    element = _ELEMENTS[name][0]
    if name == "float4_e2m1fn_x4":
        shifts = np.arange(0, 16, 4, dtype=np.uint16)
        nibbles = (data[:, :, None] >> shifts & np.uint16(15)).astype(np.uint8)
        return nibbles.view(element).astype(np.float32)
    return data.view(np.uint8).reshape(*data.shape, 4).view(element).astype(np.float32)
