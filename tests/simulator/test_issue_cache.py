"""The cache of instructions distinguishes the values of arguments, and stays small.

Every call of an instruction follows its own arguments (nki/api/nki/isa/__init__.py, where
``shuffle_mask`` and ``pattern`` are lists): earlier calls must have no effect.
"""

import gc
import threading
import warnings

import ml_dtypes
import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from nki_sim.base.running import active
from nki_sim.instructions import issue_cache
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.issue_cache import IssueCache, NotByValue, frozen, shared_cache

from .conftest import assert_same, blocks, check_values, new, refuses, run, sample, to_hbm


@pytest.fixture(autouse=True)
def empty_caches(monkeypatch):
    monkeypatch.setattr(issue_cache, "_caches", {})


def test_every_shuffle_has_its_own_mask():
    data = sample((32, 4))
    for shift in range(20):
        mask = [(p + shift) % 32 for p in range(32)]

        def body(tile, mask=mask):
            dst = new((32, 4))
            nisa.nc_stream_shuffle(dst, tile, list(mask))
            return dst

        assert_same(run(body, data), data[mask])
        gc.collect(0)  # of the masks; all objects would take seconds


KERNELS = blocks("""
a list that changes is another list
    first, second, pattern = new((1, 4), "int32"), new((1, 4), "int32"), [[1, 4]]
    nisa.iota(first, pattern)
    pattern[0][0] = 5
    nisa.iota(second, pattern)
    return first, second
  np.array([[0, 1, 2, 3]], np.int32)
  np.array([[0, 5, 10, 15]], np.int32)
an array that changes does not change what was issued [x 2x3]
    results, factor = [], np.array(2.0)
    for value in (2.0, 3.0, 2.0):
        factor[...] = value
        results.append(new((2, 3)))
        nisa.tensor_scalar(results[-1], x, nl.multiply, factor)
        factor[...] = 7.0
    return tuple(results)
  2 * x
  3 * x
  2 * x
zeros keep their sign
    plus, minus, inverse = new((1, 1)), new((1, 1)), new((1, 2))
    for tile, value in 2 * ((plus, 0.0), (minus, -0.0)):
        nisa.memset(tile, value)
    nisa.reciprocal(inverse[:, 0:1], plus)
    nisa.reciprocal(inverse[:, 1:2], minus)
    return inverse
  np.array([[np.inf, -np.inf]], np.float32)
what has no key is planned each time
    class Pattern(list):  # what a class of its own compares by is not known
        pass
    tiles = new((1, 3), "int32"), new((1, 3), "int32")
    for tile, step in zip(tiles, (1, 2), strict=True):
        nisa.iota(tile, Pattern([[step, 3]]))
    return tiles
  np.array([[0, 1, 2]], np.int32)
  np.array([[0, 2, 4]], np.int32)
""")


@pytest.mark.parametrize("heading", KERNELS)
def test_kernels(heading):
    check_values(heading, KERNELS[heading], globals())


def test_a_scalar_offset_is_no_vector_offset():
    data = sample((8, 4))

    def kernel(table, kind):
        index, tile = new((1, 1), "int32"), new((1, 4))
        nisa.memset(index, 3)
        nisa.dma_copy(tile, table.ap([[4, 1], [1, 4]], **{kind: index}), dge_mode=HWDGE)
        return to_hbm(tile)

    with hardware.select(hardware.chip("trn2")):
        assert_same(nki.simulate(kernel)(data, "scalar_offset"), data[3:4])
        refuses("cannot gather or scatter", nki.simulate(kernel), data, "vector_offset")


HWDGE = nisa.dge_mode.hwdge

DIFFERENT = [
    (0.0, -0.0),
    (1, 1.0),
    (1, True),
    (np.float32(2), np.int64(2)),
    (np.float32(2), np.float64(2)),
    (np.float32(2), 2.0),
    (ml_dtypes.bfloat16(2), np.float32(2)),
    ([1, 2], (1, 2)),
    ([1, 2], [1, 2.0]),
    ([0.0], [-0.0]),
    (np.array([1, 2]), np.array([1, 3])),
    (np.array([1, 2]), np.array([[1, 2]])),
    (np.array([1], np.int32), np.array([1], np.uint32)),
    (None, 0),
    ("add", b"add"),
    (nisa.engine.vector, nisa.engine.scalar),
    (nisa.oob_mode.error, nisa.dge_mode.none),
    (nl.add, nl.subtract),
]


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different_values_have_different_keys(a, b):
    assert frozen(a) != frozen(b)
    assert {frozen(a): 1}[frozen(a)] == 1  # hashable


