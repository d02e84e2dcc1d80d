"""Bins of real data's spectra that are their own mirrors are exactly real, as in torch.fft.

These bins are k = 0 and, for even N, k = N/2; in several dimensions, all bins of these numbers.
"""

from __future__ import annotations

import itertools
import types

import pytest
import torch

import trnfft
from tests import sweeps
from tests.tolerances import near, sums, together, transforms
from tests.trnfft.samples import native, random, single
from trnfft.base import config
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.algorithms.algorithm import LengthAlgorithm
from trnfft.planner.kinds import C2C, R2C, Transform

SHORT = (*range(1, 13), 15, 16, 25, 45, 64)
OTHERS = tuple(n for n in range(1, 65) if n not in SHORT)
CONVOLVED = (131, 262, 274, 514)  # by Bluestein's convolution
ODD_LAST = (144, 150, 200, 720)  # whose plans end with an odd radix
LONG = (100, 128, 250, 256, 1000, 1024, 2048, *ODD_LAST, *CONVOLVED)
SHAPES = ((4, 6), (5, 8), (9, 12), (16, 16), (100, 22), (150, 8), (262, 4), (4, 262), (3, 4, 6))
DTYPES = (torch.float32, torch.float64)
SAMPLES = {"matmul": DTYPES, "nki-sim": DTYPES[:1]}
DONE_WITH = [(name, dtype) for name, dtypes in SAMPLES.items() for dtype in dtypes]


