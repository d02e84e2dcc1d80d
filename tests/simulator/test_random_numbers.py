"""Random numbers: distributions, seeds and states. No test knows the bits of a chip."""

from functools import partial

import numpy as np
import pytest

from nki_kernels.base.isa import nisa, nki, nl

from .conftest import TARGET, new, refuses, run, sample, to_hbm, written

VECTOR, GPSIMD = nisa.engine.vector, nisa.engine.gpsimd


def seed(value):
    tile = new((1, 1), "uint32")
    nisa.memset(tile, value)
    nisa.set_rng_seed(tile)


def drawn(*seeds, dtype="uint32", shape=(64, 200)):
    """A tile of random bits after each of the seeds."""

    def kernel():
        tiles = []
        for value in seeds:
            seed(value)
            tiles.append(new(shape, dtype))
            nisa.rng(tiles[-1])
        return tuple([to_hbm(t) for t in tiles])

    return nki.simulate(kernel)()


@pytest.mark.parametrize("dtype", ["uint32", "int32", "uint16", "int8"])
def test_bits_are_uniform(dtype):
    (found,) = drawn(5, dtype=dtype)
    size = found.itemsize
    bits = np.unpackbits(found.view(np.uint8).reshape(64, 200, size), axis=2)
    assert found.dtype == dtype
    assert np.abs(bits.mean(axis=(0, 1)) - 0.5).max() < 0.02  # 4 standard deviations


def test_equal_seeds_give_equal_numbers():
    first, second, third = drawn(7, 8, 7)
    np.testing.assert_array_equal(first, third)
    assert (first == second).mean() < 0.01
    assert len(np.unique(first)) > 0.99 * first.size  # lanes and elements differ


def test_narrow_types_take_the_lowest_bits():
    (whole,), (low,) = drawn(3), drawn(3, dtype="uint8")
    np.testing.assert_array_equal(whole & 255, low)


def test_rand2_is_uniform_between_numbers_or_columns(monkeypatch):
    monkeypatch.setenv(TARGET, "trn3")
    low = np.arange(64, dtype=np.float32)[:, None]

    def body(column):
        plain, wide_, whole = new((64, 500)), new((64, 500)), new((64, 500), "int8")
        high = new(column.shape)
        nisa.tensor_scalar(high, column, nl.add, 2.0)
        nisa.rand2(plain, -1.0, 3.0)
        nisa.rand2(wide_, column, high)
        nisa.rand2(whole, 0.0, 100.0)
        return plain, wide_, whole

    plain, wide_, whole = run(body, low)
    assert plain.min() >= -1 and plain.max() <= 3 and abs(plain.mean() - 1) < 0.03
    assert abs(plain.std() - 4 / np.sqrt(12)) < 0.03
    assert ((wide_ >= low) & (wide_ <= low + 2)).all()
    assert np.abs(wide_.mean(axis=1) - low[:, 0] - 1).max() < 0.15
    assert whole.min() == 0 and whole.max() == 100


@pytest.mark.parametrize(
    ("engine", "words", "chip"), [("gpsimd", 6, "trn2"), ("vector", 24, "trn3")]
)
def test_states_are_saved_and_restored(engine, words, chip, monkeypatch):
    monkeypatch.setenv(TARGET, chip)
    where = nisa.engine[engine]

    def body(start):
        state, first, again = [new((128, n), "uint32") for n in (words, 9, 9)]
        nisa.rand_set_state(start, where)
        nisa.rand_get_state(state, where)
        nisa.rng(first, where)
        nisa.rand_set_state(state, where)
        nisa.rng(again, where)
        return state, first, again

    start = np.random.default_rng(1).integers(1, 1 << 32, (128, words)).astype(np.uint32)
    state, first, again = run(body, start)
    np.testing.assert_array_equal(state, start)
    np.testing.assert_array_equal(first, again)


def test_gpsimd_runs_xorwow(monkeypatch):
    """Marsaglia's generator (Journal of Statistical Software 8/14, 2003), in Python's ints."""
    monkeypatch.setenv(TARGET, "trn2")
    start = np.random.default_rng(2).integers(1, 1 << 32, (1, 6)).astype(np.uint32)

    def draw(dst, state):
        nisa.rand_set_state(state)
        nisa.rng(dst, GPSIMD)

    x, y, z, w, v, d = (int(word) for word in start[0])
    expected = []
    for _ in range(20):
        t = x ^ x >> 2
        x, y, z, w = y, z, w, v
        v = (v ^ v << 4 ^ t ^ t << 1) & 0xFFFFFFFF
        d = (d + 362437) & 0xFFFFFFFF
        expected.append((d + v) & 0xFFFFFFFF)
    assert written(draw, start, shape=(1, 20))[0].tolist() == expected


