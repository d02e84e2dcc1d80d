"""The model check predicts what it did not fit, shows every point, and its kernels compute."""

import io

import numpy as np
import pytest
from rich.console import Console

from bench.model_check import launch_overhead, modelled_measurements
from bench.model_check import published_kernels as kernels
from bench.model_check.picture import draw
from bench.model_check.points import Point, check, seed_points
from bench.model_check.published_measurements import HELD_OUT, LEFT_OUT, PUBLISHED, Measurement
from bench.model_check.published_measurements import MATMUL_TRN1 as TRN1
from bench.model_check.report import number, show, spread, spread_table
from bench.seed_article.figures import TRANSFORM_US
from nki_kernels import hardware, simulator

RNG = np.random.default_rng(0)
slow = pytest.mark.slow  # all points are modelled first


@pytest.fixture(scope="module")
def points():
    return check()


def real(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


# The kernels compute what their descriptions say.


@pytest.mark.parametrize(
    ("kernel", "blocks"),
    [
        (kernels.matmul_tiled, ()),
        (kernels.matmul_free_blocks, (1, 1)),
        (kernels.matmul_free_blocks, (2, 2)),
        (kernels.matmul_blocks, (2, 1, 2)),
    ],
)
def test_matrix_products(kernel, blocks):
    lhs_t, rhs = real(256, 512), real(256, 1024)
    product = simulator.simulate(kernel)(lhs_t, rhs, *blocks)
    np.testing.assert_allclose(product, lhs_t.T @ rhs, atol=1e-3)


@pytest.mark.parametrize("step", [None, 60, 20])
def test_mamba(step):
    channels, length, states = 256, 60, 3
    delta, u = RNG.uniform(0, 1, (2, channels, length)).astype(np.float32)
    a, b, c = -RNG.uniform(0, 1, (channels, states)).astype(np.float32), *real(2, states, length)
    if step is None:
        found = simulator.simulate(kernels.mamba_states_outside)(delta, u, a, b, c)
    else:
        found = simulator.simulate(kernels.mamba_channels_outside)(delta, u, a, b, c, step)
    state, expected = np.zeros((channels, states)), np.zeros((channels, length))
    for t in range(length):
        state = np.exp(a * delta[:, t, None]) * state + (delta * u)[:, t, None] * b[:, t]
        expected[:, t] = state @ c[:, t]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_small_kernels():
    x = real(128, 1)
    np.testing.assert_allclose(simulator.simulate(kernels.dependent_scalars)(x, 5), x + 5, 1e-6)
    np.testing.assert_allclose(simulator.simulate(kernels.exponential)(x), np.exp(x), 1e-5)
    tiles = real(3, 128, 8)
    np.testing.assert_array_equal(simulator.simulate(kernels.load_tiles)(tiles), tiles[2])


# What is fitted, and what is predicted.


def test_the_fit_reproduces_its_points_and_finds_given_constants():
    fitted = {key: TRANSFORM_US[key] for key in launch_overhead.FITTED}
    overhead = launch_overhead.fit(fitted)
    for transform, measured in fitted.items():
        assert overhead.predict(transform) == pytest.approx(measured)
    given = launch_overhead.Overhead(1000.0, 300.0)
    again = launch_overhead.fit({key: given.predict(key) for key in TRANSFORM_US})
    assert again.per_transform_us == pytest.approx(1000)
    assert again.per_launch_us == pytest.approx(300)


def test_held_out_points_do_not_change_a_prediction(monkeypatch):
    before = {p.measurement.name: p.modelled for p in seed_points()}
    for key in TRANSFORM_US:
        monkeypatch.setitem(
            TRANSFORM_US, key, TRANSFORM_US[key] * (1 if key in launch_overhead.FITTED else 3)
        )
    assert {p.measurement.name: p.modelled for p in seed_points()} == before
    monkeypatch.setitem(TRANSFORM_US, launch_overhead.FITTED[0], 9000.0)
    after = {p.measurement.name: p.modelled for p in seed_points()}
    assert all(after[name] != before[name] for name in before)


@slow
def test_two_points_are_fitted_and_all_others_held_out(points):
    seed = [p.measurement for p in points if p.measurement.group == "seed article"]
    assert len(seed) == len(TRANSFORM_US)
    held_out = {m.name for m in seed if m.use == HELD_OUT}
    assert len(held_out) == len(TRANSFORM_US) - len(launch_overhead.FITTED)


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
    found = launch_overhead.chain(algorithm, n)
    assert found.programs == count
    assert 0 < found.chip_us < TRANSFORM_US[algorithm, n]


def test_what_the_fit_refuses():
    with pytest.raises(ValueError, match="DFT-GEMM, butterfly, radix-4 Stockham, radix-8 Stockham"):
        launch_overhead.chain("radix-2 Stockham", 64)
    with pytest.raises(ValueError, match="different numbers"):
        launch_overhead.fit({("radix-4 Stockham", 64): 4254.0})


# The published points.


@slow
def test_every_published_point_is_modelled_and_shown(points):
    assert [p.measurement for p in points if p.measurement in PUBLISHED] == list(PUBLISHED)
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


def test_measurements_have_names_of_their_own():
    assert len({(m.group, m.name) for m in PUBLISHED}) == len(PUBLISHED)


@slow
def test_modelled_times_have_the_order_of_the_measured_ones(points):
    """Where each version of a kernel improves on the last; all within a factor of four."""
    assert all(1 / 4 < p.ratio < 4 for p in points)
    names = ("tiled", "loads hoisted", "free dimensions blocked", "all dimensions blocked")
    modelled = {p.measurement.name: p.modelled for p in points if p.measurement.group == TRN1}
    times = [modelled[name] for name in names]
    assert times == sorted(times, reverse=True)


def test_a_continued_time_is_that_of_the_whole_kernel():
    specs = [((1024, 1024), "bfloat16"), ((1024, 1024), "bfloat16")]

    def rows(m):
        given = ((1024, m), "bfloat16"), specs[1]
        return modelled_measurements.times_us(simulator.dry_run(kernels.matmul_tiled, *given))

    with hardware.select(hardware.TRN1):
        line, whole = modelled_measurements.continued(rows, 256, 1024), rows(1024)
    assert line == pytest.approx(whole, rel=0.01)


def test_spread():
    def point(use, modelled):
        return Point(Measurement("g", "n", "trn1", 10.0, "us", "s", use), modelled)

    assert spread([0.5, 2.0, 1.0]) == ["3", "1.00", "0.50", "2.00", "1", "3"]
    table = spread_table([point(HELD_OUT, 20.0), point("input", 1000.0)])
    assert list(table.columns[1].cells) == ["1", "1"]
    assert list(table.columns[4].cells) == ["2.00", "2.00"]


@slow
def test_picture(points, tmp_path):
    path = tmp_path / "check.png"
    draw(points, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [file.name for file in tmp_path.iterdir()] == ["check.png"]
