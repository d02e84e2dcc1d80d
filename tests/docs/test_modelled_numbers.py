"""Modelled or counted tables and figures of the pages agree with the programs.

By default one row of each table is compared, in sweeps the others, too. The blocks of the pages
themselves, which test_examples.py runs, compare figures in prose.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from tests.docs.pages import ROOT
from tests.sweeps import whole
from tests.tolerances import holds, relative_error

pytest.importorskip("torch")

import scipy.fft  # noqa: E402
import torch  # noqa: E402

import trnfft  # noqa: E402
from bench.block_circulant import __main__ as times  # noqa: E402
from bench.tables import bloom, prices, row_guard, shapes  # noqa: E402
from nki_sim import hardware
from trnfft.planner.kinds import Frames, SpectralGradients, SpectralLayer  # noqa: E402
from trnfft.planner.planner import plan_for  # noqa: E402
from trnfft.planner.separate import SEPARATE  # noqa: E402

pytestmark = pytest.mark.weekly


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def table_below(text: str, heading: str) -> list[list[str]]:
    """Returns the cells of the first table below a line, without its two first lines."""
    lines = text.split(f"\n{heading}", 1)[1].splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


@pytest.mark.sweep
@pytest.mark.parametrize("table", [prices.real_table, prices.cores_table])
def test_tables_of_the_planners_page(table):
    assert f"\n{table()}\n" in page("planner.md")


@pytest.mark.parametrize(
    "shape",
    [each if each.lengths == (14, 14) else whole(each) for each in shapes.SHAPES],
    ids=lambda each: each.name,
)
def test_transforms_of_published_work(shape):
    row = f"| {' | '.join(shapes.row(shape))} |"
    assert row in page("planner.md").splitlines()


def test_a_row_of_a_table_of_the_planners_page(monkeypatch):
    monkeypatch.setattr(prices, "LONG", prices.LONG[:1])
    assert set(prices.cores_table().splitlines()) <= set(page("planner.md").splitlines())


def test_pages_agree_on_the_radices_of_1000_points():
    """Each recipe stands with its batch, as batches differ in it."""
    recipes = re.findall(r"`(\w+ 1000 = [^`]+)` for (\d+) rows", page("architecture.md"))
    plans = {batch: trnfft.plan(1000, batch=int(batch), target="trn1") for _, batch in recipes}
    assert set(plans) == {"128", "8"}
    assert {(str(plan.recipe), batch) for batch, plan in plans.items()} == set(recipes)
    assert plans["128"].algorithm != plans["8"].algorithm
    stages = re.findall(r"stage \d: radix (\d+)", page("planner.md").split("batch 128")[1])
    assert tuple(map(int, stages[:2])) == plans["128"].radices


def stated_times_of_block_circulant_layers() -> dict[int, list[str]]:
    """Returns the cells of the page's table by the number of rows."""
    rows = table_below(page("layers.md"), "### How long it takes")
    return {int(batch): stated for batch, *stated in rows}


def test_times_of_block_circulant_layers():
    """The first row without the naive flow: as `python -m bench.block_circulant` models it."""
    stated = stated_times_of_block_circulant_layers()
    assert list(stated) == list(times.BATCHES)
    batch, blocks = times.BATCHES[0], times.FEATURES // times.BLOCK
    dense = times.dense_us(batch, times.FEATURES, times.FEATURES)
    modelled = [dense, *times.circulant_us(batch, blocks, blocks, times.BLOCK)]
    assert stated[batch][1:] == [in_words(us) for us in modelled]


@pytest.mark.sweep
@pytest.mark.parametrize("batch", times.BATCHES)
def test_all_times_of_block_circulant_layers(batch):
    blocks = times.FEATURES // times.BLOCK
    naive = sum(times.naive_us(batch, blocks, blocks, times.BLOCK).values())
    dense = times.dense_us(batch, times.FEATURES, times.FEATURES)
    modelled = [naive, dense, *times.circulant_us(batch, blocks, blocks, times.BLOCK)]
    assert stated_times_of_block_circulant_layers()[batch] == [in_words(us) for us in modelled]


def in_words(us: float) -> str:
    """Returns microseconds with their unit: "95 us", "922 us", "58.9 ms"."""
    return f"{us:.0f} us" if us < 1000 else f"{us / 1e3:.3g} ms"


@pytest.mark.parametrize("count", [3, whole(len(row_guard.CASES))])
def test_what_keeping_rows_independent_costs(count):
    """By `python -m bench.tables row-guard`: a third at most, and as much in the third case."""
    text = " ".join(page("precision.md").split())
    assert "this adds up to a third to the modelled time of a kernel (`python -m bench" in text
    ratios = []
    for case in row_guard.CASES[:count]:
        plain, guarded = row_guard.modelled_ns(*case)
        ratios.append(guarded / plain)
    assert 1.3 < max(ratios) < 1.35


