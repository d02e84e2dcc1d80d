"""Views of NkiTensor, compared with NumPy's reshape, transpose and slicing."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_kernels.base.isa import nisa, nki, nl
from tests import sweeps

from .conftest import RULE, new, refuses, run

KINDS = ("slice", "index", "permute", "expand", "squeeze")
KINDS += ("broadcast", "split", "flatten", "reshape", "rearrange")
QUICK = settings(max_examples=100, deadline=None)


def counted(shape):
    return np.arange(math.prod(shape), dtype=np.float32).reshape(shape)


def dense(array):
    """Whether a NumPy view is row-major without gaps (sizes of one aside)."""
    step = array.itemsize
    for n, stride in zip(array.shape[::-1], array.strides[::-1], strict=True):
        if n != 1 and stride != step:
            return False
        step *= n
    return True


def step(draw, view, array, first):
    """One random view of both; ``first`` is the first dimension that may change freely."""
    ndim = array.ndim
    free = list(range(first, ndim))
    kind = draw(st.sampled_from(KINDS))
    dim = draw(st.sampled_from(free)) if free else 0
    n = array.shape[dim]
    if kind == "slice":
        start = draw(st.integers(0, n - 1))
        stop = draw(st.integers(start + 1, n))
        by = draw(st.integers(1, 3))
        key = (slice(None),) * dim + (slice(start, stop, by),)
        sliced = view[key] if draw(st.booleans()) else view.slice(dim, start, stop, by)
        return sliced, array[key]
    if kind == "index" and ndim > first + 1:
        index = draw(st.integers(0, n - 1))
        if draw(st.booleans()):
            return view.select(dim, index), array[(slice(None),) * dim + (index,)]
        given_index = index - n if draw(st.booleans()) else index
        return view[(slice(None),) * dim + (given_index, ...)], array[
            (slice(None),) * dim + (index,)
        ]
    if kind == "permute" and free:
        order = tuple(range(first)) + tuple(draw(st.permutations(free)))
        return view.permute(order), array.transpose(order)
    if kind == "expand" and ndim < 5:
        where = draw(st.integers(first, ndim))
        return view.expand_dim(where), np.expand_dims(array, where)
    if kind == "squeeze" and n == 1 and free and ndim > first + 1:
        return view.squeeze_dim(dim), array.squeeze(dim)
    if kind == "broadcast" and n == 1 and free:
        size = draw(st.integers(1, 3))
        shape = array.shape[:dim] + (size,) + array.shape[dim + 1 :]
        return view.broadcast(dim, size), np.broadcast_to(array, shape)
    if kind == "split" and free and ndim < 5:
        inner = draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))
        sizes = (n // inner, inner)
        split = view.reshape_dim(dim, (-1, inner) if draw(st.booleans()) else sizes)
        return split, array.reshape(array.shape[:dim] + sizes + array.shape[dim + 1 :])
    if kind == "flatten" and len(free) > 1:
        end = draw(st.integers(dim, ndim - 1))
        size = math.prod(array.shape[dim : end + 1])
        shape = array.shape[:dim] + (size,) + array.shape[end + 1 :]
        try:
            flat = array.reshape(shape, copy=False)
        except ValueError:
            refuses("do not follow each other in memory", view.flatten_dims, dim, end)
            return view, array
        return view.flatten_dims(dim, end), flat
    if kind == "reshape" and free:
        size = math.prod(array.shape[first:])
        inner = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        shape = array.shape[:first] + (size // inner, inner)
        try:
            other = array.reshape(shape, copy=False)
        except ValueError:
            refuses("layout", view.reshape, shape)
            return view, array
        return view.reshape(shape), other
    if kind == "rearrange" and len(free) > 1 and ndim < 5:
        inner = draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))
        names = [f"d{i}" for i in range(ndim)]
        source = [*names[:dim], ("outer", "inner"), *names[dim + 1 :]]
        others = [names[i] for i in free if i != dim]
        moved = tuple([*names[:first], "inner", *others, "outer"])
        splits = array.shape[:dim] + (n // inner, inner) + array.shape[dim + 1 :]
        rest = [i + (i > dim) for i in free if i != dim]
        order = (*range(first), dim + 1, *rest, dim)
        return (
            view.rearrange(tuple(source), moved, {"inner": inner}),
            array.reshape(splits).transpose(order),
        )
    return view, array


@QUICK
@given(st.data())
@sweeps.some("memory", ["sbuf", "psum", "hbm"], ["sbuf", "hbm"])
def test_chains_of_views(memory, data):
    chip = memory != "hbm"
    free = data.draw(st.lists(st.integers(1, 6), min_size=1 + (not chip), max_size=3))
    shape = (data.draw(st.integers(1, 4)), *free) if chip else tuple(free)
    array = counted(shape)
    expected = [array]

    def kernel(tensor):
        view = tensor
        if chip:
            view = new(shape, buffer=getattr(nl, memory))
            loaded = new(shape)
            nisa.dma_copy(loaded, tensor)
            nisa.tensor_copy(view, loaded)
        whole = view
        for _ in range(data.draw(st.integers(1, 5))):
            view, expected[0] = step(data.draw, view, expected[0], 1 if chip else 0)
            assert view.shape == expected[0].shape
            assert view.is_contiguous() == dense(expected[0][0] if chip else expected[0])
        strides = [s // 4 if n > 1 else None for n, s in _shape_strides(expected[0])]
        seen = [s if n > 1 else None for n, s in zip(view.shape, view.strides, strict=True)]
        assert seen == strides
        assert (view.ndim, view.size) == (expected[0].ndim, expected[0].size)
        # As an explicit pattern of the whole tensor, the same elements again.
        again = whole.ap(view.get_pattern(), view.offset)
        assert (again.shape, again.offset) == (view.shape, view.offset)
        return gather(view), gather(again)

    def gather(view):
        if chip:
            tile = new((view.shape[0], view.size // view.shape[0]))
            nisa.tensor_copy(tile, view)
            view = tile
        out = new((view.size,), buffer=nl.shared_hbm)
        nisa.dma_copy(out, view)
        return out

    first, second = nki.simulate(kernel)(array)
    np.testing.assert_array_equal(first, expected[0].reshape(-1))
    np.testing.assert_array_equal(second, expected[0].reshape(-1))


def _shape_strides(array):
    return zip(array.shape, array.strides, strict=True)


@QUICK
@given(st.data())
def test_indexing(data):
    """Mixed keys on HBM follow NumPy; on-chip the partition stays and two dimensions remain."""
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=4)))
    key = []
    for n in shape:
        start = data.draw(st.integers(-n, n - 1))
        stop = data.draw(st.integers(start % n + 1, n))
        item = slice(start, stop, data.draw(st.integers(1, 2)))
        key.append(data.draw(st.sampled_from([item, slice(None), start])))
    if data.draw(st.booleans()):
        key = key[: data.draw(st.integers(1, len(key)))] + [...]
    array = counted(shape)
    expected = array[tuple(key)]
    rows = key[0]
    if isinstance(rows, int):
        rows = slice(rows % shape[0], rows % shape[0] + 1)
    skips = isinstance(rows, slice) and rows.step == 2 and len(range(*rows.indices(shape[0]))) > 1
    if skips:
        rows = slice(rows.start, rows.stop)
    kept = array[tuple([rows, *key[1:]])]

    def kernel(tensor):
        view = tensor[tuple(key)]
        assert view.shape == (expected.shape or (1,))
        tile = new(shape)
        nisa.dma_copy(tile, tensor)
        if skips:
            with pytest.raises(RULE, match="the step must be 1"):
                tile[tuple(key)]
        chip = tile[tuple([rows, *key[1:]])]
        assert chip.shape == (kept.shape if kept.ndim > 1 else (*kept.shape, 1))
        out, other = (new((v.size,), buffer=nl.shared_hbm) for v in (view, chip))
        nisa.dma_copy(out, view)
        nisa.dma_copy(other, chip)
        return out, other

    first, second = nki.simulate(kernel)(array)
    np.testing.assert_array_equal(first, expected.reshape(-1))
    np.testing.assert_array_equal(second, kept.reshape(-1))


def inspect(body, *arrays):
    """The value of ``body(*tensors)`` in a kernel that moves no data."""
    seen = []
    nki.simulate(lambda *tensors: seen.append(body(*tensors)))(*arrays)
    return seen[0]


@pytest.mark.parametrize(
    ("shape", "view", "result"),
    [
        ((128, 64), lambda t: t[nl.ds(32, 8), :], ((8, 64), (64, 1), 2048)),
        ((128, 24), lambda t: t.reshape_dim(0, (128,)), ((128, 24), (24, 1), 0)),
        (
            (8, 4, 6),
            lambda t: t[:, :, 0:2].reshape((8, 2, 2, 2)),
            ((8, 2, 2, 2), (24, 12, 6, 1), 0),
        ),
        ((64, 64, 64), lambda t: t[0, 0, 10], ((1, 1), (4096, 1), 10)),
        ((64, 64, 64), lambda t: t[0, ..., :], ((1, 64, 64), (4096, 64, 1), 0)),
        ((16, 16), lambda t: t.ap([[16, 16], [1, 8]], offset=8), ((16, 8), (16, 1), 8)),
        (
            (128, 256),
            lambda t: t.ap([[256, 128], [2, 128]]).ap([[256, 128], [1, 64]]),
            ((128, 64), (256, 1), 0),
        ),
        ((128, 64), lambda t: t.view(nl.uint8), ((128, 256), (256, 1), 0)),
        ((128, 64), lambda t: t.view(nl.int32), ((128, 64), (64, 1), 0)),
        ((128, 64), lambda t: t[:, 8:24].view(nl.bfloat16), ((128, 32), (128, 1), 16)),
        (
            (128, 256),
            lambda t: t.ap([[512, 128], [1, 512]], dtype=nl.bfloat16),
            ((128, 512), (512, 1), 0),
        ),
    ],
)
def test_documented_patterns(shape, view, result):
    found = inspect(lambda: view(new(shape)))
    assert (found.shape, found.strides, found.offset) == result
    assert found.get_pattern() == [[s, n] for n, s in zip(result[0], result[1], strict=True)]
    assert found.ndim == len(result[0])
    assert not found.is_indirect()


@pytest.mark.parametrize(
    ("dtype", "other"),
    [
        ("float32", "uint8"),
        ("float32", "bfloat16"),
        ("uint8", "float32"),
        ("bfloat16", "int32"),
        ("int16", "float16"),
        ("float8_e4m3", "int8"),
    ],
)
def test_view_reinterprets_bits(dtype, other):
    source, target = (np.dtype(getattr(ml_dtypes, d, None) or d) for d in (dtype, other))
    bits = np.random.default_rng(1).integers(0, 256, (4, 16 * source.itemsize)).astype(np.uint8)
    bits &= 0x3F  # no NaN
    array = bits.view(source)
    result = run(lambda t: t[:, 8:].view(other), array)
    expected = np.ascontiguousarray(array[:, 8:]).view(target)
    assert result.dtype == target
    np.testing.assert_array_equal(result.view(np.uint8), expected.view(np.uint8))


def test_writes_show_in_every_view():
    def body(t):
        nisa.memset(t.reshape((4, 3, 8))[:, 1], 7.0)
        t[:, 0:2] = 5.0
        t[:, 20:24] = t[:, 8:12]
        nisa.memset(t.permute((0, 1))[:, 23:24].view(nl.int32), 0)
        return t

    expected = counted((4, 24))
    expected[:, 8:16] = 7
    expected[:, 0:2] = 5
    expected[:, 20:24] = 7
    expected[:, 23] = 0
    np.testing.assert_array_equal(run(body, counted((4, 24))), expected)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda t, h: t.permute((0, 1)),
        lambda t, h: t.reshape_dim(2, (4, 2)),
        lambda t, h: t.flatten_dims(2, 1),
        lambda t, h: t.slice(1, 2, 2),
        lambda t, h: t.slice(1, 0, 4, 0),
        lambda t, h: t.slice(3, 0, 1),
        lambda t, h: t[:, "a"],
        lambda t, h: t.ap([[24, 65], [1, 24]]),
        lambda t, h: h.ap([[1, 33]]),
        lambda t, h: t[:, :, 0:1].view(nl.uint8).slice(2, 0, 3).view(nl.float32),
        lambda t, h: h.vector_select(0, index()).vector_select(0, index()),
    ],
)
def test_forbidden_views(mistake):
    """Beside those in test_rules.py, each with the nearest view that is allowed."""

    def kernel():
        mistake(new((64, 4, 6)), new((4, 8), buffer=nl.shared_hbm))

    refuses(r"NkiTensor: .+ is .+, but .+", nki.simulate(kernel))


def index():
    return nl.zeros((1, 1), nl.int32)


def test_tensor_indirection_is_refused_by_name():
    def kernel():
        new((64, 4)).indirect(index())

    with pytest.raises(NotImplementedError, match="indirect"):
        nki.simulate(kernel)()
