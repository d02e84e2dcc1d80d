"""Tables that do not fit into SBUF are streamed, and give the same numbers."""

from __future__ import annotations

import math

import pytest

from nki_kernels.base import launch
from nki_kernels.fft import four_step, row_transforms
from tests import sweeps

from .launched import BF16, REFINED, Launched
from .samples import normal


@sweeps.some(
    "radices, batch, options",
    [
        (*case, options)
        for case in (((4, 8, 16), 300), ((3, 90), 260), ((2, 65), 2))
        for options in ({}, BF16, REFINED)
    ],
    [((4, 8, 16), 300, {}), ((3, 90), 260, BF16), ((3, 90), 260, REFINED), ((2, 65), 2, {})],
).with_args(ids=str)
def test_stockham(monkeypatch, radices, batch, options):
    launched, x = Launched("stockham"), normal(batch, math.prod(radices))
    before = launched.check(x, radices, **options)
    monkeypatch.setattr(row_transforms, "SMALLEST_SBUF", 0)
    after = launched.check(x, radices, **options)
    assert after.sbuf_peak_bytes != before.sbuf_peak_bytes


@pytest.mark.parametrize(("n", "radices", "batch"), [(131, (66, 4), 600), (7, (16,), 2)])
def test_bluestein(monkeypatch, n, radices, batch):
    monkeypatch.setattr(row_transforms, "SMALLEST_SBUF", 0)
    timeline = Launched("bluestein").check(normal(batch, n), radices)
    copies = [event.name for event in timeline.events if event.engine == "gpsimd"]
    assert copies == ["tensor_copy"]  # of the identity; those of tables are what is to stay


@pytest.mark.weekly
@sweeps.some(
    "radices, chip, cores",
    [
        (radices, *launch)
        for radices in ((16, 8, 20), (20, 25, 3, 11), (10, 70, 12))
        for launch in (("trn1", 1), ("trn2", 1), ("trn2", 2), ("trn3", 2))
    ],
    [((16, 8, 20), "trn1", 1), ((20, 25, 3, 11), "trn1", 1), ((10, 70, 12), "trn2", 2)],
).with_args(ids=str)
def test_four_step_in_a_loop(monkeypatch, chip, cores, radices):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 100)
    launched = Launched("four_step", chip, cores)
    shape = 7 if len(radices) == 4 else 21, math.prod(radices)
    resident = launched.dry_run(shape, radices).hbm_bytes
    monkeypatch.setattr(four_step, "SMALLEST_SBUF", 0)
    assert launched.check(normal(*shape), radices).hbm_bytes > resident