def mirrors(spectrum, sizes):
    """Returns the bins that are their own mirrors along the last dimensions, of these sizes."""
    picked = (slice(None, None, n // 2 if n % 2 == 0 else n) for n in sizes)
    return native(spectrum)[(..., *picked)]


def is_positive_zero(x):
    return bool((x == 0).all() and not torch.signbit(x).any())


def assert_phases(found, expected, sizes):
    """Real parts at the mirrors are nearly torch's; imaginary ones are zeros of the same signs."""
    spectrum, found, expected = expected, mirrors(found, sizes), mirrors(expected, sizes)
    # One bin in a thousand may be several times smaller than the others.
    near(found, expected, transforms(4 * spectrum[0].numel(), 2, expected.dtype), scale=spectrum)
    assert torch.equal(torch.signbit(found.imag), torch.signbit(expected.imag))
    assert (found.imag == 0).all()
    assert torch.equal(found.angle(), expected.angle())


@pytest.mark.weekly
@pytest.mark.parametrize("backend, dtype", DONE_WITH)
@pytest.mark.parametrize("name", ["rfft", "ihfft"])
@pytest.mark.parametrize("lengths", [SHORT, sweeps.whole(OTHERS)], ids=["some", "others"])
def test_phases_of_short_lengths(backend, dtype, name, lengths):
    for n in lengths:
        x = random(2, n, dtype=dtype, seed=n)
        with trnfft.backend(backend):
            found = getattr(trnfft, name)(x)
        assert_phases(found, getattr(torch.fft, name)(x), (n,))


@sweeps.some(
    "backend_and_dtype, name, n",
    itertools.product(DONE_WITH, ["rfft", "ihfft"], LONG),
    # All lengths for kernels, and one of each kind for others.
    [
        (pair, name, n)
        for pair in DONE_WITH
        for n, name in zip(LONG, itertools.cycle(["rfft", "ihfft"]))
        if pair[0] == "nki-sim" or n in (128, 250, ODD_LAST[0], CONVOLVED[1])
    ],
)
def test_phases_of_long_lengths(backend_and_dtype, name, n):
    backend, dtype = backend_and_dtype
    x = random(1, n, dtype=dtype, seed=n)  # for one row, plans of many lengths are shipped
    with trnfft.backend(backend):
        found = getattr(trnfft, name)(x)
    assert_phases(found, getattr(torch.fft, name)(x), (n,))


@sweeps.some(
    "dtype, n",
    itertools.product(DTYPES, [4096, 65536]),
    [(torch.float32, 65536), (torch.float64, 4096)],
)
def test_phases_of_very_long_lengths(dtype, n):
    x = random(2, n, dtype=dtype)
    with trnfft.backend("matmul"):
        assert_phases(trnfft.rfft(x), torch.fft.rfft(x), (n,))


@pytest.mark.parametrize("backend, dtype", DONE_WITH)
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_several_dimensions(backend, dtype, sizes):
    x = random(2, *sizes, dtype=dtype)
    dims = tuple(range(1, x.ndim))
    with trnfft.backend(backend):
        assert is_positive_zero(mirrors(trnfft.rfftn(x, dim=dims), sizes).imag)
        assert (mirrors(trnfft.ihfftn(x, dim=dims), sizes).imag == 0).all()


@pytest.mark.parametrize("backend", SAMPLES)
@pytest.mark.parametrize("sizes", [(4, 6), (5, 8), (2, 5), (3, 4, 6), (4, 3, 6)], ids=str)
def test_zeros_of_small_shapes_have_the_signs_of_torch(backend, sizes):
    x = single(3, *sizes)
    dims = tuple(range(1, x.ndim))
    for name in ("rfftn", "ihfftn"):
        with trnfft.backend(backend):
            found = getattr(trnfft, name)(x, dim=dims)
        assert_phases(found, getattr(torch.fft, name)(x, dim=dims), sizes)


@pytest.mark.parametrize("backend", SAMPLES)
def test_two_dimensions_that_are_not_the_last(backend):
    x = single(6, 3, 10)
    with trnfft.backend(backend):
        spectra = trnfft.rfft2(x, dim=(2, 0)), trnfft.ihfft2(x, dim=(2, 0))
    for spectrum in spectra:
        assert (mirrors(native(spectrum).movedim((2, 0), (1, 2)), (10, 6)).imag == 0).all()


@pytest.mark.parametrize("backend", SAMPLES)
@pytest.mark.parametrize("n", [16, 25, 262])
def test_every_precision(backend, n):
    x = single(3, n)
    done = 0
    for precision in config.PRECISIONS:
        with trnfft.backend(backend), trnfft.precision(precision):
            try:
                spectrum = trnfft.rfft(x)
            except NotImplementedError:  # no kernel is precise enough
                continue
        assert is_positive_zero(mirrors(spectrum, (n,)).imag), precision
        done += 1
    assert done >= len(config.PRECISIONS) - 1


@pytest.mark.parametrize("backend", SAMPLES)
@pytest.mark.parametrize("n", [16, 20])
def test_stft(backend, n):
    x = single(2, 200)
    window = torch.hann_window(n)
    with trnfft.backend(backend):
        found = trnfft.stft(x, n, window=window, return_complex=True)
    assert_phases(native(found).mT, torch.stft(x, n, window=window, return_complex=True).mT, (n,))


@pytest.mark.parametrize("backend", SAMPLES)
@pytest.mark.parametrize("n", [16, 150, 262])
def test_planned_calls(backend, n):
    x = single(2, n)
    for name in ("rfft", "ihfft"):
        with trnfft.backend(backend):
            found = trnfft.plan_fft(x, "r2c", inverse=name == "ihfft")(x)
        assert_phases(found, getattr(torch.fft, name)(x), (n,))


def forced(monkeypatch, recipe):
    """Returns a block of the backend "nki-sim" that runs a recipe, whatever is planned."""
    monkeypatch.setattr(
        "trnfft.backends.nki.plan", lambda *_, **__: types.SimpleNamespace(recipe=recipe)
    )
    return trnfft.backend("nki-sim")


OF_LENGTHS = [
    name
    for name, algorithm in ALGORITHMS.items()
    if isinstance(algorithm, LengthAlgorithm) and algorithm.kind in (R2C, C2C)
]
OF_SHAPES = [
    name
    for name, algorithm in ALGORITHMS.items()
    if algorithm.takes_shapes and algorithm.kind in (R2C, C2C)
]
TRIED = (2, 6, 16, 45, 60, 100, 128, 129, 262, 300, 1000, 1024, 4096, 8192, 2**17, 2**20)
TRIED_SHAPES = ((6, 10), (150, 8), (256, 512), (4, 5, 6), (64, 64, 64))


@pytest.mark.weekly
@pytest.mark.parametrize("name", OF_LENGTHS)
@pytest.mark.parametrize("longest, longest_of_all_recipes", [(130, 16), sweeps.whole(8192, 1024)])
def test_every_algorithm_for_rows(monkeypatch, name, longest, longest_of_all_recipes):
    taken = [n for n in TRIED if not ALGORITHMS[name].why_not(n)]
    assert taken
    for n in taken[:1] + [n for n in taken[1:] if n <= longest]:
        x = single(2 if n <= 8192 else 1, n)
        expected = torch.fft.rfft(x.double())
        recipes = ALGORITHMS[name].recipes(n)
        for recipe in recipes if n <= longest_of_all_recipes else recipes[:1]:
            with forced(monkeypatch, recipe):
                spectrum, opposite = trnfft.rfft(x), trnfft.ihfft(x)
            assert is_positive_zero(mirrors(spectrum, (n,)).imag), recipe
            assert is_positive_zero(-mirrors(opposite, (n,)).imag), recipe
            # 1 / n is a factor of the other transform, and n of its result.
            error = together(4 * ALGORITHMS[name].stated_error(recipe), sums(2))
            near(spectrum, expected, error, message=str(recipe))
            near(native(opposite).conj() * n, expected, error, message=str(recipe))


@pytest.mark.parametrize("name", OF_SHAPES)
@pytest.mark.parametrize("shapes", [TRIED_SHAPES, sweeps.whole([(64, 128, 64)])], ids=len)
def test_every_algorithm_for_shapes(monkeypatch, name, shapes):
    tried = 0
    algorithm = ALGORITHMS[name]
    for sizes in shapes:
        try:
            recipes = algorithm.recipes_for(Transform(sizes, part=algorithm.kind))
        except NotImplementedError:
            continue
        x = single(2, *sizes)
        with forced(monkeypatch, recipes[0]):
            spectrum = trnfft.rfftn(x, dim=tuple(range(1, x.ndim)))
        assert is_positive_zero(mirrors(spectrum, sizes).imag), recipes[0]
        tried += 1
    assert tried or shapes is not TRIED_SHAPES


@pytest.mark.parametrize("backend", SAMPLES)
@pytest.mark.parametrize("n", [16, 150, 262])
def test_bad_rows_stay_bad_and_alone(backend, n):
    x = single(4, n)
    x[1, 1], x[2, 1] = float("nan"), float("inf")
    with trnfft.backend(backend):
        found = native(trnfft.rfft(x))
    assert not found[1:3].real.isfinite().any()
    good = [0, 3]
    assert_phases(found[good], torch.fft.rfft(x[good]), (n,))
