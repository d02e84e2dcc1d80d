"""NkiScalar of NKI 0.7: how it is made, recorded, and used, and when it is refused."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki_sim

nki_sim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

from .conftest import refuses  # noqa: E402

NARROW = st.integers(-(2**31), 2**31 - 1)
WIDE = st.integers(-(2**63), 2**63 - 1)
NUMPY = {"int32": np.int32, "int64": np.int64}


def computed(function, *values, dtype="int32"):
    """What a kernel stores that loads scalars, and gives them to a function."""

    def kernel(x):
        out = nl.ndarray((1, 1), dtype, buffer=nl.shared_hbm)
        scalars = [nisa.scalar_load(x[0:1, i : i + 1]) for i in range(len(values))]
        nisa.scalar_store(out, function(*scalars))
        return out

    result = nki.jit(kernel)(np.array([values], NUMPY[dtype]))
    assert result.dtype == NUMPY[dtype]
    return int(result[0, 0])


@pytest.mark.parametrize("operate", [operator.add, operator.sub, operator.mul])
@pytest.mark.parametrize(("dtype", "numbers"), [("int32", NARROW), ("int64", WIDE)])
def test_sums_and_products_wrap(operate, dtype, numbers):
    @given(numbers, numbers)
    def check(a, b):
        with np.errstate(over="ignore"):
            expected = int(operate(np.array([a], NUMPY[dtype]), np.array([b], NUMPY[dtype]))[0])
        assert computed(operate, a, b, dtype=dtype) == expected
        assert computed(lambda s: operate(s, b), a, dtype=dtype) == expected
        assert computed(lambda s: operate(a, s), b, dtype=dtype) == expected

    check()


def test_the_examples_of_the_documentation():
    assert computed(lambda i: i * 4 + 1, 5) == 21
    assert computed(lambda i: i * i, 100_000) == 1_410_065_408
    assert computed(lambda i: i + 1, 2**31 - 1) == -(2**31)
    assert computed(lambda i: -i, 7) == -7

    def summed(i):
        i += 2
        i *= 3
        return i

    assert computed(summed, 1) == 9


@pytest.mark.parametrize(
    "operate",
    [
        *(lambda s: s // 2, lambda s: s % 2, lambda s: s / 2, lambda s: s**2, lambda s: s << 1),
        *(lambda s: s & 1, lambda s: 2 | s, lambda s: abs(s), lambda s: ~s),
        *(bool, int, float, range, lambda s: not s, lambda s: [0, 1][s], lambda s: s if s else 1),
        *(lambda s: np.float32(2) * s, lambda s: np.add(s, 1)),
    ],
)
def test_nothing_else_is_documented(operate):
    with pytest.raises(TypeError, match=r"an NkiScalar is not known while the kernel is built"):
        computed(operate, 4)


@pytest.mark.parametrize("other", [1.0, True, np.int32(3), "2", None, 2**31, -(2**31) - 1])
def test_operands_are_ints_that_fit(other):
    with pytest.raises(TypeError, match=r"cannot be combined with|does not fit into int32"):
        computed(lambda s: s + other, 4)


def test_dtypes_are_not_mixed():
    def kernel(x, y):
        return nisa.scalar_load(x) + nisa.scalar_load(y)

    with pytest.raises(TypeError, match="NkiScalar of int32 cannot be combined with one of int64"):
        nki.jit(kernel)(np.zeros((1, 1), np.int32), np.zeros((1, 1), np.int64))


def test_a_comparison_cannot_be_used():
    assert computed(lambda s: s if (s < 3) is not None else s, 4) == 4  # recorded, unused
    for use in (lambda c: c + 1, bool, lambda c: [c][c], lambda c: c):
        with pytest.raises(TypeError, match=r"cannot be used|is not known while"):
            computed(lambda s, use=use: use(s == 3), 4)
    with pytest.raises(TypeError, match="NkiScalars of int64 cannot be compared"):
        computed(lambda s: s < 3, 4, dtype="int64")
    assert computed(lambda s: s if s != "a" else 2 * s, 4) == 4  # what is no number is Python's


def test_scalars_are_made_by_loads():
    with pytest.raises(TypeError, match="nisa.scalar_load returns an NkiScalar"):
        nisa.NkiScalar(3)


@pytest.mark.parametrize(
    ("shape", "dtype", "buffer", "rule"),
    [
        ((1, 2), "int32", nl.sbuf, r"shape \(1, 2\), but it must be a tensor of shape \(1, 1\)"),
        ((1,), "int32", nl.shared_hbm, r"shape \(1,\), but it must be a tensor of shape"),
        ((1, 1), "uint32", nl.sbuf, "uint32, but it must be int32 or int64"),
        ((1, 1), "float32", nl.sbuf, "float32, but it must be int32 or int64"),
        ((1, 1), "int32", nl.psum, "a tensor in PSUM, but it must be in HBM"),
    ],
)
def test_tiles_of_scalars(shape, dtype, buffer, rule):
    def loads(x):
        nisa.scalar_load(nl.ndarray(shape, dtype, buffer=buffer))

    def stores(x):
        nisa.scalar_store(nl.ndarray(shape, dtype, buffer=buffer), nisa.scalar_load(x))

    for kernel in (loads, stores):
        refuses(rule, nki.jit(kernel), np.zeros((1, 1), np.int32))


def test_what_is_stored_is_a_scalar_of_the_width():
    def kernel(x, value):
        out = nl.ndarray((1, 1), nl.int64, buffer=nl.shared_hbm)
        nisa.scalar_store(out, nisa.scalar_load(x) if value is None else value)

    x = np.zeros((1, 1), np.int32)
    refuses(r"write a Python int by nisa.memset", nki.jit(kernel), x, 3)
    refuses("dst.dtype is int64, but it must be", nki.jit(kernel), x, None)


def test_a_dry_run_has_no_scalar_to_load():
    def kernel(x):
        return nisa.scalar_load(x)

    refuses("the value of a loaded scalar is unknown", nki_sim.dry_run, kernel, ((1, 1), "int32"))


ROWS = np.arange(8 * 128 * 4, dtype=np.float32).reshape(8 * 128, 4)


def moved(offset, bounds=(0, 8), dtype="int32"):
    """Blocks of rows copied by a loop on the device, from where ``offset`` says."""

    def kernel(x, places):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 4), x.dtype, buffer=nl.sbuf)
        first, last = (nisa.scalar_load(places[0:1, i : i + 1]) for i in range(2))

        def body(i):
            row = offset(i, nisa.scalar_load(places[0:1, 0:1]))
            nisa.dma_copy(dst=tile, src=x.ap([[4, 128], [1, 4]], scalar_offset=row))
            nisa.dma_copy(dst=out.ap([[4, 128], [1, 4]], scalar_offset=row), src=tile)

        nl.fori_loop(first if bounds[0] is None else bounds[0], last * 2 + 4, body)
        return out

    return nki.jit(kernel)(ROWS, np.array([[0, 2]], NUMPY[dtype]))


def test_a_loops_variable_is_an_offset_with_its_arithmetic():
    np.testing.assert_array_equal(moved(lambda i, s: i * 128), ROWS)
    np.testing.assert_array_equal(moved(lambda i, s: 7 * 128 - i * 128 + s), ROWS)
    np.testing.assert_array_equal(moved(lambda i, s: s + i * 128, bounds=(None, 8)), ROWS)


def test_int64_is_an_offset_into_hbm_only_and_no_bound():
    def kernel(x, place, buffer):
        tile = nl.ndarray((128, 4), x.dtype, buffer=nl.sbuf)
        row = nisa.scalar_load(place) * 128
        if buffer == "hbm":
            nisa.dma_copy(dst=tile, src=x.ap([[4, 128], [1, 4]], scalar_offset=row))
        else:
            nisa.memset(tile.ap([[4, 128], [1, 1]], scalar_offset=row, indirect_dim=1), 0.0)
        out = nl.ndarray((128, 4), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    place = np.array([[3]], np.int64)
    np.testing.assert_array_equal(nki.jit(kernel)(ROWS, place, "hbm"), ROWS[384:512])
    refuses(r"SBUF and PSUM need an NkiScalar of int32", nki.jit(kernel), ROWS, place, "sbuf")
    refuses("a count of iterations has no 64-bit", moved, lambda i, s: i * 128, dtype="int64")


def test_bounds_of_two_kinds_are_not_documented():
    def kernel(x):
        nl.fori_loop(nisa.scalar_load(x), nisa.register_alloc(2), lambda i: None)

    refuses("no document combines an NkiScalar", nki.jit(kernel), np.zeros((1, 1), np.int32))


def test_int64_is_for_scalars_only():
    def kernel(x, use):
        tile = nl.ndarray((1, 1), nl.int64, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        narrow = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        if use == "add":
            nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
        elif use == "cast":
            nisa.dma_copy(dst=narrow, src=x)
        elif use == "view":
            nisa.memset(tile.view(nl.float32), 0.0)
        else:
            nisa.memset(tile, 2**40)
        out = nl.ndarray((1, 1), nl.int64, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = np.array([[2**50 + 1]], np.int64)
    assert nki.jit(kernel)(x, "fill") == 2**40
    for use, rule in (
        ("add", "int64 is documented for scalars only"),
        ("cast", "no document describes a cast of int64"),
        ("view", "reinterpret bits to or from int64"),
    ):
        refuses(rule, nki.jit(kernel), x, use)