def test_dropout():
    data = sample((64, 300)) + 10
    chances = np.linspace(0, 1, 64, dtype=np.float32)[:, None]

    def body(t, c):
        fixed, by_row, none, every = (new(t.shape) for _ in range(4))
        nisa.dropout(fixed, t, 0.25)
        nisa.dropout(by_row, t, c)
        nisa.dropout(none, t, 0.0)
        nisa.dropout(every, t, 1.0)
        return fixed, by_row, none, every

    fixed, by_row, none, every = run(body, data, chances)
    assert ((fixed == 0) | (fixed == data)).all()
    assert abs((fixed == 0).mean() - 0.25) < 0.02
    assert np.abs((by_row == 0).mean(axis=1) - chances[:, 0]).max() < 0.12
    np.testing.assert_array_equal(none, data)
    assert (every == 0).all()


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_language_functions(chip, monkeypatch):
    monkeypatch.setenv(TARGET, chip)

    def kernel():
        key = nl.full((1, 1), 42, dtype=nl.int32, buffer=nl.sbuf)
        nl.random_seed(key)
        first = nl.rand((64, 300), dtype=nl.float32)
        nl.random_seed(key)
        second = nl.rand((64, 300), dtype=nl.float32)
        dropped = nl.dropout(first, 0.5, dtype=nl.bfloat16)
        return to_hbm(first), to_hbm(second), to_hbm(dropped)

    first, second, dropped = nki.simulate(kernel)()
    np.testing.assert_array_equal(first, second)
    assert first.min() >= 0 and first.max() <= 1 and abs(first.mean() - 0.5) < 0.01
    assert dropped.dtype == "bfloat16" and abs((dropped == 0).mean() - 0.5) < 0.02


filled = partial(written, shape=(4, 8), dtype="uint32")


def states(words=6, dtype="uint32", engine=GPSIMD):
    return written(nisa.rand_get_state, engine, shape=(128, words), dtype=dtype)


def seeded(shape, dtype):
    def instruction(dst):
        nisa.memset(dst, 1)
        nisa.set_rng_seed(dst)

    return written(instruction, shape=shape, dtype=dtype)


def dropped(dtype, probability):
    written(nisa.dropout, sample((4, 8), dtype), probability)


@pytest.mark.parametrize(
    ("chip", "call", "match"),
    [
        ("trn1", lambda: filled(nisa.rng, VECTOR, dtype="float32"), "int16"),
        ("trn1", lambda: filled(nisa.rng, GPSIMD), "NeuronCore-v3"),
        ("trn2", lambda: filled(nisa.rng, GPSIMD, buffer=nl.psum), "cannot access PSUM"),
        ("trn2", lambda: filled(nisa.rand2, 0.0, 1.0, dtype="float32"), "NeuronCore-v4"),
        ("trn3", lambda: filled(nisa.rand2, 0.0, 1.0, dtype="float8_e4m3fn"), "dst.dtype"),
        ("trn3", lambda: filled(nisa.rand2, 1.0, 1.0, dtype="float32"), "min must be below max"),
        ("trn1", lambda: states(), "NeuronCore-v3"),
        ("trn2", lambda: states(24, engine=VECTOR), "NeuronCore-v4"),
        ("trn2", lambda: states(24), "must have the shape .lanes, 6."),
        ("trn2", lambda: states(dtype="int32"), "uint32"),
        ("trn1", lambda: seeded((1, 2), "uint32"), "1, 1"),
        ("trn1", lambda: seeded((1, 1), "int16"), "32 bits"),
        ("trn1", lambda: dropped("float32", 1.5), "from 0 to 1"),
        ("trn1", lambda: dropped("int32", np.full((4, 1), 0.5, np.float16)), "prob.dtype"),
        (
            "trn1",
            lambda: nki.simulate(lambda: nl.rand((4, 4), nl.float32, nl.shared_hbm))(),
            "nl.sbuf or nl.psum",
        ),
    ],
)
def test_what_is_refused(chip, call, match, monkeypatch):
    monkeypatch.setenv(TARGET, chip)
    refuses(match, call)