def test_errors_of_resampled_filters():
    rows = table_below(page("convolution.md"), "`resampled` interpolates the spectrum")
    assert len(rows) == 3
    for name, *stated in rows:
        function, *sizes = re.findall(r"\w+", name)
        psf = getattr(trnfft.point_spread_functions, function)(*map(int, sizes)).double()
        errors = [error_of_resampling(source, psf) for source in ((1, 1), (260, 260))]
        assert stated == [f"{100 * error:.2g}%" for error in errors]
        padded = [trnfft.BloomFilter(psf, source).padded_size for source in ((1, 1), (260, 260))]
        assert padded == [(72, 72), (300, 300)]


def error_of_resampling(source: tuple[int, int], psf: torch.Tensor) -> float:
    """Returns the error of a filter made for pictures of `source`, on one with bright points."""
    image = torch.rand(60, 84, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) ** 8
    image[20, 30] = 100
    exact = trnfft.BloomFilter(psf, (60, 84))(image)
    return relative_error(trnfft.BloomFilter(psf, source).resampled((60, 84))(image), exact)


@pytest.mark.parametrize("backend", ["torch", "matmul", "nki-sim"])
@pytest.mark.parametrize("lengths", [(127,), whole((16, 127, 255, 256))], ids=str)
def test_errors_of_cosine_and_sine_transforms(lengths, backend):
    """Of these lengths, the prime 127 has the largest errors."""
    stated = r"is below (\S+) for all types up to 256 points, .*, and so\s+is that of `rfft`\."
    quoted = float(re.search(stated, page("more_transforms.md"))[1])
    errors, errors_of_rfft = [], []
    for n in lengths:
        single = torch.randn(16, n, generator=torch.Generator().manual_seed(n))
        exact = single.numpy().astype(float)
        with trnfft.backend(backend):
            for name, type in itertools.product(("dct", "dst"), (1, 2, 3, 4)):
                expected = getattr(scipy.fft, name)(exact, type=type)
                errors.append(relative_error(getattr(trnfft, name)(single, type=type), expected))
            half = trnfft.as_native(trnfft.rfft(single))
        errors_of_rfft.append(relative_error(half, np.fft.rfft(exact)))
    holds(max(errors), quoted)
    holds(max(errors_of_rfft), quoted)


@pytest.mark.sweep
def test_times_of_bloom():
    """As `python -m bench.tables bloom` models them, of pictures stored by rows."""
    rows = table_below(page("convolution.md"), "### How long it takes")
    assert len(rows) == len(bloom.CASES)
    for case, (name, *stated) in zip(bloom.CASES, rows, strict=True):
        assert name == f"{case.size[1]}x{case.size[0]}, {case.side}x{case.side}"
        modelled = []
        for chip in bloom.CHIPS:
            modelled += [bloom.ours(chip, case, "rows")[0], bloom.naive(chip, case)]
        assert stated == [*(f"{ns / 1e6:.2f}" for ns in modelled), f"{case.article_ms:g}"]


def both_ways(plan):
    """The modelled times of one launch and of separate launches, as the page of layers has them."""
    best = {}
    for one in plan.candidates:
        if one.predicted_ns is not None:
            best.setdefault(one.recipe.algorithm, one.predicted_ns)
    apart = best.pop(SEPARATE)
    return f"{min(best.values()) / 1e3:.0f} / {apart / 1e3:.0f} us"


def test_the_tables_of_layers():
    text = page("layers.md")
    layers = (
        ((64, 64), (1024,), (16,), 32),
        ((32, 32), (64, 64), (24, 12), 16),
        ((16, 16), (32, 32, 32), (16, 16, 8), 4),
    )
    rows = table_below(text, "The table has modelled times on one core, without launches: of the")
    pairs = zip(rows[::2], rows[1::2], strict=True)
    for (channels, lengths, kept, batch), pair in zip(layers, pairs, strict=True):
        for of_kind, record in zip(pair, (SpectralLayer, SpectralGradients), strict=True):
            kind = record(*channels, lengths, kept)
            assert of_kind[2:] == [
                both_ways(plan_for(kind, batch=batch, target=chip, cores=1))
                for chip in hardware.NAMES
            ]
    rows = table_below(text, "The table has modelled times on one core, without launches, for 6000")
    results = (Frames(512, 128, None), Frames(512, 128), Frames(512, 128, bands=80))
    for result, row in zip(results, rows, strict=True):
        assert row[1:] == [
            both_ways(plan_for(result, batch=6000, target=chip, cores=1)) for chip in hardware.NAMES
        ]
