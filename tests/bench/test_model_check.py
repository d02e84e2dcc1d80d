"""The model check predicts what it did not fit, shows every point, and has right kernels."""

import io
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from rich.console import Console

import nki_sim
from bench.model_check import (
    autocomp,
    device_kernels,
    labs,
    labs_kernels,
    launch_overhead,
    nkibench,
)
from bench.model_check import points as checked
from bench.model_check import published_kernels as kernels
from bench.model_check.convolution import convolve, transpose_tiles
from bench.model_check.documentation import MATMUL_TRN1, engines_us
from bench.model_check.measured import FITTED, HELD_OUT, Group, Measured
from bench.model_check.modelled_launch import continued, repeated_us
from bench.model_check.points import LEFT_OUT, RECORDS, Point, check, point_of
from bench.model_check.report import goal, number, ranges, show, spread, spread_table
from bench.model_check.small_copies import add_chunks, add_often, add_tiles
from bench.model_check.turbulence_kernels import turbulence_stage
from bench.seed_article.figures import TRANSFORM_US
from nki_sim import hardware
from tests.tolerances import near, operands, sums, together, transforms

RNG = np.random.default_rng(0)
slow = pytest.mark.slow  # all points are modelled first


@pytest.fixture(scope="module")
def points():
    return check()