def test_equal_values_have_equal_keys():
    for make in (
        lambda: [[1, 2], [3, 4.0]],
        lambda: float("nan"),
        lambda: np.float32("nan"),
        lambda: np.arange(5),
        lambda: {"a": [1]},
        lambda: nisa.engine.vector,
    ):
        assert frozen(make()) == frozen(make())
        assert hash(frozen(make())) == hash(frozen(make()))


class Mutable:
    """Hashable by identity, and may change."""


@pytest.mark.parametrize("value", [Mutable(), [Mutable()], np.array([None]), iter([1]), {1}])
def test_what_has_no_value_has_no_key(value):
    with pytest.raises(NotByValue):
        frozen(value)


def test_a_text_by_position_is_no_keyword():
    def body(tile):
        nisa.tensor_tensor(tile, tile, tile, op=nl.add)
        refuses("op", nisa.tensor_tensor, tile, tile, tile, "op", nl.add)
        return tile

    run(body, sample((2, 2)))


def test_the_cache_is_bounded():
    cache = IssueCache(8)
    for n in range(100):
        cache.put(n, str(n))
        assert cache.get(0) == "0"  # in use all the time
        assert len(cache) <= 8
    assert cache.get(99) == "99"
    assert cache.get(50) is None


class Holder:
    """Stands for an issue whose arithmetic holds an array."""

    def __init__(self, size):
        array = np.zeros(size, np.uint8)
        self.run = lambda: array


def test_arrays_that_issues_hold_are_bounded():
    cache = IssueCache(1000, 100)
    for n in range(50):
        cache.put(n, Holder(20))
        kept = [cache.get(m) for m in range(n + 1)]  # and use them
        assert sum(issue_cache.held_bytes(issue) for issue in kept if issue) <= 100
        assert kept[-1] is not None
    cache.put("large", Holder(60))
    assert cache.get("large") is None


def test_issues_are_forgotten(monkeypatch):
    monkeypatch.setattr(issue_cache.IssueCache.__init__, "__defaults__", (8, 1 << 20))
    sizes = []

    def body():
        tile = new((1, 1), "int32")
        for n in range(50):
            nisa.memset(tile, n)
        sizes.append(len(active().issues))
        return tile

    assert run(body).tolist() == [[49]]
    assert sizes[0] <= 8


def test_the_caches_of_few_chips_are_kept():
    first = shared_cache("chip 0", True)
    for n in range(1, 30):
        shared_cache(f"chip {n}", True)
        assert shared_cache("chip 0", True) is first
    assert len(issue_cache._caches) <= 8


def test_threads_share_a_cache():
    cache, wrong = IssueCache(16), []

    def work(seed):
        for n in np.random.default_rng(seed).integers(0, 40, 3000).tolist():
            found = cache.get(n)
            if found is None:
                cache.put(n, -n - 1)
            elif found != -n - 1:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(cache) <= 16


@pytest.mark.lenient
def test_what_warned_warns_again():
    """A warning at planning comes with every call, and is an error in strict mode."""
    from nki_sim.instructions.instruction import instruction

    @instruction
    def doubtful(dst):
        active().warn("nisa.doubtful", "dst", dst.shape, "is doubtful")
        return Issue("nisa.doubtful", "vector", 1.0, lambda *_: None)

    def kernel():
        doubtful(new((1, 1)))

    for _ in range(2):
        with pytest.warns(nki_sim.NkiSimulationWarning, match="doubtful"):
            nki.simulate(kernel)()
    with nki_sim.strict():
        refuses("doubtful", nki.simulate(kernel))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nki.simulate(lambda: nisa.memset(new((1, 1)), 0))()
