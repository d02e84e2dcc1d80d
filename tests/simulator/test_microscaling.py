"""quantize_mx and nc_matmul_mx (NeuronCore-v4): comparison with NumPy, and refused arguments.

The formulas come from nki.isa.quantize_mx, the layouts from nki/deep-dives/mxfp-matmul.rst.
"""

import ml_dtypes
import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from tests.tolerances import near, sums

from .conftest import TARGET, new, refuses, run, sample, to_hbm, wide

ELEMENTS = {
    "float8_e4m3fn_x4": (ml_dtypes.float8_e4m3fn, 8),
    "float8_e5m2_x4": (ml_dtypes.float8_e5m2, 15),
}


@pytest.fixture(autouse=True)
def trn3(monkeypatch):
    monkeypatch.setenv(TARGET, "trn3")


def quantized(data, dtype):
    """(numbers of the element dtype, scales as powers of two) by the documented formula."""
    element, largest_exponent = ELEMENTS[dtype]
    groups = wide(data).reshape(len(data) // 8, 8, -1, 4)
    largest = np.abs(groups).max(axis=(1, 3))
    with np.errstate(divide="ignore"):
        powers = np.floor(np.log2(largest)) - (largest_exponent - 1)
    powers = np.where(largest == 0, -127, powers)
    scaled = groups / np.exp2(powers)[:, None, :, None]
    return scaled.astype(np.float32).astype(element).reshape(len(data), -1), powers


def quantize(data, dtype, scale_dtype="uint8", rows=0):
    def body(t):
        dst = new((t.shape[0], t.shape[1] // 4), dtype)
        scale = new((rows or t.shape[0], t.shape[1] // 4), scale_dtype)
        nisa.memset(scale, 1)
        nisa.quantize_mx(dst, t, scale)
        return dst, scale

    return run(body, data)


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize("scale_dtype", ["uint8", "float8_e8m0fnu"])
def test_quantize(dtype, scale_dtype):
    data = (sample((64, 32)) * 300).astype(ml_dtypes.bfloat16)
    data[8:16, 4:8] = 0
    numbers, powers = quantized(data, dtype)
    packed, scale = quantize(data, dtype, scale_dtype)
    assert packed.dtype == np.uint32
    np.testing.assert_array_equal(packed.view(np.uint8), numbers.view(np.uint8))
    codes = scale.view(np.uint8).astype(int)
    np.testing.assert_array_equal(codes[0:4], powers[0:4] + 127)
    np.testing.assert_array_equal(codes[32:36], powers[4:8] + 127)
    others = np.r_[4:32, 36:64]
    assert (codes[others] == codes[others[0]]).all()


def test_scales_of_one_quadrant_need_four_partitions():
    data = sample((32, 16), "float16")
    _, powers = quantized(data, "float8_e5m2_x4")
    _, scale = quantize(data, "float8_e5m2_x4", rows=4)
    np.testing.assert_array_equal(scale.astype(int), powers + 127)


@pytest.mark.lenient
def test_infinities_become_nan_with_a_warning():
    data = sample((32, 8), "float16")
    data[3, 2] = np.inf
    with pytest.warns(nki_sim.NkiSimulationWarning, match="no document says"):
        packed, scale = quantize(data, "float8_e4m3fn_x4", rows=4)
    assert scale[0, 0] == 255 and (scale[1:] < 255).all()


@pytest.mark.parametrize(
    ("shape", "dtype", "out", "rows", "match"),
    [
        ((32, 8), "float32", "float8_e5m2_x4", 4, "float16"),
        ((32, 8), "float16", "float4_e2m1fn_x4", 4, "float8_e5m2_x4"),
        ((16, 8), "float16", "float8_e5m2_x4", 4, "multiple of 32"),
        ((64, 8), "float16", "float8_e5m2_x4", 8, "must have 36"),
        ((32, 6), "float16", "float8_e5m2_x4", 4, "multiple of 4"),
    ],
)
def test_quantize_refuses(shape, dtype, out, rows, match):
    refuses(match, quantize, sample(shape, dtype), out, rows=rows)


def test_older_chips_have_none_of_it(monkeypatch):
    monkeypatch.setenv(TARGET, "trn2")
    refuses("NeuronCore-v4", quantize, sample((32, 8), "float16"), "float8_e5m2_x4", rows=4)


def dequantized(data, dtype):
    """The (4 k, free) numbers that a quantised (k, 4 free) tile stands for."""
    numbers, powers = quantized(data, dtype)
    groups = wide(numbers).reshape(len(powers), 8, -1, 4) * np.exp2(powers)[:, None, :, None]
    return groups.reshape(len(data), -1, 4).transpose(0, 2, 1).reshape(4 * len(data), -1)


def product(stationary, moving, dst_dtype="float32", terms=1, **settings):
    """Quantise both, and return the sum of so many equal products, which is in PSUM."""
    tiles = []
    for t, dtype in ((stationary, "float8_e4m3fn_x4"), (moving, "float8_e5m2_x4")):
        shape = (t.shape[0], t.shape[1] // 4)
        packed, scale = new(shape, dtype), new(shape, "uint8")
        nisa.quantize_mx(packed, t, scale)
        tiles.append((packed, scale))
    (left, left_scale), (right, right_scale) = tiles
    dst = new((left.shape[1], right.shape[1]), dst_dtype, nl.psum)
    for term in range(terms):
        settings["accumulate"] = term > 0 if terms > 1 else None
        nisa.nc_matmul_mx(dst, left, right, left_scale, right_scale, **settings)
    return dst


@pytest.mark.parametrize("k", [32, 64, 128])
@pytest.mark.parametrize("dst_dtype", ["float32", "bfloat16"])
def test_matmul(k, dst_dtype):
    left = sample((k, 4 * 64), "bfloat16")
    right = sample((k, 4 * 512), "bfloat16", seed=1)
    found = run(lambda a, b: product(a, b, dst_dtype), left, right)
    expected = dequantized(left, "float8_e4m3fn_x4").T @ dequantized(right, "float8_e5m2_x4")
    near(wide(found), expected, sums(4 * k) + sums(1, dst_dtype))


def test_matmul_of_four_bit_numbers():
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 16, (2, 32, 64)).astype(np.uint16)
    codes = rng.integers(120, 134, (2, 4, 64)).astype(np.uint8)

    def body(a, b, s, t):
        dst = new((64, 64), "float32", nl.psum)
        four_bits = nl.float4_e2m1fn_x4
        nisa.nc_matmul_mx(dst, a.view(four_bits), b.view(four_bits), s, t)
        return dst

    magnitudes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = np.concatenate([magnitudes, -magnitudes])
    numbers = values[bits[..., None] >> np.arange(0, 16, 4) & 15]  # 2, 32, 64, 4
    numbers *= np.exp2(np.repeat(codes.astype(int), 8, axis=1) - 127.0)[..., None]
    expected = np.einsum("pmj,pnj->mn", numbers[0], numbers[1])
    found = run(body, *bits, *codes)
    near(found, expected, sums(4 * 32))


def test_matmul_with_packed_scales():
    """Scales of two tiles in one: at partitions 0 and 4 of each quadrant."""
    left, right = sample((128, 256), "bfloat16"), sample((128, 512), "bfloat16", seed=1)

    def body(a, b):
        scales = new((128, 128), "uint8")
        places = scales[0:, :64], scales[4:, :]
        packed = new((128, 64), "float8_e4m3fn_x4"), new((128, 128), "float8_e5m2_x4")
        for t, data, scale in zip(packed, (a, b), places, strict=True):
            nisa.quantize_mx(t, data, scale)
        dst = new((64, 128), "float32", nl.psum)
        nisa.nc_matmul_mx(dst, *packed, *places)
        return dst

    expected = dequantized(left, "float8_e4m3fn_x4").T @ dequantized(right, "float8_e5m2_x4")
    near(run(body, left, right), expected, sums(4 * 128))


def test_matmul_accumulates():
    left, right = sample((32, 128), "bfloat16"), sample((32, 256), "bfloat16", seed=1)
    found = run(lambda a, b: product(a, b, terms=3), left, right)
    expected = dequantized(left, "float8_e4m3fn_x4").T @ dequantized(right, "float8_e5m2_x4")
    near(found, 3 * expected, sums(3 * 4 * 32))


@pytest.mark.parametrize(
    ("columns", "settings", "match"),
    [
        ((4 * 33, 256), {}, "even"),
        ((4 * 130, 256), {}, "at most 128"),
        ((256, 256), {"tile_position": (0, 0), "tile_size": (64, 64)}, "there are no column tiles"),
        ((256, 256), {"tile_position": (0, 0), "tile_size": (32, 128)}, "at most 32"),
    ],
)
def test_matmul_refuses(columns, settings, match):
    left, right = (sample((64, n), "bfloat16") for n in columns)
    refuses(match, run, lambda a, b: product(a, b, **settings), left, right)


def test_scales_lie_in_the_quadrant_of_their_data():
    def body(t):
        dst, scale = new((32, 2), "float8_e5m2_x4"), new((128, 2), "uint8")
        nisa.quantize_mx(dst, t, scale[first : first + 4])
        return scale

    for first in (16, 32, 6):  # noqa: B007
        refuses("partition 0, 4, 8 or 12", run, body, sample((32, 8), "float16"))


def test_unwritten_scales_are_told():
    def body(a):
        packed, scale = new((32, 8), "float8_e5m2_x4"), new((4, 8), "uint8")
        nisa.quantize_mx(packed, a, scale)
        dst = new((8, 8), "float32", nl.psum)
        nisa.nc_matmul_mx(dst, packed, packed, scale, new((4, 8), "uint8"))
        return dst

    refuses("nothing has written", run, body, sample((32, 32), "float16"))


def test_a_product_takes_as_long_as_one_at_16_bits_of_a_quarter_of_the_depth():
    @nki.jit
    def mx(a, b):
        tiles = []
        for x in (a, b):
            t = nl.load(x)
            tiles.append(t)
        sixteen = new((128, 512), "float32", nl.psum)
        nisa.nc_matmul(sixteen, tiles[0][:, 0:128], tiles[1][:, 0:512])
        dst = product(*tiles)
        out = new((128, 512))
        nisa.tensor_tensor(out, dst, to_sbuf(sixteen), nl.add)
        return to_hbm(out)

    timeline = nki_sim.dry_run(mx, ((128, 512), "bfloat16"), ((128, 2048), "bfloat16"))
    spans = {
        e.instruction: (e.end_ns - e.start_ns, e.macs)
        for e in timeline.events
        if e.engine == "tensor"
    }
    (slow_ns, slow_macs), (fast_ns, fast_macs) = (
        spans["nisa.nc_matmul"],
        spans["nisa.nc_matmul_mx"],
    )
    assert fast_macs == 4 * slow_macs == 4 * 128 * 128 * 512
    assert fast_ns == pytest.approx(slow_ns)
    quantize_ns = [
        e.end_ns - e.start_ns for e in timeline.events if e.instruction == "nisa.quantize_mx"
    ]
    chip = hardware.current()
    assert max(quantize_ns) == pytest.approx((2048 / 4 + chip.stream_start_cycles) / 1.2, rel=0.01)


def to_sbuf(tile):
    copy = new(tile.shape, tile.dtype)
    nisa.tensor_copy(copy, tile)
    return copy