def real(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def wide(x):
    """Returns an array in float64, for exact results."""
    return x.astype(np.float64)


# The kernels compute what their descriptions say.


@pytest.mark.parametrize(
    ("kernel", "blocks"),
    [
        (kernels.matmul_tiled, ()),
        (kernels.matmul_free_blocks, (1, 1)),
        (kernels.matmul_free_blocks, (2, 2)),
        (kernels.matmul_blocks, (2, 1, 2)),
        (autocomp.matmul_one_by_two, ()),
        (autocomp.matmul_four_by_two, (1,)),
        (autocomp.matmul_four_by_two, (2,)),
    ],
)
def test_matrix_products(kernel, blocks):
    lhs_t, rhs = real(256, 512), real(256, 1024)
    product = nki_sim.simulate(kernel)(lhs_t, rhs, *blocks)
    near(product, wide(lhs_t).T @ rhs, sums(256))


@pytest.mark.parametrize(
    ("kernel", "length", "step"),
    [
        (kernels.mamba_states_outside, 60, ()),
        (kernels.mamba_channels_outside, 60, (60,)),
        (kernels.mamba_channels_outside, 60, (20,)),
        (autocomp.mamba_hoisted, 60, ()),
        (kernels.mamba_states_outside, 600, ()),  # 512: a bank of PSUM
        (kernels.mamba_channels_outside, 600, (600,)),
        (autocomp.mamba_hoisted, 600, ()),
    ],
)
def test_mamba(kernel, length, step):
    channels, states = 256, 3
    delta, u = RNG.uniform(0, 1, (2, channels, length)).astype(np.float32)
    a, b, c = -RNG.uniform(0, 1, (channels, states)).astype(np.float32), *real(2, states, length)
    found = nki_sim.simulate(kernel)(delta, u, a, b, c, *step)
    state, expected = np.zeros((channels, states)), np.zeros((channels, length))
    for t in range(length):
        state = np.exp(a * delta[:, t, None]) * state + (delta * u)[:, t, None] * b[:, t]
        expected[:, t] = state @ c[:, t]
    near(found, expected, together(sums(length), sums(states)))


def test_small_kernels():
    x = real(128, 1)
    near(nki_sim.simulate(kernels.dependent_scalars)(x, 5), wide(x) + 5, sums(5))
    near(nki_sim.simulate(kernels.exponential)(x), np.exp(wide(x)), sums(1))
    tiles = real(3, 128, 8)
    np.testing.assert_array_equal(nki_sim.simulate(kernels.load_tiles)(tiles), tiles[2])
    left, right = real(2, 64, 16)
    np.testing.assert_array_equal(nki_sim.simulate(kernels.add)(left, right), left + right)


# The small kernels of device records.


def test_a_chain_takes_its_stationaries_in_turn():
    stationaries, moving = real(128, 3, 64), real(128, 32)
    found = nki_sim.simulate(device_kernels.matmul_chain)(stationaries, moving, 5)
    expected = sum(wide(stationaries)[:, i % 3].T @ moving for i in range(5))
    near(found, expected, sums(5 * 128))


def codes(*shape):
    """Bytes of float8_e4m3 below 2, and the numbers they are."""
    found = RNG.integers(0, 0x40, shape, dtype=np.uint8)
    return found, found.view(ml_dtypes.float8_e4m3).astype(np.float32)


@pytest.mark.parametrize("way", ["vector", "scalar", "both", "sbuf", "psum"])
def test_scaled_blocks(way):
    source, values = codes(2, 128, 4096)
    scales = RNG.random((128, 2, 32)).astype(np.float32)
    found = nki_sim.simulate(device_kernels.scale_blocks)(source, scales, 3, way)
    tiles = values[[0, 1, 0]].reshape(3, 128, 32, 2, 64)
    if way == "psum":
        tiles, scales = np.ones_like(tiles), scales[:, :1]
    scaled = (tiles * scales.transpose(0, 2, 1)[None, ..., None]).reshape(3, 128, 32, 128)
    near(found[:, 0], scaled.sum((0, 1, 2)), sums(1, "bfloat16"))


@pytest.mark.parametrize("way", ["vector", "scalar", "both", "sbuf", "psum"])
def test_scaled_tiles(way):
    source, values = codes(128, 3, 512)
    scales = RNG.random((128, 3, 4)).astype(np.float32)
    found = nki_sim.simulate(device_kernels.scale_tiles)(source, scales, 2, way)
    if way == "psum":
        scales = scales[:, :1]
    expected = values.reshape(128, 3, 4, 128) * scales[..., None]
    near(found.astype(np.float32), expected.reshape(128, 3, 512), sums(1, "bfloat16"))


@pytest.mark.parametrize("rows", [128, 32])
def test_stream(rows):
    x = RNG.integers(0, 9, (2, 128, 96), dtype=np.uint8)
    found = nki_sim.simulate(device_kernels.stream)(x, 16, rows)
    np.testing.assert_array_equal(found[:, 0], x[:, :, ::16].sum((0, 2)))


def test_stream_of_runs():
    x = RNG.integers(0, 9, (5, 128, 3, 64), dtype=np.uint8)
    found = nki_sim.simulate(device_kernels.stream_runs)(x, 16)
    np.testing.assert_array_equal(found[:, 0], x[:, :, 0, 0].sum(0))


@pytest.mark.parametrize(("gathers", "loads"), [(True, False), (False, True), (True, True)])
def test_lanes(gathers, loads):
    x, blobs = real(300, 8), RNG.integers(0, 9, (7, 128, 6), dtype=np.uint8)
    rows = RNG.integers(0, 300, (128, 5), dtype=np.int32)
    experts = RNG.integers(0, 7, (1, 5), dtype=np.int32)
    lanes = nki_sim.simulate(device_kernels.load_lanes)
    found = lanes(x, rows, blobs, experts, gathers, loads)
    near(found[:, 0], gathers * wide(x)[rows, 7].sum(1), sums(5))
    np.testing.assert_array_equal(found[:, 1], loads * blobs[experts[0], :, 5].sum(0))


def test_experts():
    blobs = RNG.integers(0, 9, (7, 128, 80), dtype=np.uint8)
    experts = RNG.permutation(7)[None, :6].astype(np.int32)
    found = nki_sim.simulate(device_kernels.load_experts)(blobs, experts)
    last = blobs[experts[0, [4, 5, 2, 3]]]  # what stays in the four slices
    np.testing.assert_array_equal(found, last[:, :, :64].sum(2).T)


@pytest.mark.parametrize("is_hardware", [False, True])
def test_stream_of_weights(is_hardware):
    x = real(256, 60)
    with hardware.select(hardware.TRN2):
        found = nki_sim.simulate(device_kernels.stream_weights)(x, 20, is_hardware)
    near(found[:, 0], (wide(x)[:128, ::20] + x[128:, ::20]).sum(1), sums(6))


# The kernels of the labs, on trn2.


def on_trn2(kernel, *arguments):
    with hardware.select(hardware.TRN2):
        return nki_sim.simulate(kernel)(*arguments)


@pytest.mark.parametrize(
    ("kernel", "chunks"),
    [
        (labs_kernels.copy_tiles, ()),
        (labs_kernels.copy_packed, (1,)),
        (labs_kernels.copy_packed, (3,)),
    ],
)
def test_copies(kernel, chunks):
    x = real(384, 20)
    np.testing.assert_array_equal(on_trn2(kernel, x, *chunks), x)


def test_rms_norm():
    x, w = real(256, 96), real(1, 96)
    expected = x / np.sqrt((wide(x) ** 2).mean(1, keepdims=True) + labs_kernels.EPSILON) * w
    near(on_trn2(labs_kernels.rms_norm, x, w), expected, sums(96))


@pytest.mark.parametrize("blocks", [(2, 1, 2), (1, 2, 4)])
def test_blocks_of_the_labs(blocks):
    lhs_t, rhs = real(512, 256), real(512, 1024)
    found = on_trn2(labs_kernels.matmul_blocks, lhs_t, rhs, *blocks)
    near(found, wide(lhs_t).T @ rhs, sums(512))


# Scores, whose errors are those of exponents, and two sums over positions.
ATTENTION = together(sums(32), sums(96), sums(96))


def attended(q, k, v):
    """Attention of every head, positions x heads x numbers."""
    scores = np.einsum("phf,shf->hps", wide(q), k) / np.sqrt(q.shape[2])
    weights = np.exp(scores - scores.max(2, keepdims=True))
    return np.einsum("hps,shf->phf", weights / weights.sum(2, keepdims=True), v)


@pytest.mark.parametrize("is_hardware", [False, True])
def test_attention(is_hardware):
    q, k, v = real(3, 96, 32)
    found = on_trn2(labs_kernels.attention, q, k, v, is_hardware)
    expected = attended(q[:, None], k[:, None], v[:, None])[:, 0]
    near(found, expected, ATTENTION)


@pytest.mark.parametrize(
    ("kernel", "tolerance"),
    [
        (labs_kernels.attention_heads, ATTENTION),
        (labs_kernels.attention_heads_hardware, operands(1)),
    ],
    ids=["float32", "bfloat16"],
)
def test_attention_of_heads(kernel, tolerance):
    q, k, v = real(3, 64, 2, 32)
    near(on_trn2(kernel, q, k, v), attended(q, k, v), tolerance)


def test_the_launch_of_the_labs_is_fitted_to_two_copies_alone():
    fitted = [one for one in RECORDS if one.overhead == labs.OVERHEAD and one.use == FITTED]
    assert [one.group for one in fitted] == [labs.COPY] * 2
    rest = [one.value - point_of(one).modelled for one in fitted]
    assert sum(rest) == pytest.approx(0)
    launch = checked.overhead(labs.OVERHEAD).per_launch
    counts = {"128 x 64": 1, "2048 x 4096 and 32768 x 128": 2, "128 x 32 x 128: Sync's queue": 0}
    chosen = [o for o in RECORDS if o.overhead == labs.OVERHEAD and o.name in counts]
    assert {one.name for one in chosen} == set(counts)
    for one in chosen:
        added = point_of(one).modelled - np.atleast_1d(one.on_chip())[0]
        assert added == pytest.approx(counts[one.name] * launch)


# The kernels with many small copies.


@pytest.mark.parametrize("rows", [1, 4, 128])
def test_vector_adds(rows):
    a, b = real(2, 256)
    np.testing.assert_array_equal(nki_sim.simulate(add_chunks)(a, b, rows), a + b)
    tiles = a.reshape(2, 128, 1), b.reshape(2, 128, 1)
    np.testing.assert_array_equal(nki_sim.simulate(add_tiles)(*tiles), sum(tiles))
    np.testing.assert_array_equal(nki_sim.simulate(add_often)(tiles[0][0], 3), 2 * tiles[0][0])


@pytest.mark.parametrize("decays", [False, True])
def test_a_stage_of_turbulence(decays):
    n = 32
    angle = 2 * np.pi * np.outer(np.arange(n), np.arange(n)) / n
    matrices = [np.cos(angle), np.sin(angle), -np.sin(angle)]
    spectra, changes = real(6, n, n, n), real(6, n, n, n)
    waves, decay = real(5, n, n, n), real(n, n, n) if decays else None
    single = [m.astype(np.float32) for m in matrices]
    given = tuple(spectra), tuple(changes), tuple(single), tuple(waves), decay
    with nki_sim.allow("tensors-in-sequences"):
        found = on_trn2(turbulence_stage, *given)
    state, old = spectra[0::2] + 1j * spectra[1::2], changes[0::2] + 1j * changes[1::2]
    k, inverse, mask = waves[:3], waves[3], waves[4]

    def transform(field, sign):
        w = np.exp(sign * 1j * angle)
        return np.einsum("ijk,ia,kb,jc->abc", field, w, w, w, optimize=True)

    fields = [2.0**-12 * transform(x, 1).real for x in (*state, *(1j * np.cross(k, state, axis=0)))]
    forces = [transform(x, -1) * mask for x in np.cross(fields[:3], fields[3:], axis=0)]
    total = sum(k[a] * forces[a] for a in range(3)) * inverse
    change = [0.5 * old[a] + 0.05 * (forces[a] - k[a] * total) for a in range(3)]
    new = [(state[a] + 0.5 * change[a]) * (1 if decay is None else decay) for a in range(3)]
    for a in range(3):
        parts = (new[a].real, new[a].imag, change[a].real, change[a].imag)
        for index, part in zip((2 * a, 2 * a + 1, 6 + 2 * a, 7 + 2 * a), parts, strict=True):
            near(found[index], part, transforms((n, n, n), 2), scale=change[a])


@pytest.mark.sweep
def test_the_launch_of_the_vector_adds_is_fitted_to_one_tile_a_chip():
    fitted = [one for one in RECORDS if one.overhead.startswith("course") and one.use == FITTED]
    assert [one.chip for one in fitted] == ["trn1", "trn2"]
    for one in fitted:
        assert one.name == f"one of [128, 200], {one.chip}"
        assert point_of(one).modelled == pytest.approx(one.value)


# The kernels of Autocomp that are neither matrix products nor Mamba.


@pytest.mark.parametrize("kernel", [autocomp.convolve, autocomp.convolve_from_psum])
@pytest.mark.parametrize(("taps", "padding"), [(3, 1), (4, 0)])
def test_convolutions(kernel, taps, padding):
    images, filters = real(2, 256, 20), real(256, taps)
    found = nki_sim.simulate(kernel)(images, filters, padding)
    padded = np.pad(wide(images), ((0, 0), (0, 0), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, taps, axis=2)
    near(found, np.einsum("ncwt,ct->ncw", windows, filters), sums(taps))


def test_attention_of_cached_scores():
    q, k, v = real(3, 128, 1024) / 4
    found = nki_sim.simulate(autocomp.attention)(q, k, v)
    scores = wide(q).T @ k
    weights = np.exp(scores - scores.max(1, keepdims=True))
    expected = weights / weights.sum(1, keepdims=True) @ v.T
    near(found, expected, operands(2))


# The kernels of NKIBench, with one block of columns or several.


def test_adamw():
    theta, gradient, mean, square = real(4, 200, 2048)
    square = np.abs(square)
    found = nki_sim.simulate(nkibench.adamw)(theta, gradient, mean, square)
    step = 0.01 * (0.9 * wide(mean) + 0.1 * gradient)
    moment = 0.999 * wide(square) + 0.001 * wide(gradient) ** 2
    expected = (1 - 1e-5) * wide(theta) - step / (np.sqrt(1000 * moment) + 1e-8)
    near(found, expected, sums(4))


def test_rotation():
    x, (cosine, sine) = real(64, 1024), real(2, 32, 1024)
    found = nki_sim.simulate(nkibench.rotate)(x, cosine, sine)
    rotated = (wide(x)[:32] + 1j * x[32:]) * (cosine + 1j * sine)
    near(found, np.concatenate([rotated.real, rotated.imag]), sums(2))


def test_batched_matmul():
    left, right = real(2, 2048, 64), real(2, 64, 2048)
    found = nki_sim.simulate(nkibench.batched_matmul)(left, right)
    near(found, wide(left) @ right, sums(64))


def test_norm_and_matmul():
    x, weights = real(1024, 1024), real(1024, 2048)
    found = nki_sim.simulate(nkibench.norm_matmul)(x, weights)
    normal = x / np.sqrt((wide(x) ** 2).mean(1, keepdims=True))
    near(found, normal @ weights, together(sums(1024), sums(1024)))


def test_matmul_with_transposes():
    left, right = real(256, 2048), real(2048, 2048)
    with pytest.warns(nki_sim.NkiSimulationWarning, match="load less at a time"):
        found = nki_sim.simulate(nkibench.matmul_transposing)(left, right)
    near(found, wide(left) @ right, sums(2048))


# The transpose and the convolution of the course, on trn2.


def test_transpose():
    x = real(256, 384)
    np.testing.assert_array_equal(on_trn2(transpose_tiles, x), x.T)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_convolution(dtype):
    images, filters, bias = real(2, 256, 6, 9), real(256, 256, 2, 3), 10 * real(256)
    images, filters, bias = [x.astype(dtype) for x in (images, filters, bias)]
    found = on_trn2(convolve, images, filters, bias)
    windows = np.lib.stride_tricks.sliding_window_view(wide(images), (2, 3), axis=(2, 3))
    expected = np.einsum("bihwyx,oiyx->bohw", windows, wide(filters), optimize=True)
    # The sums, their first rounding, and that of the result.
    tolerance = together(sums(1536), sums(1, dtype.__name__), sums(1, dtype.__name__))
    near(found, expected + wide(bias)[:, None, None], tolerance)


# What is fitted, and what is predicted.


SEED = {key: one for key, one in zip(TRANSFORM_US, launch_overhead.RECORDS, strict=True)}


@pytest.fixture
def with_figures(monkeypatch):
    """Gives the seed article's figures other values, and returns what is predicted for them."""

    def call(values):
        others = tuple(replace(one, value=values(key)) for key, one in SEED.items())
        monkeypatch.setattr(checked, "RECORDS", others)
        checked.overhead.cache_clear()
        return [point_of(one).modelled for one in others]

    yield call
    checked.overhead.cache_clear()


@pytest.mark.sweep
def test_the_fit_reproduces_its_points_and_finds_given_constants(with_figures):
    predicted = dict(zip(SEED, with_figures(TRANSFORM_US.get), strict=True))
    for key in launch_overhead.FITTED_TO:
        assert predicted[key] == pytest.approx(TRANSFORM_US[key])
    given = {key: 1000 + 300 * one.launches + one.on_chip() for key, one in SEED.items()}
    assert with_figures(given.get) == pytest.approx(list(given.values()))
    found = checked.overhead(launch_overhead.OVERHEAD)
    assert (found.once, found.per_launch) == (pytest.approx(1000), pytest.approx(300))


@pytest.mark.sweep
def test_held_out_points_do_not_change_a_prediction(with_figures):
    before = with_figures(TRANSFORM_US.get)
    fitted = launch_overhead.FITTED_TO
    assert with_figures(lambda k: TRANSFORM_US[k] * (1 if k in fitted else 3)) == before
    after = with_figures(lambda k: 9000.0 if k == fitted[0] else TRANSFORM_US[k])
    for one, old, new in zip(SEED.values(), before, after, strict=True):
        is_held = one.launches == SEED[fitted[1]].launches  # by the other fitted figure
        assert (new == pytest.approx(old)) == is_held


def test_two_points_are_fitted_and_all_others_held_out():
    held_out = {key for key, one in SEED.items() if one.use == HELD_OUT}
    assert held_out == set(TRANSFORM_US) - set(launch_overhead.FITTED_TO)


@pytest.mark.parametrize(
    ("algorithm", "n", "count"),
    [
        ("DFT-GEMM", 64, 1),
        ("radix-4 Stockham", 64, 5),
        ("radix-8 Stockham", 64, 5),
        ("butterfly", 64, 7),
    ],
)
def test_programs_of_a_chain(algorithm, n, count):
    one = SEED[algorithm, n]
    assert one.launches == count
    assert 0 < one.on_chip() < one.value


# The published points.


@slow
def test_every_published_point_is_modelled_and_shown(points):
    assert [p.measurement for p in points] == list(RECORDS)
    names = [(one.group, one.name) for one in RECORDS]
    assert len(set(names)) == len(names)
    console = Console(width=110, file=io.StringIO())
    show(points, console)
    lines = console.file.getvalue().splitlines()
    for point in points:
        m = point.measurement
        cells = (f" {m.name} ", f" {number(m.value)} {m.unit} ", f" {point.ratio:.2f} ")
        assert any(all(cell in line for cell in cells) for line in lines), m
        assert m.source.split(",")[0] in console.file.getvalue()
    for what in LEFT_OUT:
        assert any(what in line for line in lines)


@slow
def test_ranges_contain_the_modelled_value_and_are_counted(points):
    assert all(p.low <= p.modelled <= p.high for p in points if p.low is not None)
    held_out = [p for p in points if p.measurement.use == HELD_OUT]
    whole = [p for p in held_out if p.measurement.is_whole_kernel and p.low is not None]
    inside = [p for p in whole if p.low <= p.measurement.value <= p.high]
    assert ranges(points).startswith(f"of {len(whole)} times of whole kernels {len(inside)} lie")
    assert len(inside) >= 0.8 * len(whole)
    assert np.median([p.high / p.low for p in whole]) <= 2


@slow
def test_modelled_times_have_the_order_of_the_measured_ones(points):
    """Where each version of a kernel improves on the last; all within a factor of five."""
    assert all(1 / 5 < p.ratio < 5 for p in points)
    names = ("tiled", "loads hoisted", "free dimensions blocked", "all dimensions blocked")
    modelled = {
        p.measurement.name: p.modelled for p in points if p.measurement.group == MATMUL_TRN1
    }
    times = [modelled[name] for name in names]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("part", ["total", "dma", "tensor", "vector"])
def test_a_continued_time_is_that_of_the_whole_kernel(part):
    def rows(m):
        given = ((1024, m), "bfloat16"), ((1024, 1024), "bfloat16")
        return engines_us(kernels.matmul_tiled, *given)[part]

    with hardware.select(hardware.TRN1):
        assert continued(rows, 256, 1024) == pytest.approx(rows(1024), rel=0.02)


def point(use, modelled, name="n", is_whole_kernel=False):
    group = Group("g", "about")
    measured = Measured(group, "trn1", "s", name, 10.0, lambda: modelled, use)
    return Point(replace(measured, is_whole_kernel=is_whole_kernel), modelled)


def test_spread():
    assert spread([0.5, 2.0, 1.0]) == ["3", "1.00", "0.50", "2.00", "1", "3"]
    table = spread_table([point(HELD_OUT, 20.0), point("input", 1000.0)])
    assert list(table.columns[1].cells) == ["1", "1"]
    assert list(table.columns[4].cells) == ["2.00", "2.00"]


def test_goal_and_whole_kernels():
    def whole(modelled):
        return point(HELD_OUT, modelled, is_whole_kernel=True)

    good = [point(HELD_OUT, 12.4, str(i)) for i in range(3)]
    far = [point("input", 1000.0, "9"), whole(8.1), point(HELD_OUT, 19.0, "4")]
    assert goal([*good, *far]) == (
        "goal: within 25% 4 of 5, 4 reached; within 2x 5 of 5, 5 reached; "
        "whole kernels within 25% 1 of 1, 1 reached"
    )
    assert goal([*good, whole(7.9), point(HELD_OUT, 21.0, "4")]) == (
        "goal: within 25% 3 of 5, 4 not reached; within 2x 4 of 5, 5 not reached; "
        "whole kernels within 25% 0 of 1, 1 not reached"
    )
    rows = list(spread_table([*good, whole(5.0)]).columns[0].cells)
    assert rows == ["g", "whole kernels", "all"]


def test_one_repetition_is_the_slope_between_two_launches():
    assert repeated_us(lambda count: 7 + 0.5 * count, 4, 36) == pytest.approx(0.5)
